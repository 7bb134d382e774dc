"""Names of device code: where values live, what a name stands for, and the chain of scopes that finds it."""

from __future__ import annotations

from dataclasses import dataclass, field

from prelaunch.analysis.frontends.cuda.semantics.types import (
    CType,
    Function,
    Leaf,
    Record,
    TemplateArgument,
    leaves,
    scalar,
)
from prelaunch.analysis.kernel import Expr, Space, Var


@dataclass(frozen=True, slots=True)
class Val:
    """An rvalue: one expression per leaf of ``type`` (none for types without run-time content)."""

    type: CType
    exprs: tuple[Expr, ...] = ()

    @property
    def expr(self) -> Expr:
        return self.exprs[0]


@dataclass(frozen=True, slots=True)
class Reg:
    """An lvalue held in registers: one variable per leaf. ``key`` names the declaration it is (part of)."""

    type: CType
    vars: tuple[Var, ...]
    key: str = ""


@dataclass(frozen=True, slots=True)
class Mem:
    """An lvalue in memory. ``bits``/``shift`` for a bit-field, whose storage unit has type ``type``."""

    type: CType
    address: Expr
    volatile: bool = False
    space: Space = "generic"
    bits: int | None = None
    shift: int = 0


@dataclass(frozen=True, slots=True)
class TypeName:
    type: CType


@dataclass(frozen=True, slots=True)
class Template:
    """A template parameter bound to a value or a pack of values or types."""

    value: TemplateArgument


@dataclass(frozen=True, slots=True)
class Parameters:
    """A function parameter pack: its elements in order."""

    items: tuple[Val | Reg | Mem, ...]


Lowered = Val | Reg | Mem
Binding = Val | Reg | Mem | TypeName | Template | Parameters | Function


@dataclass(slots=True)
class Scope:
    """One level of names. ``record`` is set on the scope of a class's members, ``this`` inside its methods."""

    parent: Scope | None = None
    names: dict[str, Binding] = field(default_factory=dict)
    this: Lowered | None = None
    namespace: str = ""
    record: Record | None = None

    def find(self, name: str) -> Binding | None:
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def enclosing_this(self) -> Lowered | None:
        scope: Scope | None = self
        while scope is not None:
            if scope.this is not None:
                return scope.this
            scope = scope.parent
        return None


def leaf_range(whole: CType, part: CType, offset: int) -> tuple[int, int] | None:
    """Indices [start, end) of the leaves of ``part`` at byte ``offset`` inside ``whole``; None when it has none."""
    outer, inner = leaves(whole), leaves(part)
    if outer is None or inner is None:
        return None
    for start, leaf in enumerate(outer):
        if leaf.offset == offset:
            return start, start + len(inner)
    return (0, 0) if not inner else None


def register_leaves(ctype: CType) -> tuple[Leaf, ...] | None:
    """Leaves of a type whose variables start out in registers: scalars, and records without arrays inside."""
    if scalar(ctype):
        return leaves(ctype)
    found = leaves(ctype)
    if found is None or any("[" in leaf.path for leaf in found):
        return None
    return found
