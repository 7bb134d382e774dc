"""The only door to git: three read-only questions, asked of a repository that may be hostile.

A repository's own configuration can name programs that ordinary read-only commands run (``core.fsmonitor``, hooks,
filters, pagers, external diffs) and remotes that missing objects are fetched from. Every call here therefore runs
with an emptied environment, no system or user configuration, those settings overridden on the command line, no
transport allowed, no submodule entered, no lock taken, and a time limit. None of the commands reads file contents.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SECONDS = 30
_MAX_OUTPUT = 64 << 20

_OVERRIDES = (
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.sshCommand=false",
    "core.askPass=false",
    "core.quotePath=false",
    "credential.helper=",
    "diff.external=",
    "protocol.allow=never",
    "submodule.recurse=false",
    "safe.bareRepository=explicit",
    "safe.directory=*",  # reading is all that happens here; what an owner could make git run is overridden above
)
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": os.devnull,
    "LC_ALL": "C",
}


def toplevel(folder: Path) -> Path | None:
    """The work tree that ``folder`` lies in, symlinks resolved; None outside of one or where git is missing.

    A work tree that does not contain ``folder`` (``core.worktree`` pointing elsewhere) is refused.
    """
    out = _git(folder, "rev-parse", "--show-toplevel")
    if not out:
        return None
    top = Path(os.path.realpath(os.fsdecode(out.rstrip(b"\n"))))
    return top if folder.resolve().is_relative_to(top) else None


def files(folder: Path) -> list[str] | None:
    """Tracked and untracked, not ignored, paths under ``folder``, relative to it, sorted; None where git cannot say."""
    out = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if out is None:
        return None
    return sorted({os.fsdecode(name).replace(os.sep, "/") for name in out.split(b"\0") if name})


def head(folder: Path) -> str | None:
    """The commit checked out, as 40 or 64 hex digits; None where there is none."""
    out = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    text = (out or b"").decode("ascii", "replace").strip()
    return text if len(text) in (40, 64) and all(c in "0123456789abcdef" for c in text) else None


def _git(folder: Path, *arguments: str) -> bytes | None:
    """Standard output, or None when git is missing, fails, takes too long or prints more than anyone needs."""
    program = shutil.which("git")
    if program is None or not os.path.isabs(program):
        return None
    settings = [word for setting in _OVERRIDES for word in ("-c", setting)]
    environment = {**_ENVIRONMENT, "PATH": os.environ.get("PATH", os.defpath)}
    try:
        done = subprocess.run(
            [program, "--no-pager", *settings, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 and len(done.stdout) <= _MAX_OUTPUT else None
