"""An issuer of OpenID Connect: its configuration, its keys, and machine tokens it gives to clients.

Both ends of the control API use it: core-api reads keys, a remote worker gets its tokens. The
issuer is named by the operator, so its address is not checked as those of tenants are; but it is
https, or on this machine, because secrets are sent there.
"""

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import httpx

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.outside import Clock

WELL_KNOWN = "/.well-known/openid-configuration"
MAX_BYTES = 1024 * 1024
READ_S = 10.0
ACCEPTED = 200
REFUSED = frozenset({400, 401, 403})


class IssuerUnavailableError(StoreUnavailableError):
    """The issuer cannot be reached or does not answer as one."""

    def __init__(self, *, issuer: str, cause: str) -> None:
        Exception.__init__(self, f"the issuer {issuer} does not answer as needed: {cause}")
        self.cause = cause


class CredentialsRefusedError(IssuerUnavailableError):
    """The issuer gives this client no token."""

    def __init__(self, *, issuer: str, status: int) -> None:
        super().__init__(
            issuer=issuer,
            cause=f"status {status} for the client credentials; compare"
            " DATARECS_WORKER__OIDC__CLIENT_ID and __CLIENT_SECRET with the client there",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedToken:
    text: str = field(repr=False)
    lasts: timedelta


def plain_client(connect_timeout: timedelta, *, read_s: float = READ_S) -> httpx.Client:
    """HTTP to a server of the operator: no redirect, no proxy of the environment, no retry."""
    timeout = httpx.Timeout(read_s, connect=connect_timeout.total_seconds())
    return httpx.Client(
        verify=ssl.create_default_context(), trust_env=False, timeout=timeout, http2=False
    )


class Issuer:
    """One issuer; safe from several threads."""

    def __init__(self, url: str, client: httpx.Client) -> None:
        self.url, self._client = url, client
        self._metadata: Mapping[str, Any] | None = None
        self._lock = Lock()

    def keys(self) -> Sequence[Mapping[str, Any]]:
        """The public keys, as JSON Web Keys, read now.

        Raises IssuerUnavailableError.
        """
        keys = self._answer("GET", self._place("jwks_uri")).get("keys")
        if not isinstance(keys, list):
            raise self._broken("its key set has no `keys`")
        return [key for key in keys if isinstance(key, dict)]

    def token(self, client_id: str, client_secret: str) -> GrantedToken:
        """A new token by client credentials.

        Raises IssuerUnavailableError.
        """
        form = {"grant_type": "client_credentials"}
        auth = httpx.BasicAuth(client_id, client_secret)
        answer = self._answer("POST", self._place("token_endpoint"), data=form, auth=auth)
        text, lasts = answer.get("access_token"), answer.get("expires_in", 60)
        is_good = isinstance(text, str) and text.isascii() and text.isprintable()
        if not is_good or isinstance(lasts, bool) or not isinstance(lasts, int | float):
            raise self._broken("its answer has no usable `access_token` and `expires_in`")
        return GrantedToken(text=str(text), lasts=timedelta(seconds=max(0.0, min(lasts, 86_400))))

    def close(self) -> None:
        self._client.close()

    def _place(self, name: str) -> str:
        with self._lock:
            if self._metadata is None:
                metadata = self._answer("GET", self.url + WELL_KNOWN)
                if metadata.get("issuer") not in {self.url, self.url + "/"}:
                    raise self._broken("its configuration names another issuer")
                self._metadata = metadata
            place = self._metadata.get(name)
        if not isinstance(place, str) or not is_safe(place):
            raise self._broken(f"its configuration has no https address `{name}`")
        return place

    def _answer(self, method: str, url: str, **options: Any) -> Mapping[str, Any]:  # noqa: ANN401  options of httpx
        try:
            with self._client.stream(method, url, **options) as response:
                body = _read(response)
                if method == "POST" and response.status_code in REFUSED:
                    raise CredentialsRefusedError(issuer=self.url, status=response.status_code)
                if response.status_code != ACCEPTED:
                    raise self._broken(f"status {response.status_code}")
                document = httpx.Response(ACCEPTED, content=body).json()
        except (httpx.HTTPError, ValueError, RecursionError) as cause:
            raise self._broken(type(cause).__name__) from cause
        if not isinstance(document, dict):
            raise self._broken("it is no JSON object")
        return document

    def _broken(self, cause: str) -> IssuerUnavailableError:
        return IssuerUnavailableError(issuer=self.url, cause=cause)


def _read(response: httpx.Response) -> bytes:
    body = bytearray()
    for part in response.iter_bytes():
        body += part
        if len(body) > MAX_BYTES:
            raise ValueError("too long")
    return bytes(body)


def is_safe(url: str) -> bool:
    """https, or http on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return bool(parts.hostname)
    try:
        is_local = ip_address(parts.hostname or "").is_loopback
    except ValueError:
        is_local = parts.hostname == "localhost"
    return parts.scheme == "http" and is_local


@dataclass(slots=True, kw_only=True)
class MachineToken:
    """The current token of this process, replaced before it ends. Safe from several threads."""

    issuer: Issuer
    client_id: str
    client_secret: str = field(repr=False)
    skew: timedelta
    clock: Clock
    _text: str | None = field(default=None, init=False, repr=False)
    _until: float = field(default=0.0, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def current(self) -> str:
        """Raises IssuerUnavailableError."""
        with self._lock:
            if self._text is None or self.clock.monotonic() >= self._until:
                return self._renewed()
            return self._text

    def in_place_of(self, refused: str) -> str:
        """Another one; if a thread has got one meanwhile, that.

        Raises IssuerUnavailableError.
        """
        with self._lock:
            if self._text is not None and self._text != refused:
                return self._text
            return self._renewed()

    def _renewed(self) -> str:
        sent_at = self.clock.monotonic()
        granted = self.issuer.token(self.client_id, self.client_secret)
        lasts = granted.lasts.total_seconds()
        # A token that is shorter than the skew would be replaced at every call.
        self._until = sent_at + max(lasts - self.skew.total_seconds(), lasts / 2)
        self._text = granted.text
        return granted.text
