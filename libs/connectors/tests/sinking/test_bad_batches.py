"""Batches of good and differently bad records, through the intake and the real writers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.sinking.decoding import MOST_BYTES, MOST_LEVELS
from datarecs_application.sinking.intake import Intake, TableIntake
from datarecs_core.errors.sink import BadRecordError, SinkCode
from datarecs_core.sink.changes import RecordChanges
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.definition import (
    ErrorPolicy,
    Evolution,
    MetadataColumns,
    SinkMode,
    SinkTable,
    SinkTarget,
    Tolerance,
)
from datarecs_core.sink.routing import router
from datarecs_testing.lake import NAMESPACE, path_at

from .sink_house import TARGET, House, records_of

COPY = SinkTarget(catalog="lake", namespace=(NAMESPACE,), name="copies")
PARTITION = SourcePartition("orders", 0)
GOOD: dict[str, object] = {
    "full": {
        "b": True,
        "d": 0.1,
        "when": "2026-01-31T12:00:00Z",
        "who": {"x": 7},
        "tags": [1, None],
        "by_name": {"a": 1},
    },
    "bare": {},
    "nulls": {"b": None, "who": None, "tags": [], "by_name": {}},
    "more": {"unknown": [{"a": 1}]},
}
BAD: dict[str, object] = {
    "type": {"b": "x"},
    "range": {"id": 2**70},
    "metadata column": {"_kafka_offset": 9},
    "required": {"id": None},
    "required inside": {"who": {}},
    "type inside": {"tags": [1, {}]},
    "type of a member": {"by_name": {"a": 0.5}},
    "timestamp": {"when": "2026-02-30T12:00:00Z"},
    "no object": [1],
}
TEXTS: dict[str, bytes] = {
    "depth": b'{"a": ' + b"[" * MOST_LEVELS + b"]" * MOST_LEVELS + b"}",
    "NaN": b'{"id": 1, "d": NaN}',
    "name twice": b'{"id": 1, "b": true, "b": true}',
    "no JSON": b"{",
    "digits": b'{"id": 1' + b"0" * 5_000 + b"}",
}
TOO_LARGE, LATE = "too large", "late"
_LARGE = b" " * (MOST_BYTES + 1)
KINDS = (*GOOD, *BAD, *TEXTS, LATE)
STREAMS = st.lists(st.lists(st.sampled_from(KINDS), max_size=40), max_size=4)


def value_of(kind: str, offset: int) -> bytes:
    if kind == TOO_LARGE:
        return _LARGE
    if kind in TEXTS:
        return TEXTS[kind]
    parts = {**GOOD, **BAD}.get(kind, {})
    return json.dumps({"id": offset, **parts} if isinstance(parts, dict) else parts).encode()


def flat(batches: Sequence[Sequence[str]]) -> list[str]:
    return [kind for batch in batches for kind in batch]


def logged(kinds: Sequence[str], start: int) -> list[LogRecord]:
    return [
        LogRecord(
            topic="orders",
            partition=0,
            offset=offset,
            timestamp_ms=2**62 if kind == LATE else 1_767_225_600_000,
            key=b"k",
            value=value_of(kind, offset),
            headers=(),
        )
        for offset, kind in enumerate(kinds, start)
    ]


def schema() -> Schema:
    who = StructType(NestedField(11, "x", IntegerType(), required=True))
    columns: list[tuple[str, IcebergType]] = [
        ("b", BooleanType()),
        ("d", DoubleType()),
        ("when", TimestamptzType()),
        ("who", who),
        ("tags", ListType(12, LongType(), element_required=False)),
        ("by_name", MapType(13, StringType(), 14, LongType(), value_required=False)),
        ("_kafka_offset", LongType()),
        ("_kafka_timestamp", TimestamptzType()),
    ]
    return Schema(
        NestedField(1, "id", LongType(), required=True),
        *(
            NestedField(number, name, kind, required=False)
            for number, (name, kind) in enumerate(columns, 2)
        ),
        identifier_field_ids=[1],
    )


@dataclass
class Sink:
    """A task without a log: what it would vote, and where it stops."""

    house: House
    policy: ErrorPolicy
    targets: tuple[SinkTarget, ...] = (TARGET,)
    changes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        facts = {"tables": self.targets, "errors": self.policy, **self.changes}
        sink = SinkTable(connection="k", topics=("orders",), **facts)
        self.intake = TableIntake(
            tables=self.house.tables(**facts),
            targets=dict(enumerate(self.targets)),
            route=router(None, self.targets),
            policy=self.policy,
            changes=RecordChanges.of(sink),
        )

    def take(self, batches: Sequence[Sequence[str]]) -> Intake:
        """The batches in order; from the first one again where writers must be discarded."""
        for _ in range(1 + len(KINDS) * sum(map(len, batches))):
            result, start = Intake(), 0
            for batch in batches:
                result = self.intake.take(PARTITION, logged(batch, start))
                start += len(batch)
                if result.is_spoilt or result.refused is not None:
                    break
            if not result.is_spoilt:
                return result
            self.intake.discard()
            if result.refused is not None:
                self.intake.take(PARTITION, logged(flat(batches)[: result.refused.offset], 0))
                return result
        raise AssertionError("the cycle is read again for ever")

    def letters(self) -> list[int]:
        return [letter.record.offset for letter in self.intake.letters]

    def rows(self) -> dict[str, list[int]]:
        """Offsets by the name of the table, in the order of the files."""
        return {
            table.name: [
                offset
                for file in files
                for offset in pq.read_table(path_at(file.path)).column("_kafka_offset").to_pylist()
            ]
            for table, files in self.intake.finish().items()
        }


MODES: dict[str, dict[str, Any]] = {
    "append": {},
    "upsert": {"mode": SinkMode.UPSERT},
    "evolve add": {"evolve": Evolution.ADD},
}
ALL_BAD = ErrorPolicy(
    tolerance=Tolerance.DEAD_LETTER, max_in_a_row=1_000_000, max_per_thousand=1_000
)


@pytest.fixture
def tables(house: House) -> House:
    for name in ("orders", "copies"):
        house.lake.table(name, schema())
    return house


@pytest.mark.case("I54")
@pytest.mark.parametrize("mode", MODES)
@given(STREAMS)
@example([["type", "metadata column"]])
@example([["bare", "type", "bare", "metadata column", "bare"]])
@example([["metadata column", "type"], ["required", "late", "metadata column"]])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_good_records_land_and_bad_ones_are_dead_letters_in_any_order(
    tables: House, mode: str, batches: list[list[str]]
) -> None:
    policy = ALL_BAD
    sink = Sink(tables, policy, changes=MODES[mode])
    assert sink.take(batches) == Intake()
    kinds = list(enumerate(flat(batches)))
    good = [offset for offset, kind in kinds if kind in GOOD]
    assert sink.letters() == [offset for offset, kind in kinds if kind not in GOOD]
    assert sorted(sink.rows().get("orders", [])) == good


@given(STREAMS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_tables_have_the_same_records(tables: House, batches: list[list[str]]) -> None:
    policy = ALL_BAD
    sink = Sink(tables, policy, targets=(TARGET, COPY))
    assert sink.take(batches) == Intake()
    kinds = list(enumerate(flat(batches)))
    good = [offset for offset, kind in kinds if kind in GOOD]
    assert sink.letters() == [offset for offset, kind in kinds if kind not in GOOD]
    assert sink.rows() == ({"orders": good, "copies": good} if good else {})


@pytest.mark.case("I53")
@pytest.mark.parametrize("mode", MODES)
@given(STREAMS)
@example([["bare", "type", "bare", "metadata column", "bare"]])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_without_tolerance_the_sink_stops_at_the_first_bad_record(
    tables: House, mode: str, batches: list[list[str]]
) -> None:
    sink = Sink(tables, ErrorPolicy(), changes=MODES[mode])
    result = sink.take(batches)
    kinds = [*flat(batches), "no JSON"]
    first = next(offset for offset, kind in enumerate(kinds) if kind not in GOOD)
    stopped = len(kinds) - 1 if result.refused is None else result.refused.offset
    assert stopped == first
    assert sorted(sink.rows().get("orders", [])) == list(range(first))
    assert sink.letters() == []


@given(STREAMS, STREAMS)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_record_too_large_to_read_stops_the_sink_whatever_the_tolerance(
    tables: House, before: list[list[str]], after: list[list[str]]
) -> None:
    policy = ALL_BAD
    sink = Sink(tables, policy)
    kinds = flat(before)
    result = sink.take([*before, [TOO_LARGE, *flat(after)]])
    assert result.refused is not None
    assert result.refused.offset == len(kinds)
    assert result.error is not None
    assert result.error.code is SinkCode.RECORD_TOO_LARGE
    assert sink.letters() == [at for at, kind in enumerate(kinds) if kind not in GOOD]
    good = [at for at, kind in enumerate(kinds) if kind in GOOD]
    assert sink.rows().get("orders", []) == good


@pytest.mark.parametrize("is_required", [True, False])
def test_a_record_without_key_is_bad_only_where_the_column_needs_one(
    house: House, *, is_required: bool
) -> None:
    key = NestedField(2, "_kafka_key", BinaryType(), required=is_required)
    house.lake.table("orders", Schema(NestedField(1, "id", LongType()), key))
    records = records_of({"id": 1}, {"id": 2})
    changed = [records[0], type(records[1])(record=without_key(records[1].record), value={"id": 2})]
    writer = house.tables(metadata_columns=MetadataColumns.ALL).writer(TARGET)
    if not is_required:
        writer.add(changed)
        return
    with pytest.raises(BadRecordError, match="nothing for it") as bad:
        writer.add(changed)
    assert (bad.value.path, bad.value.at) == ("_kafka_key", 1)


def without_key(record: LogRecord) -> LogRecord:
    return LogRecord(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=None,
        value=record.value,
        headers=(),
    )


def test_a_record_from_which_no_table_can_be_made_does_not_hinder_the_others(house: House) -> None:
    """Only one record has two fields of one name, and the table is made from all of them."""
    policy = ALL_BAD
    sink = Sink(house, policy, changes={"auto_create": True})
    values = [{"a": {"b": 1}}, {"a": {"b": 2}}, {"a.b": 1, "a": {"b": 1}}, {"a": {"b": 3}}]
    records = [
        LogRecord(
            topic="orders",
            partition=0,
            offset=offset,
            timestamp_ms=0,
            key=None,
            value=json.dumps(value).encode(),
            headers=(),
        )
        for offset, value in enumerate(values)
    ]
    assert sink.intake.take(PARTITION, records) == Intake()
    landed = sink.rows()["orders"]
    assert sorted([*landed, *sink.letters()]) == [0, 1, 2, 3]
    assert {0, 1, 3} <= set(landed)


def test_fields_left_out_are_counted_once_where_a_batch_is_refused(tables: House) -> None:
    policy = ALL_BAD
    sink = Sink(tables, policy)
    sink.take([["more", "type", "more", "metadata column", "more", "late"]])
    assert sink.intake.dropped_fields == 3
