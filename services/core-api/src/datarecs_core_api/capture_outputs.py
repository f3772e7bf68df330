"""Responses about captures, as published models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from datarecs_application.ports.state import Transaction
from datarecs_core.captures.document import document_of
from datarecs_core.captures.items import WorkError, WorkItem, WorkKind, WorkState
from datarecs_core.captures.naming import joined_name
from datarecs_core.captures.request import CaptureMode
from datarecs_core.errors.captures import CaptureCode
from datarecs_core.values import ResourceUid
from datarecs_core_api.outputs import Instant, JsonObject, Out
from datarecs_core_api.published_types import (
    Attempts,
    Count,
    CursorOut,
    Digits,
    Line,
    NameOut,
    Symbol,
)
from datarecs_specs.capture_shape import written_capture

MOST_CHARACTERS = 2_000


class CaptureErrorOut(Out):
    """Why a job has failed, or why its last attempt has."""

    code: Symbol
    message: Line


class CaptureJobOut(Out):
    """A job of a capture: the capture itself, or a part of it."""

    job_id: UUID
    root_id: UUID
    """Of the capture."""
    parent_id: UUID | None
    kind: WorkKind
    state: WorkState
    connection: NameOut | None
    """Null when the connection does not exist any more."""
    mode: CaptureMode
    full_rescan: bool
    object: Line | None
    """The table or view, such as `sales.orders`."""
    table_id: UUID | None
    snapshot_id: Digits | None
    group: Count | None
    """Number of the group of files, from 0."""
    requested_by: Line
    attempt: Attempts
    """Failed attempts."""
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    cancel_requested_at: Instant | None
    cancelled_by: Line | None
    cancel_reason: Line | None
    message: Line
    error: CaptureErrorOut | None
    counters: Mapping[str, Count]
    """Of this job alone."""


class CaptureJobDetailOut(CaptureJobOut):
    """A job with its request, and with the sums over everything below it."""

    detail: Literal["complete", "degraded"]
    """degraded: the stored request cannot be read, so it is null, and mode is unknown."""
    request: JsonObject | None
    """As a body of `POST /capture-jobs`, without defaults."""
    totals: Mapping[str, Count]
    """Counters of the job and everything below it."""


class CaptureStartedOut(Out):
    """The job that captures it."""

    job_id: UUID
    state: WorkState
    deduped: bool
    """True: an equal capture was already on its way, and this is its job."""


class CaptureNowOut(Out):
    """A capture that a request waited for."""

    job: CaptureJobDetailOut
    timed_out: bool
    """True: it had not ended in time; it is cancelled, unless it is `deduped`."""
    deduped: bool
    """True: an equal capture was already on its way; it is not cancelled."""


class CaptureTreeItemOut(CaptureJobOut):
    """A job at its place in the tree."""

    depth: Count
    """0 is the requested job."""


class CaptureTreeOut(Out):
    """A page of a tree: parents before children."""

    items: list[CaptureTreeItemOut]
    next: CursorOut | None = None
    """Cursor of the following page; null on the last page."""


@dataclass(frozen=True, slots=True)
class JobViews:
    """Views of jobs, of one transaction; the name of a connection is read once."""

    tx: Transaction
    _names: dict[ResourceUid, str | None] = field(default_factory=dict)

    def job(self, item: WorkItem) -> CaptureJobOut:
        return CaptureJobOut(**_members(item, self._connection(item)))

    def at_depth(self, item: WorkItem, *, top: WorkItem) -> CaptureTreeItemOut:
        depth = len(item.ancestors) - len(top.ancestors)
        return CaptureTreeItemOut(**_members(item, self._connection(item)), depth=depth)

    def _connection(self, item: WorkItem) -> str | None:
        uid = item.task.request.connection_uid
        if uid not in self._names:
            connection = self.tx.resources.get_by_uid(uid)
            self._names[uid] = None if connection is None else connection.name
        return self._names[uid]


def detail_view(tx: Transaction, item: WorkItem) -> CaptureJobDetailOut:
    job = JobViews(tx).job(item)
    is_readable = item.error is None or item.error.code != CaptureCode.MISSING_DEFINITION.name
    request = None
    if is_readable:
        request = written_capture(document_of(item.task.request, job.connection or ""))
    return CaptureJobDetailOut(
        **job.model_dump(),
        detail="complete" if is_readable else "degraded",
        request=request,
        totals=tx.capture_work.counters_below(item.id),
    )


def _members(item: WorkItem, connection: str | None) -> Mapping[str, Any]:
    task, name = item.task, item.task.object
    return {
        "job_id": item.id,
        "root_id": item.root_id,
        "parent_id": item.parent_id,
        "kind": item.kind,
        "state": item.state,
        "connection": connection,
        "mode": task.request.mode,
        "full_rescan": task.request.is_full_rescan,
        "object": None if name is None else joined_name((*name.namespace, name.name)),
        "table_id": task.table_id,
        "snapshot_id": None if task.snapshot_id is None else str(task.snapshot_id),
        "group": task.group,
        "requested_by": item.requested_by,
        "attempt": item.attempt,
        "created_at": item.created_at,
        "started_at": item.started_at,
        "finished_at": item.finished_at,
        "cancel_requested_at": item.cancel_requested_at,
        "cancelled_by": item.cancelled_by,
        "cancel_reason": item.cancel_reason,
        "message": item.message[:MOST_CHARACTERS],
        "error": _error_view(item.error),
        "counters": item.counters,
    }


def _error_view(error: WorkError | None) -> CaptureErrorOut | None:
    if error is None:
        return None
    return CaptureErrorOut(code=error.code, message=error.message[:MOST_CHARACTERS])
