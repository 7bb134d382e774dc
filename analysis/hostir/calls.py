"""Calls and launches during host execution: the CUDA API, helpers run in place, and what an unknown callee may change.

Guarantees: a launch that is executed is recorded with the values its configuration and arguments have; what a callee
that is not run could write (variables whose address it gets, globals it names) becomes unknown.
"""

from __future__ import annotations

from prelaunch.analysis.frontends.cuda.text.declarations import FunctionDecl
from prelaunch.analysis.hostir import (
    api,
    bindings,
    ctypes,
    evaluate,
    execute,
    fold,
    ir,
    launching,
    lookup,
    objects,
    places,
)
from prelaunch.analysis.hostir.machine import MAX_CALLS, CallSite, Frame, Machine, read
from prelaunch.analysis.hostir.values import (
    NUMBERS,
    Array,
    Closure,
    Function,
    Functions,
    Memory,
    Place,
    Record,
    Ref,
    State,
    Symbol,
    Text,
    Value,
    functions,
    number,
)
from prelaunch.analysis.kernel import F64, I32, U32, U64, Const, Expr
from prelaunch.analysis.source import Span

MAX_HELPER = 2_500
"""Helpers longer than this (bytes) that reach no launch are not run; their results are unknown."""

NOTHING = Const(0, I32)
"""Stands for a value that nobody asks for."""


class Ended(Exception):
    """No execution continues after the call (``exit``, or a function that never returns)."""


def call(machine: Machine, frame: Frame, state: State, expr: ir.Call, used: bool = True) -> Value:
    """Executes a call; ``used`` tells whether its value is asked for."""
    name = api.plain(expr.name)
    args = arguments(machine, frame, state, expr.args)
    if name in api.LAUNCHES and not machine.callees(name, frame.function.file):
        return launching.launch_call(machine, frame, state, expr, api.LAUNCHES[name], args)
    known = _api_call(machine, frame, state, expr, name, args)
    if known is not None:
        return known
    held = _callee_value(machine, frame, state, expr.callee)
    if isinstance(held, Closure):
        return run_closure(machine, frame, state, held, args, expr.span)
    if held is not None:
        return _call_pointer(machine, frame, state, expr, held, args)
    return _call_name(machine, frame, state, expr, args, used)


def arguments(machine: Machine, frame: Frame, state: State, exprs: tuple[ir.Expr, ...]) -> list[Value]:
    """Values of call arguments; parameter packs are spread out."""
    found: list[Value] = []
    for item in exprs:
        if isinstance(item, ir.Unknown) and item.reason == "parameter_pack_expansion" and item.parts:
            held = evaluate.value(machine, frame, state, item.parts[0])
            found.extend(held.items if isinstance(held, Array) else (held,))
        else:
            found.append(evaluate.value(machine, frame, state, item))
    return found


def _callee_value(machine: Machine, frame: Frame, state: State, callee: ir.Expr) -> Value | None:
    """The value of a callee that is not a plain function name."""
    if isinstance(callee, ir.Name) and not callee.slot:
        held = state.vars.get(("", callee.name))
        return held if isinstance(held, Function | Functions | Closure) else None
    if isinstance(callee, ir.Member):
        return None
    return evaluate.value(machine, frame, state, callee)


# --- the API -------------------------------------------------------------------------------------------------------


def _api_call(
    machine: Machine, frame: Frame, state: State, expr: ir.Call, name: str, args: list[Value]
) -> Value | None:
    """The effect of an API or library function that is modelled; None for any other."""
    if name in api.NO_RETURN:
        raise Ended
    if name in api.ALLOCATIONS:
        return _allocate(machine, frame, state, expr, api.ALLOCATIONS[name], args)
    if name in api.SET_ATTRIBUTE and len(args) >= 3:
        return _set_attribute(machine, frame, state, expr, args)
    if name == "cuModuleGetFunction" and len(args) == 3 and isinstance(args[2], Text):
        if isinstance(args[0], Ref):
            places.store(state, args[0].place, Function(args[2].value, (), frame.function.file))
        return result(machine, frame, expr)
    own = bool(machine.callees(name, frame.function.file))
    if name in ("min", "max", "fmin", "fmax", "fminf", "fmaxf", "umin", "umax") and len(args) == 2 and not own:
        return fold.pick(name.strip("fu")[:3], number(args[0]), number(args[1]))
    bare = name[:-1] if name.endswith("f") and name[:-1] in fold.MATH_FUNCTIONS else name
    if bare in fold.MATH_FUNCTIONS and args and not own:
        return fold.call(bare, tuple(fold.cast(number(a), F64) for a in args), F64)
    if name == "abs" and len(args) == 1 and isinstance(args[0], Const):
        return Const(abs(args[0].value), args[0].type)
    if name in ("forward", "move", "raw_pointer_cast", "as_const", "ref", "cref", "toDevicePtr") and len(args) == 1:
        return args[0]
    if name == "make_uint3" or name == "make_dim3":
        return Record("dim3", tuple((a, fold.cast(number(v), U32)) for a, v in zip("xyz", args, strict=False)))
    if name == "swap" and len(expr.args) == 2:
        for side in expr.args:
            where = places.place(machine, frame, state, side)
            if where is not None:
                places.forget(machine, frame, state, where, "swapped", expr.span.start)
        return Const(0, I32)
    return None


def result(machine: Machine, frame: Frame, expr: ir.Call) -> Value:
    """The unknown result of a call."""
    name = expr.name or "call"
    return machine.symbol(f"{name}()", f"result of {name}()", *frame.origin(expr.span.start))


def _allocate(
    machine: Machine, frame: Frame, state: State, expr: ir.Call, row: api.Allocate, args: list[Value]
) -> Value:
    extent: Expr | None = None
    for index in row.sizes:
        if index < len(args):
            size = fold.cast(number(args[index]), U64)
            extent = size if extent is None else fold.binary("mul", extent, size)
    where = f"{frame.function.file}:{expr.span.start}" + "".join(f"@{c.span.start}" for c in frame.stack)
    memory = Memory(where, expr.name, extent=extent, space=row.space, made=expr.span)
    if row.pointer < 0:
        return memory
    target = args[row.pointer] if row.pointer < len(args) else None
    if isinstance(target, Ref):
        old = read(state.vars.get(target.place.key), target.place.path)
        name = _last_name(target.place)
        element = old.element if isinstance(old, Memory) else 0
        places.store(
            state, target.place, Memory(where, name, element=element, extent=extent, space=row.space, made=expr.span)
        )
    return result(machine, frame, expr)


def _last_name(place: Place) -> str:
    names = [p for p in place.path if isinstance(p, str)]
    return names[-1] if names else place.key[1].partition("#")[0]


def _set_attribute(machine: Machine, frame: Frame, state: State, expr: ir.Call, args: list[Value]) -> Value:
    attribute = args[1].name if isinstance(args[1], Symbol) else ""
    if attribute in api.MAX_DYNAMIC_SMEM:
        amount = fold.cast(number(args[2]), I32)
        for kernel in functions(args[0]):
            key = (kernel.name.rpartition("::")[2], ", ".join(kernel.template_args))
            state.attributes[key] = (amount, expr.span)
            machine.attributes_set.append((*key, amount, expr.span, frame.function.name))
    return result(machine, frame, expr)


# --- calls of project functions ------------------------------------------------------------------------------------


def _call_pointer(machine: Machine, frame: Frame, state: State, expr: ir.Call, held: Value, args: list[Value]) -> Value:
    """A call through a function pointer with a closed set of targets: each target runs; the results join."""
    results: list[Value] = []
    for target in functions(held):
        decl = choose_function(machine, frame, target.name, args)
        if decl is not None:
            results.append(run(machine, frame, state, decl, args, expr, None, target.template_args))
    if len(results) == 1:
        return results[0]
    forget_arguments(machine, frame, state, expr, args)
    return result(machine, frame, expr)


def choose_function(
    machine: Machine, frame: Frame, name: str, args: list[Value], record: str = ""
) -> FunctionDecl | None:
    found = machine.callees(name, frame.function.file)
    return lookup.choose(machine, [f for f in found if not f.is_kernel], args, record)


def _call_name(machine: Machine, frame: Frame, state: State, expr: ir.Call, args: list[Value], used: bool) -> Value:
    callee = expr.callee
    this: Place | None = None
    record_name = ""
    if isinstance(callee, ir.Member):
        base = evaluate.value(machine, frame, state, callee.base)
        if isinstance(base, Memory | Array) and not expr.args:
            known = _container(base, callee.name)
            if known is not None:
                return known
        this = base.place if isinstance(base, Ref) else places.place(machine, frame, state, callee.base)
        record_name = _record_of(machine, frame, callee.base, base)
        name = callee.name
    elif isinstance(callee, ir.Name):
        name = callee.name
        this = frame.this
    else:
        name = ""
    decl = choose_function(machine, frame, name, args, record_name) if name else None
    if decl is None:
        alias = lookup.resolve_type(machine, frame, name) if name else ""
        if len(args) == 1 and ctypes.scalar(alias) is not None and isinstance(args[0], NUMBERS):
            return fold.cast(args[0], ctypes.scalar(alias) or I32)
        if alias == "dim3" or (name and machine.project.lookup_records(name, frame.function.file)):
            return objects.object_of(machine, frame, state, expr, alias or name, tuple(args))
    if decl is None or not _worth_running(machine, frame, decl, args, used):
        skip(machine, frame, state, expr, args, decl)
        return result(machine, frame, expr) if used else NOTHING
    printed = print_arguments(machine, frame, state, callee) if isinstance(callee, ir.Name | ir.Member) else ()
    return run(machine, frame, state, decl, args, expr, this if decl.record else None, printed)


def _record_of(machine: Machine, frame: Frame, base: ir.Expr, held: Value) -> str:
    if isinstance(held, Record) and held.type:
        return held.type
    if isinstance(base, ir.Name) and base.slot in frame.declared:
        return lookup.resolve_type(machine, frame, frame.declared[base.slot].type).partition("<")[0]
    if isinstance(base, ir.Name) and base.name == "this":
        return frame.function.record
    return ""


def _container(held: Memory | Array, method: str) -> Value | None:
    """Members of vectors that give their pointer, size or ends, and change nothing."""
    if isinstance(held, Array):
        ends = {"front": 0, "back": -1}
        if method in ends and held.items:
            return held.items[ends[method]]
        return Const(len(held.items), U64) if method == "size" else None
    if method in ("data", "get", "begin", "c_str"):
        return held
    if method == "size" and held.extent is not None and held.element:
        return fold.binary("div", held.extent, Const(held.element, U64))
    return None


def _worth_running(machine: Machine, frame: Frame, decl: FunctionDecl, args: list[Value], used: bool) -> bool:
    """Whether to execute ``decl``: it may launch, or it is a short helper whose results matter."""
    if len(frame.stack) >= MAX_CALLS or any(c.caller.span == decl.span for c in frame.stack):
        return False
    if frame.function.span == decl.span:
        return False
    carried = [f for a in args for f in functions(a)]
    if machine.reaches(decl) or any(isinstance(a, Closure) for a in args):
        return True
    if any(machine.named_launching(f.name, f.file) for f in carried):
        return True
    if decl.body is None or decl.body.end_byte - decl.body.start_byte > MAX_HELPER or len(frame.stack) > 5:
        return False
    writes = any(isinstance(a, Ref) for a in args) or any(p.reference for p in machine.signature(decl).parameters)
    return used or writes or decl.record is not None


def run(
    machine: Machine,
    frame: Frame,
    state: State,
    decl: FunctionDecl,
    args: list[Value],
    expr: ir.Call,
    this: Place | None,
    template_args: tuple[str, ...],
) -> Value:
    """Executes a project function in place. Equal calls without references are executed once."""
    function = machine.host_function(decl)
    key: tuple[object, ...] | None = None
    if not any(isinstance(a, Ref | Closure | Array) for a in args) and this is None:
        outer = tuple((k, v) for k, v in state.vars.items() if k[0] == "")
        given = tuple((k, v[0]) for k, v in state.attributes.items())
        types = tuple(frame.types.items())
        key = (function.span, tuple(args), template_args, types, outer, given)
        if any(p.reference for p in function.parameters):
            key = None
    if key is not None and key in machine.memo:
        known = machine.memo[key]
        return known if known is not None else result(machine, frame, expr)
    inner = Frame(machine.frame_id(), function, (*frame.stack, CallSite(frame.function, expr.span)), this)
    bindings.bind(machine, frame, state, inner, expr, args, template_args)
    made = execute.body(machine, inner, state)
    if made is None:
        made = result(machine, frame, expr)
    if key is not None:
        outer = tuple((k, v) for k, v in state.vars.items() if k[0] == "")
        if outer == key[4] and tuple((k, v[0]) for k, v in state.attributes.items()) == key[5]:
            machine.memo[key] = made
    return made


def run_closure(
    machine: Machine, frame: Frame, state: State, held: Closure, args: list[Value] | None, span: Span
) -> Value:
    """Executes a lambda with ``args``, or with unknown arguments when None."""
    nested = any(c.caller is held.function for c in frame.stack) or frame.function is held.function
    if len(frame.stack) >= MAX_CALLS or nested:
        return machine.symbol("lambda()", "result of a lambda", *frame.origin(span.start))
    owner = machine.frames.get(held.frame, frame)
    site = CallSite(frame.function, span)
    inner = Frame(held.frame, held.function, (*frame.stack, site), owner.this, owner.types, owner.aliases)
    inner.declared = owner.declared
    bindings.bind_closure(machine, state, inner, args)
    made = execute.body(machine, inner, state, keep=True)
    return made if made is not None else machine.symbol("lambda()", "result of a lambda", *frame.origin(span.start))


def skip(
    machine: Machine, frame: Frame, state: State, expr: ir.Call, args: list[Value], decl: FunctionDecl | None
) -> None:
    """A call that is not executed: what it may write becomes unknown; lambdas given to it run."""
    for held in args:
        if isinstance(held, Closure):
            run_closure(machine, frame, state, held, None, expr.span)
    forget_arguments(machine, frame, state, expr, args)
    if decl is not None:
        mentioned = machine.mentions(decl.name)
        for key in [k for k in state.vars if k[0] == "" and k[1] in mentioned]:
            places.forget(machine, frame, state, Place(key), f"written by {decl.name}()", expr.span.start)
        function = machine.signature(decl)
        for parameter, given in zip(function.parameters, expr.args, strict=False):
            if parameter.reference and "const" not in parameter.type.split():
                where = places.place(machine, frame, state, given)
                if where is not None:
                    places.forget(machine, frame, state, where, f"written by {decl.name}()", expr.span.start)


def forget_arguments(machine: Machine, frame: Frame, state: State, expr: ir.Call, args: list[Value]) -> None:
    reason = f"written by {expr.name or 'a call'}()"
    for held, given in zip(args, expr.args, strict=False):
        if isinstance(held, Ref):
            places.forget(machine, frame, state, held.place, reason, expr.span.start)
        elif isinstance(held, Array):
            where = places.place(machine, frame, state, given)
            if where is not None:
                places.forget(machine, frame, state, where, reason, expr.span.start)
    if isinstance(expr.callee, ir.Member):
        base = places.place(machine, frame, state, expr.callee.base)
        if base is not None and isinstance(read(state.vars.get(base.key), base.path), Record):
            places.forget(machine, frame, state, base, reason, expr.span.start)


def print_arguments(machine: Machine, frame: Frame, state: State, name: ir.Name | ir.Member) -> tuple[str, ...]:
    """Explicit template arguments as reports print them: numbers in decimal, types by their plain spelling."""
    found: list[str] = []
    for item in name.template_args:
        if item.expr is not None:
            held = evaluate.value(machine, frame, state, item.expr)
            if isinstance(held, Const):
                boolean = getattr(held.type, "kind", "") == "bool"
                found.append(("true" if held.value else "false") if boolean else str(int(held.value)))
                continue
            if isinstance(held, Function):
                found.append(held.name)
                continue
        found.append(lookup.resolve_type(machine, frame, item.text))
    return tuple(found)
