"""The most memory that one comparison takes: Python, Java and the tasks' processes together.

A process of its own compares generated files with a heap of 1 GiB while this one adds up, several
times a second, what it and everything below it hold. Shared pages count once: Linux tells the
proportional share of each process (`smaps_rollup`).
"""

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from time import perf_counter

from datarecs_core.jobs.vocabulary import Strategy
from datarecs_testing.figures import Figure, machine, page, replace_part
from tests.bench.compare import Case, Datarecs, generate, started, versions

LOOK_EVERY_S = 0.1
_GIB = 1024**2
"""In kB, as the kernel tells."""


def one_comparison(folder: Path, strategy: Strategy) -> None:
    """What is measured: a session of 1 GiB, and one comparison in it."""
    files = tuple(sorted(folder.glob("source-*.parquet")))
    runtime = started(folder / "session")
    try:
        Datarecs(runtime, Case(files=files, rows=0, out=folder / "out"), strategy)()
    finally:
        runtime.close()


def tree(pid: int) -> Iterator[int]:
    """A process and all below it; those that have just ended are left out."""
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            below = path.read_text(encoding="ascii").split()
        except OSError:
            continue
        for each in below:
            yield from tree(int(each))


def held_kb(pid: int) -> int:
    """The process' share of memory, by now."""
    try:
        told = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(r"^Pss:\s+(\d+) kB", told, re.MULTILINE)
    return int(found[1]) if found else 0


def peak_gib(folder: Path, strategy: Strategy) -> tuple[float, float]:
    """Of one comparison in a process of its own, and how many seconds it took.

    Raises:
        RuntimeError: the process failed.
    """
    command = [sys.executable, "-m", "tests.bench.memory", "--inside", str(folder)]
    peak, began = 0, perf_counter()
    with Popen([*command, "--strategy", strategy]) as measured:
        while True:
            peak = max(peak, sum(held_kb(each) for each in tree(measured.pid)))
            try:
                measured.wait(LOOK_EVERY_S)
            except TimeoutExpired:
                continue
            break
    if measured.returncode:
        raise RuntimeError(f"the comparison ended with {measured.returncode}")
    return peak / _GIB, perf_counter() - began


def main() -> int:
    """Print the figures as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.memory", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each source")
    parser.add_argument("--differ", type=float, default=0.0003, help="share of rows that differ")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--strategy", type=Strategy, default=Strategy.NARROW, help="of datarecs")
    parser.add_argument("--goal", type=float, help="GiB at most")
    parser.add_argument("--write", type=Path, help="a page whose part on this work to replace")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside is not None:
        one_comparison(asked.inside, asked.strategy)
        return 0
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="datarecs-bench-") as name:
        generate(Path(name), rows=asked.rows, share=asked.differ, sources=2)
        found = [peak_gib(Path(name), asked.strategy) for _ in range(asked.runs)]
    peaks = tuple(peak for peak, _ in found)
    ours = f"datarecs {asked.strategy}, heap 1 GiB"
    figures = [Figure(name=ours, unit="GiB", values=peaks, target=asked.goal)]
    took = f"{min(seconds for _, seconds in found):.1f} s"
    facts = [*machine(load_before), ("versions", versions()), ("with starting Spark", took)]
    text = page(f"Peak memory, 2 sources of {asked.rows:,} rows", figures, facts)
    sys.stdout.write(text)
    if asked.write:
        replace_part(asked.write, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
