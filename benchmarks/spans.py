"""Re-reads the text at every span of a checkout: ``python benchmarks/spans.py PATH... [--declarations] [--show 10]``.

For every declaration and, unless ``--declarations``, every node of every lowered kernel: the span lies in a file of the
project, its lines and columns are those of its offsets (worked out here from the bytes, not by the code under test),
and where the node is a name the text is that name, or its use when it comes from a macro (the spelling is then checked
as well). Call sites of inlined functions are checked the same way. Exit status 1 when one is wrong.
"""

from __future__ import annotations

import argparse
import bisect
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from prelaunch.analysis.frontends.cuda import load_project, lower_kernel
from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl, Project
from prelaunch.analysis.kernel import Kernel, Var
from prelaunch.analysis.source import NOWHERE, Span
from prelaunch.analysis.walk import defined, operands, walk, walk_expr


class Checker:
    """Counts spans seen and keeps what is wrong with them."""

    def __init__(self, root: Path, project: Project) -> None:
        self.data = {path: (root / path).read_bytes() for path in project.files}
        self.starts = {path: line_starts(data) for path, data in self.data.items()}
        self.count: Counter[str] = Counter()
        self.wrong: list[str] = []

    def check(self, what: str, span: Span, name: str = "") -> None:
        self.count[what] += 1
        problem = self.problem(span) or (self.misnamed(span, name) if name else "")
        for site in span.call_path():
            problem = problem or self.problem(site)
        if problem:
            self.wrong.append(f"{what} {span}: {problem}")

    def problem(self, span: Span) -> str:
        data = self.data.get(span.file)
        if data is None:
            return f"no file {span.file!r}"
        if not 0 <= span.start <= span.end <= len(data):
            return f"offsets {span.start}..{span.end} outside the file"
        for offset, line, column in ((span.start, span.line, span.column), (span.end, span.end_line, span.end_column)):
            at = bisect.bisect_right(self.starts[span.file], offset) - 1
            if (line, column) != (at + 1, offset - self.starts[span.file][at] + 1):
                return f"offset {offset} is not {line}:{column}"
        return self.problem(span.spelling) if span.spelling is not None else ""

    def misnamed(self, span: Span, name: str) -> str:
        """A name is found in the text of the node's place, or in the macro text it comes from."""
        texts = [self.text(span)] + ([self.text(span.spelling)] if span.spelling is not None else [])
        if re.fullmatch(r"\w+", texts[0]) and re.search(rb"&\s*" + texts[0].encode() + rb"\b", self.data[span.file]):
            self.count["through a reference"] += 1  # the text is the reference's name, the node what it refers to
            return ""
        words = {word for text in texts for word in re.findall(r"~?\w+|operator\W+", text)}
        joined = any(name.startswith(word) or name.endswith(word) for word in words) and span.spelling is not None
        return (
            ""
            if name in words or joined or any(name in text for text in texts)
            else f"{name!r} not in {texts[0][:60]!r}"
        )

    def text(self, span: Span) -> str:
        return self.data[span.file][span.start : span.end].decode("utf-8", "replace")


def line_starts(data: bytes) -> list[int]:
    return [0, *(match.end() for match in re.finditer(rb"\r\n|\n|\r", data))]


def check_declarations(project: Project, checker: Checker) -> None:
    for functions in project.functions.values():
        for function in functions:
            checker.check("function", function.span, function.name)
            # the name of a conversion operator is its type, which stands before the declarator
            named = "" if function.name.startswith("operator ") else function.name
            checker.check("declarator", function.file.span(function.declarator), named)
            for parameter in function.parameters:
                checker.check("parameter", function.file.span(parameter))
    for records in project.records.values():
        for record in records:
            checker.check("record", record.file.span(record.node), record.name)
    for aliases in project.aliases.values():
        for alias in aliases:
            checker.check("alias", alias.file.span(alias.node), alias.name)
    for variables in project.variables.values():
        for variable in variables:
            checker.check("variable", variable.file.span(variable.declarator), variable.name)
    for macros in project.macros.values():
        for macro in macros:
            checker.check("macro", macro.span)


def nodes(kernel: Kernel) -> Iterator[tuple[str, Span, str]]:
    """Every node of a kernel: its kind, its span and, for names that stand in the text, the name."""
    yield "kernel", kernel.span, kernel.name.rpartition("::")[2]
    for index, formal in enumerate(kernel.formals):
        yield "formal", formal.span, "" if formal.name == f"arg{index}" else formal.name  # unnamed in the text
    for item in kernel.objects:
        yield "object", item.span, ""
    for stmt in walk(kernel.body):
        yield type(stmt).__name__, stmt.span, ""
        for var in defined(stmt):
            yield "variable", var.span, ""
        for expr in (e for operand in operands(stmt) for e in walk_expr(operand)):
            simple = isinstance(expr, Var) and re.fullmatch(r"\w+", expr.name) is not None
            yield type(expr).__name__, expr.span, expr.name if isinstance(expr, Var) and simple else ""


def check_kernel(project: Project, function: FunctionDecl, checker: Checker) -> None:
    seen: set[tuple[str, Span, str]] = set()
    head = function.template.child_by_field_name("parameters") if function.template is not None else None
    unbound = set(re.findall(r"\w+", function.file.text(head))) if head is not None else set()
    for kind, span, name in nodes(lower_kernel(project, function)):
        node = (kind, span, "" if name in unbound else name)  # its value may stand under other parameters' names
        if node[1] is NOWHERE or node[1] == NOWHERE:
            checker.count["without a place"] += 1
        elif node not in seen:
            seen.add(node)
            checker.check(*node)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--declarations", action="store_true", help="leave the nodes of lowered kernels out")
    parser.add_argument("--show", type=int, default=10, help="how many wrong spans to print")
    options = parser.parse_args()
    failed = False
    for path in options.paths:
        root = path.resolve()
        project = load_project(root)
        checker = Checker(root, project)
        check_declarations(project, checker)
        for kernel in [] if options.declarations else project.kernels():
            check_kernel(project, kernel, checker)
        total = sum(checker.count.values())
        print(f"{root.name}: {total} spans, {len(checker.wrong)} wrong")
        print("  " + ", ".join(f"{kind} {count}" for kind, count in sorted(checker.count.items())))
        for line in checker.wrong[: options.show]:
            print(f"  {line}")
        failed = failed or bool(checker.wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
