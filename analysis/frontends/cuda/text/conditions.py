"""``#if`` groups of a file and which branch a compiler would take.

A branch is chosen as nvcc would choose it in its device pass without ``-D``: macros of the file above the line, then
of the files it includes, then ``PREDEFINED``; every other name is undefined. ``certain`` says that no such undefined
name, which a build may define, took part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from prelaunch.analysis.frontends.cuda.text.declarations import Macro
from prelaunch.analysis.frontends.cuda.text.lexing import Directive
from prelaunch.analysis.frontends.cuda.text.macros import Expander, MacroLimit
from prelaunch.analysis.frontends.cuda.text.tokens import Token, tokenize
from prelaunch.analysis.source import NOWHERE

PREDEFINED: Mapping[str, str] = {
    "__CUDACC__": "1",
    "__NVCC__": "1",
    "__CUDA_ARCH__": "900",
    "__CUDACC_VER_MAJOR__": "13",
    "__CUDACC_VER_MINOR__": "0",
    "CUDART_VERSION": "13000",
    "CUDA_VERSION": "13000",
    "__cplusplus": "201703L",
    "__STDC__": "1",
    "__GNUC__": "13",
    "__linux__": "1",
    "__linux": "1",
    "__unix__": "1",
    "__unix": "1",
    "__x86_64__": "1",
    "__x86_64": "1",
    "__LP64__": "1",
    "_LP64": "1",
}
_UNDEFINED = """
_WIN32 WIN32 _WIN64 WIN64 __WIN32__ _MSC_VER __MINGW32__ __CYGWIN__ __APPLE__ __MACOSX __MACOSX__ __ANDROID__
__HIPCC__ __HIP__ __HIP_PLATFORM_AMD__ __HIP_PLATFORM_HCC__ __HIP_DEVICE_COMPILE__ __clang__ __INTEL_COMPILER
__CUDACC_RTC__ __QNX__ __aarch64__ __arm__ __STRICT_ANSI__ __SYCL_DEVICE_ONLY__ __NVCOMPILER __PGI
"""
UNDEFINED = frozenset(_UNDEFINED.split())
"""Names that are surely undefined for nvcc on x86-64 Linux."""

_TOKEN_CAP = 2_000
_DEPTH_CAP = 64


@dataclass(slots=True)
class Branch:
    """Text ``[start, end)`` between two directives of a group; ``line`` is the directive that opens it."""

    line: Directive
    start: int
    end: int = -1
    taken: bool = True
    certain: bool = True


@dataclass(slots=True)
class Group:
    """``#if`` to ``#endif``; ``close`` is None when the file ends first."""

    branches: list[Branch] = field(default_factory=list)
    close: Directive | None = None
    depth: int = 0
    guard: bool = False  # the include guard around the whole file
    chosen: bool = False
    certain: bool = True  # of the branches decided so far


def scan_groups(size: int, found: list[Directive], masked: bytes) -> list[Group]:
    """Conditional groups in order of their ``#if``; unmatched ``#else``/``#endif`` are left out."""
    groups: list[Group] = []
    stack: list[Group] = []
    for directive in found:
        if directive.name in ("if", "ifdef", "ifndef"):
            group = Group([Branch(directive, directive.end)], depth=len(stack))
            stack.append(group)
            groups.append(group)
        elif directive.name in ("elif", "else", "elifdef", "elifndef") and stack:
            stack[-1].branches[-1].end = directive.start
            stack[-1].branches.append(Branch(directive, directive.end))
        elif directive.name == "endif" and stack:
            group = stack.pop()
            group.branches[-1].end = directive.start
            group.close = directive
    for group in stack:
        group.branches[-1].end = size
    if groups and groups[0].branches[0].line.name == "ifndef" and found[0] is groups[0].branches[0].line:
        group = groups[0]
        name = _word(masked, found[0])
        defines = len(found) > 1 and found[1].name == "define" and _word(masked, found[1]).partition("(")[0] == name
        group.guard = defines and len(group.branches) == 1 and (group.close is None or group.close is found[-1])
    return groups


def _word(masked: bytes, directive: Directive) -> str:
    words = masked[directive.argument : directive.end].split(maxsplit=1)
    return words[0].decode("utf-8", "replace") if words else ""


Lookup = Callable[[str], Macro | None]


def decide(
    found: list[Directive],
    groups: list[Group],
    masked: bytes,
    macros: Iterable[Macro],
    outside: Lookup,
) -> tuple[dict[str, Macro | None], set[int]]:
    """Sets ``taken`` and ``certain`` of every branch; returns what the file leaves defined (None: undefined by it)
    and the offsets of the bodies of definitions that are read.

    ``macros`` are the file's own definitions in order; ``outside`` finds those of included and predefined ones.
    """
    own: dict[str, Macro | None] = {}
    read: set[int] = set()

    def lookup(name: str) -> Macro | None:
        return own[name] if name in own else outside(name)

    by_line = {branch.line.start: (group, branch) for group in groups for branch in group.branches}
    closes = {group.close.start for group in groups if group.close is not None}
    definitions = iter(sorted(macros, key=lambda m: m.span.start))
    pending = next(definitions, None)
    active = [True]
    for directive in found:
        if directive.start in by_line:
            group, branch = by_line[directive.start]
            first = group.branches[0] is branch
            if not first:
                active.pop()
            _choose(group, branch, masked, lookup)
            active.append(active[-1] and branch.taken)
        elif directive.start in closes:
            active.pop()
        elif directive.name == "define":
            while pending is not None and pending.span.start < directive.argument:
                pending = next(definitions, None)
            if pending is not None and pending.span.start <= directive.end and active[-1]:
                own[pending.name] = pending
                read.add(pending.span.start)
        elif directive.name == "undef" and active[-1]:
            own[_word(masked, directive)] = None
    return own, read


def _choose(group: Group, branch: Branch, masked: bytes, lookup: Lookup) -> None:
    """Decides one branch; branches come in order, so ``group`` knows of the earlier ones."""
    if group.guard:
        return
    name = _word(masked, branch.line)
    if group.chosen or branch.line.name == "else":
        value, certain = True, True
    elif branch.line.name in ("ifdef", "elifdef"):
        value, certain = _defined(name, lookup)
    elif branch.line.name in ("ifndef", "elifndef"):
        value, certain = _defined(name, lookup)
        value = not value
    else:
        text = masked[branch.line.argument : branch.line.end].replace(b"\\\r\n", b"").replace(b"\\\n", b"")
        value, certain = evaluate(text.decode("utf-8", "replace"), lookup)
    group.certain = branch.certain = group.certain and certain
    branch.taken = value and not group.chosen
    group.chosen = group.chosen or value


def _defined(name: str, lookup: Lookup) -> tuple[bool, bool]:
    known = lookup(name) is not None
    return known, known or name in UNDEFINED


def evaluate(expression: str, lookup: Lookup) -> tuple[bool, bool]:
    """Value of an ``#if`` expression and whether it is certain; one that cannot be evaluated is (False, False)."""
    tokens = tokenize(expression)
    if len(tokens) > _TOKEN_CAP:
        return False, False
    certain = [True]
    try:
        resolved = Expander(lookup).expand(_resolve_defined(tokens, lookup, certain))
        value = _Evaluator(resolved, certain).run()
    except (MacroLimit, _Malformed):
        return False, False
    return value != 0, certain[0]


def _resolve_defined(tokens: list[Token], lookup: Lookup, certain: list[bool]) -> list[Token]:
    result: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.text in ("defined", "__has_include", "__has_feature", "__has_attribute", "__has_builtin"):
            parens = index + 1 < len(tokens) and tokens[index + 1].text == "("
            if token.text != "defined":
                certain[0] = False
                end = index + 1
                while end < len(tokens) and tokens[end].text != ")":
                    end += 1
                result.append(Token("number", "0"))
                index = end + 1
                continue
            at = index + 1 + parens
            name = tokens[at].text if at < len(tokens) else ""
            known, sure = _defined(name, lookup)
            certain[0] = certain[0] and sure
            result.append(Token("number", "1" if known else "0"))
            index = at + 1 + parens
        else:
            result.append(token)
            index += 1
    return result


class _Malformed(Exception):
    pass


_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||", "or"),
    ("&&", "and"),
    ("|", "bitor"),
    ("^", "xor"),
    ("&", "bitand"),
    ("==", "!=", "not_eq"),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_RANK = {op: rank for rank, ops in enumerate(_LEVELS) for op in ops}


class _Evaluator:
    """Precedence climbing over expanded tokens; integers wrap at 64 bits."""

    def __init__(self, tokens: list[Token], certain: list[bool]) -> None:
        self.tokens = tokens
        self.at = 0
        self.certain = certain

    def run(self) -> int:
        value = self.ternary(0)
        if self.at != len(self.tokens):
            raise _Malformed
        return value

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def ternary(self, depth: int) -> int:
        if depth > _DEPTH_CAP:
            raise _Malformed
        value = self.binary(0, depth)
        if self.peek() == "?":
            self.at += 1
            then = self.ternary(depth + 1)
            if self.peek() != ":":
                raise _Malformed
            self.at += 1
            orelse = self.ternary(depth + 1)
            return then if value else orelse
        return value

    def binary(self, lowest: int, depth: int) -> int:
        value = self.unary(depth)
        while (rank := _RANK.get(self.peek(), -1)) >= lowest:
            op = self.peek()
            self.at += 1
            before = self.certain[0]
            right = self.binary(rank + 1, depth + 1)
            if (op in ("||", "or") and value) or (op in ("&&", "and") and not value):
                self.certain[0] = before
            value = _apply(op, value, right)
        return value

    def unary(self, depth: int) -> int:
        if depth > _DEPTH_CAP:
            raise _Malformed
        token = self.tokens[self.at] if self.at < len(self.tokens) else Token("mark", "")
        self.at += 1
        match token.text:
            case "(":
                value = self.ternary(depth + 1)
                if self.peek() != ")":
                    raise _Malformed
                self.at += 1
                return value
            case "!" | "not":
                return int(not self.unary(depth + 1))
            case "-":
                return _wrap(-self.unary(depth + 1))
            case "+":
                return self.unary(depth + 1)
            case "~" | "compl":
                return ~self.unary(depth + 1)
            case "true":
                return 1
            case "false":
                return 0
        if token.kind == "number":
            return integer(token.text)
        if token.kind == "text" and token.text.startswith("'") and len(token.text) == 3:
            return ord(token.text[1])
        if token.kind == "name":
            if token.text not in UNDEFINED:
                self.certain[0] = False
            if self.peek() == "(":
                raise _Malformed
            return 0
        raise _Malformed


def integer(text: str) -> int:
    digits = text.replace("'", "").rstrip("uUlLzZ")
    try:
        if digits[:1] == "0" and digits[1:].isdigit():
            return _wrap(int(digits, 8))
        return _wrap(int(digits[:64], 0))
    except ValueError:
        raise _Malformed from None


def _wrap(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _apply(op: str, a: int, b: int) -> int:
    match op:
        case "||" | "or":
            return int(bool(a or b))
        case "&&" | "and":
            return int(bool(a and b))
        case "|" | "bitor":
            return a | b
        case "^" | "xor":
            return a ^ b
        case "&" | "bitand":
            return a & b
        case "==":
            return int(a == b)
        case "!=" | "not_eq":
            return int(a != b)
        case "<":
            return int(a < b)
        case "<=":
            return int(a <= b)
        case ">":
            return int(a > b)
        case ">=":
            return int(a >= b)
        case "<<":
            return _wrap(a << (b & 63))
        case ">>":
            return a >> (b & 63)
        case "+":
            return _wrap(a + b)
        case "-":
            return _wrap(a - b)
        case "*":
            return _wrap(a * b)
    if b == 0:
        raise _Malformed
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return _wrap(quotient if op == "/" else a - quotient * b)


def predefined(defines: Mapping[str, str] | None = None) -> dict[str, Macro]:
    """``PREDEFINED`` and ``defines`` (as ``-D``) as object-like macros."""
    merged = {**PREDEFINED, **(defines or {})}
    return {name: Macro(name, None, body, NOWHERE) for name, body in merged.items()}
