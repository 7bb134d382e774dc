"""A kernel as text: what ``prelaunch review --show kernel`` prints.

``show(kernel)`` is deterministic and total: one line per statement, headed by the source line it is written on
(``12<30``: line 12, inlined into line 30), nested by indentation. Iterative: nesting is no limit.
"""

from __future__ import annotations

from collections.abc import Iterator

from prelaunch.analysis.kernel import (
    Address,
    Assign,
    Assume,
    Async,
    Atomic,
    Barrier,
    Binary,
    Bitcast,
    Block,
    Break,
    Call,
    Case,
    Cast,
    Collective,
    Const,
    Continue,
    Exit,
    Expr,
    Fence,
    If,
    Intrinsic,
    Kernel,
    Load,
    Loop,
    LoopInfo,
    Mma,
    Object,
    Opaque,
    PtrAdd,
    PtrOffset,
    Pure,
    Return,
    Select,
    Special,
    Stmt,
    Store,
    Unary,
    Var,
)
from prelaunch.analysis.source import Span
from prelaunch.analysis.walk import postorder

_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "and": "&", "or": "|", "xor": "^", "shl": "<<",
    "shr": ">>", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "land": "&&", "lor": "||",
    "neg": "-", "not": "~", "lnot": "!",
}  # fmt: skip
MAX_INDENT = 40
"""Deeper nesting is shown at this depth, with the depth in figures."""
MAX_EXPR = 2_000
"""Characters of one expression; the rest is cut, visibly."""


def show(kernel: Kernel) -> str:
    """The kernel's text form, ending in a newline."""
    return "\n".join((*_head(kernel), *_lines(kernel.body))) + "\n"


def show_expr(expr: Expr) -> str:
    """C-like text of an expression; fully parenthesised, variables as ``name#id``."""
    texts: dict[int, str] = {}
    for item in postorder(expr):
        text = _expr(item, texts)
        texts[id(item)] = text if len(text) <= MAX_EXPR else f"{text[:MAX_EXPR]}…"
    text = texts[id(expr)]
    return text[1:-1] if isinstance(expr, Binary) and text.endswith(")") else text


def _expr(expr: Expr, texts: dict[int, str]) -> str:
    def of(item: Expr) -> str:
        return texts[id(item)]

    match expr:
        case Const(value=value, type=kind):
            return f"{int(value) & 0xFFFFFFFFFFFFFFFF:#x}" if _hex(value, str(kind)) else str(value)
        case Var():
            return show_var(expr)
        case Special(name=name):
            return name
        case Address(object=name):
            return f"&{name}"
        case Unary(op=op, operand=a):
            return f"{_SYMBOLS[op]}{of(a)}"
        case Binary(op=op, left=a, right=b):
            return f"({of(a)} {_SYMBOLS[op]} {of(b)})"
        case Cast(operand=a, type=kind):
            return f"{kind}({of(a)})"
        case Bitcast(operand=a, type=kind):
            return f"bits.{kind}({of(a)})"
        case Select(cond=c, then=a, orelse=b):
            return f"({of(c)} ? {of(a)} : {of(b)})"
        case PtrAdd(pointer=p, offset=o):
            return f"{of(p)}[+{of(o)}]"
        case PtrOffset(var=var):
            return f"offset({show_var(var)})"
        case Pure(name=name, args=args):
            return f"{name}({', '.join(of(a) for a in args)})"


def _hex(value: int | float, kind: str) -> bool:
    return isinstance(value, int) and kind in ("u32", "u64") and value > 0xFFFF


def show_var(var: Var) -> str:
    return f"{var.name}#{var.id}" if var.name else f"%{var.id}"


def _head(kernel: Kernel) -> Iterator[str]:
    bounds = [str(b) if b is not None else "-" for b in kernel.launch_bounds]
    notes = [
        f"kernel {kernel.label}  {kernel.file}:{kernel.span.line}  {kernel.confidence}",
        *([f"  launch bounds {', '.join(bounds)}"] if any(b != "-" for b in bounds) else []),
        *([f"  cluster {kernel.cluster_dims}"] if kernel.cluster_dims else []),
        *(f"  note: {note}" for note in kernel.notes),
    ]
    yield from notes
    for param in kernel.params:
        formal = kernel.formals[param.formal] if 0 <= param.formal < len(kernel.formals) else None
        spelled = f" ({formal.ctype})" if formal is not None else ""
        target = f" -> {param.object}" if param.object is not None else ""
        yield f"  param {show_var(param.var)}: {param.var.type}{spelled}{target}"
    for item in kernel.objects:
        yield f"  object {_object(item)}"


def _object(item: Object) -> str:
    shape = "".join(f"[{n}]" for n in item.shape)
    size = f"{item.size} bytes" if item.size is not None else "dynamic size" if item.dynamic else "size unknown"
    words = [f"{item.id}: {item.space} {item.element}{shape}, {size}, align {item.align}"]
    words += ["volatile"] if item.volatile else []
    words += [item.origin] if item.origin != "variable" else []
    words += [f"initialised with {len(item.init)} bytes"] if item.init is not None else []
    return ", ".join(words)


def _place(span: Span) -> str:
    site = span.inlined_at
    return f"{span.line}<{site.line}" if site is not None else str(span.line)


def _lines(body: Block) -> Iterator[str]:
    stack: list[tuple[int, Stmt | str]] = [(0, body)]
    while stack:
        depth, item = stack.pop()
        if isinstance(item, Block) and item.label is None:
            stack.extend((depth, below) for below in reversed(item.stmts))
            continue
        head, parts = (item, []) if isinstance(item, str) else (_stmt(item), _parts(item))
        place = "" if isinstance(item, str) else _place(item.span)
        deep = f"({depth}) " if depth > MAX_INDENT else ""
        yield f"{place:>9}  {'  ' * min(depth, MAX_INDENT)}{deep}{head}"
        for word, block in reversed(parts):
            stack.extend((depth + 1, below) for below in reversed(block.stmts))
            if word:
                stack.append((depth, word))


def _parts(stmt: Stmt) -> list[tuple[str, Block]]:
    """Nested blocks with the word that introduces each ("" right under the statement's own line)."""
    match stmt:
        case Block():
            return [("", Block(stmt.stmts))]
        case If(then=then, orelse=orelse):
            return [("", then), *([("else", orelse)] if orelse.stmts else [])]
        case Loop(test=test, body=body, step=step):
            order = [("test", test), ("body", body), ("step", step)]
            return [(word, block) for word, block in order if block.stmts]
        case Call(body=body):
            return [("", body)]
    return []


def _list(items: tuple[Expr, ...]) -> str:
    return ", ".join(show_expr(item) for item in items)


def _results(items: tuple[Var, ...]) -> str:
    return ", ".join(show_var(v) for v in items) + " = " if items else ""


def _cases(cases: tuple[Case, ...]) -> str:
    if not cases:
        return "  to ?"
    texts = []
    for case in cases:
        guard = f" if {show_expr(case.guard)}" if case.guard is not None else ""
        texts.append(f"{case.object}[{show_expr(case.offset)}]{guard}")
    return "  to " + " | ".join(texts)


def _memory(stmt: Load | Store | Atomic, count: int) -> str:
    words = [f"{stmt.type}x{count}" if count > 1 else str(stmt.type), stmt.space]
    words += [f"{stmt.order}.{stmt.scope}"] if stmt.order not in ("weak",) else []
    return " ".join(words)


def _stmt(stmt: Stmt) -> str:
    match stmt:
        case Block(label=label):
            return f"block {label}:"
        case Assign(var=var, expr=expr):
            return f"{show_var(var)}: {var.type} = {show_expr(expr)}"
        case Load():
            target = f"{show_expr(stmt.address)}{_cases(stmt.cases)}"
            return f"{_results(stmt.vars)}load {_memory(stmt, len(stmt.vars))} {target}"
        case Store():
            target = f"{show_expr(stmt.address)}{_cases(stmt.cases)}"
            return f"store {_memory(stmt, len(stmt.exprs))} {target} := {_list(stmt.exprs)}"
        case Atomic():
            result = _results((stmt.var,) if stmt.var is not None else ())
            target = f"{show_expr(stmt.address)}{_cases(stmt.cases)}"
            return f"{result}atomic {stmt.op} {_memory(stmt, 1)} {target}, {_list(stmt.exprs)}"
        case If(cond=cond):
            return f"if {show_expr(cond)}"
        case Loop():
            kind = "while" if stmt.test_first else "do while"
            info = f"  ({_info(stmt.info)})" if stmt.info is not None else ""
            return f"loop {stmt.label} {kind} {show_expr(stmt.cond)}{info}"
        case Break(label=label):
            return f"break {label}"
        case Continue(label=label):
            return f"continue {label}"
        case Return(label=label):
            return f"return {label}"
        case Exit(trap=trap):
            return "trap" if trap else "exit"
        case Call(label=label, callee=callee):
            return f"call {label} {callee}"
        case Barrier():
            return _barrier(stmt)
        case Fence():
            return f"fence {stmt.order} {stmt.scope}{f' proxy {stmt.proxy}' if stmt.proxy else ''}"
        case Collective():
            mask = show_expr(stmt.mask) if stmt.mask is not None else "active"
            width = f" width {show_expr(stmt.width)}" if stmt.width is not None else ""
            return f"{_results(stmt.vars)}{stmt.op} mask {mask}{width} ({_list(stmt.args)})"
        case Async() | Mma():
            return _transfer(stmt)
        case Assume(cond=cond, origin=origin):
            return f"assume {show_expr(cond)}  ({origin})"
        case Intrinsic(name=name, args=args, vars=found):
            return f"{_results(found)}{name}({_list(args)})"
        case Opaque():
            return f"{_results(stmt.defines)}opaque {'+'.join(sorted(stmt.touches))}: {stmt.reason}"


def _info(info: LoopInfo) -> str:
    head = f"{show_var(info.var)} from {show_expr(info.init)} while {_SYMBOLS[info.cmp]} {show_expr(info.bound)}"
    return f"{head} {'+=' if info.kind == 'affine' else '*='} {show_expr(info.step)}"


def _barrier(stmt: Barrier) -> str:
    words = [f"barrier {stmt.scope}"]
    words += [stmt.action] if stmt.action != "sync" else []
    for name, expr in (("id", stmt.id), ("count", stmt.count), ("mask", stmt.mask)):
        words += [f"{name} {show_expr(expr)}"] if expr is not None else []
    if stmt.reduce is not None and stmt.pred is not None:
        words.append(f"{stmt.reduce}({show_expr(stmt.pred)})")
    return _results((stmt.var,) if stmt.var is not None else ()) + " ".join(words)


def _transfer(stmt: Async | Mma) -> str:
    if isinstance(stmt, Mma):
        where = f" {show_expr(stmt.address)}{_cases(stmt.cases)}" if stmt.address is not None else ""
        stride = f" stride {show_expr(stmt.stride)}" if stmt.stride is not None else ""
        size = f" {stmt.rows}x{stmt.cols}" if stmt.rows else ""
        return f"mma {stmt.op} {stmt.type}{size} {stmt.layout} {', '.join(stmt.fragments)}{where}{stride}"
    words = [f"async {stmt.op}"]
    words += [f"{stmt.bytes} bytes"] if stmt.bytes is not None else []
    words += [f"pending {show_expr(stmt.pending)}"] if stmt.pending is not None else []
    words += [f"from {show_expr(stmt.src)}{_cases(stmt.src_cases)}"] if stmt.src is not None else []
    words += [f"into {show_expr(stmt.dst)}{_cases(stmt.dst_cases)}"] if stmt.dst is not None else []
    words += [f"of which {show_expr(stmt.source_bytes)} read"] if stmt.source_bytes is not None else []
    words += [f"({_list(stmt.args)})"] if stmt.args else []
    return " ".join(words)
