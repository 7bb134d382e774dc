"""Loads, stores, atomics and asynchronous copies (PTX ISA, chapters 9.7.9.8 to 9.7.9.25 and 9.7.13)."""

from __future__ import annotations

from typing import Any

import numpy as np

from prelaunch.analysis.ptx.memory import LOCAL_BASE, LOCAL_GAP, UNSIGNED, Region
from prelaunch.analysis.ptx.module import SIZES, Instruction, Mem, Operand, Reg, Sink, Sym, Vec
from prelaunch.analysis.ptx.values import Array, Getter, Step, Unsupported, dtype_of, getter, per_lane, setter

Value = Any
SPACES = frozenset({"global", "shared", "local", "const", "param"})
ORDERS = frozenset({"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "seq_cst", "mmio"})
SCOPES = {"cta": "block", "cluster": "cluster", "gpu": "device", "sys": "system"}


def qualifiers(ins: Instruction) -> tuple[str, str, str]:
    """(space, order, scope) of an access; generic space is ""."""
    space, order, scope = "", "weak", "thread"
    for part in ins.parts[1:]:
        head = part.split("::")[0]
        if head in SPACES:
            space = head
        elif part in ORDERS:
            order = part
        elif part in SCOPES:
            scope = SCOPES[part]
    if order == "volatile":
        scope = "system"
    return space, order, scope


def address_getter(memory: Operand, narrow: bool) -> Getter:
    """Byte addresses as uint64, one a lane or a scalar. ``narrow``: 32-bit registers hold shared addresses."""
    if not isinstance(memory, Mem):
        raise Unsupported("address operand")
    base, offset = memory.base, memory.offset
    if isinstance(base, Reg):
        get = getter(base, "u64" if SIZES[base.kind] == 8 else "u32")
        step = np.uint64(offset & ((1 << 64) - 1))
        if SIZES[base.kind] == 8:
            return (lambda m, f, at: get(m, f, at) + step) if offset else get
        return lambda m, f, at: get(m, f, at).astype(np.uint64) + step
    if isinstance(base, Sym):
        name = base.name
        return lambda m, f, at: m.address_of(f, name, offset, at)
    constant = np.uint64((base.value + offset) & ((1 << 64) - 1))
    return lambda m, f, at: constant


class Accessor:
    """One access instruction: finds the objects of its addresses, records events, moves words.

    The last object found is tried first: most instructions stay in one object.
    """

    def __init__(self, ins: Instruction, mode: str, width: int, count: int) -> None:
        self.width = width
        self.count = count
        self.size = width * count
        self.mode = mode
        self.loc = ins.loc
        self.opcode = ins.opcode
        _, self.order, self.scope = qualifiers(ins)
        self.may_spin = self.order != "weak" or mode == "atomic"
        self.last: Region | None = None
        self.last_local = False

    def place(self, m: Any, f: Any) -> tuple[int, int]:
        here: tuple[int, int] = self.loc if m.record.is_own(self.loc[0]) else f.site
        return here

    def split(self, m: Any, f: Any, at: Any, addresses: Array) -> list[tuple[Region | None, Array, Array, Array]]:
        """Parts of an access: (object, None for local; lanes; byte offsets; positions in ``at``), in bounds and
        aligned. What is not is reported and left out."""
        lanes = m.lane_ids[at]
        if self.may_spin:
            m.spin_turn = m.turn
        local = self._local(m, lanes, addresses)
        if local is not None:
            return [(None, lanes, local, m.lane_ids[: len(lanes)])]
        region = self.last
        if region is not None:
            offsets = addresses - np.uint64(region.base)
            if offsets.max() <= region.size - self.size if region.size >= self.size else False:
                return self._checked(m, f, region, lanes, offsets.astype(np.int64), m.lane_ids[: len(lanes)])
        return self._split_slow(m, f, lanes, addresses)

    def _local(self, m: Any, lanes: Array, addresses: Array) -> Array | None:
        """Offsets when every address lies in its own lane's local memory."""
        if int(addresses[0]) < LOCAL_BASE or int(addresses[0]) >= LOCAL_BASE + (1 << 45):
            return None
        offsets = addresses - (np.uint64(LOCAL_BASE) + lanes.astype(np.uint64) * np.uint64(LOCAL_GAP))
        if offsets.max() > m.local_size - self.size or (offsets & np.uint64(self.width - 1)).any():
            return None
        signed: Array = offsets.astype(np.int64)
        return signed

    def _split_slow(self, m: Any, f: Any, lanes: Array, addresses: Array) -> list[Any]:
        memory = m.memory
        index = memory.locate(addresses)
        is_local = (addresses >= LOCAL_BASE) & (addresses < np.uint64(LOCAL_BASE + (1 << 45)))
        index = np.where(is_local, -2, index)
        parts: list[Any] = []
        for number in np.unique(index).tolist():
            chosen = np.flatnonzero(index == number)
            some, far = lanes[chosen], addresses[chosen]
            if number == -2:
                parts += self._foreign_local(m, f, some, far, chosen)
                continue
            if number < 0 or memory.is_wild(memory.regions[number], int(far[0])):
                self._report_wild(m, f, some, far)
                continue
            region = memory.regions[number]
            offsets = (far - np.uint64(region.base)).astype(np.int64)
            inside = (offsets >= 0) & (offsets <= region.size - self.size)
            if not inside.all():
                self._report_outside(m, f, region, some[~inside], offsets[~inside])
            if inside.any():
                self.last = region
                parts += self._checked(m, f, region, some[inside], offsets[inside], chosen[inside])
        return parts

    def _report_wild(self, m: Any, f: Any, lanes: Array, addresses: Array) -> None:
        low = int(addresses.min())
        kind = "null-pointer" if low < 1 << 16 else "out-of-bounds"
        what = "a null pointer" if kind == "null-pointer" else "an address in no object"
        m.record.problem(kind, f"{self.mode} through {what}", lanes, self.place(m, f))

    def _report_outside(self, m: Any, f: Any, region: Region, lanes: Array, offsets: Array) -> None:
        text = f"{self.mode} of {self.size} bytes at offset {int(offsets[0])} of {region.name} ({region.size} bytes)"
        m.record.problem("out-of-bounds", text, lanes, self.place(m, f))

    def _foreign_local(self, m: Any, f: Any, lanes: Array, addresses: Array, chosen: Array) -> list[Any]:
        offsets = (addresses - np.uint64(LOCAL_BASE)) & np.uint64(LOCAL_GAP - 1)
        owners = ((addresses - np.uint64(LOCAL_BASE)) // np.uint64(LOCAL_GAP)).astype(np.int64)
        inside = (owners == lanes) & (offsets <= np.uint64(m.local_size - self.size))
        if (offsets & np.uint64(self.width - 1)).any():
            m.record.problem("misaligned", f"{self.mode} of {self.size} bytes of local memory", lanes, self.place(m, f))
            inside &= (offsets & np.uint64(self.width - 1)) == 0
        elif not inside.all():
            text = f"{self.mode} outside the thread's local memory"
            m.record.problem("out-of-bounds", text, lanes[~inside], self.place(m, f))
        return [(None, lanes[inside], offsets[inside].astype(np.int64), chosen[inside])] if inside.any() else []

    def _checked(self, m: Any, f: Any, region: Region, lanes: Array, offsets: Array, where: Array) -> list[Any]:
        """Reports misaligned accesses and notes all."""
        aligned = (offsets & (self.size - 1)) == 0 if self.size & (self.size - 1) == 0 else offsets % self.width == 0
        if not aligned.all():
            text = f"{self.mode} of {self.size} bytes at offset {int(offsets[~aligned][0])} of {region.name}"
            m.record.problem("misaligned", text, lanes[~aligned], self.place(m, f))
        self._note(m, f, region, lanes, offsets)
        if region.written is not None and self.mode != "write":
            self._check_written(m, f, region, lanes, offsets)
        return [(region, lanes, offsets, where)]

    def _check_written(self, m: Any, f: Any, region: Region, lanes: Array, offsets: Array) -> None:
        assert region.written is not None
        fresh = np.zeros(len(lanes), np.bool_)
        for byte in range(self.size):
            fresh |= ~region.written[offsets + byte]
        if fresh.any():
            text = f"read of {region.name} at offset {int(offsets[fresh][0])}, which nothing has written"
            m.record.problem("uninitialised-shared", text, lanes[fresh], self.place(m, f))

    def _note(self, m: Any, f: Any, region: Region, lanes: Array, offsets: Array) -> None:
        if region.recorded:
            place = self.place(m, f)
            phase = m.phase[lanes]
            m.record.access(self.mode, region.name, offsets, self.size, lanes, phase, place, self.order, self.scope)

    # --- moving words ---

    def read(self, m: Any, part: tuple[Region | None, Array, Array, Array], word: int) -> Array:
        region, lanes, offsets, _ = part
        shift = self.width.bit_length() - 1
        if region is None:
            found: Array = m.local_views[self.width][lanes, (offsets >> shift) + word]
            return found
        if (offsets & (self.width - 1)).any():
            at = (offsets + word * self.width)[:, None] + np.arange(self.width)
            return np.ascontiguousarray(region.data[at]).view(UNSIGNED[self.width])[:, 0]
        result: Array = region.views[self.width][(offsets >> shift) + word]
        return result

    def write(self, m: Any, part: tuple[Region | None, Array, Array, Array], word: int, values: Array) -> None:
        region, lanes, offsets, _ = part
        shift = self.width.bit_length() - 1
        if region is None:
            m.local_views[self.width][lanes, (offsets >> shift) + word] = values
            return
        if (offsets & (self.width - 1)).any():
            at = (offsets + word * self.width)[:, None] + np.arange(self.width)
            region.data[at] = np.ascontiguousarray(values)[:, None].view(np.uint8)
        else:
            region.views[self.width][(offsets >> shift) + word] = values
        if region.written is not None:
            start = offsets + word * self.width
            for byte in range(self.width):
                region.written[start + byte] = True


def _elements(ins: Instruction, data: Operand) -> tuple[str, list[Operand]]:
    kind = ins.parts[-1]
    if kind not in SIZES or SIZES[kind] > 8:
        raise Unsupported(ins.opcode)
    return kind, list(data.items) if isinstance(data, Vec) else [data]


def _raw_kind(kind: str) -> str:
    return f"{'s' if kind[0] == 's' else 'b'}{SIZES[kind] * 8}"


def load(ins: Instruction) -> Step:
    kind, targets = _elements(ins, ins.operands[0])
    space, _, _ = qualifiers(ins)
    memory = ins.operands[1]
    if space in ("param", "local") and isinstance(memory, Mem) and isinstance(memory.base, Sym):
        return _load_fixed(kind, targets, memory)
    raw = UNSIGNED[SIZES[kind]]
    signed = dtype_of(_raw_kind(kind))
    puts = [setter(t) for t in targets]
    get = address_getter(memory, space == "shared")
    access = Accessor(ins, "read", SIZES[kind], len(targets))

    def step(m: Any, f: Any, at: Any) -> None:
        addresses = per_lane(get(m, f, at), m, at)
        parts = access.split(m, f, at, addresses)
        for word, put in enumerate(puts):
            if len(parts) == 1 and len(parts[0][1]) == len(addresses):
                values = access.read(m, parts[0], word)
            else:
                values = np.zeros(len(addresses), raw)
                for part in parts:
                    values[part[3]] = access.read(m, part, word)
            put(m, f, at, values.view(signed))

    return step


def _load_fixed(kind: str, targets: list[Operand], memory: Mem) -> Step:
    """Parameters and locals at offsets that are the same for all lanes."""
    assert isinstance(memory.base, Sym)
    name, start, size = memory.base.name, memory.base.offset + memory.offset, SIZES[kind]
    signed = dtype_of(_raw_kind(kind))
    puts = [setter(t) for t in targets]

    def step(m: Any, f: Any, at: Any) -> None:
        offset = _fixed_offset(m, f, name, start, size)
        view = m.local_views[size]
        for word, put in enumerate(puts):
            put(m, f, at, view[at, offset // size + word].copy().view(signed))

    return step


def _fixed_offset(m: Any, f: Any, name: str, start: int, size: int) -> int:
    base = f.bases.get(name)
    if base is None:
        raise Unsupported(f"parameter {name[:60]}")
    offset: int = base + start
    if offset % size or not 0 <= offset <= m.local_size - size:
        raise Unsupported("a parameter access outside the parameter")
    return offset


def store(ins: Instruction) -> Step:
    kind, sources = _elements(ins, ins.operands[1])
    space, _, _ = qualifiers(ins)
    memory = ins.operands[0]
    raw = f"b{SIZES[kind] * 8}"
    gets = [getter(s, kind if kind[0] == "f" else raw) for s in sources if not isinstance(s, Sink)]
    if len(gets) != len(sources):
        raise Unsupported(ins.opcode)
    unsigned = UNSIGNED[SIZES[kind]]
    if space in ("param", "local") and isinstance(memory, Mem) and isinstance(memory.base, Sym):
        return _store_fixed(kind, gets, memory)
    get = address_getter(memory, space == "shared")
    access = Accessor(ins, "write", SIZES[kind], len(sources))

    def step(m: Any, f: Any, at: Any) -> None:
        addresses = per_lane(get(m, f, at), m, at)
        for part in access.split(m, f, at, addresses):
            for word, source in enumerate(gets):
                values = per_lane(source(m, f, at), m, at)
                access.write(m, part, word, np.ascontiguousarray(values[part[3]]).view(unsigned))

    return step


def _store_fixed(kind: str, gets: list[Getter], memory: Mem) -> Step:
    assert isinstance(memory.base, Sym)
    name, start, size = memory.base.name, memory.base.offset + memory.offset, SIZES[kind]
    unsigned = UNSIGNED[size]

    def step(m: Any, f: Any, at: Any) -> None:
        offset = _fixed_offset(m, f, name, start, size)
        view = m.local_views[size]
        for word, get in enumerate(gets):
            value = np.asarray(get(m, f, at))
            view[at, offset // size + word] = value.view(unsigned) if value.dtype.kind == "f" else value

    return step
