"""Report the changes of committed transactions to runs: metrics, log and trace.

A separate module because a number counted inside a transaction is wrong after a rollback: here the
locked run is compared with the saved run after the commit. So no use case counts anything, and
every change is counted in the same way: by route, loop, consumer or timer.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from datarecs_application.ports.outside import Clock, Metrics
from datarecs_application.ports.state import HistoryEntry, Runs, Transaction, UnitOfWork
from datarecs_application.tracing import UNTRACED, Tracing, trace_id_of
from datarecs_core.runs.facts import Loss
from datarecs_core.runs.model import Backend, Disposition, Run, RunStatus, Wish
from datarecs_core.values import JobId, RunId, TenantId

log = structlog.get_logger()

_REPAIRS = frozenset(
    {"submit_timeout", "queue_timeout", "deadline_exceeded", "backend_ended", "cancel_forced"}
)
"""Synthesised facts that replace a missing report. A lost attempt is one as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedUnit:
    """Port UnitOfWork around another one; a transaction that fails leaves no trace here."""

    unit: UnitOfWork
    metrics: Metrics
    clock: Clock
    tracing: Tracing = UNTRACED

    @contextmanager
    def begin(
        self, tenant: TenantId, *, feed: int = 0, read_only: bool = False
    ) -> Iterator[Transaction]:
        began = self.clock.monotonic()
        with self.unit.begin(tenant, feed=feed, read_only=read_only) as tx:
            seen = _SeenRuns(tx.runs)
            if not read_only:
                tx.runs = seen  # type: ignore[misc]  # read-only in the port alone
            yield tx
        if seen.after or seen.entries:
            _CommitReport(self, seen, self.clock.monotonic() - began).write()


@dataclass(slots=True)
class _SeenRuns:
    """Port Runs: remembers what was locked, saved and recorded."""

    runs: Runs
    before: dict[RunId, Run] = field(default_factory=dict)
    after: dict[RunId, Run] = field(default_factory=dict)
    entries: list[tuple[RunId, HistoryEntry]] = field(default_factory=list)

    def add(self, run: Run) -> None:
        self.runs.add(run)
        self.after[run.run_id] = run

    def get(self, run_id: RunId) -> Run | None:
        return self.runs.get(run_id)

    def for_update(self, run_id: RunId) -> Run | None:
        run = self.runs.for_update(run_id)
        if run is not None and run_id not in self.after:
            self.before.setdefault(run_id, run)
        return run

    def save(self, run: Run) -> None:
        self.runs.save(run)
        self.after[run.run_id] = run

    def record(self, run_id: RunId, entry: HistoryEntry) -> int:
        number = self.runs.record(run_id, entry)
        self.entries.append((run_id, entry))
        return number

    def history(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[HistoryEntry]:
        return self.runs.history(run_id, after=after, limit=limit)

    def newest_ended(self, job_ids: Collection[JobId]) -> Mapping[JobId, Run]:
        return self.runs.newest_ended(job_ids)


@dataclass(frozen=True, slots=True)
class _CommitReport:
    """One committed transaction."""

    unit: ObservedUnit
    seen: _SeenRuns
    seconds: float

    def write(self) -> None:
        for run_id, entry in self.seen.entries:
            self._fact(self.seen.after.get(run_id) or self.seen.before.get(run_id), entry)
        for run_id, after in self.seen.after.items():
            before = self.seen.before.get(run_id)
            if before is None:
                self._triggered(after)
            else:
                self._changed(before, after)

    def _triggered(self, run: Run) -> None:
        log.info("run_triggered", **_ids(run), mode=run.mode.value)
        self._span("run.trigger", run, begins=True)

    def _changed(self, before: Run, after: Run) -> None:
        metrics = self.unit.metrics
        outcome = _submission(before, after)
        if outcome is not None:
            metrics.count("submits_total", backend=after.backend.value, outcome=outcome)
            self._span("run.submit", after, outcome=outcome)
        if after.status is before.status:
            return
        change = {"from": before.status.value, "to": after.status.value}
        metrics.count("run_transitions_total", 1, **change)
        if after.status.is_terminal:
            self._closed(before, after)

    def _closed(self, before: Run, run: Run) -> None:
        metrics, words = self.unit.metrics, _end_words(run)
        metrics.count("runs_total", 1, mode=run.mode.value, **words)
        for phase, seconds in _phases(run).items():
            metrics.observe("run_seconds", seconds, phase=phase)
        if run.cancel_requested:
            metrics.count("cancels_total", outcome=_cancel_outcome(before, run))
        recorded = any(run_id == run.run_id for run_id, _ in self.seen.entries)
        if not recorded and (run.status is not RunStatus.CANCELLED or run.raw_error):
            # Its end was in the history already, and only the repair handled it.
            metrics.count("run_repairs_total", reason="end_unhandled")
        detail = run.raw_error.detail_code if run.raw_error else None
        log.info("run_closed", **_ids(run), **words, detail_code=detail)
        self._span("run.close", run, begins=False, **words)

    def _fact(self, run: Run | None, entry: HistoryEntry) -> None:
        metrics, ids = self.unit.metrics, _ids(run) if run else {}
        metrics.count("run_facts_total", disposition=entry.disposition.value)
        match entry.disposition:
            case Disposition.LATE | Disposition.CONFLICT:
                say = log.error if entry.disposition is Disposition.CONFLICT else log.info
                fields = {"type": entry.type, "disposition": entry.disposition.value}
                say("late_fact", **ids, event_id=str(entry.event_id), **fields)
            case Disposition.SYNTHESISED if entry.type == "attempt_lost":
                loss = str(entry.data["loss"])
                log.warning("attempt_lost", **ids, loss=loss)
                if loss == Loss.EXPIRED.value:
                    metrics.count("leases_expired_total", queue="runs")
                    metrics.count("run_repairs_total", reason=entry.type)
            case Disposition.SYNTHESISED if entry.type in _REPAIRS:
                metrics.count("run_repairs_total", reason=entry.type)
            case _:
                pass

    def _span(self, name: str, run: Run, *, begins: bool = False, **attributes: str) -> None:
        self.unit.tracing.record_span(
            name,
            parent=run.traceparent,
            seconds=self.seconds,
            begins=begins,
            run_id=str(run.run_id),
            attempt=run.attempt,
            **attributes,
        )


def _ids(run: Run) -> dict[str, object]:
    return {
        "tenant_id": str(run.tenant_id),
        "run_id": str(run.run_id),
        "job_id": str(run.job_id),
        "attempt": run.attempt,
        "trace_id": trace_id_of(run.traceparent),
    }


def _end_words(run: Run) -> dict[str, str]:
    return {
        "status": run.status.value,
        "result": run.result.value if run.result else "",
        "code": run.error.code.value if run.error else "",
    }


def _phases(run: Run) -> dict[str, float]:
    """Seconds of each phase, from the row alone; a run that never started only waited."""
    ended, closed = run.ended_at, run.closed_at
    if ended is None or closed is None:
        return {}
    phases = {"queue": _between(run.created_at, run.started_at or ended)}
    if run.started_at is not None:
        phases["execute"] = _between(run.started_at, ended)
    return {**phases, "close": _between(ended, closed)}


def _between(start: datetime, end: datetime) -> float:
    return max((end - start).total_seconds(), 0.0)


def _submission(before: Run, after: Run) -> str | None:
    """How a submission ended in this transaction; None if none did.

    The queue answers in the transaction that counts the attempt, a remote backend after it.
    """
    counted = after.submit_attempts > before.submit_attempts
    if after.backend is Backend.QUEUE:
        return _submitted(after) if counted else None
    waited = before.status is RunStatus.TRIGGERED and before.submit_intent_at is not None
    stopped = after.status is RunStatus.CANCELLED or after.wish is Wish.STOP
    answered = waited and not counted and (not stopped or after.status is RunStatus.QUEUE_ERRORED)
    return _submitted(after) if answered else None


def _submitted(run: Run) -> str:
    match run.status:
        case RunStatus.TRIGGERED:
            return "unavailable"
        case RunStatus.QUEUE_ERRORED:
            return "rejected"
        case _:
            return "accepted"


def _cancel_outcome(before: Run, run: Run) -> str:
    """`stale`: it completed first; `forced`: it was cut off; `immediate`: it never ran."""
    if run.status is not RunStatus.CANCELLED:
        return "stale"
    if run.raw_error is not None and run.raw_error.detail_code == "CANCEL_FORCED":
        return "forced"
    return "stopped" if before.status is RunStatus.RUNNING else "immediate"
