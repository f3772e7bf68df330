"""Figures of comparing rows: datarecs' strategies beside DuckDB, Polars and datacompy, interleaved.

Every contestant reads the same generated Parquet files and writes the differences as Parquet; their
counts must agree, else there are no figures. DuckDB's full outer join is 1.00, of the first two
sources where there are more. Only ratios of one run mean anything: load and machine stand beside
them. What the other benchmarks of comparisons share stands here as well.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from subprocess import PIPE, Popen
from time import perf_counter
from uuid import UUID

import duckdb

from datarecs_application.opening import Opened, opened_sources
from datarecs_cli.stack import classes, java
from datarecs_connectors.file_tree import FileTree
from datarecs_connectors.parquet import ParquetConnector, ParquetOptions
from datarecs_core.comparison.planning.plan import PRESENCE, ComparisonPlan
from datarecs_core.comparison.planning.planner import PlanRequest, plan_comparison
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.jobs.definition import (
    Dimension,
    Execution,
    Measure,
    ReconciliationJob,
    Source,
    Stage,
)
from datarecs_core.jobs.spec_hash import spec_hash
from datarecs_core.jobs.vocabulary import SourceKind, StageType, Strategy
from datarecs_runtime.environment import process_environment
from datarecs_spark.session import SparkRuntime, SparkSettings
from datarecs_testing.figures import Figure, machine, page, replace_part, settled

KEY = "id"
_CHUNK = 2**24
JOINED = "duckdb full join"
COLUMNS: Mapping[str, str] = {
    "account": "'AC' || lpad((hash(i, 1) % 100000)::VARCHAR, 8, '0')",
    "amount": "((hash(i, 2) % 100000000)::DECIMAL(14,2) / 100)::DECIMAL(14,2)",
    "fee": "((hash(i, 3) % 1000000)::DECIMAL(12,4) / 1000)::DECIMAL(12,4)",
    "quantity": "(hash(i, 4) % 1000)::BIGINT",
    "price": "(hash(i, 5) % 1000000)::DOUBLE / 7",
    "currency": "['EUR', 'USD', 'GBP', 'CHF'][1 + (hash(i, 6) % 4)::BIGINT]",
    "booked": "DATE '2026-01-01' + (hash(i, 7) % 365)::INTEGER",
    "moment": "make_timestamp((1767225600000000 + hash(i, 8) % 31536000000000)::BIGINT)",
    "active": "hash(i, 9) % 2 = 0",
    "note": "'note ' || (hash(i, 10) % 10000000)::VARCHAR",
    "branch": "CASE WHEN hash(i, 11) % 10 > 0 THEN (hash(i, 11) % 500)::BIGINT END",
}
"""Measures, by the expression that makes them from a row's number."""
DIFFERS = "quantity"
DATACOMPY, DATACOMPY_ROWS = "1.1.0", 1_000_000
"""Its version, and up to where it is asked: it keeps several copies in memory."""
WARMING = 4
"""Turns, after which code is loaded and memory is at its size: Spark has two processes in turn."""
SAME_SPARK = f"pyspark=={version('pyspark')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What every contestant must find alike."""

    only_first: int
    only_second: int
    changed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Generated files and where a contestant writes."""

    files: tuple[Path, ...]
    rows: int
    out: Path

    def fresh(self) -> Path:
        rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        return self.out


def generate(
    folder: Path, *, rows: int, share: float, sources: int, own_order: bool = False
) -> Case:
    """Files of every source: source 0 whole, in each other one `share` of the rows differ.

    Of those every second is changed, every fourth missing, every fourth replaced by another key.
    Sources of which nothing differs are the same files, unless each has an order of its own.
    """
    every = max(1, round(1 / share)) if share else 0
    columns = ", ".join(f"{sql} AS {name}" for name, sql in COLUMNS.items())
    files = []
    with duckdb.connect() as connection:
        for source in range(sources):
            picked = f"hash(i, 'differs', {source}) % {every} = 0" if every and source else "FALSE"
            kind = "(hash(i, 'kind') % 4)"
            order = f" ORDER BY hash(i, 'order', {source})" if own_order else ""
            path = folder / f"source-{source}.parquet"
            connection.execute(
                "COPY (SELECT * EXCLUDE (picked, kind, i)"  # noqa: S608 - constants of this page
                f" REPLACE ({DIFFERS} + (picked AND kind < 2)::BIGINT AS {DIFFERS}) FROM (SELECT i,"
                f" CASE WHEN {picked} AND {kind} = 3 THEN i + {rows} ELSE i END AS {KEY},"
                f" {columns}, {picked} AS picked, {kind} AS kind FROM range({rows}) t(i))"
                f" WHERE NOT (picked AND kind = 2){order}) TO '{path}' (FORMAT parquet)"
            )
            files.append(path)
    return Case(files=tuple(files), rows=rows, out=folder / "out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Who takes part, and what everybody must find."""

    contestants: Mapping[str, Callable[[], Counts]]
    others: frozenset[str] = frozenset()
    """Contestants that are asked something else: only their time is looked at."""
    once: frozenset[str] = frozenset()
    """Contestants that take minutes: they warm in the first turn and are in one more."""
    truth: Counts | None = None
    """From elsewhere; without it contestants are held against one another."""
    files: Sequence[Path] = ()
    """That caches of the machine hold for each contestant, or else for none."""


def rows_stage() -> Stage:
    """Every column by the key."""
    return Stage(
        name="rows",
        type=StageType.ROW,
        dimensions=(Dimension(name=KEY),),
        measures=tuple(Measure(name=name, column=name) for name in COLUMNS),
    )


class Datarecs:
    """The Spark engine in one warm session, planned anew every time."""

    def __init__(
        self, runtime: SparkRuntime, case: Case, strategy: Strategy, stage: Stage | None = None
    ) -> None:
        self.runtime, self.case, self.strategy = runtime, case, strategy
        self.stage = stage or rows_stage()

    def __call__(self) -> Counts:
        with ExitStack() as open_things:
            sources, plan = self._plan(open_things)
            engine = self.runtime.engine(plan, key=COMPARE_KEY, directory=self.case.fresh())
            results = engine.compare(plan.stages[0], lambda _: None)
            if results.strategy is None or results.strategy.chosen is not self.strategy:
                raise RuntimeError(f"{self.strategy} became {results.strategy}")
            for each in sources:
                if each.held is not None:
                    each.held.check()
            return counts_of(results)

    def _plan(self, open_things: ExitStack) -> tuple[Sequence[Opened], ComparisonPlan]:
        sources = tuple(
            Source(name=f"s{at}", kind=SourceKind.PARQUET, path=path.name)
            for at, path in enumerate(self.case.files)
        )
        job = ReconciliationJob(
            name="bench",
            sources=sources,
            stages=(self.stage,),
            execution=replace(Execution(), strategy=self.strategy),
        )
        opened = opened_sources(sources, self._connector, {}, open_things, whole=False)
        request = PlanRequest(
            job=job,
            job_uid=UUID(int=7),
            spec_hash=spec_hash(job),
            schemas={each.source.name: each.schema for each in opened},
            pins={each.source.name: each.pin for each in opened},
        )
        return opened, plan_comparison(request)

    def _connector(self, source: Source) -> ParquetConnector:
        tree = FileTree(
            source=source.name,
            root=self.case.files[0].parent,
            now=lambda: datetime(2026, 1, 31, tzinfo=UTC),
        )
        return ParquetConnector(tree=tree, options=ParquetOptions())


def counts_of(results: StageResults) -> Counts:
    """What a peer counts, too: groups that others lack, and values that differ."""
    counts = results.counts
    return Counts(
        only_first=counts.unmatched_by_source[0],
        only_second=sum(counts.unmatched_by_source[1:]),
        changed=sum(each.outside for each in results.measures),
    )


def truth_of(case: Case) -> Counts:
    """For more than two sources, by a chain of joins over the columns that can differ."""
    sources = [
        f"(SELECT {KEY}, {DIFFERS} AS v{at}, TRUE AS p{at} FROM '{file}')"  # noqa: S608 - constants of this page
        for at, file in enumerate(case.files)
    ]
    joined = sources[0] + "".join(f" FULL JOIN {each} USING ({KEY})" for each in sources[1:])
    having = [f"coalesce(p{at}, FALSE)" for at in range(len(sources))]
    everywhere = " AND ".join(having)
    lacking = [f"count(*) FILTER ({each} AND NOT ({everywhere}))" for each in having]
    distinct = " OR ".join(f"v{at} IS DISTINCT FROM v0" for at in range(1, len(sources)))
    with duckdb.connect() as connection:
        (found,) = connection.execute(
            f"SELECT {lacking[0]}, {' + '.join(lacking[1:])},"  # noqa: S608 - constants of this page
            f" count(*) FILTER (({everywhere}) AND ({distinct})) FROM {joined}"
        ).fetchall()
    return Counts(only_first=found[0], only_second=found[1], changed=found[2])


def duckdb_join(case: Case) -> Counts:
    """What people write by hand: one full outer join over the first two sources, long form."""
    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        distinct = " OR ".join(f"a.{name} IS DISTINCT FROM b.{name}" for name in COLUMNS)
        connection.execute(
            f"CREATE TEMP TABLE found AS SELECT a, b FROM '{case.files[0]}' a"  # noqa: S608 - constants of this page
            f" FULL JOIN '{case.files[1]}' b ON a.{KEY} = b.{KEY}"
            f" WHERE a.{KEY} IS NULL OR b.{KEY} IS NULL OR {distinct}"
        )
        return _long_form(connection, case.fresh())


def duckdb_phases(case: Case) -> Counts:
    """Buckets that differ by sums of row hashes first, then the join over their rows alone."""
    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        names = ", ".join((KEY, *COLUMNS))
        bucket = f"(hash({KEY}) & 65535)"
        sums = " UNION ALL ".join(
            f"SELECT {bucket} AS bucket, {sign}::HUGEINT * hash(hash({names})) AS h FROM '{file}'"  # noqa: S608 - constants of this page
            for sign, file in zip((1, -1), case.files, strict=False)
        )
        connection.execute(
            f"CREATE TEMP TABLE unlike AS SELECT bucket FROM ({sums}) GROUP BY bucket"  # noqa: S608 - constants of this page
            " HAVING sum(h) <> 0"
        )
        kept = [
            f"(SELECT * FROM '{file}' WHERE {bucket} IN (FROM unlike))"  # noqa: S608 - constants of this page
            for file in case.files
        ]
        distinct = " OR ".join(f"a.{name} IS DISTINCT FROM b.{name}" for name in COLUMNS)
        connection.execute(
            f"CREATE TEMP TABLE found AS SELECT a, b FROM {kept[0]} a"  # noqa: S608 - constants of this page
            f" FULL JOIN {kept[1]} b ON a.{KEY} = b.{KEY}"
            f" WHERE a.{KEY} IS NULL OR b.{KEY} IS NULL OR {distinct}"
        )
        return _long_form(connection, case.fresh())


def _long_form(connection: duckdb.DuckDBPyConnection, out: Path) -> Counts:
    """One row per group and measure, as datarecs writes them."""
    pieces = [
        f"SELECT a.{KEY} AS key, '{name}' AS measure, a.{name}::VARCHAR AS one,"  # noqa: S608 - constants of this page
        f" b.{name}::VARCHAR AS two FROM found"
        f" WHERE a.{KEY} IS NOT NULL AND b.{KEY} IS NOT NULL AND a.{name} IS DISTINCT FROM b.{name}"
        for name in COLUMNS
    ]
    missing = f"a.{KEY} IS NULL OR b.{KEY} IS NULL"
    pieces.append(
        f"SELECT coalesce(a.{KEY}, b.{KEY}), '{PRESENCE}', (a.{KEY} IS NOT NULL)::VARCHAR,"  # noqa: S608 - constants of this page
        f" (b.{KEY} IS NOT NULL)::VARCHAR FROM found WHERE {missing}"
    )
    connection.execute(f"CREATE TEMP TABLE told AS {' UNION ALL '.join(pieces)}")
    return written(connection, out)


def written(connection: duckdb.DuckDBPyConnection, out: Path) -> Counts:
    """Write the table `told`, whatever its key columns, and count it."""
    connection.execute(f"COPY told TO '{out}/differences.parquet' (COMPRESSION zstd)")
    (found,) = connection.execute(
        f"SELECT count(*) FILTER (measure = '{PRESENCE}' AND two = 'false'),"  # noqa: S608 - constants of this page
        f" count(*) FILTER (measure = '{PRESENCE}' AND one = 'false'),"
        f" count(*) FILTER (measure <> '{PRESENCE}') FROM told"
    ).fetchall()
    return Counts(only_first=found[0], only_second=found[1], changed=found[2])


def polars_join(case: Case) -> Counts:
    """A lazy full join on the key, in Polars' streaming engine."""
    import polars as pl  # noqa: PLC0415 - a contestant that need not be installed

    one, two = (pl.scan_parquet(file) for file in case.files[:2])
    both = one.join(two, on=KEY, how="full", suffix="_2")
    here, there = pl.col(KEY).is_not_null(), pl.col(f"{KEY}_2").is_not_null()
    unequal = {name: pl.col(name).ne_missing(pl.col(f"{name}_2")) for name in COLUMNS}
    kept = both.filter(~here | ~there | pl.any_horizontal(list(unequal.values())))
    found = kept.collect(engine="streaming")
    found.write_parquet(case.fresh() / "differences.parquet", compression="zstd")
    matched = found.filter(here & there)
    return Counts(
        only_first=found.filter(~there).height,
        only_second=found.filter(~here).height,
        changed=sum(matched.filter(each).height for each in unequal.values()),
    )


@contextmanager
def started_peer(engine: str) -> Iterator[Popen[str] | None]:
    """A process with datacompy, which wants an older Polars than ours; None where uv has none."""
    uv = Path(sys.executable).with_name("uv")
    asked = ("run", "--quiet", "--isolated", "--no-project", "--python", sys.executable)
    packages = {
        "polars": ("--with", f"datacompy=={DATACOMPY}"),
        "spark": ("--with", f"datacompy[spark]=={DATACOMPY}", "--with", SAME_SPARK),
    }
    script = Path(__file__).with_name("datacompy_peer.py")
    command = [str(uv), *asked, *packages[engine], "python", str(script), KEY, engine]
    if not uv.exists():
        yield None
        return
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True) as peer:
        ready = peer.stdout is not None and peer.stdout.readline() == "ready\n"
        yield peer if ready else None
        if peer.stdin is not None:
            peer.stdin.close()


def peer_of(peer: Popen[str], case: Case) -> Counts:
    """One question and its answer, a line each."""
    if peer.stdin is None or peer.stdout is None:
        raise RuntimeError("the peer has no pipes")
    asked = [str(path) for path in (*case.files[:2], case.fresh() / "differences.parquet")]
    peer.stdin.write(json.dumps(asked) + "\n")
    peer.stdin.flush()
    return Counts(**json.loads(peer.stdout.readline()))


def measured(contest: Contest, runs: int) -> dict[str, list[float]]:
    """Seconds of every run, contestants in turn; turns that warm are not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in contest.contestants}
    for turn in range(runs + WARMING):
        found = {} if contest.truth is None else {"the truth": contest.truth}
        for name, contestant in contest.contestants.items():
            if name in contest.once and turn not in {0, WARMING}:
                continue
            settled()
            held(contest.files)
            began = perf_counter()
            counts = contestant()
            if turn >= WARMING:
                seconds[name].append(perf_counter() - began)
            if name not in contest.others:
                found[name] = counts
        if len(set(found.values())) != 1:
            raise RuntimeError(f"the contestants disagree: {found}")
    return seconds


def held(files: Sequence[Path]) -> None:
    """Read them: a machine at rest may have dropped them from its memory."""
    for file in files:
        with file.open("rb", buffering=0) as stream:
            while stream.read(_CHUNK):
                pass


def contest_of_two(
    case: Case, runtime: SparkRuntime, asked: argparse.Namespace, peers: ExitStack
) -> Contest:
    """Everybody who can join two sources."""
    found: dict[str, Callable[[], Counts]] = {
        JOINED: lambda: duckdb_join(case),
        "duckdb two-phase": lambda: duckdb_phases(case),
    }
    if find_spec("polars"):
        found["polars full join"] = lambda: polars_join(case)
    for engine in asked.datacompy if case.rows <= DATACOMPY_ROWS else ():
        peer = peers.enter_context(started_peer(engine))
        if peer is not None:
            found[f"datacompy ({engine})"] = partial(peer_of, peer, case)
    for strategy in asked.strategies:
        found[f"datarecs {strategy}"] = Datarecs(runtime, case, strategy)
    return Contest(contestants=found, once=frozenset({"datacompy (spark)"}), files=case.files)


def contest_of_many(case: Case, runtime: SparkRuntime, strategies: Sequence[Strategy]) -> Contest:
    """All sources by datarecs, beside the first two of them: by a join, and by datarecs."""
    two = replace(case, files=case.files[:2])
    before = f"datarecs {strategies[0]}, two sources"
    found: dict[str, Callable[[], Counts]] = {
        JOINED: lambda: duckdb_join(two),
        before: Datarecs(runtime, two, strategies[0]),
    }
    for strategy in strategies:
        found[f"datarecs {strategy}"] = Datarecs(runtime, case, strategy)
    others = frozenset({JOINED, before})
    return Contest(contestants=found, others=others, truth=truth_of(case), files=case.files)


def started(folder: Path) -> SparkRuntime:
    """The warm session."""
    home = java.find_java(
        process_environment(),
        shim_home=folder / "java",
        places=java.Places(packaged=java.packaged_home()),
    )
    return SparkRuntime.start(
        SparkSettings(
            master="local[*]",
            driver_memory="1g",
            java_home=str(home.home),
            java_options=classes.of_spark(home),
            scratch=folder / "scratch",
        )
    )


def asking() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each source")
    parser.add_argument("--sources", type=int, default=2)
    parser.add_argument("--differ", type=float, default=0.0003, help="share of rows that differ")
    parser.add_argument("--own-order", action="store_true", help="of the rows of each source")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--strategies", type=Strategy, nargs="+", default=[Strategy.NARROW], help="of datarecs"
    )
    parser.add_argument("--datacompy", nargs="*", choices=["polars", "spark"], default=["polars"])
    parser.add_argument("--goal", type=float, help="times the peer's, of the first strategy")
    parser.add_argument("--goal-of-two", type=float, help="times the same with two sources")
    parser.add_argument("--write", type=Path, help="a page whose part on this work to replace")
    return parser.parse_args()


def main() -> int:
    """Print the figures as Markdown."""
    asked = asking()
    load_before = os.getloadavg()[0]
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="datarecs-bench-")))
        case = generate(
            folder,
            rows=asked.rows,
            share=asked.differ,
            sources=asked.sources,
            own_order=asked.own_order,
        )
        runtime = started(folder)
        held.callback(runtime.close)
        if asked.sources == 2:
            contest = contest_of_two(case, runtime, asked, held)
        else:
            contest = contest_of_many(case, runtime, asked.strategies)
        seconds = measured(contest, asked.runs)
    judged = f"datarecs {asked.strategies[0]}"
    figures = ratios(seconds, {judged: asked.goal})
    if asked.goal_of_two is not None:
        two = seconds[f"{judged}, two sources"]
        figures.append(ratio(f"{judged} to two sources", seconds[judged], two, asked.goal_of_two))
    title = f"{asked.sources} sources of {asked.rows:,} rows, {asked.differ:.2%} differ"
    if asked.own_order:
        title += ", each in an order of its own"
    elif not asked.differ:
        title += ": the same file twice"
    text = page(title, figures, about(seconds, load_before))
    sys.stdout.write(text)
    if asked.write:
        replace_part(asked.write, text)
    return 0


def ratios(
    seconds: Mapping[str, Sequence[float]], goals: Mapping[str, float | None]
) -> list[Figure]:
    """Of every contestant to the first one, turn by turn; of the first turn for who had one."""
    peer = next(iter(seconds.values()))
    return [ratio(name, own, peer, goals.get(name)) for name, own in seconds.items()]


def ratio(name: str, own: Sequence[float], other: Sequence[float], goal: float | None) -> Figure:
    values = tuple(one / peer for one, peer in zip(own, other, strict=False))
    return Figure(name=name, unit="x", values=values, target=goal)


def about(
    seconds: Mapping[str, Sequence[float]], load_before: float, columns: int = 1 + len(COLUMNS)
) -> list[tuple[str, str]]:
    asked = any(name.startswith("datacompy") for name in seconds)
    apart = [f"datacompy {DATACOMPY} in an environment of its own"] if asked else []
    medians = [f"{name} {statistics.median(own):.2f} s" for name, own in seconds.items()]
    return [
        *machine(load_before),
        ("versions", ", ".join((versions(), *apart))),
        ("columns", str(columns)),
        ("turns", str(len(next(iter(seconds.values()))))),
        ("medians", ", ".join(medians)),
    ]


def versions() -> str:
    packages = ("duckdb", "polars", "pyspark", "numpy", "pyarrow")
    return ", ".join(f"{each} {version(each)}" for each in packages if find_spec(each))


if __name__ == "__main__":
    raise SystemExit(main())
