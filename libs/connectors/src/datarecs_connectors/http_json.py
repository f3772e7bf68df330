"""JSON over HTTP from a source's server: to the checked address, in bounded time and size.

No redirect is followed, and the environment is not used (no proxy, no netrc). The name is resolved
once per request; every resolved address must be allowed, and the first one is used.
"""

import json
import socket
import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from time import perf_counter
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from datarecs_connectors.errors import (
    ConnectionFailedError,
    CorruptSourceError,
    CredentialsRefusedError,
    PermissionDeniedError,
    SourceLimitError,
)
from datarecs_core.egress.addresses import Policy, Profile, admit
from datarecs_core.egress.urls import check_source_port
from datarecs_core.errors.security import AddressBlockedError, UrlRefusedError

CONNECT_TIMEOUT_S = 5
ANSWER_TIMEOUT_S = 30
MAX_BYTES = 256 * 1024 * 1024
"""Size of one answer; metadata of a table with thousands of snapshots is about 10 MB."""
_CHUNK_BYTES = 1024 * 1024
_UNKNOWN = 401
_REFUSED = frozenset({_UNKNOWN, 403})
_ABSENT = 404
_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"


class NoAnswerError(ConnectionFailedError):
    """A server did not answer in time or in full; the request may have arrived."""


class Body(NamedTuple):
    kind: str
    """Media type."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonServer:
    """A server that is queried for one source."""

    source: str
    policy: Policy
    max_bytes: int = MAX_BYTES
    """Of one answer."""

    def get(
        self, url: str, *, query: Mapping[str, str] | None = None, token: str | None = None
    ) -> Mapping[str, object] | None:
        """The JSON object of the answer; None for status 404.

        Raises:
            ConnectionFailedError: the address, TLS, the time limit, or another status.
            PermissionDeniedError: 401 or 403.
            CorruptSourceError: the answer is not a JSON object.
        """
        target = f"{url}?{urlencode(query)}" if query else url
        status, content = self._send_request(target, None, _bearer(token))
        return self._decode_answer(status, content, urlsplit(url).netloc)

    def post(self, url: str, form: Mapping[str, str]) -> Mapping[str, object] | None:
        """The answer to a posted form; raises the same errors as `get`."""
        status, content = self._send_request(url, Body(_FORM, urlencode(form)), None)
        return self._decode_answer(status, content, urlsplit(url).netloc)

    def send(self, url: str, document: Mapping[str, object], *, token: str | None) -> int:
        """The status of the answer to a posted JSON document.

        Raises:
            NoAnswerError: the document may have arrived.
            ConnectionFailedError: the address is not allowed, nothing was sent.
            PermissionDeniedError: 401 or 403.
        """
        body = Body(_JSON, json.dumps(document))
        status, _ = self._send_request(url, body, _bearer(token))
        self._check_permitted(status, urlsplit(url).netloc)
        return status

    def fetch(self, url: str, *, authorization: str | None) -> tuple[int, bytes]:
        """Status and content of an answer, for callers who know more of them than `get`.

        Raises:
            ConnectionFailedError: the address, TLS or the time limit.
            PermissionDeniedError: 401 or 403.
            SourceLimitError: the answer is larger than `max_bytes`.
        """
        status, content = self._send_request(url, None, authorization)
        where = urlsplit(url).netloc
        self._check_size(content, where)
        self._check_permitted(status, where)
        return status, content

    def _send_request(
        self, url: str, body: "Body | None", authorization: str | None
    ) -> tuple[int, bytes]:
        parts = urlsplit(url)
        headers = {"Accept": "application/json", "User-Agent": "datarecs"}
        if body is not None:
            headers["Content-Type"] = body.kind
        if authorization is not None:
            headers["Authorization"] = authorization
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        has_secret = authorization is not None or (body is not None and body.kind == _FORM)
        connection = self._connection(
            parts.scheme, parts.hostname or "", parts.port, has_secret=has_secret
        )
        try:
            method, text = ("GET", None) if body is None else ("POST", body.text)
            connection.request(method, path, text, headers)
            with closing(connection.getresponse()) as answer:
                content = _read(answer, self.max_bytes)
        except (OSError, HTTPException) as cause:
            raise NoAnswerError(self.source, f"{parts.netloc}: {_why(cause)}") from cause
        finally:
            connection.close()
        return answer.status, content

    def _decode_answer(
        self, status: int, content: bytes, where: str
    ) -> Mapping[str, object] | None:
        self._check_size(content, where)
        self._check_permitted(status, where)
        if status == _ABSENT:
            return None
        if status != 200:  # noqa: PLR2004  the one status that answers
            raise self._failed(where, f"it answers with status {status}")
        try:
            document = json.loads(content)
        except ValueError as cause:
            raise CorruptSourceError(self.source, f"the answer of {where} is not JSON") from cause
        if not isinstance(document, dict):
            raise CorruptSourceError(self.source, f"the answer of {where} is not a JSON object")
        return document

    def _check_size(self, content: bytes, where: str) -> None:
        if len(content) > self.max_bytes:
            raise SourceLimitError(
                self.source, f"{where} answers with more than {self.max_bytes} bytes"
            )

    def _check_permitted(self, status: int, where: str) -> None:
        if status in _REFUSED:
            kind = CredentialsRefusedError if status == _UNKNOWN else PermissionDeniedError
            raise kind(
                self.source, f"{where} refused ({status}); check the connection's secret and rights"
            )

    def _connection(
        self, scheme: str, host: str, port: int | None, *, has_secret: bool
    ) -> HTTPConnection:
        if scheme != "https" and self.policy.profile is not Profile.LOCAL:
            raise self._failed(host, "only https is supported")
        if port is not None:
            try:
                check_source_port(port)
            except UrlRefusedError as cause:
                raise self._failed(host, str(cause)) from cause
        address = self._address(host)
        if scheme == "https":
            return _Verified(host, port or 443, address)
        if has_secret and not ip_address(address).is_loopback:
            raise self._failed(host, "a token or credential is sent only over https")
        return _Plain(host, port or 80, address)

    def _address(self, host: str) -> str:
        """The checked address to connect to."""
        try:
            answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as cause:
            raise self._failed(host, "the name has no address") from cause
        try:
            return str(admit([str(answer[4][0]) for answer in answers], self.policy)[0])
        except AddressBlockedError as cause:
            raise self._failed(
                host, f"it has an address of class {cause.address_class}: not allowed"
            ) from cause

    def _failed(self, where: str, why: str) -> ConnectionFailedError:
        return ConnectionFailedError(self.source, f"{where}: {why}")


def _bearer(token: str | None) -> str | None:
    return None if token is None else f"Bearer {token}"


def _read(answer: HTTPResponse, max_bytes: int) -> bytes:
    """The whole answer, or one byte above the limit; TimeoutError for one that is too slow."""
    began, parts, size = perf_counter(), [], 0
    while size <= max_bytes and (part := answer.read1(_CHUNK_BYTES)):
        parts.append(part)
        size += len(part)
        if perf_counter() - began > ANSWER_TIMEOUT_S:
            raise TimeoutError
    return b"".join(parts)


class _Plain(HTTPConnection):
    """A connection without TLS to an address, with the host name it was resolved from."""

    def __init__(self, host: str, port: int, address: str) -> None:
        super().__init__(host, port)
        self._address = address

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), CONNECT_TIMEOUT_S)
        self.sock.settimeout(ANSWER_TIMEOUT_S)


class _Verified(HTTPSConnection):
    """TLS to an address, verified for the host name it was resolved from."""

    def __init__(self, host: str, port: int, address: str) -> None:
        super().__init__(host, port)
        self._address = address
        self._tls = ssl.create_default_context()

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), CONNECT_TIMEOUT_S)
        plain.settimeout(ANSWER_TIMEOUT_S)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)


def _why(cause: Exception) -> str:
    """The step that failed, without the data that was sent."""
    match cause:
        case ssl.SSLError():
            return "TLS failed; check its certificate"
        case TimeoutError():
            return f"no answer within {ANSWER_TIMEOUT_S} s"
        case OSError():
            return "it cannot be reached; check host, port and whether the server runs"
        case _:
            return "its answer is not HTTP"
