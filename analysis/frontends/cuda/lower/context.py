"""State of one lowering: where statements go, what has been created, where we are in the text.

Guarantees: every node gets the span of the text it stands for (use site and spelling for macros, ``inlined_at`` for
inlined functions); at most ``Limits.nodes`` statements are created, then one ``Opaque`` says so and the rest is
skipped; nested expressions and inlined calls are counted, never left to Python's stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Reg, Scope, Template, Val
from prelaunch.analysis.frontends.cuda.semantics.types import CType, Ptr, Record, Void, ir_type, leaves
from prelaunch.analysis.frontends.cuda.text.declarations import ParsedFile
from prelaunch.analysis.frontends.cuda.text.project import Project
from prelaunch.analysis.kernel import (
    F32,
    Address,
    Assign,
    Block,
    Call,
    Const,
    Expr,
    If,
    Loop,
    Object,
    Opaque,
    Pointer,
    PtrAdd,
    Stmt,
    Touch,
    Type,
    Var,
)  # fmt: skip
from prelaunch.analysis.source import NOWHERE, Span
from prelaunch.analysis.walk import walk_expr

EVERYTHING: tuple[Touch, ...] = ("value", "memory", "control")
"""What code that is not modelled may touch."""

_CONDITIONALS = frozenset({
    "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef",
    "preproc_if_in_field_declaration_list", "preproc_ifdef_in_field_declaration_list",
    "preproc_if_in_enumerator_list", "preproc_ifdef_in_enumerator_list",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """Counted budgets of one kernel: IR statements, nested expressions or statements, nested inlined calls."""

    nodes: int = 20_000
    expressions: int = 60_000  # expressions of the text lowered, those of inlined functions each time
    depth: int = 200
    inline: int = 40
    recursion: int = 2
    level: int = 1500
    restarts: int = 4


@dataclass(slots=True)
class Frame:
    """A function being lowered. ``label`` None for the kernel itself; ``result`` is where a returned value goes."""

    name: str
    label: int | None
    type: CType | None  # None: auto, not deduced yet
    reference: bool = False
    result: Lowered | None = None
    returns: int = 0
    scope: Scope | None = None
    decl: object = None
    instance: tuple[str, ...] = ()  # template arguments in print: static storage is one per instance
    gotos: dict[str, tuple[int, bool]] = field(default_factory=dict)  # label in the text -> (IR label, continues it)


@dataclass(frozen=True, slots=True)
class Jump:
    """What ``break`` and ``continue`` mean here."""

    break_label: int
    continue_label: int | None


@dataclass(slots=True)
class Context:
    project: Project
    limits: Limits
    file: ParsedFile
    scope: Scope
    frame: Frame
    out: list[Stmt] = field(default_factory=list)
    objects: dict[str, Object] = field(default_factory=dict)
    statics: dict[tuple[object, ...], Lowered] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    addressed: set[str] = field(default_factory=set)  # declarations that must live in memory
    wanted: set[str] = field(default_factory=set)  # such declarations found in this pass
    log: list[int] = field(default_factory=list)  # named variables assigned, in order
    jumps: list[Jump] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    inlined_at: Span | None = None
    macro_site: Span | None = None
    macros: tuple[str, ...] = ()  # object- and function-like macros being expanded
    records: dict[tuple[object, ...], Record] = field(default_factory=dict)
    aliases: dict[tuple[object, ...], CType] = field(default_factory=dict)
    resolving: list[tuple[object, ...]] = field(default_factory=list)  # types being resolved, against cycles
    pointers: dict[int, Var] = field(default_factory=dict)  # integer variable -> the pointer it was made from
    formals: set[str] = field(default_factory=set)  # keys of kernel parameters held in registers
    copies: dict[str, str] = field(default_factory=dict)  # local copy of part of a parameter -> the parameter's key
    dynamic: str | None = None  # id of the dynamic shared memory object
    repaired: str = ""
    count: int = 0
    expressions: int = 0
    depth: int = 0  # nested expressions and statements of this function
    level: int = 0  # of all functions being lowered
    next_var: int = 0
    next_label: int = 0
    stopped: bool = False
    unevaluated: int = 0
    locals: dict[str, CType] = field(default_factory=dict)  # types of local objects, for names of their elements

    # --- places in the text

    def text(self, node: Node) -> str:
        raw = node.text
        return raw.decode("utf-8", "replace") if raw is not None else ""

    def span(self, node: Node) -> Span:
        if self.macro_site is not None:
            return self.macro_site
        return self.file.span(node, self.inlined_at)

    def parts(self, node: Node) -> list[Node]:
        """Named children without comments; of an ``#if`` only the branch a compiler without ``-D`` reads."""
        found: list[Node] = []
        stack = list(reversed(node.named_children))
        while stack:
            child = stack.pop()
            if child.type == "comment":
                continue
            if child.type in _CONDITIONALS:
                stack.extend(reversed(self._branch(child)))
            else:
                found.append(child)
        return found

    def _branch(self, node: Node) -> list[Node]:
        current: Node | None = node
        while current is not None:
            other = current.child_by_field_name("alternative")
            if self.file.taken(current):
                heads = (current.child_by_field_name("name"), current.child_by_field_name("condition"), other)
                return [c for c in current.named_children if c not in heads]
            current = other
        return []

    def key(self, node: Node) -> str:
        """Identity of a declaration, the same in every pass over the kernel."""
        path = "/".join(f"{s.start}" for s in self.inlined_at.call_path()) if self.inlined_at else ""
        here = f"{self.inlined_at.start}/{path}" if self.inlined_at else ""
        site = f"~{self.macro_site.start}" if self.macro_site else ""
        return f"{self.file.source.path}:{node.start_byte}{site}@{here}#{len(self.frames)}"

    def note(self, text: str) -> None:
        self.notes[text] = None

    def is_unbound(self, name: str) -> bool:
        bound = self.scope.find(name)
        return isinstance(bound, Template) and isinstance(bound.value, str)

    # --- making things

    def var(self, type: Type, name: str = "", span: Span = NOWHERE) -> Var:
        self.next_var += 1
        return Var(self.next_var, name, type, span=span)

    def label(self) -> int:
        self.next_label += 1
        return self.next_label

    def registers(self, ctype: CType, name: str, span: Span, key: str = "") -> Reg | None:
        """Fresh variables for a value of ``ctype``; None when it does not decompose."""
        found = leaves(ctype)
        if found is None:
            return None
        made = tuple(self.var(ir_type(x.type), name + x.path if name else "", span) for x in found)
        return Reg(ctype, made, key)

    def object_id(self, name: str) -> str:
        base = f"{self.frame.name}/{name}" if self.frame.label is not None else name
        if base not in self.objects:
            return base
        number = 2
        while f"{base}#{number}" in self.objects:
            number += 1
        return f"{base}#{number}"

    def add_object(self, made: Object) -> Object:
        self.objects[made.id] = made
        return made

    def enter(self) -> bool:
        """Go one level down; False when that is too deep. ``leave`` goes back up in either case."""
        self.depth += 1
        self.level += 1
        return self.depth <= self.limits.depth and self.level <= self.limits.level

    def leave(self) -> None:
        self.depth -= 1
        self.level -= 1

    def paths(self) -> dict[str, dict[int, str]]:
        """Access paths of the elements of local objects: ``{"v": {4: ".y"}}``."""
        return {name: {x.offset: x.path for x in leaves(ctype) or ()} for name, ctype in self.locals.items()}

    def emit(self, stmt: Stmt) -> None:
        if self.stopped:
            if isinstance(stmt, Block | Call | If | Loop):  # holds what came before the end of the budget
                self.out.append(stmt)
            return
        self.count += 1
        if self.count > self.limits.nodes:
            self.stop(f"node budget of {self.limits.nodes} statements exhausted", stmt.span)
            return
        self.out.append(stmt)

    def stop(self, reason: str, span: Span) -> None:
        """End the lowering here: what follows is not looked at."""
        self.stopped = True
        self.out.append(Opaque(reason, frozenset(EVERYTHING), span=span))

    def assign(self, var: Var, expr: Expr, span: Span) -> None:
        from prelaunch.analysis.frontends.cuda.lower import addresses

        if var.name:
            self.log.append(var.id)
        addresses.follow(self, var, expr, span)
        self.emit(Assign(var, expr, span=span))

    def temporary(self, expr: Expr, span: Span, name: str = "") -> Var:
        made = self.var(expr.type, name, span)
        self.emit(Assign(made, expr, span=span))
        return made

    def opaque(
        self, reason: str, span: Span, touches: Iterable[Touch] = ("value",), defines: tuple[Var, ...] = ()
    ) -> None:
        self.emit(Opaque(reason, frozenset(touches), defines, span=span))

    def unknown(
        self, reason: str, span: Span, ctype: CType = F32, touches: Iterable[Touch] = ("value",), name: str = ""
    ) -> Val:
        """A value nothing is known of, with the reason on record."""
        if isinstance(ctype, Void):
            self.opaque(reason, span, touches)
            return Val(ctype)
        made = self.registers(ctype, name, span)
        if made is None:
            self.opaque(reason, span, touches)
            return Val(ctype)
        self.opaque(reason, span, touches, made.vars)
        return Val(ctype, made.vars)

    # --- order of evaluation

    def mark(self) -> tuple[int, int]:
        return len(self.out), len(self.log)

    def protect(self, exprs: tuple[Expr, ...], mark: tuple[int, int]) -> tuple[Expr, ...]:
        """``exprs`` as they were at ``mark``: copied there when a later statement assigned a variable they read."""
        position, logged = mark
        if len(self.log) == logged:
            return exprs
        changed = set(self.log[logged:])
        kept: list[Expr] = []
        for expr in exprs:
            if any(isinstance(e, Var) and e.id in changed for e in walk_expr(expr)):
                made = self.var(expr.type, "", expr.span)
                self.out.insert(min(position, len(self.out)), Assign(made, expr, span=expr.span))
                position += 1
                kept.append(made)
            else:
                kept.append(expr)
        return tuple(kept)

    def protect_place(self, place: Lowered, mark: tuple[int, int]) -> Lowered:
        if isinstance(place, Val):
            return Val(place.type, self.protect(place.exprs, mark))
        if isinstance(place, Mem):
            (address,) = self.protect((place.address,), mark)
            return place if address is place.address else replace(place, address=address)
        return place

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Statements emitted inside go to the yielded list."""
        outer, inner = self.out, list[Stmt]()
        self.out = inner
        try:
            yield inner
        finally:
            self.out = outer

    @contextmanager
    def into(self, stmts: list[Stmt]) -> Iterator[None]:
        """Statements emitted inside go to the end of ``stmts``."""
        outer, self.out = self.out, stmts
        try:
            yield
        finally:
            self.out = outer

    @contextmanager
    def discarded(self) -> Iterator[list[Stmt]]:
        """Statements emitted inside are not part of the kernel; objects and demands made there are forgotten."""
        kept = self.count, len(self.log), dict(self.objects), set(self.wanted), self.stopped, dict(self.statics)
        dynamic, notes = self.dynamic, dict(self.notes)
        self.unevaluated += 1
        try:
            with self.block() as stmts:
                yield stmts
        finally:
            self.unevaluated -= 1
            self.count, logged, self.objects, self.wanted, self.stopped, self.statics = kept
            self.dynamic, self.notes = dynamic, notes
            del self.log[logged:]

    @contextmanager
    def nested(self, scope: Scope | None = None) -> Iterator[Scope]:
        """A new scope (or the given one) for the names declared inside."""
        outer = self.scope
        self.scope = scope if scope is not None else Scope(outer)
        try:
            yield self.scope
        finally:
            self.scope = outer

    def frozen(self, pointer: Expr, span: Span) -> Expr:
        """``pointer`` as it is now: itself when no variable in it can change, else a copy in a fresh variable."""
        if isinstance(pointer, Address | Const):
            return pointer
        if isinstance(pointer, PtrAdd) and isinstance(pointer.offset, Const) and self._steady(pointer.pointer):
            return pointer
        if self._steady(pointer):
            return pointer
        return self.temporary(pointer, span)

    def _steady(self, expr: Expr) -> bool:
        return isinstance(expr, Address) or (isinstance(expr, Var) and not expr.name)


def as_block(stmts: Iterable[Stmt], span: Span, label: int | None = None) -> Block:
    return Block(tuple(stmts), label, span=span)


def pointer_to(ctype: CType) -> Pointer:
    made = ir_type(Ptr(ctype))
    assert isinstance(made, Pointer)
    return made
