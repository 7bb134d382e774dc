"""Step 1 of a review: which files to read.

Postconditions: every file lies under ``root`` once symlinks are resolved, is a regular file of at most MAX_BYTES and
holds text; paths are relative to ``root``, with ``/``, sorted. Whatever looked like CUDA and is not read stands in
``skipped`` with the reason. Nothing in the repository is executed.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from prelaunch.analysis import git
from prelaunch.analysis.frontends.cuda.text.includes import Resolver, all_directives, scan_includes
from prelaunch.analysis.source import Source

MAX_BYTES = 4 << 20
MAX_FILES = 20_000
MAX_ENTRIES = 1_000_000
"""Directory entries looked at where git gives no list."""
CUDA_SUFFIXES = frozenset({".cu", ".cuh"})
TEXT_SUFFIXES = CUDA_SUFFIXES | frozenset(
    {".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ipp", ".tpp", ".cuinc", ".impl"}
)
VENDORED = frozenset(
    {"third_party", "thirdparty", "third-party", "3rdparty", "3rd_party", "external", "externals", "extern", "vendor",
     "vendored", "node_modules", "site-packages", "_deps", "build", "_build", "dist", ".venv", "venv", ".git"}
)  # fmt: skip
_MARKS = (
    b"__global__", b"__device__", b"__shared__", b"<<<", b"cudaLaunch", b"cuLaunchKernel", b"cudaMalloc",
    b"cuda_runtime", b"<cuda",
)  # fmt: skip


class NothingToReview(Exception):
    """A path does not exist or cannot be read, or no CUDA is found under it; the message is fit for a user."""


@dataclass(frozen=True, slots=True, order=True)
class Skipped:
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Discovery:
    """``files`` are reviewed; ``included`` are read because those include them (never reviewed when vendored).

    ``root`` is the git work tree that holds all paths asked for, else the deepest folder that does. ``asked`` are the
    paths given, relative to ``root``. ``revision`` is the commit checked out, where git knows.
    """

    root: Path
    asked: tuple[str, ...]
    files: tuple[str, ...]
    included: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    revision: str | None = None

    def reviews(self, path: str) -> bool:
        """Whether kernels in ``path`` are under review: files asked for, and what they include unless vendored."""
        return path in self.files or (path in self.included and vendored_part(path, ()) is None)


def discover(paths: Sequence[Path], *, vendored: bool = False) -> Discovery:
    """Files to review under ``paths`` (files or folders). Raises NothingToReview."""
    asked = [_existing(path) for path in paths]
    common = Path(os.path.commonpath([path if path.is_dir() else path.parent for path in asked]))
    top = git.toplevel(common)
    root = top or common
    skipped: list[Skipped] = []
    names = _listing(root, asked, None if top is None else git.files(root), skipped)
    found: set[str] = set()
    for path in asked:
        name = _relative(path, root)
        if path.is_file():
            if _readable(root, name, skipped) is not None:
                found.add(name)
        else:
            found.update(_in_folder(root, name, names, skipped, vendored))
    if not found:
        raise NothingToReview(_nothing(paths, skipped))
    included = _included(root, sorted(found), names, skipped)
    return Discovery(
        root,
        tuple(sorted({_relative(path, root) for path in asked})),
        tuple(sorted(found)),
        included,
        tuple(sorted(set(skipped))),
        None if top is None else git.head(root),
    )


def vendored_part(name: str, below: tuple[str, ...]) -> str | None:
    """The vendored folder that ``name`` lies in, as a path; components of the folder asked for do not count."""
    parts = PurePosixPath(name).parts
    for index in range(len(below), len(parts) - 1):
        if parts[index].lower() in VENDORED or parts[index].startswith("cmake-build-"):
            return "/".join(parts[: index + 1])
    return None


def _existing(path: Path) -> Path:
    try:
        resolved = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "cannot be resolved"
        raise NothingToReview(f"{path}: {reason}") from None
    if not resolved.is_file() and not resolved.is_dir():
        raise NothingToReview(f"{path}: neither a file nor a folder")
    if not os.access(resolved, os.R_OK):
        raise NothingToReview(f"{path}: Permission denied")
    return resolved


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _listing(root: Path, asked: list[Path], listed: list[str] | None, skipped: list[Skipped]) -> list[str]:
    """Source files under ``root`` by suffix: git's list, completed by a walk of what git ignores but was asked for."""
    names = set(_walk(root, root, skipped) if listed is None else listed)
    if listed is not None:
        for path in asked:
            prefix = _relative(path, root) + "/"
            if path.is_dir() and path != root and not any(name.startswith(prefix) for name in listed):
                names.update(_walk(root, path, skipped))
    return sorted(name for name in names if _suffix(name) in TEXT_SUFFIXES)


def _walk(root: Path, start: Path, skipped: list[Skipped]) -> Iterable[str]:
    """Source files under ``start``, relative to ``root``; symlinked folders are not entered, so loops cannot be."""
    cut = len(os.path.join(root, ""))
    seen = 0
    for folder, below, names in os.walk(start, followlinks=False):
        below[:] = sorted(name for name in below if name != ".git")
        prefix = os.path.join(folder, "")[cut:].replace(os.sep, "/")
        yield from (prefix + name for name in names if _suffix(name) in TEXT_SUFFIXES)
        seen += len(names)
        if seen > MAX_ENTRIES:
            skipped.append(Skipped(prefix or "./", f"the rest of {MAX_ENTRIES} directory entries and more"))
            return


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _in_folder(root: Path, folder: str, names: list[str], skipped: list[Skipped], vendored: bool) -> Iterable[str]:
    prefix = "" if folder == "." else folder + "/"
    below = PurePosixPath(prefix).parts
    left_out: Counter[str] = Counter()
    count = 0
    for name in names:
        if not name.startswith(prefix):
            continue
        part = None if vendored else vendored_part(name, below)
        if part is not None:
            left_out[part] += _looks_like_cuda(root, name)
            continue
        if not _looks_like_cuda(root, name):
            continue
        if count >= MAX_FILES:
            skipped.append(Skipped(name, f"more than {MAX_FILES} files"))
        elif _readable(root, name, skipped) is not None:
            count += 1
            yield name
    for part, number in left_out.items():
        if number:
            files = "1 CUDA file" if number == 1 else f"{number} CUDA files"
            skipped.append(Skipped(part + "/", f"vendored: {files} not reviewed (--vendored reviews them)"))


def _looks_like_cuda(root: Path, name: str) -> bool:
    """By suffix, or by a CUDA word in the text; files that cannot be read count by suffix alone."""
    if _suffix(name) in CUDA_SUFFIXES:
        return True
    data = _readable(root, name, None)
    return data is not None and any(mark in data for mark in _MARKS)


def _readable(root: Path, name: str, skipped: list[Skipped] | None) -> bytes | None:
    """Contents of a regular file inside ``root``; None, with the reason in ``skipped``, for anything else."""
    path = root / name
    reason = ""
    try:
        real = Path(os.path.realpath(path, strict=True))
        mode = real.stat()
        if not real.is_relative_to(root):
            reason = "symbolic link out of the repository"
        elif not stat.S_ISREG(mode.st_mode):
            reason = "a submodule or folder" if stat.S_ISDIR(mode.st_mode) else "not a regular file"
        elif mode.st_size > MAX_BYTES:
            reason = f"{mode.st_size / (1 << 20):.1f} MiB, more than the {MAX_BYTES >> 20} MiB read"
        else:
            data = real.read_bytes()
            if b"\0" not in data[:8192]:
                return data
            reason = "binary"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "unreadable"
    if skipped is not None:
        skipped.append(Skipped(name, reason))
    return None


def _included(root: Path, files: list[str], names: list[str], skipped: list[Skipped]) -> tuple[str, ...]:
    """What ``files`` include, directly or not, among ``names``; found by text, conditions of ``#if`` ignored."""
    resolver = Resolver([*names, *files])
    seen, queue = set(files), list(files)
    while queue and len(seen) < MAX_FILES:
        name = queue.pop()
        data = _readable(root, name, None)
        if data is None:
            continue
        source = Source(name, data)
        for spelling, system, _ in scan_includes(source, all_directives(data)[1]):
            target = resolver.resolve(spelling, system, name)
            if target is not None and target not in seen and _readable(root, target, skipped) is not None:
                seen.add(target)
                queue.append(target)
    return tuple(sorted(seen - set(files)))


def _nothing(paths: Sequence[Path], skipped: list[Skipped]) -> str:
    where = ", ".join(str(path) for path in paths)
    if skipped:
        first = skipped[0]
        more = f" and {len(skipped) - 1} more" if len(skipped) > 1 else ""
        return f"{where}: nothing to review: skipped {first.path} ({first.reason}){more}"
    return f"{where}: no CUDA source found (looked for .cu, .cuh, and C++ files that mention CUDA)"
