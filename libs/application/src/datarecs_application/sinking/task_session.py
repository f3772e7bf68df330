"""One process of a task, from its start to its end: its calls, and what ends it from outside.

Everything that may go wrong in it is stored as a report; only a lost lease has none, because then
another process reports.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum, auto

import structlog

from datarecs_application.child_frames import BadFrameError, Reader
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.outside import Clock, Wake
from datarecs_application.ports.sinking import SinkMemory
from datarecs_application.ports.supervising import ChildEnd, ChildProcess
from datarecs_application.sinking.assignments import SinkAssignment, TaskSecrets
from datarecs_application.sinking.figures import TaskFigures
from datarecs_application.sinking.pausing import PauseProgress
from datarecs_application.sinking.remote import (
    CALL,
    FAILED,
    LOG,
    STOP,
    Answered,
    answer_call,
)
from datarecs_application.sinking.renewals import TaskStanding
from datarecs_application.source_secrets import masked, one_line
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.captures import LeaseLostError
from datarecs_core.errors.sink import SinkCode
from datarecs_core.hashing import canonical_json
from datarecs_core.sink.checkpoint import TaskReport

log = structlog.get_logger()

GLANCE = timedelta(milliseconds=200)
STOP_LIMIT = timedelta(seconds=25)
"""What a task has to vote and to leave its group, before it is killed."""
END_LIMIT_S = 10.0
"""Until a killed process has ended."""
SECRETS_EVERY = timedelta(seconds=30)
"""How often a rotated secret is noticed."""
MEMORY_EVERY = timedelta(seconds=5)
BASE_BYTES = 1024**3
"""What a task needs besides buffered records: its libraries, and files that are written."""
BUFFER_FACTOR = 3
"""Records as Python objects and as columns, while a file is written."""
MOST_TEXT = 2_000
MOST_FIELDS = 20
"""Of a line of the log."""
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
BROKER_TIMEOUT_EXIT = 79
"""Exit code of a task whose broker did not answer within a transaction."""


class Ending(Enum):
    """Why the process of a task is not running any more."""

    LOST = auto()
    """The lease is another one's."""
    STOPPED = auto()
    """This service ends."""
    CHANGED = auto()
    """The declaration, a connection or a secret is another one."""
    RETRIED = auto()
    """A person begins the task again, or its slot is for another tenant."""
    DIED = auto()
    DONE = auto()
    """It is halted or drained: nothing is left to do."""
    RESTS = auto()
    """Its sink pauses, and everything that it read is committed."""


@dataclass(slots=True)
class TaskReporting:
    """The last report of a task, and what is added to it from outside."""

    memory: SinkMemory
    figures: TaskFigures
    secrets: Collection[str] = ()
    """Values that no text may show."""
    last: TaskReport = field(default_factory=TaskReport)
    pause: PauseProgress = field(default_factory=PauseProgress)

    def note(self, answered: Answered) -> None:
        """Follow what a call of the task has stored or read."""
        if answered.report is not None:
            self.last = answered.report
            self.pause.note_report(answered.report)
            self.figures.note_report(answered.report)
        if answered.commit is not None:
            self.figures.note_commit(answered.commit)
        if answered.state is not None:
            self.figures.note_state(answered.state)
            self.pause.note_state(answered.state)

    def failed(self, code: str, message: str) -> Ending:
        """Store why the task is not running; it begins again by itself."""
        text = one_line(masked(message, self.secrets), MOST_TEXT)
        log.warning("sink_task_failed", code=code, cause=text)
        failure = replace(self.last, error_code=code, error=text)
        self.figures.note_report(failure)
        try:
            self.memory.report(failure)
        except LeaseLostError:
            return Ending.LOST
        except (StoreUnavailableError, StoreBusyError) as cause:
            log.warning("sink_task_not_reported", code=cause.code.name)
        return Ending.DIED


@dataclass(slots=True, kw_only=True)
class TaskSession:
    """One running process."""

    clock: Clock
    stop: Wake
    """Set when this service ends."""
    standing: Callable[[], TaskStanding]
    resolve: Callable[[SinkAssignment], TaskSecrets]
    """Secrets as they are now; raises DatarecsError."""
    assignment: SinkAssignment
    secrets: TaskSecrets
    child: ChildProcess
    secrets_at: float
    """When they are read again."""
    _is_over: bool = False
    """It is halted or drained, and its end is no failure."""
    _stops_at: float | None = None
    """When it is killed, after a request to end."""
    _why: Ending = Ending.DIED
    _memory_at: float = 0.0

    def watched(self, report: TaskReporting) -> Ending:
        """Answer its calls until it ends, is to end, or the lease is lost."""
        while True:
            end = self.child.ended()  # before the frame: its last one may have arrived in between
            frame = self.child.frames(GLANCE)
            if frame is not None:
                ending = self._taken(frame, report)
            elif end is not None:
                return self._ended(end, report)
            else:
                ending = None
            ending = ending or self._judged(self.clock.monotonic(), report)
            if ending is not None:
                return ending

    def kill(self) -> None:
        """End it for certain."""
        self.child.kill()
        ends = self.clock.monotonic() + END_LIMIT_S
        while self.child.ended() is None and self.clock.monotonic() < ends:
            self.child.frames(GLANCE)

    def _taken(self, frame: Mapping[str, object], report: TaskReporting) -> Ending | None:
        kind = Reader(frame).of("type", str)
        if kind == LOG:
            _log_line(Reader(frame), report.secrets)
            return None
        if kind == FAILED:
            reader = Reader(frame)
            return report.failed(reader.of("code", str), reader.of("message", str))
        if kind != CALL:
            raise BadFrameError("a frame that does not belong to a task")
        answered = answer_call(report.memory, frame)
        self.child.send(canonical_json(answered.frame))
        report.note(answered)
        if answered.report is not None:
            self._is_over = answered.report.is_halted
        self._is_over = self._is_over or answered.is_drained
        return Ending.LOST if answered.is_lease_lost else None

    def _ended(self, end: ChildEnd, report: TaskReporting) -> Ending:
        if self._why is not Ending.DIED:
            return self._why
        if self._is_over:
            return Ending.DONE
        if end.exit_code == BROKER_TIMEOUT_EXIT:
            text = "the broker did not answer within a transaction"
            return report.failed(SinkCode.BROKER_TIMEOUT.name, text)
        return report.failed(SinkCode.TASK_CRASHED.name, _end_text(end))

    def _judged(self, now: float, report: TaskReporting) -> Ending | None:
        """What the time brings: a lost lease, a stop, another declaration, too much memory."""
        standing = self.standing()
        if standing.is_lost(now):
            log.warning("sink_lease_lost")
            return Ending.LOST
        if self._stops_at is not None:
            return self._why if now >= self._stops_at else None
        if self.stop.is_set():
            self._request_end(Ending.STOPPED, now)
        elif standing.ends:
            self._request_end(Ending.RETRIED, now)
        elif standing.revision not in (None, self.assignment.revision) or self._has_rotated(now):
            self._request_end(Ending.CHANGED, now)
        elif report.pause.is_over:
            self._request_end(Ending.RESTS, now)
        elif now >= self._memory_at:
            self._memory_at = now + MEMORY_EVERY.total_seconds()
            report.figures.show()
            return self._exceeded(report)
        return None

    def _request_end(self, why: Ending, now: float) -> None:
        log.info("sink_task_stops", why=why.name)
        self._why, self._stops_at = why, now + STOP_LIMIT.total_seconds()
        self.child.send(canonical_json({"type": STOP}))

    def _has_rotated(self, now: float) -> bool:
        """Whether a secret has another value; one that cannot be read now is no other value."""
        if now < self.secrets_at:
            return False
        self.secrets_at = now + SECRETS_EVERY.total_seconds()
        try:
            secrets = self.resolve(self.assignment)
        except DatarecsError:
            return False
        return secrets.fingerprint != self.secrets.fingerprint

    def _exceeded(self, report: TaskReporting) -> Ending | None:
        most = self.assignment.sink.memory * BUFFER_FACTOR + BASE_BYTES
        if self.child.memory_bytes() <= most:
            return None
        text = (
            f"the process of the task needed more than {most >> 20} MiB of memory; raise"
            " files.memory of the sink"
        )
        return report.failed(SinkCode.TASK_CRASHED.name, text)


def _log_line(frame: Reader, secrets: Collection[str]) -> None:
    """Repeat a line of a task, bound to its ids."""
    fields = {
        f"task_{key}": one_line(masked(str(value), secrets), MOST_TEXT)
        for key, value in list(frame.of("fields", dict).items())[:MOST_FIELDS]
    }
    name = one_line(masked(frame.of("name", str), secrets), MOST_TEXT)
    level = _LEVELS.get(frame.of("level", str), logging.WARNING)
    log.log(level, "sink_task_log", message=name, **fields)


def _end_text(end: ChildEnd) -> str:
    """How a process ended that did not report."""
    if end.broken_frame is not None:
        return f"the process of the task broke its pipe: {end.broken_frame}"
    if end.oom_kill:
        return "the system ended the process of the task: out of memory"
    if end.signal is not None:
        return f"signal {end.signal} ended the process of the task"
    return f"the process of the task ended with exit code {end.exit_code} and no report"
