"""Judgements kept between reviews, by content.

A key is the digest of everything a verdict depends on (``key``): the lowered kernel, its launches, the source text
under all their spans, the rule with its version, and the engine itself (every file of this package and the versions of
what it runs on). An entry is JSON with a checksum; one that is damaged or of another form is ignored and counted in
``damaged``. The store lies in the user's cache folder, never in the repository under review, which could otherwise
answer for itself. Losing it costs time only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from prelaunch.analysis import serial
from prelaunch.analysis.facts import Facts
from prelaunch.analysis.finding import Judgement
from prelaunch.analysis.rules.base import Rule

_KEPT_ENGINES = 3
_ENGINE = re.compile(r"[0-9a-f]{16}")


def default_folder() -> Path:
    """``$PRELAUNCH_CACHE``, else ``prelaunch`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    chosen = os.environ.get("PRELAUNCH_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "prelaunch"


@cache
def engine() -> str:
    """Digest of every file of the analysis package and of the Python and NumPy that run it."""
    import numpy

    root = Path(__file__).parent
    total = hashlib.sha256(f"{sys.version_info[:2]} {numpy.__version__}".encode())
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".toml", ".json"):
            total.update(path.relative_to(root).as_posix().encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def facts_digest(facts: Facts) -> str:
    """Digest of kernel and launches, spans included, and of the text those spans cover."""
    data = serial.dump((facts.kernel, *facts.launches))
    names = [name for name, _ in serial.fields("Span")]
    spans = (dict(zip(names, row[1:], strict=True)) for row in data["nodes"] if row[0] == "Span")
    texts = _covered([(s["file"], s["start"], s["end"]) for s in spans], facts)
    return serial.digest_of(serial.canonical(data), *texts)


def key(facts: str, rule: Rule) -> str:
    """Key of one rule's judgements on facts with digest ``facts``."""
    return serial.digest_of(facts, rule.id, str(rule.version), engine())


class Store:
    """One folder of entries; every failure to read or write it counts as a miss."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / engine()[:16]
        self.damaged = 0

    def prepare(self) -> None:
        """Creates the folder and drops those of engines not used lately."""
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            os.utime(self.folder)
            others = [p for p in self.folder.parent.iterdir() if _ENGINE.fullmatch(p.name) and p != self.folder]
            for old in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT_ENGINES - 1 :]:
                shutil.rmtree(old, ignore_errors=True)

    def get(self, key: str) -> tuple[Judgement, ...] | None:
        try:
            text = self._path(key).read_text("ascii")
        except (OSError, UnicodeDecodeError) as error:
            self.damaged += not isinstance(error, FileNotFoundError)
            return None
        try:
            entry = json.loads(text)
            if entry["key"] != key or entry["sum"] != serial.digest_of(serial.canonical(entry["judgements"])):
                raise ValueError("checksum")
            found = serial.load(entry["judgements"])
            if not isinstance(found, tuple) or not all(isinstance(item, Judgement) for item in found):
                raise ValueError("not judgements")
        except (ValueError, KeyError, TypeError, RecursionError):
            self.damaged += 1
            return None
        return found

    def put(self, key: str, judgements: Iterable[Judgement]) -> None:
        data = serial.dump(tuple(judgements))
        entry: dict[str, Any] = {"key": key, "sum": serial.digest_of(serial.canonical(data)), "judgements": data}
        path = self._path(key)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(serial.canonical(entry))
            os.replace(name, path)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key[2:]}.json"


def _covered(spans: list[tuple[str, int, int]], facts: Facts) -> list[str]:
    """Text of the union of the spans, file by file."""
    texts: list[str] = []
    merged: list[tuple[str, int, int]] = []
    for file, start, end in sorted(spans):
        if merged and merged[-1][0] == file and start <= merged[-1][2]:
            merged[-1] = (file, merged[-1][1], max(end, merged[-1][2]))
        else:
            merged.append((file, start, end))
    for file, start, end in merged:
        source = facts.sources.get(file)
        data = source.data[start:end] if source else b""
        texts.append(f"{file}\0{data.hex()}")
    return texts
