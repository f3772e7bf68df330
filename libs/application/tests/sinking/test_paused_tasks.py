"""A task of a paused sink: it ends when what it read is committed, and not before."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from datarecs_core.sink.checkpoint import Checkpoint, Lineage, PartitionState, SinkState, TaskWish
from datarecs_core.sink.control import SourcePartition
from datarecs_testing.scripted_child import ChildSide
from datarecs_testing.task_slots import TaskHouse, call, waits

ORDERS_0 = SourcePartition("orders", 0)


def stored_at(offset: int, *, accepted: int, wish: TaskWish = TaskWish.PAUSE) -> SinkState:
    lineage = Lineage(cluster_id="c", topic_id="t", group="g")
    partitions = {ORDERS_0: PartitionState(accepted=accepted)}
    checkpoint = Checkpoint(lineage=lineage, control_offset=offset, partitions=partitions)
    return SinkState(wish=wish, checkpoint=checkpoint)


@pytest.mark.parametrize("positions", [{"orders/0": 5}, {}])
def test_a_task_of_a_paused_sink_ends_when_what_it_read_is_committed(
    positions: Mapping[str, int],
) -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        for stored in (stored_at(3, accepted=2), stored_at(7, accepted=5)):
            house.memory.stored = stored
            call(side, "state")
            call(side, "report", {"positions": positions})
        return waits(side)

    house = TaskHouse(script)
    assert house.slot.step() == 1
    assert len(house.children) == 1
    assert house.leases.resting == [house.leases.lease]


@pytest.mark.parametrize(
    ("states", "report"),
    [
        ([stored_at(3, accepted=2), stored_at(7, accepted=4)], {"positions": {"orders/0": 5}}),
        ([stored_at(7, accepted=5), stored_at(7, accepted=5)], {"positions": {"orders/0": 5}}),
        (
            [stored_at(3, accepted=2), stored_at(7, accepted=5, wish=TaskWish.RUN)],
            {"positions": {"orders/0": 5}},
        ),
        ([stored_at(3, accepted=2), stored_at(7, accepted=5)], {"error_code": "LOG_UNAVAILABLE"}),
    ],
    ids=["uncommitted", "no cycle", "it goes on", "hindered"],
)
def test_a_task_of_a_paused_sink_goes_on_while_something_is_to_do(
    states: Sequence[SinkState], report: Mapping[str, Any]
) -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        for stored in states:
            house.memory.stored = stored
            call(side, "state")
            call(side, "report", report)
        call(side, "state")
        house.stop.set()
        return waits(side)

    house = TaskHouse(script)
    house.slot.step()
    assert house.leases.released == [house.leases.lease]
    assert house.leases.resting == []


def test_a_report_from_before_the_pause_says_nothing_of_what_was_read_since() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        call(side, "report", {"positions": {"orders/0": 5}})
        for stored in (stored_at(3, accepted=2), stored_at(7, accepted=5)):
            house.memory.stored = stored
            call(side, "state")
        house.stop.set()
        return waits(side)

    house = TaskHouse(script)
    house.slot.step()
    assert house.leases.resting == []
