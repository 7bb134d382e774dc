"""How much of a checkout the CUDA front end reads.

``python benchmarks/frontend.py PATH... [--found 100] [--clean 95] [--files 95] [--verbose]``

Kernels are counted a second time by a plain text scan that shares no code with the front end: a ``__global__`` (or a
macro that stands for it) followed by a parameter list and a body, comments, literals and directives stripped.
Exit status 1 when a checkout falls below a threshold (percent; of files, kernels found and kernels parsed clean).
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from pathlib import Path

from prelaunch.analysis.frontends.cuda import load_project
from prelaunch.analysis.frontends.cuda.text.project import Project

_LITERAL = re.compile(
    r'//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\r?\n|\\.)*", re.MULTILINE)
_OBJECT = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]((?:[^\n\\]|\\\r?\n|\\.)*)", re.MULTILINE)
_ATTRIBUTES = {"__launch_bounds__", "__cluster_dims__", "__attribute__", "__block_size__", "__maxnreg__", "__align__"}


def kernel_names(text: str, aliases: set[str]) -> list[str]:
    """Names of the kernels that ``text`` defines, in order."""
    plain = _LITERAL.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    plain = _DIRECTIVE.sub(" ", plain)
    words = "|".join(map(re.escape, sorted({"__global__"} | aliases)))
    names = []
    for match in re.finditer(rf"(?<!\w)(?:{words})(?!\w)", plain):
        name = _definition(plain, match.end())
        if name:
            names.append(name)
    return names


def _definition(text: str, at: int) -> str | None:
    """The name of the function whose declaration goes on at ``at``, when it has a body."""
    token = re.compile(r"\s*(?:([A-Za-z_]\w*)|(.))", re.DOTALL)
    word = ""
    while match := token.match(text, at):
        at = match.end()
        if match.group(1):
            word = match.group(1)
        elif match.group(2) == "(":
            at = _closing(text, at)
            if word not in _ATTRIBUTES:
                return word if word and re.match(r"\s*\{", text[at : at + 4000]) else None
        elif match.group(2) in ";{}=":
            return None
    return None


def _closing(text: str, at: int) -> int:
    depth = 1
    for match in re.compile(r"[()]").finditer(text, at):
        depth += 1 if match.group() == "(" else -1
        if depth == 0:
            return match.end()
    return len(text)


def textual_count(root: Path, project: Project) -> dict[str, Counter[str]]:
    texts = {path: (root / path).read_bytes().decode("utf-8", "replace") for path in project.files}
    aliases: set[str] = set()
    for text in texts.values():
        plain = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
        aliases |= {m.group(1) for m in _OBJECT.finditer(plain) if re.search(r"\b__global__\b", m.group(2))}
        aliases -= {m.group(1) for m in _OBJECT.finditer(plain) if "{" in m.group(2)}
    return {path: Counter(kernel_names(text, aliases)) for path, text in texts.items()}


def measure(root: Path, verbose: bool) -> dict[str, float]:
    start = time.process_time()
    project = load_project(root)
    seconds = time.process_time() - start
    size = sum(len(f.code) for f in project.files.values())
    kernels = project.kernels()
    expected = textual_count(root, project)
    ours = {path: Counter(k.name for k in kernels if k.file.source.path == path) for path in project.files}
    total = sum(sum(c.values()) for c in expected.values())
    missing = {path: counted - ours[path] for path, counted in expected.items() if counted - ours[path]}
    found = total - sum(sum(c.values()) for c in missing.values())
    clean = sum(k.confidence == "clean" for k in kernels)
    clean_files = sum(not f.errors for f in project.files.values())
    cuda = [f for f in project.files.values() if f.source.path.endswith((".cu", ".cuh"))]
    clean_cuda = sum(not f.errors for f in cuda)
    print(
        f"{root.name}: {len(project.files)} files, {clean_files} clean ({clean_cuda}/{len(cuda)} of .cu and .cuh); "
        f"kernels {len(kernels)}, of {total} counted in the text {found} found; {clean} clean; "
        f"{seconds:.1f} s of processor, {size / 1e6 / max(seconds, 1e-9):.2f} MB/s"
    )
    for path, counted in missing.items():
        print(f"  not found: {path}: {', '.join(sorted(counted.elements()))}")
    for kernel in kernels:
        if kernel.confidence != "clean":
            print(f"  {kernel.span}: {kernel.qualified}: {kernel.confidence}")
    if verbose:
        for file in project.files.values():
            for error in file.errors[:3]:
                print(f"  error: {error}: {file.source.line(error.line).strip()[:100]}")
    return {
        "found": 100.0 * found / total if total else 100.0,
        "clean": 100.0 * clean / len(kernels) if kernels else 100.0,
        "files": 100.0 * clean_cuda / len(cuda) if cuda else 100.0,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--found", type=float, default=0.0, help="least percent of kernels found")
    parser.add_argument("--clean", type=float, default=0.0, help="least percent of kernels parsed clean")
    parser.add_argument("--files", type=float, default=0.0, help="least percent of .cu and .cuh files parsed clean")
    parser.add_argument("--verbose", action="store_true", help="print the first errors of every file")
    options = parser.parse_args()
    failed = False
    for path in options.paths:
        figures = measure(path.resolve(), options.verbose)
        for name, value in figures.items():
            if value < getattr(options, name):
                print(f"  below the threshold: {name} {value:.1f} % < {getattr(options, name)} %")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
