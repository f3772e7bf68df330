"""What ends a running task: a clean stop where it can, a kill where it must."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.ports.sink_leases import ENDS
from datarecs_application.sinking.renewals import FENCE
from datarecs_core.errors.captures import LeaseLostError
from datarecs_core.sink.checkpoint import TaskWish
from datarecs_core.sink.declared import SinkWish
from datarecs_testing.scripted_child import ChildSide
from datarecs_testing.task_slots import CANARY, TaskHouse, call, never_stops, waits


@pytest.mark.parametrize("report", [{"is_halted": True, "error_code": "BAD_RECORD"}, None])
def test_a_halted_or_drained_task_is_not_begun_again(report: dict[str, object] | None) -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        call(side, "report", report) if report else call(side, "drained")
        return 0

    house = TaskHouse(script)
    house.slot.step()
    assert len(house.children) == 1
    assert house.leases.released == [house.leases.lease]


def test_a_task_of_a_sink_that_another_task_drained_ends() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        house.memory.drained()
        call(side, "state")
        return 0

    house = TaskHouse(script)
    house.slot.step()
    assert len(house.children) == 1
    assert house.memory.reports == []


def stopped(side: ChildSide, ends: list[str]) -> int:
    """The end of a task that is asked to stop, noted."""
    code = waits(side)
    ends.append("stopped")
    return code


def test_another_declaration_begins_the_task_anew_after_a_clean_stop() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        house.leases.revision = "2"
        with house.unit.begin(house.tenant) as tx:
            tx.sinks.want(house.uid, SinkWish(tasks=1, wish=TaskWish.RUN, revision="2"))
        house.renewals.beat()
        return stopped(side, ends)

    ends: list[str] = []
    house = TaskHouse(script)
    house.slot.step()
    assert ends == ["stopped"]
    assert len(house.children) == 2
    assert house.memory.reports == []


def test_a_retried_task_stops_cleanly_and_is_claimed_again() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        call(side, "report", {"is_halted": True, "error_code": "BAD_RECORD"})
        house.leases.revision = ENDS
        house.renewals.beat()
        return stopped(side, ends)

    ends: list[str] = []
    house = TaskHouse(script)
    assert house.slot.step() == 1
    assert ends == ["stopped"]
    assert len(house.children) == 1
    assert house.leases.released == [house.leases.lease]


def test_a_task_makes_room_for_one_that_its_slot_is_handed() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        house.renewals.end(house.leases.lease)
        house.renewals.beat()
        return stopped(side, ends)

    ends: list[str] = []
    house = TaskHouse(script)
    handed = replace(house.leases.lease, epoch=9)
    house.slot.handed = lambda: handed if ends else None
    assert house.slot.step() == 1
    assert house.leases.released == [house.leases.lease]
    house.renewals.hold(handed, confirmed_at=house.clock.monotonic())
    house.leases.lease = handed
    assert house.slot.step() == 1
    assert house.leases.released[1:] == [handed]
    assert (ends, len(house.children)) == (["stopped"], 2)


def test_a_rotated_secret_begins_the_task_anew() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        house.secrets.value = "another"
        for seconds in (20, 11):
            house.clock.advance(timedelta(seconds=seconds))
            house.renewals.beat()
        return waits(side)

    house = TaskHouse(script)
    house.slot.step()
    assert [plan["secrets"] for plan in house.plans] == [
        {"events/password": CANARY},
        {"events/password": "another"},
    ]


def test_a_task_that_does_not_stop_is_killed() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        house.stop.set()
        assert side.receive() == {"type": "stop"}
        house.clock.advance(timedelta(seconds=26))
        house.renewals.beat()
        return never_stops(side)

    house = TaskHouse(script)
    house.slot.step()
    end = house.children[0].ended()
    assert end is not None
    assert end.signal == 9


def refused(house: TaskHouse) -> None:
    house.leases.is_current = False
    house.renewals.beat()


def unanswered(house: TaskHouse) -> None:
    house.leases.fails = True
    house.renewals.beat()
    house.clock.advance(FENCE)


@pytest.mark.parametrize("lose", [refused, unanswered])
def test_a_lost_lease_kills_the_task_at_once(lose: Callable[[TaskHouse], None]) -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        lose(house)
        return never_stops(side)

    house = TaskHouse(script)
    house.slot.step()
    assert len(house.children) == 1
    end = house.children[0].ended()
    assert end is not None
    assert end.signal == 9


def test_a_refused_call_kills_the_task() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        call(side, "state")
        return never_stops(side)

    house = TaskHouse(script)
    house.memory.faults.append(LeaseLostError(item_id=house.uid, epoch=3))
    house.slot.step()
    assert len(house.children) == 1
    end = house.children[0].ended()
    assert end is not None
    assert end.signal == 9


@pytest.mark.parametrize("frame", [b"{", b'{"type": "hello"}', b'{"type": "call", "id": 1}'])
def test_a_broken_frame_kills_the_task(frame: bytes) -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        side.send_raw(frame)
        return never_stops(side)

    house = TaskHouse(script)
    house.work()
    assert house.last.error_code == "TASK_CRASHED"
    assert len(house.children) == 2
