"""The control API: what workers outside of the database's reach call (port CaptureControl).

A transport and nothing else: what a claim or an outcome means is decided by the control over the
database. Registered only with DATARECS_WORKER__API__ENABLED, and not in the OpenAPI document: its
one client is capture-worker of the same or the previous release.
"""

import asyncio
import json
import time
from typing import Annotated, TypeVar
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from datarecs_application.capturing.reported_work import MOST_BYTES
from datarecs_application.capturing.wire import (
    EPOCH_HEADER,
    LONGEST_WAIT_S,
    PREFIX,
    PROTOCOL,
    PROTOCOL_HEADER,
    REMOTE_KINDS,
    TENANT_HEADER,
    ClaimWish,
    RemoteReport,
    Renewal,
    RenewalList,
    TokenList,
)
from datarecs_application.ports.capturing import ClaimRequest, Claims, Renewed
from datarecs_core.captures.items import CaptureJobId, WorkToken
from datarecs_core.document_types import strict_document
from datarecs_core.documents import to_document
from datarecs_core.errors.captures import (
    CaptureCode,
    CaptureNotFoundError,
    LeaseLostError,
    OutcomeRefusedError,
)
from datarecs_core.values import TenantId
from datarecs_core_api.body import JSON, malformed, read_bytes
from datarecs_core_api.guarded import WorkerRoute
from datarecs_core_api.inputs import canonical_uuid
from datarecs_core_api.problems import Fault, ProblemError, invalid
from datarecs_core_api.worker_door import NeedsWorker, door
from datarecs_core_api.worker_tokens import RemoteWorker

router = APIRouter(prefix=PREFIX, tags=["worker"], route_class=WorkerRoute)
Worker = Annotated[RemoteWorker, Depends(NeedsWorker())]
BINARY = "application/octet-stream"
SMALL = 256 * 1024
"""Bytes of a claim or a renewal."""
MOST_CLAIMED, MOST_RENEWED = 100, 1_000
LONGEST_NAME, LONGEST_PATH = 200, 4_096
POLL_S = 0.5
T = TypeVar("T")


@router.post("/claims")
async def claim(worker: Worker, request: Request) -> Response:
    """Lease due items; with `wait_seconds` the answer waits for the first."""
    _check_protocol(request)
    wish = await _sent(request, ClaimWish, limit=SMALL)
    _check_wish(wish)
    wanted = ClaimRequest(
        executor=wish.executor,
        kinds=wish.kinds,
        lanes=wish.lanes,
        execution_classes=wish.execution_classes,
        limit=wish.limit,
        tenant=worker.tenant,
    )
    until = time.monotonic() + wish.wait_seconds
    async with door(request).claiming():
        claims = await run_in_threadpool(door(request).control.claim, wanted)
        while not claims.tokens and time.monotonic() < until:
            await asyncio.sleep(min(POLL_S, max(0.0, until - time.monotonic())))
            if await request.is_disconnected():
                break
            claims = await run_in_threadpool(door(request).control.claim, wanted)
    return _answer(TokenList(items=tuple(_checked(worker, claims))))


@router.post("/leases/renew")
async def renew(worker: Worker, request: Request) -> Response:
    """Extend leases; one of another tenant is not renewed, like one that is lost."""
    _check_protocol(request)
    tokens = (await _sent(request, TokenList, limit=SMALL)).items
    if len(tokens) > MOST_RENEWED:
        raise invalid(f"at most {MOST_RENEWED} leases are renewed at once")
    allowed = [token for token in tokens if worker.may_have(token.tenant_id)]
    current = await run_in_threadpool(door(request).control.renew, allowed)
    lost = Renewed(is_current=False)
    answers = ((token, current.get(token, lost)) for token in tokens)
    renewals = (
        Renewal(token=token, renewed=one.is_current, cancel_requested=one.cancel_requested)
        for token, one in answers
    )
    return _answer(RenewalList(items=tuple(renewals)))


@router.post("/items/{item_id}/begin")
async def begin(worker: Worker, request: Request, item_id: str) -> Response:
    """The work of a claimed item, with references of secrets; null if it is not to be done."""
    token = _token(worker, request, item_id)
    try:
        assignment = await run_in_threadpool(door(request).control.begin, token)
    except LeaseLostError as lost:
        raise _lost(lost) from lost
    return JSONResponse(
        {
            "assignment": assignment
            and {
                "kind": assignment.kind.value,
                "frame": dict(assignment.frame),
                "deadline_seconds": assignment.deadline_seconds,
                "cancel_requested": assignment.cancel_requested,
            }
        }
    )


@router.put("/items/{item_id}/sidecars/{sha256}")
async def put_sidecar(
    worker: Worker,
    request: Request,
    item_id: str,
    sha256: str,
    path: Annotated[str, Query(min_length=1, max_length=LONGEST_PATH)],
) -> Response:
    """Store the index of a file."""
    token = _token(worker, request, item_id)
    content = await read_bytes(request, limit=MOST_BYTES, media=(BINARY,))
    try:
        await run_in_threadpool(door(request).control.put_sidecar, token, path, sha256, content)
    except LeaseLostError as lost:
        raise _lost(lost) from lost
    except OutcomeRefusedError as refused:
        raise _refused(refused) from refused
    return Response(status_code=204)


@router.post("/items/{item_id}/end")
async def end(worker: Worker, request: Request, item_id: str) -> Response:
    """Record an outcome with all its effects."""
    token = _token(worker, request, item_id)
    body = await read_bytes(request, limit=MOST_BYTES, media=(JSON,))
    try:
        report = await run_in_threadpool(_document, RemoteReport, body)
    except ValueError as cause:
        refused = OutcomeRefusedError(item_id=token.item_id, faults=[_why(cause)])
        raise _refused(refused) from cause
    try:
        await run_in_threadpool(door(request).control.end, token, report.outcome)
    except LeaseLostError as lost:
        raise _lost(lost) from lost
    except OutcomeRefusedError as refused:
        raise _refused(refused) from refused
    return Response(status_code=204)


def _checked(worker: RemoteWorker, claims: Claims) -> list[WorkToken]:
    """The claim asked for this tenant alone; no other item may leave, whatever it returned."""
    foreign = [token for token in claims.tokens if not worker.may_have(token.tenant_id)]
    if foreign:
        raise RuntimeError(f"a claim of one tenant returned {len(foreign)} items of others")
    return list(claims.tokens)


def _token(worker: RemoteWorker, request: Request, item_id: str) -> WorkToken:
    """The item of the path at the epoch of the header; 404 for an item of another tenant."""
    _check_protocol(request)
    item, tenant = canonical_uuid(item_id), canonical_uuid(request.headers.get(TENANT_HEADER, ""))
    epoch = request.headers.get(EPOCH_HEADER, "")
    if tenant is None or not (epoch.isascii() and epoch.isdigit() and len(epoch) < len(str(2**63))):
        raise malformed(f"it needs the headers {TENANT_HEADER} and {EPOCH_HEADER}")
    if item is None or not worker.may_have(TenantId(tenant)):
        raise CaptureNotFoundError(item_id=item or UUID(int=0))
    return WorkToken(tenant_id=TenantId(tenant), item_id=CaptureJobId(item), epoch=int(epoch))


def _check_protocol(request: Request) -> None:
    if request.headers.get(PROTOCOL_HEADER) != PROTOCOL:
        raise malformed(
            f"{PROTOCOL_HEADER} must be {PROTOCOL}; use workers of the release of core-api"
        )


def _check_wish(wish: ClaimWish) -> None:
    faults = {
        f"executor has 1 to {LONGEST_NAME} characters": 0 < len(wish.executor) <= LONGEST_NAME,
        "kinds names one or more that a remote worker does": bool(wish.kinds)
        and REMOTE_KINDS.issuperset(wish.kinds),
        f"limit is 1 to {MOST_CLAIMED}": 1 <= wish.limit <= MOST_CLAIMED,
        f"wait_seconds is 0 to {LONGEST_WAIT_S}": 0 <= wish.wait_seconds <= LONGEST_WAIT_S,
    }
    broken = [rule for rule, holds in faults.items() if not holds]
    if broken:
        raise invalid(f"the claim is not allowed: {'; '.join(broken)}")


async def _sent(request: Request, kind: type[T], *, limit: int) -> T:
    body = await read_bytes(request, limit=limit, media=(JSON,))
    try:
        return _document(kind, body)
    except ValueError as cause:
        raise invalid(f"the body is no {kind.__name__}: {_why(cause)}") from cause


def _document(kind: type[T], body: bytes) -> T:
    try:
        return strict_document(kind, json.loads(body))
    except RecursionError as cause:
        raise ValueError("it is nested too deep") from cause


def _why(cause: ValueError) -> str:
    """What does not fit, without the values of the body."""
    is_syntax = isinstance(cause, json.JSONDecodeError | UnicodeDecodeError)
    return "not JSON" if is_syntax else "it is no valid document"


def _lost(lost: LeaseLostError) -> ProblemError:
    return ProblemError(code=CaptureCode.LEASE_LOST, detail=str(lost))


def _refused(refused: OutcomeRefusedError) -> ProblemError:
    """With every fault."""
    code = CaptureCode.OUTCOME_REFUSED
    faults = [Fault(code=code.docs_id, pointer="/outcome", message=one) for one in refused.faults]
    return ProblemError(code=code, detail=str(refused), faults=faults)


def _answer(document: object) -> Response:
    return JSONResponse(to_document(document))
