"""Read models for lists and live views: keyset cursors, no locks, one tenant a call."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, select, tuple_

from datarecs_application.ports.state import HistoryEntry, RunFilter
from datarecs_core.runs.model import Run
from datarecs_core.values import RunId, TenantId
from datarecs_postgres.database import Database
from datarecs_postgres.history import RunHistory
from datarecs_postgres.run_rows import from_row
from datarecs_postgres.tables.runs import RUN

HEX_DIGITS = 32


class PostgresQueries:
    """Port Queries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def runs(
        self,
        tenant: TenantId,
        where: RunFilter,
        *,
        limit: int,
        before: tuple[datetime, RunId] | None = None,
    ) -> list[Run]:
        wanted = _conditions(where)
        if before is not None:
            wanted.append(tuple_(RUN.c.created_at, RUN.c.run_id) < before)
        with self._database.transaction(tenant, read_only=True) as session:
            rows = session.execute(
                select(RUN)
                .where(session.own(RUN), *wanted)
                .order_by(RUN.c.created_at.desc(), RUN.c.run_id.desc())
                .limit(limit)
            ).mappings()
            return [from_row(_named(row)) for row in rows]

    def run(self, tenant: TenantId, run_id: RunId) -> Run | None:
        with self._database.transaction(tenant, read_only=True) as session:
            row = (
                session.execute(select(RUN).where(session.own(RUN), RUN.c.run_id == run_id))
                .mappings()
                .one_or_none()
            )
            return None if row is None else from_row(_named(row))

    def runs_with_prefix(self, tenant: TenantId, prefix: str) -> list[RunId]:
        span = _span(prefix)
        if span is None:
            return []
        with self._database.transaction(tenant, read_only=True) as session:
            found = session.execute(
                select(RUN.c.run_id)
                .where(session.own(RUN), RUN.c.run_id.between(*span))
                .order_by(RUN.c.run_id)
                .limit(2)
            ).scalars()
            return [RunId(run_id) for run_id in found]

    def run_events(
        self, tenant: TenantId, run_id: RunId, *, after: int, limit: int
    ) -> list[HistoryEntry]:
        with self._database.transaction(tenant, read_only=True) as session:
            return RunHistory(session).entries(run_id, after=after, limit=limit)


def _conditions(where: RunFilter) -> list[ColumnElement[bool]]:
    equal: dict[str, Any] = {
        "job_id": where.job_id,
        "job_name": where.job_name,
        "status": where.status,
        "result": where.result,
        "error_code": where.error_code,
        "mode": where.mode,
        "cancel_requested": where.cancel_requested,
    }
    wanted = [RUN.c[name] == value for name, value in equal.items() if value is not None]
    if where.since is not None:
        wanted.append(RUN.c.created_at >= where.since)
    if where.until is not None:
        wanted.append(RUN.c.created_at < where.until)
    return wanted


def _span(prefix: str) -> tuple[UUID, UUID] | None:
    """First and last id that starts with the text; None when no id can.

    Ids compare like their text, so a prefix is a range of the primary key.
    """
    digits = prefix.replace("-", "")
    try:
        low, high = (UUID(digits.ljust(HEX_DIGITS, end)) for end in "0f")
    except ValueError:
        return None
    canonical = str(low).startswith(prefix) and str(high).startswith(prefix)
    return (low, high) if canonical else None


def _named(row: Any) -> dict[str, Any]:  # noqa: ANN401  SQLAlchemy's row mapping, keys as text
    return {str(name): value for name, value in row.items()}
