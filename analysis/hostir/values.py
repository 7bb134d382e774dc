"""Abstract values of host execution, and the state they live in.

A value is a ``kernel.Expr`` for numbers (``Const`` when known on every execution that gets there, ``Var`` for an
unknown), or one of the records below. Values are immutable; ``State`` holds the current ones and is copied at
branches. Unknown variables have ids that depend only on where they come from, so equal unknowns compare equal.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from prelaunch.analysis.hostir import fold, ir
from prelaunch.analysis.hostir.fold import TooLarge
from prelaunch.analysis.kernel import (
    BOOL,
    I32,
    I64,
    U32,
    Address,
    Binary,
    Bitcast,
    Cast,
    Const,
    Expr,
    PtrAdd,
    PtrOffset,
    Pure,
    Select,
    Special,
    Type,
    Unary,
    Var,
)
from prelaunch.analysis.source import Span
from prelaunch.analysis.walk import walk_expr

ZERO = Const(0, I64)
Key = tuple[str, str]
"""(frame id, slot); frame "" holds what is not local: globals and members of an unknown object."""


@dataclass(frozen=True, slots=True)
class Place:
    """A variable, or a member (str) or element (int) inside it."""

    key: Key
    path: tuple[str | int, ...] = ()

    def inside(self, step: str | int) -> Place:
        return Place(self.key, (*self.path, step))


@dataclass(frozen=True, slots=True)
class Record:
    """A struct by value. ``fields`` may lack members: those are unknown."""

    type: str
    fields: tuple[tuple[str, Value], ...] = ()

    def get(self, name: str) -> Value | None:
        return next((v for k, v in self.fields if k == name), None)

    def put(self, name: str, value: Value) -> Record:
        if any(k == name for k, _ in self.fields):
            return Record(self.type, tuple((k, value if k == name else v) for k, v in self.fields))
        return Record(self.type, (*self.fields, (name, value)))


@dataclass(frozen=True, slots=True)
class Array:
    items: tuple[Value, ...]
    element: str = ""  # C spelling


@dataclass(frozen=True, slots=True)
class Ref:
    """The address of a host variable."""

    place: Place


@dataclass(frozen=True, slots=True)
class Memory:
    """A pointer ``offset`` bytes into an allocation of ``extent`` bytes (None: not known).

    ``allocation`` names where it was made; pointers with equal names may overlap. ``space`` "?" is not known.
    """

    allocation: str
    name: str
    offset: Expr = ZERO
    element: int = 0
    extent: Expr | None = None
    space: str = "?"
    made: Span | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A function by name with its explicit template arguments as printed; ``file`` is where the name was looked up."""

    name: str
    template_args: tuple[str, ...] = ()
    file: str = ""


@dataclass(frozen=True, slots=True)
class Functions:
    """A closed set of functions a pointer may hold."""

    choices: tuple[Function, ...]


@dataclass(frozen=True, slots=True)
class Closure:
    function: ir.HostFunction
    frame: str


@dataclass(frozen=True, slots=True)
class Text:
    value: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """Nothing is known of it, not even that it is a number."""

    id: int
    name: str


Value = Expr | Record | Array | Ref | Memory | Function | Functions | Closure | Text | Symbol
NUMBERS = (Const, Var, Special, Address, Unary, Binary, Cast, Bitcast, Select, PtrAdd, PtrOffset, Pure)


def identity(*words: object) -> int:
    """A stable id from where an unknown comes from."""
    text = "\0".join(str(w) for w in words)
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).digest(), "big")


def token(value: Value) -> str:
    """A short text that tells values apart, for identities of what is read from them."""
    match value:
        case Symbol(id=id) | Var(id=id):
            return f"{id:x}"
        case Memory(allocation=allocation, offset=Const(value=offset)):
            return f"{allocation}+{offset}"
        case Const(value=number):
            return str(number)
    return repr(value)


def unknown_number(kind: Type, name: str, *origin: object) -> Var:
    return Var(identity(name, *origin), name, kind)


def named(value: Value, name: str) -> Value:
    """``value`` under the name of the variable that gets it, when it is an unknown without a plain name of its own."""
    match value:
        case Var(name=own) if not own:
            return replace(value, name=name)
        case Cast(operand=Var(name=own) as inner) if not own:
            return replace(value, operand=replace(inner, name=name))
        case Symbol(name=own) if not _PLAIN.fullmatch(own):
            return replace(value, name=name)
    return value


_PLAIN = re.compile(r"[A-Za-z_][\w.]*")


def number(value: Value) -> Expr:
    """``value`` as a number; what is none becomes an unknown ``int`` that stands for it."""
    if isinstance(value, NUMBERS):
        return value
    name = value.name if isinstance(value, Symbol | Memory | Function) else ""
    return Var(stand_in(value), name, I32)


def stand_in(value: Value) -> int:
    """The id of the number that stands for a value that is none, whatever its name."""
    return value.id if isinstance(value, Symbol) else identity("number", token(value))


def dim3(value: Value) -> Record:
    """``value`` converted to ``dim3``: members it does not give are 1, what is not understood is unknown."""
    if isinstance(value, Record):
        fields = tuple((axis, _member(value, axis)) for axis in "xyz")
        return Record("dim3", fields)
    one = Const(1, U32)
    if isinstance(value, NUMBERS):
        return Record("dim3", (("x", fold.cast(value, U32)), ("y", one), ("z", one)))
    if isinstance(value, Array) and len(value.items) <= 3:
        return Record(
            "dim3", tuple(zip("xyz", [fold.cast(number(v), U32) for v in value.items] + [one] * 3, strict=False))
        )
    name = value.name if isinstance(value, Symbol) else ""
    axes = ((a, unknown_number(U32, f"{name}.{a}" if name else "", a, repr(value))) for a in "xyz")
    return Record("dim3", tuple(axes))


def _member(value: Record, axis: str) -> Expr:
    found = value.get(axis)
    if found is None:
        return unknown_number(U32, axis, repr(value)) if value.type != "dim3" else Const(1, U32)
    return fold.cast(number(found), U32)


@dataclass(slots=True)
class State:
    """Variables by key, attributes set on kernels, and whether an attribute may have been set on some path only."""

    vars: dict[Key, Value] = field(default_factory=dict)
    attributes: dict[tuple[str, str], tuple[Expr, Span]] = field(default_factory=dict)

    def copy(self) -> State:
        return State(dict(self.vars), dict(self.attributes))

    def become(self, other: State) -> None:
        self.vars, self.attributes = other.vars, other.attributes


def join(cond: Expr, then: State, orelse: State) -> State:
    """What holds after a branch: equal values stay, others become a choice on ``cond``, or unknown.

    A variable declared in one branch of an ``#if`` keeps its value: text that uses it is compiled with that branch.
    Attributes set on one side only stay: a launch that needs one is not called wrong where a path sets it.
    """
    merged: dict[Key, Value] = {}
    for key, value in then.vars.items():
        other = orelse.vars.get(key)
        if other is not None:
            merged[key] = value if value is other or value == other else merge(cond, value, other, key)
    for key, value in (*then.vars.items(), *orelse.vars.items()):
        if key not in merged:
            merged[key] = value if key[0] else Symbol(identity(key, cond), key[1])
    return State(merged, {**orelse.attributes, **then.attributes})


def merge(cond: Expr, a: Value, b: Value, origin: object) -> Value:
    """One value for two."""
    if isinstance(a, NUMBERS) and isinstance(b, NUMBERS):
        try:
            return fold.select(cond, a, b)
        except TooLarge:
            return unknown_number(a.type, "", origin, cond)
    if isinstance(a, Record) and isinstance(b, Record):
        names = dict.fromkeys([k for k, _ in a.fields] + [k for k, _ in b.fields])
        fields = []
        for name in names:
            x, y = a.get(name), b.get(name)
            if x is not None and y is not None:
                fields.append((name, x if x == y else merge(cond, x, y, (origin, name))))
        return Record(a.type, tuple(fields))
    if isinstance(a, Array) and isinstance(b, Array) and len(a.items) == len(b.items):
        pairs = zip(a.items, b.items, strict=True)
        return Array(
            tuple(x if x == y else merge(cond, x, y, (origin, i)) for i, (x, y) in enumerate(pairs)), a.element
        )
    if isinstance(a, Function | Functions) and isinstance(b, Function | Functions):
        return Functions(tuple(dict.fromkeys((*functions(a), *functions(b)))))
    if isinstance(a, Memory) and isinstance(b, Memory) and a.allocation == b.allocation:
        offset = a.offset if a.offset == b.offset else unknown_number(I64, "offset", origin, cond)
        return Memory(a.allocation, a.name, offset, a.element, a.extent if a.extent == b.extent else None, a.space)
    return Symbol(identity(origin, cond), getattr(a, "name", ""))


def functions(value: Value) -> tuple[Function, ...]:
    """The functions a value may be; empty when it is none."""
    if isinstance(value, Function):
        return (value,)
    return value.choices if isinstance(value, Functions) else ()


def conditions(values: Iterable[Expr]) -> list[Expr]:
    """Conditions on which the numbers choose between alternatives, in order of appearance."""
    found: dict[Expr, None] = {}
    for value in values:
        for part in walk_expr(value):
            if isinstance(part, Select):
                found.setdefault(part.cond)
    return list(found)


TRUE, FALSE = Const(1, BOOL), Const(0, BOOL)
