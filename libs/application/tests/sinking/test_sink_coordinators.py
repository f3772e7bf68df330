"""Coordinators that die between any two lines, or are fenced, and what their successors do."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from datarecs_application.sinking.task import SinkTask
from datarecs_core.sink.checkpoint import Checkpoint, SinkState, TaskWish
from datarecs_core.sink.definition import CommitPolicy
from datarecs_testing.sink_house import NAME, ORDERS, SECOND, KilledError, SinkHouse, a_sink


def killed_at(moment: str, nth: int = 1) -> Callable[[str], None]:
    """Dies at the nth such call."""
    left = nth

    def hook(name: str) -> None:
        nonlocal left
        left -= name == moment
        if left <= 0:
            raise KilledError

    return hook


def run_until_killed(house: SinkHouse, *tasks: SinkTask) -> None:
    with pytest.raises(KilledError):
        house.run_for(timedelta(minutes=5), *tasks)


@pytest.mark.parametrize("later", [0, 5])
def test_a_cycle_counts_what_its_dead_predecessor_put_into_the_tables(later: int) -> None:
    house = SinkHouse(a_sink(tables=(ORDERS, SECOND)))
    task = house.task(killed_at("after commit"))
    house.send(10)
    run_until_killed(house, task)
    assert len(house.tables.rows(ORDERS)) == 10
    assert house.memory.commits == []
    house.kill(task)
    house.send(later)
    house.run_cycles(3, house.task())
    assert house.mistakes() == ""
    assert sum(cycle.records for cycle in house.memory.commits) == 2 * (10 + later)
    assert house.memory.commits[0].tables == 2


@pytest.mark.case("I13")
def test_files_of_a_lineage_whose_coordinator_died_before_its_first_commit_are_committed() -> None:
    house = SinkHouse()
    task = house.task(killed_at("before commit"))
    house.send(10)
    run_until_killed(house, task)
    house.kill(task)
    house.cluster.delete_group_offsets(NAME)
    house.run_cycles(2, house.task())
    assert house.mistakes() == ""
    assert house.tables.orphans() <= house.tables.files.keys()


@pytest.mark.case("I14")
@pytest.mark.parametrize(
    "moment",
    [
        "after commit",
        "after committed_table",
        "before announce",
        "after announce",
        "after committed",
    ],
)
def test_a_commit_that_landed_is_not_made_again(moment: str) -> None:
    house = SinkHouse()
    task = house.task(killed_at(moment, 2 if "announce" in moment else 1))
    house.send(10)
    run_until_killed(house, task)
    house.kill(task)
    house.run_cycles(2, house.task())
    assert house.mistakes() == ""
    assert len(house.tables.table(ORDERS).snapshots) == 1
    assert len(house.memory.table_commits) == 1


@pytest.mark.case("I15")
def test_a_coordinator_that_dies_between_two_tables_leaves_the_second_to_its_successor() -> None:
    house = SinkHouse(a_sink(tables=(ORDERS, SECOND)))
    task = house.task(killed_at("after commit"))
    house.send(10)
    run_until_killed(house, task)
    house.kill(task)
    assert house.mistakes(ORDERS) == ""
    assert house.mistakes(SECOND) != ""
    house.run_cycles(1, house.task())
    assert house.mistakes(SECOND) == ""
    assert len(house.tables.table(ORDERS).snapshots) == 1


@pytest.mark.case("I16")
def test_a_control_topic_read_again_from_its_begin_commits_nothing() -> None:
    house = SinkHouse()
    task = house.task()
    for _ in range(3):
        house.send(10)
        house.run_cycles(1, task)
    house.run_cycles(1, task)
    snapshots = len(house.tables.table(ORDERS).snapshots)
    task.finish()
    before = house.memory.stored
    house.memory.stored = SinkState(
        epoch=before.epoch, checkpoint=Checkpoint(lineage=before.checkpoint.lineage)
    )
    house.run_cycles(1, house.task())
    assert len(house.tables.table(ORDERS).snapshots) == snapshots
    assert house.mistakes() == ""


@pytest.mark.case("I10")
def test_an_older_coordinator_steps_down_and_its_task_goes_on_as_a_worker() -> None:
    house = SinkHouse()
    old, new = house.task(), house.task()
    house.run_cycles(1, old)
    house.send(5)
    house.send(5, partition=1)
    house.run_until(lambda: old.coordinator is not None and old.coordinator.is_collecting, old)
    house.kill(old)
    house.run_until(lambda: new.coordinator is not None, new)
    begun = house.clock.now()
    house.run_until(lambda: old.coordinator is None, old, new)
    assert house.clock.now() - begun <= timedelta(seconds=10)
    house.run_until(lambda: house.mistakes() == "", old, new)
    assert old.worker is not None
    assert new.coordinator is not None


@pytest.mark.case("I10")
def test_a_coordinator_that_was_fenced_by_an_older_one_begins_anew() -> None:
    house = SinkHouse()
    task = house.task()
    house.run_cycles(1, task)
    house.log().producer("coordinator")
    house.send(5)
    house.run_until(lambda: house.mistakes() == "", task)
    assert house.memory.stored.epoch == 2


def test_a_request_whose_coordinator_dies_is_served_by_the_next_one() -> None:
    house = SinkHouse(a_sink(commit=CommitPolicy(interval=timedelta(hours=1))))
    house.send(5)
    house.memory.request_commit()
    task = house.task(killed_at("after announce"))
    run_until_killed(house, task)
    house.kill(task)
    house.run_for(timedelta(minutes=1), house.task())
    assert len(house.memory.commits) == 1


def test_a_drain_that_removed_the_topic_and_died_is_completed() -> None:
    house = SinkHouse()
    task = house.task(killed_at("after remove_topics"))
    house.send(5)
    house.run_cycles(1, task)
    house.memory.wish(TaskWish.DRAIN)
    run_until_killed(house, task)
    house.kill(task)
    successor = house.task()
    house.run_until(lambda: successor.is_ended, successor)
    assert house.memory.stored.is_drained
    assert house.cluster.topic_id(NAME) is None
