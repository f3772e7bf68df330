"""Captures: start, wait for, list, read, cancel and release them."""

import json
from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.convertors import StringConvertor, register_url_convertor

from datarecs_application.capturing import queue
from datarecs_application.capturing.reading import PAGE, tree_page
from datarecs_application.ports.capturing import WorkFilter
from datarecs_application.ports.state import AuditEntry, Transaction
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.captures.document import CaptureDocument
from datarecs_core.captures.items import CaptureJobId, WorkItem, WorkKind, WorkState
from datarecs_core.errors.captures import CaptureCode, CaptureEndedError
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource
from datarecs_core_api.addressing import read_resource
from datarecs_core_api.audit import asker
from datarecs_core_api.auth import Reader, needs
from datarecs_core_api.capture_bodies import (
    CancelCaptureIn,
    CaptureBody,
    SentCapture,
    ended_within,
)
from datarecs_core_api.capture_outputs import (
    CaptureJobDetailOut,
    CaptureJobOut,
    CaptureNowOut,
    CaptureStartedOut,
    CaptureTreeOut,
    JobViews,
    detail_view,
)
from datarecs_core_api.conditional import json_answer
from datarecs_core_api.dependencies import Ports, Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.idempotency import Answer, once
from datarecs_core_api.inputs import (
    JsonBody,
    Name,
    Namespace,
    NoFieldsIn,
    Sent,
    canonical_uuid,
)
from datarecs_core_api.limits import refuse_open_captures
from datarecs_core_api.outputs import Page
from datarecs_core_api.pagination import DEFAULT_LIMIT, MAX_LIMIT, Cursor, Position, next_link
from datarecs_core_api.problems import ProblemError, not_found
from datarecs_core_api.published_types import CaptureIdPath
from datarecs_core_api.transactions import repeated
from datarecs_specs.kinds import KINDS


class _NotNow(StringConvertor):
    """An id; `now` is a path with a method of its own, and no capture that could be read."""

    regex = "(?!now$)[^/]+"


register_url_convertor("not_now", _NotNow())
router = APIRouter(prefix="/api/v1", tags=["captures"], route_class=GuardedRoute)
Trigger = Annotated[Principal, needs(Permission.CAPTURE_TRIGGER)]
MaxWait = Annotated[
    int,
    Query(ge=1, le=60, description="Seconds to wait for the end, at most 60."),
]
ACCEPTED = 202
CAPTURES = "/capture-jobs"


@router.post(
    CAPTURES,
    status_code=ACCEPTED,
    operation_id="start_capture",
    responses={202: {"model": CaptureStartedOut}, 200: {"model": CaptureStartedOut}, 404: {}},
)
def start(
    caller: Trigger,
    request: Request,
    body: Annotated[SentCapture, Depends(CaptureBody())],
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> Response:
    """Start a capture. 202 with its job; 200 with the job of an equal one that has not ended."""
    return _started(use, caller, request, body, namespace)


@router.post(
    f"{CAPTURES}/now",
    status_code=200,
    operation_id="start_capture_now",
    responses={200: {"model": CaptureNowOut}, 404: {}},
)
async def now(
    caller: Trigger,
    request: Request,
    body: Annotated[SentCapture, Depends(CaptureBody())],
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
    max_wait: MaxWait = 10,
) -> Response:
    """Start a capture and wait for its end.

    One that has not ended in time, or when the client disconnects, is cancelled. A capture that
    another request started goes on.
    """
    answer = await run_in_threadpool(_started, use, caller, request, body, namespace)
    begun = json.loads(bytes(answer.body))
    job_id = CaptureJobId(UUID(begun["job_id"]))
    limit = timedelta(seconds=max_wait)
    job = await ended_within(
        use, caller.tenant_id, job_id, limit=limit, is_gone=request.is_disconnected
    )
    shown = await run_in_threadpool(
        _after_wait, use, caller, request, job, is_deduped=begun["deduped"]
    )
    headers = {name: text for name, text in answer.headers.items() if name.startswith("idem")}
    return json_answer(shown, headers=headers)


def _started(
    use: Ports, caller: Principal, request: Request, body: SentCapture, namespace: str
) -> Response:
    def act(tx: Transaction, _key: str | None) -> Answer:
        connection = _connection(tx, body.value, namespace)
        wanted = body.value.request(connection.uid)
        added = queue.enqueue_root(tx, use.ids, wanted, requested_by=caller.subject)
        if added.is_new:
            refuse_open_captures(tx, use.limits)
        job = tx.capture_work.get(added.id)
        detail = {
            "connection": connection.name,
            "namespace": connection.namespace,
            "mode": wanted.mode.value,
            "deduped": str(not added.is_new).lower(),
        }
        _audit(tx, request, caller, added.id, action="capture.start", detail=detail)
        return Answer(
            status=ACCEPTED if added.is_new else 200,
            body=CaptureStartedOut(
                job_id=added.id,
                state=WorkState.QUEUED if job is None else job.state,
                deduped=not added.is_new,
            ),
            headers={"Location": f"/api/v1{CAPTURES}/{added.id}"},
        )

    return once(request, body.canonical, unit=use.unit, caller=caller, act=act)


def _connection(tx: Transaction, capture: CaptureDocument, namespace: str) -> Resource:
    """Raises ProblemError (404) for a connection that is deleted or being deleted."""
    entry = KINDS[Kind.CONNECTION]
    connection = read_resource(tx, entry, capture.connection, namespace=namespace)
    if connection.deletion_at is not None:
        raise not_found(str(entry.kind))
    return connection


def _after_wait(
    use: Ports, caller: Principal, request: Request, job: WorkItem | None, *, is_deduped: bool
) -> CaptureNowOut:
    """The job at the end of the wait; one that is late is cancelled."""
    if job is None:
        raise _no_capture()

    def act(tx: Transaction) -> CaptureNowOut:
        is_late = not job.has_ended
        if is_late and not is_deduped:
            try:
                _cancelled(tx, request, caller, job.id, reason="it took longer than max_wait")
            except CaptureEndedError:  # meanwhile
                is_late = False
        last = tx.capture_work.get(job.id) or job
        return CaptureNowOut(job=detail_view(tx, last), timed_out=is_late, deduped=is_deduped)

    return repeated(use.unit, caller.tenant_id, act, feed=True)


@router.get(
    CAPTURES,
    operation_id="list_capture_jobs",
    responses={200: {"model": Page[CaptureJobOut]}, 404: {}},
)
def list_captures(
    caller: Reader,
    request: Request,
    use: Using,
    connection: Name | None = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
    state: WorkState | None = None,
    kind: WorkKind | None = None,
    *,
    roots_only: bool = False,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT,
    cursor: Cursor | None = None,
) -> Response:
    """Captures and their parts, newest first; `namespace` is that of the connection."""
    time = use.clock.now()
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        uid = None
        if connection is not None:
            entry = KINDS[Kind.CONNECTION]
            uid = str(read_resource(tx, entry, connection, namespace=namespace).uid)
        where = WorkFilter(
            connection_uid=uid,
            states=() if state is None else (state,),
            kinds=() if kind is None else (kind,),
            roots_only=roots_only,
        )
        scope, before = {"list": "captures", "where": repr(where)}, None
        if cursor is not None:
            place = use.cursors.read(cursor, tenant=caller.tenant_id, where=scope, now=time)
            before = (place.created_at, CaptureJobId(place.id))
        jobs = tx.capture_work.matching(where, before=before, limit=limit + 1)
        views = JobViews(tx)
        items = [views.job(item) for item in jobs[:limit]]
    following = None
    if len(jobs) > limit:
        last = jobs[limit - 1]
        place = Position(created_at=last.created_at, id=last.id)
        following = use.cursors.write(place, tenant=caller.tenant_id, where=scope, now=time)
    page = Page(items=items, next=following)
    return json_answer(page, headers=next_link(request, page.next))


@router.get(f"{CAPTURES}/{{job_id:not_now}}", operation_id="get_capture_job")
def get_capture(job_id: CaptureIdPath, caller: Reader, use: Using) -> CaptureJobDetailOut:
    """A job with the sums over everything below it."""
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        return detail_view(tx, _known(tx, job_id))


@router.get(
    f"{CAPTURES}/{{job_id}}/tree",
    operation_id="get_capture_tree",
    responses={200: {"model": CaptureTreeOut}},
)
def get_tree(
    job_id: CaptureIdPath,
    caller: Reader,
    request: Request,
    use: Using,
    limit: Annotated[int, Query(ge=1, le=PAGE)] = PAGE,
    cursor: Cursor | None = None,
) -> Response:
    """The job and everything below it, parents before children."""
    scope, time = {"list": "capture-tree", "job": job_id}, use.clock.now()
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        top, after = _known(tx, job_id), None
        if cursor is not None:
            place = use.cursors.read(cursor, tenant=caller.tenant_id, where=scope, now=time)
            after = _known(tx, str(place.id))
        jobs = tree_page(tx, top, after=after, limit=limit + 1)
        views = JobViews(tx)
        items = [views.at_depth(item, top=top) for item in jobs[:limit]]
    following = None
    if len(jobs) > limit:
        last = jobs[limit - 1]
        place = Position(created_at=last.created_at, id=last.id)
        following = use.cursors.write(place, tenant=caller.tenant_id, where=scope, now=time)
    page = CaptureTreeOut(items=items, next=following)
    return json_answer(page, headers=next_link(request, page.next))


@router.post(
    f"{CAPTURES}/{{job_id}}/cancel",
    status_code=200,
    operation_id="cancel_capture",
    responses={200: {"model": CaptureJobDetailOut}, 409: {}},
)
def cancel(
    job_id: CaptureIdPath,
    caller: Annotated[Principal, needs(Permission.CAPTURE_CANCEL)],
    request: Request,
    body: Annotated[Sent[CancelCaptureIn], Depends(JsonBody(CancelCaptureIn))],
    use: Using,
) -> Response:
    """Cancel a job and everything below it; 409 when it has ended already."""

    def act(tx: Transaction, _key: str | None) -> Answer:
        known = _known(tx, job_id)
        item = _cancelled(tx, request, caller, known.id, reason=body.value.reason)
        return Answer(status=200, body=detail_view(tx, item))

    return once(request, body.canonical, unit=use.unit, caller=caller, act=act)


@router.post(
    f"{CAPTURES}/{{job_id}}/release",
    status_code=200,
    operation_id="release_capture",
    responses={200: {"model": CaptureJobDetailOut}, 409: {}},
)
def release(
    job_id: CaptureIdPath,
    caller: Annotated[Principal, needs(Permission.QUEUE_DRAIN)],
    request: Request,
    body: Annotated[Sent[NoFieldsIn], Depends(JsonBody(NoFieldsIn))],
    use: Using,
) -> Response:
    """Take a job from its worker, so that another one starts it again; 409 when it has ended."""

    def act(tx: Transaction, _key: str | None) -> Answer:
        known = _known(tx, job_id)
        item = queue.release(tx, known.id)
        _audit(tx, request, caller, item.id, action="capture.release", detail={})
        return Answer(status=200, body=detail_view(tx, item))

    return once(request, body.canonical, unit=use.unit, caller=caller, act=act)


def _cancelled(
    tx: Transaction,
    request: Request,
    caller: Principal,
    job_id: CaptureJobId,
    *,
    reason: str | None,
) -> WorkItem:
    """Cancel the job. Raises CaptureEndedError."""
    item = queue.cancel(tx, job_id, by=caller.subject, reason=reason)
    detail = {"reason": reason or "", "state": item.state.value}
    _audit(tx, request, caller, job_id, action="capture.cancel", detail=detail)
    return item


def _audit(
    tx: Transaction,
    request: Request,
    caller: Principal,
    job_id: CaptureJobId,
    *,
    action: str,
    detail: dict[str, str],
) -> None:
    entry = AuditEntry(
        **asker(request, caller),
        action=action,
        resource_kind="CaptureJob",
        resource_uid=str(job_id),
        detail=detail,
    )
    tx.audit.append(entry)


def _known(tx: Transaction, job_id: str) -> WorkItem:
    """404 for an unknown id, another tenant's, and every spelling but the canonical one."""
    uuid = canonical_uuid(job_id)
    item = None if uuid is None else tx.capture_work.get(CaptureJobId(uuid))
    if item is None:
        raise _no_capture()
    return item


def _no_capture() -> ProblemError:
    return ProblemError(
        code=CaptureCode.CAPTURE_NOT_FOUND,
        detail="there is no such capture; one that ended is removed after 24 hours",
    )
