"""Loads whose value nothing needs: a compiler drops them even at ``-G``, so the second reader does not see them.

Strong liveness over the structured IR, backwards: an assignment needs its operands only if its variable is needed.
"""

from __future__ import annotations

from collections.abc import Iterable

from prelaunch.analysis.kernel import (
    Assign,
    Block,
    Break,
    Call,
    Continue,
    Exit,
    Expr,
    If,
    Kernel,
    Load,
    Loop,
    Return,
    Stmt,
    Var,
)
from prelaunch.analysis.walk import defined, operands, walk, walk_expr

Live = frozenset[int]
NONE: Live = frozenset()


def unused_loads(kernel: Kernel) -> list[Load]:
    """Weak loads none of whose variables is needed later, in order."""
    analysis = _Liveness()
    analysis.block(kernel.body, NONE)
    loads = [s for s in walk(kernel.body) if isinstance(s, Load) and s.order == "weak"]
    return [load for load in loads if id(load) not in analysis.needed]


def _names(exprs: Iterable[Expr]) -> Live:
    return frozenset(e.id for expr in exprs for e in walk_expr(expr) if isinstance(e, Var))


class _Liveness:
    """``needed`` only grows, so what is in it after any pass over a loop is needed in the end."""

    def __init__(self) -> None:
        self.needed: set[int] = set()
        self.breaks: dict[int, Live] = {}
        self.continues: dict[int, Live] = {}
        self.returns: dict[int, Live] = {}

    def block(self, block: Block, live: Live) -> Live:
        if block.label is not None:
            self.breaks[block.label] = live
        for stmt in reversed(block.stmts):
            live = self.stmt(stmt, live)
        return live

    def stmt(self, stmt: Stmt, live: Live) -> Live:
        match stmt:
            case Block():
                return self.block(stmt, live)
            case Assign(var=var, expr=expr):
                return (live - {var.id}) | _names((expr,)) if var.id in live else live
            case Load():
                ids = {v.id for v in stmt.vars}
                if stmt.order == "weak" and not ids & live:
                    return live
                self.needed.add(id(stmt))
                return (live - ids) | _names((stmt.address,))
            case If(cond=cond, then=then, orelse=orelse):
                return self.block(then, live) | self.block(orelse, live) | _names((cond,))
            case Loop():
                return self.loop(stmt, live)
            case Call(label=label, body=body):
                self.returns[label] = live
                return self.block(body, live)
            case Break(label=label):
                return self.breaks[label]
            case Continue(label=label):
                return self.continues[label]
            case Return(label=label):
                return self.returns[label]
            case Exit():
                return NONE
        return (live - {v.id for v in defined(stmt)}) | _names(operands(stmt))

    def loop(self, loop: Loop, live: Live) -> Live:
        self.breaks[loop.label] = live
        again: Live = NONE  # what is needed where the body begins
        while True:
            test = self.block(loop.test, live | again | _names((loop.cond,)))
            step = self.block(loop.step, test)
            self.continues[loop.label] = step
            body = self.block(loop.body, step)
            if body <= again:
                return test if loop.test_first else body
            again |= body
