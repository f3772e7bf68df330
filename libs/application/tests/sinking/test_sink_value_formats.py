"""Values that are not JSON: decoded by what the sink declares, or as one column."""

import pytest

from datarecs_application.ports.sinking import DecodedValue
from datarecs_application.sinking.decoding import (
    MOST_BYTES,
    RecordTooLargeError,
    decode_bytes,
    decode_text,
)
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail
from datarecs_core.errors.sink import BadRecordError, SinkCode
from datarecs_core.sink.definition import RowChange, SinkMode
from datarecs_testing.sink_house import ORDERS, TOPIC, SinkHouse, a_sink


class RegistryDownError(DatarecsError):
    code = RunDetail.CONNECTION_FAILED


class Registry:
    """Decodes `<0><name>`; the schema is the object itself."""

    def __init__(self) -> None:
        self.is_down = False

    def __call__(self, value: bytes) -> DecodedValue:
        if self.is_down:
            raise RegistryDownError("the registry does not answer")
        if value[:1] != b"\0":
            raise BadRecordError(path="", reason="no head")
        return DecodedValue({"id": value[1:].decode()}, self)


def send(house: SinkHouse, value: bytes | None, key: bytes | None = None) -> None:
    house.cluster.append(TOPIC, value, key=key)


def test_a_registry_that_is_down_makes_no_record_bad_and_loses_none() -> None:
    house, registry = SinkHouse(a_sink()), Registry()
    task = house.task()
    task.decode = registry
    send(house, b"\0a")
    house.run_cycles(1, task)
    registry.is_down = True
    send(house, b"\0b")
    house.run_cycles(2, task)
    report = house.memory.reports[-1]
    assert (report.error_code, report.is_halted) == ("CONNECTION_FAILED", False)
    registry.is_down = False
    house.run_cycles(3, task)
    rows = house.tables.rows(ORDERS)
    assert [row.value for row in rows] == [{"id": "a"}, {"id": "b"}]
    assert [row.schema for row in rows] == [registry, registry]


def test_a_value_that_the_decoder_refuses_is_a_bad_record() -> None:
    house = SinkHouse(a_sink())
    task = house.task()
    task.decode = Registry()
    send(house, b"{}")
    house.run_cycles(1, task)
    report = house.memory.reports[-1]
    assert (report.error_code, report.is_halted) == (SinkCode.BAD_RECORD.name, True)
    assert "no head" in report.error


@pytest.mark.parametrize("key", [b"\0a", b'{"id": "a"}'])
def test_a_key_to_delete_is_in_the_format_of_the_values_or_in_json(key: bytes) -> None:
    house = SinkHouse(a_sink(mode=SinkMode.UPSERT))
    task = house.task()
    task.decode = Registry()
    send(house, b"\0a")
    send(house, None, key)
    house.run_cycles(1, task)
    rows = [(row.change, row.value) for row in house.tables.rows(ORDERS)]
    assert rows == [(RowChange.UPDATE, {"id": "a"}), (RowChange.DELETE, {"id": "a"})]


def test_a_text_and_bytes_are_one_column() -> None:
    assert decode_text("é".encode()) == ({"value": "é"}, None)
    assert decode_bytes(b"\xff") == ({"value": b"\xff"}, None)
    with pytest.raises(BadRecordError, match="not Unicode"):
        decode_text(b"\xff")
    for decode in (decode_text, decode_bytes):
        with pytest.raises(RecordTooLargeError):
            decode(bytes(MOST_BYTES + 1))
