"""Tables that were rolled back, dropped or created again: what a person decides is done once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from datarecs_application.sinking.task import SinkTask
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.accepting import requested
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.decisions import DecisionState, TableDecision, WaitingRecords
from datarecs_core.sink.definition import SinkMode, SinkTarget
from datarecs_testing.sink_house import (
    INTERVAL,
    NAME,
    ORDERS,
    SECOND,
    TOPIC,
    KilledError,
    SinkHouse,
    a_sink,
)

COMMIT, LEAVE_OUT = WaitingRecords.COMMIT, WaitingRecords.LEAVE_OUT
P0 = SourcePartition(TOPIC, 0)
Hook = Callable[[str], None]


def decide(house: SinkHouse, records: WaitingRecords, target: SinkTarget = ORDERS) -> None:
    """As the verb does; every task begins anew after it."""
    state = house.memory.stored
    place = (target.catalog, target.namespace, target.name)
    checkpoint = requested(state.checkpoint, place, records, house.memory.newest_commits())
    house.memory.stored = replace(state, epoch=state.epoch + 1, checkpoint=checkpoint)


def decision(house: SinkHouse) -> TableDecision:
    newest = house.memory.stored.checkpoint.decision
    assert newest is not None
    return newest


def end(house: SinkHouse, task: SinkTask) -> SinkTask:
    """The next process of the task."""
    house.kill(task)
    return house.task()


def fault(house: SinkHouse) -> str:
    return house.memory.reports[-1].error_code


def run_to_fault(house: SinkHouse, task: SinkTask, code: SinkCode) -> None:
    house.run_until(lambda: fault(house) == code.name, task)


def mended(house: SinkHouse, task: SinkTask) -> None:
    """The decision is carried out, and a cycle after it is complete."""
    house.run_until(lambda: decision(house).state is not DecisionState.OPEN, task)
    house.run_until(lambda: fault(house) == "", task)
    house.run_cycles(2, task)


def counts_of(house: SinkHouse, target: SinkTarget = ORDERS) -> list[int]:
    """How often each record of partition 0 is in the table, by offset."""
    counts, (_, last) = house.tables.counts(target), (0, max(house.sent()[P0]))
    return [counts[P0, offset] for offset in range(last + 1)]


# --- rolled back


def rolled_back(house: SinkHouse, hook: Hook = lambda _: None) -> SinkTask:
    """Five records in the first commit stay, five in the second do not, five wait."""
    task = house.task()
    for _ in range(2):
        house.send(5)
        house.run_cycles(1, task)
    house.tables.table(ORDERS).roll_back()
    house.send(5)
    run_to_fault(house, task, SinkCode.TABLE_ROLLED_BACK)
    house.kill(task)
    return house.task(hook)


TWO = a_sink(tables=(ORDERS, SECOND))


@pytest.mark.case("I56")
def test_records_of_lost_snapshots_are_left_out() -> None:
    house = SinkHouse(TWO)
    task = rolled_back(house)
    decide(house, LEAVE_OUT)
    mended(house, task)
    assert counts_of(house) == [1] * 5 + [0] * 5 + [1] * 5
    assert house.mistakes(SECOND) == ""
    assert decision(house).state is DecisionState.DONE
    assert "are left out" in decision(house).message


@pytest.mark.case("I56")
def test_records_of_lost_snapshots_are_committed_again_and_to_no_other_table() -> None:
    house = SinkHouse(TWO)
    task = rolled_back(house)
    before = house.memory.stored.checkpoint
    decide(house, COMMIT)
    mended(house, task)
    assert house.mistakes() == ""
    assert house.mistakes(SECOND) == ""
    committed = [cycle.records for cycle in house.memory.commits]
    assert sum(committed) == 5 + 5 + 10 + 15, "those that were added, also ones that are lost now"
    assert "10 records in 2 files" in decision(house).message
    after = house.memory.stored.checkpoint
    assert after.control_offset > before.control_offset
    assert after.partitions[P0].accepted == 15
    assert before.valid_through is not None
    assert after.valid_through is not None
    assert after.valid_through >= before.valid_through


def test_a_table_that_is_rolled_forward_goes_on_by_itself_and_needs_no_decision() -> None:
    house = SinkHouse(TWO)
    task = rolled_back(house)
    house.tables.table(ORDERS).roll_forward()
    decide(house, COMMIT)
    mended(house, task)
    assert house.mistakes() == house.mistakes(SECOND) == ""
    assert "holds what the sink" in decision(house).message or "no records" in (
        decision(house).message
    )


@contextmanager
def refused_again(house: SinkHouse, task: SinkTask, reason: str) -> Iterator[None]:
    """`commit` is refused and changes nothing; leaving out goes on."""
    checkpoint = house.memory.stored.checkpoint
    decide(house, COMMIT)
    house.run_until(lambda: decision(house).state is DecisionState.REFUSED, task)
    assert reason in decision(house).message
    assert "decide leave_out" in decision(house).message
    after = house.memory.stored.checkpoint
    assert (after.control_offset, after.partitions) == (
        checkpoint.control_offset,
        checkpoint.partitions,
    )
    run_to_fault(house, task, SinkCode.TABLE_ROLLED_BACK)
    yield
    task = end(house, task)
    decide(house, LEAVE_OUT)
    mended(house, task)


def test_without_a_snapshot_that_is_left_nothing_is_committed_again() -> None:
    house = SinkHouse()
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    house.tables.table(ORDERS).roll_back()
    house.send(5)
    run_to_fault(house, task, SinkCode.TABLE_ROLLED_BACK)
    with refused_again(house, end(house, task), "no snapshot that is left"):
        pass
    assert counts_of(house) == [0] * 5 + [1] * 5


def test_a_file_that_is_gone_is_not_committed_again() -> None:
    house = SinkHouse(TWO)
    task = rolled_back(house)
    (path,) = house.tables.table(ORDERS).rolled_back[0].paths
    del house.tables.files[path]
    with refused_again(house, task, f"the file {path} of table sales.orders does not exist"):
        pass
    assert house.mistakes(SECOND) == ""


def test_a_control_topic_that_begins_later_commits_nothing_again() -> None:
    house = SinkHouse()
    task = rolled_back(house)
    needed = house.memory.stored.checkpoint.control_offset
    house.cluster.expire(SourcePartition(NAME, 0), before=needed)
    with refused_again(house, task, "the control topic begins at offset"):
        pass


def test_a_rollback_behind_a_reset_commits_nothing_again() -> None:
    house = SinkHouse()
    task = rolled_back(house)
    state = house.memory.stored
    begun = replace(state.checkpoint, first_offset=state.checkpoint.control_offset)
    house.memory.stored = replace(state, checkpoint=begun)
    with refused_again(house, task, "before the last reset"):
        pass


def test_changes_of_rows_are_not_committed_again() -> None:
    house = SinkHouse()
    task = rolled_back(house)
    house.kill(task)
    house.sink = replace(house.sink, mode=SinkMode.UPSERT)
    with refused_again(house, house.task(), "in the mode upsert"):
        house.kill(task)


# --- replaced


def replaced(house: SinkHouse, hook: Hook = lambda _: None) -> SinkTask:
    """Five records are in the lost table, five in its files that no snapshot has."""
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    house.send(5)
    house.step(task, times=4)
    house.tables.create(ORDERS)
    run_to_fault(house, task, SinkCode.TABLE_LOST)
    house.send(5)
    house.kill(task)
    return house.task(hook)


@pytest.mark.case("I55")
def test_files_of_a_replaced_table_are_left_out_for_good() -> None:
    house = SinkHouse(TWO)
    task = replaced(house)
    decide(house, LEAVE_OUT)
    mended(house, task)
    assert counts_of(house) == [0] * 10 + [1] * 5
    assert house.mistakes(SECOND) == ""
    assert "left out for table sales.orders: 5 records in 1 files" in decision(house).message
    reference = house.tables.reference(ORDERS)
    assert reference in house.memory.stored.checkpoint.tables


@pytest.mark.case("I55")
def test_files_of_a_replaced_table_go_into_the_new_one_once() -> None:
    house = SinkHouse(TWO)
    task = replaced(house)
    decide(house, COMMIT)
    mended(house, task)
    assert counts_of(house) == [0] * 5 + [1] * 10
    assert house.mistakes(SECOND) == ""
    assert "for the present table, if they fit: 5 records" in decision(house).message


def test_files_that_do_not_fit_hold_the_table_until_they_are_left_out() -> None:
    house = SinkHouse(TWO)
    task = replaced(house)
    house.tables.misfit = "column amount is string, and was long"
    decide(house, COMMIT)
    house.run_until(lambda: decision(house).state is DecisionState.DONE, task)
    house.run_for(2 * INTERVAL, task)
    assert fault(house) == SinkCode.TABLE_LOST.name
    assert house.memory.reports[-1].error == house.tables.misfit
    assert counts_of(house) == [0] * 15
    assert house.mistakes(SECOND) == ""
    task = end(house, task)
    decide(house, LEAVE_OUT)
    mended(house, task)
    assert counts_of(house) == [0] * 10 + [1] * 5
    assert house.mistakes(SECOND) == ""


def test_a_table_that_is_lost_twice_gets_its_files_once() -> None:
    house = SinkHouse(TWO)
    task = replaced(house)
    decide(house, COMMIT)
    house.tables.table(ORDERS).faults += [ConnectionError("away")] * 2
    house.run_until(lambda: not house.tables.table(ORDERS).faults, task)
    house.tables.create(ORDERS)
    run_to_fault(house, task, SinkCode.TABLE_LOST)
    task = end(house, task)
    decide(house, COMMIT)
    mended(house, task)
    assert counts_of(house) == [0] * 5 + [1] * 10
    assert house.mistakes(SECOND) == ""


def test_what_a_lost_table_had_beyond_the_checkpoint_is_not_committed_again() -> None:
    house = SinkHouse(TWO)
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    house.tables.table(SECOND).faults += [SinkError(SinkCode.COMMIT_FAILED, "409")] * 2
    house.send(5)
    house.run_until(lambda: house.tables.table(ORDERS).control_offset > 9, task)
    held = len(house.tables.rows(ORDERS))
    assert held == 10
    house.tables.create(ORDERS)
    task = end(house, task)
    decide(house, COMMIT)
    mended(house, task)
    assert counts_of(house) == [0] * 10
    assert house.mistakes(SECOND) == ""


def test_a_decision_about_a_replaced_table_stands_when_the_topic_is_read_again() -> None:
    """Another table is rolled back to before it, and its records are committed again."""
    house = SinkHouse(TWO)
    task = replaced(house)
    decide(house, LEAVE_OUT)
    mended(house, task)
    house.send(5)
    house.run_cycles(1, task)
    table = house.tables.table(SECOND)
    table.roll_back(len(table.snapshots) - 1)
    house.send(5)
    run_to_fault(house, task, SinkCode.TABLE_ROLLED_BACK)
    task = end(house, task)
    decide(house, COMMIT, SECOND)
    mended(house, task)
    assert house.mistakes(SECOND) == ""
    assert counts_of(house) == [0] * 10 + [1] * 15


# --- dropped


def dropped(house: SinkHouse) -> SinkTask:
    """Five records are in the table, five in its files that no snapshot has."""
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    house.send(5)
    house.step(task, times=4)
    house.tables.drop(ORDERS)
    run_to_fault(house, task, SinkCode.TABLE_LOST)
    house.kill(task)
    return house.task()


def refusal(house: SinkHouse, task: SinkTask) -> str:
    house.run_until(lambda: decision(house).state is not DecisionState.OPEN, task)
    assert decision(house).state is DecisionState.REFUSED
    return decision(house).message


@pytest.mark.parametrize(
    ("records", "reason"),
    [(LEAVE_OUT, "is declared and does not exist"), (COMMIT, "create it first")],
)
def test_a_declared_table_must_be_created_before_the_sink_goes_on(
    records: WaitingRecords, reason: str
) -> None:
    house = SinkHouse(TWO)
    task = dropped(house)
    decide(house, records)
    assert reason in refusal(house, task)
    run_to_fault(house, task, SinkCode.TABLE_LOST)


@pytest.mark.case("I55")
def test_a_lost_table_that_is_declared_no_more_holds_the_others_no_more() -> None:
    house = SinkHouse(TWO)
    house.kill(dropped(house))
    house.sink = a_sink(tables=(SECOND,))
    task = house.task()
    run_to_fault(house, task, SinkCode.TABLE_LOST)
    task = end(house, task)
    decide(house, LEAVE_OUT)
    house.send(5)
    mended(house, task)
    assert house.mistakes(SECOND) == ""
    assert str(ORDERS) not in house.tables.tables


def test_a_table_that_is_created_by_itself_is_created_after_the_decision() -> None:
    house = SinkHouse(replace(TWO, auto_create=True))
    house.tables.has_auto_create = True
    task = dropped(house)
    decide(house, LEAVE_OUT)
    house.send(5)
    mended(house, task)
    assert counts_of(house) == [0] * 10 + [1] * 5
    assert house.mistakes(SECOND) == ""


# --- killed between two steps

Scenario = Callable[[SinkHouse, Hook], SinkTask]


@pytest.mark.parametrize(
    ("scenario", "records", "expected"),
    [
        (rolled_back, LEAVE_OUT, [1] * 5 + [0] * 5 + [1] * 5),
        (rolled_back, COMMIT, [1] * 15),
        (replaced, LEAVE_OUT, [0] * 10 + [1] * 5),
        (replaced, COMMIT, [0] * 5 + [1] * 10),
    ],
)
def test_a_coordinator_that_dies_in_a_decision_is_followed_by_one_that_ends_it(
    scenario: Scenario, records: WaitingRecords, expected: list[int]
) -> None:
    """Before and after each step from the epoch of the coordinator to its first whole cycle."""
    deaths = 0
    while killed_at(deaths, scenario, records, expected):
        deaths += 1
    assert deaths > 10


STEPS = frozenset(
    {"begin_epoch", "standing", "missing_file", "decided", "accept", "producer", "announce"}
    | {"commit", "committed_table", "committed"}
)


def killed_at(call: int, scenario: Scenario, records: WaitingRecords, expected: list[int]) -> bool:
    """False: the coordinator made fewer calls."""
    house, calls, is_counting, is_dead = SinkHouse(TWO), 0, False, False

    def hook(name: str) -> None:
        nonlocal calls, is_counting, is_dead
        if is_counting and name.split()[1] in STEPS:
            if calls == call:
                is_counting, is_dead = False, True
                raise KilledError
            calls += 1

    task = scenario(house, hook)
    decide(house, records)
    is_counting = True
    try:
        house.run_cycles(1, task)
    except KilledError:
        task = end(house, task)
    is_counting = False
    mended(house, task)
    assert counts_of(house) == expected
    assert house.mistakes(SECOND) == ""
    assert decision(house).state is DecisionState.DONE
    return is_dead


def test_a_coordinator_that_was_replaced_stores_no_decision() -> None:
    house = SinkHouse()

    def hook(name: str) -> None:
        if name == "before decided":
            house.memory.begin_epoch()

    task = rolled_back(house, hook)
    decide(house, LEAVE_OUT)
    house.run_for(2 * INTERVAL, task)
    assert decision(house).state is DecisionState.OPEN
    task = end(house, task)
    mended(house, task)
    assert counts_of(house) == [1] * 5 + [0] * 5 + [1] * 5
