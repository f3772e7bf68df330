"""The rows of `schedule_state` and `schedule_tick`."""

from collections import defaultdict, namedtuple
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, Row, Uuid, any_, bindparam, cast, func, select, update
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.ports.schedules import DecidedTick, ScheduleState
from datarecs_core.scheduling.schedule import Tick, TickOutcome
from datarecs_core.values import ResourceUid, RunId, aware
from datarecs_postgres.session import Session, Woken
from datarecs_postgres.tables.runs import RUN
from datarecs_postgres.tables.schedules import SCHEDULE_STATE, SCHEDULE_TICK

_STATE, _TICK = SCHEDULE_STATE.c, SCHEDULE_TICK.c
_Row = namedtuple("_Row", _STATE.keys())  # type: ignore[misc]  # noqa: PYI024  the table's columns
_UIDS = any_(cast(bindparam("uids", type_=ARRAY(Uuid)), ARRAY(Uuid)))
_STATES = select(SCHEDULE_STATE).where(
    _STATE.tenant_id == bindparam("of_tenant"), _STATE.schedule_uid == _UIDS
)
_LOCKED = _STATES.order_by(_STATE.schedule_uid).with_for_update()
_SAVE = update(SCHEDULE_STATE).where(
    _STATE.tenant_id == bindparam("of_tenant"), _STATE.schedule_uid == bindparam("of_uid")
)
"""Sets the named columns."""
_RECORD = insert(SCHEDULE_TICK).on_conflict_do_nothing().inline()
_ACTIVE = (
    select(RUN.c.schedule_uid, RUN.c.run_id)
    .where(
        RUN.c.tenant_id == bindparam("of_tenant"),
        RUN.c.schedule_uid == _UIDS,
        RUN.c.closed_at.is_(None),
    )
    .order_by(RUN.c.created_at, RUN.c.run_id)
)


class PostgresSchedules:
    """Port Schedules."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def decide_soon(self, uid: ResourceUid) -> None:
        row = {"tenant_id": self._session.tenant_id, "schedule_uid": uid, "due_at": func.now()}
        self._session.execute(
            insert(SCHEDULE_STATE)
            .values(row)
            .on_conflict_do_update(
                index_elements=["tenant_id", "schedule_uid"], set_={"due_at": func.now()}
            )
        )
        self._session.wake(Woken.OBJECTS)

    def for_update(self, *uids: ResourceUid) -> Mapping[ResourceUid, ScheduleState]:
        rows = self._session.answer(_LOCKED, self._of(uids)).fetchall()
        return {state.uid: state for state in map(_state_of, rows)}

    def state(self, uid: ResourceUid) -> ScheduleState | None:
        row = self._session.answer(_STATES, self._of((uid,))).fetchone()
        return None if row is None else _state_of(row)

    def save(self, state: ScheduleState) -> None:
        self._session.later(
            _SAVE,
            {
                "of_tenant": self._session.tenant_id,
                "of_uid": state.uid,
                "due_at": state.due_at,
                "times": state.times,
                "last_fire_time": state.last_fire_time,
                "is_suspended": state.is_suspended,
                "waiting": state.waiting,
                "tzdata": state.tzdata,
            },
        )

    def record(self, uid: ResourceUid, ticks: Sequence[DecidedTick]) -> None:
        for each in ticks:
            self._session.later(
                _RECORD,
                {
                    "tenant_id": self._session.tenant_id,
                    "schedule_uid": uid,
                    "fire_time": each.tick.fire_time,
                    "outcome": each.tick.outcome.value,
                    "run_id": each.run_id,
                    "first_fire_time": each.tick.first_fire_time,
                    "missed": each.tick.missed,
                    "reason": each.tick.reason,
                    "tzdata": each.tzdata,
                },
            )

    def ticks(
        self, uid: ResourceUid, *, limit: int, before: datetime | None = None
    ) -> list[DecidedTick]:
        query = (
            select(SCHEDULE_TICK)
            .where(self._session.tenant_rows(SCHEDULE_TICK), _TICK.schedule_uid == uid)
            .order_by(_TICK.fire_time.desc())
            .limit(limit)
        )
        if before is not None:
            query = query.where(_TICK.fire_time < before)
        return [_tick_of(row) for row in self._session.execute(query)]

    def active_runs(self, *uids: ResourceUid) -> Mapping[ResourceUid, Sequence[RunId]]:
        active = defaultdict[ResourceUid, list[RunId]](list)
        for uid, run_id in self._session.answer(_ACTIVE, self._of(uids)):
            active[ResourceUid(uid)].append(RunId(run_id))
        return active

    def _of(self, uids: Collection[ResourceUid]) -> dict[str, object]:
        return {"of_tenant": self._session.tenant_id, "uids": list(uids)}


def _state_of(columns: tuple[Any, ...]) -> ScheduleState:
    row: Any = _Row._make(columns)
    return ScheduleState(
        uid=ResourceUid(row.schedule_uid),
        due_at=_instant(row.due_at),
        times=row.times,
        last_fire_time=_instant(row.last_fire_time),
        is_suspended=row.is_suspended,
        waiting=_instant(row.waiting),
        tzdata=row.tzdata,
    )


def _tick_of(row: Row[Any]) -> DecidedTick:
    return DecidedTick(
        tick=Tick(
            fire_time=aware(row.fire_time),
            outcome=TickOutcome(row.outcome),
            first_fire_time=_instant(row.first_fire_time),
            missed=row.missed,
            reason=row.reason,
        ),
        run_id=None if row.run_id is None else RunId(row.run_id),
        tzdata=row.tzdata,
        at=aware(row.at),
    )


def _instant(value: datetime | None) -> datetime | None:
    return None if value is None else aware(value)
