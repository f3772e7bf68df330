"""The slots of a capture-worker: claim an item, do its work in a child, report how it ended.

A slot decides nothing about captures: what an outcome means is decided by the control plane. Here
is decided which kinds a slot takes, and how long a report is repeated.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TypeVar

import structlog

from datarecs_application.capturing.child_work import ChildOutcome, ChildWork, WorkWatch
from datarecs_application.capturing.renewals import WorkRenewals, WorkStanding
from datarecs_application.capturing.reported_work import (
    MOST_TEXT,
    BadReportError,
    crashed,
    read_sidecars,
)
from datarecs_application.capturing.source_work import SourceOutcome
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.loops.polling import FIRST_PAUSE, Rhythm
from datarecs_application.ports.capturing import Assignment, CaptureControl, ClaimRequest
from datarecs_application.ports.outside import Metrics, Wake
from datarecs_application.source_secrets import one_line
from datarecs_core.captures.items import RetryClass, WorkKind, WorkToken
from datarecs_core.captures.outcomes import (
    Finalize,
    Outcome,
    WorkFailed,
    WorkReleased,
    WorkStopped,
)
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.errors.captures import (
    CaptureCode,
    CaptureNotFoundError,
    LeaseLostError,
    OutcomeRefusedError,
)
from datarecs_core.errors.catalogue import CatalogueBusyError
from datarecs_core.errors.storage import BlobStoreUnavailableError

log = structlog.get_logger()

LONGEST_PAUSE = timedelta(seconds=5)
T = TypeVar("T")
_TRANSIENT = (
    StoreUnavailableError,
    StoreBusyError,
    CatalogueBusyError,
    BlobStoreUnavailableError,
)
"""Of the platform: the same report succeeds later."""
_OUTSIDE = (WorkFailed, WorkReleased, WorkStopped)


def kinds_of_slots(enabled: Collection[WorkKind], *, slots: int) -> list[frozenset[WorkKind]]:
    """The kinds that each slot claims.

    The first of two or more slots takes no group of files, so that planners are not blocked by
    thousands of them. If nothing else is enabled, there is nothing to wait for it.

    Args:
        enabled: kinds of this worker; none of them: no slot claims anything.
        slots: how many.
    """
    kinds = frozenset(enabled)
    if not kinds:
        return []
    reserved = kinds - {WorkKind.EXEC_FILE_GROUP} or kinds
    return [reserved if slot == 0 and slots > 1 else kinds for slot in range(slots)]


@dataclass(slots=True, kw_only=True)
class WorkSlot:
    """A loop; each has one child at a time."""

    name: str
    control: CaptureControl
    renewals: WorkRenewals
    request: ClaimRequest
    """Names at least one kind: without any it would claim every kind."""
    child: ChildWork
    metrics: Metrics
    rhythm: Rhythm
    _stop: Wake = field(init=False)

    def use(self, stop: Wake) -> None:
        """Release running work when it is set."""
        self._stop = stop

    def run(self, stop: Wake) -> None:
        self.use(stop)
        self.rhythm.repeat(self.step, stop, loop=self.name)

    def step(self) -> int:
        """Claim and end at most one item; how many there were."""
        clock = self.rhythm.clock
        sent_at = clock.monotonic()
        claims = self.control.claim(self.request)
        self.metrics.observe("queue_claim_seconds", clock.monotonic() - sent_at)
        result = "leased" if claims.tokens else "empty"
        self.metrics.count("queue_claims_total", result=result)
        for token in claims.tokens:
            self.renewals.hold(token, confirmed_at=sent_at)
        for token in claims.tokens:
            self._work(token)
        return len(claims.tokens)

    def _work(self, token: WorkToken) -> None:
        crash_point(CrashPoint.CAPTURE_AFTER_CLAIM)
        with structlog.contextvars.bound_contextvars(
            tenant_id=str(token.tenant_id), job_id=str(token.item_id), lease_epoch=token.epoch
        ):
            try:
                self._begin(token)
            except LeaseLostError:
                self.metrics.count("stale_epoch_total", queue="capture")
                log.warning("capture_lease_lost")
            except _TRANSIENT as cause:
                log.warning("capture_not_reported", code=cause.code.name)
            except Exception:  # a defect is the problem of this item, and its lease expires
                log.exception("capture_work_failed")
            finally:
                self.renewals.drop(token)
                self.child.clear()

    def _begin(self, token: WorkToken) -> None:
        """Begin and end an item."""
        assignment = self._repeated(token, lambda: self.control.begin(token))
        if assignment is None:
            return
        crash_point(CrashPoint.CAPTURE_AFTER_BEGIN)
        began = self.rhythm.clock.monotonic()
        outcome = self._outcome(assignment)
        if outcome is None:
            return
        self._end(token, outcome)
        crash_point(CrashPoint.CAPTURE_AFTER_END)
        seconds = self.rhythm.clock.monotonic() - began
        result = type(outcome).__name__ if isinstance(outcome, _OUTSIDE) else "Done"
        self.metrics.observe("capture_job_seconds", seconds, kind=assignment.kind.value)
        log.info(
            "capture_work_ended", kind=assignment.kind.value, result=result, duration_s=seconds
        )

    def _outcome(self, assignment: Assignment) -> Outcome | None:
        """What is reported; None if the lease was lost."""
        token = assignment.token
        if assignment.kind is WorkKind.FINALIZE_SNAPSHOT_CAPTURE:
            return WorkStopped() if assignment.cancel_requested else Finalize()
        try:
            watch = WorkWatch(standing=lambda: self.renewals.standing(token), stop=self._stop)
            outcome: ChildOutcome | None = self.child.outcome(assignment, watch)
            if outcome is not None and not isinstance(outcome, _OUTSIDE):
                self._put_sidecars(token, outcome)
        except (LeaseLostError, *_TRANSIENT):
            raise
        except (BadReportError, OutcomeRefusedError) as refused:
            return _refused(refused)
        except Exception:  # a defect is an outcome of this item
            log.exception("capture_work_failed")
            return crashed("the capture failed in the worker; read its log")
        return outcome

    def _put_sidecars(self, token: WorkToken, outcome: SourceOutcome) -> None:
        for one in read_sidecars(self.child.folder, outcome):
            put = partial(self.control.put_sidecar, token, one.path, one.sha256, one.content)
            self._repeated(token, put)

    def _end(self, token: WorkToken, outcome: Outcome) -> None:
        """Report; renewals end first, because the report itself ends the lease."""
        crash_point(CrashPoint.CAPTURE_BEFORE_END)
        standing = self.renewals.standing(token)
        self.renewals.drop(token)
        try:
            self._while_held(lambda: standing, lambda: self.control.end(token, outcome))
        except OutcomeRefusedError as refused:
            log.warning("capture_outcome_refused", cause=str(refused))
            failure = _refused(refused)
            self._while_held(lambda: standing, lambda: self.control.end(token, failure))

    def _repeated(self, token: WorkToken, act: Callable[[], T]) -> T:
        return self._while_held(lambda: self.renewals.standing(token), act)

    def _while_held(self, standing: Callable[[], WorkStanding], act: Callable[[], T]) -> T:
        """Call it until the store answers or the lease is over, with growing pauses.

        Raises the last error of the store; another worker repeats the work.
        """
        clock, pause = self.rhythm.clock, FIRST_PAUSE
        while True:
            try:
                return act()
            except CaptureNotFoundError as cause:
                raise LeaseLostError(item_id=cause.item_id, epoch=0) from cause
            except _TRANSIENT as cause:
                log.warning("capture_control_waits", code=cause.code.name)
                self.metrics.count("capture_repeats_total", cause=cause.code.name)
                if standing().is_lost(clock.monotonic() + pause.total_seconds()):
                    raise
            clock.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE)


def _refused(why: Exception) -> WorkFailed:
    """Another attempt would report the same."""
    return WorkFailed(
        code=CaptureCode.OUTCOME_REFUSED.name,
        message=one_line(str(why), MOST_TEXT),
        retry=RetryClass.TERMINAL,
    )
