"""The intrinsics table: one row per CUDA builtin function, read from the TOML files of this folder.

``lookup(name)`` answers for a name as written in CUDA text. A row says what the function *is* in the IR (``kind``),
which IR operation it becomes (``function``), and the operand and result types of each overload. New hardware and new
headers add rows here, not code. Every ``function`` of a row of kind "pure" or "outputs" has an evaluator in
``evaluate.py`` (a test holds the two together).

Kinds and what ``function`` then is:
- "pure": ``Pure(function, args)``; with ``lanes == 2`` element by element on a 2-vector.
- "outputs": as "pure" for the result (function "" when void); ``outputs[k]`` is the pure function whose value is stored
  through the k-th pointer operand; it takes the non-pointer operands.
- "bitcast": ``Bitcast``. "vector": combine, splat, low, high, convert, swap of a 2-vector. "identity": first operand.
- "atomic": the ``AtomicOp``. "collective": ``Collective.op``; ``mask`` is "first" or "none".
- "barrier": ``Barrier.action``, with ``scope`` and ``reduce``. "fence". "load", "store": hinted or atomic accesses.
- "async": ``Async.op``. "copy": memcpy, memset. "special": the name of a ``Special``. "query": address spaces.
- "effect": ``Intrinsic(function)``. "trap": ``Exit(trap=True)``. "assume": assert, assume, unreachable.
- "allocate": device malloc and free.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, cast

from prelaunch.analysis.kernel import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Scalar

Kind = Literal[
    "pure", "outputs", "bitcast", "vector", "identity", "atomic", "collective", "barrier", "fence", "load", "store",
    "async", "copy", "special", "query", "effect", "trap", "assume", "allocate",
]  # fmt: skip
Uniformity = Literal["same", "thread", "warp", "block"]

SCALARS: dict[str, Scalar] = {str(t): t for t in (BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64, BF16)}
"""Scalar types by the name that signatures use: ``bool``, ``i32``, ``u64``, ``f32``, ``bf16`` ..."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand or result. ``element`` is None for ``void``, ``void*`` and the free type ``T``.

    ``name`` is the text: a scalar name, ``T``, ``void`` or ``...``. ``count`` is 2 for ``f16x2``. ``default`` is the
    value when the call leaves the operand out.
    """

    name: str
    element: Scalar | None
    pointer: bool = False
    count: int = 1
    default: int | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """One overload. ``function`` overrides the row's; ``variadic`` when any further operands may follow."""

    result: Operand
    operands: tuple[Operand, ...]
    function: str
    variadic: bool = False

    def accepts(self, count: int) -> bool:
        """Whether a call with ``count`` arguments fits: defaults fill the end."""
        required = sum(1 for o in self.operands if o.default is None)
        return count >= required and (self.variadic or count <= len(self.operands))


@dataclass(frozen=True, slots=True)
class Row:
    """One builtin. ``uniform``: the result is as uniform as its operands ("same"), or only per thread, warp, block.

    ``scope``/``order``/``space`` are the IR's words, or "argument" where operands name them (``__nv_atomic_*``).
    ``source`` is document and section.
    """

    name: str
    kind: Kind
    function: str
    signatures: tuple[Signature, ...]
    source: str
    uniform: Uniformity = "thread"
    space: str = "generic"
    scope: str = "thread"
    order: str = "weak"
    mask: str = ""
    reduce: str = ""
    cache: str = ""
    lanes: int = 1
    outputs: tuple[str, ...] = ()
    note: str = ""


def lookup(name: str) -> Row | None:
    """The row of a builtin by its CUDA spelling (``::`` in front is ignored), or None."""
    return table().get(name.removeprefix("::"))


@cache
def table() -> dict[str, Row]:
    """All rows by name, in order of file and row. Raises ValueError when a file breaks the format."""
    rows: dict[str, Row] = {}
    files = [f for f in resources.files(__package__).iterdir() if f.name.endswith(".toml")]
    for file in sorted(files, key=lambda f: f.name):
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        for entry in data["rows"]:
            for row in _rows({**data.get("defaults", {}), **entry}):
                if row.name in rows:
                    raise ValueError(f"{file.name}: {row.name} has two rows")
                rows[row.name] = row
    return rows


def parse_signature(text: str, function: str = "") -> Signature:
    """Parse ``[function:] result(operand, ...)``, an operand being ``type[*][=default]`` or ``...``."""
    match = re.fullmatch(r"(?:(\w+): )?([\w*]+)\((.*)\)", text)
    if match is None:
        raise ValueError(f"signature {text!r} is not 'result(operand, ...)'")
    own, result, inside = match.groups()
    words = [word.strip() for word in inside.split(",")] if inside else []
    variadic = "..." in words
    operands = tuple(_operand(word) for word in words if word != "...")
    return Signature(_operand(result), operands, own or function, variadic)


def _rows(entry: dict[str, Any]) -> list[Row]:
    names = cast("list[str]", entry.pop("names"))
    function = cast(str, entry["function"])
    entry["signatures"] = tuple(parse_signature(s, function) for s in entry["signatures"])
    entry["outputs"] = tuple(entry.get("outputs", ()))
    return [Row(name=name, **entry) for name in names if not name.startswith("::")]


def _operand(text: str) -> Operand:
    match = re.fullmatch(r"(T|void|[a-z]+\d*?)(x2)?(\*)?(?:=(\w+))?", text)
    if match is None or (match[1] not in ("T", "void") and match[1] not in SCALARS):
        raise ValueError(f"operand {text!r} is not a type of the signatures' vocabulary")
    name, pair, star, default = match.groups()
    return Operand(
        name, SCALARS.get(name), star is not None, 2 if pair else 1, int(default, 0) if default is not None else None
    )
