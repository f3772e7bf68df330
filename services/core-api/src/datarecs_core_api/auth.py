"""Who asks: an API key in the Authorization header, resolved before any tenant is known.

Every failure has one body, and an unknown id costs the same work as a wrong secret (spec security
3); the cause stands in the audit of the tenant whose key it was. The permission of a route is a
dependency with a name, so that the route table can be read off the application.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from datarecs_application.ports.outside import Clock, Metrics
from datarecs_application.ports.state import ApiKey, AuditEntry, UnitOfWork, WorkFinder
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.access.tokens import is_genuine, parse_key
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.security import SecurityCode
from datarecs_core_api.audit import address_of, asker
from datarecs_core_api.problems import ProblemError
from datarecs_core_api.sign_in import SignInFailures

_CHALLENGE = {"WWW-Authenticate": "Bearer"}
_KEY_NAMES = frozenset({"api_key", "apikey", "access_token", "authorization"})
_KEY_SHAPE = re.compile(r"drk_[a-z2-7]{12}_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticator:
    """Turns an Authorization header into a principal, or into the one 401 there is."""

    finder: WorkFinder
    unit: UnitOfWork
    clock: Clock
    failures: SignInFailures
    metrics: Metrics

    def principal(self, request: HTTPConnection) -> Principal:
        """The caller.

        Raises:
            ProblemError: 401 for every cause alike, 429 after ten failures in a minute.
        """
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        presented = parse_key(text.strip()) if scheme.lower() == "bearer" else None
        names = [f"key {presented.key_id}"] if presented else []
        self.refuse_after_failures(request, *names)
        stored = None if presented is None else self.finder.resolve_api_key(presented.key_id)
        genuine = presented is not None and is_genuine(
            presented, None if stored is None else stored.secret_sha256
        )
        if stored is None or not genuine or not self._is_live(stored):
            self.failures.note(_place_of(request), *names)
            self._record(request, stored, genuine=genuine)
            raise ProblemError(
                code=SecurityCode.UNAUTHENTICATED,
                detail="a valid API key is needed: Authorization: Bearer drk_…",
                headers=_CHALLENGE,
            )
        return _principal(stored)

    def refuse_after_failures(self, request: HTTPConnection, *names: str) -> None:
        """Raises ProblemError (429) for an address, or another name, that has failed too often."""
        closed_s = self.failures.closed_s(_place_of(request), *names)
        if closed_s:
            self.metrics.count("auth_failures_total", reason="too_many")
            raise ProblemError(
                code=ApiCode.TOO_MANY_REQUESTS,
                detail="too many failed sign-ins",
                headers={"Retry-After": str(closed_s)},
            )

    def note_failure(self, request: HTTPConnection, *, reason: str) -> None:
        """Somebody at this address showed something that is good for nothing."""
        self.failures.note(_place_of(request))
        self.metrics.count("auth_failures_total", reason=reason)

    def holder(self, key_id: str) -> Principal | None:
        """Whom a key stands for that was shown before; None when it is no longer good."""
        stored = self.finder.resolve_api_key(key_id)
        return _principal(stored) if stored is not None and self._is_live(stored) else None

    def still(self, caller: Principal) -> bool:
        """Whether the caller's key is still good, for answers that go on for long."""
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

    def _record(self, request: HTTPConnection, key: ApiKey | None, *, genuine: bool) -> None:
        """Counted, and told to the tenant whose key it is; an unknown id belongs to none."""
        outcome = _cause(key, genuine=genuine)
        self.metrics.count("auth_failures_total", reason=outcome)
        if key is None:
            return
        owner = _principal(key)
        entry = AuditEntry(
            **asker(request, owner),
            action="sign_in",
            resource_kind="ApiKey",
            resource_uid=key.key_id,
            outcome=outcome,
        )
        with self.unit.begin(key.tenant_id) as tx:
            tx.audit.append(entry)


def _place_of(request: HTTPConnection) -> str:
    return f"address {address_of(request)}"


def _cause(key: ApiKey | None, *, genuine: bool) -> str:
    if key is None:
        return "unknown"
    if not genuine:
        return "wrong_secret"
    return "revoked" if key.revoked_at is not None else "expired"


def _principal(key: ApiKey) -> Principal:
    return Principal(
        tenant_id=key.tenant_id,
        subject=key.subject,
        key_id=key.key_id,
        permissions=key.permissions,
    )


def authenticator(request: HTTPConnection) -> Authenticator:
    found: Authenticator = request.app.state.authenticator
    return found


class Needs:
    """Dependency of a route: an authenticated principal that holds the permission."""

    def __init__(self, permission: Permission | None) -> None:
        self.permission = permission
        """None: any principal."""

    def __call__(self, request: Request) -> Principal:
        keys = authenticator(request)
        caller = keys.principal(request)
        if self.permission is not None and not caller.may(self.permission):
            raise keys.refused(request, caller, self.permission)
        return caller


def needs(permission: Permission | None) -> Any:  # noqa: ANN401  what Annotated takes
    """Put behind `Annotated[Principal, …]`: the caller, when it holds the permission."""
    return Depends(Needs(permission))


AnyPrincipal = Annotated[Principal, needs(None)]
Reader = Annotated[Principal, needs(Permission.READ)]


def key_in_url(request: HTTPConnection) -> ProblemError | None:
    """The refusal of a key where logs and histories keep it, whoever's it is."""
    names = {name.lower() for name in request.query_params}
    if not names & _KEY_NAMES and not _KEY_SHAPE.search(str(request.url)):
        return None
    return ProblemError(
        code=SecurityCode.KEY_IN_URL,
        detail="a key never stands in a URL; send it in the Authorization header",
    )
