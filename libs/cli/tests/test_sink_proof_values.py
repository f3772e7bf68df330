"""Values that a sink converts, names or refuses, in the proof of its table."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from kafka import KafkaProducer
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from datarecs_core.resources.resource import Kind
from datarecs_core.sink.definition import MetadataColumns
from datarecs_core.sink.proof import ProofOptions
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.lake import NAMESPACE
from datarecs_testing.service_process import running_service
from datarecs_testing.sink_process import MODULE, TABLE, SinkHouse, wait_until
from datarecs_testing.sink_proofs import ID, Shown, compare, has_rows, proof_house, table_of
from datarecs_testing.stack import KafkaBroker

pytestmark = pytest.mark.integration
TYPES = {
    "flag": BooleanType(),
    "small": IntegerType(),
    "big": LongType(),
    "single": FloatType(),
    "wide": DoubleType(),
    "price": DecimalType(10, 2),
    "name": StringType(),
    "day": DateType(),
    "clock": TimeType(),
    "local": TimestampType(),
    "moment": TimestamptzType(),
    "uid": UUIDType(),
    "raw": BinaryType(),
    "four": FixedType(4),
    "_kafka_topic": StringType(),
    "_kafka_partition": IntegerType(),
    "_kafka_offset": LongType(),
    "_kafka_timestamp": TimestamptzType(),
    "_kafka_key": BinaryType(),
    "_kafka_headers": MapType(101, StringType(), 102, BinaryType(), value_required=False),
    "tags": ListType(103, StringType(), element_required=False),
}
FORMS = Schema(
    *(NestedField(number, name, kind) for number, (name, kind) in enumerate(TYPES.items(), 1))
)
VALUES: Sequence[Mapping[str, Any]] = (
    {"flag": True, "small": 7, "big": 2**53 + 1, "single": 0.1, "wide": 0.1, "price": 12.5},
    {"small": "7", "big": 1e3, "single": 16777216, "wide": 3, "price": "0012.50"},
    {"name": {"b": 1.50, "a": [1, None, "x"]}, "day": "2026-01-31", "clock": "12:00"},
    {"name": "é\U0001f600", "clock": "23:59:59.5", "local": "2026-01-31 12:00"},
    {"name": [], "moment": "2026-01-31T12:00+0130", "uid": str(UUID(int=7))},
    {"moment": "2026-01-31T12:00:00.123456Z", "raw": "AAH/", "four": "AAECAw==", "wide": -0.0},
    {"local": "2026-01-31T12:00:00.123456", "raw": "", "unknown": 1, "tags": ["a"]},
    {"name": None, "wide": 1e308, "single": -1.5, "price": -99999999.99},
)


@pytest.fixture
def house(
    private_database: PreparedDatabase,
    kafka_broker: KafkaBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[SinkHouse]:
    with proof_house(private_database, kafka_broker, tmp_path, monkeypatch) as opened:
        yield opened


@pytest.mark.case("I63")
def test_every_form_that_the_sink_converts_is_equal_in_the_proof(
    house: SinkHouse, capsys: Shown
) -> None:
    house.lake.catalog.create_table(f"{NAMESPACE}.{TABLE}", FORMS)
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec(metadata_columns="all"))
    house.want(uid)
    house.send_values(json.dumps(one).encode() for one in VALUES)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: has_rows(house, len(VALUES)), service.text)
        assert service.stop() == 0, service.text()
    code, text = compare(house, capsys)
    assert (code, "tags" in text) == (1, True), text
    code, text = compare(house, capsys, options=ProofOptions(excluded=("tags",)))
    assert (code, f"MATCHED {len(VALUES)} of {len(VALUES)}" in text) == (0, True), text


PLACE_COLUMNS = MetadataColumns.OFFSETS.columns
MAPPED = Schema(
    ID,
    NestedField(2, "amount", LongType()),
    *(NestedField(2 + at, name, TYPES[name]) for at, name in enumerate(PLACE_COLUMNS, 1)),
)
MAPPING = '[{"field-id": 2, "names": ["amount", "amt"]}]'


@pytest.mark.case("I63")
def test_a_field_of_another_name_is_compared_and_a_dead_letter_before_the_window_is_not(
    house: SinkHouse, capsys: Shown
) -> None:
    properties = {"schema.name-mapping.default": MAPPING}
    house.lake.catalog.create_table(f"{NAMESPACE}.{TABLE}", MAPPED, properties=properties)
    rules = {"case_insensitive": True, "errors": {"tolerance": "dead_letter"}}
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec(**rules))
    house.want(uid)
    old = datetime.now(UTC) - timedelta(days=10)  # noqa: TID251  the broker's clock judges records
    with closing(KafkaProducer(**house.broker.access.settings())) as producer:
        at = int(old.timestamp() * 1000)
        producer.send(house.topic, b"no object", partition=0, timestamp_ms=at)
    names = ("amt", "AMT", "amount", "Amount")
    house.send_values(json.dumps({"id": n, names[n % 4]: n}).encode() for n in range(20))
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: has_rows(house, 20), service.text)
        assert service.stop() == 0, service.text()
    week = ProofOptions(window=timedelta(days=7))
    code, text = compare(house, capsys, options=week, spec=rules)
    assert (code, "MATCHED 20 of 20" in text) == (0, True), text
    table = table_of(house)
    rows = table.scan().to_arrow()
    empty = pa.nulls(20, pa.int64())
    table.overwrite(rows.set_column(1, rows.schema.field(1), empty))
    code, text = compare(house, capsys, options=week, spec=rules)
    assert (code, "UNMATCHED" in text) == (1, True), text


@pytest.mark.case("I65")
def test_a_topic_of_dead_letters_alone_has_no_verdict_and_the_reason_is_named(
    house: SinkHouse, capsys: Shown
) -> None:
    rules = {"errors": {"tolerance": "dead_letter"}}
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec(**rules))
    house.want(uid)
    house.send_values([b"no object"] * 6)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: house.status(uid).dead_letters == 6, service.text)
        assert service.stop() == 0, service.text()
    code, text = compare(house, capsys, spec=rules)
    assert (code, f"{NAMESPACE}.{TABLE}" in text) == (3, True), text
    house.lake.catalog.create_table(f"{NAMESPACE}.{TABLE}", MAPPED)
    code, text = compare(house, capsys, spec=rules)
    assert (code, "it has no snapshot" in text) == (3, True), text
    assert "`datarecs sink status` counts" in text
