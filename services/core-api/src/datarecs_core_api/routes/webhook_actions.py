"""Send again: test an endpoint, resend deliveries, recover or replay a window, cancel the rest.

Each route writes a row that the webhook-service expands, returns 202 with its path, and with
`dry_run=true` only counts.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import AfterValidator, ConfigDict, Field

from datarecs_application.ports.state import AuditEntry, Transaction
from datarecs_application.webhook_actions import cancel_action, count_window, request_action
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource
from datarecs_core.webhooks.actions import MAX_RESENT, WebhookAction, Window
from datarecs_core.webhooks.delivery import Origin
from datarecs_core.webhooks.endpoint import MAX_GLOBS, WebhookEndpoint
from datarecs_core.webhooks.globs import GLOB, glob_fault
from datarecs_core.webhooks.matching import EndpointFacts
from datarecs_core.webhooks.refusals import window_fault
from datarecs_core_api.addressing import read_resource
from datarecs_core_api.audit import asker
from datarecs_core_api.auth import Reader, needs
from datarecs_core_api.conditional import json_answer
from datarecs_core_api.dependencies import Ports, Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.idempotency import Answer, once
from datarecs_core_api.inputs import (
    CanonicalUuid,
    In,
    Instant,
    JsonBody,
    Namespace,
    NoFieldsIn,
    Sent,
    ShortText,
    canonical_uuid,
)
from datarecs_core_api.outputs import ActionOut, PreviewOut
from datarecs_core_api.problems import input_fault, invalid, not_found
from datarecs_core_api.published_types import ActionIdPath, DeliveryIdPath, ObjectName
from datarecs_core_api.routes.deliveries import known_delivery
from datarecs_core_api.transactions import repeated
from datarecs_core_api.views import action_view
from datarecs_events.catalogue import BY_TYPE
from datarecs_specs.documents import decode_stored
from datarecs_specs.kinds import KINDS

router = APIRouter(prefix="/api/v1", tags=["webhooks"], route_class=GuardedRoute)
ENDPOINT = KINDS[Kind.WEBHOOK_ENDPOINT]
Sender = Annotated[Principal, needs(Permission.DELIVERY_RESEND)]
ACCEPTED = 202
ANSWERS: dict[int | str, dict[str, Any]] = {
    202: {"model": ActionOut},
    200: {"model": PreviewOut},
    409: {},
}


def _glob(text: str) -> str:
    problem = glob_fault(text)
    if problem is not None:
        raise ValueError(problem)
    return text


def _published(text: str) -> str:
    if text not in BY_TYPE:
        raise ValueError("no event type of the catalogue; `datarecs events` lists them")
    return text


EventGlob = Annotated[
    ShortText, AfterValidator(_glob), Field(json_schema_extra={"pattern": f"^{GLOB.pattern}$"})
]


class EndpointTestIn(In):
    """Which event a test sends."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}]})

    example: (
        Annotated[
            ShortText,
            AfterValidator(_published),
            Field(json_schema_extra={"enum": sorted(BY_TYPE)}),
        ]
        | None
    ) = None
    """An event type; its published example is sent. Without it a small test event."""


class RecoverIn(In):
    """From when on an endpoint missed events."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"since": "2026-11-20T12:00:00Z"}]})

    since: Instant
    """At most 14 days ago; the time at which the event was received."""
    until: Instant | None = None
    """Exclusive; now without it."""


class ReplayIn(RecoverIn):
    """Which events are sent again, whether or not they were received."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"since": "2026-11-20T12:00:00Z"}]})

    types: Annotated[list[EventGlob], Field(max_length=MAX_GLOBS)] = Field(default_factory=list)
    """Globs over event types that narrow the endpoint's filter."""


class ResendIn(In):
    """Which deliveries are sent again."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"ids": ["0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c02"]}]}
    )

    ids: Annotated[list[CanonicalUuid], Field(min_length=1, max_length=MAX_RESENT)]
    """Deliveries of one endpoint."""


Plan = Callable[[Transaction], tuple[Resource, WebhookAction]]
"""The endpoint and the action of a request, with its count; writes nothing."""


def known_endpoint(tx: Transaction, name: str, namespace: str) -> Resource:
    endpoint = read_resource(tx, ENDPOINT, name, namespace=namespace)
    if endpoint.deletion_at is not None:
        raise not_found(str(ENDPOINT.kind))
    return endpoint


def spec_of(endpoint: Resource) -> WebhookEndpoint:
    spec = decode_stored(endpoint.kind, endpoint.name, endpoint.spec)
    if not isinstance(spec, WebhookEndpoint):
        raise TypeError("a stored WebhookEndpoint was read as another kind")
    return spec


def _start(
    request: Request, use: Ports, caller: Principal, plan: Plan, *, dry_run: bool, body: bytes
) -> Response:
    """Count only, or write the action, for every route of this module."""
    if dry_run:
        with use.unit.begin(caller.tenant_id, read_only=True) as tx:
            _, action = plan(tx)
        return json_answer(PreviewOut(count=action.expected))

    def act(tx: Transaction, _key: str | None) -> Answer:
        endpoint, planned = plan(tx)
        action = request_action(tx, endpoint, planned)
        tx.audit.append(
            AuditEntry(
                **asker(request, caller),
                action=f"webhook.{action.kind}",
                resource_kind=str(endpoint.kind),
                resource_uid=str(endpoint.uid),
                detail={"action_id": str(action.action_id), "expected": action.expected},
            )
        )
        place = f"/api/v1/webhook-actions/{action.action_id}"
        return Answer(
            status=ACCEPTED,
            body=action_view(action),
            headers={"Location": place, "Retry-After": "1"},
        )

    return once(request, body, unit=use.unit, caller=caller, act=act)


def _planned(
    tx: Transaction, use: Ports, caller: Principal, endpoint: Resource, **parts: object
) -> WebhookAction:
    return WebhookAction(
        tenant_id=tx.tenant_id,
        action_id=use.ids.new(),
        endpoint_uid=endpoint.uid,
        requested_by=caller.subject,
        created_at=tx.now,
        **parts,  # type: ignore[arg-type]  # kind, expected and what the kind needs
    )


@router.post(
    f"/{ENDPOINT.path}/{{name}}/test",
    status_code=ACCEPTED,
    operation_id="test_webhook_endpoint",
    responses=ANSWERS,
)
def start_test(
    name: ObjectName,
    caller: Sender,
    request: Request,
    body: Annotated[Sent[EndpointTestIn], Depends(JsonBody(EndpointTestIn))],
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
    *,
    dry_run: bool = False,
) -> Response:
    """Make one attempt with a test event, also on a disabled endpoint."""

    def plan(tx: Transaction) -> tuple[Resource, WebhookAction]:
        endpoint = known_endpoint(tx, name, namespace)
        example = body.value.example
        return endpoint, _planned(
            tx, use, caller, endpoint, kind=Origin.TEST, expected=1, example=example
        )

    return _start(request, use, caller, plan, dry_run=dry_run, body=body.canonical)


def _window_plan(
    use: Ports, caller: Principal, body: RecoverIn, where: tuple[str, str], kind: Origin
) -> Plan:
    def plan(tx: Transaction) -> tuple[Resource, WebhookAction]:
        endpoint = known_endpoint(tx, *where)
        window = _window(body, kind, now=tx.now)
        facts = EndpointFacts(
            uid=endpoint.uid, created_at=endpoint.created_at, spec=spec_of(endpoint)
        )
        count = count_window(tx, facts, window)
        return endpoint, _planned(
            tx, use, caller, endpoint, kind=kind, window=window, expected=count
        )

    return plan


def _window(body: RecoverIn, kind: Origin, *, now: datetime) -> Window:
    window = Window(
        since=body.since,
        until=body.until or now,
        types=tuple(body.types) if isinstance(body, ReplayIn) else (),
        only_missing=kind is Origin.RECOVER,
    )
    fault = window_fault(window, now=now)
    if fault is not None:
        raise invalid("the window is not allowed", input_fault(f"/{fault[0]}", fault[1]))
    return window


@router.post(
    f"/{ENDPOINT.path}/{{name}}/recover",
    status_code=ACCEPTED,
    operation_id="recover_webhook_endpoint",
    responses=ANSWERS,
)
def recover(
    name: ObjectName,
    caller: Sender,
    request: Request,
    body: Annotated[Sent[RecoverIn], Depends(JsonBody(RecoverIn))],
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
    *,
    dry_run: bool = False,
) -> Response:
    """Send what the endpoint has not received in the window."""
    plan = _window_plan(use, caller, body.value, (name, namespace), Origin.RECOVER)
    return _start(request, use, caller, plan, dry_run=dry_run, body=body.canonical)


@router.post(
    f"/{ENDPOINT.path}/{{name}}/replay",
    status_code=ACCEPTED,
    operation_id="replay_webhook_endpoint",
    responses=ANSWERS,
)
def replay(
    name: ObjectName,
    caller: Sender,
    request: Request,
    body: Annotated[Sent[ReplayIn], Depends(JsonBody(ReplayIn))],
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
    *,
    dry_run: bool = False,
) -> Response:
    """Send all events of the window again, also those that the endpoint has received."""
    plan = _window_plan(use, caller, body.value, (name, namespace), Origin.REPLAY)
    return _start(request, use, caller, plan, dry_run=dry_run, body=body.canonical)


def _resend_plan(use: Ports, caller: Principal, ids: tuple[str, ...]) -> Plan:
    def plan(tx: Transaction) -> tuple[Resource, WebhookAction]:
        chosen = [known_delivery(tx, one) for one in dict.fromkeys(ids)]
        endpoints = {one.endpoint_uid for one in chosen}
        if len(endpoints) > 1:
            fault = input_fault(
                "/ids", "the deliveries belong to several endpoints; name those of one endpoint"
            )
            raise invalid("one request resends deliveries of one endpoint", fault)
        endpoint = tx.resources.get_by_uid(endpoints.pop())
        if endpoint is None or endpoint.deletion_at is not None:
            raise not_found(str(ENDPOINT.kind))
        events = {one.event_id: one.delivery_id for one in chosen}
        return endpoint, _planned(
            *(tx, use, caller, endpoint),
            kind=Origin.RESEND,
            deliveries=tuple(events.values()),
            expected=len(events),
        )

    return plan


@router.post(
    "/webhook-resends",
    status_code=ACCEPTED,
    operation_id="resend_deliveries",
    responses={**ANSWERS, 404: {}},
)
def resend_some(
    caller: Sender,
    request: Request,
    body: Annotated[Sent[ResendIn], Depends(JsonBody(ResendIn))],
    use: Using,
    *,
    dry_run: bool = False,
) -> Response:
    """Send deliveries of one endpoint again: the same bytes under the same webhook-id."""
    plan = _resend_plan(use, caller, tuple(str(one) for one in body.value.ids))
    return _start(request, use, caller, plan, dry_run=dry_run, body=body.canonical)


@router.post(
    "/webhook-deliveries/{delivery_id}/resend",
    status_code=ACCEPTED,
    operation_id="resend_delivery",
    responses=ANSWERS,
)
def resend_one(
    delivery_id: DeliveryIdPath,
    caller: Sender,
    request: Request,
    body: Annotated[Sent[NoFieldsIn], Depends(JsonBody(NoFieldsIn))],
    use: Using,
    *,
    dry_run: bool = False,
) -> Response:
    """Send one delivery again: the same bytes under the same webhook-id."""
    plan = _resend_plan(use, caller, (delivery_id,))
    return _start(request, use, caller, plan, dry_run=dry_run, body=body.canonical)


@router.get(
    "/webhook-actions/{action_id}",
    operation_id="get_webhook_action",
    responses={200: {"model": ActionOut}},
)
def get_action(action_id: ActionIdPath, caller: Reader, use: Using) -> Response:
    """How far an action is."""
    known = canonical_uuid(action_id)
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        action = None if known is None else tx.webhook_actions.read(known)
    if action is None:
        raise not_found("action")
    return json_answer(action_view(action))


@router.delete(
    "/webhook-actions/{action_id}",
    operation_id="cancel_webhook_action",
    responses={200: {"model": ActionOut}},
)
def cancel(action_id: ActionIdPath, caller: Sender, request: Request, use: Using) -> Response:
    """Stop what is left of an action; deliveries that it has made are still sent."""
    known = canonical_uuid(action_id)

    def work(tx: Transaction) -> WebhookAction:
        action = None if known is None else cancel_action(tx, known)
        if action is None:
            raise not_found("action")
        tx.audit.append(
            AuditEntry(
                **asker(request, caller),
                action="webhook.cancel",
                resource_kind="WebhookAction",
                resource_uid=action_id,
                detail={"state": str(action.state), "made": action.made},
            )
        )
        return action

    return json_answer(action_view(repeated(use.unit, caller.tenant_id, work)))
