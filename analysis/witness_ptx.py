"""The second reader: a kernel cut out of its repository, compiled to PTX, interpreted; the same trace by another road.

``read`` yields what ``interpret.run`` yields, but through a compiler's front end instead of ours. ``compare`` says
where two traces part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from prelaunch.analysis.frontends.cuda import project_from_text
from prelaunch.analysis.frontends.cuda.text.project import FunctionDecl, Project
from prelaunch.analysis.kernel import Kernel, Pointer, Scalar
from prelaunch.analysis.ptx.compile import Compiled, Reader, Unavailable, Unit, choose, compile_units
from prelaunch.analysis.ptx.execute import DYNAMIC, MAX_EVENTS, MAX_STEPS, Launch, Leaf, execute, plain_name
from prelaunch.analysis.ptx.libraries import toolchain
from prelaunch.analysis.ptx.module import Module, PtxError
from prelaunch.analysis.ptx.parse import parse
from prelaunch.analysis.ptx.slice import NotSliced, SlicedSource, slice_kernel
from prelaunch.analysis.trace import Argument, Event, LaunchConfig, Trace

__all__ = [
    "ARCH", "Disagreement", "NotSliced", "Program", "Request", "Unavailable", "compare", "leaves_of", "plain_name",
    "prepare", "read", "run",
]  # fmt: skip

ARCH = "compute_90"
"""The architecture whose ``__CUDA_ARCH__`` the front end assumes when it chooses ``#if`` branches."""


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled kernel ready to run: ``entry`` is its PTX name; ``failure`` says why there is no module."""

    module: Module | None
    entry: str = ""
    files: dict[int, str] = field(default_factory=dict)
    failure: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """A kernel to be cut out; ``root`` as in ``slice_kernel``."""

    project: Project
    decl: FunctionDecl
    template_args: tuple[str, ...] = ()
    root: str | None = None


def prepare(requests: Sequence[Request], arch: str = ARCH, reader: Reader | None = None) -> list[Program]:
    """Slices and compiles kernels, all in one child. Raises ``Unavailable`` when there is no compiler."""
    tools = toolchain()
    kind = choose(tools, reader)
    slices: list[SlicedSource | str] = []
    for request in requests:
        try:
            slices.append(
                slice_kernel(request.project, request.decl, request.template_args, request.root, bool(tools.includes))
            )
        except NotSliced as error:
            slices.append(str(error))
    found = [s for s in slices if isinstance(s, SlicedSource)]
    results = compile_units([Unit(s.text(kind), (s.kernel,)) for s in found], arch, kind)
    again = [i for i, (s, r) in enumerate(zip(found, results, strict=True)) if r.ptx is None and s.uses_groups]
    if again and tools.includes:
        units = [Unit(found[i].text(kind, own_groups=False), (found[i].kernel,)) for i in again]
        for i, result in zip(again, compile_units(units, arch, kind), strict=True):
            results[i] = result
    compiled = iter(results)
    return [_program(s, next(compiled)) if isinstance(s, SlicedSource) else Program(None, failure=s) for s in slices]


def _program(source: SlicedSource, compiled: Compiled) -> Program:
    if compiled.ptx is None:
        reason = compiled.failure
        for name, path in source.files.items():
            reason = re.sub(rf"^{name}:", lambda m, path=path: f"{path}:", reason)  # type: ignore[misc]  # early binding
        return Program(None, failure=reason, version=compiled.version)
    try:
        module = parse(compiled.ptx)
    except PtxError as error:
        return Program(None, failure=f"PTX: {error}", version=compiled.version)
    files = {
        number: source.files[base]
        for number, name in module.files.items()
        if (base := PurePosixPath(name.replace("\\\\", "/").replace("\\", "/")).name) in source.files
    }
    entry = compiled.names.get(source.kernel) or _entry_of(module, source.kernel)
    return Program(module, entry, files, version=compiled.version)


def _entry_of(module: Module, kernel: str) -> str:
    """nvcc does not say which entry a name means; without templates and overloads there is one that mentions it."""
    simple = kernel.partition("<")[0].split("::")[-1]
    wanted = f"{len(simple)}{simple}"
    found = [n for n, f in module.functions.items() if f.entry and f.defined and (wanted in n or n == simple)]
    return found[-1] if found else ""


def leaves_of(kernel: Kernel) -> list[Leaf]:
    """Scalars and pointers inside the parameters, from the lowered kernel's layout."""
    found: list[Leaf] = []
    for param in kernel.params:
        kind = param.var.type
        if isinstance(kind, Pointer):
            found.append(Leaf(param.var.name, param.formal, param.offset, 8, "pointer", param.object or param.var.name))
        elif isinstance(kind, Scalar):
            found.append(
                Leaf(param.var.name, param.formal, param.offset, kind.size, "float" if kind.kind == "float" else "int")
            )
    return found


_ARRAY = re.compile(r"\[[^\]]*\]")


def leaves_of_declaration(decl: FunctionDecl, module: Module, entry: str) -> list[Leaf]:
    """Plain parameters from the declaration alone: pointers by their ``*`` or ``[]``, scalars by the compiled size."""
    found: list[Leaf] = []
    params = module.functions[entry].params if entry in module.functions else []
    for index, (node, compiled) in enumerate(zip(decl.parameters, params, strict=False)):
        text = decl.file.text(node).partition("=")[0]
        name = (re.findall(r"[A-Za-z_]\w*", _ARRAY.sub("", text)) or [f"arg{index}"])[-1]
        if "*" in text or "[" in text:
            found.append(Leaf(name, index, 0, 8, "pointer", name))
        elif compiled.size in (1, 2, 4, 8):
            kind = re.search(r"\b(?:float|double|half|__half)\b", text)
            found.append(Leaf(name, index, 0, compiled.size, "float" if kind else "int"))
    return found


def read(
    source: str | Project,
    decl: FunctionDecl | str,
    template_args: Sequence[str] = (),
    config: LaunchConfig | None = None,
    arguments: Mapping[str, Argument] | None = None,
    *,
    kernel: Kernel | None = None,
    arch: str = ARCH,
    reader: Reader | None = None,
    max_steps: int = MAX_STEPS,
    max_events: int = MAX_EVENTS,
) -> Trace:
    """The trace of one launch. ``decl`` may name the kernel; ``kernel`` is its lowered form, used for nothing but the
    layout of struct parameters and the name of dynamic shared memory.

    A kernel that cannot be cut out or compiled yields a trace with status "stopped" and the reason. Raises
    ``Unavailable`` when no compiler is installed, KeyError when there is no such kernel.
    """
    project = project_from_text(source) if isinstance(source, str) else source
    found = _find(project, decl) if isinstance(decl, str) else decl
    (program,) = prepare([Request(project, found, tuple(template_args))], arch, reader)
    return run(program, found, config or LaunchConfig(), arguments or {}, kernel, max_steps, max_events)


def _find(project: Project, name: str) -> FunctionDecl:
    for decl in project.kernels():
        if name in (decl.name, decl.qualified):
            return decl
    raise KeyError(name)


def run(
    program: Program,
    decl: FunctionDecl,
    config: LaunchConfig,
    arguments: Mapping[str, Argument],
    kernel: Kernel | None = None,
    max_steps: int = MAX_STEPS,
    max_events: int = MAX_EVENTS,
) -> Trace:
    """Runs a prepared kernel. Arguments are those of ``interpret.run``: one for each leaf, by name."""
    if program.module is None:
        return Trace((), (), "stopped", program.failure)
    if kernel is not None:
        leaves = leaves_of(kernel)
        dynamic = next((o.id for o in kernel.objects if o.dynamic), DYNAMIC)
    else:
        leaves = leaves_of_declaration(decl, program.module, program.entry)
        dynamic = DYNAMIC
    launch = Launch(program.entry, config, leaves, arguments, program.files, dynamic, max_steps, max_events)
    return execute(program.module, launch)


# --- comparison ---


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Bytes that one trace touches at a place and the other does not, for one thread, phase and mode."""

    block: int
    thread: int
    phase: int
    mode: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    missing: frozenset[tuple[str, str, int]] = frozenset()  # (object, file, line) of what only the first trace has
    extra: frozenset[tuple[str, str, int]] = frozenset()  # ... of what only the second has

    def __str__(self) -> str:
        where = f"block {self.block} thread {self.thread} phase {self.phase} {self.mode}"
        return f"{where}: only first: {'; '.join(self.first) or '-'} | only second: {'; '.join(self.second) or '-'}"


Anchor = Callable[[str, int], int]
"""Maps (file, line) to the first line of the statement the line belongs to."""

_Key = tuple[int, int, int, str]
_Byte = tuple[str, int, str, int]
_Access = tuple[str, int, int, str, int]


def compare(
    first: Trace, second: Trace, anchor: Anchor | None = None, modes: Sequence[str] = ("read", "write", "atomic"),
    limit: int = 20,
) -> list[Disagreement]:  # fmt: skip
    """Where the accesses of two traces part, thread by thread and phase by phase.

    How an access is split into words and the order inside a phase do not matter. Object ids are compared without the
    path of inlined callees. At most ``limit`` disagreements, in order.
    """
    names: dict[str, str] = {}
    lines: dict[tuple[str, int], int] = {}
    left, right = (_accesses(trace, anchor, modes, names, lines) for trace in (first, second))
    found: list[Disagreement] = []
    for key in sorted(left.keys() | right.keys()):
        mine, others = left.get(key, []), right.get(key, [])
        if mine == others or sorted(mine) == sorted(others):
            continue
        a, b = _bytes(mine), _bytes(others)
        if a != b:
            found.append(Disagreement(*key, _shown(a - b), _shown(b - a), _places(a - b), _places(b - a)))
            if len(found) >= limit:
                break
    return found


def _accesses(
    trace: Trace, anchor: Anchor | None, modes: Sequence[str], names: dict[str, str], lines: dict[tuple[str, int], int]
) -> dict[_Key, list[_Access]]:
    """Accesses by thread, phase and mode; ``names`` and ``lines`` remember what was looked up."""
    found: dict[_Key, list[_Access]] = {}
    for event in trace.events:
        if event.mode not in modes:
            continue
        name = names.get(event.object)
        if name is None:
            name = names[event.object] = plain_name(event.object)
        place = (event.file, event.line)
        line = lines.get(place)
        if line is None:
            line = lines[place] = anchor(*place) if anchor is not None else event.line
        key = (event.block, event.thread, event.phase, event.mode)
        found.setdefault(key, []).append((name, event.offset, event.size, event.file, line))
    return found


def _bytes(accesses: Sequence[_Access]) -> Counter[_Byte]:
    return Counter((n, byte, file, line) for n, at, size, file, line in accesses for byte in range(at, at + size))


def _places(difference: Counter[_Byte]) -> frozenset[tuple[str, str, int]]:
    return frozenset((name, file, line) for name, _, file, line in difference)


def _shown(difference: Counter[_Byte]) -> tuple[str, ...]:
    """Runs of bytes as ``object[start:end] file:line``."""
    rows: list[str] = []
    run_start: _Byte | None = None
    previous: _Byte | None = None
    for item in sorted(difference, key=lambda i: (i[0], i[2], i[3], i[1])):
        if previous is None or run_start is None or item != (previous[0], previous[1] + 1, previous[2], previous[3]):
            if run_start is not None and previous is not None:
                rows.append(_row(run_start, previous))
            run_start = item
        previous = item
    if run_start is not None and previous is not None:
        rows.append(_row(run_start, previous))
    return tuple(rows[:6])


def _row(start: _Byte, end: _Byte) -> str:
    return f"{start[0]}[{start[1]}:{end[1] + 1}] {start[2]}:{start[3]}"


def by_line(events: Sequence[Event]) -> Counter[tuple[str, str, int]]:
    """How many accesses there are by (mode, object, line): a short view for reports."""
    return Counter((e.mode, plain_name(e.object), e.line) for e in events)
