"""The review as text for people: findings by kernel with code frames, what was left open, one closing line.

Readable at 80 columns, piped and without colour; all repository text goes through ``render_untrusted``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from prelaunch.analysis.finding import SEVERITIES, Conditional, Finding, Severity, Witness
from prelaunch.analysis.reports.frames import Site, frame, wrap
from prelaunch.analysis.reports.untrusted import render_untrusted
from prelaunch.analysis.review import Review

MAX_CAUSES = 20
MAX_LISTED = 10
_STYLES: dict[Severity, str] = {
    "error": "bold red",
    "warning": "bold yellow",
    "performance": "bold cyan",
    "note": "bold",
}
_EVIDENCE = {
    "proved": "proved on every execution allowed by what is assumed",
    "confirmed": "replayed in the interpreter",
    "confirmed-twice": "replayed in the interpreter and in compiler-made PTX",
    "possible": "found by reasoning, not replayed",
    "compiled": "read from compiler output",
    "measured": "measured on a device",
    "modelled": "computed from hardware tables",
}


def render(review: Review, console: Console, seconds: float) -> None:
    """Prints the report. ``seconds`` is how long the review took."""
    width = max(40, min(console.width, 100))
    for line in lines(review, width, seconds):
        console.print(line, overflow="ignore", no_wrap=True, crop=False, highlight=False, soft_wrap=True)


def lines(review: Review, width: int, seconds: float) -> Iterator[Text]:
    if not _complete(review):
        yield from _paragraph(f"Incomplete: {_open(review)}. What was left open is listed at the end.", width, "yellow")
        yield Text()
    shown = review.findings[:MAX_CAUSES]
    for kernel in dict.fromkeys(finding.kernel for finding in shown):
        yield Text(f"kernel {render_untrusted(kernel)}" if kernel else "whole repository", style="bold underline")
        for finding in (f for f in shown if f.kernel == kernel):
            yield Text()
            yield from _finding(finding, review, width)
        yield Text()
    if len(review.findings) > MAX_CAUSES:
        rest = _counts(review.findings[MAX_CAUSES:])
        yield from _paragraph(f"Not shown: {rest}; --format json lists all of them.", width)
        yield Text()
    yield from _left_open(review, width)
    yield from _remarks(review, width)
    yield from _closing(review, width, seconds)


def _finding(finding: Finding, review: Review, width: int) -> Iterator[Text]:
    hazard = f" ({finding.hazard.upper()})" if finding.hazard else ""
    head = Text(f"{finding.severity}: {finding.rule}{hazard}", style=_STYLES[finding.severity])
    yield head
    yield from _paragraph(finding.message, width)
    sites = _sites(finding)
    if sites:
        yield from frame(sites, review.sources, width)
    yield from _field("evidence", f"{finding.evidence}: {_EVIDENCE[finding.evidence]}", width)
    if finding.witness:
        yield from _field("witness", _witness(finding.witness), width)
    yield from _field("launch", finding.launch, width)
    for assumption in finding.assumptions:
        yield from _field("assumed", f"{assumption.text} ({assumption.source})", width)
    yield from _field("effect", finding.effect, width)
    yield from _field("fix", finding.fix, width)
    if finding.also:
        listed = "; ".join(finding.also[:4])
        more = f"; and {len(finding.also) - 4} more" if len(finding.also) > 4 else ""
        yield from _field("also", listed + more, width)


def _sites(finding: Finding) -> list[Site]:
    """The place itself, the related ones, and the calls it was inlined through unless those are among them."""
    sites = [Site(finding.span, "", True)] if finding.span.file else []
    sites += [Site(item.span, item.message, False) for item in finding.related if item.span.file]
    shown = {(site.span.file, site.span.line) for site in sites}
    calls = [call for call in finding.span.call_path() if (call.file, call.line) not in shown]
    return sites + [Site(call, "called here", False) for call in calls]


def _witness(witness: Witness) -> str:
    """Launch, arguments and threads in words; ``detail`` last."""
    parts = []
    if witness.config:
        parts.append(f"grid {_dims(witness.config.grid)}, block {_dims(witness.config.block)}")
    parts += [f"{name} = {value}" for name, value in witness.arguments]
    parts += [f"thread {_dims(thread)} of block {_dims(block)}" for block, thread in witness.threads[:4]]
    return "; ".join(filter(None, (", ".join(parts), witness.detail)))


def _dims(dims: tuple[int, int, int]) -> str:
    x, y, z = dims
    return f"({x}, {y}, {z})"


def _field(name: str, text: str, width: int) -> Iterator[Text]:
    """``  name      text`` with the text wrapped under itself; nothing for an empty text."""
    for number, part in enumerate(wrap(render_untrusted(text), width - 12) if text else ()):
        line = Text(f"  {name if number == 0 else '':10}", style="dim")
        line.append(part, style="not dim")
        yield line


def _paragraph(text: str, width: int, style: str = "") -> Iterator[Text]:
    return (Text(part, style=style) for part in wrap(render_untrusted(text), width))


def _complete(review: Review) -> bool:
    return not review.all_gaps()


def _open(review: Review) -> str:
    total = len(review.kernels)
    if review.gaps and review.analysed == total:
        return "something outside the kernels that were read is not decided"
    return f"{total - review.analysed} of {_number(total, 'kernel')} not decided in full"


def _left_open(review: Review, width: int) -> Iterator[Text]:
    """Reasons, the most frequent first, with the kernels concerned; what follows from another gap is left to JSON."""
    gaps = review.all_gaps()
    unmodelled = {gap.kernel for gap in gaps if gap.rule is None}
    concerned: dict[tuple[str, str], dict[str, str]] = {}
    for gap in gaps:
        if gap.rule is None or gap.kernel not in unmodelled:
            place = f" ({gap.file}:{gap.line})" if gap.file else ""
            kernels = concerned.setdefault((gap.rule or "", gap.reason), {})
            kernels.setdefault(gap.kernel or place, f"{gap.kernel or 'outside of kernels'}{place}")
    if not concerned:
        return
    yield Text("left open", style="bold underline")
    ordered = sorted(concerned.items(), key=lambda item: -len(item[1]))
    for (rule, reason), kernels in ordered[:MAX_LISTED]:
        names = list(kernels.values())
        where = ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
        text = f"{rule + ': ' if rule else ''}{reason}: {where}"
        for number, part in enumerate(wrap(render_untrusted(text), width - 4)):
            yield Text(("  - " if number == 0 else "    ") + part)
    if len(ordered) > MAX_LISTED:
        yield Text(f"  and {_number(len(ordered) - MAX_LISTED, 'more reason')}; --format json lists them")
    yield Text()


def _remarks(review: Review, width: int) -> Iterator[Text]:
    texts = [f"{item.path}: {item.reason}" for item in review.discovery.skipped]
    texts = [f"skipped {text}" for text in texts[:5]] + ([f"skipped {len(texts) - 5} more"] if len(texts) > 5 else [])
    notes = [f"{note.file}:{note.line}: {note.message}" for note in review.notes]
    texts += notes[:MAX_LISTED] + ([f"{len(notes) - MAX_LISTED} more notes"] if len(notes) > MAX_LISTED else [])
    if review.suppressed:
        texts.append(f"{_number(len(review.suppressed), 'finding')} suppressed by comments")
    bound = sum(isinstance(item.verdict, Conditional) for item in review.all_judgements())
    if bound:
        texts.append(f"{_number(bound, 'verdict')} under a launch contract; --show verdicts KERNEL prints it")
    texts += review.remarks
    for text in texts:
        for number, part in enumerate(wrap(render_untrusted(text), width - 2)):
            yield Text(part if number == 0 else f"  {part}", style="dim")
    if texts:
        yield Text()


def _closing(review: Review, width: int, seconds: float) -> Iterator[Text]:
    worst = review.findings[0].severity if review.findings else None
    found = _counts(review.findings)
    launches = sum(len(kernel.launches) for kernel in review.kernels)
    covered = f"{_number(len(review.kernels), 'kernel')}, {review.analysed} decided in full"
    rest = f"{covered}; {_number(launches, 'launch', 'es')}, {_number(len(review.rules), 'rule')}; {seconds:.1f}s"
    style = _STYLES[worst] if worst else "bold green" if _complete(review) else "bold yellow"
    yield from _paragraph(f"{found}. {rest}", width, style)


def _counts(findings: tuple[Finding, ...]) -> str:
    counted = Counter(finding.severity for finding in findings)
    plural = {"error": "s", "warning": "s", "note": "s", "performance": ""}
    parts = [
        f"{counted[severity]} {severity}{plural[severity] if counted[severity] != 1 else ''}"
        for severity in SEVERITIES
        if counted[severity]
    ]
    return ", ".join(parts) or "No findings"


def _number(count: int, noun: str, plural: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else plural}"
