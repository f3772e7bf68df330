"""The few calls of the Kubernetes API that the backend needs, each with one result value.

A heavy client would bring hundreds of types for four verbs on one kind. The service account's token
and the certificate authority are read again, because the cluster replaces both while the process
runs. Separate from the launcher, which knows workflows and not HTTP.
"""

import json
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import httpx

from datarecs_application.ports.outside import Clock

TIMEOUT = timedelta(seconds=10)
"""Of one request, from connecting to the last byte."""
CONNECT_S = 3.0
MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Of one answer; a page of 500 workflows' metadata has about 1 MiB."""
FIRST_REST, LONGEST_REST = timedelta(seconds=1), timedelta(seconds=30)
"""How long no request is sent after one without a usable answer."""
MERGE_PATCH = "application/merge-patch+json"
_OK, _REFUSED = range(200, 300), range(400, 500)
_RETRIED = frozenset({401, 408, 429})
"""Refusals that end by themselves: a new token, a free server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the API is and how this process signs in."""

    url: str
    """`https://host:port`, without a path."""
    token_file: Path
    """A projected token; read for every request."""
    ca_file: Path | None
    """PEM; None: the system's authorities."""
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, object] | None = None
    accept: str = "application/json"
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAnswer:
    """Any answer of the API that is not worth a retry."""

    status: int
    document: Mapping[str, object]

    @property
    def is_ok(self) -> bool:
        return self.status in _OK

    @property
    def reason(self) -> str:
        """The API's word, such as `AlreadyExists`."""
        return str(self.document.get("reason", ""))

    @property
    def message(self) -> str:
        text = str(self.document.get("message", "")) or "no message"
        return f"{text} ({self.status} {self.reason or 'without reason'})"


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Nothing is known: the API was not reached, is too busy, or failed."""

    why: str


class KubernetesApi:
    """Safe to share between loops. Holds no connection before its first call."""

    def __init__(
        self, access: Access, clock: Clock, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        """`transport` replaces the network, for a server in the same process."""
        self._access, self._clock, self._transport = access, clock, transport
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._ca_seen: tuple[int, int] | None = None
        self._failures = 0
        self._rests_until = 0.0

    @property
    def namespace(self) -> str:
        return self._access.namespace

    def call(self, wanted: ApiCall) -> ApiAnswer | NoAnswer:
        """One request; never raises for the network or for an answer."""
        left = self._rests_until - self._clock.monotonic()
        if left > 0:
            return NoAnswer(f"the Kubernetes API rests for {left:.1f} s after a failure")
        try:
            answer, rest = self._answer(wanted)
        except (httpx.HTTPError, OSError, ssl.SSLError, _TooLongError) as error:
            return self._failed(f"{type(error).__name__}: {error}" if str(error) else repr(error))
        if not answer.is_ok and (answer.status in _RETRIED or answer.status not in _REFUSED):
            return self._failed(answer.message, rest)
        self._failures = 0
        return answer

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _failed(self, why: str, rest: timedelta | None = None) -> NoAnswer:
        """Spare the API: double the rest with each failure, and obey its own word."""
        self._failures += 1
        pause = rest or FIRST_REST * (1 << min(self._failures - 1, 10))
        self._rests_until = self._clock.monotonic() + min(pause, LONGEST_REST).total_seconds()
        return NoAnswer(f"{self._access.url} gave no answer: {why}")

    def _answer(self, wanted: ApiCall) -> tuple[ApiAnswer, timedelta | None]:
        ends = self._clock.monotonic() + TIMEOUT.total_seconds()
        headers = {
            "Accept": wanted.accept,
            "Authorization": f"Bearer {self._token()}",
            "User-Agent": "datarecs-run-controller",
        }
        content = None if wanted.body is None else json.dumps(wanted.body).encode()
        if content is not None:
            headers["Content-Type"] = wanted.content_type
        with self._connected().stream(
            wanted.method, wanted.path, params=wanted.query, content=content, headers=headers
        ) as response:
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES or self._clock.monotonic() > ends:
                    raise _TooLongError(f"{len(body)} bytes did not end within the limits")
            return (
                ApiAnswer(status=response.status_code, document=_document(bytes(body))),
                _retry_after(response.headers.get("Retry-After", "")),
            )

    def _token(self) -> str:
        return self._access.token_file.read_text(encoding="utf-8").strip()

    def _connected(self) -> httpx.Client:
        """The client; another one once the file of the authority has changed."""
        with self._lock:
            ca = _state_of(self._access.ca_file)
            if self._client is None or ca != self._ca_seen:
                if self._client is not None:
                    self._client.close()
                self._client = self._new_client()
                self._ca_seen = ca
            return self._client

    def _new_client(self) -> httpx.Client:
        ca_file = self._access.ca_file
        tls = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
        return httpx.Client(
            base_url=self._access.url,
            verify=tls,
            timeout=httpx.Timeout(TIMEOUT.total_seconds(), connect=CONNECT_S),
            trust_env=False,
            transport=self._transport,
        )


class _TooLongError(Exception):
    """An answer that does not end in time, or that no list of ours can have."""


def _state_of(path: Path | None) -> tuple[int, int] | None:
    if path is None:
        return None
    state = path.stat()
    return state.st_mtime_ns, state.st_ino


def _document(body: bytes) -> Mapping[str, object]:
    """The JSON object of an answer; a proxy's page of HTML becomes a message."""
    try:
        document = json.loads(body)
    except ValueError:
        return {"message": body[:200].decode("utf-8", "replace")}
    return document if isinstance(document, dict) else {}


def _retry_after(text: str) -> timedelta | None:
    return timedelta(seconds=int(text)) if text.isdecimal() else None
