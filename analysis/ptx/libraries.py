"""Finds the compilers and toolkit headers of this machine, without running anything."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What there is: NVRTC as (libraries to load first, library), ``nvcc``, and toolkit include folders."""

    nvrtc: Path | None
    preload: tuple[Path, ...]
    nvcc: Path | None
    includes: tuple[Path, ...]


def toolchain() -> Toolchain:
    """NVRTC from its wheel (CUDA 13 or 12 layout), nvcc from the search path, headers from wheels or beside nvcc."""
    roots = _wheel_roots()
    nvrtc, preload = _nvrtc(roots)
    nvcc = _nvcc()
    return Toolchain(nvrtc, preload, nvcc, _includes(roots, nvcc))


def _wheel_roots() -> list[Path]:
    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    return [
        root / name
        for root in map(Path, places)
        for name in ("cu13", "cuda_nvrtc", "cuda_runtime", "cuda_cccl", "cu12")
        if (root / name).is_dir()
    ]


def _nvrtc(roots: list[Path]) -> tuple[Path | None, tuple[Path, ...]]:
    """macOS installs an empty wheel, so the file decides, not the distribution."""
    for root in roots:
        for folder in (root / "lib", root / "bin", root / "bin" / "x86_64"):
            found = sorted(p for pattern in ("libnvrtc.so.*", "nvrtc64_*.dll") for p in folder.glob(pattern))
            libraries = [p for p in found if ".alt." not in p.name and "builtins" not in p.name]
            if libraries:
                builtins = [p for pattern in ("libnvrtc-builtins.so.*", "nvrtc-builtins64_*.dll")
                            for p in sorted(folder.glob(pattern)) if ".alt." not in p.name]  # fmt: skip
                return libraries[0].resolve(), tuple(p.resolve() for p in builtins)
    return None, ()


def _nvcc() -> Path | None:
    """The real nvcc: what the search path names is often a script or a link into a toolkit."""
    named = shutil.which("nvcc")
    if named is None:
        return None
    path = Path(named).resolve()
    if not (path.parent.parent / "include" / "cuda_runtime.h").is_file():
        for root in (Path("/usr/local/cuda"), Path("/opt/cuda")):
            if (root / "bin" / "nvcc").is_file():
                return (root / "bin" / "nvcc").resolve()
    return path


def _includes(roots: list[Path], nvcc: Path | None) -> tuple[Path, ...]:
    candidates = [root / "include" for root in roots]
    if nvcc is not None:
        candidates.append(nvcc.parent.parent / "include")
    for folder in candidates:
        if (folder / "cuda_fp16.h").is_file():
            found = [folder.resolve()]
            found += [f.resolve() for c in [folder, *candidates] for f in [c / "cccl"] if f.is_dir()]
            return tuple(dict.fromkeys(found))
    return ()
