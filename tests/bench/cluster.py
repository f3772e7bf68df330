"""Figures of a cluster: two workers of one core each against one such worker, on the same files.

Masters and Workers are real processes of this machine. A Worker and everything that it starts run
on one core, as on a machine that has no other; one task is two processes, Java and Python. Both
contestants compare in turn, and their proofs must be the same bytes, else there are no figures.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

from datarecs_cli.stack import classes, java
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.proof.run_json import Sealing, proof_document
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.comparison.results.verdict import judge_run, judge_stage
from datarecs_core.hashing import canonical_json
from datarecs_runtime.environment import process_environment
from datarecs_runtime.tree import members
from datarecs_spark.cluster import Cluster
from datarecs_spark.session import SparkRuntime, SparkSettings
from datarecs_testing.figures import Figure, page, replace_part
from datarecs_testing.spark_cluster import ADDRESS, SparkCluster, running_cluster
from tests.bench.compare import Datarecs, Limits, counts_of, rows_stage
from tests.bench.contest import Compare, Contest, Contestant, Result, facts_of, measure
from tests.bench.data import Case, Counts, Data, generate

ONE, TWO = "one worker", "two workers"
GOAL = 1.6
MEMORY_MB = 1024
"""Of an executor's heap; the kernel of its task has a share beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved(Counts):
    """Counts that are the same only with the same proof."""

    proof: str


class OnCluster(Datarecs):
    """The engine in one warm session on a cluster."""

    def counted(self, plan: ComparisonPlan, results: StageResults) -> Counts:
        outcome = judge_run([judge_stage(plan.stages[0], results)], plan.warnings)
        document = proof_document(plan, outcome, Sealing(versions={}, key_id="bench"))
        proof = sha256(canonical_json(document)).hexdigest()
        return Proved(**asdict(counts_of(results)), proof=proof)


def start_cluster(case: Case, workers: int, stack: ExitStack) -> Compare:
    """A cluster of so many workers of one core, and a session on it."""
    folder = case.out.parent / f"cluster-{workers}"
    folder.mkdir()
    home = java.find_java(
        process_environment(),
        shim_home=folder / "java",
        places=java.Places(packaged=java.packaged_home()),
    )
    options = classes.of_spark(home)
    cluster = stack.enter_context(
        running_cluster(
            folder / "processes",
            home.home,
            workers=workers,
            memory_mb=MEMORY_MB,
            java_options=options,
        )
    )
    pin_workers(cluster)
    runtime = SparkRuntime.start(
        SparkSettings(
            master=cluster.url,
            driver_memory="1g",
            java_home=str(home.home),
            java_options=options,
            scratch=folder / "scratch",
            cluster=Cluster(
                secret=cluster.secret,
                executor_memory=f"{MEMORY_MB}m",
                driver_host=ADDRESS,
                max_cores=workers,
            ),
        )
    )
    stack.callback(runtime.close)
    return OnCluster(runtime, case, rows_stage(case.data), Limits())


def pin_workers(cluster: SparkCluster) -> None:
    """Let every Worker, and what it will start, run on one core."""
    for core, node in zip(sorted(os.sched_getaffinity(0)), cluster.nodes, strict=False):
        for pid in members(node.program.process.pid):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {core})


def speed_up(results: Mapping[str, Result], goal: float) -> Figure:
    """How many times as fast two workers are, turn by turn."""
    one, two = (results[name] for name in (ONE, TWO))
    name, death = f"{TWO} against {ONE}", one.death or two.death
    if death is not None:
        return Figure(name=name, unit="x", values=(), target=goal, death=death)
    values = tuple(a / b for a, b in zip(one.seconds, two.seconds, strict=True))
    return Figure(name=name, unit="x", values=values, target=goal, more_is_better=True)


def main() -> int:
    """Print the figures as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cluster", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of each source")
    parser.add_argument("--differ", type=float, default=0.0003, help="share of rows that differ")
    parser.add_argument("--runs", type=int, default=5, help="measured turns")
    parser.add_argument("--time-limit", type=float, default=600, help="seconds of a turn")
    parser.add_argument("--goal", type=float, default=GOAL, help="times as fast")
    parser.add_argument("--write", type=Path, help="a page whose part on this work to replace")
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    data = Data(rows=options.rows, share=options.differ)
    with tempfile.TemporaryDirectory(prefix="datarecs-bench-") as name:
        case = generate(Path(name), data)
        contestants = [
            Contestant(name=name, prepare=partial(start_cluster, case, workers))
            for workers, name in enumerate((ONE, TWO), start=1)
        ]
        contest = Contest(contestants=contestants, case=case)
        results = measure(contest, options.runs, time_limit_s=options.time_limit)
    title = f"2 sources of {options.rows:,} rows on a cluster, {options.differ:.2%} differ"
    facts = facts_of(
        results,
        load_before,
        [("cores of a worker", "1, with all its processes"), ("proofs", "equal")],
    )
    text = page(title, [speed_up(results, options.goal)], facts)
    sys.stdout.write(text)
    if options.write:
        replace_part(options.write, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
