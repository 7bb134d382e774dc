"""Walking the IR: what is directly inside a statement or expression, and everything under it; all of it iterative."""

from __future__ import annotations

from collections.abc import Iterator

from prelaunch.analysis.kernel import (
    Assign,
    Assume,
    Async,
    Atomic,
    Barrier,
    Binary,
    Bitcast,
    Block,
    Call,
    Cast,
    Collective,
    Expr,
    If,
    Intrinsic,
    Load,
    Loop,
    Mma,
    Opaque,
    PtrAdd,
    Pure,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)


def children(stmt: Stmt) -> tuple[Block, ...]:
    """Blocks directly inside a statement, in order of execution."""
    match stmt:
        case If(then=then, orelse=orelse):
            return (then, orelse)
        case Loop(test=test, body=body, step=step):
            return (test, body, step)
        case Call(body=body):
            return (body,)
    return ()


def walk(root: Stmt) -> Iterator[Stmt]:
    """Every statement under ``root``, itself included, in text order; iterative, so depth is no limit."""
    stack: list[Stmt] = [root]
    while stack:
        stmt = stack.pop()
        yield stmt
        below: tuple[Stmt, ...] = stmt.stmts if isinstance(stmt, Block) else children(stmt)
        stack.extend(reversed(below))


def operands(stmt: Stmt) -> tuple[Expr, ...]:
    """Expressions a statement evaluates itself (not those of statements inside it, nor ``cases``)."""
    match stmt:
        case Assign(expr=expr):
            return (expr,)
        case Load(address=address):
            return (address,)
        case Store(address=address, exprs=exprs) | Atomic(address=address, exprs=exprs):
            return (address, *exprs)
        case If(cond=cond) | Assume(cond=cond) | Loop(cond=cond):
            return (cond,)
        case Barrier():
            return tuple(e for e in (stmt.mask, stmt.id, stmt.count, stmt.pred) if e is not None)
        case Collective():
            return tuple(e for e in (stmt.mask, *stmt.args, stmt.width) if e is not None)
        case Async():
            some = (stmt.dst, stmt.src, stmt.source_bytes, stmt.pending, *stmt.args)
            return tuple(e for e in some if e is not None)
        case Mma():
            return tuple(e for e in (stmt.address, stmt.stride) if e is not None)
        case Intrinsic(args=args):
            return args
    return ()


def defined(stmt: Stmt) -> tuple[Var, ...]:
    """Variables a statement writes itself."""
    match stmt:
        case Assign(var=var):
            return (var,)
        case Load(vars=found) | Collective(vars=found) | Intrinsic(vars=found) | Opaque(defines=found):
            return found
        case Atomic(var=var) | Barrier(var=var):
            return (var,) if var is not None else ()
    return ()


def subexpressions(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Unary(operand=a) | Cast(operand=a) | Bitcast(operand=a):
            return (a,)
        case Binary(left=a, right=b):
            return (a, b)
        case Select(cond=c, then=a, orelse=b):
            return (c, a, b)
        case PtrAdd(pointer=p, offset=o):
            return (p, o)
        case Pure(args=args):
            return args
    return ()


def walk_expr(expr: Expr) -> Iterator[Expr]:
    """``expr`` and everything under it, parents first; iterative."""
    stack = [expr]
    while stack:
        item = stack.pop()
        yield item
        stack.extend(reversed(subexpressions(item)))


def postorder(expr: Expr) -> list[Expr]:
    """Every distinct node under ``expr``, operands before what uses them; a shared node is listed once. Iterative."""
    order: list[Expr] = []
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        item, opened = stack.pop()
        if opened:
            order.append(item)
        elif id(item) not in seen:
            seen.add(id(item))
            stack.append((item, True))
            stack.extend((below, False) for below in reversed(subexpressions(item)))
    return order
