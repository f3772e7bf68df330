"""The consent of receivers, in transactions: request it when due, grant it by answer or callback.

Separate from `webhooks`, because nothing here makes or sends a delivery.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from datarecs_application.ports.state import Transaction
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import ResourceUid, TenantId
from datarecs_core.webhooks.endpoint import Validation, WebhookEndpoint
from datarecs_core.webhooks.handshake import (
    SECRET_BYTES,
    CallbackToken,
    Consent,
    Handshake,
    begin_handshake,
    current_handshake,
    decide_answer,
    grant,
    needs_consent,
    rate_granted,
)
from datarecs_core.webhooks.health import EndpointState, rate_in_force
from datarecs_core.webhooks.status import Validated, validated


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentRequest:
    """An OPTIONS request to send. It is already recorded, so no other process sends it too."""

    tenant_id: TenantId
    endpoint_uid: ResourceUid
    spec: WebhookEndpoint
    handshake: Handshake
    token: CallbackToken


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentAnswer:
    """The answer to OPTIONS; the status is None without an answer."""

    status: int | None
    headers: tuple[tuple[str, str], ...]
    origin: str
    """The value of `WebHook-Request-Origin` in the request."""


def handshake_of(state: EndpointState, spec: WebhookEndpoint) -> Handshake | None:
    """The handshake that is valid for the current spec."""
    disabled_at = state.disabled.at if state.disabled else None
    return current_handshake(state.handshake, spec, disabled_at=disabled_at)


def is_withheld(state: EndpointState, spec: WebhookEndpoint, *, now: datetime) -> bool:
    """Whether nothing may be sent, not even tests, because the consent is missing."""
    if not needs_consent(spec):
        return False
    handshake = handshake_of(state, spec)
    return handshake is None or handshake.consent(now) is not Consent.GRANTED


def rate_of(state: EndpointState, spec: WebhookEndpoint) -> int:
    """Attempts per minute: the allowed rate, or a low one until the first success."""
    rate = spec.limits.rate_per_minute
    handshake = handshake_of(state, spec) if needs_consent(spec) else None
    return rate_in_force(state, rate) if handshake is None else rate_granted(handshake, rate)


def consent_shown(
    state: EndpointState, spec: WebhookEndpoint | None, *, now: datetime
) -> Validated | None:
    """The consent as the resource shows it; None if the endpoint needs none."""
    if spec is None or not needs_consent(spec):
        return None
    return validated(handshake_of(state, spec), now=now)


def next_check(state: EndpointState, spec: WebhookEndpoint, *, now: datetime) -> datetime | None:
    """When to claim the endpoint for its consent, in addition to its deliveries."""
    handshake = handshake_of(state, spec) if needs_consent(spec) else None
    return None if handshake is None else handshake.next_check(now)


def request_consent(
    state: EndpointState,
    spec: WebhookEndpoint,
    *,
    now: datetime,
    random_bytes: Callable[[int], bytes],
) -> tuple[EndpointState, ConsentRequest | None]:
    """The state with the request that is due, if any; call it for enabled endpoints only."""
    if not needs_consent(spec):
        return state, None
    before = handshake_of(state, spec)
    if before is not None and not before.is_due(now):
        return state, None
    token = CallbackToken(
        tenant_id=state.tenant_id,
        endpoint_uid=state.endpoint_uid,
        secret=random_bytes(SECRET_BYTES),
    )
    handshake = begin_handshake(before, spec, secret=token.secret, now=now)
    request = ConsentRequest(
        tenant_id=state.tenant_id,
        endpoint_uid=state.endpoint_uid,
        spec=spec,
        handshake=handshake,
        token=token,
    )
    return replace(state, handshake=handshake), request


def record_answer(tx: Transaction, request: ConsentRequest, answer: ConsentAnswer) -> None:
    """Record the answer to a request; an answer to an older request changes nothing."""
    (state,) = tx.deliveries.states([request.endpoint_uid])
    handshake = state.handshake
    if handshake is None or handshake.token_hash != request.handshake.token_hash:
        return
    decided = decide_answer(
        handshake, status=answer.status, headers=answer.headers, origin=answer.origin, now=tx.now
    )
    if decided is not handshake:
        tx.deliveries.save_state(replace(state, handshake=decided, next_claim_at=tx.now))
        tx.wake()


class Granted(NamedTuple):
    handshake: Handshake
    is_first: bool
    """False for a repeated callback, which changes nothing."""


def grant_by_callback(tx: Transaction, token: CallbackToken, *, rate: str | None) -> Granted | None:
    """Grant consent to the holder of the newest request's token; None for an invalid token.

    Safe to repeat: the first consent and its rate stay.
    """
    resource = tx.resources.get_by_uid(token.endpoint_uid)
    if resource is None or resource.deletion_at is not None:
        return None
    (state,) = tx.deliveries.states([resource.uid])
    handshake = state.handshake
    if handshake is None or not token.opens(handshake, now=tx.now):
        return None
    granted = grant(handshake, rate, now=tx.now)
    if granted is not handshake:
        tx.deliveries.save_state(replace(state, handshake=granted, next_claim_at=tx.now))
        tx.wake()
    return Granted(handshake=granted, is_first=granted is not handshake)


def claim_soon(tx: Transaction, resource: Resource) -> None:
    """Let a declared endpoint request its consent now, not at its first event."""
    is_endpoint = resource.kind is Kind.WEBHOOK_ENDPOINT
    if is_endpoint and resource.spec.get("validation") == Validation.HANDSHAKE:
        tx.deliveries.states([resource.uid])
        tx.deliveries.hasten([resource.uid])
        tx.wake()
