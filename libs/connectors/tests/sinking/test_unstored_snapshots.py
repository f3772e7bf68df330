"""A commit also returns the snapshots that were added before it and that nobody stored."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from datarecs_connectors.errors import SourceError
from datarecs_connectors.sinking import committing, watermarks
from datarecs_connectors.sinking.catalog_changes import OutcomeUnknownError
from datarecs_connectors.sinking.sql_catalogs import SqlTables
from datarecs_core.errors.sink import SinkError
from datarecs_core.sink.checkpoint import TableCommit
from datarecs_core.sink.control import SourcePartition

from .sink_house import LINEAGE, TARGET, House, records_of

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))
P0 = SourcePartition("orders", 0)


@pytest.fixture(autouse=True)
def table(house: House) -> Table:
    return house.lake.table("orders", SCHEMA)


def committed(house: House, *ids: int, stored: int = 0, **changes: object) -> Sequence[TableCommit]:
    """One more message with these ids, as a coordinator commits it that dies afterwards."""
    files = house.write(records_of(*({"id": one} for one in ids)))
    facts: dict[str, Any] = {"commit_id": UUID(int=ids[0]), "source_ends": {P0: ids[-1]}, **changes}
    return house.tables().commit(TARGET, house.request(*files, stored_offset=stored, **facts))


def foreign_append(house: House) -> None:
    ids = pa.array([1_000], pa.int64())
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    house.table().append(pa.table({"id": ids}, schema=schema))


def offsets(commits: Sequence[TableCommit]) -> list[int]:
    return [one.control_offset for one in commits]


def in_history(house: House) -> list[int]:
    """Ids of the snapshots of the table, oldest first."""
    return [one.snapshot_id for one in house.table().metadata.snapshots]


@pytest.mark.case("I14")
def test_snapshots_that_are_not_stored_come_oldest_first_each_with_its_facts(house: House) -> None:
    committed(house, 1, 2)
    committed(house, 3)
    commits = committed(house, 4, 5, 6)
    assert [one.snapshot_id for one in commits] == in_history(house)
    assert [one.commit_id for one in commits] == [UUID(int=1), UUID(int=3), UUID(int=4)]
    assert [(one.records, one.files) for one in commits] == [(2, 1), (1, 1), (3, 1)]
    assert [one.source_ends for one in commits] == [{P0: 2}, {P0: 3}, {P0: 6}]
    assert offsets(commits) == [1, 2, 3]
    assert {one.table for one in commits} == {house.reference()}


def test_snapshots_that_are_stored_do_not_come_again(house: House) -> None:
    committed(house, 1)
    committed(house, 2)
    assert offsets(committed(house, 3, stored=1)) == [2, 3]
    assert offsets(committed(house, 4, stored=3)) == [4]


def test_a_table_that_holds_the_cut_returns_what_is_not_stored_or_its_newest_snapshot(
    house: House,
) -> None:
    for number in range(1, 4):
        committed(house, number)
    tables, same = house.tables(), house.request(pending=(), control_offset=3)
    assert offsets(tables.commit(TARGET, replace(same, stored_offset=1))) == [2, 3]
    assert offsets(tables.commit(TARGET, replace(same, stored_offset=3))) == [3]
    assert len(in_history(house)) == 3


def test_snapshots_of_others_and_of_another_lineage_are_between_and_do_not_come(
    house: House,
) -> None:
    committed(house, 1)
    foreign_append(house)
    committed(house, 2, lineage=replace(LINEAGE, topic_id="topic-2"))
    foreign_append(house)
    assert offsets(committed(house, 3)) == [1, 3]


@pytest.mark.case("I12")
def test_a_snapshot_of_another_coordinator_that_comes_first_is_returned_too(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(house, 1)
    commit, raced = SqlTables.commit, list[int]()

    def second_first(self: SqlTables, *arguments: object) -> None:
        if not raced:
            raced.append(1)
            house.offset = 1
            committed(house, 2, epoch=1)
        commit(self, *arguments)  # type: ignore[arg-type]  # as they came

    files = house.write(records_of({"id": 3}))
    house.offset = 2
    request = house.request(*files, epoch=2, stored_offset=1)
    monkeypatch.setattr(SqlTables, "commit", second_first)
    commits = house.tables().commit(TARGET, request)
    assert offsets(commits) == [2, 3]
    assert [one.snapshot_id for one in commits] == in_history(house)[1:]


@pytest.mark.case("I18")
def test_a_snapshot_that_lands_at_a_catalog_without_an_answer_is_returned_by_the_next_commit(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "_CHECK_WAIT_MS", 1)
    commit = SqlTables.commit

    def silent(*_: object) -> None:
        raise SourceError("lake", "the catalog does not answer")

    def unanswered(self: SqlTables, *arguments: object) -> None:
        commit(self, *arguments)  # type: ignore[arg-type]  # as they came
        monkeypatch.setattr(SqlTables, "find", silent)
        raise OutcomeUnknownError

    with monkeypatch.context() as patch:
        patch.setattr(SqlTables, "commit", unanswered)
        with pytest.raises(SinkError, match="does not answer"):
            committed(house, 1)
    monkeypatch.undo()
    assert offsets(committed(house, 2)) == [1, 2]


@pytest.mark.case("I57")
def test_expired_snapshots_do_not_come(house: House) -> None:
    for number in range(1, 4):
        committed(house, number)
    first, second, _ = in_history(house)
    house.table().maintenance.expire_snapshots().by_ids([first, second]).commit()
    assert offsets(committed(house, 4)) == [3, 4]


def test_of_too_many_snapshots_the_newest_come(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watermarks, "_MOST_STATED", 2)
    for number in range(1, 5):
        committed(house, number)
    assert offsets(committed(house, 5)) == [3, 4, 5]
