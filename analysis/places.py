"""Where statements stand in a kernel's text, loops included."""

from __future__ import annotations

from prelaunch.analysis.kernel import Block, Kernel, Loop, Stmt, children


class Places:
    """Position and enclosing loops of every statement; nodes are known by identity. Iterative."""

    def __init__(self, kernel: Kernel) -> None:
        self._places: dict[int, tuple[int, tuple[int, ...]]] = {}
        stack: list[tuple[Stmt, tuple[int, ...]]] = [(kernel.body, ())]
        while stack:
            stmt, loops = stack.pop()
            self._places[id(stmt)] = (len(self._places), loops)
            inner = (*loops, id(stmt)) if isinstance(stmt, Loop) else loops
            below = stmt.stmts if isinstance(stmt, Block) else children(stmt)
            stack.extend((item, inner) for item in reversed(below))

    def may_precede(self, first: Stmt, second: Stmt) -> bool:
        """Can ``first`` run, in some thread, before ``second`` does: earlier in the text, or in a common loop?"""
        a, loops_a = self._places[id(first)]
        b, loops_b = self._places[id(second)]
        return a < b or bool(set(loops_a) & set(loops_b))

    def between(self, first: Stmt, middle: Stmt, last: Stmt) -> bool:
        """Does ``middle`` stand between the two in the text?"""
        return self._places[id(first)][0] < self._places[id(middle)][0] < self._places[id(last)][0]
