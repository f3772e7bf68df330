"""A first reading leaves every row that may differ, and believes no hash alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from tempfile import TemporaryDirectory

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings

from datarecs_core.comparison.oracle.grouping import Outside
from datarecs_core.comparison.oracle.reference import compare_stage
from datarecs_core.comparison.planning.faults import PlanRefusedError
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.definition import Normalize, NumberRules
from datarecs_core.jobs.vocabulary import NanRule, StageType
from datarecs_kernel.first_reading import Saving, narrowed
from datarecs_kernel.hash_sums import weights_for
from datarecs_kernel.layout import Layout, check_covered
from datarecs_kernel.refusals import NotCoveredError
from datarecs_kernel.results import stage_results
from datarecs_kernel.row_hashes import RowHashes
from datarecs_kernel.rows import compare_rows
from datarecs_kernel.settling import SinkPlan, settle
from datarecs_kernel.tallies import SourceTally, tally
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.relations import relations_of, rows_layout
from datarecs_testing.strategies import ComparisonCase, tagged_cases
from datarecs_testing.tables import Row, Table, a_job, a_table, plan_of

OUTSIDE = Outside(key=COMPARE_KEY)
COLUMNS = "id int, amount decimal(10,2), price float64, note text"
KEYS = 400


def rows(count: int = KEYS) -> list[Row]:
    return [(at, at * 3, at / 7, f"note {at}") for at in range(count)]


def changed(at: int, place: int, value: object) -> list[Row]:
    row_list = rows()
    row = list(row_list[at])
    row[place] = value
    return [*row_list[:at], tuple(row), *row_list[at + 1 :]]


@dataclass(frozen=True)
class Left:
    """What a first reading left: ids per source, and how many groups are equal."""

    ids: list[list[int | None]]
    equal: int


def left_of(
    sources: Sequence[Sequence[Row]],
    *,
    most_open: float = 0.5,
    normalize: Normalize | None = None,
    hashes: RowHashes | None = None,
    most_hashes: int = 2**25,
) -> Left | None:
    """A first reading of sources with an id and three values."""
    tables = [a_table(f"s{at}", COLUMNS, *each) for at, each in enumerate(sources)]
    stage = rows_by("id", *map(a_measure, ("amount", "price", "note")))
    plan = plan_of(a_job(tables, stage, normalize=normalize or Normalize()), tables).stages[0]
    with duckdb.connect() as connection:
        layout, names, tallies = prepared(connection, plan, tables)
        saving = Saving(
            tallies=tallies,
            fewest_rows=0,
            most_open=most_open,
            hashes=hashes,
            most_hashes=most_hashes,
        )
        with narrowed(connection, layout, names, saving) as relation:
            if relation is None:
                return None
            ids = [ids_of(connection, name) for name in relation.relations]
    return Left(ids, relation.equal_groups)


def ids_of(connection: duckdb.DuckDBPyConnection, relation: str) -> list[int | None]:
    ids = connection.table(relation).to_arrow_table().column("k0").to_pylist()
    return sorted(ids, key=str)


def prepared(
    connection: duckdb.DuckDBPyConnection, plan: StagePlan, tables: Sequence[Table]
) -> tuple[Layout, list[str], list[SourceTally]]:
    delivered = [each.delivered(scan) for each, scan in zip(tables, plan.scans, strict=True)]
    layout = rows_layout(plan, delivered)
    names = relations_of(connection, layout, delivered, OUTSIDE)
    return layout, names, [tally(connection, layout, at, each) for at, each in enumerate(names)]


@pytest.mark.parametrize("sources", [2, 3, 5])
def test_equal_rows_in_any_order_are_read_once(sources: int) -> None:
    left = left_of([rows()[at:] + rows()[:at] for at in range(sources)])
    assert left == Left([[] for _ in range(sources)], KEYS)


@pytest.mark.parametrize("sources", [2, 3, 5])
@pytest.mark.parametrize(
    "other",
    [
        pytest.param(changed(7, 1, 22), id="amount"),
        pytest.param(changed(7, 2, None), id="NULL"),
        pytest.param(changed(7, 3, "note 8"), id="text"),
        pytest.param(changed(7, 0, None), id="key"),
        pytest.param([row for row in rows() if row[0] != 7], id="missing"),
        pytest.param([*rows(), rows()[7]], id="copy"),
    ],
)
def test_a_row_that_differs_anywhere_is_left_in_every_source(
    sources: int, other: list[Row]
) -> None:
    left = left_of([*[rows()] * (sources - 1), other])
    assert left is not None
    assert all(7 in ids for ids in left.ids[:-1])
    assert [left.equal + len(ids) for ids in left.ids] == [KEYS] * (sources - 1) + [len(other)]
    assert left.equal > KEYS * 0.9


def test_values_that_swap_their_rows_are_left() -> None:
    swapped = changed(7, 1, 24)
    swapped[8] = (8, 21, *rows()[8][2:])
    left = left_of([rows(), swapped])
    assert left is not None
    assert all({7, 8} <= set(ids) for ids in left.ids)


def test_keys_that_repeat_alike_in_all_sources_are_left() -> None:
    left = left_of([[*rows(), rows()[7]]] * 3)
    assert left is not None
    assert all(ids.count(7) == 2 for ids in left.ids)
    assert [left.equal + len(ids) for ids in left.ids] == [KEYS + 1] * 3


def test_keys_that_repeat_are_left_however_many_turns_their_hashes_take() -> None:
    source = [*rows(), rows()[7], rows()[301], *rows()[350:355]]
    left = left_of([source, source[::-1]], most_hashes=60)
    assert left is not None
    assert all({7, 301, *range(350, 355)} <= set(ids) for ids in left.ids)
    assert [left.equal + len(ids) for ids in left.ids] == [len(source)] * 2


def test_nan_is_left_where_it_equals_nothing() -> None:
    nan = changed(7, 2, float("nan"))
    assert left_of([nan, nan]) == Left([[], []], KEYS)
    left = left_of([nan, nan], normalize=Normalize(numbers=NumberRules(nan=NanRule.UNEQUAL)))
    assert left is not None
    assert all(7 in ids for ids in left.ids)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param([(*row[:3], "other") for row in rows()], id="values"),
        pytest.param([*rows(), *rows()], id="copies"),
    ],
)
def test_it_stops_where_most_rows_are_left(other: list[Row]) -> None:
    assert left_of([rows(), other]) is None
    left = left_of([rows(), other], most_open=1)
    assert left is not None
    assert left.equal + len(left.ids[0]) == KEYS


def test_small_stages_are_not_read_twice() -> None:
    tables = [a_table(name, "id int", (1,)) for name in ("one", "two")]
    plan = plan_of(a_job(tables, rows_by("id")), tables).stages[0]
    with duckdb.connect() as connection:
        layout, names, tallies = prepared(connection, plan, tables)
        with narrowed(connection, layout, names, Saving(tallies=tallies)) as relation:
            assert relation is None


class ForgedHashes(RowHashes):
    """Every row has the same hash, so that every bucket seems to be equal."""

    def columns(self, layout: Layout, source: int) -> tuple[str, str]:
        key, _ = super().columns(layout, source)
        return key, "0::UBIGINT"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(rows()[1:], id="rows"),
        pytest.param(changed(7, 0, None), id="NULL keys"),
        pytest.param(changed(7, 1, 22), id="totals"),
    ],
)
def test_numbers_without_hashes_refute_forged_ones(other: list[Row]) -> None:
    weights = weights_for(2, [3, 5])
    forged = ForgedHashes(salt=1, prefix="salt", weights=weights)
    assert left_of([rows(), rows()], hashes=forged) == Left([[], []], KEYS)
    assert left_of([rows(), other], hashes=forged) is None
    assert left_of([rows(), other]) is not None


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=tagged_cases(sets=4, kinds=[StageType.ROW]))
def test_every_answer_is_the_oracles_with_and_without_it(case: ComparisonCase) -> None:
    try:
        plan = plan_of(case.job, case.tables).stages[0]
        check_covered(plan)
    except (PlanRefusedError, NotCoveredError):
        return
    delivered = [each.delivered(scan) for each, scan in zip(case.tables, plan.scans, strict=True)]
    expected = numbers_or_code(lambda: compare_stage(plan, delivered, OUTSIDE).results)
    for most_open in (None, 0.5, 1.0):
        assert numbers_or_code(partial(kernel_results, plan, case.tables, most_open)) == expected


def kernel_results(
    plan: StagePlan, tables: Sequence[Table], most_open: float | None
) -> StageResults:
    """Of the kernel; None compares every row exactly."""
    with TemporaryDirectory() as folder, duckdb.connect() as connection:
        layout, names, tallies = prepared(connection, plan, tables)
        sink = SinkPlan(layout=layout, key=COMPARE_KEY, directory=folder, scope_directory=None)
        saving = None
        if most_open is not None:
            saving = Saving(tallies=tallies, fewest_rows=0, most_open=most_open)
        counted = settle(sink, compare_rows(connection, sink, names, "test", saving), connection)
        return stage_results(layout, counted, tallies, folder)


def numbers_or_code(results: Callable[[], StageResults]) -> StageResults | str:
    """Without where differences lie and how the work went."""
    try:
        result_rows = results()
    except DatarecsError as refusal:
        return refusal.code.docs_id
    plain = replace(result_rows.differences, location=None)
    return replace(result_rows, differences=plain, metrics=(), strategy=None)
