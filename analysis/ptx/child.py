"""The confined compiler: reads a job as JSON on stdin, writes one JSON line for each unit to stdout.

Runs as its own process with an empty environment (``compile.py`` starts it) and uses nothing but the standard library,
so that it starts in milliseconds and no package of the review is loaded beside a compiler. Before it reads any source
it gives up what it can: CPU time, address space, file size and core files are limited; the network is left through
a new namespace; the file system is closed by Landlock but for the toolkit and the process's own folder. What a
platform cannot do is named in the first line it writes.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from typing import Any

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_SET_NO_NEW_PRIVS = 38
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
READ_ACCESS = 1 << 0 | 1 << 2 | 1 << 3  # execute, read file, read folder
ALL_ACCESS = (1 << 13) - 1  # every right of the first Landlock version
MAX_PTX = 32 << 20

Json = dict[str, Any]


def main() -> int:
    job: Json = json.load(sys.stdin)
    nvrtc = load_nvrtc(job) if job["reader"] == "nvrtc" else None
    emit({"confinement": confine(job)})
    for unit in job["units"]:
        emit({"start": unit["id"]})
        result = nvrtc.compile(unit, job) if nvrtc is not None else compile_with_nvcc(unit, job)
        emit({"id": unit["id"], **result})
    return 0


def emit(message: Json) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


# --- confinement ---


def confine(job: Json) -> dict[str, str]:
    """What holds for this process from now on: each measure "on", or why not."""
    return {"limits": _limits(job), "network": _leave_network(), "files": _close_files(job)}


def _limits(job: Json) -> str:
    try:
        import resource
    except ImportError:
        return "no resource limits on this platform"
    wanted = (
        (resource.RLIMIT_CPU, job["cpu_seconds"]),
        (resource.RLIMIT_AS, job["memory_bytes"]),
        (resource.RLIMIT_FSIZE, job["file_bytes"]),
        (resource.RLIMIT_CORE, 0),
    )
    for kind, value in wanted:
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    return "on"


def _leave_network() -> str:
    if not sys.platform.startswith("linux"):
        return "no network namespaces on this platform"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0:
        return "on"
    return f"unshare refused: {os.strerror(ctypes.get_errno())}"


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _close_files(job: Json) -> str:
    if not sys.platform.startswith("linux"):
        return "no Landlock on this platform"
    libc = ctypes.CDLL(None, use_errno=True)
    handled = ctypes.c_uint64(ALL_ACCESS)
    ruleset = libc.syscall(LANDLOCK_CREATE, ctypes.byref(handled), ctypes.c_size_t(8), 0)
    if ruleset < 0:
        return f"Landlock refused: {os.strerror(ctypes.get_errno())}"
    for path in job["readable"]:
        _allow(libc, ruleset, path, READ_ACCESS)
    _allow(libc, ruleset, os.getcwd(), ALL_ACCESS)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or libc.syscall(LANDLOCK_RESTRICT, ruleset, 0) != 0:
        return f"Landlock refused: {os.strerror(ctypes.get_errno())}"
    os.close(ruleset)
    return "on"


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, access: int) -> None:
    try:
        folder = os.open(path, os.O_PATH)
    except OSError:
        return  # a path that is not there needs no rule
    try:
        if not os.path.isdir(path):
            access &= 1 << 0 | 1 << 1 | 1 << 2
        rule = _PathRule(access, folder)
        libc.syscall(LANDLOCK_ADD, ruleset, 1, ctypes.byref(rule), 0)
    finally:
        os.close(folder)


# --- NVRTC ---


class Nvrtc:
    """The compiler library, by its C interface (NVRTC documentation, chapter 2)."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        major, minor = ctypes.c_int(), ctypes.c_int()
        library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"NVRTC {major.value}.{minor.value}"

    def compile(self, unit: Json, job: Json) -> Json:
        program = ctypes.c_void_p()
        headers: dict[str, str] = job["headers"]
        texts = (ctypes.c_char_p * len(headers))(*(t.encode() for t in headers.values()))
        names = (ctypes.c_char_p * len(headers))(*(n.encode() for n in headers))
        text = unit["text"].encode()
        status = self.library.nvrtcCreateProgram(ctypes.byref(program), text, b"unit.cu", len(headers), texts, names)
        if status != 0:
            return {"failure": f"NVRTC refused the program (status {status})"}
        try:
            for name in unit["names"]:
                self.library.nvrtcAddNameExpression(program, name.encode())
            options = [o.encode() for o in job["options"]]
            status = self.library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
            if status != 0:
                return {"log": self._text(program, "ProgramLog"), "version": self.version}
            return self._result(program, unit)
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))

    def _result(self, program: ctypes.c_void_p, unit: Json) -> Json:
        names: dict[str, str] = {}
        for name in unit["names"]:
            lowered = ctypes.c_char_p()
            if self.library.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(lowered)) == 0:
                names[name] = (lowered.value or b"").decode()
        return {"ptx": self._text(program, "PTX"), "names": names, "version": self.version}

    def _text(self, program: ctypes.c_void_p, what: str) -> str:
        size = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        if size.value > MAX_PTX:
            return ""
        buffer = ctypes.create_string_buffer(max(size.value, 1))
        getattr(self.library, f"nvrtcGet{what}")(program, buffer)
        return buffer.value.decode("utf-8", "replace")


def load_nvrtc(job: Json) -> Nvrtc:
    """The library by its path; its builtins first, where the loader would not find them by itself."""
    for path in job["preload"]:
        ctypes.CDLL(path, getattr(ctypes, "RTLD_GLOBAL", 0))
    return Nvrtc(ctypes.CDLL(job["library"]))


# --- nvcc ---


def compile_with_nvcc(unit: Json, job: Json) -> Json:
    """Writes the unit into the process's own folder and lets nvcc make PTX."""
    source, target = os.path.abspath("unit.cu"), os.path.abspath("unit.ptx")
    with open(source, "w", encoding="utf-8") as file:
        file.write(unit["text"])
    command = [job["nvcc"], "-ptx", *job["options"], "-o", target, source]
    environment = {"PATH": os.pathsep.join(job["path"]), "TMPDIR": os.getcwd(), "TEMP": os.getcwd()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        return {"log": done.stdout + done.stderr, "version": "nvcc"}
    with open(target, encoding="utf-8", errors="replace") as file:
        return {"ptx": file.read(MAX_PTX), "names": {}, "version": "nvcc"}


if __name__ == "__main__":
    sys.exit(main())
