"""Each snapshot of a table is stored once, also where nobody stored it when it was added."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.checkpoint import TableCommit
from datarecs_testing.sink_doubles import RecordedSinkMemory
from datarecs_testing.sink_house import INTERVAL, ORDERS, SECOND, KilledError, SinkHouse, a_sink

FAILED = SinkError(SinkCode.COMMIT_FAILED, "the catalog answers 409")
TWO = a_sink(tables=(ORDERS, SECOND))


def killed_at(moment: str, nth: int) -> Callable[[str], None]:
    """Dies at the nth such call, and in every one after it."""
    left = nth

    def hook(name: str) -> None:
        nonlocal left
        left -= name == moment
        if left <= 0:
            raise KilledError

    return hook


def die(house: SinkHouse, moment: str, nth: int = 1) -> None:
    task = house.task(killed_at(moment, nth))
    with pytest.raises(KilledError):
        house.run_for(timedelta(minutes=5), task)
    house.kill(task)


def added(house: SinkHouse) -> list[TableCommit]:
    """Of all tables, table after table, in the order of their histories."""
    return [
        one.commit for target in house.sink.tables for one in house.tables.table(target).snapshots
    ]


def stored(house: SinkHouse) -> list[TableCommit]:
    """In the order in which they were stored, table after table."""
    names = [target.name for target in house.sink.tables]
    return sorted(house.memory.table_commits, key=lambda one: names.index(one.table.name))


def assert_stored_once(house: SinkHouse) -> None:
    assert stored(house) == added(house)
    assert sum(cycle.records for cycle in house.memory.commits) == sum(
        one.records for one in added(house)
    )
    assert [house.mistakes(target) for target in house.sink.tables] == [""] * len(house.sink.tables)


class CountingMemory(RecordedSinkMemory):
    """How often each snapshot was to be stored."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[tuple[str, int]] = Counter()

    def committed_table(self, commit: TableCommit) -> None:
        self.calls[commit.table.name, commit.snapshot_id] += 1
        super().committed_table(commit)


@pytest.mark.case("I14")
@pytest.mark.parametrize("later", [0, 5])
@pytest.mark.parametrize("moment", ["after commit", "before committed_table"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_snapshot_whose_coordinator_died_before_it_was_stored_is_stored_by_the_next_one(
    moment: str, nth: int, later: int
) -> None:
    house = SinkHouse(TWO)
    house.send(10)
    die(house, moment, nth)
    assert len(added(house)) == nth
    assert len(stored(house)) == nth - 1
    house.send(later)
    house.run_cycles(3, house.task())
    assert_stored_once(house)
    counts = [len(house.tables.table(target).snapshots) for target in (ORDERS, SECOND)]
    if later == 0:
        assert counts == [1, 1]
    else:
        assert counts[0] == 2


@pytest.mark.case("I14")
def test_snapshots_of_one_coordinator_after_the_other_are_stored_oldest_first() -> None:
    house = SinkHouse()
    for _ in range(3):
        house.send(10)
        die(house, "after commit")
    assert len(added(house)) == 3
    assert stored(house) == []
    house.send(5)
    house.run_cycles(1, house.task())
    assert_stored_once(house)
    assert len({one.commit_id for one in stored(house)}) == 4
    assert [(cycle.tables, cycle.records) for cycle in house.memory.commits] == [(1, 35)]


@pytest.mark.case("I18")
def test_a_snapshot_without_an_answer_is_stored_with_the_next_one() -> None:
    house = SinkHouse(TWO)
    task = house.task()
    house.tables.table(ORDERS).late_faults.append(FAILED)
    house.send(10)
    house.run_until(lambda: bool(task.coordinator and task.coordinator.failed_commits), task)
    assert {one.table.name for one in stored(house)} == {SECOND.name}
    house.send(5)
    house.run_cycles(2, task)
    assert len(house.tables.table(ORDERS).snapshots) == 2
    assert_stored_once(house)


@pytest.mark.case("I17")
def test_snapshots_that_are_stored_are_not_sent_again_while_another_table_fails() -> None:
    """But for the newest one of a table that gets nothing new."""
    house = SinkHouse(TWO)
    house.memory = memory = CountingMemory()
    house.tables.table(SECOND).faults += [FAILED] * 5
    task = house.task()
    for _ in range(5):
        house.send(4)
        house.run_for(INTERVAL, task)
    house.send(4)
    house.run_cycles(1, task)
    *_, newest = house.tables.table(ORDERS).snapshots
    assert newest.commit.snapshot_id >= 5
    assert_stored_once(house)
    repeated = {snapshot for snapshot, count in memory.calls.items() if count > 1}
    assert repeated <= {(ORDERS.name, newest.commit.snapshot_id)}


def test_a_cycle_counts_what_a_predecessor_stored_while_another_table_failed() -> None:
    house = SinkHouse(TWO)
    house.tables.table(SECOND).faults += [FAILED] * 2
    task = house.task()
    for _ in range(2):
        house.send(4)
        house.run_for(INTERVAL, task)
    assert house.memory.commits == []
    assert stored(house) != []
    house.kill(task)
    house.run_cycles(2, house.task())
    assert_stored_once(house)
    assert house.memory.commits[0].tables == 2


def test_a_coordinator_that_begins_at_a_complete_cycle_stores_nothing_again() -> None:
    house = SinkHouse(TWO)
    house.memory = memory = CountingMemory()
    task = house.task()
    for _ in range(3):
        house.send(5)
        house.run_cycles(1, task)
    house.kill(task)
    house.send(5)
    house.run_cycles(1, house.task())
    assert_stored_once(house)
    assert set(memory.calls.values()) == {1}
