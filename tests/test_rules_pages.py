"""Every rule's page is its test: the fenced kernels are reviewed, and the marks in them must be met to the line."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from prelaunch.analysis import rules as registry
from prelaunch.analysis.review import Options, review
from prelaunch.analysis.rules import HEADINGS, RegistryError, page, paired, parse_page, rules

_FENCE = re.compile(r"^```cuda\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"//\s*(error|warning|performance|note): \[([a-z.0-9-]+)\]")


def blocks(heading: str) -> list[tuple[str, int, str]]:
    """(rule, number, code) of every fenced kernel under a heading of any page."""
    return [
        (rule.id, number, code)
        for rule in rules()
        for number, code in enumerate(_FENCE.findall(page(rule.id).sections[heading] + "\n"), 1)
    ]


def marks(code: str) -> Counter[tuple[int, str, str]]:
    """(line, severity, rule) of each mark."""
    return Counter(
        (number, severity, rule)
        for number, line in enumerate(code.splitlines(), 1)
        for severity, rule in _MARK.findall(line)
    )


def found(code: str, rule: str, folder: Path) -> Counter[tuple[int, str, str]]:
    path = folder / "page.cu"
    path.write_text(code)
    result = review([path], Options((rule,), workers=0))
    return Counter((f.span.line, f.severity, f.rule) for f in result.findings)


@pytest.mark.parametrize(("rule", "number", "code"), blocks("Bad"))
def test_bad_code_is_reported_where_the_page_says(rule: str, number: int, code: str, tmp_path: Path) -> None:
    expected = marks(code)
    assert expected, f"the bad code of {rule} carries no mark such as `// error: [{rule}]`"
    assert {marked for _, _, marked in expected} == {rule}
    assert found(code, rule, tmp_path) == expected


@pytest.mark.parametrize(("rule", "number", "code"), blocks("Good"))
def test_good_code_is_clean(rule: str, number: int, code: str, tmp_path: Path) -> None:
    assert not marks(code)
    assert found(code, rule, tmp_path) == Counter()


def test_every_rule_shows_bad_and_good_code() -> None:
    for heading in ("Bad", "Good"):
        assert {rule for rule, _, _ in blocks(heading)} == {rule.id for rule in rules()}


def test_every_page_parses() -> None:
    for rule in rules():
        assert tuple(page(rule.id).sections) == HEADINGS
        assert rule.summary.strip(), rule.id
        assert not rule.summary.endswith("."), f"{rule.id}: a summary is a phrase"


def test_a_page_without_module_and_the_reverse_fail(tmp_path: Path) -> None:
    for name in ("__init__.py", "base.py", "_helper.py", "a_b.py", "a_b.md"):
        (tmp_path / name).write_text("")
    assert paired(tmp_path) == ["a_b"]
    (tmp_path / "c_d.md").write_text("")
    (tmp_path / "e_f.py").write_text("")
    with pytest.raises(RegistryError, match=r"^e_f.py has no page e_f.md; c_d.md has no module c_d.py$"):
        paired(tmp_path)


def test_a_page_needs_its_headings() -> None:
    text = "# a.b\n\nLead.\n\n" + "".join(f"## {heading}\n\nText.\n\n" for heading in HEADINGS)
    parsed = parse_page(text, "a.b")
    assert (parsed.lead, parsed.sections["Limits"]) == ("Lead.", "Text.")
    with pytest.raises(RegistryError, match=r"titled 'a.b'"):
        parse_page(text, "a.c")
    with pytest.raises(RegistryError, match="has headings"):
        parse_page(text.replace("## Limits", "## Limitations"), "a.b")
    with pytest.raises(RegistryError, match=r"says nothing under \['Sources'\]"):
        parse_page(text.rstrip().removesuffix("Text."), "a.b")


def test_unknown_rules_are_answered_with_close_ones() -> None:
    known = rules()[0].id
    with pytest.raises(RegistryError, match=f"no rule {known}s; did you mean .*{known}"):
        registry.find(known + "s")
    assert {r.id for r in registry.select((known.partition(".")[0],))} >= {known}
    assert registry.select(()) == rules()
