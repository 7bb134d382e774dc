"""Runs an entry of a parsed module under one launch and returns its trace."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from prelaunch.analysis.ptx.control import compile_function
from prelaunch.analysis.ptx.machine import Code, Machine, Stop
from prelaunch.analysis.ptx.memory import Memory, Region, TooLarge
from prelaunch.analysis.ptx.module import Function, Module, Variable
from prelaunch.analysis.ptx.record import Recorder, TooManyEvents
from prelaunch.analysis.ptx.values import Unsupported
from prelaunch.analysis.trace import Argument, LaunchConfig, Trace

MAX_STEPS = 3_000_000
MAX_EVENTS = 2_000_000
MAX_THREADS = 1024
MAX_BLOCKS = 4096
DYNAMIC = "dynamic shared memory"
"""Name of the object of all ``extern __shared__`` arrays, unless the caller gives another."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar or pointer inside a parameter: ``offset`` bytes into parameter number ``formal``, of ``size`` bytes.

    ``object`` names what a pointer points to.
    """

    name: str
    formal: int
    offset: int
    size: int
    kind: Literal["int", "float", "pointer"]
    object: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """What to run: ``files`` maps PTX file numbers to repository paths (others are headers), ``dynamic_name`` names
    dynamic shared memory."""

    entry: str
    config: LaunchConfig
    leaves: Sequence[Leaf]
    arguments: Mapping[str, Argument]
    files: dict[int, str]
    dynamic_name: str = DYNAMIC
    max_steps: int = MAX_STEPS
    max_events: int = MAX_EVENTS


def execute(module: Module, launch: Launch) -> Trace:
    """All blocks one after another. Never raises for what the text does: the trace's status says how it ended."""
    recorder = Recorder(launch.files, launch.max_events)
    try:
        with np.errstate(all="ignore"):
            return _execute(module, launch, recorder)
    except Stop as stop:
        return _ended(recorder, cast(Literal["steps", "stopped"], stop.status), stop.reason)
    except TooManyEvents:
        return _ended(recorder, "steps", "the event budget ran out")
    except (Unsupported, TooLarge) as error:
        return _ended(recorder, "stopped", f"not modelled: {error}")


def _ended(recorder: Recorder, status: Literal["steps", "stopped"], reason: str) -> Trace:
    return Trace(recorder.events(), tuple(recorder.problems), status, reason)


def _execute(module: Module, launch: Launch, recorder: Recorder) -> Trace:
    config = launch.config
    if not 0 < config.threads <= MAX_THREADS or not 0 < config.blocks <= MAX_BLOCKS:
        raise Stop("stopped", f"{config.blocks} blocks of {config.threads} threads are outside what is run")
    entry = module.functions.get(launch.entry)
    if entry is None or not entry.defined:
        raise Stop("stopped", "the kernel is not in the compiler's output")
    memory = Memory()
    buffers = _buffers(memory, launch)
    symbols = _symbols(memory, module, launch)
    codes: dict[str, Code | None] = {}

    def code_of(name: str) -> Code | None:
        if name not in codes:
            function = module.functions.get(name)
            codes[name] = compile_function(module, function) if function is not None and function.defined else None
        return codes[name]

    machine = Machine(code_of, memory, symbols, config, recorder, launch.max_steps)
    params = _parameters(entry, launch, buffers)
    code = code_of(launch.entry)
    assert code is not None
    for index in range(config.blocks):
        machine.run_block(code, index, params)
    contents = {r.name: r.data[: r.size].tobytes() for r in memory.regions if r.recorded and r.space == "global"}
    return Trace(recorder.events(), tuple(recorder.problems), "done", "", contents)


def _buffers(memory: Memory, launch: Launch) -> dict[str, Region]:
    """One object for each pointer leaf that is given data; pointers without are null."""
    found: dict[str, Region] = {}
    for leaf in launch.leaves:
        argument = launch.arguments.get(leaf.name)
        if leaf.kind == "pointer" and argument is not None and argument.data is not None:
            found[leaf.name] = memory.add(leaf.object or leaf.name, "global", len(argument.data), argument.data)
    return found


def _parameters(entry: Function, launch: Launch, buffers: Mapping[str, Region]) -> list[tuple[Variable, bytes]]:
    data = [bytearray(p.size) for p in entry.params]
    for leaf in launch.leaves:
        if leaf.formal >= len(data) or leaf.offset + leaf.size > len(data[leaf.formal]):
            raise Stop("stopped", f"parameter {leaf.name} does not fit the compiled parameters")
        argument = launch.arguments.get(leaf.name, Argument())
        if leaf.kind == "pointer":
            region = buffers.get(leaf.name)
            raw = (region.base if region is not None else int(argument.value)).to_bytes(8, "little")
        elif leaf.kind == "float":
            raw = struct.pack({2: "<e", 4: "<f", 8: "<d"}[leaf.size], float(argument.value))
        else:
            raw = (int(argument.value) & ((1 << (8 * leaf.size)) - 1)).to_bytes(leaf.size, "little")
        data[leaf.formal][leaf.offset : leaf.offset + leaf.size] = raw[: leaf.size]
    return [(p, bytes(d)) for p, d in zip(entry.params, data, strict=True)]


def _symbols(memory: Memory, module: Module, launch: Launch) -> dict[str, Region]:
    """Module and function variables as objects; all dynamic shared arrays are one."""
    symbols: dict[str, Region] = {}
    variables = list(module.variables.values())
    for function in module.functions.values():
        variables += [v for v in function.variables.values() if v.space in ("shared", "global", "const")]
    dynamic: Region | None = None
    for variable in variables:
        if variable.space == "shared" and variable.size == 0:
            if dynamic is None:
                dynamic = memory.add(launch.dynamic_name, "shared", launch.config.dynamic_smem)
            symbols[variable.name] = dynamic
            continue
        name, own = source_name(variable.name)
        given = next((a.data for k, a in launch.arguments.items() if own and plain_name(k) == name), None)
        initial = variable.init if given is None or variable.space == "shared" else given
        symbols[variable.name] = memory.add(name, variable.space, variable.size, initial, own)
    _relocate(variables, symbols)
    return symbols


def _relocate(variables: Sequence[Variable], symbols: Mapping[str, Region]) -> None:
    for variable in variables:
        for offset, target, addend in variable.relocations:
            region = symbols.get(target)
            if region is not None:
                home = symbols[variable.name]
                home.data[offset : offset + 8] = np.frombuffer((region.base + addend).to_bytes(8, "little"), np.uint8)


def plain_name(object_id: str) -> str:
    """An object id without the callee path, the number of the inlined copy and the namespace."""
    return object_id.split("/")[-1].split("#")[0].split("::")[-1]


_LENGTH = re.compile(r"\d+")


def source_name(symbol: str) -> tuple[str, bool]:
    """The last component of a mangled variable name (Itanium C++ ABI, 5.1), and whether the text declares it.

    The compiler's own tables, strings and copies have a ``$`` in their name or begin with two underscores.
    """
    symbol = symbol.split("@")[0]
    if "$" in symbol:
        return symbol, False
    if not symbol.startswith("_Z"):
        return symbol, not symbol.startswith(("$", "__"))
    tail = symbol
    if symbol.startswith("_ZZ"):
        tail = symbol[symbol.rfind("E", 0, len(symbol)) :] if not _LENGTH.search(symbol) else _local_tail(symbol)
    names: list[str] = []
    position = 0
    while position < len(tail):
        match = _LENGTH.match(tail, position)
        if match is None:
            position += 1
            continue
        length = int(match.group()[:6])
        name = tail[match.end() : match.end() + length]
        position = match.end() + length
        if len(name) == length and length:
            names.append(name)
    names = [n for n in names if not n.startswith(("_INTERNAL_", "_GLOBAL__N"))]
    return (names[-1] if names else symbol), True


def _local_tail(symbol: str) -> str:
    """What follows the function's encoding: the shortest end that reads ``E <length> <name>`` to the last letter."""
    for position in range(len(symbol) - 1, 2, -1):
        if symbol[position] == "E":
            match = re.fullmatch(r"E(\d+)(.*?)(_\d+_?|_)?", symbol[position:])
            if match is None:
                continue
            length = int(match.group(1)[:6])
            rest = symbol[position + 1 + len(match.group(1)) :]
            if length and len(rest) >= length and re.fullmatch(r"(?:_\d+_?)?", rest[length:]):
                return f"{length}{rest[:length]}"
    return symbol
