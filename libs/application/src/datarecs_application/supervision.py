"""One leased run from outside the work: child, heartbeat, deadline, memory, end (D15).

The supervisor is the only writer. It accepts only well-formed frames from the child, stores
what the child leaves, turns result file, exit, deadline and heartbeats into `run.completed` or
`run.errored`, and writes under the epoch of its lease: a stale one changes nothing.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TypeVar

import structlog

from datarecs_application import child_frames
from datarecs_application.assignments import Prepared, Preparing, Scratch, SourceNotPinnedError
from datarecs_application.attempt_ends import (
    REFUSED,
    UNCONFIRMED,
    AttemptEnd,
    EndReporter,
    FencedError,
    LeaseReporter,
)
from datarecs_application.catalogued_sources import CatalogueReads
from datarecs_application.child_frames import BadFrameError, failure_words, outdates, read_event
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.loops import Silent, StepSignals
from datarecs_application.loops.heartbeat import Heartbeat, Standing
from datarecs_application.ports.outside import BlobStores, Clock, Ids, Metrics, Wake
from datarecs_application.ports.state import LeasedRun, UnitOfWork, WorkFinder
from datarecs_application.ports.supervising import ChildProcess
from datarecs_application.storing_artefacts import Storing
from datarecs_application.tracing import UNTRACED, Tracing, trace_id_of
from datarecs_application.warm_child import WarmChild
from datarecs_application.work_metrics import WorkMetrics
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.process import ChildStartError
from datarecs_core.errors.run import RunDetail
from datarecs_core.errors.storage import BlobStoreUnavailableError
from datarecs_core.hashing import canonical_json
from datarecs_core.runs.events import ProgressEvent, RunCompleted
from datarecs_core.runs.model import Run, RunStatus
from datarecs_core.runs.outcome import Evidence, classify
from datarecs_core.runs.result_file import (
    Attempt,
    ChildOutcome,
    NoResult,
    ReportedNode,
    ResultFile,
    read_result,
)
from datarecs_core.runs.summary import with_report_url

log = structlog.get_logger()

FEED_NUMBERS = 8
POLL = timedelta(milliseconds=200)
PING_LIMIT = timedelta(seconds=120)
CHILD_FOLLOWS_JAVA = timedelta(seconds=2)
"""How long a child may take to end after its Java process; longer than its planned shutdown."""
MOST_OUTDATED = 1000
"""Row counts skipped at once, so that a child that sends very many is still supervised."""

T = TypeVar("T")


class DrainedError(Exception):
    """The process is ending: the run goes back to the queue without using up an attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    memory_bytes: int
    """Resident memory of the child with all it started."""
    drain: timedelta
    """How long runs may continue after SIGTERM."""


@dataclass(slots=True, kw_only=True)
class Supervising:
    """A loop: one slot of a worker, one run at a time."""

    name: str
    executor: str
    """This process and slot, as stored in the lease."""
    unit: UnitOfWork
    finder: WorkFinder
    blobs: BlobStores
    """Where the artefacts of runs are stored."""
    heartbeat: Heartbeat
    preparing: Preparing
    scratch: Scratch
    child: WarmChild
    clock: Clock
    ids: Ids
    metrics: Metrics
    jitter: Callable[[], float]
    wake: Wake
    limits: Limits
    signals: StepSignals = field(default_factory=Silent)
    idle: timedelta = timedelta(seconds=1)
    tracing: Tracing = UNTRACED
    base_url: str | None = None
    """Where readers reach the platform; the report's URL starts with it."""
    reporter: EndReporter | None = None
    """Where ends are reported; None: to the database, under the lease."""
    reporting: EndReporter = field(init=False)

    def __post_init__(self) -> None:
        self.reporting = self.reporter or LeaseReporter(
            unit=self.unit, ids=self.ids, jitter=self.jitter, signals=self.signals
        )

    def run(self, stop: Wake) -> None:
        self.child.warm()
        while not stop.is_set():
            self.wake.clear()
            if not self.step(stop) and not stop.is_set():
                self.child.warm()
                self.child.glance()
                self.clock.wait(self.idle, until=self.wake)
        self.child.end()

    def step(self, stop: Wake) -> bool:
        """Lease one run and supervise it to its end; False when there is none to lease."""
        try:
            leased = self.finder.lease_run(self.executor)
        except (StoreUnavailableError, StoreBusyError) as cause:
            log.warning("lease_waits", code=cause.code.name)
            return False
        if leased is None:
            return False
        self.supervise(leased, stop)
        return True

    def supervise(self, leased: LeasedRun, stop: Wake) -> None:
        """Supervise a leased run to its end."""
        with structlog.contextvars.bound_contextvars(
            tenant_id=str(leased.tenant_id),
            run_id=str(leased.run_id),
            attempt=leased.attempt,
            lease_epoch=leased.lease_epoch,
        ):
            self._supervise(leased, stop)

    def _supervise(self, leased: LeasedRun, stop: Wake) -> None:
        self.signals.reached("lease.after_commit")
        crash_point(CrashPoint.LEASE_AFTER_COMMIT)
        self.heartbeat.hold(leased)
        try:
            _Attempt(self, leased, stop).run()
        except FencedError as fenced:
            self.metrics.count("leases_lost_total", reason=fenced.reason)
            if fenced.reason == REFUSED:
                self.metrics.count("stale_epoch_total", queue="runs")
            log.warning("lease_lost", reason=fenced.reason)
            self.child.kill()
        except DrainedError:
            self.child.kill()
            self._released(leased)
        finally:
            self.heartbeat.drop(leased.run_id)

    def _released(self, leased: LeasedRun) -> None:
        """Return the run; retried while the database is unavailable, until the lease expires."""
        while not self.heartbeat.standing(leased.run_id).lost(self.clock.monotonic()):
            try:
                return self.reporting.release(leased)
            except (StoreUnavailableError, StoreBusyError) as cause:
                log.warning("release_waits", code=cause.code.name)
                self.clock.wait(POLL * 5)
        log.warning("lease_lost")
        return None


@dataclass(slots=True)
class _Attempt:
    """One attempt, from lease to end."""

    worker: Supervising
    leased: LeasedRun
    stop: Wake
    deadline: float = field(init=False)
    last_sign: float = field(init=False)
    drain_until: float | None = None
    pins: Mapping[str, object] | None = None
    counted: WorkMetrics | None = None
    reads: CatalogueReads | None = None
    ahead: Mapping[str, object] | None = None
    """A frame that was read to check whether it replaces the one before it."""

    def __post_init__(self) -> None:
        now = self.worker.clock.monotonic()
        self.deadline = now + self.leased.remaining.total_seconds()
        self.last_sign = now

    def run(self) -> None:
        folder = self.worker.scratch.make(self.leased)
        try:
            run = self._run()
            ids = {"job_id": str(run.job_id), "trace_id": trace_id_of(run.traceparent)}
            with structlog.contextvars.bound_contextvars(**ids), self._span(run) as here:
                if self.leased.lease_epoch == 1:  # the grant itself set the run RUNNING
                    change = {"from": RunStatus.QUEUED.value, "to": RunStatus.RUNNING.value}
                    self.worker.metrics.count("run_transitions_total", 1, **change)
                log.info("attempt_started")
                evidence = self._worked(run, folder, here)
                self._end(run, evidence)
        finally:
            self.worker.scratch.remove(folder)

    def _span(self, run: Run) -> AbstractContextManager[str | None]:
        return self.worker.tracing.span(
            "run.attempt",
            parent=run.traceparent,
            run_id=str(run.run_id),
            attempt=self.leased.attempt,
            lease_epoch=self.leased.lease_epoch,
        )

    def _run(self) -> Run:
        run = self._stored(self._read)
        if run is None:
            raise FencedError(REFUSED)
        return run

    def _read(self) -> Run | None:
        with self.worker.unit.begin(self.leased.tenant_id, read_only=True) as tx:
            return tx.runs.get(self.leased.run_id)

    def _worked(self, run: Run, folder: str, here: str | None) -> Evidence:
        """Run the child and collect how it ended; `here` is the parent span."""
        try:
            with ExitStack() as held:
                child = self._send_to_child(run, folder, held, here)
                evidence = self._watched(run, child, folder)
            return self._store_artefacts(run, folder, evidence)
        except SourceNotPinnedError as failed:
            return _failed(str(failed), failed.__cause__ or failed)
        except ChildStartError as failed:
            log.warning("child_not_started", cause=str(failed))
            too_late = self.worker.clock.monotonic() >= self.deadline
            return Evidence(
                file=_NOTHING, gateway_lost=True, start_error=str(failed), deadline_fired=too_late
            )
        except (FencedError, DrainedError):
            raise
        except (BadFrameError, DatarecsError) as wrong:
            # A frame that a correct child never sends, or contradicting numbers: not emitted.
            log.warning("child_cut_off", cause=type(wrong).__name__)
            self.worker.child.kill()
            return _failed("comparison", wrong)
        except Exception as defect:  # a slot's defect ends its run, not the slot
            log.exception("attempt_failed")
            self.worker.child.kill()
            return _failed("comparison", defect)

    def _send_to_child(
        self, run: Run, folder: str, held: ExitStack, here: str | None
    ) -> ChildProcess:
        preparing, scratch = self.worker.preparing, self.worker.scratch
        prepared = self._stored(lambda: self._prepared(run))
        self.counted = WorkMetrics(prepared.job, self.worker.metrics, self.worker.clock)
        self.reads = CatalogueReads(
            unit=self.worker.unit,
            blobs=self.worker.blobs,
            clock=self.worker.clock,
            run=run,
            job=prepared.job,
        )
        self._stored(self.reads.read)
        pins = preparing.pin(prepared, held)
        frame = preparing.frame(prepared, self.leased, pins, folder=folder) | self.reads.frame()
        child = self.worker.child.ready_within(self.deadline - self.worker.clock.monotonic())
        # Not before: a worker that is killed while it waits for a child leaves no secrets.
        path = scratch.write_secret(folder, preparing.credentials(prepared))
        self.last_sign = self.worker.clock.monotonic()
        child.send(canonical_json({**frame, "credentials_file": path, "traceparent": here}))
        self.worker.signals.reached("child.started")
        crash_point(CrashPoint.CHILD_STARTED)
        return child

    def _prepared(self, run: Run) -> Prepared:
        try:
            with self.worker.unit.begin(run.tenant_id, read_only=True) as tx:
                return self.worker.preparing.read(tx, run)
        except (StoreUnavailableError, StoreBusyError):
            raise
        except Exception as error:
            raise SourceNotPinnedError(0) from error

    def _stored(self, act: Callable[[], T]) -> T:
        """Repeat while the database is unavailable, until the lease is lost."""
        while True:
            try:
                return act()
            except (StoreUnavailableError, StoreBusyError) as cause:
                standing = self.worker.heartbeat.standing(self.leased.run_id)
                if standing.lost(self.worker.clock.monotonic()):
                    raise FencedError(_lost_by(standing)) from cause
                log.warning("store_waits", code=cause.code.name)
                self.worker.clock.wait(POLL * 5)

    def _watched(self, run: Run, child: ChildProcess, folder: str) -> Evidence:
        """Relay what the child reports until it has finished or has to be stopped."""
        stopping: Evidence | None = None
        while stopping is None:
            frame = self._next_frame(child)
            if frame is not None and frame.get("type") == child_frames.JAVA_ENDED:
                return self._evidence(child, folder, _java_ended(frame))
            if frame is not None and self._handle_frame(run, frame):
                return self._evidence(child, folder, Evidence(file=_NOTHING))
            if frame is None and child.ended() is not None:
                return self._evidence(child, folder, Evidence(file=_NOTHING))
            stopping = self._reason_to_stop(child)
        self.worker.child.stop()
        return self._evidence(child, folder, stopping)

    def _next_frame(self, child: ChildProcess) -> Mapping[str, object] | None:
        """The child's next frame; of counts that queue up while the database is slow, the last."""
        frame, self.ahead = self.ahead or child.frames(POLL), None
        for _ in range(MOST_OUTDATED):
            if frame is None or frame.get("event") != "rows_processed":
                break
            self.ahead = child.frames(timedelta(0))
            if self.ahead is None or not outdates(self.ahead, frame):
                break
            frame, self.ahead = self.ahead, None
        return frame

    def _handle_frame(self, run: Run, frame: Mapping[str, object]) -> bool:
        """True for the child's last frame of this run."""
        self.last_sign = self.worker.clock.monotonic()
        match frame.get("type"):
            case child_frames.FINISHED:
                return True
            case child_frames.EVENT:
                self._record_event(read_event(run, frame))
            case child_frames.PINNED:
                pins = frame.get("pins")
                self.pins = pins if isinstance(pins, dict) else None
                if self.pins is not None and self.reads is not None:
                    self._stored(partial(self.reads.protect, self.pins))
            case child_frames.PING | child_frames.READY:
                pass
            case _:
                raise BadFrameError("a frame of an unknown type")
        return False

    def _record_event(self, event: ProgressEvent) -> None:
        """One progress frame, one transaction, under the epoch."""
        self._stored(lambda: self._append(event))
        if self.counted is not None:
            self.counted.count_event(event)

    def _append(self, event: ProgressEvent) -> None:
        with self.worker.unit.begin(self.leased.tenant_id, feed=FEED_NUMBERS) as tx:
            run = tx.runs.for_update(self.leased.run_id)
            if run is None or not self._current(tx.leases.is_current):
                raise FencedError(REFUSED)
            tx.runs.save(replace(run, last_progress_at=tx.now))
            tx.outbox.append(event, traceparent=run.traceparent)

    def _current(self, is_current: Callable[..., bool]) -> bool:
        return is_current(self.leased.run_id, self.leased.lease_epoch)

    def _store_artefacts(self, run: Run, folder: str, evidence: Evidence) -> Evidence:
        """Of a completed attempt: its evidence, or why it was stopped before all was stored."""
        if not isinstance(classify(run, evidence), RunCompleted):
            return evidence
        left = self.worker.scratch.artefacts(folder)
        storing = Storing(self.worker.blobs.of(run.tenant_id), self.worker.clock)
        return storing.store(run, left, self._stopped_from_outside) or evidence

    def _stopped_from_outside(self) -> Evidence | None:
        """Raises FencedError for a lost lease, DrainedError when the process ends."""
        now = self.worker.clock.monotonic()
        standing = self.worker.heartbeat.standing(self.leased.run_id)
        if standing.lost(now):
            raise FencedError(_lost_by(standing))
        if self._drained(now):
            raise DrainedError
        if now >= self.deadline:
            return Evidence(file=_NOTHING, stopped=True, deadline_fired=True)
        if standing.stop:
            return Evidence(file=_NOTHING, stopped=True)
        return None

    def _reason_to_stop(self, child: ChildProcess) -> Evidence | None:
        stopping = self._stopped_from_outside()
        if stopping is not None:
            return stopping
        if child.memory_bytes() > self.worker.limits.memory_bytes:
            return Evidence(file=_NOTHING, stopped=True, out_of_memory=True)
        if self.worker.clock.monotonic() - self.last_sign > PING_LIMIT.total_seconds():
            return Evidence(file=_NOTHING, stopped=True, unresponsive=True)
        return None

    def _drained(self, now: float) -> bool:
        if not self.stop.is_set():
            return False
        if self.drain_until is None:
            self.drain_until = now + self.worker.limits.drain.total_seconds()
        return now >= self.drain_until

    def _evidence(self, child: ChildProcess, folder: str, seen: Evidence) -> Evidence:
        attempt = Attempt(
            run_id=self.leased.run_id,
            attempt=self.leased.attempt,
            lease_epoch=self.leased.lease_epoch,
        )
        file = read_result(self.worker.scratch.read_result(folder), of=attempt)
        result = file if isinstance(file, ResultFile) else None
        is_clean = result is not None and result.spares_the_child and seen.jvm_exit is None
        if seen.jvm_exit is not None or (result is not None and result.jvm_exit is not None):
            # It ends by itself, unless the signal that ended Java ends it as well.
            self.worker.child.await_end(CHILD_FOLLOWS_JAVA)
        ended = child.ended()
        self.worker.child.used(clean=is_clean)
        if ended is None:
            last = child.ended()
            return replace(seen, file=file, oom_kill=last is not None and last.oom_kill)
        self.worker.metrics.count("child_exits_total", code=_exit_word(ended.exit_code))
        log.info("child_exited", exit_code=ended.exit_code, signal=ended.signal)
        return replace(
            seen,
            file=file,
            exit_code=ended.exit_code,
            signal=ended.signal,
            stopped=seen.stopped or ended.killed_by_us,
            oom_kill=ended.oom_kill,
        )

    def _end(self, run: Run, evidence: Evidence) -> None:
        """Report the end; repeated until it is stored or fenced."""
        ended = AttemptEnd(
            run=run,
            leased=self.leased,
            end=with_report_url(classify(run, evidence), self.worker.base_url),
            nodes=evidence.file.nodes if isinstance(evidence.file, ResultFile) else (),
            pins=self.pins,
            never_began=evidence.start_error is not None and not evidence.deadline_fired,
        )
        while True:
            if self.worker.heartbeat.standing(self.leased.run_id).stale:
                raise FencedError(REFUSED)
            try:
                return self.worker.reporting.report(ended)
            except (StoreUnavailableError, StoreBusyError, BlobStoreUnavailableError) as cause:
                # An expired but unreclaimed epoch still counts, so this continues past the ttl.
                log.warning("end_waits", code=cause.code.name)
                self.worker.clock.wait(POLL * 5)


def _lost_by(standing: Standing) -> str:
    return REFUSED if standing.stale else UNCONFIRMED


_NOTHING = NoResult(RunDetail.RESULT_MISSING, "the child was stopped")


def _java_ended(frame: Mapping[str, object]) -> Evidence:
    return Evidence(file=_NOTHING, jvm_exit=child_frames.Reader(frame).of("exit", int))


def _failed(node: str, error: BaseException) -> Evidence:
    """A failure of the supervisor in the form of a child's error."""
    words = failure_words(error if isinstance(error, Exception) else RuntimeError(str(error)))
    return Evidence(
        file=ResultFile(
            outcome=ChildOutcome.ERRORED,
            result=None,
            nodes=(
                ReportedNode(
                    name=node,
                    code=str(words["code"]),
                    detail_code=str(words["detail_code"]),
                    message=str(words["message"]),
                ),
            ),
            summary=None,
            pins=None,
            jvm_exit=None,
        )
    )


def _exit_word(code: int | None) -> str:
    return "signal" if code is None else str(code)
