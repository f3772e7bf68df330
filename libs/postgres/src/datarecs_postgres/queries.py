"""Read models for lists and live views: keyset cursors, no locks, one tenant a call."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Integer,
    Select,
    Uuid,
    any_,
    bindparam,
    cast,
    func,
    select,
    true,
    tuple_,
)

from datarecs_application.ports.state import HistoryEntry, RunFilter
from datarecs_core.runs.model import Run
from datarecs_core.values import RunId, TenantId
from datarecs_postgres.database import Database
from datarecs_postgres.history import entry_of
from datarecs_postgres.run_rows import from_row
from datarecs_postgres.tables.runs import RUN, RUN_EVENT

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
        rows = self._database.query(
            tenant,
            select(RUN)
            .where(RUN.c.tenant_id == tenant, *wanted)
            .order_by(RUN.c.created_at.desc(), RUN.c.run_id.desc())
            .limit(limit),
        )
        return [from_row(row) for row in rows]

    def run(self, tenant: TenantId, run_id: RunId) -> Run | None:
        mine = select(RUN).where(RUN.c.tenant_id == tenant, RUN.c.run_id == run_id)
        rows = self._database.query(tenant, mine)
        return from_row(rows[0]) if rows else None

    def runs_with_prefix(self, tenant: TenantId, prefix: str) -> list[RunId]:
        span = _span(prefix)
        if span is None:
            return []
        rows = self._database.query(
            tenant,
            select(RUN.c.run_id)
            .where(RUN.c.tenant_id == tenant, RUN.c.run_id.between(*span))
            .order_by(RUN.c.run_id)
            .limit(2),
        )
        return [RunId(row.run_id) for row in rows]

    def run_events(
        self, tenant: TenantId, run_id: RunId, *, after: int, limit: int
    ) -> list[HistoryEntry]:
        return self.news(tenant, [(run_id, after)], limit=limit)[0]

    def runs_of(self, tenant: TenantId, run_ids: Collection[RunId]) -> Mapping[RunId, Run]:
        parameters = {"tenant": tenant, "ids": list(run_ids)}
        runs = [from_row(row) for row in self._database.query(tenant, _RUNS, parameters)]
        return {run.run_id: run for run in runs}

    def news(
        self, tenant: TenantId, seen: Sequence[tuple[RunId, int]], *, limit: int
    ) -> list[list[HistoryEntry]]:
        entries: list[list[HistoryEntry]] = [[] for _ in seen]
        parameters = {
            "tenant": tenant,
            "runs": [run_id for run_id, _ in seen],
            "afters": [after for _, after in seen],
            "limit": limit,
        }
        for row in self._database.query(tenant, _NEWS, parameters):
            entries[row.place - 1].append(entry_of(row))
        return entries


def _news() -> Select[Any]:
    """Each run's first entries above its number by one probe of the key, all runs at once."""
    runs = cast(bindparam("runs", type_=ARRAY(Uuid)), ARRAY(Uuid))
    afters = cast(bindparam("afters", type_=ARRAY(BigInteger)), ARRAY(BigInteger))
    seen = (
        func.unnest(runs, afters)
        .table_valued("run_id", "after", with_ordinality="place", name="seen")
        .render_derived()
    )
    entries = (
        select(RUN_EVENT)
        .where(
            RUN_EVENT.c.tenant_id == bindparam("tenant", type_=Uuid),
            RUN_EVENT.c.run_id == seen.c.run_id,
            RUN_EVENT.c.sequence > seen.c.after,
        )
        .order_by(RUN_EVENT.c.sequence)
        .limit(bindparam("limit", type_=Integer))
        .lateral("entries")
    )
    return (
        select(seen.c.place, entries)
        .select_from(seen.join(entries, true()))
        .order_by(seen.c.place, entries.c.sequence)
    )


_NEWS = _news()
_RUNS = select(RUN).where(
    RUN.c.tenant_id == bindparam("tenant"),
    RUN.c.run_id == any_(cast(bindparam("ids", type_=ARRAY(Uuid)), ARRAY(Uuid))),
)


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
    """First and last id that starts with the text; None if no id can.

    Ids compare like their text, so a prefix is a range of the primary key.
    """
    digits = prefix.replace("-", "")
    try:
        low, high = (UUID(digits.ljust(HEX_DIGITS, end)) for end in "0f")
    except ValueError:
        return None
    canonical = str(low).startswith(prefix) and str(high).startswith(prefix)
    return (low, high) if canonical else None
