"""What a stored schedule does: its next times, what prevents its runs, what became of its times."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from datarecs_application.ports.schedules import DecidedTick, ScheduleState
from datarecs_application.ports.state import Transaction
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource
from datarecs_core.scheduling.preview import reasons_without_runs
from datarecs_core.scheduling.schedule import Schedule
from datarecs_core_api.addressing import read_resource
from datarecs_core_api.auth import Reader
from datarecs_core_api.conditional import json_answer
from datarecs_core_api.dependencies import Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.inputs import JsonBody, Namespace, NoFieldsIn, Sent
from datarecs_core_api.pagination import DEFAULT_LIMIT, MAX_LIMIT, Cursor, Position, next_link
from datarecs_core_api.published_types import ObjectName
from datarecs_core_api.schedule_outputs import (
    PreviewedTimeOut,
    ScheduleHistoryOut,
    SchedulePreviewOut,
    TickOut,
)
from datarecs_specs.cron_times import CronTimes
from datarecs_specs.documents import InvalidSpecError, decode_stored, job_of
from datarecs_specs.kinds import KINDS

router = APIRouter(prefix="/api/v1", tags=["resources"], route_class=GuardedRoute)
SCHEDULE = KINDS[Kind.SCHEDULE]
_TIMES = CronTimes()


@router.post(f"/{SCHEDULE.path}/{{name}}/actions/preview", operation_id="preview_schedule")
def preview(
    name: ObjectName,
    caller: Reader,
    body: Annotated[Sent[NoFieldsIn], Depends(JsonBody(NoFieldsIn))],  # noqa: ARG001  refuses fields
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> SchedulePreviewOut:
    """The next ten times, with notes about clock changes; starts nothing.

    `held` has the reasons why no run would start at these times.
    """
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        resource = read_resource(tx, SCHEDULE, name, namespace=namespace)
        schedule = _schedule_of(resource)
        of_job = _reasons_of_job(tx, resource, schedule)
    times = _TIMES.preview(schedule, created_at=resource.created_at, after=use.clock.now())
    return SchedulePreviewOut(
        times=[
            PreviewedTimeOut(fire_time=one.fire_time, local=one.local.isoformat(), note=one.note)
            for one in times
        ],
        held=[
            *reasons_without_runs(schedule, has_times=bool(times)),
            *of_job,
        ],
    )


@router.get(
    f"/{SCHEDULE.path}/{{name}}/history",
    operation_id="list_schedule_history",
    responses={200: {"model": ScheduleHistoryOut}},
)
def history(
    name: ObjectName,
    caller: Reader,
    request: Request,
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT,
    cursor: Cursor | None = None,
) -> Response:
    """The next start, the runs that have not ended, and the newest times with their outcome."""
    now = use.clock.now()
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        resource = read_resource(tx, SCHEDULE, name, namespace=namespace)
        scope, before = {"list": "history", "schedule": str(resource.uid)}, None
        if cursor is not None:
            place = use.cursors.read(cursor, tenant=caller.tenant_id, where=scope, now=now)
            before = place.created_at
        state = tx.schedules.state(resource.uid) or ScheduleState(uid=resource.uid)
        ticks = tx.schedules.ticks(resource.uid, limit=limit + 1, before=before)
        active_runs = tx.schedules.active_runs(resource.uid).get(resource.uid, ())
    following = None
    if len(ticks) > limit:
        place = Position(created_at=ticks[limit - 1].tick.fire_time, id=resource.uid)
        following = use.cursors.write(place, tenant=caller.tenant_id, where=scope, now=now)
    page = ScheduleHistoryOut(
        next_start_at=state.due_at,
        last_fire_time=state.last_fire_time,
        active_runs=list(active_runs),
        items=[_tick_view(one) for one in ticks[:limit]],
        next=following,
    )
    return json_answer(page, headers=next_link(request, page.next))


def _tick_view(stored: DecidedTick) -> TickOut:
    tick = stored.tick
    return TickOut(
        fire_time=tick.fire_time,
        outcome=tick.outcome,
        run_id=stored.run_id,
        first_fire_time=tick.first_fire_time,
        missed=tick.missed,
        reason=tick.reason,
        at=stored.at or tick.fire_time,
    )


def _schedule_of(resource: Resource) -> Schedule:
    schedule = decode_stored(resource.kind, resource.name, resource.spec)
    if not isinstance(schedule, Schedule):
        raise TypeError("a stored Schedule was read as another kind")
    return schedule


def _reasons_of_job(tx: Transaction, resource: Resource, schedule: Schedule) -> list[str]:
    """Why its job can start no run without parameters."""
    stored = tx.resources.get(Kind.RECONCILIATION_JOB, resource.namespace, schedule.job)
    if stored is None:
        return [f"namespace {resource.namespace} has no job {schedule.job}"]
    try:
        job = job_of(stored.name, stored.spec)
    except InvalidSpecError:
        return [f"this release cannot read the job {schedule.job}"]
    required = [name for name, one in job.parameters.items() if one.default is None]
    if not required:
        return []
    return [f"job {schedule.job} requires {', '.join(required)}; give the parameters defaults"]
