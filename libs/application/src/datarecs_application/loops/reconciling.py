"""Reconcile due objects in batches: one that fails or hangs delays no other one."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby
from typing import Any

import structlog

from datarecs_application.controllers import (
    Controller,
    Decided,
    Observed,
    Outcome,
    Snapshot,
    decide,
    idle_decision,
    read_claimed,
    reconcile_with,
    record,
    snapshot,
    timed_out,
)
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.outside import Metrics, Wake
from datarecs_application.ports.reconciling import RESOURCE_LEASE, ClaimedResource
from datarecs_application.ports.state import UnitOfWork, WorkFinder
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.resources.reconciling import Ended, Pace
from datarecs_core.resources.refusals import WriteConflictError
from datarecs_core.resources.resource import Kind
from datarecs_core.values import ResourceUid, TenantId

log = structlog.get_logger()

CONCURRENCY = 4
"""Batches at a time, each in its thread."""
BATCH = 50
TIMEOUT = timedelta(seconds=60)
SLOW = timedelta(seconds=1)
"""After this time an object continues alone, and the others of its batch in another thread."""
RENEW_EVERY = RESOURCE_LEASE / 3
MOST_HANGING = 12
"""Threads of timed-out reconciles that still run; with more, nothing new is claimed."""
RECORD_TRIES = 5
GAUGES_EVERY = timedelta(seconds=10)
ADOPT_EVERY = timedelta(hours=1)
DRAIN = timedelta(seconds=5)


@dataclass(slots=True, kw_only=True)
class _Batch:
    """Claimed objects in one thread, one after the other; tenant after tenant."""

    claims: Sequence[ClaimedResource]
    """Whose leases are renewed."""
    waiting: list[ClaimedResource]
    outcomes: list[Outcome] = field(default_factory=list)
    current: ClaimedResource | None = None
    started: float = 0.0
    """When the current one began."""
    is_single: bool = False
    """After a defect each object is read alone."""
    is_over: bool = False
    thread: threading.Thread | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def upcoming(self) -> list[ClaimedResource]:
        """The next ones of one tenant."""
        with self.lock:
            first = self.waiting[:1]
            if self.is_single:
                return first
            return [one for one in self.waiting if one.tenant_id == first[0].tenant_id]

    def begin(self, now: float) -> ClaimedResource | None:
        """The next one, which is now the current one; None after a split."""
        with self.lock:
            self.current = self.waiting.pop(0) if self.waiting else None
            self.started = now
            return self.current

    def at_work(self) -> tuple[ClaimedResource | None, float]:
        """The current one and when it began: both of the same object."""
        with self.lock:
            return self.current, self.started

    def end(self, outcome: Outcome | None) -> None:
        """Of the current one; None if it is gone."""
        with self.lock:
            self.current = None
            self.outcomes += [] if outcome is None else [outcome]

    def take_outcomes(self) -> list[Outcome]:
        with self.lock:
            taken, self.outcomes = self.outcomes, []
            return taken

    def split(self) -> "_Batch | None":
        """All but the current one, which continues alone; None if there are no others."""
        with self.lock:
            if self.current is None or not (self.waiting or self.outcomes):
                return None
            others = [*self.waiting, *(one.claim for one in self.outcomes)]
            rest = _Batch(claims=others, waiting=self.waiting, outcomes=self.outcomes)
            self.claims, self.waiting, self.outcomes = (self.current,), [], []
            return rest


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
    _active: list[_Batch] = field(default_factory=list)
    _hanging: list[_Batch] = field(default_factory=list)
    _renewed: float = 0.0
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
        self._renew()
        self._hanging = [one for one in self._hanging if not one.is_over]
        if len(self._hanging) >= MOST_HANGING or len(self._active) >= CONCURRENCY:
            return ended
        self._adopt()
        claims = self.finder.claim_resources(self.controllers.keys(), BATCH)
        if claims:
            self._start(_Batch(claims=claims, waiting=sorted(claims, key=_tenant_of)))
        self._report_backlog()
        return ended + len(claims)

    def drain(self) -> None:
        """Wait at most 5 s for reconciles; the leases of others run out."""
        ends = self.rhythm.clock.monotonic() + DRAIN.total_seconds()
        for batch in self._active:
            if batch.thread is not None:
                batch.thread.join(max(ends - self.rhythm.clock.monotonic(), 0.0))

    def _renew(self) -> None:
        """Leases of batches; this loop never waits for a reconcile."""
        now = self.rhythm.clock.monotonic()
        claims = sorted((one for batch in self._active for one in batch.claims), key=_tenant_of)
        if not claims or now - self._renewed < RENEW_EVERY.total_seconds():
            return
        self._renewed = now
        for tenant, leased in groupby(claims, key=_tenant_of):
            with self.unit.begin(tenant) as tx:
                tx.resource_work.renew(list(leased))

    def _ended(self) -> int:
        """Forget what has ended, part what is slow, and record a timeout of what hangs."""
        now, before = self.rhythm.clock.monotonic(), self._active
        self._active = [one for one in before if not one.is_over]
        ended = len(before) - len(self._active)
        for batch in list(self._active):
            claim, began = batch.at_work()
            lasts = timedelta(seconds=now - began)
            if claim is not None and lasts >= SLOW:
                self._part(batch)
            if claim is not None and lasts >= self.timeout:
                self._active.remove(batch)
                self._hanging.append(batch)
                self._time_out(claim)
                ended += 1
        return ended

    def _part(self, batch: _Batch) -> None:
        """Start a thread for the others, unless too many objects hang."""
        if len(self._active) + len(self._hanging) < CONCURRENCY + MOST_HANGING:
            rest = batch.split()
            if rest is not None:
                self._start(rest)

    def _start(self, batch: _Batch) -> None:
        batch.thread = threading.Thread(
            target=self._work, args=(batch,), name="reconcile-batch", daemon=True
        )
        self._active.append(batch)
        batch.thread.start()

    def _work(self, batch: _Batch) -> None:
        """One batch; its thread never raises, because the leases run out by themselves."""
        try:
            while batch.waiting:
                self._reconcile(batch)
            by_tenant = groupby(batch.take_outcomes(), key=lambda one: one.claim.tenant_id)
            for _, outcomes in by_tenant:
                self._record_all(list(outcomes))
        except (StoreUnavailableError, StoreBusyError) as cause:
            log.warning("reconcile_repeats", code=cause.code.name)
        finally:
            batch.is_over = True
            self.rhythm.wake.set()

    def _reconcile(self, batch: _Batch) -> None:
        """The next objects of one tenant; a defect stops no other one."""
        claims = batch.upcoming()
        if not claims:
            return
        try:
            with self.unit.begin(claims[0].tenant_id, read_only=True) as tx:
                self._decide(batch, len(claims), snapshot(tx, claims))
        except (StoreUnavailableError, StoreBusyError):
            raise
        except Exception:  # a defect of one object must not stop the others
            log.exception("reconcile_lost", resource_uid=str(claims[0].uid))
            if batch.is_single and batch.current is None:
                batch.begin(self.rhythm.clock.monotonic())
            batch.end(None)
            batch.is_single = True

    def _decide(self, batch: _Batch, count: int, seen: Snapshot) -> None:
        """The objects of the snapshot; after a failure it is over, with its transaction."""
        for _ in range(count):
            began = self.rhythm.clock.monotonic()
            claim = batch.begin(began)
            if claim is None:
                return
            with _bound(claim):
                crash_point(CrashPoint.RECONCILE_AFTER_CLAIM)
                observed = seen.observed.get(claim.uid)
                decided = None if observed is None else self._decided(claim, seen, observed)
            if observed is None or decided is None:
                batch.end(None)
                continue
            outcome = Outcome(claim=claim, observed=observed, decided=decided, began=began)
            batch.end(outcome)
            if decided.ended in {Ended.ERROR, Ended.CONFLICT}:
                return

    def _decided(self, claim: ClaimedResource, seen: Snapshot, observed: Observed) -> Decided:
        controller = self.controllers[claim.kind]
        idle = idle_decision(controller, observed)
        if idle is not None:
            return idle
        result = reconcile_with(controller, seen, observed.resource)
        crash_point(CrashPoint.RECONCILE_BEFORE_TX)
        return decide(observed, result, self._pace(claim.kind))

    def _pace(self, kind: Kind) -> Pace:
        return Pace(fraction=self.fraction(), resync=self.controllers[kind].resync)

    def _record_all(self, outcomes: Sequence[Outcome]) -> None:
        """In one transaction those that change nothing, and each of the others in its own."""
        unchanged = [one for one in outcomes if one.changes_nothing]
        if unchanged:
            self._record(unchanged)
        for one in outcomes:
            if not one.changes_nothing:
                self._record([one])

    def _record(self, outcomes: Sequence[Outcome]) -> None:
        try:
            recorded = self._recorded(outcomes)
        except (StoreUnavailableError, StoreBusyError):
            raise
        except Exception:  # as above
            if len(outcomes) == 1:
                log.exception("reconcile_lost", resource_uid=str(outcomes[0].claim.uid))
            for one in outcomes if len(outcomes) > 1 else ():
                self._record([one])
            return
        for one in outcomes:
            with _bound(one.claim):
                self._report(one, is_recorded=one.claim.uid in recorded)

    def _report(self, one: Outcome, *, is_recorded: bool) -> None:
        if not is_recorded:
            log.warning("reconcile_overtaken")
            self.metrics.count("stale_epoch_total", queue="resources")
            return
        crash_point(CrashPoint.RECONCILE_AFTER_COMMIT)
        ended = one.decided.ended
        if ended is None:
            return
        kind, seconds = one.claim.kind.value, self.rhythm.clock.monotonic() - one.began
        self.metrics.count("reconcile_total", kind=kind, result=ended.value)
        self.metrics.observe("reconcile_seconds", seconds, kind=kind)
        log.info("reconciled", kind=kind, result=ended.value)

    def _recorded(self, outcomes: Sequence[Outcome]) -> Collection[ResourceUid]:
        for _ in range(RECORD_TRIES - 1):
            try:
                return record(self.unit, outcomes)
            except (StoreBusyError, WriteConflictError):
                continue
        return record(self.unit, outcomes)

    def _time_out(self, claim: ClaimedResource) -> None:
        """Release the lease with a timeout; the thread's late result then changes nothing."""
        log.warning("reconcile_timed_out", kind=claim.kind.value, resource_uid=str(claim.uid))
        observed = read_claimed(self.unit, claim)
        if observed is not None:
            decided = decide(observed, timed_out(self.timeout), self._pace(claim.kind))
            began = self.rhythm.clock.monotonic() - self.timeout.total_seconds()
            self._record([Outcome(claim=claim, observed=observed, decided=decided, began=began)])

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


def _tenant_of(claim: ClaimedResource) -> TenantId:
    return claim.tenant_id


def _bound(claim: ClaimedResource) -> Any:  # noqa: ANN401  structlog's context manager
    """Log lines name the object."""
    return structlog.contextvars.bound_contextvars(
        tenant_id=str(claim.tenant_id), resource_uid=str(claim.uid), lease_epoch=claim.epoch
    )
