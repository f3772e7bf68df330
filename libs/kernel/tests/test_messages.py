"""Rows between tasks: what arrives is what was sent, and rows of one key arrive at one place."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.jobs.definition import Stage
from datarecs_kernel import messages
from datarecs_kernel.database import Connection, Resources, connected
from datarecs_kernel.layout import Layout, layout_of
from datarecs_kernel.messages import partition_of, receive_rows, write_messages
from datarecs_kernel.readings import Reading, columns_of, create_relations, read_sources
from datarecs_testing.comparisons import a_measure, digest_by, rows_by
from datarecs_testing.stored_tables import stored_scan
from datarecs_testing.tables import a_job, a_table, plan_of

PARTITIONS = 5
COLUMNS = "k int, t text, v decimal(12,2), f float64"
ROWS = [
    (k % 40 or None, None if k % 7 == 0 else f"é{k % 11}", Decimal(k) / 4, k / 8)
    for k in range(300)
]
STAGES = {
    "row": rows_by("k t", a_measure("v"), a_measure("f")),
    "digest": digest_by("k t"),
}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    (tmp_path / "spill").mkdir()
    with connected(a_kernel(tmp_path)) as opened:
        yield opened


def a_kernel(folder: Path) -> Resources:
    return Resources(
        directory=str(folder / "spill"), threads=1, memory_bytes=2**28, spill_bytes=2**30
    )


def relations_of(connection: Connection, stage: Stage, folder: Path) -> tuple[Layout, list[str]]:
    """The layout of the stage, and its sources."""
    tables = [a_table(name, COLUMNS, *ROWS) for name in ("one", "two")]
    plan = plan_of(a_job(tables, stage), tables).stages[0]
    scans = [stored_scan(scan, tables[scan.index], folder / f"{scan.index}") for scan in plan.scans]
    plan = replace(plan, scans=tuple(scans))
    reading = Reading(plan=plan, key=COMPARE_KEY, check_texts=False)
    reads = read_sources(connection, reading)
    columns = columns_of(reads)
    layout = layout_of(plan, columns)
    return layout, create_relations(connection, reading, layout.of_rows, reads, columns)


def rows_in(connection: Connection, relation: str) -> Counter[tuple[object, ...]]:
    return Counter(connection.execute(f"FROM {relation}").fetchall())


@pytest.mark.parametrize("message_bytes", [1, 2**21])
@pytest.mark.parametrize("kind", STAGES)
def test_every_row_arrives_as_it_was_sent_and_keys_arrive_together(
    connection: Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    message_bytes: int,
) -> None:
    monkeypatch.setattr(messages, "MESSAGE_BYTES", message_bytes)
    stage_layout, relations = relations_of(connection, STAGES[kind], tmp_path)
    layout = stage_layout.of_rows
    place = partition_of(stage_layout, COMPARE_KEY, PARTITIONS)
    by_partition = dict[int, list[pa.RecordBatch]]()
    for source, relation in enumerate(relations):
        query = f"SELECT {place}, * FROM {relation}"
        for batch in connection.sql(query).to_arrow_table().to_batches():
            for message in write_messages(batch, source):
                by_partition.setdefault(message.column(0)[0].as_py(), []).append(message)
    assert set(by_partition) <= set(range(PARTITIONS))
    assert len(by_partition) > 1
    arrived = [Counter[tuple[object, ...]]() for _ in relations]
    places: dict[object, int] = {}
    for number, batches in by_partition.items():
        with connected(a_kernel(tmp_path)) as other:
            for source, name in enumerate(receive_rows(other, layout, batches)):
                rows = rows_in(other, name)
                arrived[source] += rows
                for key in {row[: len(layout.key_names)] for row in rows}:
                    assert places.setdefault(key, number) == number
    assert arrived == [rows_in(connection, each) for each in relations]
