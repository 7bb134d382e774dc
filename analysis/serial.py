"""Kernels, launches and judgements as canonical JSON, and back.

``dump`` yields ``{"nodes": [...], "root": value}``: every dataclass is one row ``[class, field...]`` of a table,
children before parents, equal nodes once, referred to as ``{"#": row}``. So depth is no limit, sharing is kept, and
equal objects (spans included) give equal text. Fields stand in the order of the class; nothing depends on paths
outside the repository. ``load`` undoes it and raises ValueError on anything that ``dump`` cannot have written.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from typing import Any

from prelaunch.analysis import finding, kernel, launch, source, trace
from prelaunch.analysis.finding import Json

_CLASSES: dict[str, type] = {
    name: item
    for module in (source, kernel, trace, launch, finding)
    for name, item in vars(module).items()
    if isinstance(item, type) and dataclasses.is_dataclass(item) and item.__module__ == module.__name__
}


_FIELDS = {
    kind: tuple((f.name, f.init) for f in dataclasses.fields(cls) if not f.name.startswith("_"))
    for kind, cls in _CLASSES.items()
}


def fields(kind: str) -> tuple[tuple[str, bool], ...]:
    """(name, is it a constructor argument) of the public fields of a class, in the order of its rows."""
    return _FIELDS[kind]


def digest_of(*words: str) -> str:
    """SHA-256 (hex) of texts."""
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()


def canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def dump(root: Any) -> Json:
    """``root``: a dataclass of the analysis, a tuple of them, or a scalar. Iterative over nodes."""
    rows: list[list[Any]] = []
    interned: dict[str, int] = {}
    done: dict[int, int] = {}

    def refer(node: Any) -> Json:
        return {"#": done[id(node)]}

    stack: list[tuple[Any, bool]] = [(node, False) for node in _nodes(root)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        values = [getattr(node, name) for name, _ in fields(type(node).__name__)]
        if not ready:
            stack.append((node, True))
            stack.extend((child, False) for value in reversed(values) for child in reversed(_nodes(value)))
            continue
        row = [type(node).__name__, *(_encode(value, refer) for value in values)]
        text = json.dumps(row, sort_keys=True)
        if text not in interned:
            interned[text] = len(rows)
            rows.append(row)
        done[id(node)] = interned[text]
    return {"nodes": rows, "root": _encode(root, refer)}


def load(data: Any) -> Any:
    """The object that ``dump`` was given. Raises ValueError."""
    try:
        made: list[object] = []
        for kind, *values in data["nodes"]:
            cls = _CLASSES[kind]
            decoded = [_decode(value, made) for value in values]
            pairs = zip(fields(kind), decoded, strict=True)
            made.append(cls(**{name: value for (name, init), value in pairs if init}))
        return _decode(data["root"], made)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"not a dump: {error!r}") from None


def _nodes(value: Any) -> list[object]:
    """Dataclass instances directly in ``value``, which may be a (nested) tuple."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if type(value).__name__ not in _CLASSES:
            raise TypeError(f"{type(value).__name__} is not part of the analysis' model")
        return [value]
    if isinstance(value, tuple):
        return [node for item in value for node in _nodes(item)]
    return []


def _encode(value: Any, refer: Callable[[object], Json]) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, tuple):
        return [_encode(item, refer) for item in value]
    if isinstance(value, frozenset):
        return {"set": sorted(value)}
    return refer(value)


def _decode(value: Any, made: list[object]) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item, made) for item in value)
    if isinstance(value, dict):
        ((kind, inner),) = value.items()
        if kind == "#":
            if not 0 <= inner < len(made):
                raise IndexError(f"row {inner}")
            return made[inner]
        return {"float": float.fromhex, "bytes": bytes.fromhex, "set": frozenset}[kind](inner)
    return value
