"""Constant expressions: array bounds, template arguments, ``if constexpr``, initialisers of ``constexpr`` variables.

An expression is lowered like any other, into a scratch list; when statements came out (a ``constexpr`` function was
inlined) they are run here. Nothing is emitted into the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower import expressions
from prelaunch.analysis.frontends.cuda.lower.context import Context
from prelaunch.analysis.frontends.cuda.passes import constants
from prelaunch.analysis.frontends.cuda.semantics.scope import Val
from prelaunch.analysis.frontends.cuda.semantics.types import CType
from prelaunch.analysis.kernel import (
    Assign,
    Binary,
    Bitcast,
    Block,
    Break,
    Call,
    Cast,
    Const,
    Continue,
    Expr,
    If,
    Loop,
    Pure,
    Return,
    Select,
    Stmt,
    Unary,
    Var,
)  # fmt: skip
from prelaunch.analysis.walk import subexpressions

STEPS = 20_000


def constant(ctx: Context, node: Node) -> int | float | None:
    """The value of a constant expression, None when it is not one."""
    found = scratch(ctx, node)
    if found is None or len(found.exprs) != 1 or not isinstance(found.expr, Const):
        return None
    return found.expr.value


def integer(ctx: Context, node: Node) -> int | None:
    value = constant(ctx, node)
    return int(value) if value is not None and value == value and abs(value) < 1 << 64 else None


def scratch(ctx: Context, node: Node) -> Val | None:
    """``node`` lowered and run now: its value with constant leaves, None when it depends on the run."""
    with ctx.discarded() as stmts:
        found = expressions.rvalue(ctx, node)
    if not isinstance(found, Val):
        return None
    return settle(found, stmts)


def scratch_to(ctx: Context, node: Node, to: CType) -> Val | None:
    """``node`` converted to ``to`` and run now, as ``scratch``."""
    with ctx.discarded() as stmts:
        found = expressions.converted(ctx, node, to)
    return settle(found, stmts) if isinstance(found, Val) else None


def settle(value: Val, stmts: Sequence[Stmt]) -> Val | None:
    """``value`` after running ``stmts``; None when they do anything but compute constants."""
    machine = Machine()
    if not machine.run(stmts):
        return None
    exprs = [machine.value(e) for e in value.exprs]
    if any(e is None for e in exprs):
        return None
    return Val(value.type, tuple(e for e in exprs if e is not None))


@dataclass(slots=True)
class Machine:
    """Runs statements over constants. ``run`` is False when something is not constant or takes over STEPS steps."""

    vars: dict[int, Const] = field(default_factory=dict)
    steps: int = 0
    leaving: tuple[str, int] | None = None

    def run(self, stmts: Sequence[Stmt]) -> bool:
        for stmt in stmts:
            self.steps += 1
            if self.steps > STEPS or not self._one(stmt):
                return False
            if self.leaving is not None:
                return True
        return True

    def _one(self, stmt: Stmt) -> bool:
        match stmt:
            case Assign(var=var, expr=expr):
                value = self.value(expr)
                if value is not None:
                    self.vars[var.id] = value
                return value is not None
            case Block(stmts=stmts, label=label):
                return self.run(stmts) and self._land("break", label)
            case If(cond=cond, then=then, orelse=orelse):
                value = self.value(cond)
                return value is not None and self.run((then if value.value else orelse).stmts)
            case Call(label=label, body=body):
                return self.run(body.stmts) and self._land("return", label)
            case Loop():
                return self._loop(stmt)
            case Break(label=label):
                self.leaving = ("break", label)
                return True
            case Continue(label=label):
                self.leaving = ("continue", label)
                return True
            case Return(label=label):
                self.leaving = ("return", label)
                return True
        return False

    def _land(self, how: str, label: int | None) -> bool:
        if self.leaving == (how, label):
            self.leaving = None
        return True

    def _loop(self, loop: Loop) -> bool:
        first = not loop.test_first
        while True:
            if not first:
                if not self.run(loop.test.stmts):
                    return False
                value = self.value(loop.cond)
                if value is None:
                    return False
                if not value.value:
                    return True
            first = False
            if not self.run(loop.body.stmts):
                return False
            if self.leaving == ("break", loop.label):
                self.leaving = None
                return True
            if self.leaving == ("continue", loop.label):
                self.leaving = None
            if self.leaving is not None:
                return True
            self.steps += 1
            if self.steps > STEPS or not self.run(loop.step.stmts):
                return False

    def value(self, expr: Expr) -> Const | None:
        """``expr`` with variables replaced and folded; iterative over its tree."""
        done: dict[int, Expr | None] = {}
        stack: list[tuple[Expr, bool]] = [(expr, False)]
        while stack:
            item, ready = stack.pop()
            if id(item) in done:
                continue
            below = subexpressions(item)
            if below and not ready:
                stack.append((item, True))
                stack.extend((b, False) for b in below)
                continue
            done[id(item)] = self._fold(item, [done.get(id(b)) for b in below])
        result = done[id(expr)]
        return result if isinstance(result, Const) else None

    def _fold(self, item: Expr, below: list[Expr | None]) -> Expr | None:
        if isinstance(item, Const):
            return item
        if isinstance(item, Var):
            return self.vars.get(item.id)
        if isinstance(item, Select) and isinstance(below[0], Const):
            return below[1] if below[0].value else below[2]
        args = [b for b in below if b is not None]
        if not below or len(args) != len(below):
            return None
        match item:
            case Unary(op=op, type=of):
                return constants.unary(op, args[0], of)
            case Binary(op=op, type=of):
                return constants.binary(op, args[0], args[1], of)
            case Cast(type=to):
                return constants.cast(args[0], to)
            case Pure(name="min" | "max" as name, type=of) if all(isinstance(a, Const) for a in args):
                numbers = [a.value for a in args if isinstance(a, Const)]
                return Const(min(numbers) if name == "min" else max(numbers), of)
            case Bitcast():
                return None
        return None
