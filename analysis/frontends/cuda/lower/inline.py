"""Inlining of device functions: ``Call`` blocks with arguments and results as ordinary assignments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower import classes, expressions, initialise, memory, operators, statements
from prelaunch.analysis.frontends.cuda.lower.context import EVERYTHING, Context, Frame, as_block
from prelaunch.analysis.frontends.cuda.semantics import names, records, templates, typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import (
    Binding,
    Lowered,
    Mem,
    Parameters,
    Reg,
    Scope,
    Template,
    TypeName,
    Val,
)
from prelaunch.analysis.frontends.cuda.semantics.types import (
    VOID,
    Array,
    CType,
    Ptr,
    Record,
    Ref,
    Void,
    leaves,
    scalar,
    spell,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl
from prelaunch.analysis.kernel import F32, Call, Return, Stmt
from prelaunch.analysis.source import Span


def inline(
    ctx: Context, decl: FunctionDecl, bindings: dict[str, Binding], this: Lowered | None, record: Record | None,
    args: list[Lowered], span: Span,
) -> Lowered:  # fmt: skip
    """The call of ``decl`` as a ``Call`` statement; gives its result (a place when it returns a reference)."""
    instance = _instance(bindings, record)
    if not decl.confidence.startswith("clean") and not ctx.repaired:
        ctx.repaired = decl.confidence
    outer = record.scope if record is not None and record.scope is not None else names.namespace_scope(decl.qualified)
    scope = Scope(outer, dict(bindings), this)
    refused = _refuse(ctx, decl, instance)
    if refused is not None:
        with names.inside(ctx, decl.file, scope):
            ctype = return_type(ctx, decl) or F32
        result = ctype.to if isinstance(ctype, Ref) else ctype
        return ctx.unknown(refused, span, result, touches=EVERYTHING)
    frame = Frame(decl.name, ctx.label(), None, scope=scope, decl=decl, instance=instance)
    with entered(ctx, decl, scope, frame, span):
        if record is not None:
            _bind_class_parameters(ctx, decl, record, scope)
        frame.type = return_type(ctx, decl)
        bind_parameters(ctx, decl, args, span)
        with ctx.block() as body:
            if decl.name == (record.name if record is not None else None):
                classes.member_initialisers(ctx, decl)
            assert decl.body is not None
            statements.body(ctx, decl.body)
            _drop_last_return(body, frame)
        block = as_block(body, ctx.span(decl.body))
    if body:
        assert frame.label is not None
        ctx.emit(Call(frame.label, decl.qualified, block, span=span))
    return result_of(ctx, frame, span)


def _instance(bindings: dict[str, Binding], record: Record | None) -> tuple[str, ...]:
    found = [f"{name}={spell(b.value)}" for name, b in bindings.items() if isinstance(b, Template)]
    found += [f"{name}={spell(b.type)}" for name, b in bindings.items() if isinstance(b, TypeName)]
    return (*sorted(found), *(spell(a) for a in (record.args if record is not None else ())))


def _held(ctx: Context, value: Lowered, span: Span) -> Lowered:
    return replace(value, address=ctx.frozen(value.address, span)) if isinstance(value, Mem) else value


def _refuse(ctx: Context, decl: FunctionDecl, instance: tuple[str, ...]) -> str | None:
    if decl.body is None:
        return f"call of {decl.qualified}: no definition found"
    if len(ctx.frames) >= ctx.limits.inline:
        return f"calls nest deeper than {ctx.limits.inline}"
    same = sum(1 for f in ctx.frames if f.decl is decl and f.instance == instance)
    if same >= (ctx.limits.inline if ctx.unevaluated else ctx.limits.recursion):
        return f"recursion of {decl.qualified}"
    return None


@contextmanager
def entered(ctx: Context, decl: FunctionDecl, scope: Scope, frame: Frame, span: Span) -> Iterator[None]:
    """Names, text and jumps of the callee; restored afterwards."""
    kept = ctx.file, ctx.scope, ctx.macro_site, ctx.macros, ctx.inlined_at, ctx.depth, ctx.frame, ctx.jumps
    ctx.file, ctx.scope, ctx.macro_site, ctx.macros = decl.file, scope, None, ()
    ctx.inlined_at, ctx.depth, ctx.frame, ctx.jumps = span, 0, frame, []
    ctx.frames.append(frame)
    try:
        yield
    finally:
        ctx.frames.pop()
        (
            ctx.file, ctx.scope, ctx.macro_site, ctx.macros, ctx.inlined_at, ctx.depth, ctx.frame, ctx.jumps,
        ) = kept  # fmt: skip


def _bind_class_parameters(ctx: Context, decl: FunctionDecl, record: Record, scope: Scope) -> None:
    """Names that a member defined outside its class template gives to the class's parameters."""
    if not record.args or (decl.file is record.file and names.within(record.body, decl.node)):
        return
    head: Node | None = decl.template
    while head is not None and head.parent is not None and head.parent.type == "template_declaration":
        head = head.parent
    if head is None:
        return
    for parameter, value in zip(templates.parameters(head), record.args, strict=False):
        templates.bind_one(scope, parameter, value)


def return_type(ctx: Context, decl: FunctionDecl) -> CType | None:
    """The declared result of a function, resolved in the current scope; None for ``auto``."""
    outer = decl.node.child_by_field_name("declarator")
    if outer is not None and outer.type == "operator_cast":
        spec = typenames.specifiers(ctx, outer)
        _, ctype = _until_function(ctx, spec.type or VOID, outer.child_by_field_name("declarator"), spec.volatile)
        return ctype
    trailing = next((c for c in decl.declarator.named_children if c.type == "trailing_return_type"), None)
    if trailing is not None and trailing.named_children:
        return typenames.type_of(ctx, trailing.named_children[0])
    if decl.node.child_by_field_name("type") is None:
        return VOID
    spec = typenames.specifiers(ctx, decl.node)
    if spec.type is None:
        inner = outer
        if inner is not None and inner.type == "reference_declarator":
            ctx.frame.reference = True
        return None
    _, ctype = _until_function(ctx, spec.type, outer, spec.volatile)
    return ctype


def _until_function(ctx: Context, base: CType, node: Node | None, volatile: bool) -> tuple[None, CType]:
    ctype = base
    current = node
    for _ in range(16):
        if current is None or "function_declarator" in current.type:
            break
        if "pointer_declarator" in current.type:
            ctype = Ptr(ctype, volatile)
            volatile = False
        elif "reference_declarator" in current.type:
            ctype = Ref(ctype, volatile)
        below = current.child_by_field_name("declarator")
        current = below or next((c for c in current.named_children if c.type.endswith("declarator")), None)
    return None, ctype


def bind_parameters(ctx: Context, decl: FunctionDecl, args: list[Lowered], span: Span) -> None:
    """Parameters of a function as names of the current scope."""
    bind_nodes(ctx, list(decl.parameters), args, span)


def bind_nodes(ctx: Context, nodes: list[Node], args: list[Lowered], span: Span) -> None:
    for index, node in enumerate(nodes):
        if node.text == b"void":
            continue
        spec = typenames.specifiers(ctx, node)
        declarator = node.child_by_field_name("declarator")
        if node.type.startswith("variadic"):
            _bind_pack(ctx, node, args[index:], span)
            return
        if index < len(args):
            value = args[index]
        else:
            default = node.child_by_field_name("default_value")
            if default is None:
                continue
            value = (
                expressions.lower(ctx, default)
                if default.type != "initializer_list"
                else initialise.from_list(ctx, default, spec.type or VOID)
            )
        base = spec.type if spec.type is not None else auto_type(value.type)
        name, ctype = typenames.declared(ctx, base, declarator, spec.volatile, spec.const)
        if name is None:
            continue
        ctx.scope.names[ctx.text(name)] = bind_value(ctx, ctx.text(name), ctype, value, ctx.key(name), span)


def _bind_pack(ctx: Context, node: Node, args: list[Lowered], span: Span) -> None:
    name = node.child_by_field_name("declarator")
    while name is not None and name.type != "identifier":
        name = name.named_children[0] if name.named_children else None
    if name is None:
        return
    label = ctx.text(name)
    reference = "&" in ctx.text(node)
    items: list[Val | Reg | Mem] = []
    for position, value in enumerate(args):
        ctype: CType = Ref(value.type) if reference else auto_type(value.type)
        items.append(bind_value(ctx, f"{label}{position}", ctype, value, f"{ctx.key(name)}.{position}", span))
    ctx.scope.names[label] = Parameters(tuple(items))


def auto_type(ctype: CType) -> CType:
    """What ``auto`` deduces from an initialiser."""
    return Ptr(ctype.of) if isinstance(ctype, Array) else ctype


def bind_value(ctx: Context, name: str, ctype: CType, value: Lowered, key: str, span: Span) -> Lowered:
    """A variable ``name`` of declared type ``ctype`` that starts as ``value``: an alias for references."""
    if isinstance(ctype, Ref):
        return bind_reference(ctx, name, ctype, value, key, span)
    if isinstance(ctype, Array):
        ctype = Ptr(ctype.of)
    if (
        not leaves(value.type)
        and leaves(value.type) is not None
        and not isinstance(ctype, Record)
        and not scalar(ctype)
    ):
        return Val(value.type)
    if leaves(ctype) == () and not isinstance(ctype, Record):
        return Val(ctype)
    converted = operators.convert(ctx, value, ctype, span)
    made = ctx.registers(ctype, name, span, key) if key not in ctx.addressed else None
    if made is None or any("[" in leaf.path for leaf in leaves(ctype) or ()):
        place = memory.local_object(ctx, ctype, name, span)
        memory.store(ctx, place, converted, span)
        return place
    memory.store(ctx, made, converted, span)
    return made


def bind_reference(ctx: Context, name: str, ctype: Ref, value: Lowered, key: str, span: Span) -> Lowered:
    to = ctype.to
    if isinstance(value.type, Array) and isinstance(to, Array):
        return value
    if value.type is to or value.type == to:
        if isinstance(value, Val) and value.exprs:
            return bind_value(ctx, name, to, value, key, span)
        if isinstance(value, Mem):
            held = _held(ctx, value, span)
            assert isinstance(held, Mem)
            return replace(held, volatile=held.volatile or ctype.volatile)
        return value
    if isinstance(to, Record) and isinstance(value.type, Record):
        at = records.base_offset(value.type, to)
        if at is not None:
            return memory.member(ctx, value, to, at, span)
    if not scalar(to) and not isinstance(to, Record | Array):
        return value
    return bind_value(ctx, name, to, value, key, span)


def returned(ctx: Context, node: Node | None, span: Span) -> None:
    """``return expr`` inside an inlined function."""
    frame = ctx.frame
    frame.returns += 1
    if node is not None and not isinstance(frame.type, Void):
        value = _returned_value(ctx, node, frame)
        _keep_result(ctx, frame, value, span)
    elif node is not None:
        expressions.effect(ctx, node)
    assert frame.label is not None
    ctx.emit(Return(frame.label, span=span))


def _returned_value(ctx: Context, node: Node, frame: Frame) -> Lowered:
    if node.type == "initializer_list" and frame.type is not None:
        to = frame.type.to if isinstance(frame.type, Ref) else frame.type
        return initialise.from_list(ctx, node, to)
    value = expressions.lower(ctx, node)
    if frame.type is None:
        frame.type = auto_type(value.type)
        if frame.reference:
            frame.type = Ref(frame.type)
    return value


def _keep_result(ctx: Context, frame: Frame, value: Lowered, span: Span) -> None:
    ctype = frame.type
    if isinstance(ctype, Ref):
        _keep_reference(ctx, frame, value, ctype, span)
        return
    assert ctype is not None
    if not scalar(ctype) and not isinstance(ctype, Record):
        frame.result = memory.load(ctx, value, span)
        return
    converted = operators.convert(ctx, value, ctype, span)
    if frame.result is None:
        made = ctx.registers(ctype, "", span)
        frame.result = made if made is not None else memory.local_object(ctx, ctype, "result", span)
    if (
        isinstance(frame.result, Reg) and isinstance(converted, Val) and not _defined(converted, frame.result)
    ) or isinstance(frame.result, Mem):
        memory.store(ctx, frame.result, converted, span)


def _defined(value: Val, place: Reg) -> bool:
    return value.exprs == place.vars


def _keep_reference(ctx: Context, frame: Frame, value: Lowered, ctype: Ref, span: Span) -> None:
    if frame.result is None:
        if isinstance(value, Mem):
            pointer = memory.address_of(ctx, value, span)
            made = ctx.temporary(pointer.expr, span)
            frame.result = replace(value, address=made)
        else:
            frame.result = value
        return
    if frame.result == value:
        return
    pointer = memory.address_of(ctx, value, span)
    if isinstance(frame.result, Mem):
        from prelaunch.analysis.kernel import Assign, Var

        target = frame.result.address
        if isinstance(target, Var):
            ctx.emit(Assign(target, memory.retype(pointer.expr, target.type), span=span))  # type: ignore[arg-type]  # a pointer
            return
    ctx.opaque(f"reference to {spell(ctype.to)} returned in two ways", span, ("value", "memory"))


def result_of(ctx: Context, frame: Frame, span: Span) -> Lowered:
    if frame.result is not None:
        if isinstance(frame.result, Reg) and not frame.result.key and not isinstance(frame.type, Ref):
            return Val(frame.result.type, frame.result.vars)
        return frame.result
    if frame.type is None or isinstance(frame.type, Void):
        return Val(VOID)
    if not isinstance(frame.type, Ref) and leaves(frame.type) == ():
        return Val(frame.type)
    return ctx.unknown(
        f"{frame.name} returns nothing", span, frame.type.to if isinstance(frame.type, Ref) else frame.type
    )


def _drop_last_return(body: list[Stmt], frame: Frame) -> None:
    if body and isinstance(body[-1], Return) and body[-1].label == frame.label:
        body.pop()
