"""The slots of iceberg-sink: claim a task, run its process, begin it again, end it.

A slot decides nothing about records. It keeps one process per task running as long as it holds the
lease, with what is declared now, and ends it before another process can hold it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from datarecs_application.child_frames import BadFrameError
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.outside import Ids, Wake
from datarecs_application.ports.sink_leases import SinkLease, SinkLeases
from datarecs_application.ports.supervising import ChildProcess
from datarecs_application.sinking.assignments import Assignments, SinkAssignment, TaskSecrets
from datarecs_application.sinking.figures import SinkGauges, TaskFigures
from datarecs_application.sinking.renewals import TaskRenewals
from datarecs_application.sinking.task_session import (
    GLANCE,
    SECRETS_EVERY,
    Ending,
    TaskReporting,
    TaskSession,
)
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.process import ChildStartError
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.hashing import JsonValue, canonical_json

log = structlog.get_logger()

FIRST_BACKOFF = timedelta(seconds=1)
LONGEST_BACKOFF = timedelta(seconds=30)


@dataclass(slots=True, kw_only=True)
class SinkSlot:
    """A loop; each runs one task at a time."""

    name: str
    executor: str
    leases: SinkLeases
    renewals: TaskRenewals
    assignments: Assignments
    make: Callable[[], ChildProcess]
    """A process that is not started."""
    surroundings: Mapping[str, JsonValue]
    """Roots, egress policy and excluded places."""
    ids: Ids
    rhythm: Rhythm
    gauges: SinkGauges
    """Of all slots of the process."""
    handed: Callable[[], SinkLease | None] = lambda: None
    """A lease that is claimed for this slot already; see `sharing`."""
    _stop: Wake = field(init=False)

    def use(self, stop: Wake) -> None:
        """End the running task when it is set."""
        self._stop = stop

    def run(self, stop: Wake) -> None:
        self.use(stop)
        self.rhythm.repeat(self.step, stop, loop=self.name)

    def step(self) -> int:
        """Claim and run at most one task, until it is not this process's any more."""
        sent_at = self.rhythm.clock.monotonic()
        handed = self.handed()
        leases = [handed] if handed else self.leases.claim(self.executor, limit=1)
        for lease in leases:
            if handed is None:
                self.renewals.hold(lease, confirmed_at=sent_at)
            with structlog.contextvars.bound_contextvars(
                tenant_id=str(lease.tenant_id),
                sink_uid=str(lease.sink_uid),
                task=lease.number,
                lease_epoch=lease.epoch,
            ):
                figures = TaskFigures(slot=self.name, gauges=self.gauges, clock=self.rhythm.clock)
                try:
                    self._hold(lease, figures)
                finally:
                    figures.end()
                    self.renewals.drop(lease)
                    self._release(lease)
        return len(leases)

    def _release(self, lease: SinkLease) -> None:
        try:
            self.leases.release(lease)
        except (StoreUnavailableError, StoreBusyError) as cause:
            log.warning("sink_task_not_released", code=cause.code.name)

    def _hold(self, lease: SinkLease, figures: TaskFigures) -> None:
        """Begin the process again until the lease ends or nothing is left to do."""
        clock, backoff = self.rhythm.clock, FIRST_BACKOFF
        while True:
            began = clock.monotonic()
            ending = self._session(lease, figures)
            log.info("sink_task_ended", ending=ending.name)
            if ending is Ending.CHANGED:
                continue
            if ending is not Ending.DIED or self.renewals.standing(lease).ends:
                return
            if clock.monotonic() - began > LONGEST_BACKOFF.total_seconds():
                backoff = FIRST_BACKOFF
            if not self._waited(lease, backoff):
                return
            backoff = min(backoff * 2, LONGEST_BACKOFF)

    def _waited(self, lease: SinkLease, pause: timedelta) -> bool:
        """Whether the lease is still held after the pause, which a new declaration ends."""
        clock = self.rhythm.clock
        ends, before = clock.monotonic() + pause.total_seconds(), self.renewals.standing(lease)
        while clock.monotonic() < ends:
            standing = self.renewals.standing(lease)
            if self._stop.is_set() or standing.is_lost(clock.monotonic()):
                return False
            if standing.ends:
                return False
            if standing.revision != before.revision:
                break
            clock.wait(GLANCE, until=self._stop)
        return not self._stop.is_set()

    def _session(self, lease: SinkLease, figures: TaskFigures) -> Ending:
        """One process, from its start to its end."""
        report = TaskReporting(self.leases.memory(lease, self.ids.new()), figures)
        try:
            session = self._begun(lease, report)
            if session is not None:
                try:
                    return session.watched(report)
                finally:
                    session.kill()
                    figures.end_process()
            log.info("sink_declaration_incomplete")
        except (StoreUnavailableError, StoreBusyError) as cause:
            log.warning("sink_task_waits", code=cause.code.name)
        except BadFrameError as refused:
            return report.failed(SinkCode.TASK_CRASHED.name, f"its messages are broken: {refused}")
        except DatarecsError as error:
            return report.failed(error.code.name, str(error))
        except Exception:  # a defect is the problem of this task, which begins again
            log.exception("sink_task_failed")
        return Ending.DIED

    def _begun(self, lease: SinkLease, report: TaskReporting) -> TaskSession | None:
        """A running process; None without a complete declaration. Raises DatarecsError."""
        secrets_at = self.rhythm.clock.monotonic() + SECRETS_EVERY.total_seconds()
        assignment = self.assignments.read(lease)
        if assignment is None:
            return None
        secrets = self.assignments.resolve(assignment)
        report.secrets = secrets.values.values()
        child = self._started(lease, assignment, secrets)
        report.figures.begin(assignment.sink.commit.interval)
        return TaskSession(
            clock=self.rhythm.clock,
            stop=self._stop,
            standing=lambda: self.renewals.standing(lease),
            resolve=self.assignments.resolve,
            assignment=assignment,
            secrets=secrets,
            child=child,
            secrets_at=secrets_at,
        )

    def _started(
        self, lease: SinkLease, assignment: SinkAssignment, secrets: TaskSecrets
    ) -> ChildProcess:
        """Raises SinkError if the process does not start."""
        frame = {
            **assignment.frame(),
            **self.surroundings,
            "number": lease.number,
            "executor": self.executor,
            "secrets": dict(secrets.values),
        }
        child = self.make()
        try:
            child.start(canonical_json(frame))
        except (ChildStartError, OSError) as failed:
            message = f"the process of the task did not start: {failed}"
            raise SinkError(SinkCode.TASK_CRASHED, message) from failed
        log.info("sink_task_started", revision=assignment.revision)
        return child
