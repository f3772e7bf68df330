"""Twin of `schedule_state` and `schedule_tick`, and the claim of due schedules."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from datarecs_application.ports.schedules import DecidedTick, ScheduleState
from datarecs_core.values import ResourceUid, RunId, TenantId
from datarecs_memory.scope import Scope
from datarecs_memory.store import MemoryStore

HOLD = timedelta(seconds=12)
"""Duration of a claim."""


class MemorySchedules:
    """Port Schedules."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def decide_soon(self, uid: ResourceUid) -> None:
        state = self.state(uid) or ScheduleState(uid=uid)
        self._scope.state.schedules[uid] = replace(state, due_at=self._scope.now)
        self._scope.wake()

    def for_update(self, *uids: ResourceUid) -> Mapping[ResourceUid, ScheduleState]:
        return {uid: state for uid in uids if (state := self.state(uid)) is not None}

    def save(self, state: ScheduleState) -> None:
        self._scope.state.schedules[state.uid] = state

    def record(self, uid: ResourceUid, ticks: Sequence[DecidedTick]) -> None:
        for each in ticks:
            stored = replace(each, at=self._scope.now)
            self._scope.state.ticks.setdefault((uid, each.tick.fire_time), stored)

    def ticks(
        self, uid: ResourceUid, *, limit: int, before: datetime | None = None
    ) -> list[DecidedTick]:
        ticks = [
            each
            for (owner, at), each in self._scope.state.ticks.items()
            if owner == uid and (before is None or at < before)
        ]
        return sorted(ticks, key=lambda each: each.tick.fire_time, reverse=True)[:limit]

    def state(self, uid: ResourceUid) -> ScheduleState | None:
        return self._scope.state.schedules.get(uid)

    def active_runs(self, *uids: ResourceUid) -> Mapping[ResourceUid, Sequence[RunId]]:
        runs, active = self._scope.state.runs.values(), defaultdict[ResourceUid, list[RunId]](list)
        for run in sorted(runs, key=lambda run: (run.created_at, run.run_id)):
            uid = run.schedule_uid
            if uid is not None and uid in uids and not run.status.is_terminal:
                active[ResourceUid(uid)].append(run.run_id)
        return active


def claim_schedules(store: MemoryStore, limit: int) -> list[tuple[TenantId, ResourceUid]]:
    """Of WorkFinder."""
    now = store.clock.now()
    with store.writing_all() as tenants:
        waiting = [
            sorted(
                (state.due_at, tenant, uid)
                for uid, state in rows.schedules.items()
                if state.due_at is not None and state.due_at <= now
            )
            for tenant, rows in tenants.items()
        ]
        share = -(-limit // max(sum(map(bool, waiting)), 1))
        due = sorted(one for rows in waiting for one in rows[:share])[:limit]
        for _, tenant, uid in due:
            rows = tenants[tenant].schedules
            rows[uid] = replace(rows[uid], due_at=now + HOLD)
    return [(tenant, uid) for _, tenant, uid in due]


def decide_schedules_again(store: MemoryStore, tzdata: str) -> int:
    """Of WorkFinder."""
    now, made = store.clock.now(), 0
    with store.writing_all() as tenants:
        for rows in tenants.values():
            for uid, state in rows.schedules.items():
                if state.due_at is not None and state.tzdata not in {"", tzdata}:
                    rows.schedules[uid] = replace(state, due_at=min(state.due_at, now))
                    made += 1
    return made
