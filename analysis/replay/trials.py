"""Concrete launches and arguments to try on a kernel, canonical order, small first.

``trials(kernel, launch)`` yields only launches that ``launch`` allows: its known dimensions, its arguments as host
code states them (one host value has one number in grid, block and arguments), its relations. Contents of memory are
free. Without a launch the block is a guess and ``evidenced`` is False, unless ``__launch_bounds__`` gives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from prelaunch.analysis.hostir import fold
from prelaunch.analysis.kernel import Const, Expr, Kernel, Param, Pointer, Scalar, Type, Var
from prelaunch.analysis.launch import Launch, Relation
from prelaunch.analysis.trace import Argument, Dim3, LaunchConfig
from prelaunch.analysis.walk import walk_expr

MAX_TRIALS = 24
MAX_BYTES = 1 << 22
DEFAULT_BYTES = 1 << 20
MAX_BLOCKS = 1 << 31
GUESSED_BLOCKS: tuple[Dim3, ...] = ((256, 1, 1), (16, 16, 1), (64, 1, 1))
GUESSED_ROWS = (256, 64, 512)
GUESSED_TILES = (16, 8, 32)

Fill = Literal["0, 1, 0, 1, …", "0", "0, 1, 2, …", "1", "small numbers", "32 times 0, 32 times 1, …"]
FILLS: tuple[Fill, ...] = ("0, 1, 0, 1, …", "0", "0, 1, 2, …", "1", "small numbers", "32 times 0, 32 times 1, …")


@dataclass(frozen=True, slots=True)
class Trial:
    """One concrete launch. ``arguments`` by parameter name; ``shown`` are the same in words, for a witness."""

    config: LaunchConfig
    arguments: Mapping[str, Argument]
    shown: tuple[tuple[str, int | float | str], ...]
    evidenced: bool


def trials(kernel: Kernel, launch: Launch | None) -> Iterator[Trial]:
    """At most MAX_TRIALS launches, each different."""
    seen: set[tuple[object, ...]] = set()
    for index, (values, fill) in enumerate(_plan(kernel, launch)):
        trial = _trial(kernel, launch, values, fill, index)
        if trial is None:
            continue
        key = (trial.config, tuple(a.value for a in trial.arguments.values()), fill if _has_memory(kernel) else "")
        if key in seen:
            continue
        seen.add(key)
        yield trial
        if len(seen) >= MAX_TRIALS:
            return


def _has_memory(kernel: Kernel) -> bool:
    return any(isinstance(param.var.type, Pointer) for param in kernel.params)


def _plan(kernel: Kernel, launch: Launch | None) -> Iterator[tuple[tuple[int, int], Fill]]:
    """(value of unknown integers, value of every second one) and contents, along diagonals: small sums first."""
    block = (launch.known_block() if launch else None) or _bounds(kernel) or GUESSED_BLOCKS[0]
    threads, row = block[0] * block[1] * block[2], block[0]
    # One, parts of a block, one block, more than one, none: where guards and tiles change their minds.
    whole = (1, threads // 2 + 1, threads, threads + row // 2 + 1, row, 5, 2 * threads, 33, 0, 1000)
    singles = list(dict.fromkeys((value, value) for value in whole))
    mixed = [(threads, 1), (1, threads), (row + 1, 3), (3, row + 1), (threads * 2 + 3, row + 5)]
    pairs = [*singles[:4], mixed[0], mixed[1], *singles[4:], *mixed[2:]]
    for total in range(len(pairs) + len(FILLS)):
        for fill_index in range(min(total + 1, len(FILLS))):
            if total - fill_index < len(pairs):
                yield pairs[total - fill_index], FILLS[fill_index]


def _bounds(kernel: Kernel) -> Dim3 | None:
    limit = kernel.launch_bounds[0]
    return (limit, 1, 1) if limit is not None and 0 < limit <= 1024 else None


def _trial(kernel: Kernel, launch: Launch | None, values: tuple[int, int], fill: Fill, index: int) -> Trial | None:
    symbols = _symbols(launch)
    known = {var: values[place % 2] for place, var in enumerate(symbols)} | _guesses(launch, index)
    config, evidenced = _config(kernel, launch, known, index)
    if config is None:
        return None
    arguments: list[Argument] = []
    shown: list[tuple[str, int | float | str]] = []
    free = 0
    for param in kernel.params:
        expr = _argument(launch, param)
        if isinstance(param.var.type, Pointer):
            size = _extent(launch, param, known)
            arguments.append(Argument(data=contents(kernel, param, fill, size)))
            shown.append((f"{param.var.name}[]", fill))
            continue
        value = number(expr, known) if expr is not None else None
        if value is None:
            value = _fits(values[free % 2], param.var.type)
            free += 1
        arguments.append(Argument(value=value))
        shown.append((param.var.name, value))
    if launch is not None and not _related(kernel, launch.relations, known, arguments):
        return None
    named = {param.var.name: argument for param, argument in zip(kernel.params, arguments, strict=True)}
    return Trial(config, named, tuple(shown), evidenced)


def _argument(launch: Launch | None, param: Param) -> Expr | None:
    if launch is None or param.offset != 0 or param.formal >= len(launch.args):
        return None
    return launch.args[param.formal]


def _symbols(launch: Launch | None) -> tuple[Var, ...]:
    """Unknown host values of a launch, in order of appearance in grid, block, arguments."""
    if launch is None:
        return ()
    exprs = (*launch.grid, *launch.block, launch.dynamic_smem, *(a for a in launch.args if a is not None))
    found = (item for expr in exprs for item in walk_expr(expr) if isinstance(item, Var))
    return tuple(dict.fromkeys(found))


def number(expr: Expr, known: Mapping[Var, int]) -> int | float | None:
    """``expr`` with host values replaced by numbers; None when something else in it is unknown."""
    try:
        for var, value in known.items():
            if isinstance(expr, Const):
                break
            expr = fold.substitute(expr, var, Const(_fits(value, var.type), var.type))
    except fold.TooLarge:
        return None
    return expr.value if isinstance(expr, Const) else None


def _fits(value: int, kind: Type) -> int | float:
    if isinstance(kind, Pointer):
        return 0
    if not kind.is_integer:
        return float(value)
    return int(value != 0) if kind.kind == "bool" else value & (1 << min(kind.bits - 1, 31)) - 1


def _config(
    kernel: Kernel, launch: Launch | None, known: Mapping[Var, int], index: int
) -> tuple[LaunchConfig | None, bool]:
    """The launch in numbers, and whether code evidences its block. None when the numbers are no valid launch."""
    bounds = _bounds(kernel)
    if launch is None:
        block = bounds or GUESSED_BLOCKS[index % len(GUESSED_BLOCKS)]
        return LaunchConfig((2, 1, 1), block, 1 << 14 if _dynamic(kernel) else 0), bounds is not None
    evidenced = launch.known_block() is not None
    numbers = [number(expr, known) for expr in (*launch.grid, *launch.block)]
    sizes = [int(n) if n is not None else _default(place, index) for place, n in enumerate(numbers)]
    smem = number(launch.dynamic_smem, known)
    x, y, z, bx, by, bz = sizes
    valid = min(sizes) > 0 and max(bx, by) <= 1024 and bz <= 64 and bx * by * bz <= 1024
    if not valid or x >= MAX_BLOCKS or max(y, z) > 65_535:
        return None, False
    dynamic = int(smem) if smem is not None else 1 << 14
    if not 0 <= dynamic <= 228 << 10:
        return None, False
    return LaunchConfig((x, y, z), (bx, by, bz), dynamic, cooperative=launch.cooperative), evidenced


def _dynamic(kernel: Kernel) -> bool:
    return any(item.dynamic for item in kernel.objects)


def _guesses(launch: Launch | None, index: int) -> dict[Var, int]:
    """Numbers for host values that size the block: threads in a row, or the sides of tiles; another each time."""
    if launch is None:
        return {}
    unknown = [expr for expr in launch.block if not isinstance(expr, Const)]
    table = GUESSED_ROWS if len(unknown) == 1 else GUESSED_TILES
    found = (item for expr in unknown for item in walk_expr(expr) if isinstance(item, Var))
    return dict.fromkeys(found, table[index % len(table)])


def _default(place: int, index: int) -> int:
    """Grid or block component that cannot be computed: a small grid, one row of threads."""
    return (2, 1, 1, GUESSED_ROWS[index % len(GUESSED_ROWS)], 1, 1)[place]


def _related(
    kernel: Kernel, relations: tuple[Relation, ...], known: Mapping[Var, int], arguments: list[Argument]
) -> bool:
    """Do the scalar arguments keep what host code states about them?"""
    values = {p.formal: a.value for p, a in zip(kernel.params, arguments, strict=True) if p.offset == 0}
    for relation in relations:
        bound = number(relation.value, known) if relation.value is not None else None
        value = values.get(relation.argument)
        if bound is None or value is None:
            continue
        broken = {
            "equal": value != bound,
            "multiple": bound != 0 and value % bound != 0,
            "at-most": value > bound,
            "at-least": value < bound,
        }
        if broken.get(relation.kind, False):
            return False
    return True


def _extent(launch: Launch | None, param: Param, known: Mapping[Var, int]) -> int:
    """Bytes behind a pointer argument: as allocated where host code says, else generous."""
    for relation in launch.relations if launch is not None else ():
        if relation.kind == "extent" and relation.argument == param.formal and relation.value is not None:
            size = number(relation.value, known)
            if size is not None and size >= 0:
                return min(int(size), MAX_BYTES)
    return DEFAULT_BYTES


def contents(kernel: Kernel, param: Param, fill: Fill, size: int) -> bytes:
    """``size`` bytes of the pointee's element type holding ``fill``."""
    pointee = next((item for item in kernel.objects if item.id == param.object), None)
    kind = pointee.element if pointee is not None else None
    return _pattern(kind, fill, size) if isinstance(kind, Scalar) else bytes(size)


@lru_cache(maxsize=32)
def _pattern(kind: Scalar, fill: Fill, size: int) -> bytes:
    count = size // kind.size
    index = np.arange(count)
    values = {
        "0, 1, 0, 1, …": index % 2,
        "0": index * 0,
        "0, 1, 2, …": index,
        "1": index * 0 + 1,
        "small numbers": (index * 2654435761 >> 7) % 8,
        "32 times 0, 32 times 1, …": index // 32 % 2,
    }[fill]
    if kind.kind == "bool":
        data = (values != 0).astype(np.uint8)
    elif kind.kind == "bfloat":
        data = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    elif kind.kind == "float":
        data = values.astype(f"f{kind.size}")
    else:
        data = values.astype(f"{'i' if kind.signed else 'u'}{kind.size}")
    packed: bytes = data.tobytes()
    return packed.ljust(size, b"\0")
