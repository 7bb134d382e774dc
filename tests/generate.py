"""Random CUDA kernels that are valid by construction: no undefined behaviour, no races, every index in bounds.

``generate(seed)`` is deterministic. Values of integers decide control flow and indices; floats are data. Barriers and
warp exchanges stand only where all threads of the block pass; shared and output elements are written by their own
thread, read by others only after a barrier; atomics are commutative and their old value is not used.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from prelaunch.analysis.trace import Argument, LaunchConfig

ELEMENTS = 256  # of every buffer; a power of two
INTEGERS = {
    "int": "int32", "unsigned": "uint32", "short": "int16", "unsigned short": "uint16", "signed char": "int8",
    "unsigned char": "uint8", "long long": "int64", "unsigned long long": "uint64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Generated:
    """``text`` is a complete file with the kernel ``k``; ``arguments`` by leaf parameter name."""

    seed: int
    text: str
    config: LaunchConfig
    arguments: dict[str, Argument]


@dataclass(slots=True)
class _Scope:
    """Names in reach by type; ``uniform``: every thread of the block is here; ``loop``: break is legal."""

    variables: dict[str, str] = field(default_factory=dict)
    uniform: bool = True
    loop: bool = False
    depth: int = 0

    def inner(self, uniform: bool, loop: bool | None = None) -> _Scope:
        return _Scope(dict(self.variables), uniform, self.loop if loop is None else loop, self.depth + 1)


class _Generator:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.serial = 0
        self.lines: list[str] = []
        self.indent = 1
        self.functions: list[tuple[str, str, tuple[str, ...]]] = []  # (name, result, parameters)
        self.readonly: set[str] = set()
        self.block = self.rng.choice([(32, 1, 1), (64, 1, 1), (64, 2, 1), (16, 4, 1), (8, 4, 2), (96, 1, 1)])
        self.threads = self.block[0] * self.block[1] * self.block[2]
        self.grid = self.rng.choice([(1, 1, 1), (2, 1, 1), (1, 2, 1)])
        self.inputs: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        self.shared: dict[str, str] = {}
        self.locals: dict[str, tuple[str, int]] = {}
        self.statements_left = self.rng.randint(6, 26)
        self.in_function = False

    # --- pieces ---

    def fresh(self, stem: str) -> str:
        self.serial += 1
        return f"{stem}{self.serial}"

    def emit(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    def integer_type(self) -> str:
        return self.rng.choice(["int", "int", "int", "unsigned", "unsigned", *INTEGERS])

    def literal(self) -> str:
        rng = self.rng
        choice = rng.random()
        if choice < 0.6:
            return str(rng.randint(0, 17))
        if choice < 0.7:
            return f"{rng.randint(0, 255)}u"
        if choice < 0.8:
            return rng.choice(["0x7fffffff", "0x80000000u", "-1", "255", "65535", "0xffu", "1ll", "12345678901ll"])
        if choice < 0.9:
            return rng.choice(["LIMIT", "STEP", "SCALE(3)", "RED", "GREEN", "CONSTANT"])
        return rng.choice(["'a'", "true", "sizeof(int)", "(short)7", "(unsigned char)200"])

    def integer(self, scope: _Scope, depth: int = 3) -> str:
        """An integer expression without side effects."""
        rng = self.rng
        names = [n for n, t in scope.variables.items() if t in INTEGERS]
        if depth == 0 or rng.random() < 0.15:
            return rng.choice(names) if names and rng.random() < 0.7 else self.literal()
        a = self.integer(scope, depth - 1)
        kind = rng.random()
        if kind < 0.45:
            op = rng.choice(["+", "-", "*", "&", "|", "^", "+", "-"])
            return f"({a} {op} {self.integer(scope, depth - 1)})"
        if kind < 0.53:
            return f"({a} {rng.choice(['<<', '>>'])} ({self.integer(scope, depth - 1)} & 7))"
        if kind < 0.61:
            return f"({a} {rng.choice(['/', '%'])} (({self.integer(scope, depth - 1)} & 15) + 1))"
        if kind < 0.70:
            return f"({self.condition(scope, depth - 1)} ? {a} : {self.integer(scope, depth - 1)})"
        if kind < 0.76:
            return f"({self.integer_type()})({a})"
        if kind < 0.80:
            return f"{rng.choice(['-', '~', '+'])}({a})"
        if kind < 0.86:
            return self.intrinsic(scope, a, depth)
        return self.read(scope, depth)

    def intrinsic(self, scope: _Scope, a: str, depth: int) -> str:
        b = self.integer(scope, depth - 1)
        return self.rng.choice(
            [
                f"min((int)({a}), (int)({b}))",
                f"max((unsigned)({a}), (unsigned)({b}))",
                f"__popc({a})",
                f"__clz((int)({a}))",
                f"__brev({a})",
                f"__ffs((int)({a}))",
                f"abs((int)({a}) >> 1)",
                f"__umulhi({a}, {b})",
                f"__mulhi((int)({a}), (int)({b}))",
                f"__byte_perm({a}, {b}, 0x5140)",
                f"__popcll({a})",
                f"__funnelshift_l({a}, {b}, 5)",
            ]
        )

    def read(self, scope: _Scope, depth: int) -> str:
        """A load from something readable here."""
        rng = self.rng
        index = self.index(scope, depth - 1)
        integers = [n for n, t in self.inputs.items() if t in INTEGERS]
        options = [f"{n}[{index} % {ELEMENTS}u]" for n in integers if not self.in_function]
        options += [f"{n}[{index} & {size - 1}u]" for n, (t, size) in self.locals.items() if n in scope.variables]
        options += [f"table[{index} & 15u]"]
        if "p" in scope.variables and not self.in_function:
            options += ["p.n", "(int)p.c"]
        if "in0" in self.inputs and not self.in_function:
            options += [f"*({rng.choice(list(integers))} + {index} % {ELEMENTS}u)"]
        if self.functions and not self.in_function and rng.random() < 0.5:
            return self.call(scope, depth)
        return rng.choice(options)

    def call(self, scope: _Scope, depth: int) -> str:
        name, _, params = self.rng.choice(self.functions)
        return f"{name}({', '.join(self.integer(scope, max(0, depth - 2)) for _ in params)})"

    def index(self, scope: _Scope, depth: int) -> str:
        return f"(unsigned)({self.integer(scope, max(0, min(depth, 2)))})"

    def condition(self, scope: _Scope, depth: int = 2) -> str:
        rng = self.rng
        a, b = self.integer(scope, max(0, depth - 1)), self.integer(scope, max(0, depth - 1))
        plain = f"({a} {rng.choice(['<', '<=', '>', '>=', '==', '!='])} {b})"
        if depth > 1 and rng.random() < 0.3:
            return f"({plain} {rng.choice(['&&', '||'])} {self.condition(scope, depth - 1)})"
        return f"(!{plain})" if rng.random() < 0.1 else plain

    def floating(self, scope: _Scope, depth: int = 2) -> str:
        """A float expression: data only."""
        rng = self.rng
        names = [n for n, t in scope.variables.items() if t == "float"]
        if depth == 0 or rng.random() < 0.2:
            return rng.choice([*names, "1.5f", "0.25f", "3.0f"])
        a = self.floating(scope, depth - 1)
        kind = rng.random()
        if kind < 0.5:
            return f"({a} {rng.choice(['+', '-', '*'])} {self.floating(scope, depth - 1)})"
        if kind < 0.6:
            return f"(float)({self.integer(scope, 1)})"
        if kind < 0.7:
            return f"fmaxf({a}, {self.floating(scope, depth - 1)})"
        if kind < 0.75:
            return f"({self.condition(scope, 1)} ? {a} : {self.floating(scope, depth - 1)})"
        if self.in_function:
            return a
        return f"fin[{self.index(scope, 1)} % {ELEMENTS}u]"

    # --- statements ---

    def block_of(self, scope: _Scope, count: int) -> None:
        self.indent += 1
        for _ in range(count):
            self.statement(scope)
        self.indent -= 1

    def statement(self, scope: _Scope) -> None:
        if self.statements_left <= 0 or scope.depth > 4:
            self.assign(scope)
            return
        self.statements_left -= 1
        options = [self.declare] * 3 + [self.assign] * 3 + [self.branch] * 2 + [self.loop] * 2
        options += [self.store, self.switch, self.local_array, self.float_statement, self.while_loop]
        if not self.in_function:
            options += [self.atomic, self.vector, self.walk, self.struct, self.store]
        if scope.uniform and not self.in_function:
            options += [self.shared_phase] * 2 + [self.warp] * 2
        if scope.loop:
            options += [self.leave]
        self.rng.choice(options)(scope)

    def declare(self, scope: _Scope) -> None:
        kind, name = self.integer_type(), self.fresh("v")
        self.emit(f"{kind} {name} = {self.integer(scope)};")
        scope.variables[name] = kind

    def targets(self, scope: _Scope) -> list[str]:
        return [n for n, t in scope.variables.items() if t in INTEGERS and n not in self.readonly]

    def assign(self, scope: _Scope) -> None:
        targets = self.targets(scope)
        if not targets:
            self.declare(scope)
            return
        name = self.rng.choice(targets)
        kind = self.rng.random()
        if kind < 0.3:
            self.emit(f"{name} = {self.integer(scope)};")
        elif kind < 0.75:
            self.emit(f"{name} {self.rng.choice(['+=', '-=', '*=', '^=', '|=', '&='])} {self.integer(scope)};")
        elif kind < 0.85:
            self.emit(f"{name} {self.rng.choice(['<<=', '>>='])} ({self.integer(scope, 1)} & 7);")
        else:
            self.emit(self.rng.choice([f"{name}++;", f"--{name};", f"{name}--;", f"++{name};"]))

    def branch(self, scope: _Scope) -> None:
        self.emit(f"if {self.condition(scope)} {{")
        self.block_of(scope.inner(uniform=False), self.rng.randint(1, 3))
        if self.rng.random() < 0.5:
            self.emit("} else {")
            self.block_of(scope.inner(uniform=False), self.rng.randint(1, 2))
        self.emit("}")

    def loop(self, scope: _Scope) -> None:
        rng = self.rng
        name = self.fresh("i")
        uniform = scope.uniform and rng.random() < 0.6
        form = rng.randrange(4)
        bound = str(rng.randint(1, 4)) if uniform else f"({self.integer(scope, 1)} & 3) + 1"
        head = [
            f"for (int {name} = 0; {name} < {bound}; ++{name}) {{",
            f"for (int {name} = {bound}; {name} > 0; --{name}) {{",
            f"for (unsigned {name} = 1; {name} < {rng.choice([4, 8, 16])}u; {name} <<= 1) {{",
            f"for (int {name} = {rng.choice([4, 8])}; {name}; {name} >>= 1) {{",
        ][form]
        if rng.random() < 0.2:
            self.emit("#pragma unroll")
        self.emit(head)
        inner = scope.inner(uniform, loop=not uniform)
        inner.variables[name] = "unsigned" if form == 2 else "int"
        self.readonly.add(name)
        self.block_of(inner, rng.randint(1, 3))
        self.emit("}")

    def while_loop(self, scope: _Scope) -> None:
        name = self.fresh("w")
        self.emit(f"int {name} = ({self.integer(scope, 1)}) & 3;")
        self.readonly.add(name)
        inner = scope.inner(uniform=False, loop=True)
        inner.variables[name] = "int"
        if self.rng.random() < 0.5:
            self.emit(f"while ({name}-- > 0) {{")
            self.block_of(inner, self.rng.randint(1, 2))
            self.emit("}")
        else:
            self.emit("do {")
            self.block_of(inner, self.rng.randint(1, 2))
            self.emit(f"}} while (--{name} > 0);")

    def leave(self, scope: _Scope) -> None:
        self.emit(f"if {self.condition(scope, 1)} {self.rng.choice(['break', 'continue'])};")

    def switch(self, scope: _Scope) -> None:
        self.emit(f"switch (({self.integer(scope, 2)}) & 3) {{")
        self.indent += 1
        for case in range(self.rng.randint(1, 3)):
            self.emit(f"case {case}: {{")
            inner = scope.inner(uniform=False, loop=False)
            self.block_of(inner, 1)
            self.emit("}")
            if self.rng.random() < 0.7:
                self.emit("break;")
        if self.rng.random() < 0.6:
            self.emit("default: {")
            self.block_of(scope.inner(uniform=False, loop=False), 1)
            self.emit("}")
        self.indent -= 1
        self.emit("}")

    def store(self, scope: _Scope) -> None:
        if self.in_function:
            self.assign(scope)
            return
        name = self.rng.choice([n for n, t in self.outputs.items() if t in INTEGERS])
        op = self.rng.choice(["=", "=", "+=", "^="])
        self.emit(f"{name}[gid] {op} {self.integer(scope)};")

    def float_statement(self, scope: _Scope) -> None:
        if self.in_function or self.rng.random() < 0.5:
            name = self.fresh("f")
            self.emit(f"float {name} = {self.floating(scope)};")
            scope.variables[name] = "float"
        else:
            self.emit(f"fout[gid] {self.rng.choice(['=', '+='])} {self.floating(scope)};")

    def local_array(self, scope: _Scope) -> None:
        name, size, kind = self.fresh("a"), self.rng.choice([4, 8]), self.integer_type()
        if self.rng.random() < 0.4:
            values = ", ".join(f"({kind})({self.integer(scope, 1)})" for _ in range(self.rng.randint(0, size)))
            self.emit(f"{kind} {name}[{size}] = {{{values}}};")
        else:
            self.emit(f"{kind} {name}[{size}];")
            index = self.fresh("i")
            inner = scope.inner(uniform=False)
            inner.variables[index] = "int"
            self.emit(f"for (int {index} = 0; {index} < {size}; ++{index}) {name}[{index}] = {self.integer(inner, 2)};")
        self.locals[name] = (kind, size)
        scope.variables[name] = "array"
        self.emit(f"{name}[{self.index(scope, 1)} & {size - 1}u] = {self.integer(scope, 2)};")

    def atomic(self, scope: _Scope) -> None:
        op = self.rng.choice(["atomicAdd", "atomicOr", "atomicXor", "atomicMax", "atomicMin", "atomicAnd"])
        where = self.rng.choice(["&counters[{}]", "counters + {}"])
        place = where.format(f"{self.index(scope, 1)} % {ELEMENTS}u")
        group = {"atomicAdd": "counters", "atomicOr": "ors", "atomicXor": "xors", "atomicMax": "maxima",
                 "atomicMin": "minima", "atomicAnd": "ands"}[op]  # fmt: skip
        self.emit(f"{op}({place.replace('counters', group)}, (unsigned)({self.integer(scope, 2)}));")

    def vector(self, scope: _Scope) -> None:
        name = self.fresh("q")
        index = f"({self.index(scope, 1)} % {ELEMENTS // 4}u)"
        if self.rng.random() < 0.6:
            self.emit(f"int4 {name} = *(const int4*)(in0 + 4 * {index});")
            pieces = [f"{name}.x", f"{name}.y", f"{name}.z", f"{name}.w"]
        else:
            self.emit(f"uchar4 {name} = ((const uchar4*)in2)[{index}];")
            pieces = [f"{name}.x", f"{name}.w"]
        value = self.fresh("v")
        self.emit(f"int {value} = {' + '.join(pieces)};")
        scope.variables[value] = "int"
        if self.rng.random() < 0.5:
            other = self.fresh("q")
            self.emit(f"float2 {other} = make_float2(fin[gid], {self.floating(scope, 1)});")
            self.emit(f"fout[gid] = {other}.x + {other}.y;")

    def walk(self, scope: _Scope) -> None:
        """A pointer moved along an input."""
        name, total = self.fresh("p"), self.fresh("v")
        source = self.rng.choice([n for n, t in self.inputs.items() if t in INTEGERS])
        kind = self.inputs[source]
        start = f"{self.index(scope, 1)} % {ELEMENTS // 2}u"
        self.emit(f"long long {total} = 0;")
        step = self.rng.choice(["++", "+= 2", "+= 3"])
        head = f"for (const {kind}* {name} = {source} + {start}, *end{name} = {name} + {self.rng.choice([3, 5])}; "
        self.emit(f"{head}{name} < end{name}; {name}{'' if step == '++' else ' '}{step}) {total} += *{name};")
        scope.variables[total] = "long long"

    def struct(self, scope: _Scope) -> None:
        name = self.fresh("t")
        self.emit(f"Pair {name} = {{{self.fresh_value(scope)}, (short)({self.integer(scope, 1)})}};")
        if self.rng.random() < 0.5:
            self.emit(f"{name}.b += (short)({self.integer(scope, 1)});")
        if self.rng.random() < 0.5:
            copy = self.fresh("t")
            self.emit(f"Pair {copy} = {name};")
            self.emit(f"{copy}.a ^= {name}.b;")
            name = copy
        value = self.fresh("v")
        self.emit(f"int {value} = {name}.a + {name}.b + {name}.sum({self.integer(scope, 1)});")
        scope.variables[value] = "int"

    def fresh_value(self, scope: _Scope) -> str:
        return f"(int)({self.integer(scope, 2)})"

    def shared_phase(self, scope: _Scope) -> None:
        """Every thread writes its own element, a barrier, reads of others, a barrier."""
        name = self.rng.choice(list(self.shared))
        kind = self.shared[name]
        value = self.fresh("v")
        if name == "tile":
            self.emit(f"tile[lid / 8][lid % 8] = {self.integer(scope, 2)};")
            other = f"tile[{self.index(scope, 1)} % {self.threads // 8}u][{self.index(scope, 1)} & 7u]"
        else:
            self.emit(f"{name}[lid] = {self.integer(scope, 2)};")
            other = f"{name}[{self.index(scope, 1)} % {self.threads}u]"
        self.emit("__syncthreads();")
        self.emit(f"{kind} {value} = {other};")
        scope.variables[value] = kind
        if self.rng.random() < 0.3:
            guard = self.integer(scope, 1)
            inner = self.fresh("v")
            self.emit(f"int {inner} = __syncthreads_count(({guard}) & 1);")
            scope.variables[inner] = "int"
        else:
            self.emit("__syncthreads();")

    def warp(self, scope: _Scope) -> None:
        name, value = self.fresh("v"), self.integer(scope, 2)
        form = self.rng.randrange(6)
        lane = self.integer(scope, 1)
        text = [
            f"__shfl_xor_sync(0xffffffffu, (int)({value}), {self.rng.choice([1, 2, 4, 8, 16])})",
            f"__shfl_down_sync(0xffffffffu, (int)({value}), {self.rng.randint(0, 5)})",
            f"__shfl_up_sync(~0u, (unsigned)({value}), {self.rng.randint(0, 5)}, {self.rng.choice([8, 16, 32])})",
            f"__shfl_sync(0xffffffffu, (int)({value}), ({lane}) & 31)",
            f"(int)__ballot_sync(0xffffffffu, ({value}) & 1)",
            f"__any_sync(0xffffffffu, ({value}) & 1) + 2 * __all_sync(0xffffffffu, ({lane}) & 2)",
        ][form]
        self.emit(f"int {name} = {text};")
        scope.variables[name] = "int"
        if self.rng.random() < 0.3:
            self.emit("__syncwarp();")

    # --- whole ---

    def device_function(self) -> None:
        name, kind = self.fresh("fn"), self.integer_type()
        params = tuple(self.integer_type() for _ in range(self.rng.randint(1, 3)))
        scope = _Scope(uniform=False)
        names = []
        for index, param in enumerate(params):
            names.append(f"{param} x{index}")
            scope.variables[f"x{index}"] = param
        self.in_function, left = True, self.statements_left
        self.statements_left = 4
        self.lines.append(f"__device__ {self.rng.choice(['', 'inline '])}{kind} {name}({', '.join(names)}) {{")
        if self.rng.random() < 0.6:
            self.emit(f"if {self.condition(scope, 1)} return {self.integer(scope, 1)};")
        for _ in range(self.rng.randint(0, 2)):
            self.statement(scope)
        if self.rng.random() < 0.3:
            self.emit(f"for (int i = 0; i < 4; ++i) if {self.condition(scope, 1)} return (int)i;")
        self.emit(f"return {self.integer(scope, 2)};")
        self.lines.append("}")
        self.in_function, self.statements_left = False, left
        self.locals.clear()
        self.functions.append((name, kind, params))

    def kernel(self) -> str:
        self.lines += [
            "#define LIMIT 19", "#define SCALE(x) ((x) * 5 + 1)", "enum Colour { RED, GREEN = 7 };",
            "constexpr int CONSTANT = 11;", "static const int STEP = 3;",
            "__constant__ int table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};",
            "struct Pair { int a; short b; __device__ int sum(int c) const { return a + b * c; } };",
            "struct Params { int n; unsigned char c; const int* q; };",
        ]  # fmt: skip
        for _ in range(self.rng.randint(0, 3)):
            self.device_function()
        self.inputs = {"in0": "int", "in1": "unsigned", "in2": "unsigned char", "in3": "short", "in4": "long long"}
        self.outputs = {"out0": "int", "out1": "unsigned", "out2": "short", "out3": "long long"}
        atomics = ["counters", "ors", "xors", "maxima", "minima", "ands"]
        parameters = [f"const {t}* {n}" for n, t in self.inputs.items()]
        parameters += [f"{t}* {n}" for n, t in self.outputs.items()]
        parameters += [f"unsigned* {n}" for n in atomics]
        parameters += ["const float* fin", "float* fout", "Params p", "int n", "unsigned m"]
        self.lines.append(f"__global__ void k({', '.join(parameters)}) {{")
        self.shared = {"s0": "int", "s1": "unsigned short", "tile": "int"}
        self.emit(f"__shared__ int s0[{self.threads}];")
        self.emit(f"__shared__ unsigned short s1[{self.threads}];")
        self.emit(f"__shared__ int tile[{self.threads // 8}][8];")
        self.emit("int lid = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);")
        self.emit(f"int gid = lid + {self.threads} * (blockIdx.x + gridDim.x * blockIdx.y);")
        scope = _Scope({"lid": "int", "gid": "int", "n": "int", "m": "unsigned", "p": "struct"})
        self.readonly |= {"lid", "gid"}
        for _ in range(self.rng.randint(4, 10)):
            self.statement(scope)
        if self.rng.random() < 0.3:
            self.emit(f"if {self.condition(scope)} return;")
            late = scope.inner(uniform=False)
            self.store(late)
        self.emit(f"out0[gid] += {self.integer(scope)};")
        self.lines.append("}")
        return "\n".join(self.lines) + "\n"


def generate(seed: int) -> Generated:
    """The kernel of ``seed``; the same text for the same seed."""
    generator = _Generator(seed)
    text = generator.kernel()
    data = np.random.default_rng(seed)

    def buffer(kind: str) -> Argument:
        if kind == "float":
            return Argument(data=(data.integers(0, 64, ELEMENTS) / 8).astype(np.float32).tobytes())
        dtype = np.dtype(INTEGERS[kind])
        whole = data.integers(0, 256, ELEMENTS * dtype.itemsize, dtype=np.uint8).view(dtype)
        small = data.integers(0, 40, ELEMENTS).astype(dtype)
        return Argument(data=np.where(data.integers(0, 2, ELEMENTS) == 1, whole, small).tobytes())

    arguments = {name: buffer(kind) for name, kind in (*generator.inputs.items(), *generator.outputs.items())}
    for name in ("counters", "ors", "xors", "maxima", "minima", "ands"):
        arguments[name] = buffer("unsigned")
    arguments["fin"], arguments["fout"] = buffer("float"), buffer("float")
    arguments["p.n"], arguments["p.c"] = Argument(int(data.integers(-50, 50))), Argument(int(data.integers(0, 256)))
    arguments["p.q"] = buffer("int")
    arguments["n"], arguments["m"] = Argument(int(data.integers(0, 300))), Argument(int(data.integers(0, 2**32)))
    return Generated(seed, text, LaunchConfig(generator.grid, generator.block, 0), arguments)
