"""What host execution shares: the project, budgets, functions lowered so far, launches seen, reasons for unknowns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl, Project, RecordDecl
from prelaunch.analysis.hostir import api, ctypes, ir
from prelaunch.analysis.hostir.linkage import callees
from prelaunch.analysis.hostir.lower import lower_function
from prelaunch.analysis.hostir.values import (
    NUMBERS,
    Array,
    Function,
    Memory,
    Place,
    Record,
    State,
    Symbol,
    Value,
    identity,
    stand_in,
    unknown_number,
)
from prelaunch.analysis.kernel import U32, Const, Expr, Type, Var
from prelaunch.analysis.launch import LaunchForm
from prelaunch.analysis.source import Span

MAX_STEPS = 40_000
MAX_CALLS = 10
MAX_RECURSION = 150
MAX_CONTEXTS = 16


class Exhausted(Exception):
    """The step budget of one root is spent."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call under execution: who calls, and where."""

    caller: ir.HostFunction
    span: Span


@dataclass(slots=True)
class Frame:
    """A function under execution.

    ``types`` binds template type parameters to spellings; ``aliases`` binds reference parameters to the caller's
    variables; ``exits`` collects the states at ``return``; ``breaks``/``continues`` those of the innermost loop.
    """

    id: str
    function: ir.HostFunction
    stack: tuple[CallSite, ...] = ()
    this: Place | None = None
    types: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, Place] = field(default_factory=dict)
    declared: dict[str, ir.Declare | ir.Parameter] = field(default_factory=dict)
    exits: list[tuple[State, Value | None]] = field(default_factory=list)
    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)

    def origin(self, *words: object) -> tuple[object, ...]:
        """Where an unknown made here comes from: stable words for its identity."""
        return (self.function.name, *(c.span.start for c in self.stack), *words)


@dataclass(frozen=True, slots=True)
class Seen:
    """A launch executed in some state: values as they were, before conversion to a ``Launch``."""

    form: LaunchForm
    kernel: Function
    grid: Record
    block: Record
    smem: Expr
    args: tuple[Value | None, ...]
    span: Span
    function: ir.HostFunction
    stack: tuple[CallSite, ...]
    attributes: tuple[tuple[str, Expr, Span], ...] = ()
    dims: tuple[tuple[Span, ...], ...] = ()  # where variables in the grid are declared, where those in the block
    cooperative: bool = False
    used: bool = False  # the launch's own error code is read
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Machine:
    project: Project
    steps: int = 0
    depth: int = 0
    unrolling: int = 0
    exploring: bool = False  # decided branches run on both sides, for launches that nothing reaches
    made: int = 0
    seen: list[Seen] = field(default_factory=list)
    lowered: dict[tuple[str, int], ir.HostFunction] = field(default_factory=dict)
    executed: set[Span] = field(default_factory=set)
    frames: dict[str, Frame] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    reaching: frozenset[tuple[str, int]] = frozenset()
    launching: dict[tuple[str, str], bool] = field(default_factory=dict)
    words: dict[str, frozenset[str]] = field(default_factory=dict)
    references: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    memo: dict[tuple[object, ...], Value | None] = field(default_factory=dict)
    constants: dict[tuple[str, str], Value | None] = field(default_factory=dict)
    attributes_set: list[tuple[str, str, Expr, Span, str]] = field(default_factory=list)
    types: dict[tuple[str, str], str] = field(default_factory=dict)
    unrollable: dict[Span, bool] = field(default_factory=dict)
    inert: dict[Span, tuple[ir.Call, ...] | None] = field(default_factory=dict)
    enumerators: dict[str, list[RecordDecl]] | None = None
    written: dict[str, bool] = field(default_factory=dict)
    signatures: dict[tuple[str, int], ir.HostFunction] = field(default_factory=dict)
    called: dict[tuple[str, str], tuple[FunctionDecl, ...]] = field(default_factory=dict)
    mentioned: dict[str, frozenset[str]] = field(default_factory=dict)

    def step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Exhausted

    def host_function(self, decl: FunctionDecl) -> ir.HostFunction:
        """``decl`` lowered, once."""
        key = (decl.file.source.path, decl.node.start_byte)
        if key not in self.lowered:
            self.lowered[key] = lower_function(self.project, decl)
        return self.lowered[key]

    def signature(self, decl: FunctionDecl) -> ir.HostFunction:
        """``decl`` without its body, which costs little where only parameters matter."""
        key = (decl.file.source.path, decl.node.start_byte)
        if key not in self.signatures:
            self.signatures[key] = self.lowered.get(key) or lower_function(self.project, decl, body=False)
        return self.signatures[key]

    def callees(self, name: str, file: str) -> tuple[FunctionDecl, ...]:
        """``linkage.callees`` of the project, asked once."""
        key = (name, file)
        if key not in self.called:
            self.called[key] = tuple(callees(self.project, name, file))
        return self.called[key]

    def reaches(self, decl: FunctionDecl) -> bool:
        """Whether ``decl`` can lead to a launch."""
        return (decl.file.source.path, decl.node.start_byte) in self.reaching

    def may_launch(self, expr: ir.Expr, file: str) -> bool:
        """A launch, or a call of something that leads to one, as far as the name tells."""
        match expr:
            case ir.Launch() | ir.Lambda():
                return True
            case ir.Call(callee=ir.Name(slot=slot)) if slot:
                return True
            case ir.Call() | ir.Name():
                name = expr.name.rpartition("::")[2]
                return name in api.LAUNCHES or self.named_launching(name, file)
        return False

    def named_launching(self, name: str, file: str) -> bool:
        """Whether a function that ``name`` can mean in ``file`` leads to a launch."""
        if (name, file) not in self.launching:
            found = self.callees(name, file) if name in self.project.functions else ()
            self.launching[name, file] = any(self.reaches(f) for f in found)
        return self.launching[name, file]

    def mark(self) -> tuple[int, int, int]:
        """A point to come back to with ``rewind``: launches and calls recorded since are dropped then."""
        return len(self.seen), len(self.memo), len(self.attributes_set)

    def rewind(self, mark: tuple[int, int, int]) -> None:
        seen, memo, attributes = mark
        del self.seen[seen:]
        del self.attributes_set[attributes:]
        for key in list(self.memo)[memo:]:
            del self.memo[key]

    def mentions(self, name: str) -> frozenset[str]:
        """Identifiers in the bodies of functions called ``name`` and of what those call."""
        if name in self.mentioned:
            return self.mentioned[name]
        found: set[str] = set()
        pending = [name]
        while pending:
            new = self.words.get(pending.pop(), frozenset()) - found
            found |= new
            pending += [w for w in new if w in self.words]
        self.mentioned[name] = frozenset(found)
        return self.mentioned[name]

    def reference_positions(self, name: str, count: int) -> tuple[int, ...]:
        """Which of ``count`` arguments a project function ``name`` may take by non-const reference."""
        key = (name, count)
        if key not in self.references:
            found: set[int] = set()
            for decl in self.project.functions.get(name, ()):
                for index, node in enumerate(decl.parameters[:count]):
                    text = decl.file.text(node)
                    if "&" in text and "const" not in text.split():
                        found.add(index)
            self.references[key] = tuple(sorted(found))
        return self.references[key]

    def frame_id(self) -> str:
        self.made += 1
        return str(self.made)

    # --- unknowns --------------------------------------------------------------------------------------------------

    def number(self, kind: Type, name: str, reason: str, *origin: object) -> Var:
        """An unknown number, its reason on record."""
        made = unknown_number(kind, name, *origin)
        self.reasons.setdefault(made.id, reason)
        return made

    def symbol(self, name: str, reason: str, *origin: object) -> Symbol:
        made = Symbol(identity(name, *origin), name)
        self.reasons.setdefault(stand_in(made), reason)
        return made

    def unknown(self, type: str, pointers: int, name: str, reason: str, *origin: object) -> Value:
        """An unknown of a C type (already resolved): a number, a pointer into memory of its own, dims, or a symbol."""
        if pointers:
            element = 8 if pointers > 1 else ctypes.size_of(type) or 0
            return Memory(f"{name}@{identity(name, *origin):x}", name, element=element)
        kind = ctypes.scalar(type)
        if kind is not None:
            return self.number(kind, name, reason, *origin)
        plain = ctypes.plain(type)
        if plain.endswith("*"):
            return Memory(f"{name}@{identity(name, *origin):x}", name, element=ctypes.size_of(plain[:-1].strip()) or 0)
        if plain == "dim3":
            axes = tuple((a, self.number(U32, f"{name}.{a}", reason, *origin, a)) for a in "xyz")
            return Record("dim3", axes)
        return self.symbol(name, reason, *origin)


def read(value: Value | None, path: tuple[str | int, ...]) -> Value | None:
    """The member of ``value`` that a path leads to, None when it is not known."""
    for step in path:
        if isinstance(value, Record) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, Symbol) and isinstance(step, str):
            value = Symbol(identity(value.id, step), f"{value.name}.{step}")
        elif isinstance(value, Array) and isinstance(step, int) and 0 <= step < len(value.items):
            value = value.items[step]
        else:
            return None
    return value


def write(old: Value | None, path: tuple[str | int, ...], new: Value) -> Value:
    """``old`` with the member at ``path`` replaced; what cannot hold it becomes a record that knows only that."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        base = old if isinstance(old, Record) else Record("")
        return base.put(step, write(base.get(step), rest, new))
    if isinstance(old, Array) and 0 <= step < len(old.items):
        return replace(old, items=(*old.items[:step], write(old.items[step], rest, new), *old.items[step + 1 :]))
    return Symbol(identity(repr(old), step), getattr(old, "name", ""))


def is_number(value: Value | None) -> bool:
    return isinstance(value, NUMBERS)


def known(value: Value | None) -> int | float | None:
    """The number a value is on every execution, None when it is not decided."""
    return value.value if isinstance(value, Const) else None
