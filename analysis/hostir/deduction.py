"""Template arguments that launches and calls leave to deduction: parameter types matched against argument spellings.

Guarantees: an argument is deduced only where the text gives the type of what is passed; what is left open stays for
the template's defaults. Patterns: ``T``, ``T*``, ``Name<T, N>`` with stars, qualifiers aside.
"""

from __future__ import annotations

from dataclasses import replace

from prelaunch.analysis.hostir import ctypes, ir, linkage, lookup
from prelaunch.analysis.hostir.lower_expr import number as literal
from prelaunch.analysis.hostir.machine import Frame, Machine
from prelaunch.analysis.hostir.values import Function

MAX_PATTERN = 4  # nesting of template arguments looked into


def complete(machine: Machine, frame: Frame, named: Function, args: tuple[ir.Expr, ...]) -> Function:
    """``named`` with the template arguments that ``named(args)`` deduces after its explicit ones."""
    decl = linkage.kernel_named(machine.project, named.name, frame.function.file, len(args))
    if decl is None or decl.template is None:
        return named
    kernel = machine.host_function(decl)
    given = named.template_args
    if len(given) >= len(kernel.template):
        return named
    free = {p.name: p for p in kernel.template[len(given) :] if not p.pack}
    bound: dict[str, str] = {}
    for parameter, arg in zip(kernel.parameters, args, strict=False):
        if parameter.pack or not any(name in parameter.type for name in free):
            continue
        spelled = spelling(machine, frame, arg)
        if spelled is not None:
            _match(ctypes.plain(parameter.type) + "*" * parameter.pointers, ctypes.plain(spelled), set(free), bound)
    more: list[str] = []
    for template in kernel.template[len(given) :]:
        text = bound.get(template.name) or (template.default.text if template.default is not None else None)
        if text is None or (template.name not in bound and not _plain(text)):
            break
        more.append(text)
    if not any(p.name in bound for p in kernel.template[len(given) : len(given) + len(more)]):
        return named
    return replace(named, template_args=(*given, *more))


def _plain(text: str) -> bool:
    """Whether a default means the same everywhere: a literal or a built-in type."""
    return literal(text) is not None or text in ("true", "false") or ctypes.scalar(text) is not None


def _match(pattern: str, spelled: str, free: set[str], bound: dict[str, str], depth: int = 0) -> None:
    """Binds names in ``free`` so that ``pattern`` reads as ``spelled``; what does not match binds nothing."""
    pattern, spelled = pattern.replace(" *", "*"), spelled.replace(" *", "*")
    base = pattern.rstrip("*")
    stars = "*" * (len(pattern) - len(base))
    if not spelled.endswith(stars) or depth > MAX_PATTERN:
        return
    spelled = spelled[: len(spelled) - len(stars)]
    if base in free:
        bound.setdefault(base, spelled)
        return
    wanted, held = ctypes.integral_constant(base), ctypes.integral_constant(spelled)
    if wanted is not None and held is not None:
        for part, value in zip(wanted, held, strict=True):
            _match(part, value, free, bound, depth + 1)
        return
    head, inside = _split(base)
    other, given = _split(spelled)
    if inside and len(inside) == len(given) and head.rpartition("::")[2] == other.rpartition("::")[2]:
        for part, value in zip(inside, given, strict=True):
            _match(part, value, free, bound, depth + 1)


def _split(spelled: str) -> tuple[str, list[str]]:
    """``Name<a, b<c>>`` as ("Name", ["a", "b<c>"]); no list for a plain name."""
    head, opened, rest = spelled.strip().partition("<")
    if not opened or not rest.endswith(">"):
        return head, []
    found, depth, start = [], 0, 0
    inside = rest[:-1]
    for at, char in enumerate(inside):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            found.append(inside[start:at].strip())
            start = at + 1
    return head.strip(), [*found, inside[start:].strip()]


def types(machine: Machine, caller: Frame, inner: Frame, expr: ir.Call) -> None:
    """Template type parameters that stand alone, with stars, as a parameter's type: taken from the argument's type."""
    names = {p.name for p in inner.function.template if not p.type and not p.pack}
    for parameter, given in zip(inner.function.parameters, expr.args, strict=False):
        bare = parameter.type.replace("const", "").strip()
        if bare not in names or bare in inner.types:
            continue
        spelled = spelling(machine, caller, given)
        if spelled is None:
            continue
        stars = len(spelled) - len(spelled.rstrip("*"))
        if stars >= parameter.pointers:
            base = spelled.rstrip("*")
            inner.types[bare] = base + "*" * (stars - parameter.pointers)


def spelling(machine: Machine, frame: Frame, expr: ir.Expr) -> str | None:
    """The C type of an expression, where its text tells."""
    match expr:
        case ir.Name(slot=slot) if slot in frame.declared:
            declared = frame.declared[slot]
            extents = len(getattr(declared, "extents", ()))
            kind = lookup.resolve_type(machine, frame, declared.type)
            return None if kind == "auto" else _joined(kind, declared.pointers + extents)
        case ir.Name(slot="", name=name):
            found = machine.project.lookup_variables(name, frame.function.file)
            if not found:
                return None
            kind, stars = lookup.variable_type(found[0])
            return _joined(lookup.resolve_type(machine, frame, kind), stars)
        case ir.Unary(op="&", operand=operand):
            inner = spelling(machine, frame, operand)
            return inner + "*" if inner is not None else None
        case ir.Unary(op="*", operand=operand) | ir.Index(base=operand):
            inner = spelling(machine, frame, operand)
            return inner[:-1] if inner is not None and inner.endswith("*") else None
        case ir.Construct(type=kind) if kind:
            return lookup.resolve_type(machine, frame, kind)
        case ir.Cast(type=kind):
            return _joined(lookup.resolve_type(machine, frame, kind), 0)
        case ir.Literal(type=kind):
            return kind
        case ir.Binary(op="+" | "-", left=left):
            return spelling(machine, frame, left)
    return None


def _joined(kind: str, stars: int) -> str:
    return kind.replace(" ", "") + "*" * stars if kind.endswith("*") else kind + "*" * stars
