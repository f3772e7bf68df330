"""One item in a child process: started with the secrets of its connection alone, watched, ended.

Everything that may go wrong in the child is an outcome of its item. Only a lost lease has none:
then another worker reports.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from datarecs_application.capturing.renewals import WorkStanding
from datarecs_application.capturing.reported_work import (
    MOST_TEXT,
    BadReportError,
    crashed,
    end_text,
    read_failure,
    read_outcome,
)
from datarecs_application.capturing.source_work import FAILED, SourceOutcome, retry_class
from datarecs_application.child_frames import FINISHED, BadFrameError, Reader
from datarecs_application.ports.capturing import Assignment
from datarecs_application.ports.outside import Clock, SecretStore, Wake
from datarecs_application.ports.supervising import ChildFolder, ChildProcess
from datarecs_application.source_secrets import one_line, resolved_secrets
from datarecs_core.captures.items import RetryClass
from datarecs_core.captures.outcomes import WorkFailed, WorkReleased, WorkStopped
from datarecs_core.documents import from_document
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.captures import CaptureCode
from datarecs_core.errors.process import ChildStartError
from datarecs_core.errors.run import RunDetail
from datarecs_core.hashing import JsonValue, canonical_json
from datarecs_core.resources.connection import Connection

log = structlog.get_logger()

GLANCE = timedelta(milliseconds=100)
DRAIN = timedelta(seconds=30)
"""What running work has after SIGTERM, before it is released."""
END_LIMIT_S = 10.0
"""Until a killed child has ended."""
ChildOutcome = SourceOutcome | WorkFailed | WorkReleased | WorkStopped


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkWatch:
    """What may end the work of a child from outside."""

    standing: Callable[[], WorkStanding]
    stop: Wake
    """Set when the process ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildWork:
    """Does the work of assignments, one after the other; each slot has one."""

    make: Callable[[], ChildProcess]
    """A child that is not started."""
    folder: ChildFolder
    secrets: SecretStore
    surroundings: Mapping[str, JsonValue]
    """Roots, egress policy and excluded places, as for a check."""
    clock: Clock
    memory_bytes: int
    """Of the child and all it started."""

    def outcome(self, assignment: Assignment, watch: WorkWatch) -> ChildOutcome | None:
        """What became of the work; None if the lease was lost."""
        try:
            frame, secrets = self._frame(assignment)
        except DatarecsError as error:
            return _refused(error)
        try:
            self.folder.empty()
            child = self.make()
            child.start(canonical_json(frame))
        except (ChildStartError, OSError) as failed:
            return crashed(
                one_line(f"the process of the capture did not start: {failed}", MOST_TEXT)
            )
        try:
            return self._watched(child, assignment, secrets, watch)
        except (BadFrameError, BadReportError) as refused:
            log.warning("capture_report_refused", cause=str(refused))
            return _bad_report(str(refused))
        finally:
            self._kill(child)

    def clear(self) -> None:
        """Remove what the last child left: rows of sources."""
        self.folder.empty()

    def _frame(self, assignment: Assignment) -> tuple[dict[str, JsonValue], list[str]]:
        """The first frame, and the values in it that no text may show.

        Raises DatarecsError for a secret that cannot be used.
        """
        reader = Reader(assignment.frame)
        name = reader.of("name", str)
        connection = from_document(Connection, reader.of("connection", dict))
        tenant = assignment.token.tenant_id
        secrets, failures = resolved_secrets(self.secrets, tenant, {name: connection})
        if failures:
            raise failures[name]
        values = {key.removeprefix(f"{name}/"): value for key, value in secrets.items()}
        frame: dict[str, JsonValue] = {
            **assignment.frame,
            **self.surroundings,
            "tenant_id": str(tenant),
            "directory": self.folder.path,
            "secrets": dict(values),
        }
        return frame, list(values.values())

    def _watched(
        self, child: ChildProcess, assignment: Assignment, secrets: list[str], watch: WorkWatch
    ) -> ChildOutcome | None:
        limits = _Limits(
            deadline=self.clock.monotonic() + assignment.deadline_seconds,
            memory_bytes=self.memory_bytes,
        )
        while True:
            end = child.ended()  # before the frame: its last one may have arrived in between
            frame = child.frames(GLANCE)
            if frame is not None:
                return self._reported(frame, secrets)
            if end is not None:
                return crashed(end_text(end))
            now, standing = self.clock.monotonic(), watch.standing()
            if standing.is_lost(now):
                log.warning("capture_lease_lost")
                return None
            if standing.cancel_requested or assignment.cancel_requested:
                return WorkStopped()
            if (exceeded := limits.exceeded(child, now)) is not None:
                return exceeded
            if watch.stop.is_set() and limits.is_drained(now):
                return WorkReleased()

    def _reported(self, frame: Mapping[str, object], secrets: list[str]) -> ChildOutcome:
        kind = Reader(frame).of("type", str)
        if kind == FINISHED:
            return read_outcome(self.folder)
        if kind == FAILED:
            return read_failure(frame, secrets)
        raise BadFrameError("a frame that does not belong to a capture")

    def _kill(self, child: ChildProcess) -> None:
        child.kill()
        ends = self.clock.monotonic() + END_LIMIT_S
        while child.ended() is None and self.clock.monotonic() < ends:
            child.frames(GLANCE)


@dataclass(slots=True, kw_only=True)
class _Limits:
    """Of one child."""

    deadline: float
    memory_bytes: int
    _drained_at: float | None = field(default=None, init=False)

    def exceeded(self, child: ChildProcess, now: float) -> WorkFailed | None:
        if child.memory_bytes() > self.memory_bytes:
            return WorkFailed(
                code=RunDetail.OUT_OF_MEMORY.name,
                message=f"it needs more than {self.memory_bytes >> 20} MiB of memory; raise "
                "DATARECS_WORKER__CHILD_MEMORY_MB of the capture-worker, or capture fewer columns",
                retry=RetryClass.TERMINAL,
            )
        if now >= self.deadline:
            return WorkFailed(
                code=CaptureCode.WORK_DEADLINE_EXCEEDED.name,
                message="it took longer than an attempt may take",
                retry=RetryClass.TRANSIENT,
            )
        return None

    def is_drained(self, now: float) -> bool:
        """Whether the time since the first call is over."""
        if self._drained_at is None:
            self._drained_at = now + DRAIN.total_seconds()
        return now >= self._drained_at


def _refused(error: DatarecsError) -> WorkFailed:
    return WorkFailed(
        code=error.code.name, message=one_line(str(error), MOST_TEXT), retry=retry_class(error)
    )


def _bad_report(why: str) -> WorkFailed:
    """A correct child never does this, so another attempt would not help."""
    return WorkFailed(
        code=CaptureCode.OUTCOME_REFUSED.name,
        message=f"the report of a capture is broken: {why}",
        retry=RetryClass.TERMINAL,
    )
