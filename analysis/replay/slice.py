"""A kernel without what its control does not depend on: what replays of barriers and warp exchanges need to run.

``control_slice(kernel)`` keeps every barrier, warp exchange, exit and assumption, the branches, loops and jumps that
decide who executes them, and whatever their conditions, masks and numbers are computed from, through variables and
memory. Guarantee: where the loops left out end, every thread goes through the same barriers and exchanges, with the
same masks, as in the whole kernel. Spans are those of the kernel; values that decide nothing are 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from prelaunch.analysis.check import cases_of
from prelaunch.analysis.kernel import (
    Assume,
    Async,
    Atomic,
    Barrier,
    Block,
    Break,
    Call,
    Collective,
    Continue,
    Exit,
    Expr,
    If,
    Kernel,
    Load,
    Loop,
    Mma,
    Opaque,
    PtrOffset,
    Return,
    Stmt,
    Store,
    Var,
)
from prelaunch.analysis.uniformity.points_to import PointsTo
from prelaunch.analysis.walk import children, defined, operands, postorder, walk

_WRITERS = (Store, Atomic, Async, Mma, Opaque)


def control_slice(kernel: Kernel) -> Kernel:
    slicer = _Slicer(kernel)
    slicer.run()
    return replace(kernel, body=slicer.rebuilt())


class _Slicer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.order = list(walk(kernel.body))
        self.points = PointsTo(kernel)
        self.kept: set[int] = set()
        self.variables: set[int] = set()
        self.objects: set[str] = set()
        self.everything = False  # any object may be read
        self.written: dict[int, frozenset[str] | None] = {}
        self.work: list[Stmt] = []
        self.parents: dict[int, Stmt] = {}
        self.jumps: dict[int, list[Stmt]] = {}
        self.definers: dict[int, list[Stmt]] = {}
        for stmt in self.order:
            for below in stmt.stmts if isinstance(stmt, Block) else children(stmt):
                self.parents[id(below)] = stmt
            if isinstance(stmt, (Break, Continue, Return)):
                self.jumps.setdefault(stmt.label, []).append(stmt)
            for var in defined(stmt):
                self.definers.setdefault(var.id, []).append(stmt)
        self.writers = [stmt for stmt in self.order if isinstance(stmt, _WRITERS)]

    def run(self) -> None:
        for stmt in self.order:
            if isinstance(stmt, (Barrier, Collective, Exit, Assume)) or (
                isinstance(stmt, Opaque) and "control" in stmt.touches
            ):
                self.keep(stmt)
        while self.work:
            while self.work:
                self.follow(self.work.pop())
            for stmt in self.touching():
                self.keep(stmt)

    def keep(self, stmt: Stmt) -> None:
        """``stmt`` and the constructs it is in stay."""
        item: Stmt | None = stmt
        while item is not None and id(item) not in self.kept:
            self.kept.add(id(item))
            self.work.append(item)
            item = self.parents.get(id(item))

    def follow(self, stmt: Stmt) -> None:
        """What a statement that stays depends on."""
        if isinstance(stmt, (Loop, Call, Block)) and stmt.label is not None:
            for jump in self.jumps.get(stmt.label, ()):
                self.keep(jump)
        self.need(self.uses(stmt))
        if isinstance(stmt, (Load, Atomic)):
            self.read(self.points.access(stmt))
        elif isinstance(stmt, Async) and stmt.src is not None:
            cases = stmt.src_cases
            self.read(frozenset(c.object for c in cases) if cases else self.points.address(stmt.src))
        elif isinstance(stmt, Mma) and stmt.op == "load":
            self.read(self.points.access(stmt))

    def uses(self, stmt: Stmt) -> Iterable[Expr]:
        """Expressions whose values matter: of barriers and exchanges, those that say who meets, unless the result is
        needed."""
        if isinstance(stmt, (Barrier, Collective)) and not any(var.id in self.variables for var in defined(stmt)):
            parts = (stmt.mask, stmt.id, stmt.count) if isinstance(stmt, Barrier) else (stmt.mask,)
            return [expr for expr in parts if expr is not None]
        found = [*operands(stmt)]
        for case in cases_of(stmt):
            found += [case.offset] if case.guard is None else [case.offset, case.guard]
        return found

    def need(self, exprs: Iterable[Expr]) -> None:
        for expr in exprs:
            for item in postorder(expr):
                var = item if isinstance(item, Var) else item.var if isinstance(item, PtrOffset) else None
                if var is not None and var.id not in self.variables:
                    self.variables.add(var.id)
                    for definer in self.definers.get(var.id, ()):
                        if id(definer) in self.kept:
                            self.work.append(definer)  # its result is needed, which it was not before
                        self.keep(definer)

    def read(self, names: frozenset[str] | None) -> None:
        if names is None:
            self.everything = True
        else:
            self.objects |= names

    def touching(self) -> list[Stmt]:
        """What may write what is read and was not kept. Copies and matrix instructions stand or fall together."""
        if not (self.everything or self.objects):
            return []
        kinds = {type(stmt) for stmt in self.writers if self.writes(stmt)}
        together = kinds & {Async, Mma}
        return [
            stmt for stmt in self.writers if id(stmt) not in self.kept and (type(stmt) in together or self.writes(stmt))
        ]

    def writes(self, stmt: Stmt) -> bool:
        if isinstance(stmt, Opaque):
            return "memory" in stmt.touches
        if (isinstance(stmt, Async) and stmt.dst is None) or (isinstance(stmt, Mma) and stmt.op != "store"):
            return False
        if id(stmt) not in self.written:
            self.written[id(stmt)] = self.points.access(stmt)
        names = self.written[id(stmt)]
        return self.everything or names is None or not self.objects.isdisjoint(names)

    def rebuilt(self) -> Block:
        """The body with only what was kept; inner statements first."""
        new: dict[int, Stmt] = {}
        blocks: dict[int, Block] = {}
        for stmt in reversed(self.order):
            match stmt:
                case Block(stmts=stmts):
                    inner = tuple(new[id(item)] for item in stmts if id(item) in self.kept)
                    new[id(stmt)] = blocks[id(stmt)] = replace(stmt, stmts=inner)
                case If(then=then, orelse=orelse):
                    new[id(stmt)] = replace(stmt, then=blocks[id(then)], orelse=blocks[id(orelse)])
                case Loop(test=test, body=body, step=step):
                    test, body, step = blocks[id(test)], blocks[id(body)], blocks[id(step)]
                    new[id(stmt)] = replace(stmt, test=test, body=body, step=step)
                case Call(body=body):
                    new[id(stmt)] = replace(stmt, body=blocks[id(body)])
                case _:
                    new[id(stmt)] = stmt
        return blocks[id(self.kernel.body)]
