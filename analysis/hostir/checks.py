"""Whether the error of a launch is read after it: in its function, or in the callers after the call."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from prelaunch.analysis.frontends.cuda.text.declarations import Project
from prelaunch.analysis.hostir import api, ir
from prelaunch.analysis.hostir.machine import CallSite, Seen
from prelaunch.analysis.source import Span

_HELPER = re.compile(r"(?i)check|err|assert")
MAX_CALLS_IN_TEXT = 1 << 60
"""Stands behind every call of a function, in order of the text."""
Arms = tuple[tuple[int, int], ...]
"""The alternatives a place lies in: (branch, which of its arms), outermost first."""


@dataclass(slots=True)
class _Order:
    """Where the calls of one function stand: order in the text, and alternatives around them."""

    places: dict[tuple[int, int], tuple[int, Arms]] = field(default_factory=dict)
    queries: list[tuple[int, Arms]] = field(default_factory=list)


@dataclass(slots=True)
class Checks:
    """``querying`` are functions and macros that read the last error."""

    project: Project
    querying: frozenset[str]
    orders: dict[Span, _Order] = field(default_factory=dict)
    uses: dict[Span, set[tuple[int, int]]] = field(default_factory=dict)

    def checked(self, seen: Seen) -> bool:
        """A query follows the launch in its function, or a call that leads to it in a caller."""
        if seen.used or self.follows(seen.function, seen.span):
            return True
        return any(self.follows(site.caller, site.span) for site in seen.stack if isinstance(site, CallSite))

    def follows(self, function: ir.HostFunction, span: Span) -> bool:
        order = self._order(function)
        place = order.places.get((span.start, span.end))
        if place is None:
            return False
        at, arms = place
        return any(q > at and not _exclusive(arms, inside) for q, inside in order.queries)

    def used(self, function: ir.HostFunction, span: Span) -> bool:
        """Whether the value of the call at ``span`` is used at all."""
        if function.span not in self.uses:
            self.uses[function.span] = self._used(function)
        return (span.start, span.end) in self.uses[function.span]

    def _used(self, function: ir.HostFunction) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        for stmt in ir.walk(function.body):
            for expr in ir.expressions(stmt):
                top = expr
                while isinstance(top, ir.Cast) and top.type == "void":
                    top = top.operand
                skip = top if isinstance(stmt, ir.Evaluate) else None
                found |= {
                    (e.span.start, e.span.end) for e in ir.walk_expr(expr) if isinstance(e, ir.Call) and e is not skip
                }
        return found

    def _order(self, function: ir.HostFunction) -> _Order:
        known = self.orders.get(function.span)
        if known is None:
            known = _Order()
            self._fill(known, function)
            self.orders[function.span] = known
        return known

    def _fill(self, order: _Order, function: ir.HostFunction) -> None:
        count = 0
        stack: list[tuple[ir.Stmt, Arms]] = [(function.body, ())]
        while stack:
            stmt, arms = stack.pop()
            for expr in ir.expressions(stmt):
                top = isinstance(stmt, ir.Evaluate)
                for item in ir.walk_expr(expr):
                    count += 1
                    self._one(order, item, count, arms, top and _bare(expr, item))
            if isinstance(stmt, ir.Declare) and f"~{stmt.type.split('::')[-1]}" in self.querying:
                order.queries.append((MAX_CALLS_IN_TEXT, arms))  # at the end of its scope
            below = stmt.stmts if isinstance(stmt, ir.Block) else ir.blocks(stmt)
            split = isinstance(stmt, ir.If | ir.Switch)
            stack.extend(
                (inner, (*arms, (stmt.span.start, index)) if split else arms)
                for index, inner in reversed(list(enumerate(below)))
            )

    def _one(self, order: _Order, item: ir.Expr, count: int, arms: Arms, bare: bool) -> None:
        if isinstance(item, ir.Call | ir.Launch):
            order.places.setdefault((item.span.start, item.span.end), (count, arms))
        if isinstance(item, ir.Lambda):
            inner = self._order(item.function)
            if inner.queries:
                order.queries.append((count, arms))
        if isinstance(item, ir.Call) and self._queries(item, bare):
            order.queries.append((count, arms))
        if isinstance(item, ir.Name) and not item.slot and item.simple in self.querying:
            order.queries.append((count, arms))

    def _queries(self, call: ir.Call, bare: bool) -> bool:
        name = call.name
        if name in self.querying:
            return True
        if name in api.REPORTS_EARLIER:
            return not bare
        unknown = name and not self.project.functions.get(name) and not name.startswith(("cuda", "cu"))
        if not unknown or not _HELPER.search(name):
            return False
        return not any(isinstance(e, ir.Call) for a in call.args for e in ir.walk_expr(a))


def _bare(expr: ir.Expr, item: ir.Expr) -> bool:
    """Whether ``item`` is a statement of its own, its value dropped."""
    while isinstance(expr, ir.Cast) and expr.type == "void":
        expr = expr.operand
    return expr is item


def _exclusive(a: Arms, b: Arms) -> bool:
    """Two places that no single pass through the function visits both."""
    arms = dict(a)
    return any(branch in arms and arms[branch] != arm for branch, arm in b)
