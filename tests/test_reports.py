"""Reports: the JSON meets its schema, the text stays inside its width and shows carets at the right place."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from prelaunch.analysis.discover import Discovery, Skipped
from prelaunch.analysis.finding import (
    Assumption,
    Conditional,
    Finding,
    Judgement,
    Proved,
    Refuted,
    Related,
    Unknown,
    Verdict,
    Witness,
)
from prelaunch.analysis.judge import Gap
from prelaunch.analysis.kernel import I32, Const, Special
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.reports import json as json_report
from prelaunch.analysis.reports import terminal
from prelaunch.analysis.reports.untrusted import render_untrusted
from prelaunch.analysis.review import KernelReport, Review
from prelaunch.analysis.rules.base import Rule
from prelaunch.analysis.source import Source, Span
from prelaunch.analysis.suppress import Note, Suppressed
from prelaunch.analysis.trace import LaunchConfig

TEXT = (
    b"__global__ void scale(float *x, int n) {\n"
    b"\tif (threadIdx.x >= n) return;\n"
    b"\n\n\n\n"
    b"  /* \xe6\xbc\xa2\xff\x1b[31m\xe2\x80\xae */ __syncthreads(); // " + b"long " * 60 + b"\n"
    b"}\n"
)
SOURCE = Source("src/scale.cu", TEXT)


def span(marker: bytes) -> Span:
    start = TEXT.index(marker)
    return SOURCE.span(start, start + len(marker))


FINDING = Finding(
    "sync.barrier-early-exit",
    "error",
    "confirmed",
    "threads 5 to 63 have returned when the others wait here",
    span(b"__syncthreads()"),
    "scale",
    "__syncthreads()",
    related=(Related(span(b"return"), "these threads leave the kernel \x1b[2J"),),
    launch="main.cu:9",
    assumptions=(Assumption("n >= 1", "launch site"),),
    witness=Witness(
        LaunchConfig((1, 1, 1), (64, 1, 1)), (("n", 5), ("a", float("nan"))), (((0, 0, 0), (5, 0, 0)),), "replayed"
    ),
    effect="undefined behaviour",
    fix="guard the work, not the barrier, " + "and say so at some length " * 5,
    also=("instance scale<2>",),
)


def launch() -> Launch:
    one, block = Const(1, I32), Special("blockDim.x")
    return Launch("scale", (), "<<<>>>", (one, one, one), (block, one, one), Const(0, I32), (), span(b"return"))


def review(*findings: Finding, gaps: tuple[Gap, ...] = ()) -> Review:
    rule = Rule("sync.barrier-early-exit", "error", "s", check=lambda facts: ())
    verdicts: list[Verdict] = [Refuted(f) for f in findings] or [Proved()]
    verdicts += [Unknown("why"), Conditional("n % 32 == 0")]
    judged = [Judgement(rule.id, "scale", "", verdict) for verdict in verdicts]
    kernel = KernelReport("scale", "src/scale.cu", 1, (launch(),), (), tuple(judged), gaps)
    discovery = Discovery(
        Path("/somewhere/repo"), (".",), ("src/scale.cu",), (), (Skipped("v/", "vendored"),), "a" * 40
    )
    return Review(
        discovery,
        (rule,),
        (kernel,),
        findings,
        (),
        (),
        (Suppressed(FINDING, "known"),),
        (Note("src/scale.cu", 2, "allow(x) allows nothing here; remove it"),),
        {"src/scale.cu": SOURCE},
    )


def text(review: Review, width: int = 80) -> str:
    out = io.StringIO()
    terminal.render(review, Console(file=out, width=width), 0.25)
    return out.getvalue()


def test_json_meets_the_shipped_schema() -> None:
    schema = json_report.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    whole = review(FINDING, gaps=(Gap("scale", "src/scale.cu", 1, "not modelled: asm"),))
    document = json.loads(json_report.render(whole, "0.1.0"))
    jsonschema.validate(document, schema)
    (found,) = document["findings"]
    assert (found["line"], found["related"][0]["line"], found["fingerprint"]) == (7, 2, FINDING.fingerprint)
    assert found["witness"]["arguments"] == [{"name": "n", "value": 5}, {"name": "a", "value": "nan"}]
    assert document["coverage"]["analysed"] == 0
    assert document["coverage"]["unknown"][0]["reason"] == "not modelled: asm"
    assert [v["verdict"] for v in document["verdicts"]] == ["refuted", "unknown", "conditional"]
    assert document["kernels"][0]["launches"][0]["block"][1] == 1
    assert "/somewhere" not in json.dumps(document), "no path of this machine may enter a report"


def test_schema_refuses_what_the_contract_does_not_say() -> None:
    document = json_report.document(review(FINDING), "0.1.0")
    document["findings"][0]["severity"] = "fatal"
    with pytest.raises(jsonschema.ValidationError, match="fatal"):
        jsonschema.validate(document, json_report.schema())


@pytest.mark.parametrize("width", [40, 80, 100])
def test_lines_stay_inside_the_width(width: int) -> None:
    from rich.cells import cell_len

    for line in text(review(FINDING), width).splitlines():
        assert cell_len(line) <= width, f"{cell_len(line)} cells: {line!r}"


def test_carets_stand_under_their_text() -> None:
    lines = text(review(FINDING)).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("7 │"))
    start = lines[at + 1].index("^")
    assert lines[at + 1][start : start + 15] == "^" * 15
    wide = 1  # the ideograph takes two cells but one character of the line
    assert lines[at][start - wide : start - wide + 15] == "__syncthreads()"
    at = next(i for i, line in enumerate(lines) if line.startswith("2 │"))
    start = lines[at + 1].index("------")
    assert lines[at][start : start + 6] == "return"
    assert "these threads leave the kernel" in lines[at + 1]


def test_a_very_long_line_is_cut_around_the_caret() -> None:
    data = b"int pad; " * 400_000 + b"__syncthreads(); " + b"int pad; " * 10
    source = Source("src/scale.cu", data)
    start = data.index(b"__sync")
    finding = Finding("sync.x", "error", "proved", "m", source.span(start, start + 15), "scale")
    whole = replace(review(finding), sources={"src/scale.cu": source})
    lines = text(whole).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("1 │"))
    column = lines[at + 1].index("^" * 15)
    assert lines[at][column : column + 15] == "__syncthreads()"
    assert lines[at][4] == "…"


def test_places_without_text_are_named_all_the_same() -> None:
    assert "┌─ src/scale.cu:7:22" in text(replace(review(FINDING), sources={}))


def test_repository_text_moves_no_cursor() -> None:
    shown = text(review(FINDING))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert r"\x1b[31m\u202e" in shown, "what was there is shown, harmlessly"


def test_an_incomplete_review_says_so_first() -> None:
    whole = review(FINDING, gaps=(Gap("scale", "src/scale.cu", 1, "not modelled: asm"),))
    lines = text(whole).splitlines()
    assert lines[0].startswith("Incomplete: 1 of 1 kernel not decided in full.")
    assert any("not modelled: asm: scale (src/scale.cu:1)" in line for line in lines)
    assert "Incomplete" not in text(review(FINDING))


def test_at_most_twenty_causes_are_shown_and_the_rest_counted() -> None:
    many = [replace(FINDING, key=str(i), severity="error" if i < 25 else "warning") for i in range(30)]
    shown = text(review(*many))
    assert shown.count("error: sync.barrier-early-exit") == 20
    assert "Not shown: 5 errors, 5 warnings; --format json lists all of them." in shown
    assert shown.splitlines()[-1].startswith("25 errors, 5 warnings. 1 kernel,")


def test_a_finding_shows_launch_assumptions_and_fix() -> None:
    shown = text(review(FINDING))
    for part in ("kernel scale", "src/scale.cu:7:", "launch", "main.cu:9", "n >= 1 (launch site)", "guard the work",
                 "grid (1, 1, 1), block (64, 1, 1), n = 5", "also", "instance scale<2>", "skipped v/: vendored",
                 "1 finding suppressed", "remove it"):  # fmt: skip
        assert part in shown, part


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain é 漢", "plain é 漢"),
        ("a\tb", "a    b"),
        ("a\x1b[0m\r\n", "a\\x1b[0m\\x0d\\x0a"),
        ("\u202eevil\u200b", "\\u202eevil\\u200b"),
        ("\udc80\u2028\U000e0001", "\\udc80\\u2028\\U000e0001"),
    ],
)
def test_render_untrusted(raw: str, shown: str) -> None:
    assert render_untrusted(raw) == shown
