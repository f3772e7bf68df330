"""Shares of files: tasks that each read one have together read every row once, in the same form."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import FileList, PinnedFile
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_kernel import sharing
from datarecs_kernel.database import Connection, Resources, connected
from datarecs_kernel.layout import layout_of
from datarecs_kernel.readings import (
    Reading,
    Shares,
    columns_of,
    count_rows,
    create_relations,
    read_sources,
)
from datarecs_kernel.sharing import shares_of
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import NOON, a_job, a_table, plan_of

WIDE = 2**64 - 1
FILES: dict[str, dict[str, Any]] = {
    "day=2026-01-31/large.parquet": {
        "k": pa.array(range(1000)),
        "t": [f"t{k}" for k in range(1000)],
    },
    "day=2026-02-01/wide.parquet": {
        "k": pa.array([WIDE, 1], pa.uint64()),
        "t": ["a", "b"],
    },
    "narrow.parquet": {"k": pa.array([3, None]), "extra": [1, 2]},
}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    (tmp_path / "spill").mkdir()
    with connected(
        Resources(
            directory=str(tmp_path / "spill"), threads=1, memory_bytes=2**28, spill_bytes=2**30
        )
    ) as opened:
        yield opened


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "SMALLEST_BYTES", 1)


def a_stage(folder: Path, **source: Any) -> StagePlan:  # noqa: ANN401 - any field of Source
    """Over files of other columns and types, some of them in folders."""
    names = ("one", "two")
    tables = [a_table(name, "k int, t text, day date, extra int") for name in names]
    options = {"options": {"merge_schema": True}, **source}
    stage = rows_by("k", *map(a_measure, ("t", "day")))
    plan = plan_of(a_job(tables, stage, sources=dict.fromkeys(names, options)), tables)
    pin = FileList(root=str(folder), files=tuple(written(folder)), taken_at=NOON)
    stage_plan = plan.stages[0]
    return replace(stage_plan, scans=tuple(replace(scan, pin=pin) for scan in stage_plan.scans))


def written(folder: Path) -> Iterator[PinnedFile]:
    for name, columns in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pa.table(columns)
        pq.write_table(table, path, row_group_size=100)
        yield PinnedFile(path=name, size_bytes=path.stat().st_size, rows=table.num_rows)


def rows_of(connection: Connection, reading: Reading, shares: Shares | None) -> Counter[str]:
    """Of all sources, with their numbers of rows before conditions."""
    whole = read_sources(connection, reading)
    columns = columns_of(whole)
    layout = layout_of(reading.plan, columns)
    reads = read_sources(connection, reading, shares)
    relations = create_relations(connection, reading, layout, reads, columns)
    rows = Counter[str]()
    for source, relation in enumerate(relations):
        records = connection.execute(f"FROM {relation}").fetchall()
        rows.update(f"{source} {row!r}" for row in records)
    counts = count_rows(connection, reading, reads, columns)
    return rows + Counter({f"rows of {at}": rows for at, rows in enumerate(counts)})


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("condition", [None, "extra = 1 OR k > 990", "day = DATE '2026-01-31'"])
@pytest.mark.parametrize("check_texts", [False, True])
@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_shares_hold_every_row_once(
    connection: Connection, tmp_path: Path, condition: str | None, tasks: int, *, check_texts: bool
) -> None:
    stage = a_stage(tmp_path, **({} if condition is None else {"filter": condition}))
    reading = Reading(plan=stage, key=COMPARE_KEY, check_texts=check_texts)
    shares = shares_of(read_sources(connection, reading), tasks)
    assert len(shares) <= tasks
    together = Counter[str]()
    for share in shares:
        together += rows_of(connection, reading, share)
    assert together == rows_of(connection, reading, None)
    assert together


@pytest.mark.usefixtures("small_parts")
def test_a_large_file_is_read_by_many_tasks_and_a_small_one_by_one(
    connection: Connection, tmp_path: Path
) -> None:
    reading = Reading(plan=a_stage(tmp_path), key=COMPARE_KEY, check_texts=False)
    shares = shares_of(read_sources(connection, reading), 8)
    assert len(shares) == 8
    pieces = [piece for share in shares for piece in share[0][0].pieces]
    assert sum(piece.file == 0 for piece in pieces) > 1
    assert sum(piece.file == 1 for piece in pieces) == 1


def test_little_is_read_by_one_task_per_file(connection: Connection, tmp_path: Path) -> None:
    reading = Reading(plan=a_stage(tmp_path), key=COMPARE_KEY, check_texts=False)
    shares = shares_of(read_sources(connection, reading), 8)
    assert len(shares) == 2 * len(FILES)


def test_without_files_one_task_has_nothing(connection: Connection, tmp_path: Path) -> None:
    stage = a_stage(tmp_path)
    empty = FileList(root=str(tmp_path), files=(), taken_at=NOON)
    stage = replace(stage, scans=tuple(replace(scan, pin=empty) for scan in stage.scans))
    reading = Reading(plan=stage, key=COMPARE_KEY, check_texts=False)
    shares: Sequence[Shares] = shares_of(read_sources(connection, reading), 4)
    assert [[each.pieces for each in read] for read in shares[0]] == [[(), ()]]
    assert len(shares) == 1
