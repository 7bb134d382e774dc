"""Rebuilding IR: expressions and statements mapped, unchanged parts shared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
    LoopInfo,
    Mma,
    PtrAdd,
    Pure,
    Select,
    Stmt,
    Store,
    Unary,
)  # fmt: skip
from prelaunch.analysis.walk import subexpressions

Leaf = Callable[[Expr], Expr | None]
"""Gives the replacement of a node, None to look inside it."""


def expression(root: Expr, leaf: Leaf) -> Expr:
    """``root`` with every node ``leaf`` answers for replaced; iterative, shared parts are done once."""
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        item, ready = stack.pop()
        key = id(item)
        if key in done:
            continue
        if not ready:
            given = leaf(item)
            if given is not None:
                done[key] = given
                continue
        below = subexpressions(item)
        if not below:
            done[key] = item
        elif ready:
            done[key] = rebuild(item, [done[id(b)] for b in below])
        else:
            stack.append((item, True))
            stack.extend((b, False) for b in below if id(b) not in done)
    return done[id(root)]


def rebuild(item: Expr, below: list[Expr]) -> Expr:
    """``item`` over new operands; ``item`` itself when they are the old ones."""
    if all(a is b for a, b in zip(below, subexpressions(item), strict=True)):
        return item
    match item:
        case Unary():
            return Unary(item.op, below[0], item.type, span=item.span)
        case Binary():
            return Binary(item.op, below[0], below[1], item.type, span=item.span)
        case Cast():
            return Cast(below[0], item.type, span=item.span)
        case Bitcast():
            return Bitcast(below[0], item.type, span=item.span)
        case Select():
            return Select(below[0], below[1], below[2], item.type, span=item.span)
        case PtrAdd():
            return PtrAdd(below[0], below[1], item.type, span=item.span)
        case Pure():
            return Pure(item.name, tuple(below), item.type, span=item.span)
    return item


def operands(stmt: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """``stmt`` with the expressions it evaluates itself mapped; statements inside it stay."""
    match stmt:
        case Assign():
            expr = change(stmt.expr)
            return stmt if expr is stmt.expr else Assign(stmt.var, expr, span=stmt.span)
        case Load():
            address = change(stmt.address)
            return stmt if address is stmt.address else replace(stmt, address=address)
        case Store():
            address, exprs = change(stmt.address), tuple(change(e) for e in stmt.exprs)
            return replace(stmt, address=address, exprs=exprs)
        case Atomic():
            address, exprs = change(stmt.address), tuple(change(e) for e in stmt.exprs)
            return replace(stmt, address=address, exprs=exprs)
        case If() | Assume():
            cond = change(stmt.cond)
            return stmt if cond is stmt.cond else replace(stmt, cond=cond)
        case Loop():
            return replace(stmt, cond=change(stmt.cond), info=_info(stmt.info, change))
        case Barrier():
            return replace(
                stmt, mask=_maybe(stmt.mask, change), id=_maybe(stmt.id, change), count=_maybe(stmt.count, change),
                pred=_maybe(stmt.pred, change),
            )  # fmt: skip
        case Collective():
            args = tuple(change(e) for e in stmt.args)
            return replace(stmt, mask=_maybe(stmt.mask, change), args=args, width=_maybe(stmt.width, change))
        case Async():
            return replace(
                stmt, dst=_maybe(stmt.dst, change), src=_maybe(stmt.src, change),
                source_bytes=_maybe(stmt.source_bytes, change), pending=_maybe(stmt.pending, change),
                args=tuple(change(e) for e in stmt.args),
            )  # fmt: skip
        case Mma():
            return replace(stmt, address=_maybe(stmt.address, change), stride=_maybe(stmt.stride, change))
        case Intrinsic():
            return replace(stmt, args=tuple(change(e) for e in stmt.args))
    return stmt


def _maybe(expr: Expr | None, change: Callable[[Expr], Expr]) -> Expr | None:
    return change(expr) if expr is not None else None


def _info(info: LoopInfo | None, change: Callable[[Expr], Expr]) -> LoopInfo | None:
    if info is None:
        return None
    return replace(info, init=change(info.init), bound=change(info.bound), step=change(info.step))


def statements(block: Block, one: Callable[[Stmt], list[Stmt]]) -> Block:
    """``block`` with every statement replaced by ``one`` of it, innermost blocks first."""
    made: list[Stmt] = []
    changed = False
    for stmt in block.stmts:
        inner = _inside(stmt, one)
        found = one(inner)
        changed = changed or len(found) != 1 or found[0] is not stmt
        made.extend(found)
    return Block(tuple(made), block.label, span=block.span) if changed else block


def _inside(stmt: Stmt, one: Callable[[Stmt], list[Stmt]]) -> Stmt:
    match stmt:
        case Block():
            return statements(stmt, one)
        case If():
            then, orelse = statements(stmt.then, one), statements(stmt.orelse, one)
            same = then is stmt.then and orelse is stmt.orelse
            return stmt if same else If(stmt.cond, then, orelse, span=stmt.span)
        case Loop():
            test, body, step = (statements(b, one) for b in (stmt.test, stmt.body, stmt.step))
            if test is stmt.test and body is stmt.body and step is stmt.step:
                return stmt
            return replace(stmt, test=test, body=body, step=step)
        case Call():
            body = statements(stmt.body, one)
            return stmt if body is stmt.body else Call(stmt.label, stmt.callee, body, span=stmt.span)
    return stmt
