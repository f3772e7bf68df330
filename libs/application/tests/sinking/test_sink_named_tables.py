"""Tables that records name: each record in its table, once, and no name in silence."""

import json
from collections.abc import Mapping

import pytest

from datarecs_application.ports.messaging import LogRecord
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.definition import DynamicTables, ErrorPolicy, SinkTarget, Tolerance
from datarecs_testing.sink_house import NAME, TOPIC, SinkHouse, a_sink

P0 = SourcePartition(TOPIC, 0)
BY_FIELD = DynamicTables(catalog="lake", namespace=("sales",), path="kind")
DEAD_LETTERS = ErrorPolicy(tolerance=Tolerance.DEAD_LETTER, max_in_a_row=100)


def a_house(
    rule: DynamicTables = BY_FIELD, *, creates: bool = True, errors: ErrorPolicy = DEAD_LETTERS
) -> SinkHouse:
    house = SinkHouse(a_sink(tables=(), dynamic=rule, auto_create=creates, errors=errors))
    house.tables.has_auto_create = creates
    return house


def table(name: str) -> SinkTarget:
    return SinkTarget(catalog="lake", namespace=("sales",), name=name)


def offsets(house: SinkHouse, name: str) -> set[int]:
    """Of partition 0, each once."""
    counts = house.tables.counts(table(name))
    assert set(counts.values()) == {1}
    return {offset for partition, offset in counts if partition == P0}


def dead(house: SinkHouse) -> Mapping[int, str]:
    """Reasons of the dead letters by offset."""
    letters = [one for one in house.cluster.records(f"{NAME}.dlq") if isinstance(one, LogRecord)]
    facts = [{name: (value or b"").decode() for name, value in one.headers} for one in letters]
    return {int(one["datarecs-dlq-offset"]): json.dumps(one) for one in facts}


@pytest.mark.case("I40")
@pytest.mark.parametrize("creates", [True, False])
def test_each_record_is_in_the_table_that_it_names(creates: bool) -> None:
    house = a_house(creates=creates)
    if not creates:
        for name in ("orders", "refunds"):
            house.tables.create(table(name))
    task = house.task()
    for _ in range(2):
        house.send(2, kind="orders")
        house.send(1, kind="Refunds")
        house.run_cycles(1, task)
    assert offsets(house, "orders") == {0, 1, 3, 4}
    assert offsets(house, "refunds") == {2, 5}
    assert set(house.tables.tables) == {"sales.orders", "sales.refunds"}
    assert house.memory.stored.checkpoint.partitions[P0].accepted == 6


@pytest.mark.case("I40")
def test_records_go_to_the_table_of_their_topic() -> None:
    house = a_house(DynamicTables(catalog="lake", namespace=("sales",)))
    house.send(3)
    house.run_cycles(1, house.task())
    assert offsets(house, TOPIC) == {0, 1, 2}


@pytest.mark.case("I40")
def test_a_missing_table_is_a_bad_record_that_is_named() -> None:
    house = a_house(creates=False, errors=ErrorPolicy())
    house.tables.create(table("orders"))
    task = house.task()
    house.send(2, kind="orders")
    house.send(2, kind="refunds")
    house.send(1, kind="orders")
    house.run_cycles(2, task)
    assert offsets(house, "orders") == {0, 1}
    report = house.memory.reports[-1]
    assert (report.is_halted, report.error_code, report.unrouted) == (True, "BAD_RECORD", 0)
    assert report.error.startswith("orders 0, offset 2: kind: the table sales.refunds")
    house.tables.create(table("refunds"))
    task.finish()
    house.run_cycles(2, house.task())
    assert offsets(house, "refunds") == {2, 3}
    assert offsets(house, "orders") == {0, 1, 4}


@pytest.mark.case("I40")
def test_records_of_a_missing_table_become_dead_letters_until_it_is_there() -> None:
    house = a_house(creates=False)
    house.tables.create(table("orders"))
    task = house.task()
    house.send(3, kind="refunds")
    house.send(2, kind="orders")
    house.run_cycles(2, task)
    assert dead(house).keys() == {0, 1, 2}
    assert all("sales.refunds" in reason for reason in dead(house).values())
    house.tables.create(table("refunds"))
    house.send(1, kind="refunds")
    house.run_cycles(2, task)
    assert offsets(house, "refunds") == {5}
    assert offsets(house, "orders") == {3, 4}


@pytest.mark.case("I39")
@pytest.mark.parametrize("name", ["..", "hr.orders", "x" * 300, None, ["orders"]])
def test_a_name_that_is_none_is_a_dead_letter_and_no_table(name: object) -> None:
    house = a_house()
    house.send(1, kind=name)
    house.send(1, kind="orders")
    house.run_cycles(1, house.task())
    assert dead(house).keys() == {0}
    assert set(house.tables.tables) == {"sales.orders"}
    assert offsets(house, "orders") == {1}


@pytest.mark.case("I39")
def test_no_more_tables_are_created_than_declared() -> None:
    house = a_house(DynamicTables(catalog="lake", namespace=("sales",), path="kind", max_tables=3))
    task = house.task()
    for kind in ("a", "b", "c", "d", "a", "e"):
        house.send(1, kind=kind)
    house.run_cycles(1, task)
    house.send(1, kind="f")
    house.run_cycles(1, task)
    assert set(house.tables.tables) == {"sales.a", "sales.b", "sales.c"}
    assert dead(house).keys() == {3, 5, 6}
