"""A scripted REST API for clients: answers by method and path, with recorded requests.

A separate module because tests of a client need answers that the real API returns only in case of
faults: no answer, a broken stream, permanent refusals. No socket is opened.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
from starlette.testclient import TestClient

from datarecs_core.errors.base import ErrorCode

Reply = Callable[[httpx.Request], httpx.Response]
SERVER = "http://127.0.0.1:8080"
API_KEY = "drk_aaaaaaaaaaaa_" + "s" * 43
RUN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
JOB_ID = "01890a5d-ac96-774b-bcce-b302099a8001"
TENANT_ID = "01890a5d-ac96-774b-bcce-b302099a8002"
OPENAPI = Path(__file__).parents[4] / "docs" / "openapi.json"
PREFIX = "io.datarecs.reconciliation."


class ScriptedApi:
    """Each rule returns its replies in order; the last one is repeated."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self._rules: dict[tuple[str, str], list[Reply]] = {}

    def on(self, method: str, path: str, *replies: Reply) -> None:
        """Answer `/api/v1<path>`."""
        self._rules[method, f"/api/v1{path}"] = list(replies)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """The handler of a MockTransport; what it is sent is published."""
        self.requests.append(request)
        check_parameters(request)
        replies = self._rules.get((request.method, request.url.path))
        if replies is None:
            raise AssertionError(f"unexpected request {request.method} {request.url}")
        return (replies.pop(0) if len(replies) > 1 else replies[0])(request)

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self)

    def requests_to(self, method: str, path: str = "") -> list[httpx.Request]:
        """Requests of this kind, in order."""
        whole = f"/api/v1{path}" if path else ""
        return [
            one
            for one in self.requests
            if one.method == method and (not whole or one.url.path == whole)
        ]

    @contextmanager
    def in_place_of_the_network(self) -> Iterator[None]:
        """Every httpx client created inside the block uses this server."""
        with patch("httpx._client.HTTPTransport", lambda **_: self.transport):
            yield


class RealApi(ScriptedApi):
    """Requests of clients, answered by the application."""

    def __init__(self, client: TestClient) -> None:
        super().__init__()
        self.client = client

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        headers = {
            name: value
            for name, value in request.headers.items()
            if name in {"if-match", "content-type", "idempotency-key", "accept"}
        }
        answer = self.client.request(
            request.method,
            str(request.url.raw_path, "ascii"),
            content=request.content,
            headers=headers,
        )
        return httpx.Response(
            answer.status_code, content=answer.content, headers=dict(answer.headers)
        )


@cache
def _published() -> Mapping[str, Mapping[str, Any]]:
    document = json.loads(OPENAPI.read_text(encoding="utf-8"))
    paths: Mapping[str, Mapping[str, Any]] = document["paths"]
    return paths


def check_parameters(request: httpx.Request) -> None:
    """Every query parameter of the request is published for a route of its path."""
    names = set(request.url.params)
    for path, operations in _published().items():
        pattern = re.sub(r"\{[a-z_]+\}", "[^/]+", path)
        operation = operations.get(request.method.lower())
        if operation is not None and re.fullmatch(pattern, request.url.path):
            parameters = operation.get("parameters", ())
            names -= {one["name"] for one in parameters if one["in"] == "query"}
    if names:
        raise AssertionError(f"{request.method} {request.url} sends unpublished {sorted(names)}")


def written_credentials(folder: Path, *, server: str = SERVER, api_key: str = API_KEY) -> None:
    """A `.datarecs/credentials.toml` as the local platform leaves it."""
    path = folder / ".datarecs" / "credentials.toml"
    path.parent.mkdir()
    path.write_text(f'[local]\nserver = "{server}"\napi_key = "{api_key}"\n', encoding="utf-8")


def says(body: object, status: int = 200, **headers: str) -> Reply:
    """JSON; `_` in names of headers means `-`."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _request: httpx.Response(status, json=body, headers=sent)


def refuses(status: int, code: ErrorCode, *, detail: str = "no", **members: object) -> Reply:
    """A problem document; `retry_after_s` becomes its header too."""
    problem = {"status": status, "code": code.docs_id, "reason": code.name, "detail": detail}
    headers = {"content-type": "application/problem+json"}
    if "retry_after_s" in members:
        headers["retry-after"] = str(members["retry_after_s"])
    content = json.dumps({**problem, **members}).encode()
    return lambda _request: httpx.Response(status, content=content, headers=headers)


def hangs_up(request: httpx.Request) -> httpx.Response:
    """No server there."""
    raise httpx.ConnectError("Connection refused", request=request)


def streams(*parts: bytes | Exception) -> Reply:
    """An event stream in parts; an exception breaks it at its place."""

    def reply(_request: httpx.Request) -> httpx.Response:
        def content() -> Iterator[bytes]:
            for part in parts:
                if isinstance(part, Exception):
                    raise part
                yield part

        return httpx.Response(200, content=content(), headers={"content-type": "text/event-stream"})

    return reply


def a_run_view(**changes: object) -> dict[str, object]:
    """A run as REST shows it."""
    return {
        "run_id": RUN_ID,
        "job_id": JOB_ID,
        "job": "orders",
        "status": "QUEUED",
        "result": None,
        "error": None,
        "summary": None,
        "trigger_reason": None,
        "retry_of": None,
        "cancelled_by": None,
        "cancel_reason": None,
        "last_sequence": 0,
        "created_at": "2026-01-15T12:00:00.000000Z",
        **changes,
    }


def an_entry(number: int, kind: str, **data: object) -> dict[str, object]:
    """One event of the run's history, such as `run.triggered`."""
    return {
        "specversion": "1.0",
        "id": f"01890a5d-ac96-774b-bcce-{number:012d}",
        "source": "/datarecs/core-api",
        "type": f"{PREFIX}{kind}",
        "subject": f"run/{RUN_ID}",
        "time": f"2026-01-15T12:00:{number:02d}.000000Z",
        "disposition": "APPLIED",
        "runsequence": f"{number:020d}",
        "tenantid": TENANT_ID,
        "data": {"run_id": RUN_ID, "job_id": JOB_ID, "tenant_id": TENANT_ID, **data},
    }


def frame(event: str, data: Mapping[str, object]) -> bytes:
    """One server-sent event."""
    number = f"id: {int(str(data['runsequence']))}\n" if "runsequence" in data else ""
    return f"event: {event}\n{number}data: {json.dumps(data)}\n\n".encode()


def a_whole_stream(*entries: Mapping[str, object], run: Mapping[str, object]) -> Reply:
    """The stream of a run that has ended."""
    parts = [b"retry: 2000\n\n", *(frame("event", entry) for entry in entries)]
    parts += [frame("run", run), frame("end", {"status": run["status"], "result": run["result"]})]
    return streams(*parts)
