"""PTX instructions that access memory, synchronise or exchange values [PTX ISA 8]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prelaunch.analysis.frontends.cuda.asm.ptx_types import last_type, vector
from prelaunch.analysis.frontends.cuda.lower.memory import retype, space_of
from prelaunch.analysis.frontends.cuda.passes.constants import cast, unary
from prelaunch.analysis.kernel import (
    BOOL,
    F32,
    I32,
    U32,
    U64,
    Async,
    Atomic,
    AtomicOp,
    Barrier,
    Binary,
    Block,
    Collective,
    Const,
    Exit,
    Expr,
    Fence,
    If,
    Intrinsic,
    Load,
    Mma,
    Order,
    Pointer,
    Scalar,
    Scope,
    Space,
    Special,
    Store,
    Var,
)  # fmt: skip

if TYPE_CHECKING:
    from prelaunch.analysis.frontends.cuda.asm.inline_asm import Program

_SPACES: dict[str, Space] = {
    "shared": "shared", "global": "global", "local": "local", "const": "constant", "param": "param",
    "shared::cta": "shared", "shared::cluster": "shared",
}  # fmt: skip
_SCOPES: dict[str, Scope] = {"cta": "block", "cluster": "cluster", "gpu": "device", "gl": "device", "sys": "system"}

# --- memory ----------------------------------------------------------------------------------------------------------


def semantics(parts: list[str]) -> tuple[Order, Scope]:
    scope = next((_SCOPES[p] for p in parts if p in _SCOPES), None)
    for word, order in (
        ("volatile", "volatile"), ("relaxed", "relaxed"), ("acquire", "acquire"), ("release", "release"),
        ("acq_rel", "acq_rel"),
    ):  # fmt: skip
        if word in parts:
            return order, scope or ("system" if word == "volatile" else "device")  # type: ignore[return-value]  # literals of Order and Scope
    return "weak", "thread"


def _space(parts: list[str], address: Expr, program: Program) -> Space:
    named = next((_SPACES[p] for p in parts if p in _SPACES), None)
    return named or space_of(program.ctx, address)


def _pointer(address: Expr, of: Scalar) -> Expr:
    return retype(address, Pointer(of.size, str(of))) if isinstance(address.type, Pointer) else address


def load(program: Program, parts: list[str], args: list[str]) -> bool:
    of = last_type(parts)
    if of is None or len(args) < 2:
        return False
    address, _ = program.address(args[1])
    targets = vector(args[0])
    made = tuple(program.ctx.var(of, "", program.span) for _ in targets)
    order, scope = semantics(parts)
    program.ctx.emit(
        Load(made, _pointer(address, of), of, _space(parts, address, program), order, scope, span=program.span)
    )
    for target, var in zip(targets, made, strict=True):
        program.write(target, var)
    return True


def store(program: Program, parts: list[str], args: list[str]) -> bool:
    of = last_type(parts)
    if of is None or len(args) < 2 or "async" in parts or "bulk" in parts:
        return False
    address, _ = program.address(args[0])
    exprs = tuple(program.read(a, of) for a in vector(args[1]))
    order, scope = semantics(parts)
    space = _space(parts, address, program)
    program.ctx.emit(Store(_pointer(address, of), exprs, of, space, order, scope, span=program.span))
    return True


_ATOMIC: dict[str, AtomicOp] = {
    "add": "add", "exch": "exch", "min": "min", "max": "max", "inc": "inc", "dec": "dec", "cas": "cas", "and": "and",
    "or": "or", "xor": "xor",
}  # fmt: skip


def atomic(program: Program, parts: list[str], args: list[str]) -> bool:
    of = last_type(parts)
    op = next((_ATOMIC[p] for p in parts if p in _ATOMIC), None)
    rest = args[1:] if parts[0] == "atom" else args
    if of is None or op is None or not rest or "f16x2" in parts or "bf16x2" in parts:
        return False
    address, _ = program.address(rest[0])
    values = tuple(program.read(a, of) for a in rest[1 : 3 if op == "cas" else 2])
    order, scope = semantics(parts)
    if order == "weak":
        order = "relaxed"
    scope = next((_SCOPES[p] for p in parts if p in _SCOPES), "device")
    var = program.ctx.var(of, "", program.span) if parts[0] == "atom" else None
    space = _space(parts, address, program)
    program.ctx.emit(Atomic(var, op, _pointer(address, of), values, of, space, order, scope, span=program.span))
    if var is not None:
        program.write(args[0], var)
    return True


def copy_async(program: Program, parts: list[str], args: list[str]) -> bool:
    """cp.async and its groups; bulk copies and tensor copies by name."""
    emit, span = program.ctx.emit, program.span
    if "bulk" in parts:
        return _bulk(program, parts, args)
    if "commit_group" in parts:
        emit(Async("commit", span=span))
    elif "wait_group" in parts:
        emit(Async("wait", pending=program.read(args[0], U32), span=span))
    elif "wait_all" in parts:
        emit(Async("commit", span=span))
        emit(Async("wait", span=span))
    elif "mbarrier" in parts:
        emit(Async("mbarrier.arrive_on_copies", args=(program.address(args[0])[0],), span=span))
    else:
        dst, src = program.address(args[0])[0], program.address(args[1])[0]
        size = program.read(args[2], U32) if len(args) > 2 else Const(16, U32, span=span)
        plain = len(args) > 3 and not any("cache_hint" in p for p in parts)
        source = program.read(args[3], U32) if plain or len(args) > 4 else None
        emit(Async("copy", dst, src, int(size.value) if isinstance(size, Const) else None, source, span=span))
    return True


def _bulk(program: Program, parts: list[str], args: list[str]) -> bool:
    name = ".".join(p for p in parts[2:] if not p.startswith("L2"))
    spaces = [p for p in parts if p in ("shared::cluster", "shared::cta", "global")]
    dst = src = None
    count: int | None = None
    more: list[Expr] = []
    for arg in args:
        if arg.startswith("["):
            inner = arg[1:-1].split(",")[0].strip()
            address = program.address(f"[{inner}]")[0]
            if dst is None and spaces:
                dst = address
            elif src is None and spaces:
                src = address
            else:
                more.append(address)
        else:
            value = program.read(arg, U32)
            if count is None and isinstance(value, Const) and spaces:
                count = int(value.value)
            else:
                more.append(value)
    program.ctx.emit(Async(f"bulk.{name}", dst, src, count, args=tuple(more), span=program.span))
    return True


def mbarrier(program: Program, parts: list[str], args: list[str]) -> bool:
    """mbarrier operations by name; a test's predicate and an arrival's token are unknown values."""
    name = ".".join(p for p in parts if p not in ("shared", "b64", "shared::cta"))
    exprs: list[Expr] = []
    result: Var | None = None
    for index, arg in enumerate(args):
        if arg.startswith("["):
            exprs.append(program.address(arg)[0])
        elif index == 0:
            result = program.target(arg, BOOL if "wait" in parts[1] else U64)
        else:
            exprs.append(program.read(arg, U32))
    program.ctx.emit(Async(name, args=tuple(exprs), span=program.span))
    if result is not None:
        program.ctx.emit(Intrinsic(f"{parts[0]}.result", tuple(exprs), (result,), span=program.span))
    return True


# --- synchronisation -------------------------------------------------------------------------------------------------


def barrier(program: Program, parts: list[str], args: list[str]) -> bool:
    span = program.span
    if "warp" in parts:
        program.ctx.emit(Barrier("warp", mask=program.read(args[0], U32), span=span))
        return True
    if "cluster" in parts:
        action = "arrive" if "arrive" in parts else "wait"
        program.ctx.emit(Barrier("cluster", action=action, span=span))  # type: ignore[arg-type]  # both literals
        return True
    if "red" in parts:
        if len(args) < 3:
            return False
        word = next((p for p in ("popc", "and", "or") if p in parts), None)
        reduce = {"popc": "count", "and": "and", "or": "or"}.get(word or "")
        if reduce is None:
            return False
        var = program.ctx.var(I32, "", span)
        ident, pred = program.read(args[1], U32), program.read(args[-1], BOOL)
        count = program.read(args[2], U32) if len(args) > 3 else None
        program.ctx.emit(Barrier("block", None, ident, count, "sync", reduce, pred, var, span=span))  # type: ignore[arg-type]  # one of three literals
        program.write(args[0], var)
        return True
    action = "arrive" if "arrive" in parts else "sync"
    ident = program.read(args[0], U32) if args else Const(0, U32, span=span)
    count = program.read(args[1], U32) if len(args) > 1 else None
    program.ctx.emit(Barrier("block", None, ident, count, action, span=span))  # type: ignore[arg-type]  # both literals
    return True


def fence(program: Program, parts: list[str], args: list[str]) -> bool:
    span = program.span
    if parts[0] == "membar":
        program.ctx.emit(Fence(_SCOPES.get(parts[1], "device"), "seq_cst", span=span))
        return True
    if "proxy" in parts:
        program.ctx.emit(Fence("block" if "shared::cta" in parts else "device", "acq_rel", parts[2], span=span))
        return True
    scope = next((_SCOPES[p] for p in parts if p in _SCOPES), "device")
    order: Order = "seq_cst" if "sc" in parts else "acq_rel"
    if "acquire" in parts or "release" in parts:
        order = "acquire" if "acquire" in parts else "release"
    program.ctx.emit(Fence(scope, order, span=span))  # type: ignore[arg-type]  # values of _SCOPES
    return True


def shuffle(program: Program, parts: list[str], args: list[str]) -> bool:
    """``shfl.sync.mode.b32 d[|p], a, b, c, mask``: ``c`` packs clamp and segment mask."""
    mode = {"idx": "shfl.idx", "up": "shfl.up", "down": "shfl.down", "bfly": "shfl.xor"}
    op = next((mode[p] for p in parts if p in mode), None)
    if op is None or len(args) < 4:
        return False
    targets = args[0].split("|")
    pack = program.read(args[3], U32)
    width = Const(32, I32, span=program.span)
    if isinstance(pack, Const):
        segment = (int(pack.value) >> 8) & 31
        width = Const(32 - segment if segment else 32, I32, span=program.span)
    mask = program.read(args[4], U32) if len(args) > 4 else None
    made = tuple(program.ctx.var(t, "", program.span) for t in ((U32, BOOL) if len(targets) > 1 else (U32,)))
    values = (program.read(args[1], U32), program.read(args[2], I32))
    program.ctx.emit(Collective(made, op, mask, values, width, span=program.span))
    for target, var in zip(targets, made, strict=True):
        program.write(target, var)
    return True


def collective(program: Program, parts: list[str], args: list[str]) -> bool:
    span = program.span
    if parts[0] == "activemask":
        made = program.ctx.var(U32, "", span)
        program.ctx.emit(Collective((made,), "activemask", None, span=span))
        program.write(args[0], made)
        return True
    if parts[0] == "elect":
        targets = args[0].split("|")
        made = program.ctx.var(BOOL, "", span)
        program.ctx.emit(Collective((made,), "elect", program.read(args[-1], U32), span=span))
        program.write(targets[-1], made)
        return True
    of = last_type(parts) or U32
    mask = program.read(args[-1], U32) if "sync" in parts else None
    if parts[0] == "redux":
        op = next((p for p in ("add", "min", "max", "and", "or", "xor") if p in parts), "add")
        made = program.ctx.var(of, "", span)
        program.ctx.emit(Collective((made,), f"reduce.{op}", mask, (program.read(args[1], of),), span=span))
        program.write(args[0], made)
        return True
    kind = next((p for p in ("any", "all", "ballot") if p in parts), None)
    if kind is None:
        return False
    if parts[0] == "match":
        made = program.ctx.var(U32, "", span)
        program.ctx.emit(Collective((made,), f"match.{kind}", mask, (program.read(args[1], of),), span=span))
        program.write(args[0].split("|")[0], made)
        return True
    made = program.ctx.var(U32 if kind == "ballot" else I32, "", span)
    pred = cast(program.read(args[1].lstrip("!"), BOOL), I32, span)
    if args[1].startswith("!"):
        pred = cast(unary("lnot", program.read(args[1][1:], BOOL), BOOL, span), I32, span)
    program.ctx.emit(Collective((made,), f"vote.{kind}", mask, (pred,), span=span))
    program.write(args[0], made if kind == "ballot" else cast(made, BOOL, span))
    return True


# --- matrices --------------------------------------------------------------------------------------------------------


def ldmatrix(program: Program, parts: list[str], args: list[str]) -> bool:
    """Each addressed lane's row is 16 bytes of shared memory; what a lane gets is another lane's, hence unknown."""
    count = 4 if "x4" in parts else 2 if "x2" in parts else 1
    store = parts[0] == "stmatrix"
    address, _ = program.address(args[0] if store else args[1])
    span = program.span
    where = _pointer(address, U32)
    with program.ctx.block() as stmts:
        if store:
            zeros = tuple(program.ctx.unknown("stmatrix row", span, U32).expr for _ in range(4))
            program.ctx.emit(Store(where, zeros, U32, "shared", span=span))
        else:
            made = tuple(program.ctx.var(U32, "", span) for _ in range(4))
            program.ctx.emit(Load(made, where, U32, "shared", span=span))
    if count < 4:
        bound = Const(8 * count, U32, span=span)
        lane = Binary("lt", Special("laneid", span=span), bound, BOOL, span=span)
        program.ctx.emit(If(lane, Block(tuple(stmts), span=span), Block(span=span), span=span))
    else:
        program.ctx.out.extend(stmts)
    if not store:
        targets = tuple(t for t in (program.target(a, U32) for a in vector(args[0])) if t is not None)
        program.ctx.opaque("ldmatrix result", span, ("value",), targets)
    return True


def mma(program: Program, parts: list[str], args: list[str]) -> bool:
    program.ctx.emit(Mma("mma", span=program.span))
    of = F32 if "f32" in parts else U32
    targets = tuple(t for t in (program.target(a, of) for a in vector(args[0])) if t is not None)
    program.ctx.opaque("mma result", program.span, ("value",), targets)
    return True


def exit(program: Program, parts: list[str], args: list[str]) -> bool:
    program.ctx.emit(Exit(parts[0] == "trap", span=program.span))
    return True
