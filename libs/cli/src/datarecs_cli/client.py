"""The client of the REST API: one authenticated call with bounded retries and its refusals.

Only calls that are safe to repeat are retried: reads, writes of a whole object, and POST with an
Idempotency-Key. Imported lazily, because the import of httpx is slow.
"""

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Self
from urllib.parse import quote

import httpx

from datarecs_application.ports.outside import Clock
from datarecs_cli.commands.version import release
from datarecs_cli.config import Access, access_of
from datarecs_cli.invocation import Invocation
from datarecs_cli.refusals import RefusedError, ServerUnreachableError, UnexpectedAnswerError
from datarecs_core.errors.api import ApiCode
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.environment import process_environment

Json = Mapping[str, object]
RETRIES = 3
MAX_PAGE = 200
ALL = 1_000_000
"""A limit above what a tenant may have."""
LONGEST_PAUSE_S = 10.0
"""The longest pause; a longer Retry-After becomes an error instead of a wait."""
ANSWER_LIMIT_S = 30.0
STREAM_SILENCE_S = 40.0
"""The server sends a ping on a stream every 15 s."""
_BUSY = frozenset({429, 503})
_ERRORS_FROM = 400
_PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    content: bytes
    where: str
    """Method and path, for messages."""

    def json(self) -> Json:
        """The JSON object of the body.

        Raises:
            UnexpectedAnswerError: the body is not a JSON object.
        """
        try:
            document = json.loads(self.content, parse_float=Decimal)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise UnexpectedAnswerError(where=self.where, what=f"{self.status} without JSON")
        return document


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request; `path` starts after the host and has quoted parts (`path_of`)."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Json | None = None
    answer_after_s: float = 0.0
    """The longest wait of the server itself before it answers."""

    @property
    def is_repeatable(self) -> bool:
        return self.method != "POST" or "Idempotency-Key" in self.headers

    @property
    def where(self) -> str:
        return f"{self.method} {self.path}"


def path_of(*parts: str) -> str:
    """`/api/v1/…` from names with any characters, which are quoted."""
    return "/api/v1/" + "/".join(quote(part, safe="") for part in parts)


def connect(invocation: Invocation) -> "Api":
    """The API of this invocation's server; close it after use.

    Raises:
        NoServerKnownError, ServerNotTrustedError, CredentialsUnreadableError: see `access_of`.
    """
    access = access_of(
        invocation, process_environment(), folder=Path.cwd(), home=Path("~").expanduser()
    )
    return Api(access, limit_s=invocation.timeout_s)


class Api:
    """One server with one key. Safe to use from several threads."""

    def __init__(
        self,
        access: Access,
        *,
        limit_s: float | None = None,
        clock: Clock | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`limit_s` shortens the time limit of one answer; `transport` replaces the network."""
        self.server = access.server
        self.limit_s = limit_s
        self.clock = clock or SystemClock()
        self._patience_s = min(ANSWER_LIMIT_S, limit_s or ANSWER_LIMIT_S)
        self._client = httpx.Client(
            base_url=access.server,
            headers={
                "Authorization": f"Bearer {access.api_key}",
                "User-Agent": f"datarecs-cli/{release()}",
            },
            timeout=self._patience_s,
            verify=ssl.create_default_context(),
            trust_env=not access.is_local,  # a proxy would send it away from this machine
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Safe to repeat."""
        self._client.close()

    def get(self, *parts: str, **params: str) -> Json:
        """The JSON object at `/api/v1/<parts>`."""
        return self.send(ApiRequest(method="GET", path=path_of(*parts), params=params)).json()

    def pages(
        self, *parts: str, limit: int, params: Mapping[str, str], page_size: int = MAX_PAGE
    ) -> Iterator[Json]:
        """At most `limit` items of a list, read page by page."""
        left, more = limit, dict[str, str]()
        while left > 0:
            page = self.get(*parts, **params, limit=str(min(left, page_size)), **more)
            items = page.get("items")
            for item in items if isinstance(items, list) else []:
                left -= 1
                yield item
            cursor = page.get("next")
            if not isinstance(cursor, str):
                return
            more = {"cursor": cursor}

    def send(self, request: ApiRequest) -> Answer:
        """The answer with a status below 400, after at most three retries of safe requests.

        Raises:
            RefusedError: the server refused the request.
            ServerUnreachableError: no answer.
            UnexpectedAnswerError: the answer is not from this API.
        """
        for pause in range(RETRIES):
            try:
                answer = self._once(request)
            except ServerUnreachableError:
                if not request.is_repeatable:
                    raise
                self.clock.wait(timedelta(seconds=0.2 * 4**pause))
                continue
            again_s = _pause_s(answer, default=float(2**pause))
            if again_s is None or not request.is_repeatable or again_s > LONGEST_PAUSE_S:
                return _accepted(answer)
            self.clock.wait(timedelta(seconds=again_s))
        return _accepted(self._once(request))

    @contextmanager
    def lines(self, request: ApiRequest) -> Iterator[Iterator[str]]:
        """The lines of a streamed answer; not retried.

        Raises:
            RefusedError, ServerUnreachableError, UnexpectedAnswerError: also while reading.
        """
        timeout = httpx.Timeout(ANSWER_LIMIT_S, read=STREAM_SILENCE_S)
        try:
            with self._client.stream(
                request.method,
                request.path,
                params=dict(request.params),
                headers=dict(request.headers),
                timeout=timeout,
            ) as answer:
                if answer.status_code >= _ERRORS_FROM:
                    answer.read()
                    _accepted(_answer_of(answer, request))
                yield answer.iter_lines()
        except httpx.TransportError as cause:
            raise self._unreachable(cause) from cause

    def _once(self, request: ApiRequest) -> Answer:
        try:
            answer = self._client.request(
                request.method,
                request.path,
                params=dict(request.params),
                headers=dict(request.headers),
                json=request.body,
                timeout=self._patience_s + request.answer_after_s,
            )
        except httpx.TransportError as cause:
            raise self._unreachable(cause) from cause
        return _answer_of(answer, request)

    def _unreachable(self, cause: httpx.TransportError) -> ServerUnreachableError:
        reason = str(cause) or type(cause).__name__
        return ServerUnreachableError(server=self.server, reason=reason)


def _answer_of(answer: httpx.Response, request: ApiRequest) -> Answer:
    return Answer(
        status=answer.status_code,
        headers={name.lower(): value for name, value in answer.headers.items()},
        content=answer.content,
        where=request.where,
    )


def _pause_s(answer: Answer, *, default: float) -> float | None:
    """Seconds until the same request may be sent again; None if it must not be."""
    busy_key = answer.status == 409 and f'"{ApiCode.IDEMPOTENCY_KEY_BUSY.docs_id}"'.encode()  # noqa: PLR2004  conflict
    if answer.status not in _BUSY and not (busy_key and busy_key in answer.content):
        return None
    wanted = answer.headers.get("retry-after", "")
    return float(wanted) if wanted.isdigit() else default


def _accepted(answer: Answer) -> Answer:
    if answer.status < 300:  # noqa: PLR2004  the API sends no redirects
        return answer
    if answer.headers.get("content-type", "").startswith(_PROBLEM):
        raise RefusedError(where=answer.where, status=answer.status, problem=answer.json())
    raise UnexpectedAnswerError(where=answer.where, what=f"{answer.status}, not as our API does")
