"""Suppression comments: they need a reason, and the review says when one does nothing."""

from __future__ import annotations

import pytest

from prelaunch.analysis.finding import Finding
from prelaunch.analysis.source import Source
from prelaunch.analysis.suppress import Note, suppress

KNOWN = frozenset({"race.shared", "launch.unchecked"})


def finding(source: Source, marker: bytes, rule: str = "race.shared") -> Finding:
    start = source.data.index(marker)
    return Finding(rule, "error", "proved", "m", source.span(start, start + len(marker)))


def outcome(text: bytes, rule: str = "race.shared", decided: bool = True) -> tuple[int, list[str], list[Note]]:
    """(findings shown, reasons of the suppressed, notes) for one finding at ``here``."""
    source = Source("a.cu", text)
    shown, hidden, notes = suppress(
        [finding(source, b"here", rule)], {"a.cu": source}, known=KNOWN, decided=lambda rule, file: decided
    )
    return len(shown), [item.reason for item in hidden], notes


@pytest.mark.parametrize(
    "text",
    [
        b"x; here; // prelaunch: allow(race.shared) all write the same\n",
        b"// prelaunch: allow(race.shared) all write the same\nhere;\n",
        b"/* prelaunch: allow(race.shared): all write the same */\nhere;\n",
        b"// prelaunch: allow(launch.unchecked, race.shared) all write the same\r\nhere;\n",
        b"here; // known; prelaunch: allow(race.shared) all write the same\n",
    ],
)
def test_suppressed_on_the_line_or_the_line_above(text: bytes) -> None:
    shown, reasons, _ = outcome(text)
    assert shown == 0
    assert reasons == ["all write the same"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"here; // prelaunch: allow(race.shared)\n", "allow(race.shared) has no reason and does nothing"),
        (b"/* prelaunch: allow(race.shared) */ here;\n", "allow(race.shared) has no reason and does nothing"),
        (b"here; // prelaunch: allow everything\n", "allow names no rule: write `prelaunch: allow(rule) reason`"),
        (b"here; // prelaunch: allow(race.global) why\n", "allow(race.global): there is no such rule"),
        (b"// prelaunch: allow(race.shared) why\n\nhere;\n", "allow(race.shared) allows nothing here; remove it"),
        (b"here;\n// prelaunch: allow(race.shared) why\n", "allow(race.shared) allows nothing here; remove it"),
    ],
)
def test_comments_that_do_nothing_are_reported(text: bytes, message: str) -> None:
    shown, reasons, notes = outcome(text)
    assert (shown, reasons) == (1, [])
    assert [note.message for note in notes] == [message]


def test_an_unused_comment_is_kept_quiet_where_the_rule_did_not_decide() -> None:
    shown, _, notes = outcome(b"// prelaunch: allow(race.shared) why\n\nhere;\n", decided=False)
    assert (shown, notes) == (1, [])
