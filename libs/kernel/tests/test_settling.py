"""Stored differences under their limit: what core stores, whatever batches and tasks there are."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from datarecs_core.comparison.oracle.grouping import Cell, Group
from datarecs_core.comparison.oracle.judging import DifferenceWriter, judge_group
from datarecs_core.comparison.planning.plan import Caps, StagePlan
from datarecs_core.comparison.results.differences import (
    RankedDifference,
    difference_bytes,
    difference_set,
    group_rank,
)
from datarecs_core.comparison.results.results import Difference, DifferenceSet
from datarecs_core.comparison.values.canonical import NULL, Value, encode_tuple, number, text
from datarecs_kernel import candidates
from datarecs_kernel.candidates import CandidateFiles
from datarecs_kernel.counted import Counted, read_counted
from datarecs_kernel.database import Connection
from datarecs_kernel.decoding import native
from datarecs_kernel.judging import Judge
from datarecs_kernel.layout import Layout, PlainColumns, layout_of
from datarecs_kernel.open_groups import FIRST
from datarecs_kernel.settling import SinkPlan, settle, stage_cut, with_stored, write_chosen
from datarecs_kernel.stored import read_differences
from datarecs_kernel.storing import Stores
from datarecs_testing.comparisons import a_measure, absolute, rows_by
from datarecs_testing.tables import a_job, a_table, plan_of

KEY = b"k" * 32
COLUMNS = "k text, n int, a decimal(12,2), b int"
Row = tuple[Decimal, int]
Groups = Sequence[tuple[str | None, int, Row | None, Row | None]]
"""Key, and the row of each source that has one."""

AMOUNTS = st.integers(-3, 3).map(lambda each: Decimal(each) / 10)
ROWS = st.tuples(AMOUNTS, st.integers(0, 2))
GROUPS = st.lists(
    st.tuples(st.sampled_from([None, "", "a", "1:a"]), st.integers(0, 60), ROWS, st.none() | ROWS),
    max_size=60,
    unique_by=lambda group: group[:2],
)
CAPS = st.builds(
    Caps,
    max_rows=st.integers(0, 25),
    largest_per_measure=st.integers(0, 5),
    sample_per_class=st.integers(0, 3),
    deltas=st.booleans(),
)


def a_stage(caps: Caps) -> StagePlan:
    tables = [a_table(name, COLUMNS) for name in ("one", "two")]
    measures = (a_measure("a", absolute("0.1")), a_measure("b"))
    stage = plan_of(a_job(tables, rows_by("k n", *measures)), tables).stages[0]
    return replace(stage, caps=caps)


def opened(layout: Layout, groups: Groups) -> pa.RecordBatch:
    """Open groups of at most one row a source, in the columns that the judge reads."""
    rows = []
    for k, n, *sources in groups:
        # Rows that are equal are one row, with copies in both sources.
        together = sources[0] == sources[1]
        sources_opened = [sources[0]] if together else sources
        counts = [int(each is not None) for each in sources]
        first = True
        for at, each in enumerate(sources_opened):
            if each is not None:
                copies = counts if together else [int(index == at) for index in range(2)]
                rows.append((*counts, first, k, n, *each, *copies))
                first = False
    schema = pa.schema(
        [
            *((f"n{at}", pa.int64()) for at in layout.sources),
            (FIRST, pa.bool_()),
            *((field.name, native(field.form)) for field in layout.fields),
            *((f"c{at}", pa.int64()) for at in layout.sources),
        ]
    )
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(named, schema)


def stored_by_core(
    stage: StagePlan, groups: Groups
) -> tuple[DifferenceSet, tuple[Difference, ...]]:
    writer, ranked = DifferenceWriter(stage=stage, key=KEY), []
    for k, n, *sources in groups:
        key = (NULL if k is None else text(k), number(n))
        rows = [[] if row is None else [tuple(map(cell, row))] for row in sources]
        group = Group(key, rows)
        rows_of = writer.rows(encode_tuple(key), group, judge_group(stage, group, group.mask))
        ranked += [RankedDifference(group_rank(key), row) for row in rows_of]
    return difference_set(ranked, stage.caps)


def cell(plain: object) -> Cell:
    value: Value = number(Decimal(str(plain)))
    return Cell(value, value)


def left_by_a_task(
    plan: SinkPlan, groups: Groups, attempt: str, step: int, connection: Connection
) -> Counted:
    rows = opened(plan.layout, groups)
    stores = Stores(plan, attempt, connection)
    judge = Judge(plan.layout, KEY, rows.schema.names, stores.counted)
    batches = [judge.add(rows.slice(at, step)) for at in range(0, rows.num_rows, step)]
    for judged in [*batches, judge.finish()]:
        if judged is not None:
            stores.add(judged)
    return stores.leave()


@pytest.fixture(scope="module", autouse=True)
def small_batches() -> Iterator[None]:
    """Of four rows, so that few rows are enough to cut and rewrite candidates."""
    before, candidates.BATCH_ROWS = candidates.BATCH_ROWS, 4
    yield
    candidates.BATCH_ROWS = before


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with duckdb.connect() as connection:
        # As the kernel's one.
        connection.execute("SET preserve_insertion_order = false")
        yield connection


@pytest.mark.case("P60")
@pytest.mark.case("P61")
@settings(deadline=None)
@example(
    groups=[("a", n, (Decimal(n), 0), (Decimal(0), 0)) for n in range(200)],
    caps=Caps(max_rows=3, largest_per_measure=2, sample_per_class=2),
    work=(1, 1),
)
@example(
    groups=[("", 0, (Decimal(0), 1), None), ("", 1, (Decimal(0), 0), (Decimal(0), 1))],
    caps=Caps(max_rows=1, largest_per_measure=1),
    work=(1, 1),
)
@given(groups=GROUPS, caps=CAPS, work=st.tuples(st.sampled_from([1, 2, 7]), st.integers(1, 40)))
def test_what_is_stored_is_what_core_stores_whatever_batches_and_tasks(
    groups: Groups,
    caps: Caps,
    work: tuple[int, int],
    connection: Connection,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Work is tasks, and rows in a batch."""
    tasks, step = work
    stage, directory = a_stage(caps), tmp_path_factory.mktemp("stage")
    layout = layout_of(stage, [PlainColumns()] * 2)
    plan = SinkPlan(layout=layout, key=KEY, directory=str(directory), scope_directory=None)
    counted = Counted(2)
    for at in range(tasks):
        left = left_by_a_task(plan, groups[at::tasks], str(at), step, connection)
        counted.add(read_counted(left.written(), 2))
    counted = settle(plan, counted, connection)
    summary, stored = stored_by_core(stage, groups)
    result = sorted(read_differences(directory), key=lambda row: row.break_id)
    assert list(map(everything, result)) == list(map(everything, stored))
    assert (counted.stored, counted.truncated) == (summary.rows, summary.truncated)
    assert f"sha256:{counted.digest.to_bytes(32).hex()}" == summary.digest
    assert {path.suffix for path in directory.iterdir()} <= {".parquet"}


def everything(row: Difference) -> tuple[object, ...]:
    return difference_bytes(row), row.key, row.key_hash, row.delta_percent


@pytest.mark.case("P61")
def test_files_of_candidates_follow_the_limit_and_not_the_differences(
    connection: Connection, tmp_path: Path
) -> None:
    """Sizes rise from row to row, so that every row is the largest so far."""
    caps = Caps(max_rows=20, largest_per_measure=3)
    layout = layout_of(a_stage(caps), [PlainColumns()] * 2)
    plan = SinkPlan(layout=layout, key=KEY, directory=str(tmp_path), scope_directory=None)
    groups = [("a", n, (Decimal(0), 0), (Decimal(n + 1), 1)) for n in range(5000)]
    counted = left_by_a_task(plan, groups, "0", 50, connection)
    files = CandidateFiles(layout, tmp_path, counted.candidates)
    assert sum(rows.num_rows for _, rows in files.read()) <= 10 * caps.max_rows
    assert counted.differences == 10_000
    written = [
        write_chosen(plan, name, stage_cut(plan, counted, connection), connection)
        for name in counted.candidates
    ]
    stored = with_stored(counted, written)
    assert (stored.stored, stored.truncated, stored.candidates) == (20, True, [])
    sizes = sorted(float(row.deltas[0][1]) for row in read_differences(tmp_path))
    assert sizes[-3:] == [4998, 4999, 5000]


@pytest.mark.case("P61")
def test_candidates_with_long_texts_lie_in_more_batches(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of as many rows as of short ones would outgrow what Arrow's texts may hold."""
    monkeypatch.setattr(candidates, "BATCH_BYTES", 2**14)
    layout = layout_of(a_stage(Caps()), [PlainColumns()] * 2)
    plan = SinkPlan(layout=layout, key=KEY, directory=str(tmp_path), scope_directory=None)
    groups = [("a" * 500, n, (Decimal(0), 0), (Decimal(n + 1), 1)) for n in range(400)]
    counted = left_by_a_task(plan, groups, "0", 20, connection)
    batches = list(CandidateFiles(layout, tmp_path, counted.candidates).read())
    assert sum(rows.num_rows for _, rows in batches) == counted.differences == 800
    assert max(keys.nbytes + rows.nbytes for keys, rows in batches) < 2**16
    stored = settle(plan, counted, connection)
    assert stored.stored == len(list(read_differences(tmp_path))) == 800


def test_without_differences_there_are_no_files(connection: Connection, tmp_path: Path) -> None:
    layout = layout_of(a_stage(Caps()), [PlainColumns()] * 2)
    plan = SinkPlan(layout=layout, key=KEY, directory=str(tmp_path), scope_directory=None)
    counted = settle(plan, Stores(plan, "0", connection).leave(), connection)
    assert (counted.stored, counted.truncated, counted.parts) == (0, False, [])
    assert not list(tmp_path.iterdir())
