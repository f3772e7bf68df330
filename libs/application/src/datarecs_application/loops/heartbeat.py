"""Renew all leases this process holds, on a thread and connection the work cannot block.

The result of a renewal is stored per lease for the supervisor: whether the epoch is still the
current one, whether the run should stop, and when the database last confirmed it. A lease that was
not confirmed in time counts as lost even while the database cannot be reached (self-fencing).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import Lock

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.outside import Clock, Metrics, Wake
from datarecs_application.ports.state import HeldLease, LeasedRun, Renewal, WorkFinder
from datarecs_core.values import RunId

log = structlog.get_logger()

MARGIN = timedelta(seconds=10)
"""A lease is given up this long before it could end in the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of a held lease."""

    lease: HeldLease
    ttl: timedelta
    confirmed_at: float
    """Monotonic seconds of the last renewal the database confirmed, taken before the request."""
    stale: bool = False
    stop: bool = False

    def lost(self, now: float) -> bool:
        """The lease is lost, or may be lost soon."""
        margin = min(MARGIN, self.ttl / 3)
        return self.stale or now - self.confirmed_at > (self.ttl - margin).total_seconds()


@dataclass(slots=True, kw_only=True)
class Heartbeat:
    """A loop; its finder uses a separate database connection."""

    finder: WorkFinder
    clock: Clock
    metrics: Metrics
    every: timedelta
    """A third of the lease's ttl."""
    wake: Wake | None = None
    """Set when a lease may have to stop, and when the process ends."""
    _held: dict[RunId, Standing] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    @property
    def name(self) -> str:
        return "heartbeat"

    def hold(self, leased: LeasedRun) -> None:
        """Begin to renew; the grant itself was the first confirmation."""
        lease = HeldLease(
            tenant_id=leased.tenant_id, run_id=leased.run_id, lease_epoch=leased.lease_epoch
        )
        standing = Standing(lease=lease, ttl=leased.lease_ttl, confirmed_at=self.clock.monotonic())
        with self._lock:
            self._held[leased.run_id] = standing

    def drop(self, run_id: RunId) -> None:
        """Stop renewing; safe to repeat."""
        with self._lock:
            self._held.pop(run_id, None)

    def standing(self, run_id: RunId) -> Standing:
        """Raises KeyError for a run that is not held."""
        with self._lock:
            return self._held[run_id]

    def run(self, stop: Wake) -> None:
        wake = stop if self.wake is None else self.wake
        while not stop.is_set() or self._held:
            if wake is not stop:
                wake.clear()
            self.beat()
            # At stop the leases are renewed until their supervisors have released them.
            self.clock.wait(self.every if not stop.is_set() else self.every / 10, until=wake)

    def beat(self) -> None:
        """One renewal of everything held."""
        with self._lock:
            leases = [one.lease for one in self._held.values() if not one.stale]
        if not leases:
            return
        sent_at = self.clock.monotonic()
        try:
            answers = self.finder.renew(leases)
        except (StoreUnavailableError, StoreBusyError) as cause:
            log.warning("heartbeat_unanswered", code=cause.code.name, leases=len(leases))
            return
        self.metrics.observe("lease_renew_seconds", self.clock.monotonic() - sent_at)
        self._note(answers, sent_at)

    def _note(self, answers: Mapping[RunId, Renewal], sent_at: float) -> None:
        with self._lock:
            for run_id, answer in answers.items():
                before = self._held.get(run_id)
                if before is None:
                    continue
                if answer.current:
                    self._held[run_id] = replace(before, confirmed_at=sent_at, stop=answer.stop)
                else:
                    self._held[run_id] = replace(before, stale=True)
