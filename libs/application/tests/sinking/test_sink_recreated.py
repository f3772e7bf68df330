"""Source topics and tables that were dropped and created again: nothing is lost in silence."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.sinking.task import SinkTask
from datarecs_core.sink.checkpoint import PartitionState
from datarecs_core.sink.control import SourcePartition, StartCommit
from datarecs_testing.sink_house import INTERVAL, ORDERS, SECOND, TOPIC, SinkHouse, a_sink

P0, P1 = SourcePartition(TOPIC, 0), SourcePartition(TOPIC, 1)


def recreate_topic(house: SinkHouse, *, records: int) -> None:
    """Created again with as many records as another one had, so that no end gives it away."""
    house.cluster.delete_topic(TOPIC)
    house.cluster.create_topic(TOPIC, partitions=2)
    house.send(records)


def reset(house: SinkHouse, **positions: int) -> None:
    """As the verb does; the task begins anew after it."""
    state = house.memory.stored
    moved = {
        SourcePartition(TOPIC, int(name[1:])): PartitionState(accepted=accepted)
        for name, accepted in positions.items()
    }
    checkpoint = replace(
        state.checkpoint,
        lineage=None,
        control_offset=0,
        partitions={**state.checkpoint.partitions, **moved},
    )
    house.memory.stored = replace(state, epoch=state.epoch + 1, checkpoint=checkpoint)


def end(house: SinkHouse, task: SinkTask) -> SinkTask:
    """The next process of the task."""
    house.kill(task)
    return house.task()


def fault(house: SinkHouse) -> tuple[str, bool]:
    report = house.memory.reports[-1]
    return report.error_code, report.is_halted


# --- topics


def test_a_recreated_topic_halts_before_a_record_is_read() -> None:
    house = SinkHouse()
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    task.finish()
    rows, before = house.tables.rows(ORDERS), house.memory.stored.checkpoint.topics[TOPIC]
    recreate_topic(house, records=9)
    after = house.cluster.topic_id(TOPIC)
    house.run_for(2 * INTERVAL, house.task())
    assert fault(house) == ("LINEAGE_MISMATCH", True)
    error = house.memory.reports[-1].error
    assert f"the topic {TOPIC} was deleted and created again" in error
    assert f"its id is {after}, and was {before}" in error
    assert "`reset` with positions goes on with the new topic" in error
    assert house.tables.rows(ORDERS) == rows
    assert house.cluster.members("datarecs.sink.1") == ()


def test_a_topic_that_is_recreated_before_the_first_commit_halts_the_sink() -> None:
    house = SinkHouse()
    task = house.task()
    house.send(5)
    house.step(task, times=4)
    recreate_topic(house, records=9)
    house.run_for(2 * INTERVAL, task)
    assert fault(house) == ("LINEAGE_MISMATCH", True)
    assert house.tables.rows(ORDERS) == []


def test_a_topic_that_is_recreated_while_the_sink_runs_gets_no_start_of_a_commit() -> None:
    house = SinkHouse()
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    rows, starts = house.tables.rows(ORDERS), count_starts(house)
    recreate_topic(house, records=9)
    house.run_for(2 * INTERVAL, task)
    assert fault(house) == ("LINEAGE_MISMATCH", True)
    assert (house.tables.rows(ORDERS), count_starts(house)) == (rows, starts)


def count_starts(house: SinkHouse) -> int:
    return sum(isinstance(message, StartCommit) for message in house.control())


@pytest.mark.parametrize("moment", ["after announce", "before vote", "after vote"])
def test_votes_with_records_of_a_recreated_topic_are_not_committed(moment: str) -> None:
    """It is created again between the start of a commit and the commit."""
    house = SinkHouse()
    house.send(5)
    first = house.task()
    house.run_cycles(1, first)
    rows = house.tables.rows(ORDERS)
    is_done = False

    def hook(name: str) -> None:
        nonlocal is_done
        if name == moment and not is_done:
            is_done = True
            recreate_topic(house, records=9)

    house.kill(first)
    task = house.task(hook)
    house.run_for(3 * INTERVAL, task)
    assert is_done
    assert fault(house) == ("LINEAGE_MISMATCH", True)
    assert house.tables.rows(ORDERS) == rows


def test_every_task_halts_at_a_recreated_topic() -> None:
    house = SinkHouse()
    tasks = (house.task(), house.task())
    house.send(5)
    house.run_cycles(1, *tasks)
    rows = house.tables.rows(ORDERS)
    recreate_topic(house, records=9)
    house.run_for(6 * INTERVAL, *tasks)
    assert all(task.halt is not None for task in tasks)
    assert house.tables.rows(ORDERS) == rows


def test_a_reset_with_positions_goes_on_with_the_new_topic() -> None:
    house = SinkHouse()
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    recreate_topic(house, records=9)
    house.run_for(2 * INTERVAL, task)
    assert fault(house) == ("LINEAGE_MISMATCH", True)
    task = end(house, task)
    reset(house, p0=0, p1=0)
    house.run_cycles(3, task)
    assert fault(house) == ("", False)
    assert house.memory.stored.checkpoint.topics == {TOPIC: house.cluster.topic_id(TOPIC)}
    counts = house.tables.counts(ORDERS)
    assert [counts[P0, offset] for offset in range(9)] == [2] * 5 + [1] * 4


def test_a_checkpoint_without_ids_takes_those_that_are_there() -> None:
    house = SinkHouse()
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    task.finish()
    state = house.memory.stored
    older = replace(state.checkpoint, topics={}, tables=())
    house.memory.stored = replace(state, checkpoint=older)
    house.send(5)
    house.run_cycles(1, house.task())
    assert house.mistakes() == ""
    checkpoint = house.memory.stored.checkpoint
    assert checkpoint.topics == {TOPIC: house.cluster.topic_id(TOPIC)}
    assert checkpoint.tables == (house.tables.reference(ORDERS),)


def test_the_id_of_an_added_topic_is_stored_with_the_next_commit() -> None:
    house = SinkHouse()
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    task.finish()
    house.cluster.create_topic("returns")
    house.sink = a_sink(topics=(TOPIC, "returns"))
    house.run_cycles(1, house.task())
    topics = house.memory.stored.checkpoint.topics
    assert topics == {name: house.cluster.topic_id(name) for name in (TOPIC, "returns")}


def test_a_cluster_without_ids_is_not_checked() -> None:
    house = SinkHouse()
    house.cluster.has_no_ids = True
    task = house.task()
    house.send(5)
    house.run_cycles(2, task)
    assert house.mistakes() == ""
    assert house.memory.stored.checkpoint.topics == {}


# --- tables


def dropped(house: SinkHouse) -> Callable[[], None]:
    """Returns what restores it."""
    table = house.tables.table(ORDERS)
    house.tables.drop(ORDERS)
    return lambda: house.tables.tables.update({str(ORDERS): table})


def replaced(house: SinkHouse) -> Callable[[], None]:
    restore = dropped(house)
    house.tables.create(ORDERS)
    return restore


Loss = Callable[[SinkHouse], Callable[[], None]]


@pytest.mark.parametrize("lose", [dropped, replaced])
@pytest.mark.parametrize("while_running", [True, False])
def test_a_table_with_commits_is_neither_created_again_nor_exchanged(
    lose: Loss,
    while_running: bool,
) -> None:
    house = SinkHouse()
    house.tables.has_auto_create = True
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    house.run_for(timedelta(seconds=3), task)
    if not while_running:
        task.finish()
        task = house.task()
    restore = lose(house)
    there = set(house.tables.tables)
    house.send(5)
    house.run_for(3 * INTERVAL, task)
    assert fault(house) == ("TABLE_LOST", False)
    assert "was dropped, or is another one than before" in house.memory.reports[-1].error
    assert set(house.tables.tables) == there
    assert all(table.snapshots == [] for table in house.tables.tables.values())
    restore()
    house.run_until(lambda: house.mistakes() == "" and fault(house) == ("", False), task)


@pytest.mark.parametrize("lose", [dropped, replaced])
def test_a_table_that_is_lost_between_its_files_and_their_commit_holds_no_other_one_back(
    lose: Loss,
) -> None:
    house = SinkHouse(a_sink(tables=(ORDERS, SECOND)))
    house.tables.has_auto_create = True
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    house.send(5)
    house.step(task, times=4)
    restore = lose(house)
    house.run_for(3 * INTERVAL, task)
    assert fault(house) == ("TABLE_LOST", False)
    assert "`accept-table`" in house.memory.reports[-1].error
    assert house.mistakes(SECOND) == ""
    restore()
    house.run_until(lambda: house.mistakes() == "" and fault(house) == ("", False), task)
    assert house.mistakes(SECOND) == ""


def test_files_of_a_replaced_table_are_refused_before_its_first_commit() -> None:
    """Of two tables at one place the sink goes on with the first, also where it is gone."""
    house = SinkHouse(a_sink(tables=(ORDERS, SECOND)))
    house.tables.has_auto_create = True
    house.tables.table(ORDERS).faults += [ConnectionError("away")] * 2
    task = house.task()
    house.send(5)
    house.run_until(lambda: house.tables.table(ORDERS).commits > 0, task)
    house.tables.create(ORDERS)
    house.send(5)
    house.run_for(3 * INTERVAL, task)
    assert fault(house) == ("TABLE_LOST", False)
    assert house.tables.rows(ORDERS) == []
    assert house.mistakes(SECOND) == ""


@pytest.mark.parametrize("lose", [dropped, replaced])
def test_a_reset_goes_on_with_the_new_table(lose: Loss) -> None:
    house = SinkHouse()
    house.tables.has_auto_create = True
    task = house.task()
    house.send(5)
    house.run_cycles(1, task)
    house.run_for(timedelta(seconds=3), task)
    lose(house)
    house.send(5)
    house.run_for(2 * INTERVAL, task)
    assert fault(house) == ("TABLE_LOST", False)
    task = end(house, task)
    reset(house)
    house.run_cycles(3, task)
    assert fault(house) == ("", False)
    counts = house.tables.counts(ORDERS)
    assert counts == {(P0, offset): 1 for offset in range(5, 10)}
    assert house.memory.stored.checkpoint.tables == (house.tables.reference(ORDERS),)
