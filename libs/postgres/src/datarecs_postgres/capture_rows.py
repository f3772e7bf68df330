"""A work item of captures as a row of `capture_work`, and back."""

from collections import namedtuple
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from datarecs_core.captures.items import (
    CaptureJobId,
    CaptureTask,
    Gate,
    RetryClass,
    WorkError,
    WorkItem,
    WorkKind,
    WorkState,
)
from datarecs_core.captures.request import (
    CaptureMode,
    CapturePolicy,
    CaptureRequest,
    CaptureScope,
    ExecutionClass,
    ExecutionPolicy,
    SnapshotChoice,
    SnapshotSelection,
)
from datarecs_core.documents import from_document, to_document
from datarecs_core.errors.captures import CaptureCode
from datarecs_core.values import ResourceUid, TenantId, aware
from datarecs_postgres.tables.captures import CAPTURE_WORK

_Row = namedtuple("_Row", CAPTURE_WORK.c.keys())  # type: ignore[misc]  # noqa: PYI024  the table's columns
_PLAIN = (
    *("due_at", "attempt", "releases", "epoch", "executor", "lease_until", "deadline_at"),
    *("waits_since", "started_at", "finished_at", "cancel_requested_at", "cancelled_by"),
    *("cancel_reason", "children_final", "outcome_sha256", "outcome_epoch", "message"),
)
"""Changing fields that are stored as they are."""
MUTABLE = (*("state", "gate", *_PLAIN, "error_code", "error_message", "error_retry", "counters"),)
"""Columns that a change writes; the others never change after the insert."""
_TIMES = (
    *("lease_until", "deadline_at", "waits_since", "started_at", "finished_at"),
    "cancel_requested_at",
)
_COUNTS = ("attempt", "releases", "epoch", "children_final", "outcome_epoch")
_TEXTS = ("executor", "cancelled_by", "cancel_reason", "outcome_sha256", "message")


def row_of(item: WorkItem) -> Mapping[str, object]:
    """All columns of a new row."""
    return {
        "tenant_id": item.tenant_id,
        "id": item.id,
        "kind": item.kind.value,
        "parent_id": item.parent_id,
        "root_id": item.root_id,
        "ancestors": list(item.ancestors),
        "task": to_document(item.task),
        "connection_uid": item.task.request.connection_uid,
        "dedupe": item.dedupe,
        "execution_class": item.execution_class.value,
        "lane": item.lane,
        "claim_key": item.claim_key,
        "pinned_executor": item.pinned_executor or "",
        "requested_by": item.requested_by,
        "created_at": item.created_at,
        **changes_of(item),
    }


def changes_of(item: WorkItem) -> dict[str, object]:
    """The columns that a change writes."""
    error = item.error
    return {
        **{name: getattr(item, name) for name in _PLAIN},
        "state": item.state.value,
        "gate": item.gate.value,
        "error_code": None if error is None else error.code,
        "error_message": None if error is None else error.message,
        "error_retry": None if error is None else error.retry.value,
        "counters": dict(item.counters),
    }


def item_of(columns: tuple[Any, ...]) -> WorkItem:
    """The item of a row.

    A task that this release cannot read gives an item with the error MISSING_DEFINITION, so that
    the item can end and its tree with it.
    """
    row: Any = _Row._make(columns)
    task, error = _task_of(row)
    same: dict[str, Any] = {name: getattr(row, name) for name in (*_COUNTS, *_TEXTS)}
    times: dict[str, Any] = {name: _instant(getattr(row, name)) for name in _TIMES}
    return WorkItem(
        id=CaptureJobId(row.id),
        tenant_id=TenantId(row.tenant_id),
        kind=WorkKind(row.kind),
        parent_id=None if row.parent_id is None else CaptureJobId(row.parent_id),
        root_id=CaptureJobId(row.root_id),
        ancestors=tuple(CaptureJobId(one) for one in row.ancestors),
        task=task,
        dedupe=row.dedupe,
        execution_class=ExecutionClass(row.execution_class),
        lane=row.lane,
        claim_key=row.claim_key,
        pinned_executor=row.pinned_executor or None,
        requested_by=row.requested_by,
        state=WorkState(row.state),
        gate=Gate(row.gate),
        due_at=aware(row.due_at),
        created_at=aware(row.created_at),
        error=error,
        counters=row.counters,
        **times,
        **same,
    )


def _task_of(row: Any) -> tuple[CaptureTask, WorkError | None]:  # noqa: ANN401  a row
    try:
        return from_document(CaptureTask, row.task), _error_of(row)
    except ValueError as cause:
        error = WorkError(
            code=CaptureCode.MISSING_DEFINITION.name,
            message=f"the stored definition cannot be read: {cause}",
            retry=RetryClass.TERMINAL,
        )
        return _unreadable(row), error


def _unreadable(row: Any) -> CaptureTask:  # noqa: ANN401  a row
    """A task that says only what the events of the item say."""
    return CaptureTask(
        request=CaptureRequest(
            connection_uid=ResourceUid(row.connection_uid),
            mode=CaptureMode.METADATA_ONLY,
            scope=CaptureScope(),
            policy=CapturePolicy(),
            selection=SnapshotSelection(kind=SnapshotChoice.CURRENT),
            execution=ExecutionPolicy(),
        )
    )


def _error_of(row: Any) -> WorkError | None:  # noqa: ANN401  a row
    if row.error_code is None:
        return None
    retry = RetryClass(row.error_retry)
    return WorkError(code=row.error_code, message=row.error_message, retry=retry)


def _instant(value: datetime | None) -> datetime | None:
    return None if value is None else aware(value)
