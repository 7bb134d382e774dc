"""C++ types of device code, their sizes, and the conversions between arithmetic types.

Arithmetic types are the IR's scalars themselves (``long`` and ``long long`` are one type, as they have one width under
LP64); everything else is described here. Sizes and alignments follow the Itanium C++ ABI as nvcc uses it on 64-bit
Linux; a type whose size is not known has size 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prelaunch.analysis.kernel import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Pointer,
    Scalar,
    Type,
)  # fmt: skip

if TYPE_CHECKING:
    from tree_sitter import Node

    from prelaunch.analysis.frontends.cuda.semantics.scope import Scope
    from prelaunch.analysis.frontends.cuda.text.project import FunctionDecl, ParsedFile
    from prelaunch.analysis.source import Span


@dataclass(frozen=True, slots=True)
class Void:
    """``void``."""


@dataclass(frozen=True, slots=True)
class Ptr:
    """``to*``. Qualifiers of the pointee take no part in type equality."""

    to: CType
    volatile: bool = field(default=False, compare=False)
    const: bool = field(default=False, compare=False)
    restrict: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Ref:
    """``to&`` and ``to&&`` as declared; expressions never have this type."""

    to: CType
    volatile: bool = field(default=False, compare=False)
    const: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Array:
    """``of[count]``; ``count`` None for ``[]``."""

    of: CType
    count: int | None


@dataclass(frozen=True, slots=True)
class Enum:
    name: str
    underlying: Scalar = I32
    scoped: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """A data member. ``bits``/``shift`` describe a bit-field inside its storage unit; base classes have no name."""

    name: str
    type: CType
    offset: int
    volatile: bool = False
    bits: int | None = None
    shift: int = 0
    default: Node | None = field(default=None, compare=False)


@dataclass(slots=True, eq=False)
class Record:
    """A struct, class or union with its template arguments bound; one object per instance, compared by identity.

    ``vector`` marks the built-in vector types. ``scope`` holds the bindings its members see.
    """

    name: str
    kind: str = "struct"
    fields: tuple[Field, ...] = ()
    size: int = 0
    align: int = 1
    vector: bool = False
    args: tuple[TemplateArgument, ...] = ()
    qualified: str = ""
    file: ParsedFile | None = None
    body: Node | None = None
    scope: Scope | None = None
    bases: tuple[Record, ...] = ()
    methods: dict[str, list[FunctionDecl]] = field(default_factory=dict)
    complete: bool = True
    leaves: tuple[Leaf, ...] | int | None = 0  # 0: not computed yet

    def __hash__(self) -> int:
        return id(self)

    def find(self, name: str) -> Field | None:
        for item in self.fields:
            if item.name == name:
                return item
        return None


@dataclass(frozen=True, slots=True)
class Group:
    """A cooperative group: block, tile (``size`` lanes), coalesced, grid, cluster, thread, warp."""

    kind: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Fragment:
    """``wmma::fragment``. ``use``: matrix_a, matrix_b, accumulator."""

    use: str
    m: int
    n: int
    k: int
    element: Scalar
    layout: str = "row"


@dataclass(frozen=True, slots=True)
class Handle:
    """A library type whose inside is not modelled (``curandState``, texture objects)."""

    name: str
    size: int = 8
    align: int = 8


@dataclass(slots=True, eq=False)
class Closure:
    """A lambda expression, with the scope it was written in (captures by copy are bindings of ``scope``)."""

    node: Node
    scope: Scope
    file: ParsedFile

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True, slots=True)
class Function:
    """A set of overloads named in an expression, with explicit template arguments."""

    name: str
    overloads: tuple[FunctionDecl, ...] = field(compare=False)
    args: tuple[TemplateArgument, ...] = ()
    record: Record | None = None


@dataclass(slots=True, eq=False)
class Braces:
    """A braced list as a call argument: its type is the parameter's. Keeps the place it is written in."""

    node: Node
    scope: Scope
    file: ParsedFile
    macro_site: Span | None
    inlined_at: Span | None

    def __hash__(self) -> int:
        return id(self)


CType = Scalar | Void | Ptr | Ref | Array | Enum | Record | Group | Fragment | Handle | Closure | Function | Braces
TemplateArgument = CType | int | float | str | tuple["TemplateArgument", ...]
"""A bound template argument: a type, a value, a name, or a pack of them."""

VOID = Void()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar or pointer inside a type: byte offset, type, access path (``.x``, ``[2].y``)."""

    offset: int
    type: Scalar | Ptr | Enum
    path: str
    volatile: bool = False


MAX_LEAVES = 64


def sizeof(ctype: CType) -> int:
    match ctype:
        case Scalar():
            return ctype.size
        case Ptr() | Ref() | Function():
            return 8
        case Array(of=of, count=count):
            return sizeof(of) * (count or 0)
        case Enum(underlying=underlying):
            return underlying.size
        case Record(size=size) | Handle(size=size):
            return size
        case Fragment(element=element, m=m, n=n, k=k, use=use):
            count = {"matrix_a": m * k, "matrix_b": k * n}.get(use, m * n)
            return max(1, count // 32) * element.size
    return 1


def alignof(ctype: CType) -> int:
    match ctype:
        case Array(of=of):
            return alignof(of)
        case Record(align=align) | Handle(align=align):
            return align
        case Fragment(element=element):
            return element.size
    return max(1, sizeof(ctype))


def spell(ctype: CType | TemplateArgument) -> str:
    """C spelling of a type, as reports print it."""
    match ctype:
        case Scalar():
            return _SPELLED[ctype]
        case Void():
            return "void"
        case Ptr(to=to):
            return spell(to) + "*"
        case Ref(to=to):
            return spell(to) + "&"
        case Array(of=of, count=count):
            inner, dims = of, f"[{'' if count is None else count}]"
            while isinstance(inner, Array):
                dims += f"[{'' if inner.count is None else inner.count}]"
                inner = inner.of
            return spell(inner) + dims
        case Record(name=name, args=args):
            return name + (f"<{', '.join(spell(a) for a in args)}>" if args else "")
        case Enum(name=name) | Handle(name=name) | Function(name=name):
            return name
        case Group(kind=kind, size=size):
            return f"thread_block_tile<{size}>" if kind == "tile" else kind
        case Fragment(use=use):
            return f"fragment<{use}>"
        case Closure():
            return "lambda"
        case Braces():
            return "braced list"
        case tuple():
            return ", ".join(spell(a) for a in ctype)
    return str(ctype).lower() if isinstance(ctype, bool) else str(ctype)


_SPELLED = {
    BOOL: "bool", I8: "char", I16: "short", I32: "int", I64: "long long", U8: "unsigned char",
    U16: "unsigned short", U32: "unsigned int", U64: "unsigned long long", F16: "half", F32: "float",
    F64: "double", BF16: "bfloat16",
}  # fmt: skip


def ir_type(ctype: CType) -> Type:
    """The register type of a scalar, pointer or enum."""
    match ctype:
        case Scalar():
            return ctype
        case Enum(underlying=underlying):
            return underlying
        case Ptr(to=to) | Ref(to=to):
            return Pointer(sizeof(to) if not isinstance(to, Void) else 0, spell(to))
    return Pointer()


def scalar(ctype: CType) -> bool:
    """True for what one register holds."""
    return isinstance(ctype, Scalar | Ptr | Enum)


def leaves(ctype: CType) -> tuple[Leaf, ...] | None:
    """Scalars inside ``ctype`` in order of offset; None when it has none that cover it (unions, bit-fields, handles)
    or more than MAX_LEAVES."""
    match ctype:
        case Scalar() | Ptr() | Enum():
            return (Leaf(0, ctype, ""),)
        case Void():
            return ()
        case Group(kind=kind):
            return (Leaf(0, U32, ".mask"),) if kind in ("coalesced", "labeled") else ()
        case Fragment() | Closure() | Function() | Braces():
            return ()
        case Array(of=of, count=count):
            inner = leaves(of)
            if inner is None or count is None or len(inner) * count > MAX_LEAVES:
                return None
            step = sizeof(of)
            return tuple(
                Leaf(i * step + x.offset, x.type, f"[{i}]{x.path}", x.volatile) for i in range(count) for x in inner
            )
        case Record():
            if isinstance(ctype.leaves, int):
                ctype.leaves = _record_leaves(ctype)
            return ctype.leaves
    return None


def _record_leaves(record: Record) -> tuple[Leaf, ...] | None:
    if record.kind == "union" or not record.complete:
        return None
    found: list[Leaf] = []
    for item in record.fields:
        inner = leaves(item.type) if item.bits is None else None
        if inner is None:
            return None
        prefix = f".{item.name}" if item.name else ""
        found.extend(Leaf(item.offset + x.offset, x.type, prefix + x.path, x.volatile or item.volatile) for x in inner)
        if len(found) > MAX_LEAVES:
            return None
    return tuple(found)


# --- arithmetic conversions ------------------------------------------------------------------------------------------


def arithmetic(ctype: CType) -> Scalar | None:
    """The arithmetic type a value of ``ctype`` converts to implicitly (unscoped enums to their underlying type)."""
    if isinstance(ctype, Scalar):
        return ctype
    if isinstance(ctype, Enum):
        return ctype.underlying
    return None


def promote(of: Scalar) -> Scalar:
    """Integral promotion [conv.prom]: what is narrower than ``int`` becomes ``int``."""
    return I32 if of.is_integer and of.bits < 32 else of


def common(a: Scalar, b: Scalar) -> Scalar:
    """Usual arithmetic conversions [expr.arith.conv]; ``half`` and ``bfloat16`` give way to wider floating types."""
    for kind in (F64, F32):
        if kind in (a, b):
            return kind
    if a.kind in ("float", "bfloat") or b.kind in ("float", "bfloat"):
        if a.kind in ("float", "bfloat") and b.kind in ("float", "bfloat") and a != b:
            return F32
        return a if a.kind in ("float", "bfloat") else b
    a, b = promote(a), promote(b)
    if a == b:
        return a
    if a.kind == b.kind:
        return a if a.bits > b.bits else b
    unsigned, signed = (a, b) if a.kind == "uint" else (b, a)
    return unsigned if unsigned.bits >= signed.bits else signed
