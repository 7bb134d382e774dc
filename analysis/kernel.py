"""The IR: one ``__global__`` function as a structured, typed program over scalars and memory objects.

Grammar (every node is a frozen dataclass and carries a ``span``; equality and hash ignore spans)::

    Kernel   = name, template arguments, formals, params, objects, body, launch bounds, confidence
    Type     = Scalar(kind, bits) | Pointer(pointee size, pointee name, space)
    Expr     = Const(value) | Var(id, name) | Special(name) | Address(object)
             | Unary(op, a) | Binary(op, a, b) | Cast(a) | Bitcast(a) | Select(c, a, b)
             | PtrAdd(pointer, bytes) | Pure(name, args)
    Stmt     = Block(stmts, label?)
             | Assign(var, expr)
             | Load(vars, address, ...) | Store(address, exprs, ...) | Atomic(var?, op, address, exprs, ...)
             | If(cond, then, orelse)
             | Loop(label, test, cond, body, step, test_first, info?)
             | Break(label) | Continue(label) | Return(label) | Exit(trap)
             | Call(label, callee, body)
             | Barrier(scope, ...) | Fence(scope) | Collective(vars, op, mask, args, ...)
             | Async(op, ...) | Mma(op, ...)
             | Assume(cond, origin) | Intrinsic(name, args, vars) | Opaque(reason, ...)

Meaning
- Expressions are pure and total but for C's undefined cases; loads, calls and atomics are statements whose results
  land in fresh variables, in C++'s order of evaluation (left to right where C++ leaves it open).
- Integer ``Binary`` operands share one type after C's promotions and conversions; shifts take the left operand's
  type. Unsigned wraps at its width; signed overflow is undefined and evaluates as two's complement.
  Comparisons and logical operators yield ``BOOL``. ``&&``, ``||`` and ``?:`` whose operands load or have effects
  are lowered to ``If``; ``Binary("land"|"lor")`` and ``Select`` evaluate both sides, which are then pure.
- ``Pointer`` values are 64-bit addresses. ``PtrAdd`` counts bytes (a signed 64-bit expression).
- ``Var`` is a mutable per-thread register, unique by ``id``; reading one never assigned is undefined.
- Aggregates live in memory objects (space ``local``) unless promotion has turned them into variables.
- ``Load``/``Store`` move ``len(vars)`` consecutive elements of ``type`` in one access (``float4`` = 4 x f32, 16 bytes).
  ``cases`` is the guarded pointer set (at most 8): in case ``guard`` holds, the access is to ``object`` at byte
  ``offset``. An empty tuple means the target is not known statically. ``offset`` may mention ``PtrOffset(var)``.
- ``Loop``: run ``test`` (statements), leave when ``cond`` is false, run ``body``, then ``step``; ``Continue`` goes to
  ``step``. ``test_first=False`` is do-while: body, step, test. ``info`` describes a counted loop.
- ``Block`` with a label is left by ``Break(label)`` (switch). ``Call`` is an inlined function: ``Return(label)``
  leaves it; its arguments and result are ordinary assignments. ``Exit`` ends the thread: kernel-level ``return``,
  PTX ``exit``; ``trap=True`` for ``__trap`` and a failed ``assert``.
- ``Opaque`` says what was not modelled. ``touches`` is a subset of {"value", "memory", "control"}: variables in
  ``defines`` get unknown values; "memory" may read or write any object; "control" may leave or synchronise.

``check.py`` tests these rules after every lowering.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from prelaunch.analysis.source import NOWHERE, Span

# --- types ---------------------------------------------------------------------------------------------------------

ScalarKind = Literal["bool", "int", "uint", "float", "bfloat"]
Space = Literal["generic", "global", "shared", "local", "constant", "param"]


@dataclass(frozen=True, slots=True)
class Scalar:
    """A register type. ``bits``: bool 8 (as stored), int/uint 8..64, float 16/32/64, bfloat 16."""

    kind: ScalarKind
    bits: int

    @property
    def size(self) -> int:
        return self.bits // 8

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint", "bool")

    @property
    def signed(self) -> bool:
        return self.kind == "int"

    def __str__(self) -> str:
        return {"bool": "bool", "int": "i", "uint": "u", "float": "f", "bfloat": "bf"}[self.kind] + (
            "" if self.kind == "bool" else str(self.bits)
        )


@dataclass(frozen=True, slots=True)
class Pointer:
    """A 64-bit address. ``pointee_size`` in bytes (0 for void), ``pointee`` its C spelling, for messages."""

    pointee_size: int = 0
    pointee: str = "void"
    space: Space = "generic"
    size: int = field(default=8, init=False)

    def __str__(self) -> str:
        return f"{self.pointee}*"


Type = Scalar | Pointer

BOOL = Scalar("bool", 8)
I8, I16, I32, I64 = (Scalar("int", b) for b in (8, 16, 32, 64))
U8, U16, U32, U64 = (Scalar("uint", b) for b in (8, 16, 32, 64))
F16, F32, F64, BF16 = Scalar("float", 16), Scalar("float", 32), Scalar("float", 64), Scalar("bfloat", 16)


def _span() -> Span:
    return field(default=NOWHERE, compare=False, repr=False, kw_only=True)


# --- memory objects ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Object:
    """A piece of memory no other object overlaps, unless alias facts say so.

    ``id`` is unique in the kernel and stable under edits elsewhere (``name``, or ``callee/name#2`` when inlined).
    ``size`` in bytes; None where only the launch or the host tells (pointer parameters, dynamic shared memory).
    All ``extern __shared__`` arrays of a kernel are one object with ``dynamic=True``. ``origin``: "param" pointee of
    a pointer parameter (``id`` is then the parameter's name, or ``param.field``), "variable", "string", "indirect"
    (what a pointer loaded from memory points to). ``init`` is the initial content where the text gives it.
    """

    id: str
    name: str
    space: Space
    element: Type
    size: int | None
    align: int = 1
    dynamic: bool = False
    origin: Literal["param", "variable", "string", "indirect"] = "variable"
    shape: tuple[int, ...] = ()
    volatile: bool = False
    init: bytes | None = None
    span: Span = _span()


# --- expressions ---------------------------------------------------------------------------------------------------

UnaryOp = Literal["neg", "not", "lnot"]
BinaryOp = Literal[
    "add", "sub", "mul", "div", "rem", "and", "or", "xor", "shl", "shr",
    "eq", "ne", "lt", "le", "gt", "ge", "land", "lor",
]  # fmt: skip
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
LOGICAL = frozenset({"land", "lor"})

SPECIALS = (
    "threadIdx.x", "threadIdx.y", "threadIdx.z", "blockIdx.x", "blockIdx.y", "blockIdx.z",
    "blockDim.x", "blockDim.y", "blockDim.z", "gridDim.x", "gridDim.y", "gridDim.z",
    "laneid", "warpid", "smid", "clock", "clock64", "globaltimer", "dynamic_smem_size",
    "clusterIdx.x", "clusterIdx.y", "clusterIdx.z", "clusterDim.x", "clusterDim.y", "clusterDim.z",
    "clusterBlockIdx.x", "clusterBlockIdx.y", "clusterBlockIdx.z", "cluster_ctarank",
)  # fmt: skip
"""Read-only values of a thread. ``warpSize`` is ``Const(32)``. laneid is the linear thread id modulo 32."""


@dataclass(frozen=True, slots=True)
class Const:
    value: int | float
    type: Scalar | Pointer
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Var:
    """A register. ``name`` is the source name (``v.x`` for a promoted member), empty for temporaries."""

    id: int
    name: str = field(compare=False)
    type: Type = I32
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Special:
    name: str
    type: Scalar = U32
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Address:
    """Address of byte 0 of an object."""

    object: str
    type: Pointer = Pointer()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Unary:
    op: UnaryOp
    operand: Expr
    type: Scalar
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Binary:
    """``type`` is the result's; pointers may be compared and subtracted only after ``Cast`` to U64."""

    op: BinaryOp
    left: Expr
    right: Expr
    type: Scalar
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Cast:
    """C conversion: integer truncation/extension, int<->float (toward zero), to bool (!= 0), pointer<->integer."""

    operand: Expr
    type: Type
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Bitcast:
    """Same bits, other type of equal width (``__float_as_int``)."""

    operand: Expr
    type: Scalar
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Select:
    cond: Expr
    then: Expr
    orelse: Expr
    type: Type
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class PtrAdd:
    pointer: Expr
    offset: Expr  # I64, bytes
    type: Pointer = Pointer()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class PtrOffset:
    """Byte offset of pointer variable ``var`` inside the object it points to. Only inside ``Case.offset``."""

    var: Var
    type: Scalar = I64
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Pure:
    """A function of its arguments only; ``name`` is a row of the intrinsics table (``min``, ``sqrt``, ``popc``)."""

    name: str
    args: tuple[Expr, ...]
    type: Scalar
    span: Span = _span()


Expr = Const | Var | Special | Address | Unary | Binary | Cast | Bitcast | Select | PtrAdd | PtrOffset | Pure

# --- statements ----------------------------------------------------------------------------------------------------

Order = Literal["weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "seq_cst"]
Scope = Literal["thread", "warp", "block", "cluster", "device", "system"]
AtomicOp = Literal["add", "sub", "exch", "min", "max", "inc", "dec", "cas", "and", "or", "xor"]
Touch = Literal["value", "memory", "control"]


@dataclass(frozen=True, slots=True)
class Case:
    """One member of a guarded pointer set: where ``guard`` holds (None: always), byte ``offset`` of ``object``."""

    object: str
    offset: Expr
    guard: Expr | None = None


@dataclass(frozen=True, slots=True)
class Block:
    stmts: tuple[Stmt, ...] = ()
    label: int | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Assign:
    var: Var
    expr: Expr
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Load:
    vars: tuple[Var, ...]
    address: Expr
    type: Type  # of one element
    space: Space = "generic"
    order: Order = "weak"
    scope: Scope = "thread"
    cases: tuple[Case, ...] = ()
    span: Span = _span()

    @property
    def size(self) -> int:
        """Bytes moved by the access."""
        return self.type.size * len(self.vars)


@dataclass(frozen=True, slots=True)
class Store:
    address: Expr
    exprs: tuple[Expr, ...]
    type: Type
    space: Space = "generic"
    order: Order = "weak"
    scope: Scope = "thread"
    cases: tuple[Case, ...] = ()
    span: Span = _span()

    @property
    def size(self) -> int:
        return self.type.size * len(self.exprs)


@dataclass(frozen=True, slots=True)
class Atomic:
    """Read-modify-write of one element; ``var`` gets the old value. ``exprs``: (value,) or (compare, value) for cas."""

    var: Var | None
    op: AtomicOp
    address: Expr
    exprs: tuple[Expr, ...]
    type: Scalar
    space: Space = "generic"
    order: Order = "relaxed"
    scope: Scope = "device"
    cases: tuple[Case, ...] = ()
    span: Span = _span()

    @property
    def size(self) -> int:
        return self.type.size


@dataclass(frozen=True, slots=True)
class If:
    cond: Expr
    then: Block
    orelse: Block = Block()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class LoopInfo:
    """``for (var = init; var cmp bound; var op= step)`` with a loop-invariant bound and step.

    kind "affine": step is added (negative when it counts down); "power": var is multiplied or shifted,
    ``step`` is then the factor (2 for ``*= 2`` and ``<<= 1``) and negative factors mean division (-2: ``>>= 1``).
    """

    var: Var
    init: Expr
    bound: Expr
    cmp: Literal["lt", "le", "gt", "ge", "ne"]
    step: Expr
    kind: Literal["affine", "power"] = "affine"


@dataclass(frozen=True, slots=True)
class Loop:
    label: int
    test: Block
    cond: Expr
    body: Block
    step: Block = Block()
    test_first: bool = True
    info: LoopInfo | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Break:
    label: int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Continue:
    label: int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Return:
    """Leaves the ``Call`` with this label."""

    label: int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Exit:
    trap: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Call:
    label: int
    callee: str
    body: Block
    span: Span = _span()  # the call expression


@dataclass(frozen=True, slots=True)
class Barrier:
    """Execution barrier with memory ordering among its participants.

    scope "block": ``__syncthreads`` and kin (``id`` 0) and ``bar.sync id[, count]``; "warp": ``__syncwarp(mask)`` and
    tile groups (``mask`` names lanes); "cluster", "grid". ``count`` threads take part in a named barrier (None: all).
    ``action`` "sync" arrives and waits, "arrive" and "wait" are the halves. ``reduce``: ``__syncthreads_count/and/or``:
    ``var`` gets the reduction of ``pred`` over the block. ``conditional``: the barrier counts non-exited threads.
    """

    scope: Literal["warp", "block", "cluster", "grid"]
    mask: Expr | None = None
    id: Expr | None = None
    count: Expr | None = None
    action: Literal["sync", "arrive", "wait"] = "sync"
    reduce: Literal["count", "and", "or"] | None = None
    pred: Expr | None = None
    var: Var | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Fence:
    scope: Scope
    order: Order = "acq_rel"
    proxy: str = ""  # "async" for fence.proxy.async
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Collective:
    """Warp-wide exchange: no memory ordering. ``mask`` names the lanes that take part (None: activemask itself).

    op: shfl.idx, shfl.up, shfl.down, shfl.xor (args: value, lane/delta/xor; ``width`` 32 by default; optional second
    var is the predicate), vote.any, vote.all, vote.ballot (args: predicate), match.any, match.all (value),
    reduce.add/min/max/and/or/xor (value), activemask (no args), elect (predicate result in vars[0]).
    """

    vars: tuple[Var, ...]
    op: str
    mask: Expr | None
    args: tuple[Expr, ...] = ()
    width: Expr | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Async:
    """Asynchronous copies. op: copy (dst, src, ``bytes``, optional ``source_bytes`` for zero fill), commit,
    wait (``pending`` groups may remain; None: all), and rows of the intrinsics table for mbarrier and bulk copies.
    ``dst_cases``/``src_cases`` as in Load."""

    op: str
    dst: Expr | None = None
    src: Expr | None = None
    bytes: int | None = None
    source_bytes: Expr | None = None
    pending: Expr | None = None
    args: tuple[Expr, ...] = ()
    dst_cases: tuple[Case, ...] = ()
    src_cases: tuple[Case, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Mma:
    """Warp-wide matrix instruction on fragments. ``address``/``stride`` for fragment loads and stores; ``rows`` x
    ``cols`` elements of ``type`` in ``layout`` order starting at ``address`` with ``stride`` elements between lines."""

    op: Literal["load", "store", "mma", "fill"]
    fragments: tuple[str, ...] = ()
    address: Expr | None = None
    stride: Expr | None = None
    rows: int = 0
    cols: int = 0
    type: Scalar = F16
    layout: str = "row"
    cases: tuple[Case, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Assume:
    """origin: "assert", "__builtin_assume", "comment"."""

    cond: Expr
    origin: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """An effect the analyses do not depend on, a row of the intrinsics table: printf, nanosleep, prefetch."""

    name: str
    args: tuple[Expr, ...] = ()
    vars: tuple[Var, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Opaque:
    reason: str
    touches: frozenset[Touch] = frozenset({"value"})
    defines: tuple[Var, ...] = ()
    span: Span = _span()


Stmt = (
    Block | Assign | Load | Store | Atomic | If | Loop | Break | Continue | Return | Exit | Call
    | Barrier | Fence | Collective | Async | Mma | Assume | Intrinsic | Opaque
)  # fmt: skip
Access = Load | Store | Atomic


# --- the kernel ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Formal:
    """A declared parameter, as the launch passes it: C spelling of its type, size and alignment in bytes."""

    name: str
    ctype: str
    size: int
    align: int
    restrict: bool = False
    const: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Param:
    """A scalar or pointer leaf of a formal, bound to ``var`` at entry: ``offset`` bytes into formal ``formal``.

    A plain parameter is one leaf at offset 0; a struct passed by value has one per scalar member (``p.field``).
    ``object`` is what a pointer leaf points to.
    """

    var: Var
    formal: int
    offset: int
    object: str | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """One instance of a ``__global__`` function.

    ``name`` is qualified (``ns::f``); ``template_args`` are their printed values (``256``, ``float``), in order.
    ``confidence`` is "clean" when no parse error touches the kernel or what was inlined, else "repaired: why".
    ``launch_bounds``: (max threads, min blocks, max cluster), None where absent. ``required_block``: __block_size__.
    """

    name: str
    file: str
    formals: tuple[Formal, ...]
    params: tuple[Param, ...]
    objects: tuple[Object, ...]
    body: Block
    template_args: tuple[str, ...] = ()
    launch_bounds: tuple[int | None, int | None, int | None] = (None, None, None)
    cluster_dims: tuple[int, int, int] | None = None
    confidence: str = "clean"
    notes: tuple[str, ...] = ()
    span: Span = _span()

    def object(self, id: str) -> Object:
        for item in self.objects:
            if item.id == id:
                return item
        raise KeyError(id)

    @property
    def label(self) -> str:
        """``name<args>``: how reports name the instance."""
        return self.name + (f"<{', '.join(self.template_args)}>" if self.template_args else "")
