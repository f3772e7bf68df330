"""Renew the leases of all tasks of a process, on a thread and connection no task can block.

A lease that was not confirmed in time counts as lost even while the database cannot be reached: the
process ends its task before another one can begin it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import Lock

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.outside import Clock, Metrics, Wake
from datarecs_application.ports.sink_leases import (
    ENDS,
    SINK_HEARTBEAT,
    SINK_LEASE,
    SinkLease,
    SinkLeases,
)

log = structlog.get_logger()

FENCE = SINK_LEASE - timedelta(seconds=5)
"""Without a confirmation for so long, a task is ended: earlier than its lease expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStanding:
    """The state of one lease."""

    confirmed_at: float
    """Monotonic seconds before the last request that the database confirmed."""
    is_refused: bool = False
    revision: str | None = None
    """As it is wished; None before the first renewal; `ENDS`: the task is begun again."""
    is_yielded: bool = False
    """Its slot is for a task of another tenant."""

    @property
    def ends(self) -> bool:
        """The process shall stop and the lease be released."""
        return self.is_yielded or self.revision == ENDS

    def is_lost(self, now: float) -> bool:
        """The lease is another process's, or may be soon."""
        return self.is_refused or now - self.confirmed_at >= FENCE.total_seconds()


@dataclass(slots=True, kw_only=True)
class TaskRenewals:
    """A loop; its leases use a separate database connection."""

    leases: SinkLeases
    clock: Clock
    metrics: Metrics
    wake: Wake
    """Set when what is wished of a sink changes, and when the process ends."""
    name: str = "renewals"
    _held: dict[SinkLease, TaskStanding] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def hold(self, lease: SinkLease, *, confirmed_at: float) -> None:
        """Begin to renew; the claim was the first confirmation."""
        with self._lock:
            self._held[lease] = TaskStanding(confirmed_at=confirmed_at)

    def drop(self, lease: SinkLease) -> None:
        """Stop renewing; safe to repeat."""
        with self._lock:
            self._held.pop(lease, None)

    def standing(self, lease: SinkLease) -> TaskStanding:
        """Raises KeyError for a lease that is not held."""
        with self._lock:
            return self._held[lease]

    def held(self) -> tuple[SinkLease, ...]:
        """Leases that nobody has ended."""
        with self._lock:
            return tuple(lease for lease, one in self._held.items() if not one.ends)

    def end(self, lease: SinkLease) -> None:
        """Let its slot stop the task and release the lease; nothing happens if it is dropped."""
        with self._lock:
            if lease in self._held:
                self._held[lease] = replace(self._held[lease], is_yielded=True)

    def run(self, stop: Wake) -> None:
        while not stop.is_set() or self._held:
            self.wake.clear()
            self.beat()
            # At stop, leases are renewed until their tasks have ended.
            pause = SINK_HEARTBEAT if not stop.is_set() else SINK_HEARTBEAT / 10
            self.clock.wait(pause, until=self.wake)

    def beat(self) -> None:
        """One renewal of everything held."""
        with self._lock:
            held = [lease for lease, one in self._held.items() if not one.is_refused]
        if not held:
            return
        sent_at = self.clock.monotonic()
        try:
            revisions = self.leases.renew(held)
        except (StoreUnavailableError, StoreBusyError) as cause:
            log.warning("renewal_unanswered", code=cause.code.name, leases=len(held))
            return
        self.metrics.observe("lease_renew_seconds", self.clock.monotonic() - sent_at)
        self._note(held, revisions, sent_at)

    def _note(
        self, renewed: list[SinkLease], revisions: Mapping[SinkLease, str], sent_at: float
    ) -> None:
        with self._lock:
            for lease in renewed:
                before = self._held.get(lease)
                if before is None:
                    continue
                if lease in revisions:
                    self._held[lease] = replace(
                        before, confirmed_at=sent_at, revision=revisions[lease]
                    )
                else:
                    self._held[lease] = replace(before, is_refused=True)
