"""Runs: trigger, cancel, list, read and follow."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import ConfigDict
from starlette.concurrency import run_in_threadpool

from datarecs_application.ports.state import AuditEntry, HistoryEntry, RunFilter, Transaction
from datarecs_application.runs import CancelOutcome, request_cancel, trigger_run
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import RunErrorCode
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource
from datarecs_core.runs.model import Run, RunMode, RunResult, RunStatus
from datarecs_core.runs.refusals import RunNotTerminalError
from datarecs_core.runs.start import TriggerRun
from datarecs_core.runs.timeline import Moment, timeline_of
from datarecs_core.values import EventId, JobId, RunId
from datarecs_core_api.addressing import read_resource
from datarecs_core_api.audit import asker
from datarecs_core_api.auth import Reader, authenticator, check_permission, needs
from datarecs_core_api.conditional import json_answer, unless_known
from datarecs_core_api.dependencies import Ports, Using
from datarecs_core_api.exact_json import exact_json
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.idempotency import Answer, once
from datarecs_core_api.inputs import (
    CanonicalUuid,
    In,
    Instant,
    JsonBody,
    Name,
    Namespace,
    Sent,
    ShortText,
    canonical_uuid,
)
from datarecs_core_api.limits import refuse_waiting_runs
from datarecs_core_api.live import Stream, terminal_within
from datarecs_core_api.outputs import EventPage, LaneOut, Page, RunOut, TimelineOut
from datarecs_core_api.pagination import DEFAULT_LIMIT, MAX_LIMIT, Cursor, Position, next_link
from datarecs_core_api.preference import PreferredWait
from datarecs_core_api.problems import ProblemError, not_found
from datarecs_core_api.published_types import ObjectName, RunIdPath
from datarecs_core_api.streaming import (
    EVENT_SCHEMA,
    LAST_NUMBER,
    MEDIA_TYPE,
    LiveResponse,
    last_seen,
    opened,
)
from datarecs_core_api.triggering import TriggerIn, command_of
from datarecs_core_api.views import entry_view, run_etag, run_view
from datarecs_events.event_types import PREFIX
from datarecs_specs.kinds import KINDS

router = APIRouter(prefix="/api/v1", tags=["runs"], route_class=GuardedRoute)
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT)]
ACCEPTED = 202


class RetryIn(In):
    """The reason of a retry."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "the export is complete"}]}
    )

    reason: ShortText | None = None
    """Stored on the new run, in `run.triggered` and in the audit."""


class CancelIn(In):
    """Why a run is to end."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the wrong month"}]})

    reason: ShortText | None = None
    """Stored with the run and in the audit."""


def known_run(use: Ports, caller: Principal, run_id: str) -> Run:
    """404 for an unknown id, another tenant's, and every spelling but the canonical one."""
    uuid = canonical_uuid(run_id)
    run = None if uuid is None else use.queries.run(caller.tenant_id, RunId(uuid))
    if run is None:
        raise not_found("run; a retention policy may have removed it")
    return run


async def _waited(
    use: Ports, caller: Principal, answer: Response, limit: timedelta | None
) -> Response:
    """The response when the run has ended or the time is up, with the headers of the first one."""
    if limit is None or answer.status_code != ACCEPTED:
        return answer
    run_id = json.loads(bytes(answer.body))["run_id"]
    run = await run_in_threadpool(known_run, use, caller, run_id)
    run = await terminal_within(use.queries, use.following, run, limit=limit)
    headers = dict(answer.headers) | {"Preference-Applied": f"wait={int(limit.total_seconds())}"}
    for name in ("content-length", "content-type"):
        del headers[name]
    if run.status.is_terminal:
        headers.pop("retry-after", None)
        return json_answer(run_view(run), status=200, headers=headers)
    return json_answer(run_view(run), status=ACCEPTED, headers=headers)


@router.post(
    "/jobs/{name}/runs",
    status_code=ACCEPTED,
    operation_id="trigger_run",
    responses={202: {"model": RunOut}, 200: {"model": RunOut}, 409: {}},
)
async def trigger(
    name: ObjectName,
    caller: Annotated[Principal, needs(Permission.RUN_TRIGGER)],
    request: Request,
    body: Annotated[Sent[TriggerIn], Depends(JsonBody(TriggerIn))],
    use: Using,
    wait: PreferredWait,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> Response:
    """Trigger a run of the job. 202 with the run; `Prefer: wait=N` waits for its end."""
    wanted = body.value
    if wanted.mode == RunMode.SCHEDULED:
        await run_in_threadpool(check_permission, request, caller, Permission.RUN_SCHEDULE)

    def act(tx: Transaction, key: str | None) -> Answer:
        job = _job_to_run(tx, name, namespace)
        command = command_of(tx, job, wanted, caller=caller, use=use)
        refuse_waiting_runs(tx, command.job_id, use.limits)
        return _triggered(tx, request, caller, job, replace(command, idempotency_key=key))

    answer = await run_in_threadpool(
        once, request, body.canonical, unit=use.unit, caller=caller, act=act
    )
    if "Idempotency-Replayed" not in answer.headers:
        crash_point(CrashPoint.TRIGGER_AFTER_COMMIT)
    return await _waited(use, caller, answer, wait)


@router.post(
    "/runs/{run_id}/retry",
    status_code=ACCEPTED,
    operation_id="retry_run",
    responses={202: {"model": RunOut}, 200: {"model": RunOut}, 409: {}},
)
async def retry(
    run_id: RunIdPath,
    caller: Annotated[Principal, needs(Permission.RUN_RETRY)],
    request: Request,
    body: Annotated[Sent[RetryIn], Depends(JsonBody(RetryIn))],
    use: Using,
    wait: PreferredWait,
) -> Response:
    """Start a run with the parameters of an ended run and the current declaration of its job.

    202 with the new run; 409 if the run has not ended.
    """
    known = await run_in_threadpool(known_run, use, caller, run_id)

    def act(tx: Transaction, key: str | None) -> Answer:
        ended = tx.runs.get(known.run_id) or known
        if not ended.status.is_terminal:
            raise RunNotTerminalError(ended)
        job = _job_to_run(tx, str(ended.job_id), DEFAULT_NAMESPACE)
        wanted = TriggerIn(parameters=dict(ended.parameters), reason=body.value.reason)
        command = command_of(tx, job, wanted, caller=caller, use=use)
        refuse_waiting_runs(tx, command.job_id, use.limits)
        again = replace(command, idempotency_key=key, retry_of=ended.run_id)
        return _triggered(tx, request, caller, job, again)

    answer = await run_in_threadpool(
        once, request, body.canonical, unit=use.unit, caller=caller, act=act
    )
    return await _waited(use, caller, answer, wait)


def _job_to_run(tx: Transaction, name: str, namespace: str) -> Resource:
    """Raises ProblemError (404) for a job that is deleted or being deleted."""
    entry = KINDS[Kind.RECONCILIATION_JOB]
    job = read_resource(tx, entry, name, namespace=namespace)
    if job.deletion_at is not None:
        raise not_found(str(entry.kind))
    return job


def _triggered(
    tx: Transaction, request: Request, caller: Principal, job: Resource, command: TriggerRun
) -> Answer:
    """Create the run and its audit entry, and answer with the run."""
    run = trigger_run(tx, replace(command, traceparent=request.state.traceparent))
    detail = {"job": job.name, "namespace": job.namespace, "reason": command.reason or ""}
    retry_of = command.retry_of
    if retry_of is not None:
        detail["retry_of"] = str(retry_of)
    tx.audit.append(
        AuditEntry(
            **asker(request, caller),
            action="run.trigger" if retry_of is None else "run.retry",
            resource_kind="Run",
            resource_uid=str(run.run_id),
            detail=detail,
        )
    )
    return Answer(
        status=ACCEPTED,
        body=run_view(tx.runs.get(run.run_id) or run),
        headers={"Location": f"/api/v1/runs/{run.run_id}", "Retry-After": "1"},
    )


@router.post(
    "/runs/{run_id}/cancel",
    status_code=ACCEPTED,
    operation_id="cancel_run",
    responses={202: {"model": RunOut}, 200: {"model": RunOut}, 409: {}},
)
async def cancel(
    run_id: RunIdPath,
    caller: Annotated[Principal, needs(Permission.RUN_CANCEL)],
    request: Request,
    body: Annotated[Sent[CancelIn], Depends(JsonBody(CancelIn))],
    use: Using,
    wait: PreferredWait,
) -> Response:
    """Cancel a run; its end decides the final state. 409 when it has ended already."""
    known = await run_in_threadpool(known_run, use, caller, run_id)
    reason = body.value.reason

    def act(tx: Transaction, _key: str | None) -> Answer:
        fact_id = EventId(use.ids.new())
        answer = request_cancel(tx, known.run_id, by=caller.subject, reason=reason, fact_id=fact_id)
        if answer is None:
            raise not_found("run")
        run, outcome = answer
        tx.audit.append(
            AuditEntry(
                **asker(request, caller),
                action="run.cancel",
                resource_kind="Run",
                resource_uid=run_id,
                detail={"outcome": str(outcome), "reason": reason or ""},
            )
        )
        done = outcome is CancelOutcome.ALREADY_CANCELLED
        return Answer(
            status=200 if done else ACCEPTED,
            body=run_view(tx.runs.get(run.run_id) or run),
            headers={"Location": f"/api/v1/runs/{run_id}"},
        )

    answer = await run_in_threadpool(
        once, request, body.canonical, unit=use.unit, caller=caller, act=act
    )
    crash_point(CrashPoint.CANCEL_AFTER_COMMIT)
    return await _waited(use, caller, answer, wait)


@router.get("/runs", operation_id="list_runs", responses={200: {"model": Page[RunOut]}})
def list_runs(
    caller: Reader,
    request: Request,
    use: Using,
    job: Name | None = None,
    job_id: CanonicalUuid | None = None,
    status: RunStatus | None = None,
    result: RunResult | None = None,
    error_code: RunErrorCode | None = None,
    mode: RunMode | None = None,
    since: Instant | None = None,
    until: Instant | None = None,
    *,
    cancel_requested: bool | None = None,
    id_prefix: Annotated[str | None, Query(pattern=r"^[0-9a-f-]{8,36}$")] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor | None = None,
) -> Response:
    """Newest first, created in [since, until); `next` is the cursor of the following page.

    With `id_prefix` no other filter counts: at most two runs with this start of the id, enough to
    decide whether an abbreviated id is unique.
    """
    if id_prefix is not None:
        return json_answer(_starting_with(use, caller, id_prefix))
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
    page = _page(use, caller, where, limit=limit, cursor=cursor)
    return json_answer(page, headers=next_link(request, page.next))


def _starting_with(use: Ports, caller: Principal, prefix: str) -> Page[RunOut]:
    ids = use.queries.runs_with_prefix(caller.tenant_id, prefix)
    runs = [use.queries.run(caller.tenant_id, run_id) for run_id in ids]
    return Page(items=[run_view(run) for run in runs if run is not None])


def _page(
    use: Ports, caller: Principal, where: RunFilter, *, limit: int, cursor: str | None
) -> Page[RunOut]:
    scope, now = {"list": "runs", "where": repr(where)}, use.clock.now()
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
    return Page(items=[run_view(run) for run in runs[:limit]], next=following)


@router.get("/runs/{run_id}", operation_id="get_run", responses={200: {"model": RunOut}, 304: {}})
def get_run(
    run_id: RunIdPath,
    caller: Reader,
    use: Using,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """The current run; 304 while it has not changed."""
    run = known_run(use, caller, run_id)
    return unless_known(run_view(run), etag=run_etag(run), if_none_match=if_none_match)


@router.get(
    "/runs/{run_id}/events",
    operation_id="list_run_events",
    responses={
        200: {
            "model": EventPage,
            "content": {MEDIA_TYPE: {"schema": EVENT_SCHEMA}},
        },
        406: {},
    },
)
async def run_events(
    run_id: RunIdPath,
    caller: Reader,
    request: Request,
    use: Using,
    after: Annotated[int, Query(ge=0, le=LAST_NUMBER)] = 0,
    limit: Limit = MAX_LIMIT,
    accept: Annotated[str, Header()] = "*/*",
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """The run's history: a JSON page, or with `Accept: text/event-stream` live until the end."""
    run = await run_in_threadpool(known_run, use, caller, run_id)
    media = _media(accept)
    if media is None:
        detail = "this route returns application/json or text/event-stream"
        raise ProblemError(code=ApiCode.NOT_ACCEPTABLE, detail=detail)
    if media == MEDIA_TYPE:
        keys = authenticator(request)
        stream = Stream(
            run_updates=use.run_updates,
            following=use.following,
            caller=caller,
            may_see=lambda: keys.still(caller),
            run_id=run.run_id,
            after=last_seen(last_event_id, after),
        )
        place = use.following.place(caller, kind="sse")
        events = await opened(place, stream.frames())
        return LiveResponse(events, patience=use.following.pace.patience)
    entries = await run_in_threadpool(
        lambda: use.queries.run_events(caller.tenant_id, run.run_id, after=after, limit=limit)
    )
    page = {
        "items": [entry_view(run.tenant_id, run.run_id, entry) for entry in entries],
        "next": entries[-1].sequence if len(entries) == limit else None,
    }
    return Response(exact_json(page), media_type="application/json")


@router.get("/runs/{run_id}/timeline", operation_id="get_timeline")
def timeline(run_id: RunIdPath, caller: Reader, use: Using) -> TimelineOut:
    """When the run waited, tried, read and compared; what has no end yet is open."""
    run = known_run(use, caller, run_id)
    chart = timeline_of(map(_moment, _history(use, run)))
    return TimelineOut(
        lanes=[LaneOut(**asdict(lane)) for lane in chart.lanes],
        gaps=list(chart.gaps),
        late=list(chart.late),
        synthesised=list(chart.synthesised),
    )


def _history(use: Ports, run: Run) -> Iterator[HistoryEntry]:
    after = 0
    while page := use.queries.run_events(run.tenant_id, run.run_id, after=after, limit=MAX_LIMIT):
        yield from page
        after = page[-1].sequence


def _moment(entry: HistoryEntry) -> Moment:
    return Moment(
        sequence=entry.sequence,
        name=entry.type.removeprefix(f"{PREFIX}reconciliation."),
        time=entry.time,
        data=entry.data,
        disposition=entry.disposition,
    )


def _media(accept: str) -> str | None:
    """Which of the two responses is requested; a stream only when it is named."""
    wanted = {one.split(";")[0].strip().lower() for one in accept.split(",")}
    if MEDIA_TYPE in wanted:
        return MEDIA_TYPE
    return "application/json" if wanted & {"application/json", "application/*", "*/*"} else None
