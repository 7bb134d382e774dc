"""Launches found in host code, against a textual count that knows nothing of the front end.

    python benchmarks/launches.py [--sample N] [--sites] PATH...

Per checkout: launch sites in the text (``<<<`` and launch functions, comments, strings and macro bodies stripped) and
how many of them ``find_launches`` has; the share whose block, grid and shared memory are numbers in every context,
in some, or in none; why the rest is not decided, ranked. ``--sites`` lists missed sites, ``--sample N`` prints N
resolved launches spread over the checkout, to be read against the source. Exit status 1 when a site is missed.
"""

from __future__ import annotations

import argparse
import collections
import re
import time
from collections.abc import Callable
from pathlib import Path

from prelaunch.analysis.frontends.cuda import load_project
from prelaunch.analysis.frontends.cuda.text.project import Project
from prelaunch.analysis.host import find_launches
from prelaunch.analysis.kernel import Const
from prelaunch.analysis.launch import Launch

STRIP = re.compile(rb'//(?:\\\r?\n|[^\n])*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
DEFINE = re.compile(rb"^[ \t]*#[ \t]*define\b(?:\\\r?\n|[^\n])*", re.MULTILINE)
DEAD = re.compile(rb"^[ \t]*#[ \t]*if[ \t]+0\b.*?^[ \t]*#[ \t]*(?:endif|else|elif)\b", re.MULTILINE | re.DOTALL)
SITE = re.compile(
    rb"<<<(?!<)|\b(?:cudaLaunchKernel(?:ExC?)?|cudaLaunchCooperativeKernel|cuLaunchKernel(?:Ex)?)\s*(?:<[^<>()]*>)?\s*\("
)

WORDS = re.compile(r"\b(of|written by|result of|parameter|object of type) \S+")

MEASURES: dict[str, Callable[[Launch], bool]] = {
    "block": lambda launch: launch.known_block() is not None,
    "grid": lambda launch: launch.known_grid() is not None,
    "shared memory": lambda launch: isinstance(launch.dynamic_smem, Const),
    "error read": lambda launch: launch.checked,
}


def blank(match: re.Match[bytes]) -> bytes:
    return re.sub(rb"[^\n]", b" ", match.group())


def textual_sites(data: bytes) -> tuple[list[int], int]:
    """(offsets of live sites outside macro bodies, sites inside macro bodies)."""
    text = STRIP.sub(blank, data)
    text = DEAD.sub(blank, text)
    macros = sum(len(SITE.findall(m.group())) for m in DEFINE.finditer(text))
    text = DEFINE.sub(blank, text)
    return [m.start() for m in SITE.finditer(text)], macros


def missed(project: Project, launches: tuple[Launch, ...]) -> tuple[list[tuple[str, int]], int, int]:
    """(sites of the text no launch covers, sites in the text, sites in macro bodies)."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for launch in launches:
        spans.setdefault(launch.span.file, []).append((launch.span.start, launch.span.end))
    lost: list[tuple[str, int]] = []
    total = macros = 0
    for path, file in sorted(project.files.items()):
        sites, inside = textual_sites(file.source.data)
        total, macros = total + len(sites), macros + inside
        for offset in sites:
            if not any(start <= offset < end for start, end in spans.get(path, ())):
                lost.append((path, file.source.position(offset)[0]))
    return lost, total, macros


def share(per_site: dict[object, list[bool]]) -> str:
    every = sum(all(v) for v in per_site.values())
    some = sum(any(v) and not all(v) for v in per_site.values())
    count = len(per_site) or 1
    return f"{every:4d} all, {some:4d} some, {count - every - some:4d} none  ({100 * (every + some) / count:5.1f} %)"


def report(path: Path, sample: int, sites: bool) -> bool:
    started = time.process_time()
    project = load_project(path)
    parsed = time.process_time()
    launches = find_launches(project)
    done = time.process_time()
    lost, total, macros = missed(project, launches)
    by_site: dict[object, list[Launch]] = collections.defaultdict(list)
    for launch in launches:
        by_site[(launch.span.file, launch.span.start, launch.span.end)].append(launch)
    found = total - len(lost)
    print(f"{path.name}: {total} sites in the text (+{macros} in macro bodies), {found} found, {len(lost)} missed")
    seconds = f"parse {parsed - started:.1f} s, launches {done - parsed:.1f} s"
    print(f"  {len(launches)} launches at {len(by_site)} places; {seconds}")
    for title, test in MEASURES.items():
        print(f"  {title:13}", share({site: [test(launch) for launch in group] for site, group in by_site.items()}))
    reasons: collections.Counter[str] = collections.Counter()
    for group in by_site.values():
        if not any(x.known_block() for x in group):
            notes = [n for x in group for n in x.notes if n.startswith("block")]
            reasons[
                re.sub(
                    r"\b(of|written by|result of|parameter|object of type) \S+", r"\1 …", notes[0].partition(": ")[2]
                )
                if notes
                else "?"
            ] += 1
    for reason, count in reasons.most_common(12):
        print(f"    block not decided, {reason}: {count}")
    if sites:
        for file, line in lost:
            print(f"    missed {file}:{line}")
    known = [x for x in launches if x.known_block() is not None]
    for index in range(sample):
        launch = known[index * len(known) // sample]
        via = " <- ".join(str(s) for s in reversed(launch.via))
        args = ",".join(launch.template_args)
        print(
            f"    {launch.span} {launch.kernel}<{args}> grid {launch.known_grid()} block {launch.known_block()} {via}"
        )
    return not lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--sites", action="store_true")
    options = parser.parse_args()
    complete = [report(path, options.sample, options.sites) for path in options.paths]
    return 0 if all(complete) else 1


if __name__ == "__main__":
    raise SystemExit(main())
