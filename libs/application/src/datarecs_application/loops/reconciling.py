"""Reconcile due objects, four at a time: a hanging one delays no other and loses its lease."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from datarecs_application.controllers import (
    Controller,
    Decided,
    Observed,
    decide,
    idle_decision,
    read_claimed,
    reconcile_with,
    record,
    timed_out,
)
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.outside import Metrics, Wake
from datarecs_application.ports.reconciling import ClaimedResource
from datarecs_application.ports.state import UnitOfWork, WorkFinder
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.resources.reconciling import Pace, Result
from datarecs_core.resources.refusals import WriteConflictError
from datarecs_core.resources.resource import Kind

log = structlog.get_logger()

CONCURRENCY = 4
TIMEOUT = timedelta(seconds=60)
"""Shorter than a lease, so that no lease is renewed."""
MOST_HANGING = 12
"""Threads of timed-out reconciles that still run; with more, nothing new is claimed."""
RECORD_TRIES = 5
GAUGES_EVERY = timedelta(seconds=10)
ADOPT_EVERY = timedelta(hours=1)
DRAIN = timedelta(seconds=5)


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """One reconcile in its thread."""

    claim: ClaimedResource
    started: float
    thread: threading.Thread | None = None
    is_over: bool = False


@dataclass(slots=True, kw_only=True)
class Reconciling:
    """A loop; any number of processes may run it at once."""

    unit: UnitOfWork
    finder: WorkFinder
    controllers: Mapping[Kind, Controller]
    metrics: Metrics
    rhythm: Rhythm
    fraction: Callable[[], float]
    """Uniform in [0, 1), spreads delays after errors."""
    timeout: timedelta = TIMEOUT
    _active: list[_Attempt] = field(default_factory=list)
    _hanging: list[_Attempt] = field(default_factory=list)
    _gauged: float | None = None
    _adopted: float | None = None

    @property
    def name(self) -> str:
        return "controllers"

    def run(self, stop: Wake) -> None:
        self.rhythm.repeat(self.step, stop, loop=self.name)
        self.drain()

    def step(self) -> int:
        """Start what is due, end what hangs; the number of both."""
        ended = self._ended()
        self._hanging = [one for one in self._hanging if not one.is_over]
        free = CONCURRENCY - len(self._active)
        if len(self._hanging) >= MOST_HANGING or not free:
            return ended
        self._adopt()
        claims = self.finder.claim_resources(self.controllers.keys(), free)
        for claim in claims:
            self._start(claim)
        self._report_backlog()
        return ended + len(claims)

    def drain(self) -> None:
        """Wait at most 5 s for reconciles; the leases of others run out."""
        ends = self.rhythm.clock.monotonic() + DRAIN.total_seconds()
        for attempt in self._active:
            if attempt.thread is not None:
                attempt.thread.join(max(ends - self.rhythm.clock.monotonic(), 0.0))

    def _ended(self) -> int:
        """Forget what has ended, and record a timeout of what hangs."""
        over = [one for one in self._active if one.is_over]
        now = self.rhythm.clock.monotonic()
        late = [
            one
            for one in self._active
            if not one.is_over and now - one.started >= self.timeout.total_seconds()
        ]
        self._active = [one for one in self._active if one not in over and one not in late]
        for attempt in late:
            self._hanging.append(attempt)
            self._time_out(attempt)
        return len(over) + len(late)

    def _start(self, claim: ClaimedResource) -> None:
        attempt = _Attempt(claim=claim, started=self.rhythm.clock.monotonic())
        attempt.thread = threading.Thread(
            target=self._work, args=(attempt,), name=f"reconcile-{claim.kind}", daemon=True
        )
        self._active.append(attempt)
        attempt.thread.start()

    def _work(self, attempt: _Attempt) -> None:
        """One reconcile; its thread never raises, because the lease runs out by itself."""
        claim = attempt.claim
        with structlog.contextvars.bound_contextvars(
            tenant_id=str(claim.tenant_id), resource_uid=str(claim.uid), lease_epoch=claim.epoch
        ):
            try:
                crash_point(CrashPoint.RECONCILE_AFTER_CLAIM)
                self._reconcile(attempt)
            except (StoreUnavailableError, StoreBusyError) as cause:
                log.warning("reconcile_repeats", code=cause.code.name)
            except Exception:  # a defect of one object must not stop the others
                log.exception("reconcile_lost")
            finally:
                attempt.is_over = True
                self.rhythm.wake.set()

    def _reconcile(self, attempt: _Attempt) -> None:
        claim, controller = attempt.claim, self.controllers[attempt.claim.kind]
        observed = read_claimed(self.unit, claim)
        if observed is None:
            return
        idle = idle_decision(controller, observed)
        if idle is not None:
            self._record(attempt, observed, idle)
            return
        result = reconcile_with(controller, observed.resource)
        crash_point(CrashPoint.RECONCILE_BEFORE_TX)
        self._finish(attempt, observed, result)

    def _finish(self, attempt: _Attempt, observed: Observed, result: Result) -> None:
        decided = decide(
            observed,
            result,
            Pace(fraction=self.fraction(), resync=self.controllers[attempt.claim.kind].resync),
        )
        self._record(attempt, observed, decided)

    def _record(self, attempt: _Attempt, observed: Observed, decided: Decided) -> None:
        claim = attempt.claim
        if not self._recorded(claim, observed, decided):
            log.warning("reconcile_overtaken")
            self.metrics.count("stale_epoch_total", queue="resources")
            return
        crash_point(CrashPoint.RECONCILE_AFTER_COMMIT)
        if decided.ended is None:
            return
        kind = claim.kind.value
        seconds = self.rhythm.clock.monotonic() - attempt.started
        self.metrics.count("reconcile_total", kind=kind, result=decided.ended.value)
        self.metrics.observe("reconcile_seconds", seconds, kind=kind)
        log.info("reconciled", kind=kind, result=decided.ended.value)

    def _recorded(self, claim: ClaimedResource, observed: Observed, decided: Decided) -> bool:
        for _ in range(RECORD_TRIES - 1):
            try:
                return record(self.unit, claim, observed, decided)
            except (StoreBusyError, WriteConflictError):
                continue
        return record(self.unit, claim, observed, decided)

    def _time_out(self, attempt: _Attempt) -> None:
        """Release the lease with a timeout; the thread's late result then changes nothing."""
        claim = attempt.claim
        log.warning("reconcile_timed_out", kind=claim.kind.value, resource_uid=str(claim.uid))
        observed = read_claimed(self.unit, claim)
        if observed is not None:
            self._finish(attempt, observed, timed_out(self.timeout))

    def _adopt(self) -> None:
        """Objects that another release has stored have no row of work."""
        now = self.rhythm.clock.monotonic()
        if self._adopted is None or now - self._adopted >= ADOPT_EVERY.total_seconds():
            self._adopted = now
            adopted = self.finder.adopt_resources(self.controllers.keys())
            if adopted:
                log.info("objects_adopted", count=adopted)

    def _report_backlog(self) -> None:
        now = self.rhythm.clock.monotonic()
        if self._gauged is not None and now - self._gauged < GAUGES_EVERY.total_seconds():
            return
        self._gauged = now
        backlog = {one.kind: one for one in self.finder.resource_backlog()}
        for kind in self.controllers:
            due = backlog.get(kind)
            oldest = 0.0 if due is None else due.oldest_seconds
            self.metrics.gauge("reconcile_queue_depth", due.due if due else 0, kind=kind.value)
            self.metrics.gauge("reconcile_oldest_due_seconds", oldest, kind=kind.value)
