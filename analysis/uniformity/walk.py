"""The walk behind ``uniformity``: one round over a structured body, repeated by the caller until levels stand still."""

from __future__ import annotations

from prelaunch.analysis.check import cases_of
from prelaunch.analysis.kernel import (
    Assign,
    Async,
    Atomic,
    Barrier,
    Block,
    Break,
    Call,
    Collective,
    Const,
    Continue,
    Exit,
    Expr,
    If,
    Intrinsic,
    Kernel,
    Load,
    Loop,
    Mma,
    Opaque,
    Return,
    Scalar,
    Stmt,
    Store,
)
from prelaunch.analysis.launch import Launch
from prelaunch.analysis.uniformity.effects import Written, exchanged, rounds
from prelaunch.analysis.uniformity.env import (
    ALL,
    Cause,
    Control,
    Env,
    Frame,
    meet,
    merge,
    raise_levels,
    renamed,
    shape,
    widened,
)
from prelaunch.analysis.uniformity.levels import (
    GRID_VALUE,
    Dims,
    Key,
    Level,
    Steps,
    Value,
    Why,
    constant,
    evaluate,
    join,
    steps,
)
from prelaunch.analysis.walk import defined, operands, walk


class UniformityWalk:
    def __init__(self, kernel: Kernel, launch: Launch | None, params: dict[int, int]) -> None:
        self.kernel = kernel
        self.dims = Dims.of(kernel, launch)
        self.written = Written(kernel, launch)
        self.locals = tuple(sorted(item.id for item in kernel.objects if item.space == "local"))
        self.local = frozenset(self.locals)
        self.orders: dict[int, Steps] = {}
        self.written_locals: dict[int, tuple[str, ...]] = {}
        self.heads: dict[int, Env] = {}
        self.exits: dict[int, Cause] = {}
        self.assigned: dict[int, tuple[Key, ...]] = {}
        self.entry: Env = dict.fromkeys(self.local, GRID_VALUE)
        for param in kernel.params:
            self.entry[param.var.id] = Value(Level.GRID)
            argument = launch.args[param.formal] if launch is not None and param.formal < len(launch.args) else None
            if param.var.id in params:
                self.entry[param.var.id] = constant(params[param.var.id])
            elif isinstance(argument, Const) and _integral(param.var.type) and param.offset == 0:
                self.entry[param.var.id] = constant(argument.value)
        self.reset()

    def reset(self) -> None:
        self.changed = False
        self.values: dict[int, Value] = {}
        self.controls: dict[int, Control] = {}
        self.worst: Env = {}
        self.assumed: set[str] = set()
        self.frames: list[Frame] = []
        self.current: Control | None = None

    def round(self) -> bool:
        """One walk over the kernel; True while something moved."""
        self.reset()
        self.block(self.kernel.body, dict(self.entry))
        return self.changed

    def eval(self, expr: Expr, env: Env) -> Value:
        fresh: dict[int, Value] = {}
        order = self.orders.get(id(expr))
        if order is None:
            order = self.orders[id(expr)] = steps(expr)
        value = evaluate(expr, env, self.dims, fresh, order)
        for key, item in fresh.items():
            known = self.values.get(key)
            self.values[key] = item if known is None or known.const == item.const else join(known, item)
        return value

    def control(self) -> Control:
        """Decisions above the statement being walked; computed anew only after ``enter``, ``leave_frame`` or a jump."""
        if self.current is None:
            causes: list[Cause] = []
            for frame in self.frames:
                causes.append(Cause(frame.stmt, frame.level, frame.why))
                causes += frame.jumps
            self.current = Control(tuple(cause for cause in causes if cause.level > Level.GRID))
        return self.current

    def enter(self, frame: Frame) -> None:
        self.frames.append(frame)
        self.current = None

    def leave_frame(self) -> Frame:
        self.current = None
        return self.frames.pop()

    def set(self, env: Env, key: Key, value: Value) -> None:
        env[key] = value
        known = self.worst.get(key)
        if known is None or value.level > known.level:
            self.worst[key] = value

    # --- statements -------------------------------------------------------------------------------------------------

    def block(self, block: Block, env: Env) -> Env | None:
        """Environment at the end of ``block``, None when the end is not reached; ``env`` is consumed."""
        if block.label is not None:
            return self.scope(block, block.label, block.stmts, env)
        return self.sequence(block.stmts, env)

    def sequence(self, stmts: tuple[Stmt, ...], env: Env) -> Env | None:
        current: Env | None = env
        for stmt in stmts:
            if current is None:
                break
            current = self.stmt(stmt, current)
        return current

    def scope(self, stmt: Stmt, label: int, stmts: tuple[Stmt, ...], env: Env) -> Env | None:
        frame = Frame(stmt, label=label)
        self.controls[id(stmt)] = self.control()
        self.enter(frame)
        end = self.sequence(stmts, env)
        self.leave_frame()
        return meet(end, frame)

    def stmt(self, stmt: Stmt, env: Env) -> Env | None:
        if isinstance(stmt, Block):
            return self.block(stmt, env)
        if isinstance(stmt, Call):
            return self.scope(stmt, stmt.label, stmt.body.stmts, env)
        if isinstance(stmt, Loop):
            return self.loop(stmt, env)
        if isinstance(stmt, If):
            return self.branch(stmt, env)
        self.controls[id(stmt)] = control = self.control()
        if isinstance(stmt, (Break, Continue, Return)):
            self.jump(stmt, env)
            return None
        if isinstance(stmt, Exit):
            return None
        found = [self.eval(expr, env) for expr in operands(stmt)]
        for case in cases_of(stmt):
            self.eval(case.offset, env)
        self.effect(stmt, found, control, env)
        return env

    def branch(self, stmt: If, env: Env) -> Env | None:
        self.controls[id(stmt)] = self.control()
        cond = self.eval(stmt.cond, env)
        if cond.const is not None:
            return self.block(stmt.then if cond.const else stmt.orelse, env)
        why = Why("branch", stmt.cond.span, cond.why)
        self.enter(Frame(stmt, cond.level, why))
        then = self.block(stmt.then, dict(env))
        orelse = self.block(stmt.orelse, env)
        frame = self.leave_frame()
        if then is None or orelse is None:
            return then if orelse is None else orelse
        return merge(then, orelse, cond.level, frame.why)

    def loop(self, stmt: Loop, env: Env) -> Env | None:
        self.controls[id(stmt)] = self.control()
        trips = rounds(stmt, env, self.dims)
        keys = self.keys(stmt)
        head = self.heads.setdefault(stmt.label, {})
        for key in keys:
            if key in head:
                env[key] = widened(join(env[key], head[key]) if key in env else head[key])
        known = self.exits.get(id(stmt))
        frame = Frame(stmt, *((known.level, known.why) if known else (Level.GRID, None)), stmt.label)
        self.enter(frame)
        leaving: Env | None = None
        current: Env | None = env
        if stmt.test_first:
            current, leaving = self.test(stmt, current, trips)
        if current is not None:
            current = self.block(stmt.body, current)
        current = meet(current, frame)
        frame.jumps.clear()
        self.current = None
        if current is not None:
            current = self.block(stmt.step, current)
        if not stmt.test_first:
            current, leaving = self.test(stmt, current, trips)
        self.back(head, keys, current)
        self.leave_frame()
        for other in frame.breaks:
            leaving = other if leaving is None else merge(leaving, other, Level.GRID, None)
        cause = self.exits.get(id(stmt))
        if leaving is not None and cause is not None:
            raise_levels(leaving, keys, cause)
        return leaving

    def test(self, stmt: Loop, env: Env | None, trips: Level) -> tuple[Env | None, Env | None]:
        """Environments that stay in the loop and that leave it at its test; ``trips`` bounds how far apart."""
        if env is not None:
            env = self.block(stmt.test, env)
        if env is None:
            return None, None
        cond = self.eval(stmt.cond, env)
        if cond.const is not None:
            return (env, None) if cond.const else (None, env)
        self.leave(stmt, min(cond.level, trips), Why("loop condition", stmt.cond.span, cond.why))
        return dict(env), env

    def leave(self, loop: Loop, level: Level, why: Why | None) -> None:
        known = self.exits.get(id(loop))
        if known is None or level > known.level:
            self.exits[id(loop)] = Cause(loop, level, why)
            self.changed = True

    def back(self, head: Env, keys: tuple[Key, ...], env: Env | None) -> None:
        for key in keys:
            if env is None or key not in env:
                continue
            old = head.get(key)
            new = env[key] if old is None else widened(join(old, env[key]))
            if old is None or shape(old) != shape(new):
                self.changed = True
                head[key] = new

    def keys(self, loop: Loop) -> tuple[Key, ...]:
        """Variables and local objects a loop may change."""
        if id(loop) not in self.assigned:
            found: dict[Key, None] = {}
            for stmt in walk(loop):
                found.update(dict.fromkeys(var.id for var in defined(stmt)))
                if isinstance(stmt, (Store, Async, Mma, Opaque, Atomic)):
                    found.update(dict.fromkeys(self.targets(stmt)))
            self.assigned[id(loop)] = tuple(found)
        return self.assigned[id(loop)]

    def targets(self, stmt: Stmt) -> tuple[str, ...]:
        """Local objects a statement may write."""
        known = self.written_locals.get(id(stmt))
        if known is None:
            known = self.written_locals[id(stmt)] = self._targets(stmt)
        return known

    def _targets(self, stmt: Stmt) -> tuple[str, ...]:
        names = self.written.points.access(stmt)
        if isinstance(stmt, Opaque):
            names = None if "memory" in stmt.touches else frozenset()
        elif names is None and isinstance(stmt, (Store, Atomic)) and stmt.space not in ("generic", "local"):
            names = frozenset()
        return self.locals if names is None else tuple(name for name in self.locals if name in names)

    def jump(self, stmt: Break | Continue | Return, env: Env) -> None:
        level, why = Level.GRID, None
        for depth in range(len(self.frames) - 1, -1, -1):
            frame = self.frames[depth]
            target = frame.label == stmt.label
            own = () if target else (Cause(frame.stmt, frame.level, frame.why),)
            for cause in (*own, *frame.jumps):
                if cause.level > level:
                    level, why = cause.level, cause.why
            if isinstance(frame.stmt, Loop) and not (target and isinstance(stmt, Continue)):
                self.leave(frame.stmt, level, why)
                if not target:
                    raise_levels(env, self.keys(frame.stmt), self.exits[id(frame.stmt)])
            if target:
                if isinstance(stmt, Break) and isinstance(frame.stmt, Loop):
                    frame.breaks.append(env)
                else:
                    frame.arrivals.append(env)
                    frame.jumps.append(Cause(stmt, level, why))
                    self.current = None
                return

    # --- effects ----------------------------------------------------------------------------------------------------

    def effect(self, stmt: Stmt, found: list[Value], control: Control, env: Env) -> None:
        match stmt:
            case Assign(var=var):
                value = found[0]
                cause = Why(var.name, stmt.span, value.why) if var.name and value.level > Level.GRID else value.why
                self.set(env, var.id, renamed(value, cause))
            case Load():
                for var in stmt.vars:
                    self.set(env, var.id, self.loaded(stmt, found[0], control, env))
            case Store():
                self.stored(stmt, found, control, env)
            case Collective():
                for var in stmt.vars:
                    self.set(env, var.id, exchanged(stmt, found, self.dims))
            case Barrier(var=var, pred=pred) if var is not None and pred is not None:
                shared = min(self.value(pred), Level.BLOCK) if stmt.reduce != "count" else Level.BLOCK
                self.set(env, var.id, Value(shared, Why("block-wide reduction", stmt.span)))
            case Intrinsic() | Atomic() | Opaque() | Async() | Mma():
                text = f"not modelled: {stmt.reason}" if isinstance(stmt, Opaque) else _RESULTS[type(stmt)]
                unknown = Value(Level.THREAD, Why(text, stmt.span))
                for var in defined(stmt):
                    self.set(env, var.id, unknown)
                if not isinstance(stmt, Intrinsic) and not (isinstance(stmt, Mma) and stmt.op == "load"):
                    self.lose(self.targets(stmt), unknown, env)

    def lose(self, names: tuple[str, ...], unknown: Value, env: Env) -> None:
        """Local objects get contents nobody knows. ALL in ``env`` says that every one has them already."""
        if ALL in env:
            return
        for name in names:
            if name not in env or env[name].level < Level.THREAD:
                self.set(env, name, unknown)
        if names is self.locals:
            env[ALL] = unknown

    def value(self, expr: Expr) -> Level:
        return self.values[id(expr)].level

    def stored(self, stmt: Store, found: list[Value], control: Control, env: Env) -> None:
        top = max(found, key=lambda v: v.level)
        for name in self.targets(stmt):
            before = env.get(name, GRID_VALUE)
            if before.level < Level.THREAD:
                self.set(env, name, join(before, Value(top.level, Why(name, stmt.span, top.why))))

    def loaded(self, stmt: Load, address: Value, control: Control, env: Env) -> Value:
        names = self.written.points.access(stmt)
        level = address.level
        if names is None:
            unwritten = stmt.space in ("constant", "param")
            level = level if unwritten else Level.THREAD
        for name in sorted(names or ()):
            level = max(level, self.content(name, stmt, address, control, env))
        own = level == address.level and address.why is not None
        why = Why("value loaded", stmt.span, address.why if own else self.origin(names, env))
        return Value(self.dims.collapse(level), why)

    def origin(self, names: frozenset[str] | None, env: Env) -> Why | None:
        """Why a local object the kernel loads from differs; None for other memory."""
        found = [env[name] for name in sorted(names or ()) if name in self.local and name in env]
        return max(found, key=lambda value: value.level).why if found else None

    def content(self, name: str, stmt: Load, address: Value, control: Control, env: Env) -> Level:
        if name in self.local:
            return env[name].level if name in env else Level.THREAD
        item = self.written.objects.get(name)
        own = Level.BLOCK if item is not None and item.space == "shared" else Level.GRID
        writes = self.written.by(name)
        if not writes:
            return own
        if writes == "volatile" or own != Level.BLOCK or stmt.order != "weak":
            return Level.THREAD
        if writes == "mixed" and not self.written.settled(stmt, name):
            return Level.THREAD
        shared = max(Level.BLOCK, address.level, control.level)
        if shared < Level.THREAD:
            self.assumed.add(f"{item.name if item else name} is free of data races")
        return shared


_RESULTS = {
    Intrinsic: "result of a call",
    Atomic: "result of an atomic",
    Async: "asynchronous copy",
    Mma: "matrix fragment",
}


def _integral(kind: object) -> bool:
    return isinstance(kind, Scalar) and kind.is_integer
