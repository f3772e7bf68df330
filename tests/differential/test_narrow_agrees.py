"""Strategy `narrow`, forced wherever it is allowed, gives the oracle's numbers digit by digit.

Shapes are drawn until the planner narrows them, from a fixed stream, so every run asks the same
questions. The engine may fall back only where totals need more than 38 digits.
"""

from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from uuid import UUID

import pytest

from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.vocabulary import Strategy
from datarecs_runtime.environment import process_environment
from datarecs_spark import kept_rows, narrowing
from datarecs_spark.session import SparkRuntime
from datarecs_testing.comparisons import a_measure, compare, rows_by
from datarecs_testing.finished_runs import MemoryBench
from datarecs_testing.narrowing import a_narrowed_case, narrowed, numbers
from datarecs_testing.spark import SparkBench
from datarecs_testing.tables import a_job, pair

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SHAPES = int(process_environment().get("DATARECS_TEST_SHAPES", "2"))
SETS = 50
NONE = -1


@pytest.fixture(scope="module")
def bench(spark_runtime: SparkRuntime, tmp_path_factory: pytest.TempPathFactory) -> SparkBench:
    return SparkBench(spark_runtime, tmp_path_factory.mktemp("narrow"))


@pytest.mark.case("P60")
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("way", "seed"),
    [
        *product(["in the task", "in a few tasks"], range(SHAPES)),
        *product(["by Spark", "in many tasks"], range(SHAPES // 2)),
    ],
)
def test_narrow_and_the_oracle_agree_on_every_number(
    bench: SparkBench, way: str, seed: int, *, strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way in {"in a few tasks", "by Spark"}:
        monkeypatch.setattr(kept_rows, "MOST_KEPT", NONE)
    if way == "by Spark":
        monkeypatch.setattr(kept_rows, "MOST_APART", NONE)
    if way == "in many tasks":
        monkeypatch.setattr(narrowing, "on_one_executor", lambda _: False)
    case = a_narrowed_case(seed, strict=strict, sets=SETS)
    job = narrowed(case.job)
    expected = compare(MemoryBench(), case.job, case.tables)
    found = compare(bench, job, case.tables)
    used = found.results("stage").strategy
    assert used is not None
    assert used.chosen is Strategy.NARROW or "OutOfRange" in used.rejected[0][1]
    assert found.stored == expected.stored
    assert numbers(found.results("stage")) == numbers(expected.results("stage"))
    assert found.warnings == expected.warnings


def _of_every_type(key: int, value: int) -> dict[str, object]:
    day = datetime(2026, 1, 1, 12, 30, 0, value)  # noqa: DTZ001 - for the column without a zone
    return {
        "k int": key,
        "whole int": value,
        "exact decimal(20,4)": Decimal(value).scaleb(-4),
        "float float64": value / 8,
        "half float32": value / 4,
        "word text": f"é {value}",
        "flag bool": value % 2 == 0,
        "day date": day.date(),
        "at instant": day.replace(tzinfo=UTC),
        "here local_timestamp": day,
        "id uuid": UUID(int=value),
        "raw binary": bytes([value]) * 3,
        "none int": None,
    }


@pytest.mark.parametrize("way", ["in the task", "in a few tasks", "by Spark"])
def test_rows_of_every_type_that_are_all_unlike_are_judged_as_they_were_left(
    bench: SparkBench, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys ascend, so that what pairing leaves is what is kept."""
    if way != "in the task":
        monkeypatch.setattr(kept_rows, "MOST_KEPT", NONE)
    if way == "by Spark":
        monkeypatch.setattr(kept_rows, "MOST_APART", NONE)
    one = [_of_every_type(key, key) for key in range(40)]
    two = [_of_every_type(key, key + (key % 3 == 0)) for key in range(44) if key % 10 != 7]
    kinds = ", ".join(one[0])
    tables = pair(kinds, *([tuple(row.values()) for row in rows] for rows in (one, two)))
    measures = [a_measure(kind.split()[0]) for kind in one[0] if kind != "k int"]
    job = narrowed(a_job(tables, rows_by("k", *measures)))
    found, expected = compare(bench, job, tables), compare(MemoryBench(), job, tables)
    assert found.stored == expected.stored
    assert numbers(found.results("rows")) == numbers(expected.results("rows"))
    told = found.results("rows")
    assert told.strategy is not None
    assert told.strategy.chosen is Strategy.NARROW
    unlike = [row for row in one if row not in two], [row for row in two if row not in one]
    assert dict(told.metrics)["rows_kept"] == sum(map(len, unlike))


def test_bytes_that_only_spark_can_name_make_a_forced_narrow_full(bench: SparkBench) -> None:
    """The same broken bytes in both sources are INVALID twice and never equal."""
    tables = pair("k int, v text", [(1, Invalid(b"\xff")), (2, "a")], [(1, "b"), (2, "a")])
    job = narrowed(a_job(tables, rows_by("k", a_measure("v"))))
    found = compare(bench, job, tables).results("rows")
    assert found.strategy is not None
    assert found.strategy.chosen is Strategy.FULL
    assert found.strategy.rejected[0] == (
        Strategy.NARROW,
        "the kernel cannot read it (ComputeError)",
    )
    assert found.counts.invalid_values_by_source == (1, 0)
