"""Runs: trigger, cancel, list, read, follow, and what a finished one left behind."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID

from datarecs_reports.differences import DifferenceFilter, read_differences
from datarecs_reports.html import error_report, run_report
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from datarecs_application.ports.outside import BlobStore
from datarecs_application.ports.state import AuditEntry, RunFilter, Transaction
from datarecs_application.runs import CancelOutcome, request_cancel, trigger_run
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.catalog.layout import differences_prefix, run_document
from datarecs_core.errors.storage import BlobNotFoundError
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind
from datarecs_core.runs.model import Run
from datarecs_core.values import EventId, JobId, RunId
from datarecs_core_api.auth import needs
from datarecs_core_api.dependencies import Ports, Using
from datarecs_core_api.idempotency import Answer, once
from datarecs_core_api.inputs import In, JsonBytes, parsed
from datarecs_core_api.live import Stream, terminal_within
from datarecs_core_api.pagination import DEFAULT_LIMIT, MAX_LIMIT, Position
from datarecs_core_api.problems import not_found
from datarecs_core_api.triggering import TriggerIn, command_of
from datarecs_core_api.views import entry_view, etag, run_view

router = APIRouter(prefix="/api/v1", tags=["runs"])
Reader = Annotated[Principal, needs(Permission.READ)]
SampleReader = Annotated[Principal, needs(Permission.SAMPLE_READ)]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT)]
MAX_WAIT_S = 30


class CancelIn(In):
    reason: str | None = None


def _known(use: Ports, caller: Principal, run_id: str) -> Run:
    """404 for an unknown id, another tenant's, and every spelling but the canonical one."""
    try:
        found = UUID(run_id)
    except ValueError as cause:
        raise not_found("run") from cause
    run = use.queries.run(caller.tenant_id, RunId(found)) if str(found) == run_id else None
    if run is None:
        raise not_found("run")
    return run


def _wait(prefer: str | None) -> timedelta | None:
    """`Prefer: wait=N`, N from 1 to 30 seconds; anything else is not obeyed."""
    for part in (prefer or "").split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() == "wait" and value.isdigit() and 1 <= int(value) <= MAX_WAIT_S:
            return timedelta(seconds=int(value))
    return None


async def _waited(use: Ports, caller: Principal, answer: Response, prefer: str | None) -> Response:
    limit = _wait(prefer)
    if limit is None or answer.status_code != 202:  # noqa: PLR2004  only an accepted wish is waited for
        return answer
    run_id = json.loads(bytes(answer.body))["run_id"]
    run = await terminal_within(
        use.queries, use.runs_changed, _known(use, caller, run_id), limit=limit
    )
    status = 200 if run.status.is_terminal else 202
    headers = {"Location": f"/api/v1/runs/{run_id}", "Preference-Applied": "wait"}
    return JSONResponse(run_view(run), status_code=status, headers=headers)


@router.post("/jobs/{name}/runs", status_code=202, operation_id="trigger_run")
async def trigger(
    name: str,
    request: Request,
    body: JsonBytes,
    use: Using,
    caller: Annotated[Principal, needs(Permission.RUN_TRIGGER)],
    namespace: str = DEFAULT_NAMESPACE,
    prefer: Annotated[str | None, Header()] = None,
) -> Response:
    """Ask the job's question now. 202 with the run; `Prefer: wait=N` holds until it has ended."""
    wanted = parsed(TriggerIn, body)

    def act(tx: Transaction, key: str | None) -> Answer:
        job = tx.resources.get(Kind.RECONCILIATION_JOB, namespace, name)
        if job is None or job.deletion_at is not None:
            raise not_found("job")
        command = command_of(tx, job, wanted, caller=caller, ids=use.ids)
        run = trigger_run(
            tx,
            replace(command, idempotency_key=key, traceparent=request.state.traceparent),
        )
        tx.audit.append(
            AuditEntry(
                actor=caller.subject,
                actor_kind="key",
                action="run.trigger",
                resource_kind="Run",
                resource_uid=str(run.run_id),
                detail={"job": name, "reason": wanted.reason or ""},
            )
        )
        return Answer(
            status=202,
            body=run_view(run),
            headers={"Location": f"/api/v1/runs/{run.run_id}", "Retry-After": "1"},
        )

    answer = await run_in_threadpool(once, request, body, unit=use.unit, caller=caller, act=act)
    return await _waited(use, caller, answer, prefer)


@router.post("/runs/{run_id}/cancel", status_code=202, operation_id="cancel_run")
async def cancel(
    run_id: str,
    request: Request,
    body: JsonBytes,
    use: Using,
    caller: Annotated[Principal, needs(Permission.RUN_CANCEL)],
    prefer: Annotated[str | None, Header()] = None,
) -> Response:
    """Ask a run to stop; its end decides what it becomes. 409 when it has ended already."""
    wanted = parsed(CancelIn, body)
    known = await run_in_threadpool(_known, use, caller, run_id)

    def act(tx: Transaction, _key: str | None) -> Answer:
        fact_id = EventId(use.ids.new())
        answer = request_cancel(
            tx, known.run_id, by=caller.subject, reason=wanted.reason, fact_id=fact_id
        )
        if answer is None:
            raise not_found("run")
        run, outcome = answer
        tx.audit.append(
            AuditEntry(
                actor=caller.subject,
                actor_kind="key",
                action="run.cancel",
                resource_kind="Run",
                resource_uid=run_id,
                detail={"outcome": outcome},
            )
        )
        done = outcome is CancelOutcome.ALREADY_CANCELLED
        return Answer(status=200 if done else 202, body=run_view(run))

    answer = await run_in_threadpool(once, request, body, unit=use.unit, caller=caller, act=act)
    return await _waited(use, caller, answer, prefer)


@router.get("/runs", operation_id="list_runs")
def list_runs(
    use: Using,
    caller: Reader,
    job: str | None = None,
    job_id: UUID | None = None,
    status: str | None = None,
    result: str | None = None,
    error_code: str | None = None,
    mode: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    cancel_requested: bool | None = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: str | None = None,
) -> dict[str, object]:
    """Newest first; `next` is the cursor of the following page, bound to these filters."""
    where = RunFilter(
        job_id=None if job_id is None else JobId(job_id),
        job_name=job,
        status=status,
        result=result,
        error_code=error_code,
        mode=mode,
        since=since,
        until=until,
        cancel_requested=cancel_requested,
    )
    scope = {"list": "runs", "where": repr(where)}
    now = use.clock.now()
    before = None
    if cursor is not None:
        at = use.cursors.read(cursor, tenant=caller.tenant_id, where=scope, now=now)
        before = (at.created_at, RunId(at.id))
    runs = use.queries.runs(caller.tenant_id, where, limit=limit + 1, before=before)
    following = None
    if len(runs) > limit:
        last = runs[limit - 1]
        position = Position(created_at=last.created_at, id=last.run_id)
        following = use.cursors.write(position, tenant=caller.tenant_id, where=scope, now=now)
    return {"items": [run_view(run) for run in runs[:limit]], "next": following}


@router.get("/runs/{run_id}", operation_id="get_run")
def get_run(
    run_id: str,
    use: Using,
    caller: Reader,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """The run as it stands; 304 while it has not changed."""
    run = _known(use, caller, run_id)
    headers = {"ETag": etag(run)}
    if if_none_match == etag(run):
        return Response(status_code=304, headers=headers)
    return JSONResponse(run_view(run), headers=headers)


@router.get("/runs/{run_id}/events", operation_id="list_run_events")
async def run_events(
    run_id: str,
    use: Using,
    caller: Reader,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Limit = MAX_LIMIT,
    accept: Annotated[str, Header()] = "application/json",
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """The run's history: a JSON page, or with `Accept: text/event-stream` live until the end."""
    run = await run_in_threadpool(_known, use, caller, run_id)
    if "text/event-stream" in accept:
        seen = int(last_event_id) if last_event_id and last_event_id.isdigit() else after
        stream = Stream(
            queries=use.queries,
            changed=use.runs_changed,
            tenant=caller.tenant_id,
            run_id=run.run_id,
            after=seen,
        )
        return StreamingResponse(stream.frames(), media_type="text/event-stream")
    entries = await run_in_threadpool(
        lambda: use.queries.run_events(caller.tenant_id, run.run_id, after=after, limit=limit)
    )
    full = len(entries) == limit
    return JSONResponse(
        {
            "items": [entry_view(entry) for entry in entries],
            "next": entries[-1].sequence if full else None,
        }
    )


def _document(blobs: BlobStore, run: Run) -> Mapping[str, object]:
    try:
        data = blobs.get(run_document(run.tenant_id, run.run_id))
    except BlobNotFoundError as cause:
        raise not_found("document: the run has not left one (yet)") from cause
    found = json.loads(data)
    if not isinstance(found, dict):
        raise not_found("document")
    return found


@router.get("/runs/{run_id}/stages", operation_id="list_stages")
def stages(run_id: str, use: Using, caller: Reader) -> dict[str, object]:
    """Every stage of a finished run with its counts and measures."""
    run = _known(use, caller, run_id)
    document = _document(use.blobs.of(caller.tenant_id), run)
    return {"items": _stages_of(document), "next": None}


@router.get("/runs/{run_id}/stages/{stage}", operation_id="get_stage")
def stage(run_id: str, stage: str, use: Using, caller: Reader) -> dict[str, object]:
    """One stage, complete; the target of `dataref` in events."""
    run = _known(use, caller, run_id)
    for one in _stages_of(_document(use.blobs.of(caller.tenant_id), run)):
        if one.get("name") == stage:
            return one
    raise not_found("stage")


def _stages_of(document: Mapping[str, object]) -> list[dict[str, object]]:
    proof = document.get("proof")
    found = proof.get("stages") if isinstance(proof, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


@router.get("/runs/{run_id}/mismatches", operation_id="list_mismatches")
def mismatches(
    run_id: str,
    use: Using,
    caller: SampleReader,
    stage: str | None = None,
    measure: str | None = None,
    only: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = DEFAULT_LIMIT,
) -> dict[str, object]:
    """Stored differences, largest first, with the values of every source side by side."""
    run = _known(use, caller, run_id)
    blobs = use.blobs.of(caller.tenant_id)
    document = _document(blobs, run)
    names = [str(one["name"]) for one in _stages_of(document) if stage in (None, one["name"])]
    parts = (
        blobs.get(info.key)
        for name in names
        for info in blobs.list(differences_prefix(run.tenant_id, run.run_id, name))
    )
    where = DifferenceFilter(measure=measure, only=only)
    return {"items": read_differences(parts, where, limit=limit), "next": None}


@router.get("/runs/{run_id}/report", operation_id="get_report")
def report(
    run_id: str,
    use: Using,
    caller: Reader,
    format: str = "html",  # noqa: A002  the published name
) -> Response:
    """The self-contained report, or run.json; without sample rows unless they may be read."""
    run = _known(use, caller, run_id)
    blobs = use.blobs.of(caller.tenant_id)
    if not run.status.is_terminal:
        raise not_found("report: the run has not ended")
    attachment = {"Content-Disposition": f'attachment; filename="{run_id}.{format}"'}
    if format == "json":
        data = json.dumps(_document(blobs, run)).encode()
        return Response(data, media_type="application/json", headers=attachment)
    if format != "html":
        raise not_found("report format; there are html and json")
    if run.result is None:
        return Response(error_report(run_view(run)), media_type="text/html")
    samples = caller.may(Permission.SAMPLE_READ)
    page = run_report(_document(blobs, run), run_view(run), samples=samples)
    return Response(page, media_type="text/html")
