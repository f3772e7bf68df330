"""Twin of the run's tables: rows, history, timers."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from datarecs_application.errors import RunExistsError
from datarecs_application.ports.state import HistoryEntry
from datarecs_core.runs.model import Run
from datarecs_core.values import JobId, RunId
from datarecs_memory.scope import Scope
from datarecs_memory.store import Timer


def number(scope: Scope, run_id: RunId, count: int) -> tuple[range, tuple[int, ...]]:
    """Take the next numbers of a run: sequences and feed numbers; raises those of the row."""
    run = scope.state.runs.get(run_id)
    if run is None:
        raise LookupError(f"run {run_id} is not one of this tenant")
    rvs = tuple(scope.next_rv() for _ in range(count))
    last = run.last_sequence + count
    scope.state.runs[run_id] = replace(run, last_sequence=last, feed_rv=rvs[-1])
    scope.touch_run(run_id)
    return range(run.last_sequence + 1, last + 1), rvs


def remember(scope: Scope, run_id: RunId, entry: HistoryEntry) -> None:
    """Store an entry with numbers taken before."""
    scope.state.history[run_id] = (*scope.state.history.get(run_id, ()), entry)


def _age(run: Run) -> tuple[datetime, RunId]:
    return run.created_at, run.run_id


class MemoryRuns:
    """Port Runs."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._locked: set[RunId] = set()

    def add(self, run: Run) -> None:
        if run.tenant_id != self._scope.tenant_id:
            raise ValueError("a run is added in a transaction of its own tenant")
        if self._is_taken(run):
            raise RunExistsError(run_id=run.run_id)
        self._scope.state.runs[run.run_id] = replace(run, row_version=1, last_sequence=0, feed_rv=0)
        self._locked.add(run.run_id)
        self._scope.touch_run(run.run_id)
        self._scope.wake()

    def get(self, run_id: RunId) -> Run | None:
        return self._scope.state.runs.get(run_id)

    def for_update(self, run_id: RunId) -> Run | None:
        self._locked.add(run_id)
        return self.get(run_id)

    def save(self, run: Run) -> None:
        before = self.get(run.run_id)
        if before is None or run.run_id not in self._locked:
            raise LookupError(f"run {run.run_id} was not locked in this transaction")
        saved = replace(
            run,
            row_version=before.row_version,
            last_sequence=before.last_sequence,
            feed_rv=before.feed_rv,
        )
        if saved == before:
            return
        self._scope.state.runs[run.run_id] = replace(saved, row_version=before.row_version + 1)
        self._scope.touch_run(run.run_id)
        if saved.next_reconcile_at != before.next_reconcile_at:
            self._scope.wake()

    def record(self, run_id: RunId, entry: HistoryEntry) -> int:
        lines = self._scope.state.history.get(run_id, ())
        for place, line in enumerate(lines):
            if line.event_id == entry.event_id:
                changed = replace(line, disposition=entry.disposition)
                self._scope.state.history[run_id] = (
                    *lines[:place],
                    changed,
                    *lines[place + 1 :],
                )
                self._scope.touch_run(run_id)
                return line.sequence
        sequences, rvs = number(self._scope, run_id, 1)
        remember(self._scope, run_id, replace(entry, sequence=sequences[0], rv=rvs[0]))
        return sequences[0]

    def history(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> list[HistoryEntry]:
        lines = self._scope.state.history.get(run_id, ())
        return [line for line in lines if line.sequence > after][:limit]

    def newest_ended(self, job_ids: Collection[JobId]) -> Mapping[JobId, Run]:
        ended = (
            run
            for run in self._scope.state.runs.values()
            if run.job_id in job_ids and run.closed_at is not None
        )
        return {run.job_id: run for run in sorted(ended, key=_age)}

    def _is_taken(self, run: Run) -> bool:
        fired = (run.schedule_uid, run.fire_time)
        anywhere = self._scope.store.everything().values()
        return (
            run.run_id in self._scope.state.runs
            or any(run.run_id in other.runs for other in anywhere)
            or any(
                (one.schedule_uid, one.fire_time) == fired
                for one in self._scope.state.runs.values()
                if None not in fired
            )
        )


class MemoryRunTimers:
    """Port RunTimers."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def put(self, run_id: RunId, reason: str, due_at: datetime) -> None:
        self._scope.state.timers[run_id, reason] = Timer(due_at=due_at)

    def drop(self, run_id: RunId, *reasons: str) -> None:
        timers = self._scope.state.timers
        for key in [
            key for key in timers if key[0] == run_id and (not reasons or key[1] in reasons)
        ]:
            del timers[key]

    def due(self, run_id: RunId, reason: str) -> bool:
        timer = self._scope.state.timers.get((run_id, reason))
        return timer is not None and timer.due_at <= self._scope.store.clock.now()
