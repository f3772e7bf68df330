"""Tables of one cycle are committed at once, by threads that share a catalog."""

import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from threading import Barrier, Event, Lock
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from datarecs_application.ports.sinking import PendingFiles, SinkRecord
from datarecs_application.sinking.committing import Cut, CutResult, commit_tables
from datarecs_connectors.iceberg import catalogs
from datarecs_connectors.iceberg.catalogs import TableName
from datarecs_connectors.sinking import commit_turns, sql_catalogs
from datarecs_connectors.sinking.resolving import ChangeResolver, Replacement
from datarecs_connectors.sinking.sql_catalogs import SqlTables
from datarecs_connectors.sinking.tables import IcebergSinkTables
from datarecs_core.resources.connection import CatalogType, IcebergConfig, RestCatalog
from datarecs_core.sink.admission import Part
from datarecs_core.sink.control import DataWritten, TableReference
from datarecs_core.sink.definition import RowChange, SinkMode
from datarecs_testing.lake_server import CLIENT, SECRET, LakeServer, serving

from .sink_house import COMMIT, LINEAGE, TARGET, House, records_of

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), identifier_field_ids=[1])
TARGETS = tuple(replace(TARGET, name=f"t{number}") for number in range(8))
NOBODY_CAME_S = 0.2
"""How long a thread waits for another one that is not to come."""
LIMIT_S = 30.0


def parts_of(
    house: House, tables: IcebergSinkTables, records: Sequence[SinkRecord], count: int
) -> Mapping[TableReference, tuple[Part, ...]]:
    """The records in files of the first tables, each in a message of its own."""
    pending = {}
    for target in TARGETS[:count]:
        writer = tables.writer(target)
        writer.add(records)
        table, files = writer.reference(), writer.finish()
        message = DataWritten(commit_id=COMMIT, table=table, data_files=files)
        pending[table] = (Part(offset=house.offset, message=message, keys=writer.key_file()),)
        house.offset += 1
    return pending


def commit_at_once(
    house: House,
    tables: IcebergSinkTables,
    pending: Mapping[TableReference, tuple[Part, ...]],
) -> CutResult:
    cut = Cut(
        commit_id=COMMIT,
        control_offset=house.offset,
        valid_through=None,
        source_ends={},
        lineage=LINEAGE,
        epoch=1,
        pending=pending,
    )
    return commit_tables(cut, tables, TARGETS, committed=lambda _: None)


def ids_in(house: House, name: str) -> list[int]:
    return sorted(row["id"] for row in house.rows(name))


def over_rest(house: House, server: LakeServer) -> House:
    catalog = RestCatalog(type=CatalogType.REST, uri=server.url)
    secrets = {"credential": f"{CLIENT}:{SECRET}"}
    return replace(house, config=IcebergConfig(catalog=catalog), secrets=secrets)


@pytest.mark.integration
def test_requests_of_two_tables_are_at_a_rest_catalog_at_the_same_time(house: House) -> None:
    with serving(house.lake.folder / "catalog.db") as server:
        rest = over_rest(house, server)
        for target in TARGETS[:2]:
            house.lake.table(target.name, SCHEMA)
        tables = rest.tables()
        pending = parts_of(rest, tables, records_of({"id": 1}), 2)
        pairs = Barrier(2, timeout=LIMIT_S)
        server.hold = lambda path: pairs.wait() if "/tables/" in path else None
        result = commit_at_once(rest, tables, pending)
        server.hold = lambda _path: None
    assert result.failures == {}
    assert [ids_in(rest, target.name) for target in TARGETS[:2]] == [[1], [1]]


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["sql", "rest"])
def test_each_of_many_tables_has_each_row_once_and_a_snapshot_for_each_cycle(
    house: House, kind: str
) -> None:
    with serving(house.lake.folder / "catalog.db") as server:
        used = house if kind == "sql" else over_rest(house, server)
        for target in TARGETS:
            house.lake.table(target.name, SCHEMA)
        tables = used.tables()
        for cycle in range(4):
            pending = parts_of(used, tables, records_of({"id": cycle}), len(TARGETS))
            result = commit_at_once(used, tables, pending)
            assert result.failures == {}
            assert [commit.table.name for commit in result.commits] == [one.name for one in TARGETS]
        for target in TARGETS:
            assert ids_in(house, target.name) == [0, 1, 2, 3]
            assert len(house.table(target.name).metadata.snapshots) == 4


def test_rows_to_replace_are_searched_for_one_table_at_a_time(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    for target in TARGETS[:3]:
        house.lake.table(target.name, SCHEMA)
    tables = house.tables(mode=SinkMode.UPSERT)
    replaced, counting, searches = ChangeResolver.replaced, Lock(), [0]
    together = Event()

    def counted(self: ChangeResolver, pending: Sequence[PendingFiles]) -> Replacement:
        with counting:
            searches[0] += 1
            if searches[0] > 1:
                together.set()
        together.wait(NOBODY_CAME_S)
        result = replaced(self, pending)
        with counting:
            searches[0] -= 1
        return result

    monkeypatch.setattr(ChangeResolver, "replaced", counted)
    for _ in range(2):
        records = [replace(one, change=RowChange.UPDATE) for one in records_of({"id": 1})]
        result = commit_at_once(house, tables, parts_of(house, tables, records, 3))
        assert result.failures == {}
    assert not together.is_set()
    assert [ids_in(house, target.name) for target in TARGETS[:3]] == [[1]] * 3


WRITE = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0).execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError:
    sys.exit(1)
"""


@pytest.mark.parametrize("takes_turns", [True, False])
def test_a_thread_that_reads_a_sqlite_catalog_does_not_unlock_it_for_other_processes(
    house: House, monkeypatch: pytest.MonkeyPatch, takes_turns: bool
) -> None:
    """Closing a file drops the locks that other threads of a process have in it."""
    if not takes_turns:
        for module in (catalogs, sql_catalogs):
            monkeypatch.setattr(module, "SQLITE_TURN", nullcontext())
    house.lake.table("t0", SCHEMA)
    tables = house.tables()
    pending = parts_of(house, tables, records_of({"id": 1}), 1)
    is_committing, has_read = Event(), Event()
    exit_codes: list[int] = []

    class SlowConnection(sqlite3.Connection):
        def commit(self) -> None:
            is_committing.set()
            has_read.wait(NOBODY_CAME_S)
            path = str(house.lake.folder / "catalog.db")
            other = subprocess.run([sys.executable, "-c", WRITE, path], check=False)
            exit_codes.append(other.returncode)
            super().commit()

    def read() -> None:
        assert is_committing.wait(LIMIT_S)
        house.catalog.current(TableName(TARGET.namespace, "t0"))
        has_read.set()

    connect = sqlite3.connect

    def slowly(path: str, **options: Any) -> sqlite3.Connection:  # noqa: ANN401  as sqlite3 has them
        kind = SlowConnection if "mode=rw" in path else sqlite3.Connection
        return connect(path, factory=kind, **options)

    monkeypatch.setattr(sqlite3, "connect", slowly)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        commit_at_once(house, tables, pending)
        reading.result()
    assert exit_codes == [int(takes_turns)]


@pytest.mark.parametrize(("most", "expected"), [(0, 1), (1, 2)])
def test_tables_with_many_snapshots_are_committed_one_after_another(
    house: House, monkeypatch: pytest.MonkeyPatch, most: int, expected: int
) -> None:
    monkeypatch.setattr(commit_turns, "MOST_SNAPSHOTS", most)
    for target in TARGETS[:2]:
        house.lake.table(target.name, SCHEMA)
    tables = house.tables()
    first = parts_of(house, tables, records_of({"id": 1}), 2)
    assert commit_at_once(house, tables, first).failures == {}
    pending = parts_of(house, tables, records_of({"id": 2}), 2)
    commit, counting, in_flight, most_in_flight = SqlTables.commit, Lock(), [0], [0]
    together = Event()

    def counted(self: SqlTables, *change: Any) -> None:  # noqa: ANN401  as the port has them
        with counting:
            in_flight[0] += 1
            most_in_flight[0] = max(most_in_flight[0], in_flight[0])
            if in_flight[0] > 1:
                together.set()
        together.wait(NOBODY_CAME_S if expected == 1 else LIMIT_S)
        commit(self, *change)
        with counting:
            in_flight[0] -= 1

    monkeypatch.setattr(SqlTables, "commit", counted)
    assert commit_at_once(house, tables, pending).failures == {}
    assert most_in_flight == [expected]
    assert [ids_in(house, target.name) for target in TARGETS[:2]] == [[1, 2], [1, 2]]
