"""Host functions: syntax tree to host IR. Never raises; what is not understood becomes ``Unknown``.

Postconditions: all calls and launches of the body appear in it, launches in macro bodies included (the macro is
expanded at its use); every local name is resolved to its declaration; nesting deeper than ``MAX_DEPTH`` is cut.
"""

from __future__ import annotations

from dataclasses import replace

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl, Project
from prelaunch.analysis.hostir import ir
from prelaunch.analysis.hostir.declarators import Declarator, arguments_of, read_declarator, type_words
from prelaunch.analysis.hostir.lower_expr import expr, number, unknown
from prelaunch.analysis.hostir.macro_use import expand_launching
from prelaunch.analysis.hostir.scopes import MAX_DEPTH, Host
from prelaunch.analysis.hostir.text import Text
from prelaunch.analysis.source import Span


def lower_function(project: Project, function: FunctionDecl, body: bool = True) -> ir.HostFunction:
    """The host IR of a function definition (of a kernel too: kernels can launch); an empty body unless ``body``."""
    return _Lowering(project, function).run(body)


class _Lowering:
    def __init__(self, project: Project, function: FunctionDecl) -> None:
        self.project = project
        self.function = function
        self.text = Text(function.file.source, function.file.code)
        self.host = Host(project, function.file.source.path, function.qualified, self.lambda_function)

    def run(self, body: bool) -> ir.HostFunction:
        decl = self.function
        template = self._template(decl.template)
        parameters = self.parameters(decl.parameters, self.text)
        stmts = self._body(decl.body) if body and decl.body is not None else ir.Block()
        record = decl.record or ""
        returns = self._returns()
        return ir.HostFunction(
            decl.qualified, self.host.file, template, parameters, stmts, record, returns, span=decl.span
        )

    def _returns(self) -> str:
        """Spelling of the result type; ``auto`` when the text does not say."""
        words = type_words(self.function.node, self.text)
        declared = self.function.node.child_by_field_name("declarator")
        stars = 0
        while declared is not None and "pointer_declarator" in declared.type:
            stars += 1
            declared = declared.child_by_field_name("declarator")
        return (words + "*" * stars) or "auto"

    def _body(self, node: Node) -> ir.Block:
        initialisers = [c for c in self.function.node.named_children if c.type == "field_initializer_list"]
        found = [ir.Evaluate(unknown(self.host, n, self.text), span=self.text.span(n)) for n in initialisers]
        block = self.block(node, self.text)
        return replace(block, stmts=(*found, *block.stmts)) if found else block

    def _template(self, node: Node | None) -> tuple[ir.TemplateParameter, ...]:
        listed = node.child_by_field_name("parameters") if node is not None else None
        found: list[ir.TemplateParameter] = []
        for child in listed.named_children if listed is not None else ():
            if "parameter" not in child.type:
                continue
            kind, declared, default = self._template_parameter(child)
            name = read_declarator(declared, self.text).name if declared is not None else ""
            slot = self.host.declare(name) if name else ""
            found.append(ir.TemplateParameter(slot, name, kind, default, "variadic" in child.type))
        return tuple(found)

    def _template_parameter(self, child: Node) -> tuple[str, Node | None, ir.TemplateArgument | None]:
        """(type, empty for a type parameter; node that names it; default)."""
        if "type_parameter" in child.type or child.type == "template_template_parameter_declaration":
            names = [c for c in child.named_children if c.type == "type_identifier"]
            given = child.child_by_field_name("default_type")
            named = child.child_by_field_name("name") or (names[0] if names else None)
            return "", named, ir.TemplateArgument(self.text.flat(given)) if given is not None else None
        value = child.child_by_field_name("default_value")
        default = ir.TemplateArgument(self.text.flat(value), expr(self.host, value, self.text)) if value else None
        return type_words(child, self.text), child.child_by_field_name("declarator"), default

    def parameters(self, nodes: tuple[Node, ...], text: Text) -> tuple[ir.Parameter, ...]:
        found: list[ir.Parameter] = []
        for node in nodes:
            if "parameter" not in node.type:
                continue
            declared = node.child_by_field_name("declarator")
            shape = read_declarator(declared, text) if declared is not None else Declarator("")
            value = node.child_by_field_name("default_value")
            default = expr(self.host, value, text) if value is not None else None
            slot = self.host.declare(shape.name) if shape.name else ""
            found.append(
                ir.Parameter(
                    slot,
                    shape.name,
                    type_words(node, text),
                    shape.pointers + len(shape.extents),
                    shape.reference,
                    default,
                    "variadic" in node.type or shape.pack,
                    span=text.span(node),
                )
            )
        return tuple(found)

    def lambda_function(self, node: Node, text: Text) -> ir.HostFunction:
        """A lambda lowered in the scope it stands in; init captures are declared at the start of its body."""
        self.host.scopes.append({})
        found: list[ir.Stmt] = []
        captures = node.child_by_field_name("captures")
        for child in captures.named_children if captures is not None else ():
            left, right = child.child_by_field_name("left"), child.child_by_field_name("right")
            if left is not None and right is not None:
                value = expr(self.host, right, text)
                name = text.flat(left)
                found.append(ir.Declare(self.host.declare(name), name, "auto", value, span=text.span(child)))
        declarator = node.child_by_field_name("declarator")
        listed = declarator.child_by_field_name("parameters") if declarator is not None else None
        parameters = self.parameters(tuple(listed.named_children), text) if listed is not None else ()
        body = node.child_by_field_name("body")
        block = self.block(body, text) if body is not None else ir.Block()
        self.host.scopes.pop()
        span = text.span(node)
        name = f"{self.function.qualified}::lambda@{span.line}"
        stmts = ir.Block((*found, *block.stmts), span=block.span)
        return ir.HostFunction(name, self.host.file, (), parameters, stmts, self.function.record or "", span=span)

    # --- statements --------------------------------------------------------------------------------------------------

    def block(self, node: Node, text: Text, scope: bool = True) -> ir.Block:
        """``node`` as a block: a compound statement's contents, or the one statement it is."""
        if scope:
            self.host.scopes.append({})
        inside = node.named_children if node.type == "compound_statement" else [node]
        stmts: list[ir.Stmt] = []
        for child in inside:
            stmts.extend(self.statement(child, text))
        if scope:
            self.host.scopes.pop()
        return ir.Block(tuple(stmts), span=text.span(node))

    def statement(self, node: Node, text: Text) -> list[ir.Stmt]:
        span = text.span(node)
        if self.host.depth > MAX_DEPTH:
            return [ir.Evaluate(ir.Unknown("nesting too deep", span=span), span=span)]
        self.host.depth += 1
        try:
            return self._statement(node, text, span)
        finally:
            self.host.depth -= 1

    def _statement(self, node: Node, text: Text, span: Span) -> list[ir.Stmt]:
        match node.type:
            case "comment" | "using_declaration" | "type_definition" | "alias_declaration" | "preproc_def":
                return []
            case "compound_statement":
                return [self.block(node, text)]
            case "declaration":
                return self.declaration(node, text)
            case "expression_statement":
                return [s for c in node.named_children if c.type != "comment" for s in self.evaluate(c, text)]
            case "if_statement":
                return [self.if_(node, text)]
            case "for_statement" | "while_statement" | "do_statement" | "for_range_loop":
                return [self.loop(node, text)]
            case "switch_statement":
                return [self.switch(node, text)]
            case "return_statement" | "co_return_statement":
                values = [expr(self.host, c, text) for c in node.named_children if c.type != "comment"]
                return [ir.Return(values[0] if values else None, span=span)]
            case "break_statement":
                return [ir.Jump("break", span=span)]
            case "continue_statement":
                return [ir.Jump("continue", span=span)]
            case "throw_statement":
                values = [expr(self.host, c, text) for c in node.named_children if c.type != "comment"]
                thrown: list[ir.Stmt] = [ir.Evaluate(v, span=span) for v in values]
                return [*thrown, ir.Jump("end", span=span)]
            case "labeled_statement":
                return [s for c in node.named_children[1:] for s in self.statement(c, text)]
            case "try_statement":
                return self.try_(node, text)
        if node.type.startswith("preproc_if"):
            return self.conditional(node, text)
        if node.type.startswith("preproc_"):
            return []
        if node.type in ("ERROR", "case_statement", "else_clause"):
            return [s for c in node.named_children for s in self.statement(c, text)]
        return self.evaluate(node, text)

    def evaluate(self, node: Node, text: Text) -> list[ir.Stmt]:
        """An expression statement; a macro use whose body launches is expanded to its statements."""
        span = text.span(node)
        expanded = self.launching_macro(node, text)
        if expanded is not None:
            return expanded
        return [ir.Evaluate(expr(self.host, node, text), span=span)]

    def launching_macro(self, node: Node, text: Text) -> list[ir.Stmt] | None:
        """Statements of a macro use that reach a launch only through the macro's body; None for anything else."""
        expanded = expand_launching(self.host, node, text)
        if expanded is None:
            return None
        return [s for c in expanded.nodes for s in self.statement(c, expanded.text)]

    def declaration(self, node: Node, text: Text) -> list[ir.Stmt]:
        words = type_words(node, text)
        stmts: list[ir.Stmt] = []
        for declarator in node.children_by_field_name("declarator"):
            shape = read_declarator(declarator, text)
            span = text.span(declarator)
            if shape.bindings:
                value = expr(self.host, shape.value, text) if shape.value is not None else None
                if value is not None:
                    stmts.append(ir.Evaluate(value, span=span))
                stmts.extend(ir.Declare(self.host.declare(n), n, "auto", ir.Unknown("binding")) for n in shape.bindings)
                continue
            if shape.prototype and not shape.could_be_value:
                continue
            init = self._initial(words, shape, text, span)
            extents = tuple(expr(self.host, e, text) if e is not None else None for e in shape.extents)
            flat = words.split()
            stmts.append(
                ir.Declare(
                    self.host.declare(shape.name) if shape.name else "",
                    shape.name,
                    words,
                    init,
                    shape.pointers,
                    extents,
                    shape.reference,
                    "const" in flat or "constexpr" in flat,
                    "static" in flat,
                    span=span,
                )
            )
        return stmts

    def _initial(self, words: str, shape: Declarator, text: Text, span: Span) -> ir.Expr | None:
        value = shape.value
        if shape.prototype:
            args = tuple(
                expr(self.host, n, replace(text, code=code, fixed=text.span(at)))
                for at, (code, n) in arguments_of(shape, text)
            )
            return ir.Construct(words, args, span=span)
        if value is None:
            return None
        if value.type == "argument_list":
            args = tuple(expr(self.host, c, text) for c in value.named_children if c.type != "comment")
            return ir.Construct(words if not shape.pointers else "", args, span=text.span(value))
        lowered = expr(self.host, value, text)
        if isinstance(lowered, ir.Construct) and not lowered.type and not shape.extents and not shape.pointers:
            return replace(lowered, type=words)
        return lowered

    def if_(self, node: Node, text: Text) -> ir.Stmt:
        span = text.span(node)
        self.host.scopes.append({})
        prefix, cond = self.condition(node.child_by_field_name("condition"), text)
        then, other = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
        first = self.block(then, text) if then is not None else ir.Block()
        second = ir.Block()
        if other is not None:
            inside = (
                [c for c in other.named_children if c.type != "comment"] if other.type == "else_clause" else [other]
            )
            self.host.scopes.append({})
            found = [s for c in inside for s in self.statement(c, text)]
            self.host.scopes.pop()
            second = ir.Block(tuple(found), span=text.span(other))
        self.host.scopes.pop()
        stmt = ir.If(cond, first, second, span=span)
        return ir.Block((*prefix, stmt), span=span) if prefix else stmt

    def condition(self, node: Node | None, text: Text) -> tuple[list[ir.Stmt], ir.Expr]:
        """Statements before the test (``if (int e = f(); …)``), and the test."""
        if node is None:
            return [], ir.Unknown("no condition")
        prefix: list[ir.Stmt] = []
        initial = node.child_by_field_name("initializer")
        if initial is not None:
            prefix = [s for c in initial.named_children for s in self.statement(c, text)]
        value = node.child_by_field_name("value")
        if value is not None and value.type == "declaration":
            prefix += self.declaration(value, text)
            last = prefix[-1] if prefix else None
            if isinstance(last, ir.Declare):
                return prefix, ir.Name(last.slot, last.name, span=last.span)
        return prefix, expr(self.host, value if value is not None else node, text)

    def loop(self, node: Node, text: Text) -> ir.Stmt:
        span = text.span(node)
        self.host.scopes.append({})
        init: list[ir.Stmt] = []
        cond: ir.Expr | None = None
        step: ir.Expr | None = None
        first, test, update = (node.child_by_field_name(n) for n in ("initializer", "condition", "update"))
        if node.type == "for_range_loop":
            over = node.child_by_field_name("right")
            cond = expr(self.host, over, text) if over is not None else None
            declared = node.child_by_field_name("declarator")
            shape = read_declarator(declared, text) if declared is not None else Declarator("")
            slot = self.host.declare(shape.name) if shape.name else ""
            kind_of = node.child_by_field_name("type")
            words = text.flat(kind_of) if kind_of is not None else "auto"
            init = [ir.Declare(slot, shape.name, words, None, shape.pointers, (), shape.reference, span=span)]
        else:
            if first is not None:
                init = self.statement(first, text)
            if test is not None:
                more, cond = self.condition(test, text)
                init += more
            step = expr(self.host, update, text) if update is not None else None
        body = node.child_by_field_name("body")
        block = self.block(body, text) if body is not None else ir.Block()
        self.host.scopes.pop()
        kinds = {"do_statement": "do", "for_range_loop": "each"}
        kind = kinds.get(node.type, "while")
        return ir.Loop(kind, ir.Block(tuple(init)), cond, step, block, span=span)  # type: ignore[arg-type]  # one of three words

    def switch(self, node: Node, text: Text) -> ir.Stmt:
        span = text.span(node)
        prefix, cond = self.condition(node.child_by_field_name("condition"), text)
        body = node.child_by_field_name("body")
        cases: list[tuple[ir.Expr | None, ir.Block]] = []
        self.host.scopes.append({})
        for child in body.named_children if body is not None else ():
            if child.type == "case_statement":
                value = child.child_by_field_name("value")
                inside = [c for c in child.named_children if value is None or c.id != value.id]
                stmts = [s for c in inside for s in self.statement(c, text)]
                lowered = expr(self.host, value, text) if value is not None else None
                cases.append((lowered, ir.Block(tuple(stmts), span=text.span(child))))
            elif cases:
                label, block = cases[-1]
                more = self.statement(child, text)
                cases[-1] = (label, replace(block, stmts=(*block.stmts, *more)))
            else:
                prefix += self.statement(child, text)
        self.host.scopes.pop()
        stmt = ir.Switch(cond, tuple(cases), span=span)
        return ir.Block((*prefix, stmt), span=span) if prefix else stmt

    def try_(self, node: Node, text: Text) -> list[ir.Stmt]:
        body = node.child_by_field_name("body")
        stmts: list[ir.Stmt] = [self.block(body, text)] if body is not None else []
        for clause in node.named_children:
            handler = clause.child_by_field_name("body") if clause.type == "catch_clause" else None
            if handler is not None:
                span = text.span(clause)
                stmts.append(ir.If(ir.Unknown("exception", span=span), self.block(handler, text), span=span))
        return stmts

    def conditional(self, node: Node, text: Text) -> list[ir.Stmt]:
        """``#if``: both branches under an unknown condition, but ``#if 0`` and ``#if 1``, which are decided."""
        test, name, other = (node.child_by_field_name(n) for n in ("condition", "name", "alternative"))
        own = [c for c in node.named_children if all(c.id != o.id for o in (test, name, other) if o is not None)]
        then = [s for c in own for s in self.statement(c, text)]
        orelse: list[ir.Stmt] = []
        if other is not None:
            inside = [other] if other.type.startswith("preproc_elif") else other.named_children
            orelse = [
                s for c in inside for s in (
                    self.conditional(c, text) if c.type.startswith("preproc_elif")
                    else self.statement(c, text)
                )
            ]  # fmt: skip
        literal = number(text.of(test)) if test is not None and test.type == "number_literal" else None
        if literal is not None:
            return then if literal.value else orelse
        span = text.span(node)
        word = text.flat(test) if test is not None else text.flat(name) if name is not None else ""
        cond = ir.Unknown(f"#if {word}", span=span)
        return [ir.If(cond, ir.Block(tuple(then), span=span), ir.Block(tuple(orelse), span=span), span=span)]
