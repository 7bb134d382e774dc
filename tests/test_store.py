"""The content store: a key covers all a verdict rests on, and a damaged entry is a miss."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import Judgement, Unknown
from prelaunch.analysis.kernel import I32, Assign, Block, Const, Kernel, Var
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.rules.base import Rule
from prelaunch.analysis.source import Source
from prelaunch.analysis.store import Store, default_folder, facts_digest, key

TEXT = b"__global__ void k() { int x = 1; }  // after\n"
JUDGED = (Judgement("sync.x", "k", "", Unknown("why")),)
RULE = Rule("sync.x", "error", "s", check=lambda facts: ())


def facts(text: bytes = TEXT, value: int = 1, name: str = "x", launches: int = 0) -> Facts:
    source = Source("a.cu", text)
    inner, outer = source.span(22, 31), source.span(0, 34)
    body = Block((Assign(Var(0, name, I32, span=inner), Const(value, I32, span=inner), span=inner),), span=outer)
    kernel = Kernel("k", "a.cu", (), (), (), body, span=outer)
    one = Const(1, I32, span=inner)
    launch = Launch("k", (), "<<<>>>", (one, one, one), (one, one, one), one, (), inner)
    return Facts(kernel, (launch,) * launches, {"a.cu": source})


def test_equal_facts_have_equal_keys() -> None:
    assert key(facts_digest(facts()), RULE) == key(facts_digest(facts()), RULE)
    later = facts(TEXT + b"int other;\n")
    assert facts_digest(later) == facts_digest(facts()), "text elsewhere in the file is no part of the key"


@pytest.mark.parametrize(
    "other",
    [facts(value=2), facts(name="y"), facts(launches=1), facts(TEXT.replace(b"x", b"z"))],
    ids=["constant", "name", "launch", "text under a span"],
)
def test_whatever_a_verdict_rests_on_changes_the_key(other: Facts) -> None:
    assert facts_digest(other) != facts_digest(facts())


def test_rule_and_version_change_the_key() -> None:
    digest = facts_digest(facts())
    keys = {key(digest, RULE), key(digest, replace(RULE, version=2)), key(digest, replace(RULE, id="sync.y"))}
    assert len(keys) == 3


def test_what_is_put_is_got(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.prepare()
    assert store.get("ab" * 32) is None
    store.put("ab" * 32, JUDGED)
    assert Store(tmp_path).get("ab" * 32) == JUDGED
    assert store.get("cd" * 32) is None
    assert store.damaged == 0


def damage(text: str) -> dict[str, str]:
    entry = json.loads(text)
    swapped = json.loads(text.replace('"why"', '"who"'))
    return {
        "empty": "",
        "cut": text[: len(text) // 2],
        "other verdict": json.dumps(swapped),
        "other key": json.dumps({**entry, "key": "00"}),
        "no object": "[]",
        "deep": "[" * 100_000,
    }


@pytest.mark.parametrize("kind", list(damage('{"key": "why"}')))
def test_damaged_entries_are_misses_and_counted(tmp_path: Path, kind: str) -> None:
    store = Store(tmp_path)
    store.put("ab" * 32, JUDGED)
    (path,) = store.folder.rglob("*.json")
    path.write_text(damage(path.read_text())[kind])
    assert store.get("ab" * 32) is None
    assert store.damaged == 1
    store.put("ab" * 32, JUDGED)
    assert store.get("ab" * 32) == JUDGED, "and are written anew"


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "below")
    store.prepare()
    store.put("ab" * 32, JUDGED)
    assert store.get("ab" * 32) is None


def test_engines_not_used_lately_are_dropped(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number:016x}").mkdir()
    (tmp_path / "somebody's").mkdir()
    store = Store(tmp_path)
    store.prepare()
    assert store.folder.is_dir()
    assert len(list(tmp_path.iterdir())) == 4, "three engines, and what is not ours"
    assert (tmp_path / "somebody's").is_dir()


def test_the_store_is_the_users_not_the_repositorys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRELAUNCH_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert default_folder() == Path.home() / ".cache" / "prelaunch"
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/me")
    assert default_folder() == Path("/var/cache/me/prelaunch")
