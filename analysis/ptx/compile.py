"""CUDA text to PTX in a confined child process; what a compiler says is never passed on as it stands."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from prelaunch.analysis.ptx import child
from prelaunch.analysis.ptx.headers import STUBS
from prelaunch.analysis.ptx.libraries import Toolchain, toolchain

UNIT_SECONDS = 20.0
MEMORY_BYTES = 6 << 30
FILE_BYTES = 64 << 20
MAX_DIAGNOSTICS = 20
INSTALL = "pip install 'prelaunch[sass]'"


class Unavailable(Exception):
    """No compiler on this machine; the message says what to install."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One translation unit without includes of repository files, and the kernels wanted from it, as C++ expressions
    (``ns::f<256, float>``)."""

    text: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """``file`` is the name given by the unit's own line directives; ``message`` is short and printable."""

    file: str
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Compiled:
    """``ptx`` is None when ``failure`` says why; ``names`` maps name expressions to PTX names (NVRTC only)."""

    ptx: str | None
    names: dict[str, str] = field(default_factory=dict)
    failure: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    version: str = ""
    confinement: dict[str, str] = field(default_factory=dict)


Reader = Literal["nvrtc", "nvcc"]


def choose(tools: Toolchain, reader: Reader | None = None) -> Reader:
    """NVRTC where there is one, else nvcc. Raises ``Unavailable``."""
    if reader in (None, "nvrtc") and tools.nvrtc is not None:
        return "nvrtc"
    if reader in (None, "nvcc") and tools.nvcc is not None:
        return "nvcc"
    wanted = "NVRTC or nvcc" if reader is None else reader
    raise Unavailable(f"the second reader needs {wanted}: {INSTALL}")


def compile_units(
    units: Sequence[Unit], arch: str = "compute_80", reader: Reader | None = None, unit_seconds: float = UNIT_SECONDS
) -> list[Compiled]:
    """One result for each unit, in order. A unit that crashes the compiler or runs too long fails alone.

    Raises ``Unavailable`` when there is no compiler.
    """
    tools = toolchain()
    kind = choose(tools, reader)
    if not re.fullmatch(r"compute_\d{2,3}[af]?", arch):
        raise ValueError(f"not an architecture: {arch!r}")
    results: dict[int, Compiled] = {}
    while len(results) < len(units):
        pending = [i for i in range(len(units)) if i not in results]
        _run_child(tools, kind, arch, units, pending, results, unit_seconds)
    return [results[i] for i in range(len(units))]


def _job(tools: Toolchain, reader: Reader, arch: str, units: Sequence[Unit], pending: list[int]) -> dict[str, Any]:
    options = ["--std=c++17", "-G", f"--gpu-architecture={arch}", *(f"-I{p}" for p in tools.includes)]
    options.append("-fmad=false" if reader == "nvcc" else "--fmad=false")
    if reader == "nvrtc":
        options += ["-default-device", "-w"]
    library = tools.nvrtc
    readable = [str(p) for p in tools.includes]
    if library is not None:
        readable.append(str(library.parent))
    readable += ["/dev/null", "/dev/urandom", "/proc/self"]
    path: list[str] = []
    if reader == "nvcc" and tools.nvcc is not None:
        path = [str(tools.nvcc.parent), "/usr/bin", "/bin"]
        readable += [str(tools.nvcc.parent.parent), "/usr/bin", "/bin", "/lib", "/lib64", "/usr/lib", "/usr/include",
                     "/usr/libexec", "/etc/ld.so.cache", "/etc/alternatives"]  # fmt: skip
    return {
        "reader": reader,
        "library": str(library),
        "preload": [str(p) for p in tools.preload],
        "nvcc": str(tools.nvcc),
        "path": path,
        "options": options,
        "headers": STUBS if reader == "nvrtc" else {},
        "readable": readable,
        "cpu_seconds": int(UNIT_SECONDS) * max(4, len(pending)),
        "memory_bytes": MEMORY_BYTES,
        "file_bytes": FILE_BYTES,
        "units": [{"id": i, "text": units[i].text, "names": list(units[i].names)} for i in pending],
    }


def _run_child(
    tools: Toolchain,
    reader: Reader,
    arch: str,
    units: Sequence[Unit],
    pending: list[int],
    results: dict[int, Compiled],
    unit_seconds: float,
) -> None:
    """Compiles as many pending units as one child lasts; at least one gets a result."""
    with tempfile.TemporaryDirectory(prefix="prelaunch-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(child.__file__).resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=_environment(),
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        job = json.dumps(_job(tools, reader, arch, units, pending)).encode()
        feeder = threading.Thread(target=_feed, args=(process.stdin, job), daemon=True)
        feeder.start()
        try:
            current = _collect(process, process.stdout, results, unit_seconds)
        finally:
            _kill(process)
            feeder.join()
            process.stdout.close()
    missing = [i for i in pending if i not in results]
    if (missing and len(missing) == len(pending)) or current is not None:
        failed = current if current is not None else missing[0]
        results[failed] = Compiled(None, failure=_ending(process.returncode, unit_seconds))


def _environment() -> dict[str, str]:
    """Nothing but what Windows needs to start a process at all."""
    return {k: os.environ[k] for k in ("SYSTEMROOT",) if k in os.environ}


def _feed(pipe: IO[bytes], data: bytes) -> None:
    try:
        pipe.write(data)
        pipe.close()
    except OSError:
        return  # the child has died; its results say so


def _collect(
    process: subprocess.Popen[bytes], pipe: IO[bytes], results: dict[int, Compiled], unit_seconds: float
) -> int | None:
    """Reads results until the child ends or a unit overruns; returns the unit that got none."""
    current: int | None = None
    confinement: dict[str, str] = {}
    while True:
        watchdog = threading.Timer(unit_seconds, _kill, (process,))
        watchdog.start()
        line = pipe.readline()
        watchdog.cancel()
        if not line:
            process.wait()
            return current
        try:
            message = json.loads(line)
        except ValueError:
            return current
        if "confinement" in message:
            confinement = message["confinement"]
        elif "start" in message:
            current = message["start"]
        else:
            results[message["id"]] = _result(message, confinement)
            current = None


def _result(message: dict[str, Any], confinement: dict[str, str]) -> Compiled:
    version = str(message.get("version", ""))[:40]
    if "ptx" in message:
        return Compiled(message["ptx"], message["names"], version=version, confinement=confinement)
    if "failure" in message:
        return Compiled(None, failure=sanitised(message["failure"]), version=version, confinement=confinement)
    found = diagnostics(message.get("log", ""))
    first = f"{found[0].file}:{found[0].line}: {found[0].message}" if found else "the compiler gave no reason"
    return Compiled(None, {}, first, found, version, confinement)


def _ending(code: int | None, unit_seconds: float) -> str:
    if code is not None and code < 0:
        if -code == signal.SIGTERM or -code == getattr(signal, "SIGKILL", 9):
            return f"the compiler was stopped after {unit_seconds:g} s or at its limits"
        return f"the compiler died of signal {-code}"
    return f"the compiler ended early with status {code}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends the child and what it started."""
    with contextlib.suppress(OSError):  # already gone
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


_DIAGNOSTIC = re.compile(r"^(?P<file>[^\n():]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<what>.*)$")


def diagnostics(log: str) -> tuple[Diagnostic, ...]:
    """Errors of a compiler log by place. Quoted source lines of the log are dropped."""
    found: list[Diagnostic] = []
    for line in log.splitlines():
        match = _DIAGNOSTIC.match(line)
        if match and len(found) < MAX_DIAGNOSTICS:
            found.append(Diagnostic(sanitised(match["file"])[:80], int(match["line"][:9]), sanitised(match["what"])))
    return tuple(found)


def sanitised(text: str) -> str:
    """One short line of printable ASCII."""
    return "".join(c if " " <= c <= "~" else " " for c in text)[:160].strip()
