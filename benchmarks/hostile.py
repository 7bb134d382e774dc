"""Reviews thousands of broken kernels and checks that none crashes, hangs or eats the machine.

    python benchmarks/hostile.py [--count 10000] [--seed 1] [--seeds-from DIR ...] [--workers 2]

Each mutant (see ``mutate.py``) is written to a folder of its own and goes through the whole pipe in a worker process
with an address-space limit and a hard timeout. A mutant fails when the review raises anything but NothingToReview,
takes more than 10 s of processor time (elapsed time would blame it for its neighbours), peaks above 1 GB, dies, or
reports a defect of our own ("internal error"). Prints totals per kind and every failure; exit status 1 when there is
any. ``--keep DIR`` writes failing mutants there.
"""

from __future__ import annotations

import argparse
import collections
import resource
import tempfile
import time
from concurrent.futures import TimeoutError as Timeout
from pathlib import Path

from mutate import mutants
from pebble import ProcessExpired, ProcessPool

SECONDS, MEMORY = 10, 1 << 30
TESTS = Path(__file__).resolve().parent.parent / "tests" / "kernels"


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (4 * MEMORY, 4 * MEMORY))


def attempt(text: bytes) -> tuple[float, int, str]:
    """Processor seconds, peak memory in bytes of the worker so far, and what went wrong ("" when nothing did)."""
    from prelaunch.analysis.discover import NothingToReview
    from prelaunch.analysis.review import Options, review

    wrong = ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "self.cu"
        path.write_bytes(text)
        started = time.process_time()
        try:
            result = review([path], Options(workers=0))
            wrong = next((g.reason for g in result.all_gaps() if "internal error" in g.reason), "")
        except NothingToReview:
            pass  # a file without CUDA left in it is an answer, not a fault
        except BaseException as error:
            wrong = f"{type(error).__name__}: {error}"[:200]
        seconds = time.process_time() - started
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds-from", type=Path, action="append", default=[], help="folders of .cu files to mutate")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="write failing mutants here")
    arguments = parser.parse_args()
    folders = arguments.seeds_from or [TESTS]
    texts = [path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.cu"))]
    texts = [text for text in texts if 0 < len(text) < 60_000]
    if len(texts) < 2:
        parser.error("fewer than two .cu files to mutate")
    slowest, peak = 0.0, 0
    done: collections.Counter[str] = collections.Counter()
    failures: list[tuple[int, str, str]] = []
    started = time.monotonic()
    batch = mutants(texts, arguments.count, arguments.seed)
    with ProcessPool(max_workers=arguments.workers, max_tasks=250, initializer=limit) as pool:
        futures = [pool.schedule(attempt, args=[text], timeout=12 * SECONDS) for _, text in batch]
        for number, ((kind, text), future) in enumerate(zip(batch, futures, strict=True)):
            try:
                seconds, memory, wrong = future.result()
                slowest, peak = max(slowest, seconds), max(peak, memory)
                if not wrong and seconds > SECONDS:
                    wrong = f"took {seconds:.1f} s"
                if not wrong and memory > MEMORY:
                    wrong = f"peak {memory >> 20} MB"
            except (Timeout, ProcessExpired) as error:
                wrong = f"{type(error).__name__}: {error}"
            done[kind] += 1
            if (number + 1) % 500 == 0:
                print(f"{number + 1} done, {len(failures)} failures, slowest {slowest:.2f} s", flush=True)
            if wrong:
                failures.append((number, kind, wrong))
                print(f"FAIL #{number} {kind} ({len(text)} bytes): {wrong}", flush=True)
                if arguments.keep:
                    arguments.keep.mkdir(parents=True, exist_ok=True)
                    (arguments.keep / f"{number}-{kind}.cu").write_bytes(text)
    print(", ".join(f"{kind} {count}" for kind, count in sorted(done.items())))
    print(
        f"{sum(done.values())} mutants of {len(texts)} files, seed {arguments.seed}: {len(failures)} failures, "
        f"slowest {slowest:.2f} s, peak {peak >> 20} MB, {time.monotonic() - started:.0f} s in all"
    )
    return 1 if failures or sum(done.values()) < arguments.count else 0


if __name__ == "__main__":
    raise SystemExit(main())
