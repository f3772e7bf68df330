"""The caller: an API key in the Authorization header, resolved before any tenant is known.

Every failure has one body, and an unknown id costs the same work as a wrong secret (spec security
3); the cause is in the audit of the tenant that owns the key. A key is verified before failures
are counted, so that failures of others do not refuse a valid key (ADR 0086). The permission of a
route is a named dependency, so that the route table can be read from the application.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from datarecs_application.ports.keys import ApiKey
from datarecs_application.ports.outside import Clock
from datarecs_application.ports.state import AuditEntry, UnitOfWork, WorkFinder
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.access.tokens import PresentedKey, is_genuine, parse_key
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.security import SecurityCode
from datarecs_core_api.audit import address_of, asker
from datarecs_core_api.limits import RequestLimits
from datarecs_core_api.problems import ProblemError
from datarecs_core_api.sign_in import FailedSignIns

_CHALLENGE = {"WWW-Authenticate": "Bearer"}
_KEY_NAMES = frozenset({"api_key", "apikey", "access_token", "authorization"})
_KEY_SHAPE = re.compile(r"drk_[a-z2-7]{12}_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticator:
    """Turns an Authorization header into a principal, or into the one 401 there is."""

    finder: WorkFinder
    unit: UnitOfWork
    clock: Clock
    failures: FailedSignIns
    limits: RequestLimits
    refuse_worker: Callable[[HTTPConnection], None] = lambda _: None
    """Raises ProblemError (403) for a token of a remote worker, which is no key."""

    def principal(self, request: HTTPConnection) -> Principal:
        """The caller.

        Raises:
            ProblemError: 401 for every cause; 403 for a worker; 429 for an address that fails
                too often, and for a caller with too many requests.
        """
        presented = _presented(request)
        if presented is None:
            self.refuse_worker(request)
        stored = None if presented is None else self.finder.resolve_api_key(presented.key_id)
        is_secret_right = presented is not None and is_genuine(
            presented, None if stored is None else stored.secret_sha256
        )
        if stored is None or not is_secret_right or not self._is_live(stored):
            cause = _cause(stored, is_secret_right=is_secret_right)
            raise self._refusal(request, stored, cause=cause)
        caller = _principal(stored)
        self.limits.admit(request, caller)
        return caller

    def failure(self, request: HTTPConnection, *, reason: str, detail: str) -> ProblemError:
        """The 401 of a credential that is not valid; 429 when its address fails too often."""
        level = self.failures.count(address_of(request), reason=reason)
        if level.is_taken:
            return ProblemError(
                code=SecurityCode.UNAUTHENTICATED, detail=detail, headers=_CHALLENGE
            )
        return ProblemError(
            code=ApiCode.TOO_MANY_REQUESTS,
            detail="too many failed sign-ins",
            headers={"Retry-After": str(level.wait_s)},
        )

    def holder(self, key_id: str) -> Principal | None:
        """The principal of a key that was presented before; None when it is no longer valid."""
        stored = self.finder.resolve_api_key(key_id)
        return _principal(stored) if stored is not None and self._is_live(stored) else None

    def still(self, caller: Principal) -> bool:
        """Whether the caller's key is still valid, for long responses."""
        return caller.key_id is not None and self.holder(caller.key_id) is not None

    def refused(self, request: HTTPConnection, caller: Principal, permission: str) -> ProblemError:
        """The 403, after it was written to the audit."""
        route = f"{request.scope.get('method', 'GET')} {request.scope['route'].path}"
        entry = AuditEntry(
            **asker(request, caller),
            action="access.refuse",
            outcome="refused",
            detail={"permission": permission, "route": route},
        )
        with self.unit.begin(caller.tenant_id) as tx:
            tx.audit.append(entry)
        return ProblemError(
            code=SecurityCode.FORBIDDEN, detail=f"this key lacks the permission {permission}"
        )

    def _is_live(self, key: ApiKey) -> bool:
        return key.revoked_at is None and key.expires_at > self.clock.now()

    def _refusal(self, request: HTTPConnection, key: ApiKey | None, *, cause: str) -> ProblemError:
        """Counted, and recorded for the tenant that owns the key; an unknown id has no tenant."""
        detail = "a valid API key is needed: Authorization: Bearer drk_…"
        refusal = self.failure(request, reason=cause, detail=detail)
        if key is not None and refusal.code is SecurityCode.UNAUTHENTICATED:
            entry = AuditEntry(
                **asker(request, _principal(key)),
                action="sign_in",
                resource_kind="ApiKey",
                resource_uid=key.key_id,
                outcome=cause,
            )
            self.failures.record(key.tenant_id, entry)
        return refusal


def _presented(request: HTTPConnection) -> PresentedKey | None:
    """The key of the one Authorization header; several of them are no credential."""
    values = request.headers.getlist("authorization")
    scheme, _, text = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return parse_key(text.strip()) if scheme.lower() == "bearer" else None


def _cause(key: ApiKey | None, *, is_secret_right: bool) -> str:
    if key is None:
        return "unknown"
    if not is_secret_right:
        return "wrong_secret"
    return "revoked" if key.revoked_at is not None else "expired"


def _principal(key: ApiKey) -> Principal:
    return Principal(
        tenant_id=key.tenant_id,
        subject=key.subject,
        owner=key.owner,
        key_id=key.key_id,
        permissions=key.permissions,
    )


def authenticator(request: HTTPConnection) -> Authenticator:
    keys: Authenticator = request.app.state.authenticator
    return keys


class Needs:
    """Dependency of a route: an authenticated principal that holds the permission."""

    def __init__(self, permission: Permission | None) -> None:
        self.permission = permission
        """None: any principal."""

    def __call__(self, request: Request) -> Principal:
        caller = authenticator(request).principal(request)
        if self.permission is not None:
            check_permission(request, caller, self.permission)
        return caller


def check_permission(request: Request, caller: Principal, permission: Permission) -> None:
    """Raises ProblemError (403), audited, for a caller without the permission."""
    if not caller.may(permission):
        raise authenticator(request).refused(request, caller, permission)


def needs(permission: Permission | None) -> Any:  # noqa: ANN401  what Annotated takes
    """Used in `Annotated[Principal, …]`: the caller, if it has the permission."""
    return Depends(Needs(permission))


AnyPrincipal = Annotated[Principal, needs(None)]
Reader = Annotated[Principal, needs(Permission.READ)]


def key_in_url(request: HTTPConnection) -> ProblemError | None:
    """The refusal of a key in a place that logs and histories store, for every key."""
    names = {name.lower() for name in request.query_params}
    if not names & _KEY_NAMES and not _KEY_SHAPE.search(str(request.url)):
        return None
    return ProblemError(
        code=SecurityCode.KEY_IN_URL,
        detail="a key must not be in a URL; send it in the Authorization header",
    )
