"""Loads, stores and copies compiled to functions of (machine, lanes).

An access outside its object, or through null, is a problem: such a load gives 0, such a store is dropped, and the
execution goes on. Alignment is asked of the whole access up to 16 bytes (PTX ISA, "Addresses as Operands").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from prelaunch.analysis.interpreter.expressions import Code, as_array, cast_value
from prelaunch.analysis.interpreter.lanes import Index, Lanes, count, index, narrow
from prelaunch.analysis.interpreter.memory import (
    NULL_ZONE,
    WINDOW,
    Region,
    all_written,
    decode,
    encode,
    gather,
    scatter,
    stored_dtype,
)
from prelaunch.analysis.interpreter.record import Row, Site
from prelaunch.analysis.intrinsics.evaluate import dtype
from prelaunch.analysis.kernel import U8, Load, Scalar, Store, Type

if TYPE_CHECKING:
    from prelaunch.analysis.interpreter.machine import Machine

Effect = Callable[["Machine", Lanes], None]
Move = Callable[["Machine", Lanes, Any, bool], None]
"""Moves a copy's bytes: (machine, lanes, their positions in the issue or None, whether to record)."""
Place = tuple[Region, Any, Any]  # region, positions among the lanes (None: all), byte offsets (int64)


def places(m: Machine, lanes: Lanes, address: Any, site: Site, size: int, unit: int) -> list[Place]:
    """Where the lanes' accesses of ``size`` bytes land, by object; reports what lands nowhere or misaligned.

    ``unit`` is the element size. Offsets of the last item may be unaligned for the unit: see ``aligned``.
    """
    address = as_array(address, lanes)
    region = m.guess.get(site.index)
    if region is None:
        region = m.region_at(int(address[0]) >> WINDOW)
    if region is not None:
        offsets = address - region.base
        inner = offsets - m.thread[lanes].astype(np.uint64) * np.uint64(region.stride) if region.stride else offsets
        limit = region.size - size
        if limit >= 0 and inner.max() <= limit:
            m.guess[site.index] = region
            _check_alignment(m, lanes, inner, site, size, unit, region)
            return [(region, None, offsets.view(np.int64))]
    return _scattered(m, lanes, address, site, size, unit)


def _scattered(m: Machine, lanes: Lanes, address: Any, site: Site, size: int, unit: int) -> list[Place]:
    """The general case: several objects, or accesses that leave theirs."""
    found: list[Place] = []
    slots = index(lanes)
    windows = address >> np.uint64(WINDOW)
    for window in np.unique(windows):
        positions = np.nonzero(windows == window)[0]
        region = m.region_at(int(window))
        some = address[positions]
        if region is None:
            _report_nowhere(m, slots[positions], some, site, size)
            continue
        offsets = (some - region.base).view(np.int64)
        inner = offsets - m.thread[slots[positions]] * region.stride
        inside = (inner >= 0) & (inner <= region.size - size)
        if not inside.all():
            _report_outside(m, slots[positions[~inside]], inner[~inside], site, size, region)
            positions, offsets, inner = positions[inside], offsets[inside], inner[inside]
        if len(positions):
            part = narrow(slots[positions])
            assert part is not None
            _check_alignment(m, part, inner.view(np.uint64), site, size, unit, region)
            found.append((region, positions, offsets))
    return found


def _check_alignment(m: Machine, lanes: Lanes, inner: Any, site: Site, size: int, unit: int, region: Region) -> None:
    wanted = min(size, 16) if size & (size - 1) == 0 else unit
    if wanted > 1 and int(np.bitwise_or.reduce(inner)) & (wanted - 1):
        wrong = (inner & np.uint64(wanted - 1)) != 0
        where = int(inner[wrong][0])
        message = f"{size}-byte {site.mode} at byte {where} of {region.name}, which is not a multiple of {wanted}"
        m.problem("misaligned", message, index(lanes)[wrong], site.span, id(site.node))


def _report_nowhere(m: Machine, slots: Index, address: Any, site: Site, size: int) -> None:
    first = int(address[0])
    if first < NULL_ZONE:
        m.problem("null-pointer", f"{size}-byte {site.mode} at address {first:#x}", slots, site.span, id(site.node))
    else:
        message = f"{size}-byte {site.mode} at address {first:#x}, which no object has"
        m.problem("out-of-bounds", message, slots, site.span, id(site.node))


def _report_outside(m: Machine, slots: Index, inner: Any, site: Site, size: int, region: Region) -> None:
    owner = " of another thread" if region.stride and abs(int(inner[0])) >= region.stride else ""
    message = f"{size}-byte {site.mode} at byte {int(inner[0])} of {region.name}{owner}, which has {region.size} bytes"
    m.problem("out-of-bounds", message, slots, site.span, id(site.node))


def is_aligned(offsets: Any, unit: int) -> bool:
    return unit == 1 or not int(np.bitwise_or.reduce(offsets)) & (unit - 1)


def record(m: Machine, lanes: Lanes, site: Site, place: Place, size: int, values: Any = None) -> None:
    region, positions, offsets = place
    if not (m.recorder.recording and region.recorded):
        return
    slots = lanes if positions is None else index(lanes)[positions]
    threads, phase = m.thread[slots].copy(), m.phase[slots].copy()
    m.recorder.log(Row(site, m.block, threads, region.index, offsets, phase, size, values=values))


def check_written(m: Machine, lanes: Lanes, site: Site, place: Place, size: int) -> None:
    """Reads of shared memory nobody wrote."""
    region, positions, offsets = place
    if region.valid is None:
        return
    wrong = ~all_written(region, offsets, size)
    if wrong.any():
        slots = index(lanes) if positions is None else index(lanes)[positions]
        message = f"{size}-byte read at byte {int(offsets[wrong][0])} of {region.name}, which no thread wrote before"
        m.problem("uninitialised-shared", message, slots[wrong], site.span, id(site.node))


def read(m: Machine, lanes: Lanes, address: Any, site: Site, type: Type, elements: int) -> list[Any]:
    """Raw memory elements (one array per vector element), checked and recorded."""
    kind = stored_dtype(type)
    unit = kind.itemsize
    size = unit * elements
    found = places(m, lanes, address, site, size, unit)
    whole = len(found) == 1 and found[0][1] is None
    result = [] if whole else [np.zeros(count(lanes), kind) for _ in range(elements)]
    for place in found:
        region, positions, offsets = place
        check_written(m, lanes, site, place, size)
        aligned = is_aligned(offsets, unit)
        for i in range(elements):
            raw = gather(region, offsets + i * unit if i else offsets, kind, aligned)
            if whole:
                result.append(raw)
            else:
                result[i][positions] = raw
        record(m, lanes, site, place, size)
    return result


def write(m: Machine, lanes: Lanes, address: Any, site: Site, type: Type, values: list[Any]) -> None:
    """Store register values, one array (or scalar) per vector element; checked and recorded with the bytes written."""
    kind = stored_dtype(type)
    unit = kind.itemsize
    raw = [encode(type, value) for value in values]
    for place in places(m, lanes, address, site, unit * len(values), unit):
        region, positions, offsets = place
        aligned = is_aligned(offsets, unit)
        parts = [v if positions is None or v.ndim == 0 else v[positions] for v in raw]
        for i, part in enumerate(parts):
            scatter(region, offsets + i * unit if i else offsets, part, kind, aligned)
        m.recorder.changes += 1
        if m.recorder.recording and region.recorded:
            table = np.empty((len(offsets), len(parts)), kind)
            for i, part in enumerate(parts):
                table[:, i] = part
            record(m, lanes, site, place, unit * len(values), table.view(np.uint8))


def announce(m: Machine, lanes: Lanes, address: Any, site: Site, size: int, taken: Any) -> None:
    """Check and record a copy's accesses at issue, before its bytes move; ``taken`` bytes of each lane if not None."""
    for length, positions in _lengths(size, taken):
        part = lanes if positions is None else narrow(index(lanes)[positions])
        if part is None or length == 0:
            continue
        for place in places(m, part, address if positions is None else address[positions], site, length, 1):
            record(m, part, site, place, length)


def read_bytes(m: Machine, lanes: Lanes, address: Any, site: Site, size: int, taken: Any) -> Any:
    """(lanes, size) bytes; those from ``taken`` on are not read and are 0."""
    result = np.zeros((count(lanes), size), np.uint8)
    for length, positions in _lengths(size, taken):
        part = lanes if positions is None else narrow(index(lanes)[positions])
        if part is None or length == 0:
            continue
        where = slice(None) if positions is None else positions
        columns = read(m, part, address[where], site, U8, length)
        result[where, :length] = np.stack(columns, axis=1)
    return result


def _lengths(size: int, taken: Any) -> list[tuple[int, Any]]:
    if taken is None:
        return [(size, None)]
    clamped = np.clip(taken, 0, size)
    return [(int(length), np.nonzero(clamped == length)[0]) for length in np.unique(clamped)]


def compile_load(node: Load, site: Site, registers: list[int], address: Code) -> Effect:
    type = node.type
    elements = len(registers)
    targets = [v.type for v in node.vars]

    def run(m: Machine, lanes: Lanes) -> None:
        raw = read(m, lanes, address(m, lanes), site, type, elements)
        for register, target, value in zip(registers, targets, raw, strict=True):
            decoded = decode(type, value)
            m.registers[register][lanes] = decoded if target == type else cast_value(decoded, type, target)

    return run


def compile_store(node: Store, site: Site, exprs: list[Code], address: Code) -> Effect:
    type = node.type
    operands_of = [converted(code, expr.type, type) for code, expr in zip(exprs, node.exprs, strict=True)]

    def run(m: Machine, lanes: Lanes) -> None:
        write(m, lanes, address(m, lanes), site, type, [code(m, lanes) for code in operands_of])

    return run


def converted(code: Code, source: Type, target: Type) -> Code:
    if source == target or (dtype(source) == dtype(target) and not _is_bfloat(source) and not _is_bfloat(target)):
        return code
    return lambda m, lanes: cast_value(code(m, lanes), source, target)


def _is_bfloat(type: Type) -> bool:
    return isinstance(type, Scalar) and type.kind == "bfloat"
