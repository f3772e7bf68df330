"""Events of a whole tenant as a stream, and the socket with its tickets."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response, WebSocket
from pydantic import ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from datarecs_application.ports.feed import EventFilter
from datarecs_application.ports.state import Transaction
from datarecs_core.access.permissions import Permission
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.base import DatarecsError
from datarecs_core.values import JobId
from datarecs_core_api.auth import AnyPrincipal, Reader, authenticator
from datarecs_core_api.dependencies import Ports, Using
from datarecs_core_api.failures import problem_of
from datarecs_core_api.guarded import GuardedRoute, GuardedSocketRoute
from datarecs_core_api.idempotency import Answer, once
from datarecs_core_api.inputs import CanonicalUuid, In, JsonBody, Sent
from datarecs_core_api.outputs import TicketOnce, TicketOut
from datarecs_core_api.problems import ProblemError, response
from datarecs_core_api.sockets import Follower, Socket
from datarecs_core_api.streaming import (
    EVENT_SCHEMA,
    MEDIA_TYPE,
    LiveResponse,
    opened,
)
from datarecs_core_api.strict_query import check_names
from datarecs_core_api.tenant_live import TenantStream
from datarecs_core_api.tickets import TICKET_BYTES, Doorkeeper, issue

router = APIRouter(prefix="/api/v1", tags=["events"], route_class=GuardedRoute)
EventType = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.]{0,99}$")]
PLACE = r"^(0|[A-Za-z0-9_-]{22})$"
_ACCEPTED = frozenset({MEDIA_TYPE, "text/*", "*/*"})


class TicketIn(In):
    """Empty request."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}]})


@router.get(
    "/events/stream",
    operation_id="follow_events",
    response_class=Response,
    responses={200: {"content": {MEDIA_TYPE: {"schema": EVENT_SCHEMA}}}, 406: {}},
)
async def follow_events(
    caller: Reader,
    request: Request,
    use: Using,
    types: Annotated[
        list[EventType] | None,
        Query(alias="type", max_length=50, description="Complete event types; may be repeated."),
    ] = None,
    job_id: CanonicalUuid | None = None,
    after: Annotated[
        str | None,
        Query(pattern=PLACE, description="An id of this stream, or 0; Last-Event-ID wins."),
    ] = None,
    accept: Annotated[str, Header()] = "*/*",
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Events of all runs of the tenant as they are committed; without an id, from now on.

    An id older than 24 hours, or an unknown one, gets a frame `reset`: list again, and continue
    from its id. Ids are opaque: they reveal neither the number of events nor their order.
    """
    wanted = {one.split(";")[0].strip().lower() for one in accept.split(",")}
    if not wanted & _ACCEPTED:
        detail = f"this route returns {MEDIA_TYPE}"
        raise ProblemError(code=ApiCode.NOT_ACCEPTABLE, detail=detail)
    keys = authenticator(request)
    stream = TenantStream(
        use.changes,
        use.feed,
        use.following,
        places=use.places,
        caller=caller,
        may_see=lambda: keys.still(caller),
    )
    where = EventFilter(
        types=frozenset(types or ()), job_id=None if job_id is None else JobId(job_id)
    )
    frames = stream.frames(where, after=(last_event_id or "").strip() or after)
    events = await opened(use.following.place(caller, kind="sse"), frames)
    return LiveResponse(events, patience=use.following.pace.patience)


@router.post(
    "/ws-tickets",
    status_code=201,
    operation_id="create_ws_ticket",
    responses={201: {"model": TicketOnce | TicketOut}},
)
def create_ticket(
    caller: AnyPrincipal,
    request: Request,
    body: Annotated[Sent[TicketIn], Depends(JsonBody(TicketIn))],
    use: Using,
) -> Response:
    """A ticket for `/api/v1/ws?ticket=`, valid once and for 30 seconds; shown once.

    The socket takes `{"subscribe": {"run_id": "…", "after": 0}}` and sends the frames of
    `/runs/{run_id}/events`, each as a JSON text with `event`, `run_id`, `id` and `data`.
    """

    def act(tx: Transaction, _key: str | None) -> Answer:
        text, ticket = issue(tx, caller, use.random_bytes(TICKET_BYTES))
        shown = TicketOut(expires_at=ticket.expires_at)
        whole = TicketOnce(expires_at=ticket.expires_at, ticket=text)
        return Answer(status=201, body=whole, replay_body=shown)

    return once(request, body.canonical, unit=use.unit, caller=caller, act=act)


async def follow(socket: WebSocket) -> None:
    """Frames of the runs that the client subscribes to."""
    use: Ports = socket.app.state.ports
    keys = authenticator(socket)
    door = Doorkeeper(keys=keys, finder=use.finder, unit=use.unit, base_url=use.base_url)
    try:
        check_names({"ticket": False}, (name for name, _ in socket.query_params.multi_items()))
        caller = await run_in_threadpool(door.admitted, socket)
        with use.following.place(caller, kind="ws"):
            await socket.accept()
            follower = Follower(
                run_updates=use.run_updates,
                following=use.following,
                caller=caller,
                may_see=lambda: keys.still(caller),
                admits_message=lambda: keys.limits.admits_message(caller),
            )
            await Socket(socket, follower).serve()
    except DatarecsError as error:
        await socket.send_denial_response(response(socket, problem_of(error)))
        # uvicorn 0.54 logs a refused upgrade as an error unless the connection is closed by now
        await asyncio.sleep(0)


router.routes.append(GuardedSocketRoute("/api/v1/ws", follow, permission=Permission.READ))
