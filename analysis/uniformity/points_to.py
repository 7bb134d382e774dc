"""Which objects an access may touch, whatever path led there: a flow-insensitive answer for every pointer variable.

Where lowering has given an access its ``cases`` those are the answer; else the roots of its address are followed
through assignments. A pointer that was loaded, computed from an integer or left unassigned points anywhere: None.
"""

from __future__ import annotations

from collections.abc import Iterable

from prelaunch.analysis.check import cases_of
from prelaunch.analysis.kernel import Address, Assign, Async, Cast, Expr, Kernel, Pointer, PtrAdd, Select, Stmt, Var
from prelaunch.analysis.walk import defined, walk

Objects = frozenset[str] | None
"""Object ids; None means any object."""


class PointsTo:
    """Objects behind the addresses of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self._roots: dict[int, set[str]] = {}
        self._anywhere: set[int] = set()
        self._edges: dict[int, set[int]] = {}  # variable -> variables it is assigned to
        for param in kernel.params:
            if param.object is not None:
                self._roots.setdefault(param.var.id, set()).add(param.object)
            else:
                self._anywhere.add(param.var.id)
        for stmt in walk(kernel.body):
            if isinstance(stmt, Assign):
                if isinstance(stmt.var.type, Pointer):
                    self._assign(stmt.var.id, stmt.expr)
            else:
                self._anywhere.update(var.id for var in defined(stmt) if isinstance(var.type, Pointer))
        self._spread()

    def _assign(self, var: int, expr: Expr) -> None:
        for root in _roots(expr):
            if isinstance(root, Address):
                self._roots.setdefault(var, set()).add(root.object)
            elif isinstance(root, Var) and isinstance(root.type, Pointer):
                self._edges.setdefault(root.id, set()).add(var)
                self._roots.setdefault(root.id, set())
            else:
                self._anywhere.add(var)

    def _spread(self) -> None:
        """Propagate along assignments until nothing moves; every variable enters the list at most objects + 1 times."""
        work = [*self._roots, *self._anywhere]
        while work:
            source = work.pop()
            for target in self._edges.get(source, ()):
                known = self._roots.setdefault(target, set())
                fresh = self._roots.get(source, set()) - known
                newly = source in self._anywhere and target not in self._anywhere
                if fresh or newly:
                    known |= fresh
                    self._anywhere |= {target} if newly else set()
                    work.append(target)

    def address(self, expr: Expr) -> Objects:
        """Objects an address may lie in."""
        found: set[str] = set()
        for root in _roots(expr):
            if isinstance(root, Address):
                found.add(root.object)
            elif isinstance(root, Var) and root.id not in self._anywhere and self._roots.get(root.id):
                found |= self._roots[root.id]
            else:
                return None
        return frozenset(found)

    def access(self, stmt: Stmt) -> Objects:
        """Objects a Load, Store, Atomic or Mma touches; what an Async writes."""
        cases = stmt.dst_cases if isinstance(stmt, Async) else cases_of(stmt)
        if cases:
            return frozenset(case.object for case in cases)
        address = stmt.dst if isinstance(stmt, Async) else getattr(stmt, "address", None)
        return self.address(address) if address is not None else frozenset()


def _roots(expr: Expr) -> Iterable[Expr]:
    """What an address is built on: addresses of objects, variables, or something else."""
    stack = [expr]
    while stack:
        item = stack.pop()
        if isinstance(item, PtrAdd):
            stack.append(item.pointer)
        elif isinstance(item, Select):
            stack += [item.then, item.orelse]
        elif isinstance(item, Cast) and isinstance(item.type, Pointer):
            stack.append(item.operand)
        else:
            yield item
