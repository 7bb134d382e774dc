"""A kernel compiled for execution.

Every statement becomes a ``Code``. One that cannot make lanes wait, and is not nested too deeply, has ``fast``: a
function run over all lanes of a group at once, with divergence as subsets. It returns the lanes that fall through (None
when none do); lanes that leave by break, continue or return are put in ``Machine.left`` under the key of their target.
The others are entered step by step by the machine, which can suspend and fork groups there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prelaunch.analysis.interpreter import access, copies
from prelaunch.analysis.interpreter.atomics import compile_atomic
from prelaunch.analysis.interpreter.effects import compile_effect
from prelaunch.analysis.interpreter.expressions import Code as Value
from prelaunch.analysis.interpreter.expressions import ExpressionCompiler
from prelaunch.analysis.interpreter.lanes import Lanes, count, split, union
from prelaunch.analysis.interpreter.record import Site
from prelaunch.analysis.kernel import (
    Assign,
    Async,
    Atomic,
    Barrier,
    Block,
    Break,
    Call,
    Collective,
    Continue,
    Exit,
    If,
    Kernel,
    Load,
    Loop,
    Mma,
    Return,
    Stmt,
    Store,
    Var,
)
from prelaunch.analysis.walk import children, walk

if TYPE_CHECKING:
    from prelaunch.analysis.interpreter.machine import Machine

Fast = Callable[["Machine", Lanes], "Lanes | None"]

DEEPEST = 40
"""Statements nested deeper than this are entered step by step, so that depth never becomes Python recursion."""

BREAK, CONTINUE, RETURN = 0, 1, 2


def key(label: int, way: int) -> int:
    """What ``Machine.left`` calls the lanes on their way out to a label."""
    return label * 3 + way


@dataclass(slots=True)
class Code:
    """``parts`` are the codes of the blocks inside (If: then, else; Loop: test, body, step; Call: body).

    ``items`` is how to run this code as a sequence; ``inner`` the statements of a block, fast ones fused.
    """

    node: Stmt
    fast: Fast | None = None
    depth: int = 0
    values: tuple[Value, ...] = ()
    registers: tuple[int, ...] = ()
    parts: tuple[Code, ...] = ()
    inner: tuple[Code, ...] = ()
    items: tuple[Code, ...] = ()
    spins: bool = False
    site: Site | None = None


@dataclass(slots=True)
class Program:
    """A compiled kernel; ``sites`` are its statements that access memory or synchronise."""

    kernel: Kernel
    body: Code
    expressions: ExpressionCompiler
    sites: list[Site] = field(default_factory=list)


def compile_kernel(kernel: Kernel) -> Program:
    """Raises KeyError for objects or intrinsics the kernel does not declare, ValueError for a misplaced PtrOffset."""
    return _Compiler(kernel).run()


class _Compiler:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.cx = ExpressionCompiler(tuple(o.id for o in kernel.objects))
        self.sites: list[Site] = []

    def run(self) -> Program:
        for param in self.kernel.params:
            self.cx.register(param.var)
        codes: dict[int, Code] = {}
        for stmt in reversed(list(walk(self.kernel.body))):
            code = self._code(stmt, codes)
            if not code.items:
                code.items = (code,)
            codes[id(stmt)] = code
        self.sites.reverse()
        return Program(self.kernel, codes[id(self.kernel.body)], self.cx, self.sites)

    def _site(self, node: Stmt, mode: str, size: int, order: str, scope: str) -> Site:
        site = Site(len(self.sites), node, mode, size, order, scope)  # type: ignore[arg-type]  # callers pass Modes
        self.sites.append(site)
        return site

    def _code(self, stmt: Stmt, codes: dict[int, Code]) -> Code:
        parts = tuple(codes[id(block)] for block in children(stmt))
        match stmt:
            case Block(stmts=stmts, label=label):
                return _block(stmt, [codes[id(s)] for s in stmts], label)
            case If(cond=cond):
                code = Code(stmt, values=(self.cx.compile(cond),), parts=parts)
                return _nested(code, _fast_if)
            case Loop(cond=cond):
                code = Code(stmt, values=(self.cx.compile(cond),), parts=parts, spins=_may_spin(stmt))
                return code if code.spins else _nested(code, _fast_loop)
            case Call():
                return _nested(Code(stmt, parts=parts), _fast_call)
            case Break(label=label):
                return Code(stmt, _leaver(key(label, BREAK)))
            case Continue(label=label):
                return Code(stmt, _leaver(key(label, CONTINUE)))
            case Return(label=label):
                return Code(stmt, _leaver(key(label, RETURN)))
            case Exit():
                return Code(stmt, _exiter(stmt))
            case Barrier() | Collective():
                return self._sync(stmt)
        return Code(stmt, _straight(self._effect(stmt)))

    def _sync(self, stmt: Barrier | Collective) -> Code:
        """values: Barrier (mask, id, count, pred), Collective (mask, width, *args), None where absent."""
        if isinstance(stmt, Barrier):
            some = (stmt.mask, stmt.id, stmt.count, stmt.pred)
            targets: tuple[Var, ...] = (stmt.var,) if stmt.var is not None else ()
        else:
            some = (stmt.mask, stmt.width, None, None)
            targets = stmt.vars
        values = [self.cx.compile(e) if e is not None else None for e in some]
        if isinstance(stmt, Collective):
            values = [*values[:2], *(self.cx.compile(e) for e in stmt.args)]
        scope = stmt.scope if isinstance(stmt, Barrier) else "warp"
        order = {"sync": "acq_rel", "arrive": "release", "wait": "acquire"}[getattr(stmt, "action", "sync")]
        return Code(
            stmt,
            values=tuple(values),  # type: ignore[arg-type]  # None stands for an absent operand
            registers=tuple(self.cx.register(v) for v in targets),
            site=self._site(stmt, "barrier", 0, order, scope),
        )

    def _effect(self, stmt: Stmt) -> access.Effect:
        cx = self.cx
        match stmt:
            case Assign(var=var, expr=expr):
                return _assign(cx.register(var), access.converted(cx.compile(expr), expr.type, var.type))
            case Load():
                site = self._site(stmt, "read", stmt.size, stmt.order, stmt.scope)
                registers = [cx.register(v) for v in stmt.vars]
                return access.compile_load(stmt, site, registers, cx.compile(stmt.address))
            case Store():
                site = self._site(stmt, "write", stmt.size, stmt.order, stmt.scope)
                return access.compile_store(stmt, site, [cx.compile(e) for e in stmt.exprs], cx.compile(stmt.address))
            case Atomic():
                site = self._site(stmt, "atomic", stmt.size, stmt.order, stmt.scope)
                register = cx.register(stmt.var) if stmt.var is not None else None
                exprs = [cx.compile(e) for e in stmt.exprs]
                return compile_atomic(stmt, site, register, exprs, cx.compile(stmt.address))
            case Async():
                write = self._site(stmt, "write", stmt.bytes or 0, "weak", "thread")
                read = self._site(stmt, "read", stmt.bytes or 0, "weak", "thread")
                return copies.compile_async(stmt, read, write, cx)
            case Mma():
                size = stmt.type.size
                site = self._site(stmt, "read" if stmt.op == "load" else "write", size, "weak", "thread")
                return copies.compile_mma(stmt, site, cx)
        return compile_effect(stmt, cx)


# --- straight-line code --------------------------------------------------------------------------------------------


def _straight(effect: access.Effect) -> Fast:
    def run(m: Machine, lanes: Lanes) -> Lanes:
        effect(m, lanes)
        return lanes

    return run


def _assign(register: int, value: Value) -> access.Effect:
    def run(m: Machine, lanes: Lanes) -> None:
        m.registers[register][lanes] = value(m, lanes)

    return run


def _leaver(target: int) -> Fast:
    def run(m: Machine, lanes: Lanes) -> None:
        m.left.setdefault(target, []).append(lanes)

    return run


def _exiter(node: Exit) -> Fast:
    def run(m: Machine, lanes: Lanes) -> None:
        if node.trap:
            m.trap(lanes, node)
        m.exit(lanes)

    return run


# --- blocks --------------------------------------------------------------------------------------------------------


def _block(stmt: Block, codes: list[Code], label: int | None) -> Code:
    depth = 1 + max((code.depth for code in codes), default=0)
    if all(code.fast is not None for code in codes) and depth <= DEEPEST:
        run = _sequence([code.fast for code in codes if code.fast is not None])
        return Code(stmt, _labelled(run, key(label, BREAK)) if label is not None else run, depth)
    inner = _fused(codes)
    code = Code(stmt, None, depth, inner=inner)
    code.items = (code,) if label is not None else inner
    return code


def _fused(codes: list[Code]) -> tuple[Code, ...]:
    """Runs of fast statements become one."""
    result: list[Code] = []
    run: list[Code] = []
    for code in [*codes, None]:
        if code is not None and code.fast is not None:
            run.append(code)
            continue
        if len(run) == 1:
            result.append(run[0])
        elif run:
            fast = _sequence([c.fast for c in run if c.fast is not None])
            result.append(Code(run[0].node, fast, max(c.depth for c in run)))
        run = []
        if code is not None:
            result.append(code)
    return tuple(result)


def _sequence(codes: list[Fast]) -> Fast:
    size = len(codes)

    def run(m: Machine, lanes: Lanes | None) -> Lanes | None:
        assert lanes is not None
        m.charge(lanes, size)
        for code in codes:
            lanes = code(m, lanes)
            if lanes is None:
                return None
        return lanes

    return run


def _labelled(run: Fast, target: int) -> Fast:
    def labelled(m: Machine, lanes: Lanes) -> Lanes | None:
        rest = run(m, lanes)
        out = m.left.pop(target, None)
        return _rejoin(lanes, rest, *out) if out else rest

    return labelled


def _rejoin(before: Lanes, *parts: Lanes | None) -> Lanes | None:
    """The union; ``before`` itself when nobody is missing."""
    total = sum(count(part) for part in parts if part is not None)
    return before if total == count(before) else union(parts)


# --- branches, loops, calls ----------------------------------------------------------------------------------------


def _nested(code: Code, maker: Callable[[Code, list[Fast]], Fast]) -> Code:
    code.depth = 1 + max(part.depth for part in code.parts)
    inner = [part.fast for part in code.parts if part.fast is not None]
    if len(inner) == len(code.parts) and code.depth <= DEEPEST:
        code.fast = maker(code, inner)
    return code


def _fast_if(code: Code, inner: list[Fast]) -> Fast:
    (cond,) = code.values
    then, orelse = inner

    def run(m: Machine, lanes: Lanes) -> Lanes | None:
        yes, no = split(lanes, cond(m, lanes))
        if no is None:
            assert yes is not None
            return then(m, yes)
        if yes is None:
            return orelse(m, no)
        return _rejoin(lanes, then(m, yes), orelse(m, no))

    return run


def _fast_loop(code: Code, inner: list[Fast]) -> Fast:
    (cond,) = code.values
    test, body, step = inner
    node = code.node
    assert isinstance(node, Loop)
    out, again, first = key(node.label, BREAK), key(node.label, CONTINUE), node.test_first

    def run(m: Machine, lanes: Lanes) -> Lanes | None:
        done: list[Lanes | None] = []
        active: Lanes | None = lanes
        tested = first
        while active is not None:
            m.charge(active, 1)
            if tested:
                active = test(m, active)
                if active is None:
                    break
                active, leaving = split(active, cond(m, active))
                if leaving is not None:
                    done.append(leaving)
                if active is None:
                    break
            tested = True
            before = active
            active = body(m, active)
            continued = m.left.pop(again, None)
            if continued:
                active = _rejoin(before, active, *continued)
            if active is not None:
                active = step(m, active)
        return _rejoin(lanes, *done, *m.left.pop(out, ()))

    return run


def _fast_call(code: Code, inner: list[Fast]) -> Fast:
    (body,) = inner
    node = code.node
    assert isinstance(node, Call)
    return _labelled(body, key(node.label, RETURN))


def _may_spin(loop: Loop) -> bool:
    """Whether lanes may wait here for what other threads write: a loop without a count that looks at memory with
    atomics or ordered or volatile loads."""
    if loop.info is not None:
        return False
    return any(isinstance(s, Atomic) or (isinstance(s, Load) and s.order != "weak") for s in walk(loop))
