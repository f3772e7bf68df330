"""What iceberg-sink counts of the tasks that it runs, from their calls.

The process of a task serves no metrics. Counters follow its reports and its commits; gauges are
over all tasks of this service, because neither a tenant nor a sink is a label. A halted task is
nobody's after a restart, so these are counted where they are stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Lock
from uuid import UUID

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.outside import Clock, Metrics, Wake
from datarecs_application.ports.sink_leases import SinkLease, SinkLeases
from datarecs_core.resources.sink_conditions import (
    LAG_INTERVALS,
    Uncommitted,
    follow_uncommitted,
    lag,
)
from datarecs_core.sink.checkpoint import SinkCommit, SinkState, TaskReport, TaskWish
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.declared import SinkStatus, TaskStatus

log = structlog.get_logger()

COUNTED_EVERY = timedelta(seconds=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGauges:
    """What the gauges need of one task."""

    is_running: bool = False
    is_stalled: bool = False
    lag: int = 0
    uncommitted_seconds: float = 0


@dataclass(slots=True)
class SinkGauges:
    """Gauges over all tasks of a process; used by the threads of its slots."""

    metrics: Metrics
    _tasks: dict[SinkLease, TaskGauges] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def show(self, task: SinkLease, figures: TaskGauges | None) -> None:
        """Replace the figures of a task; None: this process has it no more."""
        with self._lock:
            self._tasks.pop(task, None)
            if figures is not None:
                self._tasks[task] = figures
            tasks = list(self._tasks.values())
        gauge = self.metrics.gauge
        gauge("sink_tasks", sum(one.is_running for one in tasks), state="running")
        gauge("sink_tasks", sum(one.is_stalled for one in tasks), state="stalled")
        gauge("sink_lag_messages", sum(one.lag for one in tasks))
        oldest = max((one.uncommitted_seconds for one in tasks), default=0)
        gauge("sink_oldest_uncommitted_seconds", oldest)


@dataclass(slots=True, kw_only=True)
class HaltedTasks:
    """A loop: the gauge of halted tasks, of all tenants and services."""

    leases: SinkLeases
    metrics: Metrics
    clock: Clock
    name: str = "halted"

    def run(self, stop: Wake) -> None:
        while not stop.is_set():
            self.step()
            self.clock.wait(COUNTED_EVERY, until=stop)

    def step(self) -> None:
        """A store that does not answer leaves the last value."""
        try:
            halted = self.leases.halted()
        except (StoreUnavailableError, StoreBusyError) as cause:
            log.warning("sink_halted_not_counted", code=cause.code.name)
            return
        self.metrics.gauge("sink_tasks", halted, state="halted")


@dataclass(slots=True, kw_only=True)
class TaskFigures:
    """Of one task, as long as this service holds it; its processes come and go."""

    task: SinkLease
    gauges: SinkGauges
    clock: Clock
    interval: timedelta | None = None
    """Between commits; None before the declaration was read."""
    _is_running: bool = False
    _report: TaskReport = field(default_factory=TaskReport)
    """The last one of the running process."""
    _state: SinkState | None = None
    """As last read; None: it was not."""
    _ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    """As last seen; a report of a fault has none."""
    _uncommitted: Uncommitted | None = None
    _failing_since: datetime | None = None
    _commit_id: UUID | None = None

    def begin(self, interval: timedelta) -> None:
        """A process has started; its counters begin at 0."""
        self.interval, self._is_running, self._report = interval, True, TaskReport()
        self.show()

    def end_process(self) -> None:
        self._is_running = False
        self.show()

    def end(self) -> None:
        """This service does not hold the task any more."""
        self.gauges.show(self.task, None)

    def note_state(self, state: SinkState) -> None:
        self._state = state
        self.show()

    def note_report(self, report: TaskReport) -> None:
        """Count what is more than in the report before."""
        before, self._report = self._report, report
        self._count("sink_dead_letters_total", report.dead_letters - before.dead_letters)
        self._count("sink_votes_refused_total", report.fenced - before.fenced)
        self._count("sink_unrouted_total", report.unrouted - before.unrouted)
        self._count("sink_tombstones_total", report.tombstones - before.tombstones)
        self._count("sink_fields_dropped_total", report.dropped_fields - before.dropped_fields)
        failed = report.failed_commits - before.failed_commits
        if failed > 0:
            self.gauges.metrics.count("sink_commits_total", failed, outcome="failed")
        assigned = {part: end for part, end in self._ends.items() if part in report.positions}
        self._ends = {**assigned, **report.ends}
        if not report.error_code:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = self.clock.now()
        self.show()

    def note_commit(self, commit: SinkCommit) -> None:
        """Count a cycle once, also where its call is repeated."""
        if commit.commit_id == self._commit_id:
            return
        self._commit_id = commit.commit_id
        metrics = self.gauges.metrics
        metrics.count("sink_commits_total", outcome="partial" if commit.is_partial else "full")
        metrics.observe("sink_commit_seconds", commit.duration.total_seconds())
        self._count("sink_records_total", commit.records)

    def show(self) -> None:
        """Set the gauges for this moment."""
        now = self.clock.now()
        report = replace(self._report, ends=self._ends)
        positions = {**report.positions, **self._ends}  # what was seen counts as read
        seen_status = self._status(replace(report, positions=positions))
        is_wanted = self._state is not None and self._state.wish is TaskWish.RUN
        before = self._uncommitted if is_wanted else None
        seen = self._uncommitted = follow_uncommitted(before, seen_status, now=now)
        age = timedelta() if seen is None else now - seen.since
        self.gauges.show(
            self.task,
            TaskGauges(
                is_running=self._is_running,
                is_stalled=is_wanted and self._is_stalled(age, now),
                lag=lag(self._status(report)),
                uncommitted_seconds=age.total_seconds(),
            ),
        )

    def _is_stalled(self, age: timedelta, now: datetime) -> bool:
        """For several intervals nothing was committed, or an error has hindered the task."""
        if self.interval is None:
            return False
        failing = timedelta() if self._failing_since is None else now - self._failing_since
        return max(age, failing) > LAG_INTERVALS * self.interval

    def _status(self, report: TaskReport) -> SinkStatus:
        """Of this task alone."""
        if self._state is None:
            return SinkStatus()
        task = TaskStatus(number=0, is_held=True, report=report)
        return SinkStatus(state=self._state, tasks=(task,))

    def _count(self, name: str, more: int) -> None:
        if more > 0:
            self.gauges.metrics.count(name, more)
