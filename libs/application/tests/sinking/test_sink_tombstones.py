"""Records without a value: ignored where rows are appended, deletes where rows have a key."""

from datetime import timedelta

import pytest

from datarecs_core.errors.sink import SinkCode
from datarecs_core.sink.definition import RouteRule, RowChange, SinkMode, SinkTarget, Tombstones
from datarecs_testing.sink_house import ORDERS, TOPIC, SinkHouse, a_sink

PAID = SinkTarget(
    catalog="lake", namespace=("sales",), name="orders", route=RouteRule(equals="paid")
)


def send(house: SinkHouse, key: bytes | None) -> None:
    house.cluster.append(TOPIC, None, key=key)


@pytest.mark.case("I50")
def test_a_record_without_value_deletes_the_key_that_its_key_names() -> None:
    house = SinkHouse(a_sink(mode=SinkMode.UPSERT))
    house.send(2)
    send(house, b'{"id": 1}')
    house.run_cycles(1, house.task())
    rows = [(row.change, row.value["id"]) for row in house.tables.rows(ORDERS)]
    assert rows == [(RowChange.UPDATE, 1), (RowChange.UPDATE, 2), (RowChange.DELETE, 1)]


@pytest.mark.case("I50")
@pytest.mark.parametrize(
    ("mode", "tombstones"),
    [(SinkMode.APPEND, None), (SinkMode.UPSERT, Tombstones.IGNORE)],
)
def test_a_record_without_value_is_ignored(mode: SinkMode, tombstones: Tombstones | None) -> None:
    house = SinkHouse(a_sink(mode=mode, tombstones=tombstones))
    house.send(2)
    send(house, b'{"id": 1}')
    house.run_cycles(1, house.task())
    assert [row.value["id"] for row in house.tables.rows(ORDERS)] == [1, 2]


@pytest.mark.parametrize("key", [None, b"1", b"text", b'{"id": 1}'])
def test_a_delete_that_names_no_row_stops_the_sink(key: bytes | None) -> None:
    sink = a_sink(mode=SinkMode.UPSERT, tables=(PAID,), route="state")
    house = SinkHouse(sink)
    task = house.task()
    send(house, key)
    house.run_for(timedelta(seconds=5), task)
    (report, *_) = reversed(house.memory.reports)
    assert (report.is_halted, report.error_code) == (True, SinkCode.BAD_RECORD.name)
