"""What every event of a capture says about its item."""

from typing import TypedDict

from datarecs_core.captures.items import CaptureJobId, WorkItem, WorkKind
from datarecs_core.captures.request import CaptureMode
from datarecs_core.values import ResourceUid, TenantId


class CommonFields(TypedDict):
    tenant_id: TenantId
    root_job_id: CaptureJobId
    job_id: CaptureJobId
    kind: WorkKind
    connection_uid: ResourceUid
    mode: CaptureMode


def common_fields(item: WorkItem) -> CommonFields:
    """What every event of a capture has."""
    return {
        "tenant_id": item.tenant_id,
        "root_job_id": item.root_id,
        "job_id": item.id,
        "kind": item.kind,
        "connection_uid": item.task.request.connection_uid,
        "mode": item.task.request.mode,
    }
