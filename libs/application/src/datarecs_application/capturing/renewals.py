"""Renew the leases of all work items of a process, on a thread and connection no work can block.

An item that was not confirmed in time counts as lost even while the database cannot be reached:
the worker ends its work before another one can begin it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import Lock

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.capturing import CaptureControl, Renewed
from datarecs_application.ports.outside import Clock, Metrics, Wake
from datarecs_core.captures.items import HEARTBEAT, LEASE, WorkToken

log = structlog.get_logger()

FENCE = LEASE - max(timedelta(seconds=1), LEASE / 6)
"""Without a confirmation for so long, an item is given up: earlier than it expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkStanding:
    """The state of one lease."""

    confirmed_at: float
    """Monotonic seconds before the last request that the database confirmed."""
    is_refused: bool = False
    cancel_requested: bool = False

    def is_lost(self, now: float) -> bool:
        """The lease is another worker's, or may be soon."""
        return self.is_refused or now - self.confirmed_at >= FENCE.total_seconds()


@dataclass(slots=True, kw_only=True)
class WorkRenewals:
    """A loop; its control uses a separate database connection."""

    control: CaptureControl
    clock: Clock
    metrics: Metrics
    wake: Wake
    """Set when a capture is cancelled, and when the process ends."""
    _held: dict[WorkToken, WorkStanding] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    @property
    def name(self) -> str:
        return "renewals"

    def hold(self, token: WorkToken, *, confirmed_at: float) -> None:
        """Begin to renew; the claim was the first confirmation."""
        with self._lock:
            self._held[token] = WorkStanding(confirmed_at=confirmed_at)

    def drop(self, token: WorkToken) -> None:
        """Stop renewing; safe to repeat."""
        with self._lock:
            self._held.pop(token, None)

    def standing(self, token: WorkToken) -> WorkStanding:
        """Raises KeyError for an item that is not held."""
        with self._lock:
            return self._held[token]

    def run(self, stop: Wake) -> None:
        while not stop.is_set() or self._held:
            self.wake.clear()
            self.beat()
            # At stop, leases are renewed until their slots have ended or released them.
            self.clock.wait(HEARTBEAT if not stop.is_set() else HEARTBEAT / 10, until=self.wake)

    def beat(self) -> None:
        """One renewal of everything held."""
        with self._lock:
            tokens = [token for token, one in self._held.items() if not one.is_refused]
        if not tokens:
            return
        sent_at = self.clock.monotonic()
        try:
            answers = self.control.renew(tokens)
        except (StoreUnavailableError, StoreBusyError) as cause:
            log.warning("renewal_unanswered", code=cause.code.name, leases=len(tokens))
            return
        self.metrics.observe("lease_renew_seconds", self.clock.monotonic() - sent_at)
        self._note(answers, sent_at)

    def _note(self, answers: Mapping[WorkToken, Renewed], sent_at: float) -> None:
        with self._lock:
            for token, answer in answers.items():
                before = self._held.get(token)
                if before is None:
                    continue
                if answer.is_current:
                    self._held[token] = replace(
                        before, confirmed_at=sent_at, cancel_requested=answer.cancel_requested
                    )
                else:
                    self._held[token] = replace(before, is_refused=True)
