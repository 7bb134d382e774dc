"""The command line: ``prelaunch review``, ``explain``, ``rules``.

Exit status: 0 nothing at or above ``--fail-on``, 1 findings, 2 usage or nothing could be read, 3 incomplete and
``--strict``. Imports are local to the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import prelaunch

if TYPE_CHECKING:
    from prelaunch.analysis.review import Options, Review

app = typer.Typer(
    name="prelaunch",
    help="Review of CUDA code before it runs: reads a repository, needs no GPU, says what it could not decide.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

CLEAN, FINDINGS, USAGE, INCOMPLETE, INTERRUPTED = 0, 1, 2, 3, 130


class Format(StrEnum):
    terminal = "terminal"
    json = "json"


class FailOn(StrEnum):
    error = "error"
    warning = "warning"
    performance = "performance"
    note = "note"
    never = "never"


def run() -> None:
    """The console script. A failure of ours ends with status 2 as well: status 1 is kept for findings."""
    try:
        app(prog_name="prelaunch")
    except Exception as error:
        if os.environ.get("PRELAUNCH_DEBUG"):
            raise
        from prelaunch.analysis.jobs import describe

        typer.echo(f"prelaunch: {describe(error)}; PRELAUNCH_DEBUG=1 shows where. Please report it.", err=True)
        sys.exit(USAGE)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"prelaunch {prelaunch.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def review(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Files or folders to review.")],
    format: Annotated[Format, typer.Option(help="For people, or one JSON object.")] = Format.terminal,
    fail_on: Annotated[FailOn, typer.Option(help="Lowest severity that makes the exit status 1.")] = FailOn.error,
    strict: Annotated[bool, typer.Option("--strict", help="Exit status 3 when anything was left undecided.")] = False,
    rules: Annotated[
        str, typer.Option(metavar="RULE,...", help="Only these rules or families (race.shared, launch).")
    ] = "",
    jobs: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Worker processes; 0 runs in this one, without guards.",
            show_default="one per processor",
        ),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Neither use nor keep earlier verdicts.")] = False,
    vendored: Annotated[bool, typer.Option("--vendored", help="Review third-party folders too.")] = False,
    show: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="STAGE KERNEL",
            help="Print what a stage of the review made of a kernel instead: discover, parse, kernel, launches, facts, "
            "verdicts, findings.",
        ),
    ] = None,
) -> None:
    """Review CUDA code. Exit status: 0 clean, 1 findings, 2 usage or nothing read, 3 incomplete and --strict."""
    from prelaunch.analysis.discover import NothingToReview
    from prelaunch.analysis.review import Options
    from prelaunch.analysis.rules import RegistryError
    from prelaunch.analysis.store import default_folder

    wanted = tuple(word.strip() for word in rules.split(",") if word.strip())
    options = Options(wanted, jobs, None if no_cache else default_folder(), vendored)
    try:
        if show is not None:
            _show(paths, options, *show)
            return
        result, seconds = _review(paths, options)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (NothingToReview, RegistryError, LookupError) as error:
        _fail(error)
    if format is Format.json:
        from prelaunch.analysis.reports.json import render as render_json

        sys.stdout.write(render_json(result, prelaunch.__version__))
    else:
        from rich.console import Console

        from prelaunch.analysis.reports.terminal import render

        render(result, Console(), seconds)
    raise typer.Exit(status(result, fail_on.value, strict))


def status(result: Review, fail_on: str, strict: bool) -> int:
    """Exit status of a finished review."""
    from prelaunch.analysis.finding import SEVERITIES

    order: list[str] = list(SEVERITIES)
    limit = order.index(fail_on) if fail_on in order else -1
    if any(order.index(finding.severity) <= limit for finding in result.findings):
        return FINDINGS
    return INCOMPLETE if strict and result.all_gaps() else CLEAN


def _review(paths: list[Path], options: Options) -> tuple[Review, float]:
    """The review with its duration; progress on stderr where somebody watches."""
    from prelaunch.analysis.review import review

    started = time.monotonic()
    if not sys.stderr.isatty():
        return review(paths, options), time.monotonic() - started
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    # no refresh thread: workers are forked from this process
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("read", total=None)

        def tell(stage: str, done: int, total: int) -> None:
            bar.update(task, description=stage, completed=done, total=total, refresh=True)

        return review(paths, options, tell), time.monotonic() - started


def _show(paths: list[Path], options: Options, stage: str, kernel: str) -> None:
    from prelaunch.analysis.reports.untrusted import render_untrusted
    from prelaunch.analysis.stages import show

    sys.stdout.write(render_untrusted(show(stage, kernel, paths, options), keep_newlines=True))


def _fail(error: Exception) -> None:
    from prelaunch.analysis.reports.untrusted import render_untrusted

    typer.echo(f"prelaunch: {render_untrusted(str(error))}", err=True)
    raise typer.Exit(USAGE)


@app.command()
def explain(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="A rule id, such as sync.barrier-divergence.")],
    format: Annotated[Format, typer.Option(help="The page, or one JSON object.")] = Format.terminal,
) -> None:
    """Print a rule's page: what it proves, why it matters, bad and good code, its limits."""
    from prelaunch.analysis.rules import RegistryError, find, page

    try:
        found, text = find(rule), page(rule)
    except RegistryError as error:
        _fail(error)
    if format is Format.json:
        import json

        document = {
            "rule": found.id,
            "severity": found.severity,
            "version": found.version,
            "summary": found.summary,
            "sections": text.sections,
        }
        typer.echo(json.dumps(document, indent=2))
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text.text))
    else:
        typer.echo(text.text.rstrip("\n"))


@app.command("rules")
def list_rules(
    format: Annotated[Format, typer.Option(help="A table, or one JSON object.")] = Format.terminal,
) -> None:
    """List the rules with their severities."""
    from prelaunch.analysis.rules import rules

    if format is Format.json:
        import json

        rows = [{"rule": r.id, "severity": r.severity, "version": r.version, "summary": r.summary} for r in rules()]
        typer.echo(json.dumps({"rules": rows}, indent=2))
        return
    width = max((len(rule.id) for rule in rules()), default=0)
    for rule in rules():
        typer.echo(f"{rule.id:{width}}  {rule.severity:11}  {rule.summary}")
