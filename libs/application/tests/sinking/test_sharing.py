"""Slots of one process and the tasks of two tenants, more than slots."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import count

import pytest

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.outside import Wake
from datarecs_application.ports.sink_leases import SINK_LEASE, SinkLease
from datarecs_application.sinking.renewals import TaskRenewals
from datarecs_application.sinking.sharing import SlotSharing
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.checkpoint import TaskWish
from datarecs_core.sink.declared import SinkWish
from datarecs_core.values import TenantId
from datarecs_memory.sink_leases import MemorySinkLeases
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.clock import Latch
from datarecs_testing.builders import A_TENANT, B_TENANT, a_resource
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics


class LastPause(ManualClock):
    """The process ends during the first pause."""

    def wait(self, duration: timedelta, *, until: Wake | None = None) -> bool:  # noqa: ARG002  the port's
        assert until is not None
        until.set()
        return True


class Slots:
    """The slots of a process over the store in memory; a task runs until its lease ends."""

    def __init__(self, slots: int) -> None:
        self.clock = ManualClock(by_itself=True)
        self.store = MemoryStore(self.clock, FixedIds())
        self.leases = MemorySinkLeases(self.store)
        self.slots, self.names = slots, count()
        self.renewals = TaskRenewals(
            leases=self.leases, clock=self.clock, metrics=RecordedMetrics(), wake=Latch()
        )
        self.sharing = SlotSharing(
            leases=self.leases,
            renewals=self.renewals,
            executor="w",
            slots=slots,
            clock=self.clock,
        )
        self.running: list[SinkLease] = []

    def declare(self, tenant: TenantId, tasks: int) -> None:
        with MemoryUnitOfWork(self.store).begin(tenant, feed=1) as tx:
            stored = a_resource(
                kind=Kind.SINK_TABLE,
                name=f"sink-{next(self.names)}",
                spec={},
                rv=tx.next_rv(),
                tenant_id=tenant,
            )
            tx.resources.add(stored)
            wish = SinkWish(tasks=tasks, wish=TaskWish.RUN, revision="1")
            tx.sinks.want(stored.uid, wish)

    def turn(self) -> None:
        """One step of everything that runs in the process, as the slots do it."""
        self.clock.advance(SINK_LEASE / 3)
        self.renewals.beat()
        self.sharing.step()
        for lease in [one for one in self.running if self.renewals.standing(one).ends]:
            self.running.remove(lease)
            self.renewals.drop(lease)
            self.leases.release(lease)
        while len(self.running) < self.slots and self._begin():
            pass

    def _begin(self) -> bool:
        now = self.clock.monotonic()
        lease = self.sharing.take()
        if lease is not None:
            self.running.append(lease)
            return True
        for claimed in self.leases.claim("w", limit=1):
            self.renewals.hold(claimed, confirmed_at=now)
            self.running.append(claimed)
            return True
        return False

    def counts(self) -> Mapping[TenantId, int]:
        return Counter(one.tenant_id for one in self.running)


@pytest.mark.parametrize(("slots", "most"), [(4, 2), (5, 3), (2, 1)])
def test_a_tenant_with_many_tasks_makes_room_for_another_one(slots: int, most: int) -> None:
    house = Slots(slots)
    house.declare(A_TENANT, tasks=9)
    house.turn()
    assert house.counts() == {A_TENANT: slots}
    house.turn()
    assert house.counts() == {A_TENANT: slots}
    house.declare(B_TENANT, tasks=9)
    for _ in range(20):
        house.turn()
    assert house.counts() == {A_TENANT: most, B_TENANT: slots - most}
    steady = list(house.running)
    for _ in range(5):
        house.turn()
    assert house.running == steady


def test_a_tenant_with_few_tasks_gets_all_of_them() -> None:
    house = Slots(4)
    house.declare(A_TENANT, tasks=9)
    house.turn()
    house.declare(B_TENANT, tasks=1)
    for _ in range(10):
        house.turn()
    assert house.counts() == {A_TENANT: 3, B_TENANT: 1}


def test_an_end_of_the_process_releases_what_waits_for_a_slot() -> None:
    house = Slots(2)
    house.declare(A_TENANT, tasks=2)
    house.turn()
    house.declare(B_TENANT, tasks=1)
    house.sharing.clock = LastPause(house.clock.now())
    house.sharing.run(Latch())
    (free,) = house.leases.claim("w-2", limit=1)
    assert free.tenant_id == B_TENANT


def test_a_store_that_does_not_answer_ends_no_task() -> None:
    house = Slots(2)
    house.declare(A_TENANT, tasks=2)
    house.turn()

    class Busy(MemorySinkLeases):
        def claim(self, executor: str, *, limit: int) -> Sequence[SinkLease]:  # noqa: ARG002  the port's
            raise StoreUnavailableError(cause="it restarts")

    house.sharing.leases = Busy(house.store)
    house.sharing.step()
    assert not any(house.renewals.standing(one).ends for one in house.running)
    assert house.sharing.take() is None
