"""Aggregates have the oracle's numbers and bytes over files and over Spark's partitions."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from datarecs_core.comparison.planning.scan import FileList
from datarecs_core.jobs.definition import (
    ColumnRules,
    Normalize,
    NullRules,
    NumberRules,
    Scope,
    StringRules,
    TimestampRules,
)
from datarecs_core.jobs.vocabulary import (
    Case,
    EmptyText,
    Function,
    NullAs,
    NullKeys,
    TimePrecision,
    Trim,
)
from datarecs_kernel import spellings
from datarecs_kernel.refusals import SourceFailedError
from datarecs_spark import engine
from datarecs_spark.session import SparkRuntime
from datarecs_testing.comparisons import a_measure, absolute, aggregate_by, compare, rows_by
from datarecs_testing.finished_runs import MemoryBench
from datarecs_testing.spark import SparkBench
from datarecs_testing.tables import Row, a_job, a_table, plan_of
from datarecs_testing.ways import numbers

pytestmark = [pytest.mark.spark, pytest.mark.slow]

D = Decimal
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
COLUMNS = "k text, day date, at instant, v {}, n int, t text"
ROWS: list[Row] = [
    ("a", date(2026, 1, 1), NOON, D("0.10"), 2**62, "\uffee"),
    ("a", date(2026, 1, 1), NOON.replace(microsecond=1), D("0.25"), 2**62, "\U0001f600"),
    (" A", date(2026, 1, 1), NOON, D("-0.35"), None, "\u00e9"),
    ("", None, NOON, None, 1, ""),
    (None, None, None, D("99999999.99"), 0, None),
    ("\u00e9", date(1582, 10, 10), NOON, D("1.00"), -1, "z"),
]
FUNCTIONS = (
    a_measure("rows", function=Function.COUNT),
    a_measure("sum", absolute("0.1"), function=Function.SUM, column="v"),
    a_measure("whole", function=Function.SUM, column="n"),
    a_measure("most", function=Function.MAX, column="v"),
    a_measure("values", function=Function.COUNT, column="t"),
    a_measure("least", function=Function.MIN, column="t"),
    a_measure("last", function=Function.MAX, column="day"),
)
MEAN = a_measure("mean", function=Function.AVG, column="v")
RELAXED = Normalize(
    strings=StringRules(trim=Trim.BOTH, case=Case.FOLD, empty=EmptyText.NULL),
    numbers=NumberRules(round=1, null=NullAs.ZERO),
    timestamps=TimestampRules(precision=TimePrecision.SECONDS),
    nulls=NullRules(keys=NullKeys.EXCLUDE),
    columns={"t": ColumnRules(trim=Trim.NONE, case=Case.EXACT, empty=EmptyText.KEEP)},
)
"""Of keys and results."""


@pytest.fixture(scope="module")
def bench(spark_runtime: SparkRuntime, tmp_path_factory: pytest.TempPathFactory) -> SparkBench:
    return SparkBench(runtime=spark_runtime, folder=tmp_path_factory.mktemp("groups"))


@pytest.mark.case("P60")
@pytest.mark.parametrize(
    ("normalize", "many"),
    [(Normalize(), False), (RELAXED, False), (Normalize(), True), (RELAXED, True)],
    ids=["files", "files with rules", "partitions", "partitions with rules"],
)
def test_edges_of_groups_have_one_answer(
    bench: SparkBench, monkeypatch: pytest.MonkeyPatch, normalize: Normalize, *, many: bool
) -> None:
    """NULLs, texts beyond ASCII, days before the calendar, other digits, sources without rows."""
    if many:
        monkeypatch.setattr(engine, "on_one_executor", lambda _: False)
    changed = [
        (*row[:3], v + D("0.0001") if isinstance(v := row[3], Decimal) else None, *row[4:])
        for row in ROWS[:-1]
    ]
    tables = [
        a_table("one", COLUMNS.format("decimal(10,2)"), *ROWS),
        a_table("two", COLUMNS.format("decimal(20,4)"), *changed, *changed[:1]),
        a_table("three", COLUMNS.format("decimal(10,2)")),
    ]
    where = "k IN ('a', '') AND n > 0"
    stages = (
        aggregate_by("k", *FUNCTIONS, name="keys"),
        aggregate_by("k day at", MEAN, *FUNCTIONS[:3], name="means", where=where),
        aggregate_by("", *FUNCTIONS, name="whole"),
        rows_by("k n", a_measure("v"), scope=Scope(from_stage="keys")),
    )
    chosen_stages = stages[:2] if normalize is RELAXED else stages
    job = a_job(tables, *chosen_stages, normalize=normalize)
    expected, comparison = compare(MemoryBench(), job, tables), compare(bench, job, tables)
    for stage in expected.plan.stages:
        assert comparison.stored[stage.name] == expected.stored[stage.name]
        assert [row.raw_keys for row in comparison.stored[stage.name]] == [
            row.raw_keys for row in expected.stored[stage.name]
        ]
        assert numbers(comparison.results(stage.name)) == numbers(expected.results(stage.name))
    assert comparison.warnings == expected.warnings


@pytest.mark.case("F14")
def test_a_file_with_other_rows_than_were_pinned_is_an_error(bench: SparkBench) -> None:
    """As if another of its size had taken its place between pin and read."""
    rows: list[Row] = [("a", 1), ("a", 2)]
    tables = [a_table(name, "k text, n int", *rows) for name in ("one", "two")]
    stage = aggregate_by("k", a_measure("n", function=Function.SUM))
    spark_engine, plan = bench.prepare(plan_of(a_job(tables, stage), tables), tables)
    pin = plan.scans[0].pin
    assert isinstance(pin, FileList)
    files = tuple(replace(each, rows=3) for each in pin.files)
    scans = (replace(plan.scans[0], pin=replace(pin, files=files)), plan.scans[1])
    with pytest.raises(SourceFailedError, match="2 rows were read, but 3 were pinned") as caught:
        spark_engine.compare(plan.with_scans(scans).stages[0], lambda _: None)
    assert caught.value.code.name == "SNAPSHOT_LOST"


def test_spellings_do_not_depend_on_how_many_are_grouped_at_a_time(
    bench: SparkBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spellings, "_MOST_SPELLINGS", 4)
    monkeypatch.setattr(spellings, "_READ_ROWS", 1)
    keys = [chr(ord("a") + number) for number in range(9)]
    tables = [
        a_table("one", "k text, v int", *((key, 1) for key in keys)),
        a_table("two", "k text, v int", *((f" {key.upper()}", 2) for key in keys)),
    ]
    job = a_job(tables, rows_by("k", a_measure("v"), name="rows"), normalize=RELAXED)
    expected, comparison = compare(MemoryBench(), job, tables), compare(bench, job, tables)
    written = {row.break_id: row.raw_keys for row in comparison.stored["rows"]}
    assert len(written) == len(keys)
    assert all(written.values())
    assert written == {row.break_id: row.raw_keys for row in expected.stored["rows"]}
