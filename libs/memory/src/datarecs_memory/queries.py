"""Twin of the read models: keyset cursors over committed rows."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import islice

from datarecs_application.ports.state import HistoryEntry, RunFilter
from datarecs_core.runs.model import Run
from datarecs_core.values import RunId, TenantId
from datarecs_memory.store import MemoryStore


class MemoryQueries:
    """Port Queries."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def runs(
        self,
        tenant: TenantId,
        where: RunFilter,
        *,
        limit: int,
        before: tuple[datetime, RunId] | None = None,
    ) -> list[Run]:
        newest = sorted(
            self._store.committed(tenant).runs.values(),
            key=lambda run: (run.created_at, run.run_id),
            reverse=True,
        )
        wanted = (
            run
            for run in newest
            if _admits(where, run) and (before is None or (run.created_at, run.run_id) < before)
        )
        return list(islice(wanted, limit))

    def run(self, tenant: TenantId, run_id: RunId) -> Run | None:
        return self._store.committed(tenant).runs.get(run_id)

    def runs_with_prefix(self, tenant: TenantId, prefix: str) -> list[RunId]:
        run_ids = sorted(self._store.committed(tenant).runs)
        return [run_id for run_id in run_ids if str(run_id).startswith(prefix)][:2]

    def run_events(
        self, tenant: TenantId, run_id: RunId, *, after: int, limit: int
    ) -> list[HistoryEntry]:
        lines = self._store.committed(tenant).history.get(run_id, ())
        return [line for line in lines if line.sequence > after][:limit]

    def runs_of(self, tenant: TenantId, run_ids: Collection[RunId]) -> Mapping[RunId, Run]:
        runs = {run_id: self.run(tenant, run_id) for run_id in run_ids}
        return {run_id: run for run_id, run in runs.items() if run is not None}

    def news(
        self, tenant: TenantId, seen: Sequence[tuple[RunId, int]], *, limit: int
    ) -> list[list[HistoryEntry]]:
        return [self.run_events(tenant, one, after=after, limit=limit) for one, after in seen]


def _admits(where: RunFilter, run: Run) -> bool:
    pairs = (
        (where.job_id, run.job_id),
        (where.job_name, run.job_name),
        (where.status, run.status),
        (where.result, run.result),
        (where.error_code, run.error and run.error.code),
        (where.mode, run.mode),
        (where.cancel_requested, run.cancel_requested),
    )
    return (
        all(wanted is None or wanted == actual for wanted, actual in pairs)
        and (where.since is None or run.created_at >= where.since)
        and (where.until is None or run.created_at < where.until)
    )
