"""The newest snapshot of a sink in the history of a pinned one, and its positions."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from datarecs_connectors.iceberg.sink_commits import newest_commit
from datarecs_core.comparison.planning.scan import SinkCommit, TopicEnd
from datarecs_core.sink.checkpoint import Lineage
from datarecs_core.sink.control import SourcePartition

from .sink_house import LINEAGE, House, records_of

ENDS = "datarecs.sink.source-ends"


def commit(house: House, end: int, lineage: Lineage = LINEAGE) -> int:
    """A snapshot of a sink that has read partition 0 up to the end; its id."""
    files = house.write(records_of({"id": end}), auto_create=True)
    ends = {SourcePartition("orders", 0): end}
    done = house.commit(house.request(*files, source_ends=ends, lineage=lineage))
    assert done is not None
    return done.snapshot_id


def newest_of(house: House, snapshot_id: int | None = None) -> SinkCommit | None:
    metadata = house.table().metadata
    snapshot = metadata.snapshot_by_id(snapshot_id or metadata.current_snapshot_id or 0)
    assert snapshot is not None
    return newest_commit(metadata, snapshot)


def expected(snapshot_id: int, end: int) -> SinkCommit:
    ends = (TopicEnd(topic="orders", partition=0, offset=end),)
    return SinkCommit(snapshot_id=snapshot_id, ends=ends)


def test_each_snapshot_has_its_positions_and_a_foreign_one_those_below_it(
    house: House,
) -> None:
    first, second = commit(house, 5), commit(house, 9)
    table = house.table()
    table.append(pa.Table.from_pylist([{"id": 1}], schema=table.schema().as_arrow()))
    assert newest_of(house, first) == expected(first, 5)
    assert newest_of(house, second) == expected(second, 9)
    assert house.table().metadata.current_snapshot_id not in {first, second}
    assert newest_of(house) == expected(second, 9)


def test_a_table_without_a_sink_has_none(house: House) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = house.lake.catalog.create_table(("books", "orders"), schema)
    table.append(pa.Table.from_pylist([{"id": 1}], schema=schema))
    assert newest_of(house) is None


def test_an_expired_commit_is_not_guessed(house: House) -> None:
    commit(house, 5)
    table = house.table()
    table.append(pa.Table.from_pylist([{"id": 1}], schema=table.schema().as_arrow()))
    metadata = house.table().metadata
    (head,) = [one for one in metadata.snapshots if one.parent_snapshot_id is not None]
    alone = metadata.model_copy(update={"snapshots": [head]})
    assert newest_commit(alone, head) is None


@pytest.mark.parametrize("text", [None, "[]", '{"orders": 5}', '{"orders": {"x": 1}}', "{"])
def test_positions_that_are_left_out_or_unreadable_are_not_known(
    house: House, text: str | None
) -> None:
    snapshot_id = commit(house, 5)
    metadata, snapshot = written(house, snapshot_id, text)
    assert newest_commit(metadata, snapshot) == SinkCommit(snapshot_id=snapshot_id, ends=None)


def written(house: House, snapshot_id: int, text: str | None) -> tuple[TableMetadata, Snapshot]:
    """The metadata with another statement of positions in the snapshot."""
    document = json.loads(house.table().metadata.model_dump_json(by_alias=True))
    for snapshot in document["snapshots"]:
        if snapshot["snapshot-id"] == snapshot_id:
            snapshot["summary"].pop(ENDS)
            if text is not None:
                snapshot["summary"][ENDS] = text
    metadata = type(house.table().metadata).model_validate(document)
    snapshot = metadata.snapshot_by_id(snapshot_id)
    assert snapshot is not None
    return metadata, snapshot


def test_another_lineage_is_a_sink_too(house: House) -> None:
    commit(house, 5)
    newest = commit(house, 9, lineage=replace(LINEAGE, topic_id="topic-2"))
    assert newest_of(house) == expected(newest, 9)
