"""The callback of a webhook receiver: consent to deliveries, if its answer to OPTIONS had none.

CloudEvents allows GET, so a person can open the address in a browser. Only the receiver knows the
token; an unknown or expired token has the answer of an unknown link.
"""

from fastapi import APIRouter, Request, Response

from datarecs_application.ports.state import AuditEntry
from datarecs_application.webhook_consent import grant_by_callback
from datarecs_core.resources.resource import Kind
from datarecs_core.webhooks.handshake import ALLOWED_RATE, read_callback_token
from datarecs_core_api.audit import address_of
from datarecs_core_api.dependencies import Using
from datarecs_core_api.guarded import PublicRoute
from datarecs_core_api.routes.public import unknown_link

router = APIRouter(prefix="/api/v1/public", route_class=PublicRoute)
PATH = "/webhook-consent/{token}"


@router.get(PATH)
@router.post(PATH)
def consent(token: str, request: Request, use: Using) -> Response:
    """Start deliveries, at most `WebHook-Allowed-Rate` per minute."""
    known = read_callback_token(token)
    if known is None:
        raise unknown_link(request)
    with use.unit.begin(known.tenant_id) as tx:
        granted = grant_by_callback(tx, known, rate=request.headers.get(ALLOWED_RATE))
        if granted is not None and granted.is_first:
            tx.audit.append(
                AuditEntry(
                    actor="link",
                    actor_kind="link",
                    action="webhook.consent",
                    resource_kind=str(Kind.WEBHOOK_ENDPOINT),
                    resource_uid=str(known.endpoint_uid),
                    detail={"allowed_rate": granted.handshake.allowed_rate},
                    request_id=request.state.request_id,
                    address=address_of(request),
                )
            )
    if granted is None:
        raise unknown_link(request)
    rate = granted.handshake.allowed_rate
    most = "any rate" if rate is None else f"at most {rate} requests per minute"
    return Response(f"Events will be sent here at {most}.\n", media_type="text/plain")
