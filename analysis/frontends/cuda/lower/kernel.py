"""A ``__global__`` function of a project to a ``Kernel``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.lower import statements
from prelaunch.analysis.frontends.cuda.lower.context import EVERYTHING, Context, Frame, Limits, as_block
from prelaunch.analysis.frontends.cuda.lower.memory import element_type
from prelaunch.analysis.frontends.cuda.passes import promote, resolve, unassigned
from prelaunch.analysis.frontends.cuda.semantics import evaluate, names, templates, typenames
from prelaunch.analysis.frontends.cuda.semantics.scope import Lowered, Mem, Reg, Scope, TypeName
from prelaunch.analysis.frontends.cuda.semantics.types import (
    VOID,
    Array,
    CType,
    Ptr,
    Ref,
    TemplateArgument,
    Void,
    alignof,
    ir_type,
    leaves,
    sizeof,
    spell,
)  # fmt: skip
from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl
from prelaunch.analysis.frontends.cuda.text.project import Project
from prelaunch.analysis.kernel import (
    U8,
    Block,
    Exit,
    Formal,
    Kernel,
    Object,
    Opaque,
    Param,
    Var,
)  # fmt: skip

_FRAMES = 15_000
"""Python frames allowed while lowering: nesting is counted (``Limits.level`` bounds it), not left to Python."""


def lower_kernel(
    project: Project,
    decl: FunctionDecl,
    template_args: Sequence[TemplateArgument | str] = (),
    limits: Limits | None = None,
) -> Kernel:
    """The kernel ``decl`` with its template parameters bound to ``template_args``.

    Arguments may be given as text (``"256"``, ``"float"``). Never raises on what the code holds: what cannot be
    modelled is an ``Opaque`` with its reason.
    """
    kept = sys.getrecursionlimit()
    sys.setrecursionlimit(max(kept, _FRAMES))
    try:
        return _lower(project, decl, template_args, limits or Limits())
    except Exception as error:  # whatever hostile text breaks here must not end a review: it is said in the kernel
        return _failed(decl, template_args, error)
    finally:
        sys.setrecursionlimit(kept)


def _failed(decl: FunctionDecl, args: Sequence[TemplateArgument | str], error: Exception) -> Kernel:
    """A kernel of which nothing is known, with the error as the reason."""
    reason = f"lowering failed: {type(error).__name__}: {str(error)[:200]}"
    body = Block((Opaque(reason, frozenset(EVERYTHING), span=decl.span),), span=decl.span)
    printed = tuple(a if isinstance(a, str) else spell(a) for a in args)
    return Kernel(decl.qualified, decl.file.source.path, (), (), (), body, printed, confidence=reason, span=decl.span)


def _lower(project: Project, decl: FunctionDecl, args: Sequence[TemplateArgument | str], limits: Limits) -> Kernel:
    addressed: set[str] = set()
    for _ in range(limits.restarts):
        pass_ = _Pass(project, decl, limits, addressed)
        kernel = pass_.run(args)
        if pass_.ctx.wanted <= addressed:
            break
        addressed |= pass_.ctx.wanted
    return unassigned.define_unassigned(resolve.resolve(promote.promote(kernel, pass_.ctx.paths())))


class _Pass:
    """One walk over the kernel, with the variables known so far to need a place in memory."""

    def __init__(self, project: Project, decl: FunctionDecl, limits: Limits, addressed: set[str]) -> None:
        self.decl = decl
        scope = Scope(names.namespace_scope(decl.qualified))
        frame = Frame(decl.name, None, VOID, scope=scope, decl=decl)
        self.ctx = Context(project, limits, decl.file, scope, frame, addressed=set(addressed))
        self.formals: list[Formal] = []
        self.params: list[Param] = []

    def run(self, given: Sequence[TemplateArgument | str]) -> Kernel:
        ctx, decl = self.ctx, self.decl
        args = self._bind(given)
        with ctx.block() as body:
            for node in decl.parameters:
                if node.text != b"void":
                    self._parameter(node)
            if decl.body is not None:
                statements.body(ctx, decl.body)
            else:
                ctx.opaque("kernel without a body", ctx.span(decl.node), ("value", "memory", "control"))
        if body and isinstance(body[-1], Exit) and not body[-1].trap:
            body.pop()
        span = ctx.span(decl.node)
        confidence = decl.confidence if decl.confidence != "clean" or not ctx.repaired else ctx.repaired
        return Kernel(
            decl.qualified, decl.file.source.path, tuple(self.formals), tuple(self.params), tuple(ctx.objects.values()),
            as_block(body, ctx.span(decl.body) if decl.body is not None else span), args, self._launch_bounds(),
            self._cluster(), confidence, tuple(ctx.notes), span=span,
        )  # fmt: skip

    def _bind(self, given: Sequence[TemplateArgument | str]) -> tuple[str, ...]:
        ctx, decl = self.ctx, self.decl
        if decl.template is None:
            return ()
        own = [p.name for p in templates.parameters(decl.template)]
        if any(a in own for a in given if isinstance(a, str)):
            given = ()  # a caller's own parameters: nothing is known of them
        found = [templates.parse_argument(ctx, a) if isinstance(a, str) else a for a in given]
        if decl.specialisation:
            bindings = templates.match_specialisation(ctx, decl, found) if found else None
            if bindings is not None:
                ctx.scope.names.update(bindings)
            return tuple(spell(a) for a in found) or decl.specialisation
        templates.bind(ctx, decl.template, found, ctx.scope)
        printed: list[str] = []
        for parameter in templates.parameters(decl.template):
            bound = ctx.scope.names.get(parameter.name)
            if isinstance(bound, TypeName):
                printed.append(spell(bound.type))
            elif bound is not None and hasattr(bound, "value"):
                text = spell(bound.value)
                printed.append(parameter.name if text.startswith("?") else text)
        return tuple(p for p in printed if p)

    # --- parameters

    def _parameter(self, node: Node) -> None:
        ctx = self.ctx
        spec = typenames.specifiers(ctx, node)
        base: CType = spec.type if spec.type is not None else U8
        name, ctype = typenames.declared(ctx, base, node.child_by_field_name("declarator"), spec.volatile, spec.const)
        if isinstance(ctype, Array):
            ctype = Ptr(ctype.of, spec.volatile, spec.const)
        if isinstance(ctype, Ref):
            ctype = ctype.to
        label = ctx.text(name) if name is not None else f"arg{len(self.formals)}"
        index = len(self.formals)
        restrict = isinstance(ctype, Ptr) and (ctype.restrict or any("restrict" in w for w in spec.words))
        const = spec.const or (isinstance(ctype, Ptr) and ctype.const)
        printed = ("const " if spec.const else "") + spell(ctype)
        span = ctx.span(node)
        self.formals.append(Formal(label, printed, sizeof(ctype), alignof(ctype), restrict, const, span=span))
        place = self._leaves(ctype, label, index, node)
        if name is not None:
            ctx.scope.names[label] = place

    def _leaves(self, ctype: CType, label: str, index: int, node: Node) -> Lowered:
        ctx = self.ctx
        span = ctx.span(node)
        key = ctx.key(node)
        found = leaves(ctype)
        if found is None:
            return self._blob(ctype, label, span)
        made: list[Var] = []
        for leaf in found:
            full = label + leaf.path
            var = ctx.var(ir_type(leaf.type), full, span)
            target = self._pointee(full, leaf.type) if isinstance(leaf.type, Ptr) else None
            self.params.append(Param(var, index, leaf.offset, target))
            made.append(var)
        place = Reg(ctype, tuple(made), key)
        if key not in ctx.addressed:
            ctx.formals.add(key)
            return place
        from prelaunch.analysis.frontends.cuda.lower import memory

        held = memory.local_object(ctx, ctype, label, span)
        memory.store(ctx, held, place, span)
        return held

    def _blob(self, ctype: CType, label: str, span: object) -> Mem:
        """A parameter that does not decompose: an object of the parameter space with unknown content."""
        from prelaunch.analysis.frontends.cuda.lower.context import pointer_to
        from prelaunch.analysis.kernel import Address

        made = Object(label, label, "param", element_type(ctype), sizeof(ctype), alignof(ctype), origin="param")
        self.ctx.add_object(made)
        return Mem(ctype, Address(label, pointer_to(ctype)), False, "param")

    def _pointee(self, full: str, ctype: Ptr) -> str | None:
        if isinstance(ctype.to, Void):
            element: CType = U8
        else:
            element = ctype.to
        made = Object(
            full, full, "global", element_type(element), None, max(1, alignof(element)), origin="param",
            volatile=ctype.volatile,
        )  # fmt: skip
        self.ctx.add_object(made)
        return full

    # --- attributes

    def _launch_bounds(self) -> tuple[int | None, int | None, int | None]:
        found: list[int | None] = []
        for text in self.decl.launch_bounds_text[:1]:
            found = [self._number(part) for part in split_arguments(text)]
        found = [*found, None, None, None][:3]
        return found[0], found[1], found[2]

    def _cluster(self) -> tuple[int, int, int] | None:
        for text in self.decl.attributes:
            if text.startswith("__cluster_dims__"):
                inside = text.partition("(")[2].rpartition(")")[0]
                dims = [self._number(part) or 1 for part in split_arguments(inside)]
                dims = [*dims, 1, 1, 1][:3]
                return dims[0], dims[1], dims[2]
        return None

    def _number(self, text: str) -> int | None:
        from prelaunch.analysis.frontends.cuda.text.macros import parse_fragment

        _, node = parse_fragment(text, "expression")
        if node.type == "translation_unit":
            return None
        return evaluate.integer(self.ctx, node)


def split_arguments(text: str) -> list[str]:
    """Top-level comma-separated parts."""
    parts: list[str] = []
    depth, start = 0, 0
    for index, char in enumerate(text):
        if char in "([{<":
            depth += 1
        elif char in ")]}>":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]
