"""Decide due schedules: their runs, their ticks and their next times in one transaction.

The rules are in `datarecs_core.scheduling`; here they meet the rows. A crash leaves everything or
nothing, and a run is unique per schedule and time, so two schedulers start each time once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import structlog

from datarecs_application.job_references import start_refusal
from datarecs_application.ports.outside import Ids
from datarecs_application.ports.quotas import WaitingRuns
from datarecs_application.ports.schedules import DecidedTick, ScheduleState
from datarecs_application.ports.state import Transaction
from datarecs_application.runs import new_fact_id, request_cancel, trigger_run
from datarecs_application.stored_specs import UNREADABLE_AGAIN, StoredSpecs
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.jobs.parameters import parameters_document, resolve_parameters
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.runs.model import Backend, RunMode
from datarecs_core.runs.start import TriggerRun
from datarecs_core.scheduling.firing import Due, Firing, fire
from datarecs_core.scheduling.schedule import (
    ConcurrencyPolicy,
    Schedule,
    Tick,
    TickOutcome,
)
from datarecs_core.scheduling.times import FireTimes
from datarecs_core.values import JobId, ResourceUid, RunId

log = structlog.get_logger()

SCHEDULED = "scheduled"
"""`triggered_by` and `cancelled_by` of what a schedule does."""
REPLACED = "replaced by schedule"
FEED_NUMBERS = 256
"""Two for each run of the largest catch-up, and room for cancels; unused ones leave gaps.

Schedules that need more together are decided one by one.
"""
RECHECK = timedelta(seconds=1)
"""While a run waits for the end of the one that it replaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """What decisions need from outside."""

    schedules: StoredSpecs[Schedule]
    jobs: StoredSpecs[ReconciliationJob]
    times: FireTimes
    ids: Ids
    most_waiting: WaitingRuns
    """How many runs may wait for their start, as for triggers of users."""
    backend: Backend = Backend.QUEUE


def decide_schedules(
    tx: Transaction, uids: Sequence[ResourceUid], use: Scheduling
) -> Mapping[ResourceUid, Sequence[Tick]]:
    """Start what is due and store when to decide again; safe to repeat.

    Args:
        tx: begun with `feed=FEED_NUMBERS`.
        uids: of schedules; one that is gone is no longer due, one that cannot be read is due again
            in ten minutes.
        use: the parts.

    Returns:
        What became of the times that were due, for logs and metrics.
    """
    states = tx.schedules.for_update(*uids)
    resources = tx.resources.get_by_uids(states.keys())
    active = tx.schedules.active_runs(*states)
    shared, ticks = _Shared(tx, use), {}
    for uid, state in states.items():
        resource = resources.get(uid)
        if resource is None or resource.deletion_at is not None:
            tx.schedules.save(replace(state, due_at=None))
            continue
        schedule = use.schedules.of(resource)
        if schedule is None:
            tx.schedules.save(replace(state, due_at=tx.now + UNREADABLE_AGAIN))
            continue
        ticks[uid] = _Decision(tx, resource, schedule, state, use, shared).carry_out(
            active.get(uid, ())
        )
        crash_point(CrashPoint.FIRE_IN_TX)
    return ticks


@dataclass(slots=True)
class _Shared:
    """What the schedules of one transaction read once."""

    tx: Transaction
    use: Scheduling
    _jobs: dict[tuple[str, str], tuple[Resource, ReconciliationJob] | str] = field(
        default_factory=dict
    )
    _waiting: dict[JobId, WaitingRuns] = field(default_factory=dict)

    def job(self, namespace: str, name: str) -> tuple[Resource, ReconciliationJob] | str:
        """A job with its definition, or why it cannot run."""
        key = (namespace, name)
        if key not in self._jobs:
            self._jobs[key] = self._read(namespace, name)
        return self._jobs[key]

    def _read(self, namespace: str, name: str) -> tuple[Resource, ReconciliationJob] | str:
        job = self.tx.resources.get(Kind.RECONCILIATION_JOB, namespace, name)
        definition = None if job is None else self.use.jobs.of(job)
        if job is None or definition is None or job.deletion_at is not None:
            state = "does not exist" if job is None else "is being deleted or cannot be read"
            return f"job {name!r} {state}; apply it, or correct `job`"
        refusal = start_refusal(self.tx, job)
        return (job, definition) if refusal is None else f"job {name!r} cannot run: {refusal}"

    def excess(self, job_id: JobId) -> str | None:
        """Why no run of the job may wait any more.

        The first count blocks those of other transactions until this one ends, so that the
        tenant's waiting runs become more by own starts alone.
        """
        if job_id not in self._waiting:
            self._waiting[job_id] = self.tx.quotas.waiting_runs(job_id)
        return self._waiting[job_id].excess(self.use.most_waiting)

    def count_start(self, job_id: JobId) -> None:
        for one, waiting in self._waiting.items():
            self._waiting[one] = WaitingRuns(
                of_job=waiting.of_job + (one == job_id), of_tenant=waiting.of_tenant + 1
            )

    def count_again(self) -> None:
        """After a cancel fewer runs wait."""
        self._waiting.clear()


@dataclass(slots=True)
class _Decision:
    tx: Transaction
    resource: Resource
    schedule: Schedule
    state: ScheduleState
    use: Scheduling
    shared: _Shared

    def carry_out(self, active: Sequence[RunId]) -> Sequence[Tick]:
        times = _times_text(self.schedule)
        firing = fire(
            Due(
                uid=self.state.uid,
                schedule=self.schedule,
                created_at=self.resource.created_at,
                last_fire_time=self._counted_from(times),
                active_runs=len(active),
                was_suspended=self.state.is_suspended,
            ),
            self.use.times,
            now=self.tx.now,
        )
        ticks, waiting = self._started(firing, active)
        due_at = firing.next_start
        if waiting is not None:
            again = self.tx.now + RECHECK
            due_at = again if due_at is None else min(due_at, again)
        self.tx.schedules.record(self.state.uid, ticks)
        self.tx.schedules.save(
            replace(
                self.state,
                due_at=due_at,
                times=times,
                last_fire_time=firing.last_fire_time,
                is_suspended=self.schedule.suspend,
                waiting=waiting,
                tzdata=self.use.times.version,
            )
        )
        return [each.tick for each in ticks]

    def _counted_from(self, times: str) -> datetime:
        """After creation, and after an edit of its times, the times count from that moment."""
        if not self.state.times or self.state.last_fire_time is None:
            return self.resource.created_at
        return self.state.last_fire_time if self.state.times == times else self.tx.now

    def _started(
        self, firing: Firing, active: Sequence[RunId]
    ) -> tuple[list[DecidedTick], datetime | None]:
        """The ticks to store, and the time that waits for the end of a run."""
        ticks = {tick.fire_time: self._of(tick) for tick in firing.ticks}
        starts = list(firing.starts)
        waiting = self.state.waiting
        if waiting is not None and self.schedule.suspend:
            ticks[waiting] = self._skipped(waiting, TickOutcome.SUSPENDED)
            waiting = None
        if waiting is not None and starts:
            ticks[waiting] = self._skipped(waiting, TickOutcome.SKIPPED_OVERLAP)
            waiting = None
        if waiting is not None:
            starts = [waiting]
        if starts and active and self._replaces():
            (fire_time,) = starts
            if isinstance(self._command(fire_time), TriggerRun):
                self._cancel(active)
                ticks.pop(fire_time, None)
                return list(ticks.values()), fire_time
        for fire_time in starts:
            ticks[fire_time] = self._start(fire_time)
        return [ticks[at] for at in sorted(ticks)], None

    def _replaces(self) -> bool:
        """After an edit to another policy, what has waited so far starts at once."""
        return self.schedule.concurrency_policy is ConcurrencyPolicy.REPLACE

    def _cancel(self, active: Sequence[RunId]) -> None:
        for run_id in active:
            fact_id = new_fact_id(self.use.ids)
            request_cancel(self.tx, run_id, by=SCHEDULED, reason=REPLACED, fact_id=fact_id)
        self.shared.count_again()

    def _start(self, fire_time: datetime) -> DecidedTick:
        command = self._command(fire_time)
        if isinstance(command, str):
            return self._failed(fire_time, command)
        excess = self.shared.excess(command.job_id)
        if excess is not None:
            return self._failed(fire_time, f"there are {excess}, as many as may wait")
        run = trigger_run(self.tx, command)
        self.shared.count_start(command.job_id)
        return self._of(Tick(fire_time=fire_time, outcome=TickOutcome.FIRED), run.run_id)

    def _failed(self, fire_time: datetime, reason: str) -> DecidedTick:
        failed = TickOutcome.ERROR
        return self._of(Tick(fire_time=fire_time, outcome=failed, missed=1, reason=reason))

    def _skipped(self, fire_time: datetime, outcome: TickOutcome) -> DecidedTick:
        reason = "the schedule was suspended"
        if outcome is TickOutcome.SKIPPED_OVERLAP:
            reason = "a newer time starts in its place"
        return self._of(Tick(fire_time=fire_time, outcome=outcome, missed=1, reason=reason))

    def _command(self, fire_time: datetime) -> TriggerRun | str:
        """The trigger of the job for a time, or why it cannot run."""
        use, read = self.use, self.shared.job(self.resource.namespace, self.schedule.job)
        if isinstance(read, str):
            return read
        job, definition = read
        values, faults = resolve_parameters(
            definition.parameters, {}, moment=fire_time, zone=ZoneInfo(definition.timezone)
        )
        if faults:
            reasons = "; ".join(f"{fault.path[-1]}: {fault.message}" for fault in faults)
            return f"the job's parameters have no usable default: {reasons}"
        return TriggerRun(
            tenant_id=self.tx.tenant_id,
            run_id=RunId(use.ids.new()),
            job_id=JobId(job.uid),
            job_name=job.name,
            job_generation=job.generation,
            spec_hash=job.spec_hash,
            spec=job.spec,
            mode=RunMode.SCHEDULED,
            triggered_by=SCHEDULED,
            parameters=dict(parameters_document(values)),
            priority=definition.execution.priority,
            deadline_seconds=int(definition.execution.deadline.total_seconds()),
            max_attempts=definition.execution.attempts,
            backend=use.backend,
            schedule_uid=self.resource.uid,
            fire_time=fire_time,
        )

    def _of(self, tick: Tick, run_id: RunId | None = None) -> DecidedTick:
        return DecidedTick(tick=tick, run_id=run_id, tzdata=self.use.times.version)


def _times_text(schedule: Schedule) -> str:
    """Everything that its times depend on: after a change the times count anew."""
    parts = (schedule.cron, schedule.interval, schedule.timezone, schedule.start_at)
    return " ".join(str(part) for part in parts)
