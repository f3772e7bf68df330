"""Workers: membership, positions, gaps, back-pressure, and the way out."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event, RLock, Thread, current_thread
from threading import enumerate as enumerate_threads

import pytest

from datarecs_application.sinking.task import SinkTask
from datarecs_core.errors.captures import LeaseLostError
from datarecs_core.sink.checkpoint import Checkpoint, Lineage, PartitionState, SinkState, TaskWish
from datarecs_core.sink.control import ControlHeaders, Outgoing, SourcePartition, StartCommit
from datarecs_core.sink.definition import CommitPolicy, StartAt
from datarecs_testing.sink_house import (
    INTERVAL,
    NAME,
    ORDERS,
    TOPIC,
    KilledError,
    SinkHouse,
    a_sink,
)

P0, P1 = SourcePartition(TOPIC, 0), SourcePartition(TOPIC, 1)


def at(moment: str, action: Callable[[], None]) -> Callable[[str], None]:
    """Do something in the first such call."""
    is_done = False

    def hook(name: str) -> None:
        nonlocal is_done
        if name == moment and not is_done:
            is_done = True
            action()

    return hook


def die() -> None:
    raise KilledError


def run_until_killed(house: SinkHouse, task: SinkTask) -> None:
    with pytest.raises(KilledError):
        house.run_for(timedelta(minutes=5), task)
    house.kill(task)


@pytest.mark.case("I03")
def test_files_of_a_task_that_died_while_it_wrote_are_in_no_table() -> None:
    house = SinkHouse(a_sink(memory=500))
    task = house.task()
    house.send(20)
    house.step(task, times=4)
    house.kill(task)
    house.run_cycles(2, house.task())
    assert house.mistakes() == ""
    assert house.tables.orphans() != set()


@pytest.mark.case("I04")
def test_a_task_that_dies_before_its_vote_leaves_no_message() -> None:
    house = SinkHouse()
    task = house.task(at("before vote", die))
    house.send(10)
    run_until_killed(house, task)
    assert [type(message) for message in house.control()] == [StartCommit]
    house.run_cycles(2, house.task())
    assert house.mistakes() == ""


@pytest.mark.case("I05")
def test_files_of_a_task_that_dies_after_its_vote_are_committed() -> None:
    house = SinkHouse()
    task = house.task(at("after vote", die))
    house.send(10)
    run_until_killed(house, task)
    successor = house.task()
    house.run_until(lambda: bool(successor.worker and successor.worker.positions()), successor)
    assert house.cluster.group_offsets(NAME)[P0] == 10
    house.run_cycles(1, successor)
    assert house.mistakes() == ""
    assert house.tables.orphans() == set()


@pytest.mark.case("I06")
@pytest.mark.case("I07")
@pytest.mark.parametrize("fences", [True, False], ids=["fencing broker", "careless broker"])
def test_a_task_that_sleeps_before_its_vote_past_its_session_doubles_nothing(fences: bool) -> None:
    house = SinkHouse()
    house.cluster.accepts_stale_generations = not fences
    other = house.task()

    def sleep() -> None:
        house.kill(task)
        house.send(10)
        house.run_cycles(2, other)

    task = house.task(at("before vote", sleep))
    house.send(10)
    house.run_until(lambda: bool(house.memory.commits), task)
    house.run_for(3 * INTERVAL, task, other)
    assert house.mistakes() == ""
    assert house.tables.orphans() != set()
    assert task.worker is not None
    assert task.worker.fenced == (1 if fences else task.worker.fenced)


@pytest.mark.case("I25")
def test_a_start_commit_of_an_older_coordinator_is_ignored() -> None:
    house = SinkHouse()
    task = house.task()
    house.run_cycles(1, task)
    messages = len(list(house.control()))
    stale = Outgoing(
        message=StartCommit(commit_id=house.ids.new()), headers=ControlHeaders(epoch=0)
    )
    house.log().producer("old").announce([stale])
    house.step(task, times=5)
    assert len(list(house.control())) == messages + 1


@pytest.mark.case("I26")
@pytest.mark.parametrize("offset", [3, 15])
def test_a_worker_that_begins_elsewhere_is_sent_to_the_accepted_position(offset: int) -> None:
    house = SinkHouse()
    task = house.task()
    house.send(10)
    house.run_cycles(1, task)
    task.finish()
    house.send(10)
    house.cluster.group(NAME).offsets[P0] = offset
    house.memory.stored = SinkState(
        epoch=house.memory.stored.epoch,
        checkpoint=Checkpoint(lineage=house.memory.stored.checkpoint.lineage),
    )
    successor = house.task()
    house.run_until(lambda: house.mistakes() == "", successor)
    assert house.memory.reports[-1].fenced == 1


@pytest.mark.case("I30")
def test_expired_group_offsets_are_replaced_by_accepted_positions() -> None:
    house = SinkHouse()
    task = house.task()
    house.send(10)
    house.run_cycles(1, task)
    task.finish()
    house.cluster.delete_group_offsets(NAME)
    house.send(10)
    successor = house.task()
    house.run_cycles(1, successor)
    assert house.mistakes() == ""
    assert house.memory.reports[-1].fenced == 0
    assert house.tables.orphans() == set()


@pytest.mark.parametrize(
    ("start", "offsets"),
    [
        (StartAt.EARLIEST, {0, 1, 2, 3}),
        (StartAt.LATEST, {3}),
        pytest.param(datetime(2026, 1, 15, 10, tzinfo=UTC), {1, 2, 3}, id="timestamp"),
    ],
)
def test_a_new_sink_begins_where_it_is_declared(
    start: StartAt | datetime, offsets: set[int]
) -> None:
    house = SinkHouse(a_sink(start=start))
    for hour in (9, 10, 11):
        house.send(1, time=datetime(2026, 1, 15, hour, tzinfo=UTC))
    task = house.task()
    house.run_until(lambda: bool(task.worker and task.worker.positions()), task)
    house.send(1)
    house.run_cycles(2, task)
    assert {offset for _, offset in house.tables.counts(ORDERS)} == offsets


@pytest.mark.case("I29")
@pytest.mark.parametrize(
    ("lineage", "what"),
    [
        (Lineage(cluster_id="other", topic_id="topic-2", group=NAME), "cluster"),
        (Lineage(cluster_id="memory-cluster", topic_id="other", group=NAME), "control topic"),
    ],
)
def test_another_cluster_or_control_topic_halts_before_a_record_is_read(
    lineage: Lineage, what: str
) -> None:
    house = SinkHouse()
    house.memory.stored = SinkState(checkpoint=Checkpoint(lineage=lineage))
    house.send(5)
    task = house.task()
    house.step(task, times=20)
    report = house.memory.reports[-1]
    assert (report.error_code, report.is_halted) == ("LINEAGE_MISMATCH", True)
    assert f"the {what} is another one" in report.error
    assert house.cluster.members(NAME) == ()


@pytest.mark.case("I27")
def test_a_control_topic_that_was_made_again_before_the_first_commit_is_noticed() -> None:
    house = SinkHouse()
    task = house.task()
    house.step(task, times=3)
    house.kill(task)
    house.cluster.delete_topic(NAME)
    house.step(house.task(), times=5)
    assert house.memory.reports[-1].error_code == "LINEAGE_MISMATCH"


@pytest.mark.case("I27")
def test_a_reset_leaves_out_what_the_control_topic_holds_and_goes_on_at_its_positions() -> None:
    house = SinkHouse(partitions=1)
    task = house.task()
    house.send(10)
    house.run_cycles(1, task)
    house.kill(task)
    moved = {SourcePartition("orders", 0): PartitionState(accepted=4)}
    house.memory.stored = replace(
        house.memory.stored, checkpoint=Checkpoint(partitions=moved), epoch=9
    )
    run_until_killed(house, house.task(at("after commit", die)))
    house.run_cycles(3, house.task())
    counts = house.tables.counts(ORDERS)
    assert [counts[place] for place in sorted(counts)] == [1] * 4 + [2] * 6


@pytest.mark.case("I28")
def test_a_control_topic_that_lost_needed_messages_halts_the_sink() -> None:
    house = SinkHouse()
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    task.finish()
    offset = house.memory.stored.checkpoint.control_offset
    control = SourcePartition(NAME, 0)
    stale = Outgoing(
        message=StartCommit(commit_id=house.ids.new()), headers=ControlHeaders(epoch=1)
    )
    house.log().producer("any").announce([stale])
    house.cluster.expire(control, before=offset + 1)
    house.step(house.task(), times=5)
    report = house.memory.reports[-1]
    assert (report.error_code, report.is_halted) == ("CONTROL_GAP", True)
    assert f"begins at offset {offset + 1}" in report.error
    assert f"from {offset} on" in report.error
    assert house.cluster.members(NAME) == ()


@pytest.mark.case("I29")
def test_records_that_were_removed_before_they_were_written_halt_the_sink() -> None:
    house = SinkHouse()
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    task.finish()
    house.send(10)
    house.send(5, partition=1)
    house.cluster.expire(P0, before=9)
    successor = house.task()
    house.run_cycles(2, successor)
    report = house.memory.reports[-1]
    assert (report.error_code, report.is_halted) == ("SOURCE_GAP", True)
    assert report.error == (
        "orders 0: records 5 to 8 were removed from the topic; positions that it has are 9 to 15"
    )
    assert house.memory.stored.checkpoint.partitions[P0].accepted == 5


def test_records_that_are_removed_while_the_sink_waits_halt_it() -> None:
    house = SinkHouse()
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    house.memory.wish(TaskWish.PAUSE)
    house.run_for(timedelta(seconds=10), task)
    house.send(10)
    house.cluster.expire(P0, before=9)
    house.memory.wish(TaskWish.RUN)
    house.run_cycles(2, task)
    assert house.memory.reports[-1].error_code == "SOURCE_GAP"
    assert house.memory.stored.checkpoint.partitions[P0].accepted == 5


def test_offsets_without_records_are_no_gap() -> None:
    """A transaction ends with a marker, which has an offset and is no record."""
    house = SinkHouse()
    task = house.task()
    for _ in range(5):
        transaction = house.cluster.begin()
        house.cluster.append(TOPIC, b'{"id": 1}', transaction=transaction)
        house.cluster.end(transaction, commit=True)
        house.run_for(timedelta(seconds=1), task)
    house.run_cycles(2, task)
    assert house.mistakes() == ""
    assert len(house.tables.counts(ORDERS)) == 5


def test_a_topic_that_ends_before_the_accepted_position_halts_the_sink() -> None:
    """Where the cluster has no ids: else it is known that the topic is another one."""
    house = SinkHouse()
    house.cluster.has_no_ids = True
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    task.finish()
    house.cluster.delete_topic(TOPIC)
    house.cluster.create_topic(TOPIC, partitions=2)
    house.send(2)
    house.run_cycles(1, house.task())
    report = house.memory.reports[-1]
    assert report.error_code == "SOURCE_GAP"
    assert report.error == (
        "orders 0 ends at 2, before the accepted position 5; positions that it has are 0 to 2"
    )


def test_buffers_above_the_memory_are_written_to_files() -> None:
    house = SinkHouse(a_sink(memory=1_000))
    task = house.task()
    for _ in range(5):
        house.send(8)
        house.step(task, times=2)
    assert house.tables.flushes >= 2
    assert task.worker is not None
    assert task.worker.intake.size() <= 1_000


@pytest.mark.case("I61")
def test_workers_stop_reading_without_a_coordinator_and_catch_up_with_the_next_one() -> None:
    house = SinkHouse()
    task = house.task()
    house.run_cycles(1, task)
    begun = house.clock.now()
    while house.clock.now() - begun < 4 * INTERVAL:
        house.send(5)
        house.clock.advance(timedelta(seconds=1))
        task.step_worker()
    assert task.worker is not None
    read = task.worker.positions()[P0]
    assert read < len(house.sent()[P0])
    assert house.memory.reports[-1].is_paused
    house.run_until(lambda: house.mistakes() == "", task)


@pytest.mark.case("I60")
def test_a_partition_that_moves_every_two_seconds_loses_nothing() -> None:
    house = SinkHouse(
        a_sink(commit=CommitPolicy(interval=timedelta(seconds=1), timeout=timedelta(seconds=1))),
        partitions=4,
    )
    steady = house.task()
    for _ in range(30):
        passing = house.task()
        for partition in range(4):
            house.send(10, partition=partition)
        house.run_for(timedelta(seconds=1), steady, passing)
        passing.finish()
        house.run_for(timedelta(seconds=1), steady)
    house.run_until(lambda: house.mistakes() == "", steady)
    house.run_for(timedelta(seconds=5), steady)
    assert house.mistakes() == ""


def test_a_task_that_ends_votes_what_it_has_read() -> None:
    house = SinkHouse()
    leaving, staying = house.task(), house.task()
    house.run_cycles(1, leaving, staying)
    house.send(5)
    house.send(5, partition=1)
    house.step(leaving, staying, times=3)
    leaving.finish()
    offsets = house.cluster.group_offsets(NAME)
    assert 5 in offsets.values()
    house.run_until(lambda: house.mistakes() == "", staying)
    assert house.tables.orphans() == set()


def test_a_task_that_another_process_has_ends_without_a_vote() -> None:
    house = SinkHouse()
    task = house.task()
    house.run_cycles(1, task)
    house.send(5)
    messages = len(list(house.control()))
    house.memory.faults.append(LeaseLostError(item_id=house.ids.new(), epoch=2))
    house.run_until(lambda: task.is_ended, task)
    task.finish()
    assert len(list(house.control())) == messages
    assert house.cluster.members(NAME) == ()


def test_the_loops_of_a_process_end_with_the_stop_signal() -> None:
    house, stop, lock = SinkHouse(), Event(), RLock()

    def one_call_at_a_time(name: str) -> None:
        if name.startswith("before"):
            lock.acquire()
        else:
            lock.release()

    task = house.task(one_call_at_a_time)
    house.send(5)
    thread = Thread(target=task.run, args=(stop,))
    thread.start()
    while thread.is_alive():
        with lock:
            if not house.mistakes():
                break
        stop.wait(0.01)
    stop.set()
    thread.join(30)
    assert not thread.is_alive()
    assert house.mistakes() == ""
    assert house.cluster.members(NAME) == ()


def test_a_last_vote_that_hangs_is_abandoned() -> None:
    house, stop, released = SinkHouse(), Event(), Event()
    is_voting = Event()

    def hang(name: str) -> None:
        if name == "before announce":  # else a cycle may vote first
            released.wait(30)
        if name == "before vote" and current_thread().name == "sink-last-vote":
            is_voting.set()
            released.wait(30)

    task = house.task(hang)
    task.end_limit = timedelta(milliseconds=100)
    house.send(5)
    thread = Thread(target=task.run, args=(stop,))
    thread.start()
    while not (task.worker and task.worker.positions().get(P0)):
        stop.wait(0.01)
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
    assert is_voting.is_set()
    assert house.mistakes() != ""
    released.set()
    for left in enumerate_threads():
        if left.name.startswith("sink-"):
            left.join(10)


def test_the_broker_may_be_away_for_a_while() -> None:
    house = SinkHouse()
    task = house.task()
    house.cluster.is_down = True
    house.clock.advance(timedelta(seconds=1))
    house.step(task)
    assert house.memory.reports[-1].error_code == "LOG_UNAVAILABLE"
    house.cluster.is_down = False
    house.clock.advance(timedelta(seconds=10))
    house.send(5)
    house.run_cycles(3, task)
    assert house.mistakes() == ""
    assert house.memory.reports[-1].error_code == ""
