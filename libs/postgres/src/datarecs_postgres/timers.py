"""The rows of `run_timer`: facts that come by themselves when their time has come."""

from datetime import datetime

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from datarecs_core.values import RunId
from datarecs_postgres.session import Session
from datarecs_postgres.tables.runs import RUN_TIMER


class PostgresRunTimers:
    """Port RunTimers. Written under the run's row lock, so rows need none of their own."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, run_id: RunId, reason: str, due_at: datetime) -> None:
        row = insert(RUN_TIMER).values(
            tenant_id=self._session.tenant_id, run_id=run_id, reason=reason, due_at=due_at
        )
        self._session.execute(
            row.on_conflict_do_update(
                index_elements=["tenant_id", "run_id", "reason"],
                set_={"due_at": row.excluded.due_at, "claimed_until": None},
            ).inline()
        )

    def drop(self, run_id: RunId, *reasons: str) -> None:
        which = [RUN_TIMER.c.reason.in_(reasons)] if reasons else []
        self._session.execute(delete(RUN_TIMER).where(*self._of(run_id), *which))

    def due(self, run_id: RunId, reason: str) -> bool:
        found = self._session.execute(
            select(RUN_TIMER.c.due_at <= func.clock_timestamp()).where(
                *self._of(run_id), RUN_TIMER.c.reason == reason
            )
        ).scalar()
        return bool(found)

    def _of(self, run_id: RunId) -> tuple[ColumnElement[bool], ...]:
        return (self._session.own(RUN_TIMER), RUN_TIMER.c.run_id == run_id)
