"""A task that waits after a fault: its slot, its lease, and what ends the wait."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from datarecs_application.ports.sink_leases import ENDS
from datarecs_application.sinking.backoffs import SLOT_LIMIT
from datarecs_runtime.clock import Latch
from datarecs_testing.scripted_child import ChildSide
from datarecs_testing.task_slots import TaskHouse, dies


def test_a_task_that_waits_after_a_fault_leaves_its_slot_to_others() -> None:
    house = TaskHouse(dies)
    failed = house.leases.lease
    assert house.slot.step() == 1
    house.leases.lease = replace(failed, number=1, epoch=8)
    house.leases.is_free = True
    assert house.slot.step() == 1
    assert house.leases.released == [house.leases.lease]
    assert house.plans[-1]["number"] == 1
    assert house.backoffs.paused() == {failed}


def test_a_new_declaration_ends_the_pause_after_a_fault() -> None:
    house = TaskHouse(dies, dies, dies)
    for _ in range(2):
        house.slot.step()
        house.clock.advance(timedelta(seconds=2))
    house.slot.step()
    assert house.slot.step() == 0
    house.leases.revision = "2"
    house.renewals.beat()
    assert house.slot.step() == 1
    assert len(house.children) == 4


def test_a_task_without_a_slot_after_its_pause_is_released() -> None:
    house = TaskHouse(dies)
    house.slot.step()
    house.clock.advance(timedelta(seconds=1) + SLOT_LIMIT)
    house.renewals.beat()
    house.backoffs.step()
    assert house.leases.released == [house.leases.lease]
    assert house.backoffs.take() is None


def test_an_end_of_the_process_releases_tasks_that_wait() -> None:
    house = TaskHouse(dies)
    house.slot.step()
    house.stop.set()
    house.backoffs.run(house.stop)
    assert house.leases.released == [house.leases.lease]
    assert house.renewals.held() == ()


def test_a_task_that_dies_while_the_process_ends_is_released() -> None:
    house = TaskHouse(dies)
    house.backoffs.run(set_latch())
    house.slot.step()
    assert house.leases.released == [house.leases.lease]


def set_latch() -> Latch:
    latch = Latch()
    latch.set()
    return latch


def test_a_task_that_is_retried_while_it_pauses_is_claimed_again() -> None:
    def script(_: Mapping[str, object], _side: ChildSide) -> int:
        house.leases.revision = ENDS
        house.renewals.beat()
        return 1

    house = TaskHouse(script)
    house.work()
    assert len(house.children) == 1
    assert house.leases.released == [house.leases.lease]
