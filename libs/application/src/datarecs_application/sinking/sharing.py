"""Share the slots of a process between tenants while a task of another one waits.

A task runs for as long as its sink is declared, so a slot is never free by itself: without this, a
tenant that came first would have all of them for good.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.outside import Clock, Wake
from datarecs_application.ports.sink_leases import SinkLease, SinkLeases
from datarecs_application.sinking.backoffs import release_lease
from datarecs_application.sinking.renewals import TaskRenewals

log = structlog.get_logger()

SHARED_EVERY = timedelta(seconds=15)
"""How often a process without a free slot checks whether another tenant waits."""


@dataclass(slots=True, kw_only=True)
class SlotSharing:
    """A loop; `take` is for the slots of the same process."""

    leases: SinkLeases
    renewals: TaskRenewals
    executor: str
    slots: int
    """Of the process."""
    clock: Clock
    paused: Callable[[], Collection[SinkLease]] = tuple
    """Leases of tasks that wait after a fault: they have no slot."""
    name: str = "sharing"
    _waiting: deque[SinkLease] = field(default_factory=deque, init=False)
    """Claimed for the next slot that is free."""

    def run(self, stop: Wake) -> None:
        while not stop.is_set():
            self.clock.wait(SHARED_EVERY, until=stop)
            self.step()
        while (lease := self.take()) is not None:
            self.renewals.drop(lease)
            release_lease(self.leases, lease)

    def take(self) -> SinkLease | None:
        """A lease that is held and renewed already."""
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def step(self) -> None:
        """End a task of a tenant with more than half of the slots, if another tenant waits."""
        paused = self.paused()
        held = [lease for lease in self.renewals.held() if lease not in paused]
        crowding = _crowding(held, self.slots)
        if crowding is None or len(held) < self.slots or self._waiting:
            return
        sent_at = self.clock.monotonic()
        try:
            claimed = self.leases.claim(self.executor, limit=1)
        except (StoreUnavailableError, StoreBusyError) as cause:
            log.warning("sink_slots_not_shared", code=cause.code.name)
            return
        for lease in claimed:
            if lease.tenant_id == crowding.tenant_id:
                release_lease(self.leases, lease)
                continue
            log.info("sink_slot_shared", tenant_id=str(lease.tenant_id))
            self.renewals.hold(lease, confirmed_at=sent_at)
            self._waiting.append(lease)
            self.renewals.end(crowding)


def _crowding(held: Collection[SinkLease], slots: int) -> SinkLease | None:
    """The newest lease of the tenant with more than half of the slots; None: no tenant has."""
    counts = Counter(lease.tenant_id for lease in held)
    many = {tenant for tenant, count in counts.items() if count > (slots + 1) // 2}
    crowding = (lease for lease in held if lease.tenant_id in many)
    return max(crowding, key=lambda lease: lease.epoch, default=None)
