"""Disable and enable an endpoint, and rotate its signing secret.

Separate from `resources`, because these change more than the declaration.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import AfterValidator, ConfigDict, Field

from datarecs_application.endpoint_verbs import (
    MAX_GRACE,
    Rotated,
    record_disabled,
    record_enabled,
    rotate_secret,
)
from datarecs_application.ports.state import AuditEntry, Transaction
from datarecs_application.resources import ANY, Making, replace_resource
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.notation import parse_duration
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource
from datarecs_core.webhooks.matching import EndpointFacts
from datarecs_core.webhooks.signature import secret_fault
from datarecs_core_api.audit import asker
from datarecs_core_api.auth import needs
from datarecs_core_api.dependencies import Ports, Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.idempotency import Answer, once
from datarecs_core_api.inputs import In, JsonBody, Namespace, NoFieldsIn, Sent
from datarecs_core_api.outputs import (
    EnabledOut,
    ResourceOut,
    RotatedOnce,
    RotatedOut,
    SecretLabelOut,
)
from datarecs_core_api.problems import not_found
from datarecs_core_api.published_types import ObjectName
from datarecs_core_api.routes.webhook_actions import Sender, known_endpoint, spec_of
from datarecs_core_api.views import resource_view
from datarecs_specs.kinds import KINDS, canonical_spec, spec_hash

router = APIRouter(prefix="/api/v1", tags=["webhooks"], route_class=GuardedRoute)
ENDPOINT = KINDS[Kind.WEBHOOK_ENDPOINT]


def _grace(text: str) -> str:
    length = parse_duration(text)
    if length is None or not timedelta() <= length <= MAX_GRACE:
        raise ValueError("not a duration of PT0S to P7D")
    return text


def _secret(text: str) -> str:
    fault = secret_fault(text)
    if fault is not None:
        raise ValueError(fault)
    return text


class RotateIn(In):
    """How a secret is replaced."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"grace_period": "P1D"}]})

    grace_period: Annotated[str, Field(max_length=32), AfterValidator(_grace)] = "P1D"
    """How long the current secret still signs; PT0S ends every older one at once."""
    secret: Annotated[str, Field(max_length=128), AfterValidator(_secret)] | None = None
    """`whsec_` and 24 to 64 bytes in base64; generated without it."""


@router.post(
    f"/{ENDPOINT.path}/{{name}}/secret/rotate",
    operation_id="rotate_webhook_secret",
    responses={200: {"model": RotatedOnce | RotatedOut}, 409: {}},
)
def rotate(
    name: ObjectName,
    caller: Annotated[Principal, needs(Permission.SECRET_WRITE)],
    request: Request,
    body: Annotated[Sent[RotateIn], Depends(JsonBody(RotateIn))],
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> Response:
    """Sign with a new secret, which is only in this response; older ones sign until they end."""
    grace = parse_duration(body.value.grace_period) or timedelta()

    def act(tx: Transaction, _key: str | None) -> Answer:
        endpoint = _locked(tx, name, namespace)
        rotated = rotate_secret(
            tx, endpoint, grace=grace, making=_making(use), imported=body.value.secret
        )
        detail = {"key_id": rotated.key_id, "grace_period": body.value.grace_period}
        _audit(tx, request, caller, endpoint, "webhook.rotate_secret", detail)
        return _rotated_answer(rotated)

    return once(request, body.canonical, unit=use.unit, caller=caller, act=act)


def _rotated_answer(rotated: Rotated) -> Answer:
    previous = [
        SecretLabelOut(key_id=one.key_id, expires_at=one.expires_at) for one in rotated.previous
    ]
    return Answer(
        status=200,
        body=RotatedOnce(key_id=rotated.key_id, previous=previous, generated_secret=rotated.secret),
        replay_body=RotatedOut(key_id=rotated.key_id, previous=previous),
    )


@router.post(
    f"/{ENDPOINT.path}/{{name}}/disable",
    operation_id="disable_webhook_endpoint",
    responses={200: {"model": ResourceOut}},
)
def disable(
    name: ObjectName,
    caller: Sender,
    request: Request,
    body: Annotated[Sent[NoFieldsIn], Depends(JsonBody(NoFieldsIn))],
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> Response:
    """Stop sending; events are stored and can be recovered for 14 days."""

    def act(tx: Transaction, _key: str | None) -> Answer:
        endpoint = _switched(tx, caller, _locked(tx, name, namespace), use, is_on=False)
        record_disabled(tx, endpoint)
        _audit(tx, request, caller, endpoint, "webhook.disable", {})
        return Answer(status=200, body=resource_view(endpoint))

    return once(request, body.canonical, unit=use.unit, caller=caller, act=act)


@router.post(
    f"/{ENDPOINT.path}/{{name}}/enable",
    operation_id="enable_webhook_endpoint",
    responses={200: {"model": EnabledOut}},
)
def enable(
    name: ObjectName,
    caller: Sender,
    request: Request,
    body: Annotated[Sent[NoFieldsIn], Depends(JsonBody(NoFieldsIn))],
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> Response:
    """Send again, with all counters cleared; the response has the number of missed events."""

    def act(tx: Transaction, _key: str | None) -> Answer:
        endpoint = _switched(tx, caller, _locked(tx, name, namespace), use, is_on=True)
        facts = EndpointFacts(
            uid=endpoint.uid, created_at=endpoint.created_at, spec=spec_of(endpoint)
        )
        enabled = record_enabled(tx, facts)
        detail = {"recoverable": enabled.recoverable}
        _audit(tx, request, caller, endpoint, "webhook.enable", detail)
        shown = EnabledOut(
            endpoint=resource_view(endpoint),
            missed_since=enabled.missed_since,
            recoverable=enabled.recoverable,
        )
        return Answer(status=200, body=shown)

    return once(request, body.canonical, unit=use.unit, caller=caller, act=act)


def _locked(tx: Transaction, name: str, namespace: str) -> Resource:
    known = known_endpoint(tx, name, namespace)
    locked = tx.resources.for_update(known.kind, known.namespace, known.name)
    if locked is None or locked.uid != known.uid:
        raise not_found(str(ENDPOINT.kind))
    return locked


def _switched(
    tx: Transaction, caller: Principal, endpoint: Resource, use: Ports, *, is_on: bool
) -> Resource:
    """The endpoint with the requested `spec.enabled`; nothing is written when it is set already."""
    spec = replace(spec_of(endpoint), enabled=is_on)
    declared = Declared(
        kind=endpoint.kind,
        name=endpoint.name,
        namespace=endpoint.namespace,
        labels=endpoint.labels,
        annotations=endpoint.annotations,
        finalizers=endpoint.finalizers,
        spec=canonical_spec(endpoint.kind, spec),
        spec_hash=spec_hash(endpoint.kind, spec),
    )
    return replace_resource(tx, caller, declared, match=ANY, making=_making(use)).resource


def _making(use: Ports) -> Making:
    return Making(ids=use.ids, secrets=use.secrets, random_bytes=use.random_bytes)


def _audit(
    tx: Transaction,
    request: Request,
    caller: Principal,
    endpoint: Resource,
    action: str,
    detail: Mapping[str, object],
) -> None:
    tx.audit.append(
        AuditEntry(
            **asker(request, caller),
            action=action,
            resource_kind=str(endpoint.kind),
            resource_uid=str(endpoint.uid),
            detail=detail,
        )
    )
