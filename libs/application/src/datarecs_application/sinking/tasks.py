"""The slots of iceberg-sink: claim a task, run its process, begin it again, end it.

A slot decides nothing about records. It runs the process of a task as long as it holds the lease,
with what is declared now, and ends it before another process can hold it. A task that waits after
a fault, or whose sink pauses, has no slot.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from datarecs_application.child_frames import BadFrameError
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.outside import Ids, Wake
from datarecs_application.ports.sink_leases import SinkLease, SinkLeases
from datarecs_application.ports.supervising import ChildProcess
from datarecs_application.sinking.assignments import Assignments, SinkAssignment, TaskSecrets
from datarecs_application.sinking.backoffs import (
    FIRST_BACKOFF,
    LONGEST_BACKOFF,
    Backoffs,
    HeldTask,
    release,
)
from datarecs_application.sinking.figures import SinkGauges, TaskFigures
from datarecs_application.sinking.renewals import TaskRenewals
from datarecs_application.sinking.task_session import (
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
    backoffs: Backoffs
    """Alike."""
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
        """Begin at most one task, and run it until its lease or its process ends."""
        task = self._next()
        if task is None:
            return 0
        lease = task.lease
        with structlog.contextvars.bound_contextvars(
            tenant_id=str(lease.tenant_id),
            sink_uid=str(lease.sink_uid),
            task=lease.number,
            lease_epoch=lease.epoch,
        ):
            ending = Ending.STOPPED
            try:
                ending = self._hold(task)
            finally:
                if ending is not Ending.DIED:
                    is_resting = ending is Ending.RESTS
                    release(self.leases, self.renewals, task, is_resting=is_resting)
        return 1

    def _next(self) -> HeldTask | None:
        """One that waits for this slot, that nobody has, or that has waited after a fault.

        Claims come before those: they count the tasks of each tenant.
        """
        lease = self.handed() or self._claimed()
        return self.backoffs.take() if lease is None else self._new(lease)

    def _claimed(self) -> SinkLease | None:
        sent_at = self.rhythm.clock.monotonic()
        for lease in self.leases.claim(self.executor, limit=1):
            self.renewals.hold(lease, confirmed_at=sent_at)
            return lease
        return None

    def _new(self, lease: SinkLease) -> HeldTask:
        clock = self.rhythm.clock
        return HeldTask(
            lease=lease, figures=TaskFigures(task=lease, gauges=self.gauges, clock=clock)
        )

    def _hold(self, task: HeldTask) -> Ending:
        """Run processes until one dies, the lease ends, or nothing is left to do.

        Returns:
            DIED: the lease is with the tasks that wait after a fault.
        """
        clock = self.rhythm.clock
        while True:
            began = clock.monotonic()
            ending = self._session(task.lease, task.figures)
            log.info("sink_task_ended", ending=ending.name)
            if ending is not Ending.CHANGED:
                break
        if ending is not Ending.DIED:
            return ending
        if self._stop.is_set():
            return Ending.STOPPED
        if clock.monotonic() - began > LONGEST_BACKOFF.total_seconds():
            task = replace(task, backoff=FIRST_BACKOFF)
        later = replace(task, backoff=min(task.backoff * 2, LONGEST_BACKOFF))
        return Ending.DIED if self.backoffs.pause(later, task.backoff) else Ending.STOPPED

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
