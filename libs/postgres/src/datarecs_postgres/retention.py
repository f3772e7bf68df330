"""The rows of `retention_state`, and removal of what retention policies select."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BindParameter,
    CursorResult,
    DateTime,
    Row,
    Select,
    TextClause,
    Uuid,
    bindparam,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, insert

from datarecs_application.ports.retention import Examined, Place, Selection, SweepState
from datarecs_core.retention.policy import Target
from datarecs_core.values import ResourceUid, aware
from datarecs_postgres.session import Session
from datarecs_postgres.statements import statement
from datarecs_postgres.tables.retention import RETENTION_STATE

_STATE = RETENTION_STATE.c
_BEFORE_ALL = Place(datetime(1, 1, 2, tzinfo=UTC), UUID(int=0))
_INSTANT = DateTime(timezone=True)
_EXAMINE = {
    Target.RUNS: "runs",
    Target.DIFFERENCES: "runs",
    Target.MAILS: "mails",
    Target.TICKS: "ticks",
}


class PostgresRetention:
    """Port Retention."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def sweep_soon(self, uid: ResourceUid) -> None:
        row = {"tenant_id": self._session.tenant_id, "policy_uid": uid, "due_at": func.now()}
        self._session.execute(
            insert(RETENTION_STATE)
            .values(row)
            .on_conflict_do_update(
                index_elements=["tenant_id", "policy_uid"], set_={"due_at": func.now()}
            )
        )
        self._session.wake()

    def for_update(self, uid: ResourceUid) -> SweepState | None:
        row = self._session.execute(self._of(uid).with_for_update()).one_or_none()
        return None if row is None else _state_of(row)

    def save(self, state: SweepState) -> None:
        self._session.execute(
            update(RETENTION_STATE)
            .where(self._session.tenant_rows(RETENTION_STATE), _STATE.policy_uid == state.uid)
            .values(
                due_at=state.due_at,
                generation=state.generation,
                target=state.target,
                place_at=state.place and state.place.at,
                place_id=state.place and state.place.id,
                counts=dict(state.counts),
            )
        )

    def examine(self, selection: Selection, *, after: Place | None, limit: int) -> Examined:
        begin = after or _BEFORE_ALL
        values: dict[str, object] = {
            "tenant": self._session.tenant_id,
            "before": selection.before,
            "after_at": begin.at,
            "after_id": begin.id,
            "most": limit,
            "namespace": selection.namespace,
            "labels": dict(selection.job_labels),
        }
        if selection.target is not Target.TICKS:
            values["deleted_jobs"] = selection.deleted_jobs
        if selection.target in (Target.RUNS, Target.DIFFERENCES):
            values["whole"] = selection.target is Target.RUNS
            values["keep_last"] = selection.keep_last
        query = statement("retention", _EXAMINE[selection.target])
        rows = self._session.execute(_bound(query, values)).all()
        places = [Place(aware(row.at), row.id) for row in rows]
        due = [place for place, row in zip(places, rows, strict=True) if row.is_due]
        return Examined(due=due, last=places[-1] if len(places) == limit else None)

    def remove(self, target: Target, places: Sequence[Place]) -> int:
        if not places:
            return 0
        ids = [place.id for place in places]
        match target:
            case Target.RUNS:
                self._run("remove_links", ids=ids)
                return self._run("remove_runs", ids=ids).rowcount
            case Target.DIFFERENCES:
                return self._run("mark_runs", ids=ids).rowcount
            case Target.MAILS:
                return int(self._run("remove_mails", ids=ids).scalar_one())
            case Target.TICKS:
                times = [place.at for place in places]
                return self._run("remove_ticks", ids=ids, times=times).rowcount

    def _run(self, name: str, **values: object) -> CursorResult[Any]:
        values["tenant"] = self._session.tenant_id
        return self._session.execute(_bound(statement("retention", name), values))

    def _of(self, uid: ResourceUid) -> Select[Any]:
        return select(RETENTION_STATE).where(
            self._session.tenant_rows(RETENTION_STATE), _STATE.policy_uid == uid
        )


_TYPES: dict[str, Any] = {
    "tenant": Uuid(),
    "before": _INSTANT,
    "after_at": _INSTANT,
    "after_id": Uuid(),
    "labels": JSONB(),
    "ids": ARRAY(Uuid()),
    "times": ARRAY(_INSTANT),
}


def _bound(query: TextClause, values: dict[str, object]) -> TextClause:
    """The statement with typed values."""
    parameters: list[BindParameter[Any]] = [
        bindparam(name, value, type_=_TYPES.get(name)) for name, value in values.items()
    ]
    return query.bindparams(*parameters)


def _state_of(row: Row[Any]) -> SweepState:
    return SweepState(
        uid=ResourceUid(row.policy_uid),
        due_at=None if row.due_at is None else aware(row.due_at),
        generation=row.generation,
        target=None if row.target is None else Target(row.target),
        place=None if row.place_at is None else Place(aware(row.place_at), row.place_id),
        counts={name: int(count) for name, count in row.counts.items()},
    )
