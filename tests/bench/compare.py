"""Figures of comparing rows: datarecs beside DuckDB's full outer join, on generated files.

Every contestant reads the same files and writes the differences as Parquet. Their counts must be
those of the generator, else there are no figures. DuckDB's full outer join is 1.00, a chain of them
for more than two sources, with the same memory. Only ratios of one run mean anything: load and
machine stand beside them. What the other benchmarks of comparisons share stands here as well.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from subprocess import PIPE, Popen
from uuid import UUID

import duckdb

from datarecs_application.opening import Opened, opened_sources
from datarecs_cli.local.engines import heap_of
from datarecs_cli.stack import classes, java
from datarecs_connectors.file_tree import FileTree
from datarecs_connectors.parquet import ParquetConnector, ParquetOptions
from datarecs_core.comparison.planning.plan import PRESENCE, ComparisonPlan
from datarecs_core.comparison.planning.planner import PlanRequest, plan_comparison
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.jobs.definition import (
    Breaks,
    Dimension,
    Execution,
    Measure,
    ReconciliationJob,
    Results,
    Source,
    Stage,
)
from datarecs_core.jobs.spec_hash import spec_hash
from datarecs_core.jobs.vocabulary import SourceKind, StageType
from datarecs_runtime.environment import process_environment
from datarecs_spark.session import SparkRuntime, SparkSettings
from datarecs_testing.figures import page, replace_part
from tests.bench.contest import (
    GIB,
    TIME_LIMIT_S,
    Compare,
    Contest,
    Contestant,
    at_once,
    facts_of,
    figures_of,
    measure,
)
from tests.bench.data import RANKED_BY, Case, Counts, Data, generate

JOINED, OURS = "duckdb full join", "datarecs"
DATACOMPY = "1.1.0"
SAME_SPARK = f"pyspark=={version('pyspark')}"
MEMORY_BYTES = Execution().memory
STORED = Breaks().max_rows
PEERS = ("polars", "datacompy-polars", "datacompy-spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The same for every contestant that has such a limit."""

    memory_bytes: int = MEMORY_BYTES
    stored: int = STORED
    """Differences written; counts are complete all the same."""


def rows_stage(data: Data) -> Stage:
    """Every column by the key."""
    return Stage(
        name="rows",
        type=StageType.ROW,
        dimensions=tuple(Dimension(name=name) for name in data.key),
        measures=tuple(Measure(name=name, column=name) for name in data.measures),
    )


class Datarecs:
    """The Spark engine in one warm session, planned anew every time."""

    def __init__(self, runtime: SparkRuntime, case: Case, stage: Stage, limits: Limits) -> None:
        self.runtime, self.case, self.stage, self.limits = runtime, case, stage, limits

    def __call__(self) -> Counts:
        with ExitStack() as stack:
            sources, plan = self._plan(stack)
            engine = self.runtime.engine(plan, key=COMPARE_KEY, directory=self.case.out)
            results = engine.compare(plan.stages[0], lambda _: None)
            for source in sources:
                if source.held is not None:
                    source.held.check()
            return self.counted(plan, results)

    def counted(self, plan: ComparisonPlan, results: StageResults) -> Counts:  # noqa: ARG002 - of others
        """What contestants must have counted alike."""
        return counts_of(results)

    def _plan(self, stack: ExitStack) -> tuple[Sequence[Opened], ComparisonPlan]:
        sources = tuple(
            Source(name=f"s{at}", kind=SourceKind.PARQUET, path=f"{paths[0].parent.name}/*.parquet")
            for at, paths in enumerate(self.case.files)
        )
        job = ReconciliationJob(
            name="bench",
            sources=sources,
            stages=(self.stage,),
            results=Results(breaks=Breaks(max_rows=self.limits.stored)),
            execution=replace(Execution(), memory=self.limits.memory_bytes),
        )
        opened = opened_sources(sources, self._connector, {}, stack, whole=False)
        request = PlanRequest(
            job=job,
            job_uid=UUID(int=7),
            spec_hash=spec_hash(job),
            schemas={source.source.name: source.schema for source in opened},
            pins={source.source.name: source.pin for source in opened},
        )
        return opened, plan_comparison(request)

    def _connector(self, source: Source) -> ParquetConnector:
        tree = FileTree(
            source=source.name,
            root=self.case.files[0][0].parents[1],
            now=lambda: datetime(2026, 1, 31, tzinfo=UTC),
        )
        return ParquetConnector(tree=tree, options=ParquetOptions())


def start_datarecs(case: Case, stage: Stage, limits: Limits, stack: ExitStack) -> Compare:
    """A separate session, with the heap that `datarecs compare` sets for this memory."""
    runtime = start_spark(case.out.parent / "session", limits.memory_bytes)
    stack.callback(runtime.close)
    return Datarecs(runtime, case, stage, limits)


def start_spark(folder: Path, memory_bytes: int = MEMORY_BYTES) -> SparkRuntime:
    home = java.find_java(
        process_environment(),
        shim_home=folder / "java",
        places=java.Places(packaged=java.packaged_home()),
    )
    return SparkRuntime.start(
        SparkSettings(
            master="local[*]",
            driver_memory=heap_of(memory_bytes),
            java_home=str(home.home),
            java_options=classes.of_spark(home),
            scratch=folder / "scratch",
        )
    )


def counts_of(results: StageResults) -> Counts:
    """What a peer counts, too: groups that others lack, and values that differ."""
    counts = results.counts
    return Counts(
        only_first=counts.unmatched_by_source[0],
        only_others=sum(counts.unmatched_by_source[1:]),
        changed=sum(measure.outside for measure in results.measures),
        strategy="" if results.strategy is None else str(results.strategy.chosen),
    )


def duckdb_join(case: Case, limits: Limits) -> Counts:
    """What people write by hand: full outer joins, and one row per group and measure."""
    data, count = case.data, len(case.files)
    key = ", ".join(data.key)
    everywhere = " AND ".join(f"s{at}.here IS NOT NULL" for at in range(count))
    distinct = {
        name: " OR ".join(f"s{at}.{name} IS DISTINCT FROM s0.{name}" for at in range(1, count))
        for name in data.measures
    }
    differences = [
        _difference(
            f"({everywhere}) AND ({condition})", name, [f"s{at}.{name}" for at in range(count)]
        )
        for name, condition in distinct.items()
    ]
    here = [f"(s{at}.here IS NOT NULL)" for at in range(count)]
    differences.append(_difference(f"NOT ({everywhere})", PRESENCE, here))
    values = ", ".join(f"d.v{at}" for at in range(count))
    with limited_duckdb(case, limits) as connection:
        connection.execute(
            f"CREATE TEMP TABLE differences AS SELECT {key}, d.measure, {values} FROM"  # noqa: S608 - constants of this page
            f" (SELECT {key}, unnest([{', '.join(differences)}]) AS d FROM {_joined(case)}"
            f" WHERE NOT ({everywhere}) OR {' OR '.join(distinct.values())}) WHERE d IS NOT NULL"
        )
        return store_differences(connection, case, limits)


def _difference(condition: str, measure: str, values: Sequence[str]) -> str:
    fields = ", ".join(f"'v{at}': {value}::VARCHAR" for at, value in enumerate(values))
    return f"CASE WHEN {condition} THEN {{'measure': '{measure}', {fields}}} END"


def _joined(case: Case) -> str:
    """All sources; rows with the same key are paired by their rank."""
    key = ", ".join(case.data.key)
    rank, using = "", key
    if case.data.copies:
        order = ", ".join(RANKED_BY)
        rank = f", row_number() OVER (PARTITION BY {key} ORDER BY {order}) AS copy"
        using = f"{key}, copy"
    sides = [
        f"(SELECT *, TRUE AS here{rank} FROM {read_parquet(paths)}) s{at}"  # noqa: S608 - constants of this page
        for at, paths in enumerate(case.files)
    ]
    return sides[0] + "".join(f" FULL JOIN {side} USING ({using})" for side in sides[1:])


def read_parquet(paths: Sequence[Path]) -> str:
    """A source in DuckDB's SQL."""
    return f"read_parquet({[str(path) for path in paths]})"


@contextmanager
def limited_duckdb(case: Case, limits: Limits) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(f"SET memory_limit = '{limits.memory_bytes // 2**20}MiB'")
        connection.execute(f"SET temp_directory = '{case.out.parent}/duckdb'")
        yield connection


def store_differences(connection: duckdb.DuckDBPyConnection, case: Case, limits: Limits) -> Counts:
    """Write the table `differences`, whatever its key, up to the limit, and count it."""
    connection.execute(
        f"COPY (FROM differences LIMIT {limits.stored}) TO '{case.out}/differences.parquet'"
        " (COMPRESSION zstd)"
    )
    others = " + ".join(f"(v{at} = 'true')::INTEGER" for at in range(1, len(case.files)))
    ((first, other, changed),) = connection.execute(
        f"SELECT count(*) FILTER (measure = '{PRESENCE}' AND v0 = 'true'),"  # noqa: S608 - constants of this page
        f" coalesce(sum({others}) FILTER (measure = '{PRESENCE}'), 0),"
        f" count(*) FILTER (measure <> '{PRESENCE}') FROM differences"
    ).fetchall()
    return Counts(only_first=first, only_others=int(other), changed=changed)


def polars_join(case: Case) -> Counts:
    """A lazy full join on the key, in Polars' streaming engine; its memory has no limit."""
    import polars as pl  # noqa: PLC0415 - of one contestant

    data, (one, two) = case.data, (pl.scan_parquet(list(paths)) for paths in case.files)
    both = one.join(two, on=list(data.key), how="full", suffix="_2")
    is_first = pl.col(data.key[0]).is_not_null()
    is_second = pl.col(f"{data.key[0]}_2").is_not_null()
    unequal = [pl.col(name).ne_missing(pl.col(f"{name}_2")) for name in data.measures]
    rows = both.filter(~is_first | ~is_second | pl.any_horizontal(unequal))
    differing = rows.collect(engine="streaming")
    differing.write_parquet(case.out / "differences.parquet", compression="zstd")
    matched = differing.filter(is_first & is_second)
    return Counts(
        only_first=differing.filter(~is_second).height,
        only_others=differing.filter(~is_first).height,
        changed=sum(matched.filter(condition).height for condition in unequal),
    )


def start_datacompy(case: Case, engine: str, stack: ExitStack) -> Compare:
    """A process with datacompy, which needs an older Polars than the workspace.

    Raises:
        RuntimeError: its environment cannot be made.
    """
    uv = Path(sys.executable).with_name("uv")
    options = ("run", "--quiet", "--isolated", "--no-project", "--python", sys.executable)
    packages = {
        "polars": ("--with", f"datacompy=={DATACOMPY}"),
        "spark": ("--with", f"datacompy[spark]=={DATACOMPY}", "--with", SAME_SPARK),
    }
    script = str(Path(__file__).with_name("datacompy_peer.py"))
    (key,) = case.data.key
    command = [str(uv), *options, *packages[engine], "python", script, key, engine]
    peer = stack.enter_context(Popen(command, stdin=PIPE, stdout=PIPE, text=True))
    if peer.stdin is None or peer.stdout is None or peer.stdout.readline() != "ready\n":
        raise RuntimeError(f"datacompy {DATACOMPY} does not start by uv")
    stack.callback(peer.stdin.close)
    return partial(request_datacompy, peer, case)


def request_datacompy(peer: Popen[str], case: Case) -> Counts:
    """One question and its answer, a line each."""
    if peer.stdin is None or peer.stdout is None:
        raise RuntimeError("the peer has no pipes")
    files = [str(path) for path in (*case.all_files, case.out / "differences.parquet")]
    peer.stdin.write(json.dumps(files) + "\n")
    peer.stdin.flush()
    return Counts(**json.loads(peer.stdout.readline()))


def contestants_of(case: Case, limits: Limits, peers: Sequence[str]) -> list[Contestant]:
    contestants = [
        Contestant(name=JOINED, prepare=partial(at_once, partial(duckdb_join, case, limits)))
    ]
    if "polars" in peers:
        join = partial(at_once, partial(polars_join, case))
        contestants.append(Contestant(name="polars full join", prepare=join))
    for engine in ("polars", "spark"):
        if f"datacompy-{engine}" in peers:
            prepare = partial(start_datacompy, case, engine)
            is_slow = engine == "spark"
            name = f"datacompy {DATACOMPY} ({engine})"
            contestants.append(Contestant(name=name, prepare=prepare, is_slow=is_slow))
    start = partial(start_datarecs, case, rows_stage(case.data), limits)
    return [*contestants, Contestant(name=OURS, prepare=start)]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.compare", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each source")
    parser.add_argument("--sources", type=int, default=2)
    parser.add_argument(
        "--differ", type=float, default=0.0003, help="share of rows; 1: two columns in every row"
    )
    parser.add_argument(
        "--duplicates", type=float, default=0.0, help="share of rows with a repeated key, of texts"
    )
    parser.add_argument(
        "--plain", action="store_true", help="a number as key, one file a source, one order"
    )
    parser.add_argument("--limit", type=int, default=STORED, help="differences to store")
    parser.add_argument(
        "--memory", type=float, default=MEMORY_BYTES / GIB, help="GiB of each contestant"
    )
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=[], help="beside DuckDB")
    parser.add_argument("--runs", type=int, default=5, help="measured turns")
    parser.add_argument("--time-limit", type=float, default=TIME_LIMIT_S, help="seconds of a turn")
    parser.add_argument("--goal", type=float, help="times DuckDB")
    parser.add_argument("--peak-goal", type=float, help="GiB")
    parser.add_argument("--write", type=Path, help="a page whose part on this work to replace")
    options = parser.parse_args()
    if options.peers and (options.sources > 2 or options.duplicates):
        parser.error("peers join two sources with unique keys")
    if set(options.peers) - {"polars"} and not options.plain:
        parser.error("datacompy compares plain data")
    return options


def title_of(data: Data) -> str:
    title = f"{data.sources} sources of {data.rows:,} rows, "
    if data.differs_everywhere:
        title += "two columns differ in every row"
    else:
        title += f"{data.share:.2%} differ"
    if data.duplicates:
        title += f", key of two texts, {data.duplicates:.0%} duplicates"
    if data.is_plain:
        title += ": one order, one number as key"
    return title


def main() -> int:
    """Print the figures as Markdown."""
    options = arguments()
    load_before = os.getloadavg()[0]
    data = Data(
        rows=options.rows,
        sources=options.sources,
        share=options.differ,
        duplicates=options.duplicates,
        is_plain=options.plain,
    )
    limits = Limits(memory_bytes=round(options.memory * GIB), stored=options.limit)
    with tempfile.TemporaryDirectory(prefix="datarecs-bench-") as name:
        case = generate(Path(name), data)
        contest = Contest(
            contestants=contestants_of(case, limits, options.peers), case=case, truth=data.truth
        )
        results = measure(contest, options.runs, time_limit_s=options.time_limit)
    figures = figures_of(results, {OURS: options.goal}, {OURS: options.peak_goal})
    text = page(title_of(data), figures, facts_of(results, load_before, conditions(data, limits)))
    sys.stdout.write(text)
    if options.write:
        replace_part(options.write, text)
    return 0


def conditions(data: Data, limits: Limits) -> list[tuple[str, str]]:
    return [
        ("columns", f"{len(data.columns)}, of which key {len(data.key)}"),
        ("memory", f"{limits.memory_bytes / GIB:g} GiB"),
        ("stored differences", f"{limits.stored:,} at most"),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
