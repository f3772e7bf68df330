"""What is read from both sides' control topics, and the load that both read."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

from datarecs_core.sink.control import CommitToTable, Message, StartCommit, TableReference
from datarecs_kafka.control_codec import Event, encode_event
from tests.bench.sink_figures import Commit, commits_of, ratios
from tests.bench.sink_load import RECORD_BYTES, record

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FIRST, SECOND = UUID(int=1), UUID(int=2)
ORDERS = TableReference(catalog="iceberg", namespace=("bench",), name="orders", uuid=UUID(int=9))


def message_bytes(seconds: float, message: Message) -> bytes:
    time = NOON + timedelta(seconds=seconds)
    return encode_event(Event(id=UUID(int=7), group="sink", time=time, message=message))


def to_table(commit_id: UUID) -> CommitToTable:
    return CommitToTable(commit_id=commit_id, table=ORDERS, snapshot_id=5, valid_through=None)


def test_a_commit_lasts_from_its_start_to_its_table() -> None:
    values = [
        message_bytes(0, StartCommit(commit_id=FIRST)),
        message_bytes(0.5, to_table(FIRST)),
        message_bytes(10, StartCommit(commit_id=SECOND)),
    ]
    began = NOON.timestamp()
    assert commits_of(values) == (Commit(began, began + 0.5), Commit(began + 10, None))


def test_every_record_has_the_size_of_the_load() -> None:
    values = [record(number) for number in (0, 99, 123_456, 9_999_999)]
    assert {len(value) for value in values} == {RECORD_BYTES}
    assert [json.loads(value)["id"] for value in values] == [0, 99, 123_456, 9_999_999]


def test_a_figure_that_one_side_lacks_has_no_ratio() -> None:
    names = (
        *("records_per_s", "records_per_core_s", "commit_p50_ms"),
        *("commit_p99_ms", "peak_mib_all", "files"),
    )
    java = dict.fromkeys(names, 4) | {"commit_p99_ms": None}
    shares = ratios(dict.fromkeys(names, 3), java)
    assert shares["records_per_s"] == 0.75
    assert shares["commit_p99_ms"] is None
