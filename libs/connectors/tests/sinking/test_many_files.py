"""A vote of thousands of files, from its messages to the snapshot."""

from dataclasses import replace
from uuid import UUID

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from datarecs_application.ports.sinking import PendingFiles
from datarecs_core.sink.control import DataWritten
from datarecs_core.sink.votes import CHUNK_BYTES, vote_messages
from datarecs_kafka.control_codec import Event, decode_event, encode_event
from datarecs_kafka.control_headers import encode_headers
from datarecs_testing.tables import NOON

from .sink_house import COMMIT, House, records_of

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
)
FILES = 5_000


@pytest.mark.case("I33")
def test_five_thousand_files_of_one_vote_are_small_messages_and_one_snapshot(house: House) -> None:
    house.lake.table("orders", SCHEMA)
    (file,) = house.write(records_of({"id": 1, "name": "x" * 64}))
    stem = file.path.removesuffix(".parquet")
    files = [replace(file, path=f"{stem}-{number:05}.parquet") for number in range(FILES)]
    table = house.reference()
    messages = vote_messages(COMMIT, 1, {table: files}, ranges=(), positions=())
    pending = []
    for offset, outgoing in enumerate(messages):
        event = Event(id=UUID(int=offset), group="sink", time=NOON, message=outgoing.message)
        value = encode_event(event)
        headers = encode_headers(outgoing.message, outgoing.headers)
        assert len(value) + sum(len(name) + len(text) for name, text in headers) <= CHUNK_BYTES
        message = decode_event(value).message
        if isinstance(message, DataWritten):
            pending.append(PendingFiles(offset=offset, data_files=message.data_files))
    assert len(pending) > 1
    house.commit(house.request(pending=tuple(pending), control_offset=len(messages)))
    (snapshot,) = house.table().metadata.snapshots
    assert snapshot.summary is not None
    assert snapshot.summary["added-data-files"] == str(FILES)
    live = {task.file.file_path for task in house.table().scan().plan_files()}
    assert live == {one.path for one in files}
