"""Checks that a review is the same to the byte whatever surrounds it.

    python benchmarks/determinism.py PATH...

Runs ``prelaunch review --format json`` on each path under other hash seeds, job counts, with the processors kept
busy, without a cache, with a cold one and with a warm one, and compares the output. Prints one line a path with the
digest and size; exit status 1 when any run differs or fails.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator


def _spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(10_000))


@contextlib.contextmanager
def load(busy: bool) -> Iterator[None]:
    """Keeps every processor busy twice over while the block runs."""
    processes = [multiprocessing.Process(target=_spin, args=(600,)) for _ in range(2 * (os.cpu_count() or 1) * busy)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def review(path: str, *, seed: str, jobs: str, cache: str | None) -> bytes:
    command = [sys.executable, "-m", "prelaunch", "review", "--format", "json", "--jobs", jobs, path]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    if cache:
        environment["XDG_CACHE_HOME"] = cache
    else:
        command.insert(4, "--no-cache")
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise SystemExit(f"{path}: exit status {done.returncode}: {done.stderr.decode()[-500:]}")
    return done.stdout


def main() -> int:
    paths = sys.argv[1:]
    if not paths:
        print(__doc__)
        return 2
    bad = False
    for path in paths:
        with tempfile.TemporaryDirectory() as cache:
            runs = {
                "seed 0, 1 job": (False, {"seed": "0", "jobs": "1", "cache": None}),
                "seed 1, 2 jobs": (False, {"seed": "1", "jobs": "2", "cache": None}),
                "seed 2, in process": (False, {"seed": "2", "jobs": "0", "cache": None}),
                "seed 3, 3 jobs, under load": (True, {"seed": "3", "jobs": "3", "cache": None}),
                "seed 4, cold cache": (False, {"seed": "4", "jobs": "2", "cache": cache}),
                "seed 5, warm cache": (False, {"seed": "5", "jobs": "2", "cache": cache}),
            }
            outputs: dict[str, bytes] = {}
            for name, (busy, how) in runs.items():
                with load(busy):
                    outputs[name] = review(path, **how)  # type: ignore[arg-type]  # one dict of three keywords
        first = next(iter(outputs.values()))
        differing = [name for name, output in outputs.items() if output != first]
        digest = hashlib.sha256(first).hexdigest()[:12]
        verdict = "DIFFERS: " + "; ".join(differing) if differing else "identical"
        print(f"{path}: {len(runs)} runs, {len(first)} bytes, sha256 {digest}: {verdict}")
        bad |= bool(differing)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
