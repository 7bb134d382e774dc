"""Tolerant rewriting, for files whose strictly rewritten text does not parse.

Each rule finds one shape of C++ that the grammar does not know and proposes length-preserving edits. A rule says
whether text with possible meaning is lost (``why`` is then set and the text is listed as dropped). Rules work on a
``Rewritten.view``: comments, the inside of literals and directives are blanks there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prelaunch.analysis.frontends.cuda.text.declarations import Project
from prelaunch.analysis.frontends.cuda.text.prepass import Parens, Rewritten


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace ``[start, end)`` by ``text`` padded with blanks (line ends stay). ``why``: what that may lose."""

    start: int
    end: int
    text: bytes = b""
    why: str = ""

    def apply(self, to: Rewritten) -> None:
        to.blank(self.start, self.end, record=False)
        if self.text:
            to.put(self.start, self.text)


Rule = Callable[[bytes, "Known"], Iterator[Edit]]


@dataclass(frozen=True, slots=True)
class Known:
    """What rules may ask of the project: macro names as seen from the file."""

    project: Project
    file: str

    def body(self, name: bytes) -> str | None:
        macro = self.project.lookup_macro(name.decode("utf-8", "replace"), self.file)
        return None if macro is None else macro.body

    def is_call(self, name: bytes) -> bool:
        macro = self.project.lookup_macro(name.decode("utf-8", "replace"), self.file)
        return macro is not None and macro.params is not None


_KEYWORD = (
    rb"(?:void|bool|char|short|int|long|float|double|signed|unsigned|auto|static|inline|const|constexpr|extern|struct|"
    rb"class|enum|union|template|typename|typedef|using|virtual|explicit|friend|__global__|__device__|__host__|"
    rb"__forceinline__|__noinline__|__shared__|__constant__)"
)
_CAPS = rb"[A-Z_][A-Z0-9_]{2,}"


def specifier_macros(view: bytes, known: Known) -> Iterator[Edit]:
    """``DEVICE_API void f(``, ``void API f(``, ``HD float4 f(``: unknown words where only specifiers can stand."""
    patterns = (
        rb"(?<![\w:<,.>&*(])(%s)(?=\s+%s\b)(?!\s+const\s*[&*\w]*\s*[,)=;])" % (_CAPS, _KEYWORD),
        rb"\b(?:void|bool|char|int|float|double|long|short|unsigned|%s|\w+_t)\s*[*&]?\s+(%s)(?=\s+~?[A-Za-z_][\w:]*\s*\()"
        % (_CAPS, _CAPS),
        rb"(?<![\w:<,.>&*(])(%s)(?=\s+[A-Za-z_][\w:]*(?:<[^<>;{}()]{0,400}>)?[\s*&]+[A-Za-z_][\w:]*\s*\([^;{}()]{0,2000}\)\s*(?:const\s*)?[{;])"
        % _CAPS,
    )
    for pattern in patterns:
        # blanked text leaves white space without end, over which two adjacent runs would backtrack quadratically
        bounded = pattern.replace(rb"\s+", rb"\s{1,80}").replace(rb"\s*", rb"\s{0,80}")
        for match in re.finditer(bounded, view):
            yield Edit(match.start(1), match.end(1), why=f"unknown macro {match.group(1).decode()}")


def statement_macros(view: bytes, known: Known) -> Iterator[Edit]:
    """``CHECK(x)`` on lines of its own without ``;``: gets one from a blank after it."""
    parens = Parens(view)
    for match in re.finditer(rb"^[ \t]*([A-Za-z_]\w*)[ \t]*\(", view, re.MULTILINE):
        name = match.group(1)
        if name in _STATEMENTS or not (known.is_call(name) or name.upper() == name):
            continue
        if not _ends_statement(view, match.start()):
            continue
        end = parens.close(match.end() - 1)
        if end is None:
            continue
        following = _NEXT.search(view, end)
        at = following.start() if following else len(view)
        between = view[end:at]
        if b"\n" not in between or (following and following.group() not in _STARTS and not _is_word(following.group())):
            continue
        blank = next((i for i in range(end, at) if view[i : i + 1] in (b" ", b"\t")), None)
        if _depth_zero(view, match.start()):
            yield Edit(match.start(1), end, why=f"macro {name.decode()} at file scope")
        elif blank is not None:
            yield Edit(blank, blank + 1, b";")
        else:
            yield Edit(match.start(1), end, why=f"macro {name.decode()} without a semicolon")


_STATEMENTS = frozenset(b"if for while switch return sizeof else do catch defined asm __asm__ case".split())
_NEXT = re.compile(rb"\S")
_STARTS = frozenset((b"}", b"#", b"_", b"~", b":"))


def _is_word(byte: bytes) -> bool:
    return byte.isalpha() or byte == b"_"


def _ends_statement(view: bytes, position: int) -> bool:
    """Whether what comes before ``position`` ends a statement or a block."""
    before = view[max(0, position - 4000) : position].rstrip()
    return not before or before[-1:] in b";{}:" or (before[-1:] == b")" and position - len(before) > 0)


def _depth_zero(view: bytes, position: int) -> bool:
    """Whether ``position`` stands at the left margin, where file-scope macros stand."""
    return position == 0 or (view[position - 1] in b"\r\n" and not view[position : position + 1].isspace())


def lone_macros(view: bytes, known: Known) -> Iterator[Edit]:
    """A line that is only ``PRAGMA_UNROLL`` or ``BEGIN_NAMESPACE``. Pragmas by name change no result of a program."""
    for match in re.finditer(rb"^[ \t]*(%s)[ \t]*;?[ \t]*$" % _CAPS, view, re.MULTILINE):
        before = view[max(0, match.start() - 4000) : match.start()].rstrip()[-1:]
        after = _NEXT.search(view, match.end())
        if before not in (b"", b";", b"{", b"}", b")", b":", b">") or (after and after.group() in b",;)=}.("):
            continue
        if match.group().rstrip().endswith(b";"):
            continue
        body = known.body(match.group(1))
        scope = body is not None and re.fullmatch(r'(?:extern\s*"C"|(?:inline\s+)?namespace\s[\w:\s]*|[{}\s])*', body)
        harmless = scope or b"UNROLL" in match.group(1) or b"PRAGMA" in match.group(1)
        yield Edit(match.start(1), match.end(1), why="" if harmless else f"unknown macro {match.group(1).decode()}")


def test_macros(view: bytes, known: Known) -> Iterator[Edit]:
    """``TEST(Suite, 128x64) {``: arguments that are no parameters."""
    for match in re.finditer(rb"^(%s|TYPED_TEST\w*)\(([^;{}()]{0,2000})\)\s*\{" % _CAPS, view, re.MULTILINE):
        yield Edit(match.start(2), match.end(2), why="arguments of a test macro")


def lambda_attributes(view: bytes, known: Known) -> Iterator[Edit]:
    """``[=] __device__ (int i) {``."""
    pattern = rb"\]\s*((?:__(?:device|host)__\s*)+)(?=[({])"
    for match in re.finditer(pattern, view):
        yield Edit(match.start(1), match.end(1))


def typename_expressions(view: bytes, known: Known) -> Iterator[Edit]:
    """``= typename A::B{}``."""
    pattern = rb"(?:\breturn\b|[=+\-*/(,&|?:!])\s*(typename)\s+[\w:]+(?:<[^;{}()]{0,2000}>)?(?:::\w+)*\s*[({]"
    for match in re.finditer(pattern, view):
        yield Edit(match.start(1), match.end(1))


def class_instantiations(view: bytes, known: Known) -> Iterator[Edit]:
    """``template class X<T>;``."""
    for match in re.finditer(rb"\b((?:extern\s+)?template)\s+(?:class|struct|union)\b[^;{}()]{0,2000};", view):
        yield Edit(match.start(1), match.end(1))


_PRIMITIVE = rb"(?:(?:unsigned|signed|const)\s+)*(?:void|bool|char|short|int|long\s+long|long|float|double|unsigned)"


def type_arguments(view: bytes, known: Known) -> Iterator[Edit]:
    """``MACRO(x, unsigned int)``, ``typeid(double)``: a type where the grammar wants an expression."""
    parens = Parens(view)
    for match in re.finditer(rb"\b(typeid|va_arg|offsetof|%s)\s*\(" % _CAPS, view):
        end = parens.close(match.end() - 1)
        if end is None or (
            match.group(1) not in (b"typeid", b"va_arg", b"offsetof") and not known.is_call(match.group(1))
        ):
            continue
        for inner in re.finditer(
            rb"(?<=[(,])\s*(%s)(?:\s*(\*+))?\s*(?=[,)])" % _PRIMITIVE, view[match.end() - 1 : end]
        ):
            start = match.end() - 1 + inner.start(1)
            stop = match.end() - 1 + max(inner.end(1), inner.end(2))
            text = re.sub(rb"\W", b"_", view[start:stop])
            if b"\n" not in view[start:stop]:
                yield Edit(start, stop, b"$" + text[1:])


def restrict_macros(view: bytes, known: Known) -> Iterator[Edit]:
    """``float *RESTRICT p`` where no definition is in sight."""
    for match in re.finditer(rb"[*&]\s*(?:const\s+)?(\w*RESTRICT\w*)(?=\s*\w*\s*[,)=;\[])", view):
        yield Edit(match.start(1), match.end(1), b"restrict" if match.end(1) - match.start(1) >= 8 else b"")


def requires_clauses(view: bytes, known: Known) -> Iterator[Edit]:
    """``requires (N > 0)`` after a template head."""
    parens = Parens(view)
    for match in re.finditer(rb"\brequires\b(?=\s*\()", view):
        end = parens.close(match.end())
        if end is not None:
            yield Edit(match.start(), end)


def new_arrays(view: bytes, known: Known) -> Iterator[Edit]:
    """``new T *[n]``: the grammar has no pointer there. Host code only, the element stays pointer-sized or smaller."""
    for match in re.finditer(rb"\bnew\s+(?:const\s+)?\w[\w:]*\s*(\*+)\s*(?=\[)", view):
        yield Edit(match.start(1), match.end(1), why="pointer in a new expression")


def adjacent_strings(view: bytes, known: Known) -> Iterator[Edit]:
    """``"%" PRIu64 "\\n"`` and ``"at "FORMAT``: macros glued to literals, which read as literal suffixes."""
    for match in re.finditer(rb'"\s*([A-Za-z_]\w*)(?=\s*["),])', view):
        body = known.body(match.group(1))
        if match.group(1).startswith((b"PRI", b"SCN")) or (body is not None and body.startswith('"')):
            yield Edit(match.start(1), match.end(1))


def name_guards(view: bytes, known: Known) -> Iterator[Edit]:
    """``min NOTHING (a, b)``: an empty macro between a name and its parenthesis."""
    for match in re.finditer(rb"\b(?:min|max)\s+(%s)(?=\s*\()" % _CAPS, view):
        yield Edit(match.start(1), match.end(1))


RULES: tuple[Rule, ...] = (
    specifier_macros,
    statement_macros,
    lone_macros,
    test_macros,
    lambda_attributes,
    typename_expressions,
    class_instantiations,
    type_arguments,
    restrict_macros,
    requires_clauses,
    new_arrays,
    adjacent_strings,
    name_guards,
)


def propose(rewritten: Rewritten, known: Known, rule: Rule) -> list[Edit]:
    """Edits of one rule that do not overlap, in text order."""
    result: list[Edit] = []
    for edit in sorted(rule(bytes(rewritten.view), known), key=lambda e: (e.start, e.end)):
        if not result or edit.start >= result[-1].end:
            result.append(edit)
    return result


_PRAGMA_AFTER = re.compile(rb"(?:\)|\belse|\bdo)\s*$")


def loop_pragmas(rewritten: Rewritten, pragmas: list[tuple[int, int]]) -> list[Edit]:
    """``#pragma`` lines between a loop header and its unbraced body."""
    view = bytes(rewritten.view)
    found = []
    for start, end in pragmas:
        if _PRAGMA_AFTER.search(view[max(0, start - 2000) : start].rstrip()):
            found.append(Edit(start, end))
    return found
