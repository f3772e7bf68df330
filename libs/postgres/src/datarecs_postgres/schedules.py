"""The rows of `schedule_state` and `schedule_tick`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, func, select, update
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.ports.schedules import DecidedTick, ScheduleState
from datarecs_core.scheduling.schedule import Tick, TickOutcome
from datarecs_core.values import ResourceUid, RunId, aware
from datarecs_postgres.session import Session, Woken
from datarecs_postgres.tables.runs import RUN
from datarecs_postgres.tables.schedules import SCHEDULE_STATE, SCHEDULE_TICK

_STATE, _TICK = SCHEDULE_STATE.c, SCHEDULE_TICK.c


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

    def for_update(self, uid: ResourceUid) -> ScheduleState | None:
        return self._one(self._of(uid).with_for_update())

    def state(self, uid: ResourceUid) -> ScheduleState | None:
        return self._one(self._of(uid))

    def save(self, state: ScheduleState) -> None:
        self._session.execute(
            update(SCHEDULE_STATE)
            .where(self._session.tenant_rows(SCHEDULE_STATE), _STATE.schedule_uid == state.uid)
            .values(
                due_at=state.due_at,
                times=state.times,
                last_fire_time=state.last_fire_time,
                is_suspended=state.is_suspended,
                waiting=state.waiting,
                tzdata=state.tzdata,
            )
        )

    def record(self, uid: ResourceUid, ticks: Sequence[DecidedTick]) -> None:
        rows = [
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
            }
            for each in ticks
        ]
        if rows:
            self._session.execute(insert(SCHEDULE_TICK).values(rows).on_conflict_do_nothing())

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

    def active_runs(self, uid: ResourceUid) -> list[RunId]:
        rows = self._session.execute(
            select(RUN.c.run_id)
            .where(
                self._session.tenant_rows(RUN),
                RUN.c.schedule_uid == uid,
                RUN.c.closed_at.is_(None),
            )
            .order_by(RUN.c.created_at, RUN.c.run_id)
        )
        return [RunId(row.run_id) for row in rows]

    def _of(self, uid: ResourceUid) -> Select[Any]:
        return select(SCHEDULE_STATE).where(
            self._session.tenant_rows(SCHEDULE_STATE), _STATE.schedule_uid == uid
        )

    def _one(self, query: Select[Any]) -> ScheduleState | None:
        row = self._session.execute(query).one_or_none()
        return None if row is None else _state_of(row)


def _state_of(row: Row[Any]) -> ScheduleState:
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
