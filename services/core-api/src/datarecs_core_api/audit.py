"""The caller, as in every audit line of a request.

One function for all routes, so that no field is missing.
"""

from typing import TypedDict

from starlette.requests import HTTPConnection

from datarecs_core.access.principal import Principal


class Asker(TypedDict):
    """Members of an AuditEntry that follow from the request."""

    actor: str
    actor_kind: str
    request_id: str
    address: str


def address_of(request: HTTPConnection) -> str:
    """The client's address, as the shell took it from the peer or from a trusted proxy."""
    address: str = request.state.address
    return address


def asker(request: HTTPConnection, caller: Principal) -> Asker:
    return Asker(
        actor=caller.subject,
        actor_kind="key",
        request_id=request.state.request_id,
        address=address_of(request),
    )
