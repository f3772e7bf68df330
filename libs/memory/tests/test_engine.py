"""The oracle behind the Engine port, held to the suite that every engine passes."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count, repeat

import pytest

from datarecs_core.comparison.oracle.grouping import MAX_ROWS
from datarecs_core.comparison.planning.faults import (
    ConditionNotSupportedError,
    OracleMemoryError,
    TooManyRowsError,
)
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import Extract, Scan
from datarecs_core.comparison.results.results import Difference
from datarecs_core.jobs.definition import Stage
from datarecs_memory.engine import MemoryEngine
from datarecs_testing.comparisons import (
    RecheckBench,
    a_measure,
    counting,
    rows_by,
)
from datarecs_testing.conformance.engine import (
    DerivedConformance,
    EngineConformance,
    RelaxationConformance,
)
from datarecs_testing.conformance.engine_rechecks import RecheckSpellingConformance
from datarecs_testing.finished_runs import MemoryBench
from datarecs_testing.tables import Table, a_job, pair, plan_of


def planned(stage: Stage, *rows: int) -> tuple[StagePlan, list[Table]]:
    tables = pair("k int", [(k,) for k in rows], [])
    return plan_of(a_job(tables, stage), tables).stages[0], tables


def test_differences_go_where_the_writer_puts_them() -> None:
    plan, tables = planned(rows_by("k"), 1)
    written: list[Difference] = []

    def write(stage: StagePlan, rows: Sequence[Difference]) -> str:
        written.extend(rows)
        return f"somewhere/{stage.name}"

    engine = MemoryEngine(lambda scan: tables[scan.index].delivered(scan), write=write)
    results = engine.compare(plan, lambda _: None)
    assert results.differences.location == "somewhere/rows"
    assert tuple(written) == engine.differences("rows")


def test_rows_beyond_the_memory_of_the_engine_are_refused_before_they_are_compared() -> None:
    tables = pair("k int, note text", [(1, "x" * 10_000)] * 3, [(1, "y")])
    plan = plan_of(a_job(tables, rows_by("k", a_measure("note"))), tables)
    MemoryEngine(lambda scan: tables[scan.index].delivered(scan), max_bytes=200_000).load(plan)
    small = MemoryEngine(lambda scan: tables[scan.index].delivered(scan), max_bytes=100_000)
    with pytest.raises(OracleMemoryError, match="source one"):
        small.load(plan)


def test_each_source_is_read_once_for_all_stages() -> None:
    tables = pair("k int", [(1,)], [(1,)])
    reads: list[str] = []

    def read(scan: Scan) -> Iterable[tuple[object, ...]]:
        reads.append(scan.source)
        return tables[scan.index].delivered(scan)

    engine = MemoryEngine(read)
    for stage in plan_of(a_job(tables, counting(), rows_by("k")), tables).stages:
        engine.compare(stage, lambda _: None)
    assert reads == ["one", "two"]


@pytest.mark.parametrize("brought", [True, False])
def test_rows_that_a_source_retained_are_counted_whether_they_are_read_or_not(
    *, brought: bool
) -> None:
    """A source may exclude rows that no stage needs; without an extract it returns all rows."""
    tables = pair("k int, v int", [(1, 1), (2, 2), (3, 3)], [(1, 1), (3, 4)])
    stages = (rows_by("k", a_measure("v"), where="k < 3"), counting(where="k < 3"))
    whole = plan_of(a_job(tables, *stages), tables)
    extract = Extract(root="memory:", files=(), rows=2, decoded_bytes=9, source_rows=3)
    partial = whole.with_scans((replace(whole.scans[0], extract=extract), whole.scans[1]))

    def read(scan: Scan) -> Iterable[tuple[object, ...]]:
        rows = tables[scan.index].delivered(scan)
        return rows[:2] if brought and scan.extract is not None else rows

    engine, expected = MemoryEngine(read), MemoryEngine(read)
    for stage, other in zip(partial.stages, whole.stages, strict=True):
        result = engine.compare(stage, lambda _: None)
        assert result == expected.compare(other, lambda _: None)
        assert (result.closure[0].extracted, result.closure[0].out_of_scope) == (3, 1)


def test_more_rows_than_the_oracle_takes_are_refused_without_reading_on() -> None:
    plan, _ = planned(counting())
    taken = count()
    engine = MemoryEngine(lambda _: ((next(taken),) for _ in repeat(None)))
    with pytest.raises(TooManyRowsError, match="more than 100000 rows"):
        engine.compare(plan, lambda _: None)
    assert next(taken) < 2 * MAX_ROWS + 10


@pytest.mark.parametrize("where", ["upper(k) = 'X'", "k = 'x'"])
def test_a_condition_beyond_the_oracle_is_refused_with_what_it_knows(where: str) -> None:
    """The planner makes no such stage: sources compute what says more."""
    plan, tables = planned(rows_by("k"), 1)
    engine = MemoryEngine(lambda scan: tables[scan.index].delivered(scan))
    with pytest.raises(ConditionNotSupportedError, match="IS NULL, AND, OR and NOT"):
        engine.compare(replace(plan, where=where), lambda _: None)


def test_a_plan_is_explained_in_words() -> None:
    plan, tables = planned(rows_by("k"), 1)
    engine = MemoryEngine(lambda scan: tables[scan.index].delivered(scan))
    assert "one, two" in engine.explain(plan).text


class TestMemoryEngine(
    EngineConformance, RelaxationConformance, DerivedConformance, RecheckSpellingConformance
):
    @pytest.fixture
    def bench(self) -> RecheckBench:
        return MemoryBench()
