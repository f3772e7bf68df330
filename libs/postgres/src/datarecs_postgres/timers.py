"""The rows of `run_timer`: facts that are produced at a stored time."""

from datetime import datetime

from sqlalchemy import ARRAY, Text, any_, bindparam, cast, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from datarecs_core.values import RunId
from datarecs_postgres.session import Session
from datarecs_postgres.tables.runs import RUN_TIMER

_NEW = insert(RUN_TIMER)
_PUT = _NEW.on_conflict_do_update(
    index_elements=["tenant_id", "run_id", "reason"],
    set_={"due_at": _NEW.excluded.due_at, "claimed_until": None},
).inline()
_OF_RUN = (
    RUN_TIMER.c.tenant_id == bindparam("tenant"),
    RUN_TIMER.c.run_id == bindparam("run"),
)
_REASONS = any_(cast(bindparam("reasons", type_=ARRAY(Text)), ARRAY(Text)))
_DROP_ALL = delete(RUN_TIMER).where(*_OF_RUN)
_DROP = _DROP_ALL.where(RUN_TIMER.c.reason == _REASONS)
_DUE = select(RUN_TIMER.c.due_at <= func.clock_timestamp()).where(
    *_OF_RUN, RUN_TIMER.c.reason == bindparam("reason")
)


class PostgresRunTimers:
    """Port RunTimers. Written under the run's row lock, so timer rows need no lock."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, run_id: RunId, reason: str, due_at: datetime) -> None:
        timer = {"tenant_id": self._session.tenant_id, "run_id": run_id}
        self._session.later(_PUT, {**timer, "reason": reason, "due_at": due_at})

    def drop(self, run_id: RunId, *reasons: str) -> None:
        run = {"tenant": self._session.tenant_id, "run": run_id}
        if reasons:
            self._session.later(_DROP, {**run, "reasons": [str(one) for one in reasons]})
        else:
            self._session.later(_DROP_ALL, run)

    def due(self, run_id: RunId, reason: str) -> bool:
        timer = {"tenant": self._session.tenant_id, "run": run_id, "reason": reason}
        row = self._session.answer(_DUE, timer).fetchone()
        return row is not None and bool(row[0])
