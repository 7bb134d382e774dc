"""Variables that are read though nothing assigns them.

Postcondition: every variable read in the result is assigned somewhere: such a variable gets an unknown value at the
start of the kernel, with the reason on record.
"""

from __future__ import annotations

from dataclasses import replace

from prelaunch.analysis.kernel import Block, Kernel, Opaque, Stmt, Var
from prelaunch.analysis.walk import defined, operands, postorder, walk


def define_unassigned(kernel: Kernel) -> Kernel:
    """``kernel`` itself when it reads no such variable."""
    every = list(walk(kernel.body))
    written = {param.var.id for param in kernel.params}
    written.update(var.id for stmt in every for var in defined(stmt))
    missing: dict[int, Var] = {}
    for stmt in every:
        for expr in operands(stmt):
            for item in postorder(expr):
                if isinstance(item, Var) and item.id not in written:
                    missing.setdefault(item.id, item)
    if not missing:
        return kernel
    made: tuple[Stmt, ...] = tuple(
        Opaque(f"{var.name or 'a register'} is read but never assigned", frozenset({"value"}), (var,), span=var.span)
        for var in missing.values()
    )
    return replace(kernel, body=Block((*made, *kernel.body.stmts), kernel.body.label, span=kernel.body.span))
