"""Runs every ``console`` block of the README again: ``python docs/consoles.py`` rewrites the output in place.

A block holds one command after ``$ `` and what it printed, at 80 columns, from the root of the repository. Durations
are the only thing that may differ; ``tests/test_docs.py`` compares.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```console\n\$ (prelaunch [^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DURATION = re.compile(r"\b\d+\.\d+s$", re.MULTILINE)


def output(command: str) -> str:
    """What the command prints on standard output. Raises RuntimeError when it fails otherwise than by findings."""
    words = [sys.executable, "-P", "-m", *shlex.split(command)]
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(f"{command}: status {done.returncode}: {done.stderr}")
    return done.stdout


def renew(text: str) -> str:
    """``text`` with every block's output as it is now."""
    return BLOCK.sub(lambda block: f"```console\n$ {block.group(1)}\n{output(block.group(1))}```", text)


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(renew(readme.read_text("utf-8")), "utf-8")
