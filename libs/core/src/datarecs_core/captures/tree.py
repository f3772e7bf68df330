"""The tree of a capture: new items, what every event of an item says, and when a barrier opens."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypedDict
from uuid import UUID

from datarecs_core.captures.facts import BarrierBroken, BarrierMet
from datarecs_core.captures.items import (
    CaptureJobId,
    CaptureTask,
    Gate,
    NewWork,
    WorkItem,
    WorkKind,
    WorkState,
)
from datarecs_core.captures.keys import claim_key, dedupe_key
from datarecs_core.captures.request import CaptureMode, CaptureRequest
from datarecs_core.values import ResourceUid, TenantId

MAX_DEPTH = 64


class EventFacts(TypedDict):
    """The fields of CaptureEvent."""

    tenant_id: TenantId
    root_job_id: CaptureJobId
    job_id: CaptureJobId
    kind: WorkKind
    connection_uid: ResourceUid
    mode: CaptureMode


def facts_of(item: WorkItem) -> EventFacts:
    return EventFacts(
        tenant_id=item.tenant_id,
        root_job_id=item.root_id,
        job_id=item.id,
        kind=item.kind,
        connection_uid=item.task.request.connection_uid,
        mode=item.task.request.mode,
    )


def new_root(
    tenant: TenantId, request: CaptureRequest, *, item_id: UUID, requested_by: str, now: datetime
) -> WorkItem:
    """The PLAN_CONNECTOR of a capture."""
    identity, task = CaptureJobId(item_id), CaptureTask(request=request)
    return WorkItem(
        id=identity,
        tenant_id=tenant,
        kind=WorkKind.PLAN_CONNECTOR,
        root_id=identity,
        task=task,
        dedupe=dedupe_key(tenant, WorkKind.PLAN_CONNECTOR, None, task),
        execution_class=request.execution.execution_class,
        lane=request.execution.lane,
        claim_key=claim_key(WorkKind.PLAN_CONNECTOR, task),
        requested_by=requested_by,
        state=WorkState.QUEUED,
        gate=Gate.OPEN,
        due_at=now,
        created_at=now,
        counters={},
    )


def new_children(
    parent: WorkItem, works: Sequence[NewWork], ids: Sequence[UUID], now: datetime
) -> Iterator[WorkItem]:
    """The children of a planner, with the ids in order."""
    for work, item_id in zip(works, ids, strict=True):
        execution = work.task.request.execution
        yield WorkItem(
            id=CaptureJobId(item_id),
            tenant_id=parent.tenant_id,
            kind=work.kind,
            parent_id=parent.id,
            root_id=parent.root_id,
            ancestors=(*parent.ancestors, parent.id),
            task=work.task,
            dedupe=dedupe_key(parent.tenant_id, work.kind, parent.id, work.task),
            execution_class=execution.execution_class,
            lane=execution.lane,
            claim_key=claim_key(work.kind, work.task),
            pinned_executor=work.pinned_executor,
            requested_by=parent.requested_by,
            state=WorkState.QUEUED,
            gate=Gate.BARRIER if work.is_barrier else Gate.OPEN,
            due_at=now,
            created_at=now,
            counters={},
        )


def faults_of(parent: WorkItem, works: Sequence[NewWork]) -> list[str]:
    """Why these cannot be the children of the item."""
    faults = [fault for work in works if (fault := _fault(work)) is not None]
    if works and len(parent.ancestors) + 1 >= MAX_DEPTH:
        faults.append(f"the tree is deeper than {MAX_DEPTH}")
    if sum(work.is_barrier for work in works) > 1:
        faults.append("more than one child waits at the barrier")
    return faults


def barrier_fact(states: Mapping[WorkState, int]) -> BarrierMet | BarrierBroken:
    """What the barrier learns when all of its siblings have ended.

    Args:
        states: of the siblings, without the item at the barrier.
    """
    incomplete = states.get(WorkState.FAILED, 0) + states.get(WorkState.CANCELLED, 0)
    return BarrierBroken(incomplete=incomplete) if incomplete else BarrierMet()


_NEEDED: Mapping[WorkKind, tuple[str, ...]] = {
    WorkKind.PLAN_CONNECTOR: (),
    WorkKind.PLAN_TABLE: ("object",),
    WorkKind.PLAN_VIEW: ("object",),
    WorkKind.PLAN_SNAPSHOT: ("table_id",),
    WorkKind.EXEC_FILE_GROUP: ("table_id", "snapshot_id", "plan_key", "group"),
    WorkKind.FINALIZE_SNAPSHOT_CAPTURE: ("table_id", "snapshot_id", "plan_key"),
}


def _fault(work: NewWork) -> str | None:
    missing = [name for name in _NEEDED[work.kind] if getattr(work.task, name) is None]
    if work.kind is WorkKind.PLAN_CONNECTOR:
        return "PLAN_CONNECTOR is a root"
    return f"{work.kind} has no {', '.join(missing)}" if missing else None
