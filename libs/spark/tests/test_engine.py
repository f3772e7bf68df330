"""What a stage costs, and where: promises about work that no result could show.

Spark reports what it did: how often it was started, what came back to the driver, and
by which plan. Numbers are compared elsewhere, by the suites that every engine passes.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row
from pyspark.sql.classic.dataframe import DataFrame

from datarecs_application.ports.comparing import Progress
from datarecs_core.comparison.planning.faults import KeyTooLargeError, ValueTooLargeError
from datarecs_core.comparison.planning.scan import FileList, PinnedFile
from datarecs_core.comparison.proof.run_json import Sealing, proof_document
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.errors.base import DatarecsError
from datarecs_core.hashing import canonical_json
from datarecs_core.jobs.definition import Breaks, Execution, Results, Stage
from datarecs_core.jobs.vocabulary import Strategy
from datarecs_kernel import watching
from datarecs_kernel.refusals import ComparisonFailedError, SourceFailedError
from datarecs_spark import engine, partitions, reading_tasks
from datarecs_spark.cancelling import Cancellation
from datarecs_spark.engine import SparkEngine
from datarecs_spark.errors import CancelledError
from datarecs_spark.session import SparkRuntime
from datarecs_testing.comparisons import (
    a_measure,
    absolute,
    aggregate_by,
    compare,
    rows_by,
)
from datarecs_testing.finished_runs import MemoryBench
from datarecs_testing.spark import SparkBench
from datarecs_testing.tables import NOON, Table, a_job, a_table, plan_of

pytestmark = pytest.mark.spark

D = Decimal
COLUMNS = "k int, account text, v decimal(12,2), n int"
FEW = Results(breaks=Breaks(sample_per_class=3))
STAGES = {
    "row": rows_by("k", a_measure("v", absolute("0.01")), a_measure("n")),
    "aggregate": aggregate_by("account", a_measure("v", absolute("0.01")), a_measure("n")),
}
OTHER_ACTIONS = ("count", "toPandas", "toArrow", "toLocalIterator", "foreach", "take", "cache")
NAMED = re.compile(r"(\w+):")
PYTHON = re.compile(r"\b(?:Python)?MapInArrow\b|\w*EvalPython\b|\w*FlatMap\w*InPandas\b")


@dataclass(slots=True)
class Actions:
    """The requests to Spark, and the rows returned to the driver."""

    actions: list[str] = field(default_factory=list)
    plans: list[str] = field(default_factory=list)
    answers: list[list[Row]] = field(default_factory=list)

    @property
    def driver_bytes(self) -> int:
        return sum(len(str(row)) for rows in self.answers for row in rows)


@pytest.fixture
def actions(monkeypatch: pytest.MonkeyPatch) -> Actions:
    """All requests to frames from now on."""
    seen = Actions()
    collect = DataFrame.collect

    def collected(frame: DataFrame) -> list[Row]:
        seen.actions.append("collect")
        seen.plans.append(frame._jdf.queryExecution().executedPlan().toString())  # noqa: SLF001  no other way
        seen.answers.append(collect(frame))
        return seen.answers[-1]

    def named(name: str, action: Callable[..., Any]) -> Callable[..., Any]:
        def act(frame: DataFrame, *values: Any, **named_values: Any) -> Any:  # noqa: ANN401  Spark's
            seen.actions.append(name)
            return action(frame, *values, **named_values)

        return act

    monkeypatch.setattr(DataFrame, "collect", collected)
    for name in OTHER_ACTIONS:
        monkeypatch.setattr(DataFrame, name, named(name, getattr(DataFrame, name)))
    return seen


@pytest.fixture(scope="module")
def bench(spark_runtime: SparkRuntime, tmp_path_factory: pytest.TempPathFactory) -> SparkBench:
    return SparkBench(runtime=spark_runtime, folder=tmp_path_factory.mktemp("engine"))


def books(*, rows: int, differing: int, sources: int = 2) -> list[Table]:
    """So many sources; the last one has other amounts in its first rows."""
    plain = [(k, f"a{k % 9}", D(k), k) for k in range(rows)]
    other = [(k, a, v + (1 if k < differing else 0), n) for k, a, v, n in plain]
    return [
        a_table(f"s{at}", COLUMNS, *(other if at == sources - 1 else plain))
        for at in range(sources)
    ]


def open_groups(results: StageResults) -> int:
    return dict(results.metrics)["open_groups"]


@pytest.mark.case("E2")
@pytest.mark.case("E3")
@pytest.mark.case("E6")
def test_a_stage_is_one_action_that_hands_the_driver_counts_and_samples_alone(
    bench: SparkBench, actions: Actions
) -> None:
    sizes = []
    for differing in (200, 2000):
        actions.answers.clear()
        tables = books(rows=2000, differing=differing)
        comparison = compare(bench, a_job(tables, STAGES["row"], results=FEW), tables)
        assert comparison.measure("v").outside == differing
        assert open_groups(comparison.results()) == differing  # no other group meets Python
        sizes.append(actions.driver_bytes)
    assert actions.actions == ["collect", "collect"]
    assert all(len(PYTHON.findall(plan)) == 1 for plan in actions.plans)
    assert abs(sizes[1] - sizes[0]) < 500
    assert max(sizes) < 20_000


@pytest.mark.case("E4")
@pytest.mark.case("E5")
@pytest.mark.case("E7")
@pytest.mark.parametrize("kind", STAGES)
def test_spark_brings_keys_together_once_without_floats_lists_or_copies(
    bench: SparkBench, actions: Actions, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(engine, "on_one_executor", lambda _: False)
    for sources in (2, 5):
        actions.plans.clear()
        tables = books(rows=40, differing=3, sources=sources)
        comparison = compare(bench, a_job(tables, STAGES[kind]), tables)
        assert comparison.counts().rows_unmatched > 0
        (plan,) = actions.plans
        assert plan.count("Exchange shufflepartitionidpassthrough(") == 1
        assert "Join" not in plan
        assert not re.search(r"as (?:double|float)\b", plan)
        assert not re.search(r"collect_(?:list|set)|InMemoryTableScan", plan)


@pytest.mark.case("E4")
@pytest.mark.case("E5")
def test_sessions_raise_on_overflow_and_broadcast_little(spark_runtime: SparkRuntime) -> None:
    conf = spark_runtime.session().conf
    assert conf.get("spark.sql.ansi.enabled") == "true"
    limit = conf.get("spark.sql.autoBroadcastJoinThreshold") or ""
    assert int(limit.removesuffix("b")) <= 64 * 1024**2


@pytest.mark.case("E8")
def test_two_stages_share_a_session_at_the_same_time(
    bench: SparkBench, spark_runtime: SparkRuntime, tmp_path: Path
) -> None:
    session = spark_runtime.session()
    both = [books(rows=300, differing=7), books(rows=200, differing=11)]

    def run(tables: Sequence[Table]) -> int:
        made = bench.prepare(plan_of(a_job(tables, STAGES["row"]), tables), tables)[1]
        engine = SparkEngine(
            session,
            key=COMPARE_KEY,
            directory=tmp_path / str(len(tables[0].rows)),
            cancellation=Cancellation(session.sparkContext),
        )
        return engine.compare(made.stages[0], lambda _: None).counts.rows_unmatched

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(run, both)) == [7, 11]
    assert session.catalog.listTables() == []


def _copies(values: Iterator[int]) -> list[tuple[int, int]]:
    return [(1, value) for value in values]


@pytest.mark.case("P26")
@pytest.mark.parametrize(
    ("first", "second", "outside"),
    [
        (_copies(iter([7] * 100_000)), _copies(iter([7] * 100_000)), 0),
        (_copies(iter(range(100_000))), _copies(iter(range(99_999, -1, -1))), 0),
        (_copies(iter(range(100_000))), _copies(iter(range(100_000, 200_000))), 1),
    ],
    ids=["equal", "distinct in another order", "all other"],
)
def test_many_copies_of_one_key_are_never_multiplied(
    bench: SparkBench,
    first: Sequence[tuple[int, int]],
    second: Sequence[tuple[int, int]],
    outside: int,
) -> None:
    """A product would be 10^10 pairs; this ends because rows are sorted and paired by rank."""
    tables = [a_table("one", "k int, v int", *first), a_table("two", "k int, v int", *second)]
    stage: Stage = rows_by("k", a_measure("v"))
    comparison = compare(bench, a_job(tables, stage), tables)
    counts = comparison.counts()
    assert (counts.rows_compared, counts.matched_groups) == (1, 1)
    assert (counts.source_row_counts, counts.duplicate_keys_by_source) == ((100_000,) * 2, (1, 1))
    assert (comparison.measure("v").outside, comparison.measure("$rows").outside) == (outside, 0)


@pytest.mark.case("P65")
@pytest.mark.parametrize(
    ("column", "most", "refused"),
    [("v", 16 * 1024**2, ValueTooLargeError), ("k", 64 * 1024, KeyTooLargeError)],
)
def test_a_file_with_a_value_or_key_at_its_real_limit_is_compared_and_one_byte_more_is_not(
    bench: SparkBench, column: str, most: int, refused: type[DatarecsError]
) -> None:
    """The refusal first: the session answers the next question all the same."""
    for size, fits in ((most + 1, False), (most, True)):
        row = ("x" * size, "v") if column == "k" else ("k", "x" * size)
        tables = [a_table("one", "k text, v text", row), a_table("two", "k text, v text", row)]
        job = a_job(tables, rows_by("k", a_measure("v")))
        if fits:
            assert compare(bench, job, tables).counts().rows_matched == 1
        else:
            with pytest.raises(refused, match=f"more than the allowed {most:,} bytes"):
                compare(bench, job, tables)


@pytest.mark.parametrize("strategy", [Strategy.FULL, Strategy.NARROW])
def test_a_column_that_some_files_lack_is_null_where_that_is_declared(
    bench: SparkBench, tmp_path: Path, strategy: Strategy
) -> None:
    """As the oracle reads them; the kernel leaves files of different schemas to Spark."""
    whole = [(k, None if k < 2 else f"t{k}", None if k > 1 else k) for k in range(4)]
    tables = [a_table(name, "k int, t text, n int", *whole) for name in ("one", "two")]
    parts = [pa.table({"n": [0, 1], "k": [0, 1]}), pa.table({"t": ["t2", "t3"], "k": [2, 3]})]
    for at, part in enumerate(parts):
        pq.write_table(part, tmp_path / f"{at}.parquet")
    files = tuple(
        PinnedFile(path=each.name, size_bytes=each.stat().st_size, rows=2)
        for each in sorted(tmp_path.iterdir())
    )
    pin = FileList(root=str(tmp_path), files=files, taken_at=NOON)
    stage = rows_by("k", a_measure("t"), a_measure("n"))
    job = a_job(tables, stage, execution=Execution(strategy=strategy))
    spark_engine, plan = bench.prepare(plan_of(job, tables), tables)
    merging = replace(plan.scans[0], pin=pin, options=(("merge_schema", True),))
    plan = plan.with_scans((merging, *plan.scans[1:]))
    counts = spark_engine.compare(plan.stages[0], lambda _: None).counts
    assert (counts.source_row_counts, counts.rows_matched) == ((4, 4), 4)


@pytest.mark.case("P65")
def test_a_stage_that_takes_more_disk_than_the_job_allows_ends_and_the_next_one_works(
    bench: SparkBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shuffle of ten thousand rows takes some hundred kB."""
    monkeypatch.setattr(engine, "on_one_executor", lambda _: False)
    tables = books(rows=5000, differing=3)
    for spill, fits in ((1, False), (2**26, True)):
        job = a_job(tables, STAGES["row"], execution=Execution(spill=spill))
        if fits:
            assert compare(bench, job, tables).counts().rows_unmatched == 3
        else:
            with pytest.raises(ComparisonFailedError, match=r"execution\.spill") as caught:
                compare(bench, job, tables)
            assert caught.value.code.name == "SPILL_EXHAUSTED"


@pytest.mark.case("P59")
def test_a_file_whose_pages_are_damaged_is_named_in_the_error(
    bench: SparkBench, tmp_path: Path
) -> None:
    """Its size and its footer are as they were pinned."""
    tables = [a_table(name, "k int, v text", (1, "1")) for name in ("one", "two")]
    path = tmp_path / "damaged.parquet"
    pq.write_table(pa.table({"k": range(5000), "v": [f"{k:x}" for k in range(5000)]}), path)
    written = path.read_bytes()
    path.write_bytes(written[:1000] + bytes(2000) + written[3000:])
    file = PinnedFile(path=path.name, size_bytes=len(written), rows=5000)
    pin = FileList(root=str(tmp_path), files=(file,), taken_at=NOON)
    spark_engine, plan = bench.prepare(
        plan_of(a_job(tables, rows_by("k", a_measure("v"))), tables), tables
    )
    plan = plan.with_scans((replace(plan.scans[0], pin=pin), *plan.scans[1:]))
    with pytest.raises(SourceFailedError, match=r"damaged\.parquet") as caught:
        spark_engine.compare(plan.stages[0], lambda _: None)
    assert caught.value.code.name == "CORRUPT_SOURCE"


@pytest.mark.slow
@pytest.mark.case("P65")
def test_wide_rows_that_two_threads_cannot_join_are_joined_by_one(
    bench: SparkBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key is in both sources; with two threads the join fails within this memory."""
    monkeypatch.setattr(engine, "kernel_memory", lambda _: 320 * 2**20)
    rows, pins = 300_000, []
    tables = [a_table(name, "k text, v text", ("a", "b")) for name in ("one", "two")]
    for name in ("one", "two"):
        path, value = tmp_path / f"{name}.parquet", "repeat(md5(i::TEXT), 16)"
        duckdb.sql(
            f"COPY (SELECT '{name}' || md5(i::TEXT) AS k, {value} AS v FROM range({rows}) t(i))"  # noqa: S608  made here
            f" TO '{path}' (COMPRESSION zstd)"
        )
        file = PinnedFile(path=path.name, size_bytes=path.stat().st_size, rows=rows)
        pins.append(FileList(root=str(tmp_path), files=(file,), taken_at=NOON))
    job = a_job(tables, rows_by("k", a_measure("v")), execution=Execution(strategy=Strategy.FULL))
    spark_engine, plan = bench.prepare(plan_of(job, tables), tables)
    plan = plan.with_scans(
        tuple(
            replace(scan, pin=pin, extract=None) for scan, pin in zip(plan.scans, pins, strict=True)
        )
    )
    counts = spark_engine.compare(plan.stages[0], lambda _: None).counts
    assert counts.unmatched_by_source == (rows, rows)


@pytest.mark.case("P65")
def test_memory_that_holds_no_row_group_is_named_in_the_error(
    bench: SparkBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "kernel_memory", lambda _: 2**24)
    rows = [(k, f"{k:01000}") for k in range(40_000)]
    tables = [a_table(name, "k int, v text", *rows) for name in ("one", "two")]
    with pytest.raises(ComparisonFailedError, match="need more memory at once") as caught:
        compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables)
    assert caught.value.code.name == "OUT_OF_MEMORY"


@pytest.mark.parametrize("at_once", [True, False])
def test_a_task_that_is_killed_leaves_no_verdict(
    bench: SparkBench, monkeypatch: pytest.MonkeyPatch, *, at_once: bool
) -> None:
    way = reading_tasks if at_once else partitions
    monkeypatch.setattr(way, "attempt_name", partial(os._exit, 9))
    monkeypatch.setattr(engine, "on_one_executor", lambda _: at_once)
    tables = books(rows=40, differing=3)
    with pytest.raises(ComparisonFailedError) as caught:
        compare(bench, a_job(tables, STAGES["row"]), tables)
    assert caught.value.code.name == "COMPARISON_FAILED"
    assert not list(bench.folder.glob(f"run-{next(bench.runs) - 1}/differences/*/part-*"))


def test_a_run_is_cancelled_inside_a_stage_and_before_the_next(
    bench: SparkBench, spark_runtime: SparkRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task waits for ever; the session serves the next run all the same."""
    tables = books(rows=40, differing=3)
    job = a_job(tables, *STAGES.values())
    spark_engine, plan = bench.prepare(plan_of(job, tables), tables)
    first, second = plan.stages
    tracker = spark_runtime.session().sparkContext.statusTracker()
    inspected = Event()

    def cancel() -> None:
        while not tracker.getActiveStageIds():
            inspected.wait(0.02)
        spark_runtime.cancel()

    with monkeypatch.context() as patched, ThreadPoolExecutor(1) as threads:
        patched.setattr(reading_tasks, "attempt_name", lambda: str(Event().wait()))
        cancelling = threads.submit(cancel)
        with pytest.raises(CancelledError):
            spark_engine.compare(first, lambda _: None)
        cancelling.result()
    with pytest.raises(CancelledError):
        spark_engine.compare(second, lambda _: None)
    assert compare(bench, job, tables).counts("rows").rows_unmatched == 3


@pytest.mark.case("P60")
@pytest.mark.parametrize("partitions", [1, 7, 64])
def test_a_proof_does_not_depend_on_partitions(
    bench: SparkBench, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    """Two, as in every other test; `test_other_java` repeats it on one core."""
    monkeypatch.setattr(engine, "on_one_executor", lambda _: False)
    rows = [(k % 29, f"a{k % 7}", D(k % 23) / 4, k) for k in range(90)]
    tables = [
        a_table("one", COLUMNS, *rows, (None, None, None, None)),
        a_table("two", COLUMNS, *[row for row in rows if row[3] % 13], *rows[:5]),
    ]
    job = a_job(tables, *STAGES.values(), execution=Execution(partitions=partitions))
    comparison, expected = compare(bench, job, tables), compare(MemoryBench(), job, tables)
    assert comparison.stored == expected.stored
    proofs = [
        canonical_json(
            proof_document(expected.plan, each.outcome, Sealing(versions={}, key_id="k1"))
        )
        for each in (comparison, expected)
    ]
    assert proofs[0] == proofs[1]


@pytest.mark.parametrize("kind", STAGES)
@pytest.mark.parametrize("strategy", [Strategy.FULL, Strategy.NARROW])
def test_a_stage_reports_how_far_it_is_before_it_is_done(
    bench: SparkBench, monkeypatch: pytest.MonkeyPatch, kind: str, strategy: Strategy
) -> None:
    """A stage is slow here if its last answer waits for the first report."""
    monkeypatch.setattr(watching, "CHECK_EVERY_S", 0.005)
    collect, reported, seen = DataFrame.collect, Event(), list[Progress]()

    def collected(frame: DataFrame) -> list[Row]:
        rows = collect(frame)
        assert reported.wait(30)
        return rows

    def progress(progress_report: Progress) -> None:
        seen.append(progress_report)
        reported.set()

    monkeypatch.setattr(DataFrame, "collect", collected)
    tables = books(rows=3000, differing=7)
    job = a_job(tables, STAGES[kind], execution=Execution(strategy=strategy))
    spark_engine, plan = bench.prepare(plan_of(job, tables), tables)
    results = spark_engine.compare(plan.stages[0], progress)
    *early, last = seen
    assert early
    assert [each.mismatch_count for each in early] == [0] * len(early)
    counts = [each.row_count for each in early]
    assert counts == sorted(set(counts))
    assert counts[-1] <= last.row_count == 6000
    assert last.mismatch_count == results.counts.rows_unmatched
