"""A topic as a source, on a real broker: what is pinned is read, each committed record once."""

import json
import re
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from kafka import TopicPartition

from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail
from datarecs_core.jobs.definition import Limits, Snapshot, TopicBound
from datarecs_core.jobs.vocabulary import TopicEdge
from datarecs_core.resources.connection import KafkaConfig, KafkaSecurity

from .conftest import Topics, topic_source

pytestmark = pytest.mark.integration
ORDERS = [("a", {"id": 1, "note": "one"}), ("b", {"id": 2, "amount": 2.50})]


def test_columns_are_members_of_all_values_and_the_place_of_the_record(topics: Topics) -> None:
    topic = topics.create()
    topics.write(topic, ORDERS)
    opened = topics.open(topic)
    assert opened.types == {"id": "int", "note": "text", "amount": "decimal(2,1)"}
    names = [column.name for column in opened.schema.columns if column.is_metadata]
    assert names == [
        "_kafka_topic",
        "_kafka_partition",
        "_kafka_offset",
        "_kafka_timestamp",
        "_kafka_key",
    ]
    assert opened.rows("id", "note", "amount", "_kafka_topic", "_kafka_partition") == [
        (1, "one", None, topic, 0),
        (2, None, Decimal("2.5"), topic, 0),
    ]
    assert opened.schema.estimated_rows == 2


def test_every_partition_is_read_by_its_reader_and_times_and_keys_arrive(
    topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(partitions=3)
    for partition in (0, 2):
        topics.write(
            topic,
            [(f"k{partition}-{n}", {"id": n}) for n in range(1_000)],
            partition=partition,
        )
    opened = topics.open(topic)
    assert opened.schema.ranges is not None
    assert (opened.schema.ranges.count, opened.schema.ranges.at_once) == (2, 2)
    rows = opened.extracted(tmp_path / "out")
    assert len(list((tmp_path / "out").iterdir())) == 2
    places = {(row["_kafka_partition"], row["_kafka_offset"]) for row in rows}
    assert places == {(partition, n) for partition in (0, 2) for n in range(1_000)}
    assert {row["_kafka_key"] for row in rows if row["id"] == 7} == {b"k0-7", b"k2-7"}
    for row in rows:
        assert isinstance(row["_kafka_timestamp"], datetime)
        assert row["_kafka_timestamp"].year >= 2026


def test_an_empty_topic_is_an_empty_table(topics: Topics, tmp_path: Path) -> None:
    opened = topics.open(topics.create(), options={"schema": {"id": "int"}})
    assert opened.bounds == [(0, 0), (0, 0)]
    assert opened.types == {"id": "int"}
    assert opened.rows() == []
    assert opened.extracted(tmp_path / "out") == []


def test_records_written_after_the_pin_are_not_read(topics: Topics, tmp_path: Path) -> None:
    topic = topics.create(partitions=1)
    topics.write(topic, ORDERS)
    opened = topics.open(topic)
    topics.write(topic, [("c", {"id": 3})])
    assert opened.bounds == [(0, 2)]
    for number in range(2):
        assert [r["id"] for r in opened.extracted(tmp_path / str(number), "id")] == [1, 2]
    assert opened.held.check() == opened.pin


def test_aborted_records_and_markers_are_no_rows_and_no_loss(topics: Topics) -> None:
    topic = topics.create(partitions=1)
    topics.write(topic, ORDERS, transactional_id=f"{topic}-1")
    topics.write(topic, [("x", {"id": 9})], transactional_id=f"{topic}-2", client_id="aborts")
    topics.write(topic, [("c", {"id": 3})], transactional_id=f"{topic}-3")
    opened = topics.open(topic)
    assert opened.bounds == [(0, 7)]
    assert opened.rows("id", "_kafka_offset") == [(1, 0), (2, 1), (3, 5)]


def test_bounds_are_offsets_or_times(topics: Topics) -> None:
    topic = topics.create(partitions=2)
    topics.write(topic, [(None, {"id": n}) for n in range(5)])
    topics.write(topic, [(None, {"id": n}) for n in (10, 11)], partition=1)
    snapshot = Snapshot(start=TopicBound(offsets={"0": 2}), end=TopicBound(offsets={"0": 4}))
    opened = topics.open(topic, snapshot=snapshot)
    assert opened.bounds == [(2, 4), (0, 2)]
    assert sorted(opened.rows("id")) == [(2,), (3,), (10,), (11,)]
    before = TopicBound(timestamp="2020-01-01T00:00:00Z")
    after = TopicBound(timestamp="2100-01-01T00:00:00Z")
    assert topics.open(topic, snapshot=Snapshot(start=before)).bounds == [(0, 5), (0, 2)]
    assert topics.open(topic, snapshot=Snapshot(start=after)).bounds == [(5, 5), (2, 2)]
    assert topics.open(topic, snapshot=Snapshot(end=after)).bounds == [(0, 5), (0, 2)]


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (Snapshot(end=TopicBound(offsets={"0": 9})), "offsets from 0 to 2"),
        (Snapshot(start=TopicBound(offsets={"7": 0})), "has no partition 7"),
        (
            Snapshot(start=TopicBound(offsets={"0": 2}), end=TopicBound(offsets={"0": 1})),
            "begins behind its end",
        ),
    ],
)
def test_bounds_outside_the_topic_are_refused(
    topics: Topics, snapshot: Snapshot, words: str
) -> None:
    topic = topics.create(partitions=1)
    topics.write(topic, ORDERS)
    source = topic_source(topic, snapshot=snapshot)
    assert _refusal(topics, source.topic or "", snapshot=snapshot) == (
        "OFFSET_OUT_OF_RANGE",
        True,
        words,
    )


def _refusal(topics: Topics, topic: str, **fields: object) -> tuple[str, bool, str]:
    source = topic_source(topic, **fields)
    with pytest.raises(DatarecsError) as caught:
        topics.connector(source).pin(source)
    text = str(caught.value)
    words = ("offsets from 0 to 2", "has no partition 7", "begins behind its end")
    return caught.value.code.name, topic in text, next((w for w in words if w in text), text)


def test_offsets_that_retention_removed_after_the_pin_end_the_read(
    topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create(partitions=1)
    topics.write(topic, [(None, {"id": n}) for n in range(10)])
    opened = topics.open(topic)
    topics.admin.delete_records({TopicPartition(topic, 0): 4})
    with pytest.raises(DatarecsError) as caught:
        opened.extracted(tmp_path / "out", "id")
    assert caught.value.code.name == "OFFSET_OUT_OF_RANGE"
    assert f"partition 0 of topic {topic}" in str(caught.value)
    assert "0 to 10" in str(caught.value)
    assert topics.open(topic).bounds == [(4, 10)]


def test_a_topic_that_was_created_again_loses_the_pin(topics: Topics, tmp_path: Path) -> None:
    topic = topics.create(partitions=1)
    topics.write(topic, ORDERS)
    opened = topics.open(topic)
    topics.admin.delete_topics([topic])
    topics.create(partitions=1, name=topic)
    topics.write(topic, ORDERS)
    for read in (opened.held.check, lambda: opened.extracted(tmp_path / "out")):
        with pytest.raises(DatarecsError) as caught:
            read()
        assert caught.value.code.name == "SNAPSHOT_LOST"
        assert topic in str(caught.value)


def test_a_fold_selects_the_last_record_of_each_key(topics: Topics, tmp_path: Path) -> None:
    topic = topics.create(partitions=2)
    topics.write(topic, [("a", {"id": 1}), ("b", {"id": 2}), ("a", {"id": 3}), ("c", {"id": 5})])
    topics.write(topic, [("d", {"id": 4}), ("c", {"id": 6})], partition=1)
    topics.write(topic, [("b", None)])
    options = {"fold": "latest_by_key"}
    whole = topics.open(topic, options=options)
    assert sorted(whole.rows("id"), key=str) == [(3,), (4,), (6,), (None,)]
    deleted = topics.open(topic, options={**options, "tombstones": "delete"})
    assert sorted(deleted.rows("id")) == [(3,), (4,), (6,)]
    assert sorted(str(row["id"]) for row in deleted.extracted(tmp_path / "out")) == ["3", "4", "6"]
    assert deleted.schema.estimated_rows == 3


def test_a_fold_needs_keys(topics: Topics) -> None:
    topic = topics.create(partitions=1)
    topics.write(topic, [("a", {"id": 1}), (None, {"id": 2})])
    with pytest.raises(DatarecsError) as caught:
        topics.open(topic, options={"fold": "latest_by_key"})
    assert caught.value.code.name == "CORRUPT_SOURCE"
    assert "partition 0 offset 1" in str(caught.value)


def test_texts_and_bytes_are_one_column(topics: Topics, tmp_path: Path) -> None:
    topic = topics.create(partitions=1)
    topics.write(topic, [(None, b"plain"), (None, b"\xff"), ("gone", None)])
    text = topics.open(topic, options={"decode": "text"})
    assert text.types == {"value": "text"}
    assert [row["value"] for row in text.extracted(tmp_path / "text")] == ["plain", None, None]
    raw = topics.open(topic, options={"decode": "bytes", "tombstones": "delete"})
    assert raw.types == {"value": "binary"}
    assert raw.rows("value") == [(b"plain",), (b"\xff",)]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"{", "CORRUPT_SOURCE"),
        (b"secret-text", "CORRUPT_SOURCE"),
        (b"[1]", "CORRUPT_SOURCE"),
        (b'{"a": 1, "a": 2}', "CORRUPT_SOURCE"),
        (b'{"_kafka_offset": 1}', "CORRUPT_SOURCE"),
        (b"[" * 120 + b"]" * 120, "SOURCE_LIMIT"),
    ],
)
def test_a_value_that_is_no_object_is_named_by_its_place(
    topics: Topics, value: bytes, code: str
) -> None:
    topic = topics.create(partitions=1)
    topics.write(topic, [(None, {"id": 1}), (None, value)])
    with pytest.raises(DatarecsError) as caught:
        topics.open(topic)
    assert caught.value.code.name == code
    assert topic in str(caught.value)
    assert "offset 1" in str(caught.value) or "_kafka_offset" in str(caught.value)
    assert "secret-text" not in str(caught.value)


@pytest.mark.parametrize("value", [b"{", b"[1]", b'{"a": 1, "a": 2}'])
def test_who_begins_where_the_message_says_reads_the_records_behind(
    topics: Topics, value: bytes
) -> None:
    topic = topics.create(partitions=1)
    topics.write(topic, [(None, value), (None, {"id": 1})])
    with pytest.raises(DatarecsError, match=r"snapshot\.from") as caught:
        topics.open(topic)
    text = re.search(r"snapshot\.from: \{offsets: (\{.*?\})\}", str(caught.value))
    assert text is not None
    bound = TopicBound(offsets=json.loads(text[1]))
    assert topics.open(topic, snapshot=Snapshot(start=bound)).rows("id") == [(1,)]


def test_a_filter_and_limits_apply(topics: Topics, tmp_path: Path) -> None:
    topic = topics.create(partitions=1)
    topics.write(topic, [(None, {"id": n}) for n in range(10)])
    filtered = topics.open(topic, filter="id >= 7 AND _kafka_offset < 9")
    assert filtered.rows("id") == [(7,), (8,)]
    assert [row["id"] for row in filtered.extracted(tmp_path / "out", "id")] == [7, 8]
    with pytest.raises(DatarecsError) as caught:
        topics.open(topic, limits=Limits(max_rows=9))
    assert caught.value.code.name == "SOURCE_LIMIT"


def test_a_topic_that_does_not_exist_is_named(topics: Topics) -> None:
    source = topic_source("no-such-topic")
    with pytest.raises(DatarecsError) as caught:
        topics.connector(source).pin(source)
    assert caught.value.code.name == "QUERY_ERROR"
    assert "no-such-topic" in str(caught.value)


@pytest.mark.usefixtures("careless_sockets")
def test_a_wrong_password_is_a_refused_login(topics: Topics) -> None:
    source = topic_source(topics.create())
    login, secret = topics.connector(source, password="not-the-word"), "not-the-word"
    with pytest.raises(DatarecsError) as caught:
        login.pin(source)
    assert caught.value.code.name == "CONNECTION_FAILED"
    assert secret not in str(caught.value)
    steps = login.probe(source)
    assert [(step.name, step.ok, step.login_refused) for step in steps] == [
        ("address", True, False),
        ("login", False, True),
    ]


def test_a_probe_shows_what_can_be_read(topics: Topics) -> None:
    topic = topics.create(partitions=2)
    topics.write(topic, ORDERS)
    source = topic_source(topic)
    steps = topics.connector(source).probe(source)
    assert [(step.name, step.ok) for step in steps] == [
        ("address", True),
        ("login", True),
        ("topic", True),
    ]
    assert steps[-1].detail == "2 partitions, 2 offsets to read"
    missing = topics.connector(source).probe(replace(source, topic="no-such-topic"))
    assert (missing[-1].ok, missing[-1].code) == (False, "QUERY_ERROR")


@pytest.mark.usefixtures("careless_sockets")
def test_a_broker_that_is_not_there_is_a_failed_connection(topics: Topics) -> None:
    source = topic_source("t")
    config = KafkaConfig(brokers=("127.0.0.1:1999",), security=KafkaSecurity.PLAINTEXT)
    with pytest.raises(DatarecsError) as caught:
        topics.connector(source, config=config).pin(source)
    assert caught.value.code.name == "CONNECTION_FAILED"
    assert "127.0.0.1:1999" in str(caught.value)


@pytest.mark.usefixtures("careless_sockets")
def test_data_without_encryption_needs_consent_outside_the_loopback(topics: Topics) -> None:
    source = topic_source("t")
    config = KafkaConfig(brokers=("10.1.2.3:9092",), security=KafkaSecurity.PLAINTEXT)
    with pytest.raises(DatarecsError) as caught:
        topics.connector(source, config=config).pin(source)
    assert "not encrypted" in str(caught.value)


def watermark(**offsets: int) -> Snapshot:
    """As a run resolves it, by partition `p<number>`."""
    listed = {name.removeprefix("p"): offset for name, offset in offsets.items()}
    return Snapshot(end=TopicBound(edge=TopicEdge.WATERMARK, offsets=listed, table_snapshot=7))


def test_a_watermark_ends_each_partition_where_the_table_does(topics: Topics) -> None:
    topic = topics.create(partitions=2)
    for partition in range(2):
        topics.write(topic, [(None, {"id": n}) for n in range(5)], partition=partition)
    opened = topics.open(topic, snapshot=watermark(p0=3))
    assert opened.bounds == [(0, 3), (0, 0)]
    assert opened.pin.table_snapshot == 7
    later = replace(watermark(p0=3, p1=5), start=TopicBound(offsets={"0": 4, "1": 1}))
    assert topics.open(topic, snapshot=later).bounds == [(4, 4), (1, 5)]


def test_a_topic_that_ends_before_its_table_was_created_again(topics: Topics) -> None:
    topic = topics.create(partitions=1)
    topics.write(topic, [(None, {"id": 1})])
    with pytest.raises(DatarecsError, match="up to offset 9, and the topic has it up to 1") as lost:
        topics.open(topic, snapshot=watermark(p0=9))
    assert lost.value.code is RunDetail.SNAPSHOT_LOST
    with pytest.raises(DatarecsError, match="partition 3"):
        topics.open(topic, snapshot=watermark(p3=1))


def test_the_columns_of_a_table_are_read_and_no_others(topics: Topics) -> None:
    topic = topics.create(partitions=1)
    topics.write(topic, [(None, {"id": 1, "raw": "AAH/", "at": "2026-01-31T12:00Z", "more": 2})])
    written = {"id": "int", "raw": "binary", "at": "instant", "gone": "decimal(5,2)"}
    opened = topics.open(topic, options={"schema": written, "infer": "none"})
    assert opened.types == written
    assert opened.rows("id", "raw", "at", "gone") == [
        (1, b"\x00\x01\xff", Decimal(1769860800000000), None)
    ]
    assert opened.schema.undelivered == (("_kafka_headers", "headers"),)
