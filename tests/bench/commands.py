"""Seconds that people wait: a small job in a warm worker, and `datarecs compare` from a cold start.

No peer: the targets are seconds on a small machine. Every command is a separate process, and the
files it reads lie in the page cache.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.local.engines import EngineChoice
from datarecs_runtime.environment import process_environment
from datarecs_testing.figures import Figure, machine, page, replace_part
from tests.bench.compare import start_spark
from tests.bench.contest import versions
from tests.bench.data import Case, Data, generate
from tests.bench.runs import WholeRun, around, parquet_source

SMALL = 10_000
WARM_LIMIT_S, SPARK_LIMIT_S, ORACLE_LIMIT_S = 0.6, 11, 1.5
WARMING = 10
"""Jobs that a worker has had before: Java compiles what runs often."""
ORACLE = 6_250
"""Rows of a small comparison, which `--engine auto` gives to the oracle."""


def compare(case: Case, engine: EngineChoice) -> None:
    """One `datarecs compare` of two files, from its start to its end."""
    out = case.clear()
    first, second = case.all_files
    finished = subprocess.run(
        [
            *(sys.executable, "-m", "datarecs_cli", "compare", str(first), str(second)),
            *("--key", *case.data.key, "--engine", engine, "--out", str(out)),
        ],
        env=process_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if finished.returncode != ExitCode.DIFFERENT or not (out / "run.json").exists():
        raise RuntimeError(f"datarecs compare ended with {finished.returncode}: {finished.stderr}")


def seconds(work: Callable[[], object], runs: int, warming: int) -> tuple[float, ...]:
    """Of every run but the first ones, which warm what lasts: page cache, Java's code."""
    timings = []
    for _ in range(warming + runs):
        began = perf_counter()
        work()
        timings.append(perf_counter() - began)
    return tuple(timings[warming:])


def small_job(folder: Path, case: Case, stack: ExitStack) -> Callable[[], object]:
    runtime = start_spark(folder)
    stack.callback(runtime.close)
    root = case.out.parent
    run = WholeRun(
        runtime=runtime,
        case=case,
        sources=tuple(
            parquet_source(f"s{at}", path, root) for at, path in enumerate(case.all_files)
        ),
        surroundings=around(root),
        connections={},
    )

    def run_afresh() -> None:
        case.clear()
        run()

    return run_afresh


def main() -> int:
    """Print the figures as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.commands", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--write", type=Path, help="a page whose part on this work to replace")
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="datarecs-bench-")))
        cases = {}
        for rows in (SMALL, ORACLE):
            (folder / str(rows)).mkdir()
            cases[rows] = generate(folder / str(rows), Data(rows=rows, share=0.01, is_plain=True))
        measured = (
            (
                f"`datarecs compare` cold by the oracle, {ORACLE:,} rows",
                lambda: compare(cases[ORACLE], EngineChoice.AUTO),
                (1, ORACLE_LIMIT_S),
            ),
            (
                f"`datarecs compare` cold on Spark, {SMALL:,} rows",
                lambda: compare(cases[SMALL], EngineChoice.SPARK),
                (1, SPARK_LIMIT_S),
            ),
            (
                f"a run in a warm worker, {SMALL:,} rows",
                small_job(folder, cases[SMALL], held),
                (WARMING, WARM_LIMIT_S),
            ),
        )
        figures = [
            Figure(name=name, unit="s", values=seconds(work, options.runs, warming), target=limit)
            for name, work, (warming, limit) in measured
        ]
    facts = [*machine(load_before), ("versions", versions()), ("turns", str(options.runs))]
    text = page("Small jobs and commands", figures, facts)
    sys.stdout.write(text)
    if options.write:
        replace_part(options.write, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
