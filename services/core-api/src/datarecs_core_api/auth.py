"""Who asks: an API key in the Authorization header, resolved before any tenant is known.

Every failure has one body, and an unknown id costs the same work as a wrong secret (spec security
3). The permission of a route is a dependency with a name, so that the route table can be read off
the application and a route without one is refused at start.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from datarecs_application.ports.outside import Clock
from datarecs_application.ports.state import ApiKey, WorkFinder
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.access.tokens import is_genuine, parse_key
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.security import SecurityCode
from datarecs_core_api.problems import ProblemError

FAILURES_PER_MINUTE = RateLimitItemPerMinute(10)
_CHALLENGE = {"WWW-Authenticate": "Bearer"}


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Turns an Authorization header into a principal, or into the one 401 there is."""

    finder: WorkFinder
    clock: Clock
    failures: MovingWindowRateLimiter = field(
        default_factory=lambda: MovingWindowRateLimiter(MemoryStorage())
    )

    def principal(self, request: Request) -> Principal:
        """Raises ProblemError: 401 for every cause alike, 429 after ten failures in a minute."""
        address = request.client.host if request.client else "unknown"
        if not self.failures.test(FAILURES_PER_MINUTE, address):
            raise ProblemError(
                code=ApiCode.TOO_MANY_REQUESTS,
                detail="too many failed sign-ins from this address",
                headers={"Retry-After": "60"},
            )
        key = self._key(request.headers.get("authorization", ""))
        if key is None:
            self.failures.hit(FAILURES_PER_MINUTE, address)
            raise ProblemError(
                code=SecurityCode.UNAUTHENTICATED,
                detail="a valid API key is needed: Authorization: Bearer drk_…",
                headers=_CHALLENGE,
            )
        return Principal(
            tenant_id=key.tenant_id,
            subject=key.subject,
            key_id=key.key_id,
            permissions=key.permissions,
        )

    def _key(self, header: str) -> ApiKey | None:
        scheme, _, text = header.partition(" ")
        parsed = parse_key(text.strip()) if scheme.lower() == "bearer" else None
        if parsed is None:
            return None
        stored = self.finder.resolve_api_key(parsed.key_id)
        if not is_genuine(parsed, None if stored is None else stored.secret_sha256):
            return None
        now = self.clock.now()
        if stored is None or stored.revoked_at is not None or stored.expires_at <= now:
            return None
        return stored


class Needs:
    """Dependency of a route: an authenticated principal that holds the permission."""

    def __init__(self, permission: Permission | None) -> None:
        self.permission = permission
        """None: any principal."""

    def __call__(self, request: Request) -> Principal:
        if "api_key" in request.query_params or "access_token" in request.query_params:
            raise ProblemError(
                code=SecurityCode.KEY_IN_URL,
                detail="a key never stands in a URL; send it in the Authorization header",
            )
        authenticator: Authenticator = request.app.state.authenticator
        principal = authenticator.principal(request)
        if self.permission is not None and not principal.may(self.permission):
            raise ProblemError(
                code=SecurityCode.FORBIDDEN,
                detail=f"this key lacks the permission {self.permission}",
            )
        return principal


def needs(permission: Permission | None) -> Any:  # noqa: ANN401 - what Annotated takes
    """Put behind `Annotated[Principal, …]`: the caller, when it holds the permission."""
    return Depends(Needs(permission))


AnyPrincipal = Annotated[Principal, needs(None)]


def permission_of(dependencies: list[Callable[..., object] | None]) -> list[Needs]:
    """The permission dependencies among a route's dependencies."""
    return [one for one in dependencies if isinstance(one, Needs)]
