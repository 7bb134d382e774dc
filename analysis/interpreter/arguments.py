"""Arguments to run a kernel with when nothing better is known."""

from __future__ import annotations

import numpy as np

from prelaunch.analysis.intrinsics.evaluate import dtype
from prelaunch.analysis.kernel import Kernel, Object, Pointer, Scalar
from prelaunch.analysis.trace import Argument, LaunchConfig


def default_arguments(
    kernel: Kernel, config: LaunchConfig, *, n: int | None = None, seed: int = 0
) -> dict[str, Argument]:
    """An argument for every leaf parameter, by variable name, and data for constant variables, by object id.

    ``n`` (default: the number of threads of the launch) is the value of every integer parameter; floats are 1. Buffers
    have room for max(4 n, threads) elements; integer buffers hold 0..15, float buffers multiples of 1/8 in [0, 2).
    The same inputs give the same bytes.
    """
    total = config.blocks * config.threads
    count = total if n is None else n
    room = min(max(4 * count, total, 64), 1 << 20)
    objects = {o.id: o for o in kernel.objects}
    result: dict[str, Argument] = {}
    for i, param in enumerate(kernel.params):
        type = param.var.type
        if isinstance(type, Pointer) and param.object is not None and param.object in objects:
            result[param.var.name] = Argument(data=_buffer(objects[param.object], room, [seed, i]))
        elif isinstance(type, Scalar):
            result[param.var.name] = Argument(value=count if type.kind in ("int", "uint") else 1)
    for i, item in enumerate(kernel.objects):
        if item.space == "constant" and item.init is None and item.size is not None:
            result[item.id] = Argument(data=_buffer(item, item.size // max(item.element.size, 1), [seed, 1000 + i]))
    return result


def _buffer(object: Object, room: int, seed: list[int]) -> bytes:
    """``room`` elements, or the object's own size where that is known."""
    if object.size is not None:
        room = max(1, object.size // max(object.element.size, 1))
    values = np.random.default_rng(seed).integers(0, 16, room)
    if isinstance(object.element, Pointer):
        return bytes(8 * room)
    if object.element.kind == "bfloat":
        return ((values / 8).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    kind = dtype(object.element)
    if kind.kind == "b":
        return (values & 1).astype(np.uint8).tobytes()
    return (values / 8 if kind.kind == "f" else values).astype(kind).tobytes()
