"""The pin of a topic: what the proof says of it, and when a second pin is the same read."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from datarecs_core.comparison.planning.confirming import is_same_read
from datarecs_core.comparison.planning.scan import OffsetRange, TopicOffsets
from datarecs_core.comparison.proof.pin_json import pin_document

PIN = TopicOffsets(
    cluster_id="c",
    topic="orders",
    topic_id="t",
    ranges=(OffsetRange(partition=0, start=0, end=2**60 + 1),),
    taken_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
)


def test_offsets_are_written_digit_for_digit() -> None:
    assert pin_document(PIN) == {
        "kind": "topic_offsets",
        "cluster_id": "c",
        "topic": "orders",
        "topic_id": "t",
        "ranges": [{"partition": 0, "start": "0", "end": str(2**60 + 1)}],
        "taken_at": "2026-01-31T12:00:00.000000Z",
    }


def test_a_later_pin_with_the_same_offsets_is_the_same_read() -> None:
    later = replace(PIN, taken_at=PIN.taken_at + timedelta(hours=1))
    assert is_same_read(PIN, later)
    assert not is_same_read(PIN, replace(later, topic_id="u"))
    assert not is_same_read(PIN, replace(later, ranges=()))


def test_a_watermark_names_its_table_snapshot() -> None:
    cut = replace(PIN, table_snapshot=2**60 + 1)
    assert pin_document(cut)["table_snapshot"] == str(2**60 + 1)
    assert not is_same_read(PIN, cut)
