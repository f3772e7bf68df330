"""Tokens of remote workers: which of them are valid, and what they say about their worker.

Only OpenID Connect tokens of the issuer that the operator named, for this API, with role `worker`
and a tenant; no API key and no token of a person becomes a worker (spec queue-capture 11).
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import Any
from uuid import UUID

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.outside import Clock
from datarecs_core.values import TenantId
from datarecs_core_api.token_signatures import ALGORITHMS, Jwk, decoded, is_signed

ROLE = "worker"
ROLES_CLAIM = "roles"
TENANT_CLAIM = "datarecs_tenant"
ALL_TENANTS = "*"
"""Value of the claim for a worker of the platform; nothing means this by being absent."""
LONGEST = 16 * 1024
"""Characters of a token."""
LEEWAY_S = 60
KEYS_LAST = timedelta(minutes=10)
KEYS_PAUSE = timedelta(seconds=30)
"""At least between two reads of the keys for an unknown one."""
FAILURE_LASTS = timedelta(seconds=5)
"""Requests do not wait for an issuer that has just not answered."""
_PARTS = 3


class TokenFaultError(Exception):
    """The token is not valid; the text is for the log of the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWorker:
    """A valid token of the issuer."""

    subject: str
    is_worker: bool
    """It has the role and names its tenants."""
    tenant: TenantId | None
    """None: of the platform."""

    def may_have(self, tenant: TenantId) -> bool:
        return self.is_worker and self.tenant in {None, tenant}


@dataclass(slots=True, kw_only=True)
class TokenVerifier:
    """Checks tokens; safe from several threads."""

    read_keys: Callable[[], Sequence[Jwk]]
    """The keys of the issuer now; raises StoreUnavailableError."""
    issuer: str
    audience: str
    clock: Clock
    _keys: Sequence[Jwk] = field(default=(), init=False)
    _read_at: float = field(default=-math.inf, init=False)
    _failed_at: float = field(default=-math.inf, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def worker(self, token: str) -> RemoteWorker:
        """What the token says.

        Raises:
            TokenFaultError: it is not valid.
            StoreUnavailableError: the keys of the issuer cannot be read.
        """
        claims = self._claims(token)
        fault = claims_fault(
            claims, issuer=self.issuer, audience=self.audience, now=self.clock.now()
        )
        if fault is not None:
            raise TokenFaultError(fault)
        roles, text = claims.get(ROLES_CLAIM), claims.get(TENANT_CLAIM)
        has_role = isinstance(roles, list) and ROLE in roles
        tenant = _tenant(text)
        return RemoteWorker(
            subject=str(claims["sub"]),
            is_worker=has_role and (tenant is not None or text == ALL_TENANTS),
            tenant=tenant,
        )

    def _claims(self, token: str) -> Mapping[str, Any]:
        parts = token.split(".")
        if len(token) > LONGEST or len(parts) != _PARTS:
            raise TokenFaultError("not a signed token")
        try:
            header, claims = (_object(decoded(part)) for part in parts[:2])
            signature = decoded(parts[2])
        except (ValueError, RecursionError) as cause:
            raise TokenFaultError("it cannot be read") from cause
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS or "crit" in header:
            raise TokenFaultError("its algorithm or an extension is not accepted")
        content = f"{parts[0]}.{parts[1]}".encode()
        fitting = self._fitting(key_id)
        if not any(is_signed(str(algorithm), key, signature, content) for key in fitting):
            raise TokenFaultError("no key of the issuer has signed it")
        return claims

    def _fitting(self, key_id: object) -> Sequence[Jwk]:
        """Keys with this id, or all if the token names none."""
        with self._lock:
            age = self.clock.monotonic() - self._read_at
            if age >= KEYS_LAST.total_seconds():
                self._read()
            keys = self._named(key_id)
            if not keys and age >= KEYS_PAUSE.total_seconds():
                self._read()
                keys = self._named(key_id)
            return keys

    def _named(self, key_id: object) -> Sequence[Jwk]:
        return [key for key in self._keys if key_id is None or key.get("kid") == key_id]

    def _read(self) -> None:
        now = self.clock.monotonic()
        if now - self._failed_at < FAILURE_LASTS.total_seconds():
            raise StoreUnavailableError(cause="the keys of the issuer could not be read just now")
        try:
            self._keys = self.read_keys()
        except StoreUnavailableError:
            self._failed_at = self.clock.monotonic()
            raise
        self._read_at = self.clock.monotonic()


def claims_fault(
    claims: Mapping[str, Any], *, issuer: str, audience: str, now: datetime
) -> str | None:
    """What makes a correctly signed token invalid; None for a valid one."""
    audiences = claims.get("aud")
    named = audiences if isinstance(audiences, list) else [audiences]
    if claims.get("iss") not in {issuer, issuer + "/"}:
        return "it is of another issuer"
    if audience not in named:
        return "it is for another audience"
    if not isinstance(claims.get("sub"), str) or not claims["sub"]:
        return "it has no subject"
    return _time_fault(claims, now.timestamp())


def _time_fault(claims: Mapping[str, Any], now: float) -> str | None:
    ends, issued = _seconds(claims, "exp"), _seconds(claims, "iat")
    begins = _seconds(claims, "nbf") if "nbf" in claims else issued
    if ends is None or issued is None or begins is None:
        return "it has no times"
    if now > ends + LEEWAY_S:
        return "it has expired"
    if max(begins, issued) > now + LEEWAY_S:
        return "it is of the future"
    return None


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _tenant(text: object) -> TenantId | None:
    try:
        tenant = UUID(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return None if tenant is None or str(tenant) != text else TenantId(tenant)


def _object(content: bytes) -> Mapping[str, Any]:
    value = json.loads(content)
    if isinstance(value, dict):
        return value
    raise ValueError("not an object")
