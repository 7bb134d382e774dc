"""Building blocks of hand-built kernels for the interpreter's tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prelaunch.analysis.interpret import SCHEDULES, Schedule, run
from prelaunch.analysis.kernel import (
    I64,
    U8,
    Binary,
    Block,
    Cast,
    Const,
    Expr,
    Kernel,
    Object,
    Param,
    Pointer,
    PtrAdd,
    Special,
    Stmt,
    Type,
    Var,
)  # fmt: skip
from prelaunch.analysis.source import Span
from prelaunch.analysis.trace import Argument, LaunchConfig, Trace

T = Cast(Special("threadIdx.x"), I64)


def at(base: Expr, index: Expr, size: int) -> Expr:
    return PtrAdd(base, Binary("mul", Cast(index, I64), Const(size, I64), I64))


def span(line: int) -> Span:
    return Span("k.cu", line, line + 1, line, 1, line, 2)


def kernel(body: Sequence[Stmt], buffers: dict[str, Type], shared: int = 0) -> Kernel:
    """Buffers are pointer parameters of their name; ``shared`` bytes of an object ``s``."""
    params = tuple(Param(Var(1000 + i, name, Pointer()), i, 0, name) for i, name in enumerate(buffers))
    objects = [Object(name, name, "global", type, None, origin="param") for name, type in buffers.items()]
    if shared:
        objects.append(Object("s", "s", "shared", U8, shared))
    return Kernel("k", "k.cu", (), params, tuple(objects), Block(tuple(body)))


def pointer(kernel_buffers: dict[str, Type], name: str) -> Var:
    return Var(1000 + list(kernel_buffers).index(name), name, Pointer())


def go(
    kernel: Kernel,
    threads: int,
    schedule: Schedule = SCHEDULES[0],
    blocks: int = 1,
    data: Mapping[str, np.ndarray[Any, Any]] | None = None,
    **more: np.ndarray[Any, Any],
) -> Trace:
    arguments = {name: Argument(data=array.tobytes()) for name, array in {**(data or {}), **more}.items()}
    return run(kernel, LaunchConfig((blocks, 1, 1), (threads, 1, 1)), arguments, schedule=schedule)
