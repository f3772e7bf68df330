"""Cycles of a sink: what a commit has, waits for, reports and survives; tables that fail."""

from datetime import UTC, datetime, timedelta

import pytest

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.sinking.task import REPORT_EVERY
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.resources.sink_conditions import lag
from datarecs_core.sink.checkpoint import TaskWish
from datarecs_core.sink.control import (
    CommitComplete,
    CommitToTable,
    ControlHeaders,
    DataComplete,
    DataWritten,
    Outgoing,
    StartCommit,
)
from datarecs_core.sink.definition import SinkTarget
from datarecs_memory.sink_cluster import Interruption
from datarecs_testing.sink_house import INTERVAL, NAME, ORDERS, SECOND, TOPIC, SinkHouse, a_sink

THIRD = SinkTarget(catalog="lake", namespace=("sales",), name="third")
FAILED = SinkError(SinkCode.COMMIT_FAILED, "the catalog answers 409")


@pytest.mark.case("I01")
def test_each_cycle_with_records_is_one_snapshot_of_each_table() -> None:
    house = SinkHouse(a_sink(tables=(ORDERS, SECOND)))
    tasks = (house.task(), house.task())
    for _ in range(5):
        house.send(1_000)
        house.send(1_000, partition=1)
        house.run_cycles(1, *tasks)
    house.run_cycles(2, *tasks)
    for target in (ORDERS, SECOND):
        assert house.mistakes(target) == ""
        assert len(house.tables.table(target).snapshots) <= 6
    assert len(house.memory.table_commits) == sum(
        len(house.tables.table(target).snapshots) for target in (ORDERS, SECOND)
    )


def test_a_cycle_announces_its_snapshots_and_its_end() -> None:
    house = SinkHouse()
    house.send(1)
    house.run_cycles(1, house.task())
    kinds = [type(message) for message in house.control()]
    assert kinds == [StartCommit, DataWritten, DataComplete, CommitToTable, CommitComplete]


@pytest.mark.case("I22")
def test_an_idle_sink_completes_its_cycles_before_the_time_is_up() -> None:
    house = SinkHouse()
    house.send(1)
    house.run_cycles(3, house.task(), house.task())
    last = house.memory.commits[-1]
    assert not last.is_partial
    assert last.checkpoint.valid_through is not None
    assert house.clock.monotonic() < 4 * INTERVAL.total_seconds()


@pytest.mark.case("I23")
def test_tables_are_complete_up_to_the_least_of_the_largest_timestamps() -> None:
    house = SinkHouse()
    for hour, partition in ((12, 0), (9, 0), (10, 1), (8, 1)):
        house.send(1, partition=partition, time=datetime(2026, 1, 15, hour, tzinfo=UTC))
    house.run_cycles(2, house.task())
    snapshot = house.tables.table(ORDERS).snapshots[-1].commit
    assert snapshot.valid_through == datetime(2026, 1, 15, 10, tzinfo=UTC)


@pytest.mark.case("I24")
def test_a_partition_without_any_record_does_not_hold_the_time() -> None:
    house = SinkHouse()
    house.send(1, time=datetime(2026, 1, 15, 9, tzinfo=UTC))
    house.run_cycles(1, house.task())
    assert house.memory.commits[-1].checkpoint.valid_through == datetime(2026, 1, 15, 9, tzinfo=UTC)


@pytest.mark.case("I20")
def test_a_silent_worker_makes_a_partial_commit_and_its_files_are_in_the_next_one() -> None:
    house = SinkHouse()
    first, silent = house.task(), house.task()
    house.run_cycles(1, first, silent)
    assert house.memory.commits[-1].is_partial is False
    house.send(5)
    house.send(5, partition=1)
    house.step(first, silent, times=4)
    before = len(house.tables.table(ORDERS).snapshots)
    house.run_cycles(1, first)
    partial = house.memory.commits[-1]
    assert partial.is_partial
    assert house.tables.table(ORDERS).snapshots[before].commit.valid_through is None
    assert house.mistakes() != ""
    house.run_cycles(2, first, silent)
    assert house.mistakes() == ""


def test_markers_of_transactions_are_no_records_that_wait() -> None:
    house = SinkHouse()
    task = house.task()
    for is_committed in (True, True, False):
        transaction = house.cluster.begin()
        house.cluster.append(TOPIC, b'{"id": 1}', partition=0, transaction=transaction)
        house.cluster.end(transaction, commit=is_committed)
    house.run_cycles(2, task)
    house.run_for(REPORT_EVERY, task)
    assert lag(house.memory.status()) == 0
    house.memory.wish(TaskWish.PAUSE)
    house.run_for(REPORT_EVERY, task)
    house.send(3)
    house.run_for(REPORT_EVERY, task)
    assert lag(house.memory.status()) >= 3


@pytest.mark.case("I17")
def test_a_table_that_fails_holds_back_the_checkpoint_and_no_other_table() -> None:
    targets = (ORDERS, SECOND, THIRD)
    house = SinkHouse(a_sink(tables=targets))
    task = house.task()
    house.tables.table(SECOND).faults += [FAILED] * 5
    for _ in range(5):
        house.send(4)
        house.run_for(INTERVAL, task)
    house.run_for(timedelta(seconds=1), task)
    assert house.memory.stored.checkpoint.partitions == {}
    assert len(house.tables.table(ORDERS).snapshots) >= 4
    assert house.tables.table(SECOND).snapshots == []
    house.run_cycles(2, task)
    assert [house.mistakes(target) for target in targets] == ["", "", ""]
    assert len(house.tables.table(SECOND).snapshots) <= 2


@pytest.mark.case("I19")
@pytest.mark.case("I61")
def test_commits_that_fail_again_and_again_are_reported_and_stop_the_reading() -> None:
    house = SinkHouse()
    task = house.task()
    house.send(10)
    house.tables.table(ORDERS).faults += [FAILED] * 10
    house.run_for(8 * INTERVAL, task)
    report = house.memory.reports[-1]
    assert report.error_code == "COMMIT_FAILED"
    assert not report.is_halted
    assert report.is_paused
    starts = sum(isinstance(message, StartCommit) for message in house.control())
    assert starts == 3
    assert house.memory.stored.checkpoint.partitions == {}
    house.send(10)
    house.run_until(lambda: house.mistakes() == "", task)
    house.run_for(INTERVAL, task)
    assert house.memory.reports[-1].error_code == ""
    assert not house.memory.reports[-1].is_paused


@pytest.mark.parametrize("code", [SinkCode.TABLE_ROLLED_BACK, SinkCode.TABLE_LOST])
def test_a_lasting_fault_of_one_table_is_reported_with_its_code(code: SinkCode) -> None:
    house = SinkHouse(a_sink(tables=(ORDERS, SECOND)))
    house.tables.table(SECOND).faults += [SinkError(code, "somebody changed it")] * 100
    task = house.task()
    for _ in range(6):
        house.send(2)
        house.run_for(INTERVAL, task)
    assert house.memory.reports[-1].error_code == code.name
    assert house.memory.reports[-1].error == "somebody changed it"
    assert not house.memory.reports[-1].is_halted
    house.run_for(INTERVAL, task)
    assert house.mistakes(ORDERS) == ""


def test_a_table_that_was_replaced_takes_no_file_of_the_old_one() -> None:
    house = SinkHouse(a_sink(tables=(ORDERS, SECOND)))
    task = house.task()
    house.send(5)
    house.step(task, times=4)
    house.tables.create(SECOND)
    house.run_for(3 * INTERVAL, task)
    assert house.memory.reports[-1].error_code == "TABLE_LOST"
    assert house.mistakes(ORDERS) == ""
    assert house.tables.rows(SECOND) == []


@pytest.mark.case("I18")
def test_a_commit_without_an_answer_is_recognised() -> None:
    house = SinkHouse()
    house.tables.table(ORDERS).late_faults.append(FAILED)
    house.send(5)
    house.run_cycles(1, house.task())
    assert house.mistakes() == ""
    assert len(house.tables.table(ORDERS).snapshots) == 1


def test_an_unknown_fault_of_a_table_holds_no_other_back() -> None:
    house = SinkHouse(a_sink(tables=(ORDERS, SECOND)))
    house.tables.table(ORDERS).faults += [ZeroDivisionError("secret")] * 3
    house.send(5)
    task = house.task()
    house.run_until(lambda: bool(house.memory.reports and house.memory.reports[-1].error), task)
    (report, *_) = reversed(house.memory.reports)
    assert f"{ORDERS}: ZeroDivisionError, a defect of datarecs; the log of" in report.error
    assert "secret" not in report.error
    house.run_cycles(1, task)
    assert house.mistakes(SECOND) == ""
    assert house.mistakes(ORDERS) == ""


@pytest.mark.case("I33")
def test_a_commit_waits_for_the_vote_of_files_that_it_has_read() -> None:
    house = SinkHouse()
    task = house.task()
    house.send(3)
    house.run_cycles(1, task)
    table = house.tables.reference(ORDERS)
    assert table is not None
    sender = house.log().producer("another")
    written = DataWritten(commit_id=house.ids.new(), table=table)
    sender.announce([Outgoing(message=written, headers=ControlHeaders(epoch=1))])
    commits = len(house.memory.commits)
    house.run_for(2 * INTERVAL, task)
    assert len(house.memory.commits) == commits
    vote = DataComplete(commit_id=written.commit_id, positions=())
    sender.announce([Outgoing(message=vote, headers=ControlHeaders(epoch=1, parts=1))])
    house.run_cycles(1, task)


def test_files_that_never_get_a_vote_are_reported_as_damage() -> None:
    house = SinkHouse()
    task = house.task()
    house.run_cycles(1, task)
    house.send(1)
    house.run_cycles(1, task)
    table = house.tables.reference(ORDERS)
    assert table is not None
    written = DataWritten(commit_id=house.ids.new(), table=table)
    sender = house.log().producer("another")
    sender.announce([Outgoing(message=written, headers=ControlHeaders(epoch=1))])
    house.run_for(timedelta(minutes=3), task)
    assert house.memory.reports[-1].error_code == "CONTROL_DAMAGED"
    assert house.memory.reports[-1].is_halted


@pytest.mark.case("I34")
def test_a_damaged_control_message_halts_the_sink() -> None:
    house = SinkHouse()
    task = house.task()
    house.run_cycles(1, task)
    house.cluster.append_damaged(NAME, group="another")
    house.run_cycles(1, task)
    house.cluster.append_damaged(NAME, group=NAME)
    house.run_for(INTERVAL, task)
    assert house.memory.reports[-1].error_code == "CONTROL_DAMAGED"
    assert house.memory.reports[-1].is_halted


@pytest.mark.parametrize("interruption", list(Interruption))
def test_an_interrupted_transaction_loses_and_doubles_nothing(interruption: Interruption) -> None:
    house = SinkHouse()
    task = house.task()
    house.run_cycles(1, task)
    for _ in range(6):
        house.send(5)
        house.cluster.interruptions.append(interruption)
        house.run_for(INTERVAL, task)
        house.cluster.expire_transactions()
    house.run_until(lambda: house.mistakes() == "", task)
    house.run_for(2 * INTERVAL, task)
    assert house.mistakes() == ""


def test_the_memory_may_be_away_for_a_while() -> None:
    house = SinkHouse()
    task = house.task()
    house.memory.faults += [StoreUnavailableError(cause="restart")] * 3
    house.send(5)
    house.run_cycles(1, task)
    house.memory.faults += [StoreUnavailableError(cause="restart")] * 5
    house.send(5)
    house.run_until(lambda: house.mistakes() == "", task)
