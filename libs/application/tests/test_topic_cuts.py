"""A topic that ends where the table of its job ends: the order of the pins, and what is refused."""

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import cast

import pytest

from datarecs_application.opening import ExtractionFailedError, opened_sources, pinned_again
from datarecs_application.ports.comparing import Connector, HeldPin
from datarecs_application.topic_cuts import WatermarkMissingError
from datarecs_core.comparison.planning.scan import (
    OffsetRange,
    Pin,
    SinkCommit,
    SourceColumn,
    SourceSchema,
    TableSnapshot,
    TopicEnd,
    TopicOffsets,
)
from datarecs_core.errors.run import RunDetail
from datarecs_core.jobs import types
from datarecs_core.jobs.definition import LATEST, OptionValue, Snapshot, Source, TopicBound
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import SourceKind, TopicEdge

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
TOPIC = Source(
    name="topic",
    kind=SourceKind.KAFKA,
    connection="k",
    topic="orders",
    snapshot=Snapshot(end=TopicBound(edge=TopicEdge.WATERMARK)),
    options={"schema": {"day": "text"}},
)
TABLE = Source(name="table", kind=SourceKind.ICEBERG, connection="lake", relation="sales.orders")
COMMIT = SinkCommit(snapshot_id=7, ends=(TopicEnd(topic="orders", partition=0, offset=12),))
PIN = TableSnapshot(
    catalog="sql lake",
    table="sales.orders",
    table_uuid="u",
    snapshot_id=8,
    schema_id=0,
    taken_at=NOON,
    sink=COMMIT,
)
NESTED = CanonicalType(kind=TypeKind.ARRAY, members=(("element", types.TEXT),))
COLUMNS = {"id": types.INT, "day": types.DATE, "tags": NESTED, "_kafka_offset": types.INT}


@dataclass
class Held:
    pin: Pin

    def check(self) -> Pin:
        return self.pin

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class House:
    """Sources without content; writes down what is opened and pinned."""

    table_pin: TableSnapshot = PIN
    sources: tuple[Source, ...] = (TOPIC, TABLE)
    events: list[str] = field(default_factory=list)
    connected: dict[str, Source] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def connect(self, source: Source) -> Connector:
        self.connected[source.name] = source
        return cast("Connector", Place(self, source))

    def open(self) -> list[Source]:
        opened = opened_sources(self.sources, self.connect, {}, self.stack, whole=True)
        assert [one.source.name for one in opened] == [one.name for one in self.sources]
        return [one.source for one in opened]

    def refusal(self) -> str:
        with pytest.raises(ExtractionFailedError) as failed:
            self.open()
        cause = failed.value.__cause__
        assert isinstance(cause, WatermarkMissingError)
        assert cause.code is RunDetail.SNAPSHOT_LOST
        assert failed.value.source == "topic"
        return str(cause)


@dataclass
class Place:
    house: House
    opened: Source

    def pin(self, source: Source) -> HeldPin:
        self.house.events.append(f"pin {source.name}")
        if source.kind is SourceKind.ICEBERG:
            return cast("HeldPin", Held(self.house.table_pin))
        end = source.snapshot.end
        ranges = (OffsetRange(partition=0, start=0, end=end.offsets.get("0", 0)),)
        pin = TopicOffsets(
            cluster_id="c",
            topic="orders",
            topic_id="t",
            ranges=ranges,
            taken_at=NOON,
            table_snapshot=end.table_snapshot,
        )
        return cast("HeldPin", Held(pin))

    def describe(self, source: Source, pin: Pin) -> SourceSchema:
        del source, pin
        columns = [SourceColumn(name=name, type=kind) for name, kind in COLUMNS.items()]
        fields = (("id", "id"), ("date", "day"))
        return SourceSchema(columns=tuple(columns), record_fields=fields, identifier=("id",))

    def close(self) -> None:
        """Nothing is open."""


def test_the_table_is_pinned_first_and_sets_end_and_columns_of_the_topic() -> None:
    house = House()
    topic, table = house.open()
    assert house.events == ["pin table", "pin topic"]
    assert table == TABLE
    end = TopicBound(edge=TopicEdge.WATERMARK, offsets={"0": 12}, table_snapshot=7)
    assert topic.snapshot.end == end
    assert topic.options == {
        "schema": {"id": "int", "day": "text"},
        "infer": "none",
        "fields": {"id": "id", "date": "day"},
    }
    assert house.connected["topic"] == topic


def test_a_value_that_is_no_object_has_its_one_column() -> None:
    house = House(sources=(replace(TOPIC, options={"decode": "text"}), TABLE))
    assert house.open()[0].options == {"decode": "text"}


@pytest.mark.parametrize(("declared", "key"), [((), ("id",)), (("day",), ("day",))])
def test_a_fold_by_id_has_the_key_of_the_table_unless_the_job_names_one(
    declared: tuple[str, ...], key: tuple[str, ...]
) -> None:
    options: dict[str, OptionValue] = {"fold": "latest_by_id"}
    if declared:
        options["id_columns"] = declared
    house = House(sources=(replace(TOPIC, options=options), TABLE))
    assert house.open()[0].options["id_columns"] == key


def test_another_end_needs_no_table() -> None:
    latest = replace(TOPIC, snapshot=Snapshot(end=LATEST))
    assert House(sources=(latest, replace(latest, name="other"))).open()[0] == latest


def test_a_new_cut_has_the_end_of_the_new_table() -> None:
    house = House()
    opened = opened_sources(house.sources, house.connect, {}, house.stack, whole=True)
    later = SinkCommit(snapshot_id=9, ends=(TopicEnd(topic="orders", partition=0, offset=20),))
    house.table_pin = replace(PIN, snapshot_id=9, sink=later)
    house.events.clear()
    held: list[HeldPin] = []
    topic, table = pinned_again(opened, held.append)
    assert house.events == ["pin table", "pin topic"]
    assert len(held) == 2
    assert isinstance(topic.pin, TopicOffsets)
    assert (topic.pin.ranges[0].end, topic.pin.table_snapshot) == (20, 9)
    assert table.pin == house.table_pin


@pytest.mark.parametrize(
    ("sink", "words"),
    [
        (None, "no sink has written its snapshots"),
        (SinkCommit(snapshot_id=7, ends=None), "snapshot 7 of the sink does not state"),
        (
            SinkCommit(snapshot_id=7, ends=(TopicEnd(topic="refunds", partition=0, offset=1),)),
            "is of topic refunds, not of orders",
        ),
        (SinkCommit(snapshot_id=7, ends=()), "is of topic none"),
    ],
)
def test_a_history_without_the_topic_is_refused_with_its_reason(
    sink: SinkCommit | None, words: str
) -> None:
    refusal = House(table_pin=replace(PIN, sink=sink)).refusal()
    assert words in refusal
    assert "'sales.orders'" in refusal


def test_a_table_without_a_snapshot_is_refused_with_what_to_check() -> None:
    refusal = House(table_pin=replace(PIN, snapshot_id=None, sink=None)).refusal()
    assert "it has no snapshot, so no record of the topic has become a row yet" in refusal
    assert "`datarecs sink status`" in refusal


@pytest.mark.parametrize("others", [(), (TABLE, replace(TABLE, name="copy"))])
def test_a_stored_job_without_the_one_table_is_refused(others: tuple[Source, ...]) -> None:
    refusal = House(sources=(TOPIC, *others)).refusal()
    assert f"the job has {len(others)} iceberg sources" in refusal
