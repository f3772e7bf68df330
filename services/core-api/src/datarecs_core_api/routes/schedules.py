"""What a stored schedule will do: its next times, and what prevents its runs."""

from typing import Annotated

from fastapi import APIRouter, Depends

from datarecs_application.ports.state import Transaction
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource
from datarecs_core.scheduling.preview import reasons_without_runs
from datarecs_core.scheduling.schedule import Schedule
from datarecs_core_api.addressing import read_resource
from datarecs_core_api.auth import needs
from datarecs_core_api.dependencies import Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.inputs import JsonBody, Namespace, NoFieldsIn, Sent
from datarecs_core_api.outputs import PreviewedTimeOut, SchedulePreviewOut
from datarecs_core_api.published_types import ObjectName
from datarecs_specs.cron_times import CronTimes
from datarecs_specs.documents import decode_stored
from datarecs_specs.kinds import KINDS

router = APIRouter(prefix="/api/v1", tags=["resources"], route_class=GuardedRoute)
SCHEDULE = KINDS[Kind.SCHEDULE]
_TIMES = CronTimes()


@router.post(f"/{SCHEDULE.path}/{{name}}/actions/preview", operation_id="preview_schedule")
def preview(
    name: ObjectName,
    caller: Annotated[Principal, needs(Permission.RESOURCE_WRITE)],
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
        has_job = _has_job(tx, resource, schedule)
    times = _TIMES.preview(schedule, created_at=resource.created_at, after=use.clock.now())
    return SchedulePreviewOut(
        times=[
            PreviewedTimeOut(fire_time=one.fire_time, local=one.local.isoformat(), note=one.note)
            for one in times
        ],
        held=[
            *reasons_without_runs(schedule, has_times=bool(times)),
            *([] if has_job else [f"namespace {resource.namespace} has no job {schedule.job}"]),
        ],
    )


def _schedule_of(resource: Resource) -> Schedule:
    schedule = decode_stored(resource.kind, resource.name, resource.spec)
    if not isinstance(schedule, Schedule):
        raise TypeError("a stored Schedule was read as another kind")
    return schedule


def _has_job(tx: Transaction, resource: Resource, schedule: Schedule) -> bool:
    kind = Kind.RECONCILIATION_JOB
    return tx.resources.get(kind, resource.namespace, schedule.job) is not None
