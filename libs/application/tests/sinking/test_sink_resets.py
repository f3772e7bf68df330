"""Resets: the positions that a person names, wrong ones too, and where tasks begin then."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.sinking.task import SinkTask
from datarecs_core.sink.accepting import held_positions, reset_checkpoint
from datarecs_core.sink.checkpoint import TaskWish
from datarecs_core.sink.control import SourcePartition
from datarecs_testing.sink_house import ORDERS, TOPIC, SinkHouse

P0 = SourcePartition(TOPIC, 0)


def reset(house: SinkHouse, **positions: int) -> None:
    """Store a reset of partitions `p0` and `p1`."""
    stored, now = house.memory.stored, house.clock.now()
    moved = {SourcePartition(TOPIC, int(name[1:])): at for name, at in positions.items()}
    held = held_positions(stored.checkpoint, (), ())
    house.memory.stored = replace(
        stored,
        checkpoint=reset_checkpoint(stored.checkpoint, moved or held, held, now=now),
        epoch=stored.epoch + 1,
    )


def committed_house(*, partitions: int = 1) -> tuple[SinkHouse, SinkTask]:
    """With 10 records in partition 0, all committed."""
    house = SinkHouse(partitions=partitions)
    task = house.task()
    house.send(10)
    house.run_cycles(1, task)
    return house, task


@pytest.mark.parametrize("right", [{"p0": 10}, {}])
@pytest.mark.parametrize("cycles", [0, 2])
def test_after_a_right_reset_nothing_is_left_of_a_wrong_one(
    right: Mapping[str, int], cycles: int
) -> None:
    """The group's offset is that of the position before."""
    house, task = committed_house()
    house.kill(task)
    reset(house, p0=9_999)
    task = house.task()
    house.run_until(lambda: house.memory.reports[-1].is_halted, task)
    assert house.memory.reports[-1].error == (
        "orders 0 ends at 10, before the accepted position 9999; positions that it has are 0 to 10"
    )
    if cycles:
        house.run_cycles(cycles, task)
    house.kill(task)
    reset(house, **right)
    before = len(house.memory.reports)
    task = house.task()
    house.send(3)
    house.run_cycles(2, task)
    assert {(one.error_code, one.is_halted) for one in house.memory.reports[before:]} == {
        ("", False)
    }
    assert house.mistakes() == ""


def test_a_task_that_joins_after_a_reset_begins_at_what_the_control_topic_accepts() -> None:
    """The control topic is begun, and no vote has moved the group's offset away yet."""
    house, task = committed_house(partitions=2)
    house.kill(task)
    reset(house, p0=9_999)
    task = house.task()
    house.run_cycles(2, task)
    house.kill(task)
    reset(house)
    first = house.task()
    house.run_until(lambda: house.memory.stored.checkpoint.lineage is not None, first)
    house.kill(first)
    before = len(house.memory.reports)
    second = house.task()
    house.send(3)
    house.run_cycles(2, second)
    assert {one.error_code for one in house.memory.reports[before:]} == {""}
    assert house.mistakes() == ""


def test_after_a_reset_a_vote_without_a_commit_is_not_read_again() -> None:
    house, task = committed_house()
    house.kill(task)
    reset(house, p0=10)
    house.run_cycles(1, first := house.task())
    house.send(5)
    house.step(first, times=5)
    first.finish()
    second = house.task()
    house.run_cycles(2, second)
    assert house.mistakes() == ""
    assert house.memory.reports[-1].fenced == 0


def test_a_reset_of_a_paused_sink_begins_at_its_positions_once_it_goes_on() -> None:
    house, task = committed_house()
    house.memory.wish(TaskWish.PAUSE)
    house.run_for(timedelta(seconds=30), task)
    house.kill(task)
    reset(house, p0=9_999)
    reset(house, p0=4)
    house.memory.wish(TaskWish.RUN)
    house.run_cycles(2, house.task())
    counts = house.tables.counts(ORDERS)
    assert [counts[P0, offset] for offset in range(10)] == [1] * 4 + [2] * 6
    assert house.memory.reports[-1].error_code == ""
