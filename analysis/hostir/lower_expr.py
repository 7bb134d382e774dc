"""Host expressions: syntax tree to host IR. Never raises; what is not understood becomes ``Unknown``.

Postconditions: every call, launch and lambda of the text appears in the result (inside ``Unknown.parts`` where its
surroundings are not understood), expression-like macros are expanded, names carry their slot.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tree_sitter import Node

from prelaunch.analysis.frontends.cuda.text.macros import MacroLimit, expand_call, expand_object, parse_fragment
from prelaunch.analysis.hostir import ctypes, ir
from prelaunch.analysis.hostir.scopes import MAX_DEPTH, Host
from prelaunch.analysis.hostir.text import MAX_EXPANSION, MAX_NESTED, Text
from prelaunch.analysis.source import Span

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)([uUlLzZ]*)$")
_FLOAT = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([fFlL]?)$")
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast"})
_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "\\": 92, "'": 39, '"': 34, "a": 7, "b": 8, "f": 12, "v": 11}


def number(text: str) -> ir.Literal | None:
    """A numeric literal with the type C gives it."""
    text = text.replace("'", "")
    match = _INTEGER.fullmatch(text)
    if match is not None:
        digits, suffix = match.group(1), match.group(2).lower()
        octal = len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567"
        try:
            value = int(digits, 8 if octal else 0)
        except ValueError:
            return None
        decimal = not octal and digits[:2].lower() not in ("0x", "0b")
        return ir.Literal(value, _integer_type(value, suffix, decimal))
    match = _FLOAT.fullmatch(text)
    if match is None:
        return None
    try:
        return ir.Literal(float(match.group(1)), "float" if match.group(2) in ("f", "F") else "double")
    except ValueError:
        return None


def _integer_type(value: int, suffix: str, decimal: bool) -> str:
    unsigned, wide = "u" in suffix, "l" in suffix or "z" in suffix
    for bits, signed, name in ((31, True, "int"), (32, False, "unsigned"), (63, True, "long")):
        if bits < 63 and wide:
            continue
        if (signed and unsigned) or (not signed and not unsigned and decimal):
            continue
        if value < 1 << bits:
            return name
    return "unsigned long"


def expr(host: Host, node: Node, text: Text) -> ir.Expr:
    """Lowers one expression node of ``text``."""
    if host.depth > MAX_DEPTH:
        return ir.Unknown("nesting too deep", span=text.span(node))
    host.depth += 1
    try:
        return _expr(host, node, text)
    finally:
        host.depth -= 1


def _expr(host: Host, node: Node, text: Text) -> ir.Expr:
    span = text.span(node)
    handler = _HANDLERS.get(node.type)
    if handler is not None:
        return handler(host, node, text)
    match node.type:
        case "identifier" | "field_identifier" | "type_identifier" | "namespace_identifier":
            return name(host, node, text)
        case "number_literal":
            literal = number(text.of(node))
            return replace(literal, span=span) if literal else ir.Unknown("number", span=span)
        case "char_literal":
            return _character(text.of(node), span)
        case "string_literal" | "concatenated_string" | "raw_string_literal":
            return ir.Literal(text.of(node).strip('"'), "char*", span=span)
        case "true" | "false":
            return ir.Literal(int(node.type == "true"), "bool", span=span)
        case "null" | "nullptr":
            return ir.Literal(None, "void*", span=span)
        case "this":
            return ir.Name("", "this", span=span)
        case "parenthesized_expression" | "condition_clause":
            inside = [c for c in node.named_children if c.type != "comment"]
            if len(inside) == 1:
                return expr(host, inside[0], text)
    return unknown(host, node, text)


def unknown(host: Host, node: Node, text: Text) -> ir.Unknown:
    """``node`` as ``Unknown`` around the expressions in it."""
    found: list[ir.Expr] = []
    stack = list(reversed(node.named_children))
    while stack:
        child = stack.pop()
        if child.type in _HANDLERS or child.type == "identifier":
            found.append(expr(host, child, text))
        elif child.type != "comment":
            stack.extend(reversed(child.named_children))
    return ir.Unknown(node.type, tuple(found), span=text.span(node))


def name(host: Host, node: Node, text: Text) -> ir.Expr:
    word, span = text.of(node), text.span(node)
    slot = host.find(word)
    if slot is not None:
        return ir.Name(slot, word, span=span)
    if word in host.project.macros and word not in text.active:
        expanded = macro_expression(host, word, None, text, span)
        if expanded is not None:
            return expanded
    return ir.Name("", word, span=span)


def macro_expression(host: Host, word: str, arguments: list[str] | None, text: Text, use: Span) -> ir.Expr | None:
    """A macro use read as an expression; None when it does not read as one."""
    if len(text.active) > MAX_NESTED:
        return None
    file = text.source.path
    macro = host.project.lookup_macro(word, file)
    if macro is None or not macro.body.strip() or any(c in macro.body for c in ";{"):
        return None
    try:
        body = (
            expand_object(host.project, file, word)
            if arguments is None
            else expand_call(host.project, file, word, arguments)
        )
    except MacroLimit:
        return None
    if body is None or len(body) > MAX_EXPANSION or ";" in body:
        return None
    code, node = parse_fragment(body, "expression")
    if node.has_error or node.type in ("compound_statement", "translation_unit"):
        return None
    where = use if use.spelling is not None else replace(use, spelling=macro.span)
    return expr(host, node, Text(text.source, code, where, (*text.active, word)))


# --- calls ---------------------------------------------------------------------------------------------------


def call(host: Host, node: Node, text: Text) -> ir.Expr:
    function = node.child_by_field_name("function")
    listed = node.child_by_field_name("arguments")
    span = text.span(node)
    if function is None:
        return unknown(host, node, text)
    nodes = [c for c in listed.named_children if c.type != "comment"] if listed is not None else []
    config = next((c for c in node.children if c.type == "kernel_call_syntax"), None)
    if config is None and function.type == "identifier":
        expanded = _macro_call(host, function, nodes, text, span)
        if expanded is not None:
            return expanded
    args = tuple(expr(host, a, text) for a in nodes)
    if config is not None:
        inside = [c for c in config.named_children if c.type != "comment"]
        dims = tuple(expr(host, c, text) for c in inside)
        return ir.Launch(callee(host, function, text), dims, args, span=span)
    special = _special_call(host, function, args, text, span)
    return special or ir.Call(callee(host, function, text), args, span=span)


def _macro_call(host: Host, function: Node, nodes: list[Node], text: Text, span: Span) -> ir.Expr | None:
    word = text.of(function)
    if word not in host.project.macros or word in text.active or host.find(word) is not None:
        return None
    return macro_expression(host, word, [text.of(n) for n in nodes], text, span)


def _special_call(host: Host, function: Node, args: tuple[ir.Expr, ...], text: Text, span: Span) -> ir.Expr | None:
    """Casts and constructors that parse as calls."""
    if function.type == "template_function" and len(args) == 1:
        name = function.child_by_field_name("name")
        if name is not None and text.of(name) in _CASTS:
            listed = function.child_by_field_name("arguments")
            kind = text.flat(listed)[1:-1].strip() if listed is not None else ""
            return ir.Cast(kind, args[0], span=span)
    word = text.flat(function)
    if function.type == "parenthesized_expression" and len(args) == 1 and host.is_type(word.strip("() ")):
        return ir.Cast(word.strip("() "), args[0], span=span)
    if host.find(word) is not None:
        return None
    if ctypes.scalar(word) is not None:
        return ir.Cast(word, args[0], span=span) if len(args) == 1 else ir.Literal(0, word, span=span)
    constant = not args and word.partition("<")[0].rpartition("::")[2] in ctypes.CONSTANT_TYPES
    if constant or ctypes.plain(word) == "dim3" or function.type in ("primitive_type", "sized_type_specifier"):
        return ir.Construct(word, args, span=span)
    return None


def callee(host: Host, node: Node, text: Text) -> ir.Expr:
    """What is called or launched: a name with template arguments, a member, or any expression."""
    match node.type:
        case "template_function" | "template_method":
            name = node.child_by_field_name("name")
            base = callee(host, name, text) if name is not None else ir.Unknown("template")
            args = template_arguments(host, node.child_by_field_name("arguments"), text)
            return replace(base, template_args=args) if isinstance(base, ir.Name) else base
        case "qualified_identifier":
            return qualified(host, node, text)
        case "field_expression":
            return member(host, node, text)
    return expr(host, node, text)


def qualified(host: Host, node: Node, text: Text) -> ir.Expr:
    """``a::b::name<args>``; the qualification keeps its template arguments out of the name."""
    parts: list[str] = []
    current: Node | None = node
    args: tuple[ir.TemplateArgument, ...] = ()
    while current is not None and current.type == "qualified_identifier":
        scope = current.child_by_field_name("scope")
        if scope is not None:
            inner = scope.child_by_field_name("name") if scope.type == "template_type" else None
            parts.append(text.flat(inner if inner is not None else scope))
        current = current.child_by_field_name("name")
    if current is not None and current.type in ("template_function", "template_type"):
        args = template_arguments(host, current.child_by_field_name("arguments"), text)
        current = current.child_by_field_name("name")
    parts.append(text.flat(current) if current is not None else "")
    return ir.Name("", "::".join(parts), args, span=text.span(node))


def template_arguments(host: Host, node: Node | None, text: Text) -> tuple[ir.TemplateArgument, ...]:
    found = []
    for child in node.named_children if node is not None else ():
        if child.type == "comment":
            continue
        value: ir.Expr | None = None
        if child.type == "type_descriptor":
            inner = child.child_by_field_name("type")
            bare = child.named_child_count == 1 and inner is not None
            if bare and inner is not None and inner.type in ("type_identifier", "qualified_identifier"):
                value = expr(host, inner, text)
        else:
            value = expr(host, child, text)
        found.append(ir.TemplateArgument(text.flat(child), value))
    return tuple(found)


# --- the other forms -------------------------------------------------------------------------------------------


def member(host: Host, node: Node, text: Text) -> ir.Expr:
    base, field = node.child_by_field_name("argument"), node.child_by_field_name("field")
    if base is None or field is None:
        return unknown(host, node, text)
    arrow = any(c.type == "->" for c in node.children)
    args: tuple[ir.TemplateArgument, ...] = ()
    if field.type == "template_method":
        args = template_arguments(host, field.child_by_field_name("arguments"), text)
        field = field.child_by_field_name("name") or field
    lowered = expr(host, base, text)
    return ir.Member(lowered, text.flat(field), arrow, args, span=text.span(node))


def index(host: Host, node: Node, text: Text) -> ir.Expr:
    base, listed = node.child_by_field_name("argument"), node.child_by_field_name("indices")
    inside = [c for c in listed.named_children if c.type != "comment"] if listed is not None else []
    if base is None or len(inside) != 1:
        return unknown(host, node, text)
    lowered = expr(host, base, text)
    return ir.Index(lowered, expr(host, inside[0], text), span=text.span(node))


def operation(host: Host, node: Node, text: Text) -> ir.Expr:
    span = text.span(node)
    operator = node.child_by_field_name("operator")
    op = text.of(operator) if operator is not None else node.children[0].type
    if node.type in ("binary_expression", "assignment_expression", "comma_expression"):
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return unknown(host, node, text)
        a, b = expr(host, left, text), expr(host, right, text)
        if node.type == "assignment_expression":
            return ir.Assign(a, op[:-1], b, span=span)
        return ir.Binary("," if node.type == "comma_expression" else op, a, b, span=span)
    operand = node.child_by_field_name("argument")
    if operand is None:
        return unknown(host, node, text)
    if node.type == "update_expression":
        op = f"{op}x" if node.children[0].type in ("++", "--") else f"x{op}"
    return ir.Unary(op, expr(host, operand, text), span=span)


def conditional(host: Host, node: Node, text: Text) -> ir.Expr:
    names = ("condition", "consequence", "alternative")
    nodes = [node.child_by_field_name(n) for n in names]
    lowered = [expr(host, n, text) for n in nodes if n is not None]
    if len(lowered) != 3:
        return unknown(host, node, text)
    return ir.Ternary(lowered[0], lowered[1], lowered[2], span=text.span(node))


def cast(host: Host, node: Node, text: Text) -> ir.Expr:
    kind, value = node.child_by_field_name("type"), node.child_by_field_name("value")
    if kind is None or value is None:
        return unknown(host, node, text)
    return ir.Cast(text.flat(kind), expr(host, value, text), span=text.span(node))


def sizeof(host: Host, node: Node, text: Text) -> ir.Expr:
    kind, value = node.child_by_field_name("type"), node.child_by_field_name("value")
    if kind is not None:
        return ir.SizeOf(text.flat(kind), span=text.span(node))
    if value is None:
        return unknown(host, node, text)
    operand = expr(host, value, text)
    bare = operand.name if isinstance(operand, ir.Name) and not operand.slot else ""
    return ir.SizeOf(bare, operand, span=text.span(node))


def braces(host: Host, node: Node, text: Text) -> ir.Expr:
    """``{…}``, ``T{…}`` and ``(T){…}``."""
    kind, listed = node.child_by_field_name("type"), node.child_by_field_name("value")
    listed = listed if listed is not None else node
    args: list[ir.Expr] = []
    names: list[str] = []
    for child in listed.named_children:
        if child.type == "comment":
            continue
        designator, value = child.child_by_field_name("designator"), child.child_by_field_name("value")
        paired = child.type == "initializer_pair" and value is not None
        names.append(text.of(designator).lstrip(".").strip() if paired and designator is not None else "")
        args.append(expr(host, value if paired and value is not None else child, text))
    word = text.flat(kind) if kind is not None else ""
    return ir.Construct(word, tuple(args), tuple(names), braced=True, span=text.span(node))


def new(host: Host, node: Node, text: Text) -> ir.Expr:
    kind, declarator = node.child_by_field_name("type"), node.child_by_field_name("declarator")
    length = declarator.child_by_field_name("length") if declarator is not None else None
    count = expr(host, length, text) if length is not None else None
    return ir.New(text.flat(kind) if kind is not None else "", count, span=text.span(node))


def lambda_(host: Host, node: Node, text: Text) -> ir.Expr:
    return ir.Lambda(host.lambda_function(node, text), span=text.span(node))


def _character(word: str, span: Span) -> ir.Expr:
    inside = word[word.find("'") + 1 : -1]
    if inside.startswith("\\") and inside[1:] in _ESCAPES:
        return ir.Literal(_ESCAPES[inside[1:]], "char", span=span)
    if len(inside) == 1:
        return ir.Literal(ord(inside), "char", span=span)
    return ir.Unknown("character", span=span)


_HANDLERS = {
    "call_expression": call,
    "qualified_identifier": qualified,
    "template_function": callee,
    "field_expression": member,
    "subscript_expression": index,
    "binary_expression": operation,
    "assignment_expression": operation,
    "comma_expression": operation,
    "unary_expression": operation,
    "pointer_expression": operation,
    "update_expression": operation,
    "conditional_expression": conditional,
    "cast_expression": cast,
    "sizeof_expression": sizeof,
    "initializer_list": braces,
    "compound_literal_expression": braces,
    "new_expression": new,
    "lambda_expression": lambda_,
}
