"""Both ways of Spark's engine, over files and over partitions, have the oracle's numbers and bytes.

Shapes come from a fixed stream, so every run tests the same jobs.
"""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import shake_256
from uuid import UUID

import pytest

from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.definition import Execution
from datarecs_core.jobs.vocabulary import Strategy
from datarecs_kernel.refusals import NotCoveredError
from datarecs_runtime.environment import process_environment
from datarecs_spark.session import SparkRuntime
from datarecs_testing.comparisons import a_measure, compare, rows_by
from datarecs_testing.finished_runs import MemoryBench
from datarecs_testing.spark import SparkBench
from datarecs_testing.strategies import Choices, shape_from, tables_from, tagged
from datarecs_testing.tables import a_job, pair
from datarecs_testing.ways import numbers

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SHAPES = int(process_environment().get("DATARECS_TEST_SHAPES", "4"))
SETS = 50
_STREAM_BYTES = 20_000


@pytest.fixture(scope="module")
def bench(spark_runtime: SparkRuntime, tmp_path_factory: pytest.TempPathFactory) -> SparkBench:
    return SparkBench(runtime=spark_runtime, folder=tmp_path_factory.mktemp("ways"), twice=True)


@pytest.mark.case("P60")
@pytest.mark.parametrize("strategy", [Strategy.FULL, Strategy.NARROW])
@pytest.mark.parametrize("seed", range(SHAPES))
def test_both_ways_and_the_oracle_agree_on_every_number(
    bench: SparkBench, seed: int, strategy: Strategy
) -> None:
    choices = Choices(shake_256(f"ways {seed}".encode()).digest(_STREAM_BYTES))
    shape = shape_from(choices, strict=seed % 2 == 0)
    case = tagged(shape, [tables_from(choices, shape) for _ in range(SETS)])
    expected = compare(MemoryBench(), case.job, case.tables)
    execution = replace(case.job.execution, strategy=strategy)
    try:
        comparison = compare(bench, replace(case.job, execution=execution), case.tables)
    except NotCoveredError as refusal:
        pytest.skip(str(refusal))
    assert comparison.stored == expected.stored
    assert numbers(comparison.results("stage")) == numbers(expected.results("stage"))
    assert comparison.warnings == expected.warnings


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


@pytest.mark.case("P60")
@pytest.mark.parametrize("strategy", [Strategy.FULL, Strategy.NARROW])
def test_rows_of_every_type_have_one_answer(bench: SparkBench, strategy: Strategy) -> None:
    one = [_of_every_type(key, key) for key in range(40)]
    two = [_of_every_type(key, key + (key % 3 == 0)) for key in range(44) if key % 10 != 7]
    tables = pair(
        ", ".join(one[0]), *([tuple(row.values()) for row in rows] for rows in (one, two))
    )
    measures = [a_measure(kind.split()[0]) for kind in one[0] if kind != "k int"]
    job = a_job(tables, rows_by("k", *measures), execution=Execution(strategy=strategy))
    comparison, expected = compare(bench, job, tables), compare(MemoryBench(), job, tables)
    assert comparison.stored == expected.stored
    assert numbers(comparison.results("rows")) == numbers(expected.results("rows"))


@pytest.mark.case("P32")
def test_bytes_that_are_no_text_are_invalid_in_both_ways(bench: SparkBench) -> None:
    """The same broken bytes in both sources are INVALID twice and never equal."""
    tables = pair("k int, v text", [(1, Invalid(b"\xff")), (2, "a")], [(1, "b"), (2, "a")])
    comparison = compare(bench, a_job(tables, rows_by("k", a_measure("v"))), tables).results("rows")
    assert comparison.counts.invalid_values_by_source == (1, 0)
    assert comparison.counts.rows_unmatched == 1
