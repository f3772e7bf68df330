"""Check connections and jobs one at a time, each in a short-lived child, beside the slots of runs.

A check that hangs, crashes or needs too much memory is a result; it never stops the loop.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from datarecs_application.checking import (
    CheckAssignment,
    Checking,
    ReportedSteps,
    unfinished_step,
)
from datarecs_application.child_frames import BadFrameError
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.checks import LeasedCheck
from datarecs_application.ports.outside import Metrics, Wake
from datarecs_application.ports.state import Transaction, UnitOfWork, WorkFinder
from datarecs_application.ports.supervising import ChildEnd, ChildProcess
from datarecs_application.rotated_secrets import RotatedSecrets
from datarecs_core.errors.process import ChildStartError
from datarecs_core.hashing import canonical_json
from datarecs_core.resources.checks import CheckResult
from datarecs_core.resources.resource import Kind, Resource

log = structlog.get_logger()

CHECK_LIMIT = timedelta(seconds=60)
GLANCE = timedelta(milliseconds=200)
END_LIMIT_S = 10.0
"""Until a killed child has ended."""
CHECKED = (Kind.CONNECTION, Kind.RECONCILIATION_JOB)
_SLOW = "check that its servers answer; a large file needs declared types instead of inferred ones"
_REPORT = "read the worker's log at this time; report it if it repeats"
_FAILED = CheckResult(steps=(unfinished_step("", "the check failed in the worker", _REPORT),))


@dataclass(slots=True, kw_only=True)
class SourceChecks:
    """A loop; every worker runs one."""

    unit: UnitOfWork
    finder: WorkFinder
    use: Checking
    make: Callable[[], ChildProcess]
    """A child that is not started."""
    metrics: Metrics
    rhythm: Rhythm
    memory_bytes: int
    """Of the child and all it started."""
    limit: timedelta = CHECK_LIMIT
    _rotated: RotatedSecrets = field(init=False)
    _stop: Wake | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._rotated = RotatedSecrets(use=self.use, clock=self.rhythm.clock)

    @property
    def name(self) -> str:
        return "checks"

    def run(self, stop: Wake) -> None:
        self._stop = stop
        self.rhythm.repeat(self.step, stop, loop=self.name)

    def step(self) -> int:
        """Make at most one check; how many there were."""
        self._check_rotated()
        leased = self.finder.lease_check()
        if leased is None:
            return 0
        with structlog.contextvars.bound_contextvars(
            tenant_id=str(leased.tenant_id), resource_uid=str(leased.uid)
        ):
            self._check(leased)
        return 1

    def _check_rotated(self) -> None:
        """A new password is checked at once, by this worker or another one."""
        for tenant, uid in self._rotated.rotated():
            with self.unit.begin(tenant) as tx:
                tx.checks.repeat(uid)
            log.info("secret_rotated", tenant_id=str(tenant), resource_uid=str(uid))

    def _check(self, leased: LeasedCheck) -> None:
        with self.unit.begin(leased.tenant_id, read_only=True) as tx:
            resource = tx.resources.get_by_uid(leased.uid)
            if resource is None or resource.kind not in CHECKED:
                return
            assigned = self._assigned(tx, resource)
        result: CheckResult | None
        result = assigned if isinstance(assigned, CheckResult) else self._result(assigned)
        if result is None:
            with self.unit.begin(leased.tenant_id) as tx:
                tx.checks.release(leased)
            return
        self._end(leased, resource, result)

    def _assigned(self, tx: Transaction, resource: Resource) -> CheckAssignment | CheckResult:
        try:
            self._rotated.remember(resource)
            return self.use.assign(tx, resource)
        except (StoreUnavailableError, StoreBusyError):
            raise
        except Exception:  # a defect is the problem of this check alone
            log.exception("check_failed")
            return _FAILED

    def _end(self, leased: LeasedCheck, resource: Resource, result: CheckResult) -> None:
        with self.unit.begin(leased.tenant_id) as tx:
            is_stored = tx.checks.end(leased, result, generation=resource.generation)
            if is_stored:
                tx.resource_work.due_again(resource.uid)
        failure = result.first_failure()
        cause = "NONE" if failure is None or failure.cause is None else failure.cause.value
        self.metrics.count("resource_checks_total", kind=resource.kind.value, cause=cause)
        log.info("resource_checked", kind=resource.kind.value, cause=cause, stored=is_stored)

    def _result(self, assigned: CheckAssignment) -> CheckResult | None:
        """What the child reports; None if this process stops first."""
        reported = ReportedSteps(assigned)
        try:
            child = self.make()
            child.start(canonical_json(assigned.frame))
        except ChildStartError as failed:
            return reported.unfinished(str(failed), _REPORT)
        except Exception:  # as above
            log.exception("check_failed")
            return _FAILED
        try:
            return self._watched(child, reported)
        except BadFrameError:
            log.warning("check_frame_refused")
            return reported.unfinished("the check sent a broken report", _REPORT)
        except Exception:  # as above
            log.exception("check_failed")
            return _FAILED
        finally:
            self._kill(child)

    def _watched(self, child: ChildProcess, reported: ReportedSteps) -> CheckResult | None:
        clock = self.rhythm.clock
        ends = clock.monotonic() + self.limit.total_seconds()
        while True:
            end = child.ended()  # before the frame: its last ones may have arrived in between
            frame = child.frames(GLANCE)
            if frame is not None and reported.take(frame):
                return reported.result()
            if frame is None and end is not None:
                return reported.unfinished(_end_words(end), _REPORT)
            if self._stop is not None and self._stop.is_set():
                return None
            if clock.monotonic() >= ends:
                words = f"no result within {self.limit.total_seconds():.0f} s"
                return reported.unfinished(words, _SLOW)
            if child.memory_bytes() > self.memory_bytes:
                words = f"it needs more than {self.memory_bytes >> 20} MiB of memory"
                return reported.unfinished(words, _SLOW)

    def _kill(self, child: ChildProcess) -> None:
        child.kill()
        ends = self.rhythm.clock.monotonic() + END_LIMIT_S
        while child.ended() is None and self.rhythm.clock.monotonic() < ends:
            child.frames(GLANCE)


def _end_words(end: ChildEnd) -> str:
    if end.oom_kill:
        return "the system ended it: out of memory"
    if end.signal is not None:
        return f"signal {end.signal} ended it"
    return f"it ended with exit code {end.exit_code}"
