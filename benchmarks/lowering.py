"""How much of a checkout is lowered: ``python benchmarks/lowering.py PATH... [--templates] [--at-least 0.9]``.

Per checkout: kernels (with ``--templates`` one per instance that a launch in the checkout names, at most 3 each),
those lowered without any Opaque, those without an Opaque that touches memory or control, what ``check`` finds, the
processor time, and the reasons of Opaque nodes by the number of kernels they occur in. Exit status 1 when the share
without memory or control is below ``--at-least``, a kernel breaks the IR's rules, or lowering failed inside.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from prelaunch.analysis.check import check
from prelaunch.analysis.frontends.cuda import load_project, lower_kernel
from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl, Project
from prelaunch.analysis.kernel import Kernel, Opaque
from prelaunch.analysis.walk import walk


def instances(project: Project, templates: bool) -> list[tuple[FunctionDecl, tuple[str, ...]]]:
    """Kernels with the template arguments to lower them with."""
    kernels = project.kernels()
    if not templates:
        return [(kernel, ()) for kernel in kernels]
    from prelaunch.analysis.host import find_launches
    from prelaunch.analysis.instances import pair

    groups = pair(project, find_launches(project), lambda path: True).groups
    return [(kernels[g.index], i.template_args) for g in groups for i in g.instances[:3]]


class Tally:
    """Counts over the kernels of one checkout."""

    def __init__(self) -> None:
        self.kernels = self.whole = self.safe = self.failed = 0
        self.seconds = 0.0
        self.slowest: list[tuple[float, str]] = []
        self.broken: list[str] = []
        self.reasons: Counter[str] = Counter()
        self.places: dict[str, str] = {}

    def add(self, kernel: Kernel, seconds: float) -> None:
        opaque = [s for s in walk(kernel.body) if isinstance(s, Opaque)]
        self.kernels += 1
        self.whole += not opaque
        self.safe += not any(s.touches - {"value"} for s in opaque)
        self.failed += any(s.reason.startswith("lowering failed") for s in opaque)
        self.seconds += seconds
        self.slowest = sorted([*self.slowest, (seconds, kernel.label)], reverse=True)[:5]
        self.broken += [f"{kernel.file}: {kernel.label}: {problem}" for problem in check(kernel)]
        named = {f"{s.reason}{' *' if s.touches - {'value'} else ''}": str(s.span) for s in reversed(opaque)}
        self.reasons.update(named.keys())
        for reason, place in named.items():
            self.places.setdefault(reason, f"{place} in {kernel.label}")

    def report(self, name: str, show: int) -> None:
        total = max(1, self.kernels)
        print(
            f"{name}: {self.kernels} kernels; without Opaque {self.whole} ({self.whole / total:.1%}), without one that"
            f" touches memory or control {self.safe} ({self.safe / total:.1%}); {len(self.broken)} breaches of the IR's"
            f" rules; {self.seconds:.1f} s, {1000 * self.seconds / total:.0f} ms each"
        )
        print("  slowest: " + ", ".join(f"{label} {seconds:.2f} s" for seconds, label in self.slowest))
        for problem in self.broken[:show]:
            print(f"  breach: {problem}")
        for reason, count in self.reasons.most_common(show):
            print(f"  {count:4} {reason}  ({self.places[reason]})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--templates", action="store_true", help="one kernel per instance the launches name")
    parser.add_argument("--at-least", type=float, default=0.0, help="share without memory or control to demand")
    parser.add_argument("--show", type=int, default=20, help="reasons listed per checkout")
    args = parser.parse_args()
    good = True
    for path in args.paths:
        project = load_project(path)
        tally = Tally()
        for kernel, given in instances(project, args.templates):
            start = time.process_time()
            lowered = lower_kernel(project, kernel, given)
            tally.add(lowered, time.process_time() - start)
        tally.report(path.name, args.show)
        good = good and tally.safe >= args.at_least * tally.kernels and not tally.broken and not tally.failed
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
