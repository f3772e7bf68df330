"""Lasting faults of a table: what the status says of them, and that they end once mended."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from datarecs_application.ports.sinking import SinkRecord
from datarecs_application.sinking.declared import FOLLOW_EVERY
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.resources.conditions import Condition
from datarecs_core.resources.sink_conditions import sink_conditions
from datarecs_core.sink.definition import SinkTarget
from datarecs_testing.sink_house import INTERVAL, ORDERS, SinkHouse

Fault = Callable[[SinkHouse], Callable[[], None]]
"""Makes the fault; returns what mends it."""


def conditions(house: SinkHouse) -> dict[str, Condition]:
    """As the controller writes them, every 15 s."""
    stored = house.memory.status()
    written = sink_conditions(house.sink, stored, None, now=house.clock.now())
    return {str(one.type): one for one in written}


def says(house: SinkHouse, code: SinkCode) -> bool:
    """Ready is false, with the code and what to do."""
    ready = conditions(house)["Ready"]
    words = (f"{code.name}: ", code.entry.remedy)
    return str(ready.status) == "False" and all(word in ready.message for word in words)


def dropped(house: SinkHouse) -> Callable[[], None]:
    table = house.tables.table(ORDERS)
    house.tables.drop(ORDERS)

    def mend() -> None:
        house.tables.tables[str(ORDERS)] = table

    return mend


def refused_by_writers(code: SinkCode) -> Fault:
    def fault(house: SinkHouse) -> Callable[[], None]:
        accepts = house.tables.refuses

        def refuse(_target: SinkTarget, _record: SinkRecord) -> str | None:
            raise SinkError(code, "the table is not as it should be")

        def mend() -> None:
            house.tables.refuses = accepts

        house.tables.refuses = refuse
        return mend

    return fault


def refused_by_commits(code: SinkCode) -> Fault:
    def fault(house: SinkHouse) -> Callable[[], None]:
        faults = house.tables.table(ORDERS).faults
        faults += [SinkError(code, "the table is not as it should be")] * 1_000
        return faults.clear

    return fault


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        pytest.param(dropped, SinkCode.TABLE_LOST, id="dropped"),
        *(
            pytest.param(refused_by_writers(code), code, id=code.name)
            for code in (
                SinkCode.FILE_LOCATION_REFUSED,
                SinkCode.FORMAT_VERSION_UNSUPPORTED,
                SinkCode.FILE_FORMAT_UNSUPPORTED,
            )
        ),
        *(
            pytest.param(refused_by_commits(code), code, id=f"{code.name} at a commit")
            for code in (SinkCode.TABLE_ROLLED_BACK, SinkCode.TABLE_LOST)
        ),
    ],
)
def test_a_lasting_fault_is_shown_with_its_remedy_until_it_is_mended(
    fault: Fault, code: SinkCode
) -> None:
    house = SinkHouse()
    task = house.task()
    house.run_cycles(1, task)
    mend = fault(house)
    house.send(5)
    with within(house, INTERVAL + FOLLOW_EVERY):
        house.run_until(lambda: says(house, code), task)
    for _ in range(120):
        house.run_for(timedelta(seconds=1), task)
        assert says(house, code)
    mend()
    with within(house, 2 * FOLLOW_EVERY + INTERVAL):
        house.run_until(lambda: str(conditions(house)["Ready"].status) == "True", task)
        house.run_until(lambda: house.mistakes() == "", task)
    house.run_for(timedelta(minutes=1), task)
    assert str(conditions(house)["Ready"].status) == "True"


@contextmanager
def within(house: SinkHouse, limit: timedelta) -> Iterator[None]:
    begun = house.clock.now()
    yield
    assert house.clock.now() - begun <= limit
