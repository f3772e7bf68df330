"""Headers of responses and requests in the OpenAPI document.

Separate from `describing`, which assembles the document: the headers of each response are
guaranteed to clients and are in one table. A header of every response is one more line of
`EVERY_ANSWER`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Json = dict[str, Any]
IF_MATCH: Json = {
    "name": "If-Match",
    "in": "header",
    "required": True,
    "description": "The object's ETag, or * for any version. 428 without it, 412 if the object has "
    "changed.",
    "schema": {"type": "string", "pattern": r'^(\*|"[!#-~]+")$', "maxLength": 128},
    "example": "*",
}
IDEMPOTENCY_KEY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A repetition with the same key returns the first response again, for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
    "example": "night-2026-01-31",
}
_SECONDS = {"type": "integer", "minimum": 0, "maximum": 86_400}
HEADERS: Mapping[str, Json] = {
    "ETag": {
        "description": "Version of the object, for If-Match and If-None-Match.",
        "schema": {"type": "string", "pattern": '^"[!#-~]+"$', "maxLength": 128},
        "example": '"0198c0de-7a10-7c3e-9b1f-2f6d5a4e1c01:17"',
    },
    "Location": {
        "description": "Path of the object, run or action.",
        "schema": {"type": "string", "format": "uri-reference", "maxLength": 2_000},
        "example": "/api/v1/jobs/ledger-vs-exports",
    },
    "Retry-After": {
        "description": "Seconds to wait before the next request.",
        "schema": _SECONDS,
        "example": 1,
    },
    "Link": {
        "description": '`rel="next"`: the following page; absent on the last page.',
        "schema": {"type": "string", "pattern": '^<[^>]+>; rel="next"$'},
        "example": '</api/v1/runs?limit=50&cursor=x>; rel="next"',
    },
    "Preference-Applied": {
        "description": "`wait=N`: the wait that was used, when one was preferred (RFC 7240).",
        "schema": {"type": "string", "pattern": "^wait=[0-9]{1,2}$"},
        "example": "wait=30",
    },
    "Idempotency-Replayed": {
        "description": "`true` if this is the first response again.",
        "schema": {"type": "string", "enum": ["true"]},
        "example": "true",
    },
    "WWW-Authenticate": {
        "description": "How to sign in.",
        "schema": {"type": "string", "enum": ["Bearer"]},
        "example": "Bearer",
    },
    "X-Request-Id": {
        "description": "The X-Request-Id of the request if it is valid, else the trace id.",
        "required": True,
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]+$", "maxLength": 128},
        "example": "night-2026-01-31",
    },
}
EVERY_ANSWER = ("X-Request-Id",)
_TAGGED = frozenset({"get_run"})
_WAITING = frozenset({"trigger_run", "retry_run", "cancel_run"})


def references(operation: Json, method: str, status: str) -> Json:
    """The `headers` member of one response: references to the components."""
    names = [*EVERY_ANSWER, *_names(operation, method, status)]
    return {name: {"$ref": f"#/components/headers/{name}"} for name in dict.fromkeys(names)}


def _names(operation: Json, method: str, status: str) -> Iterator[str]:
    if status == "401":
        yield "WWW-Authenticate"
    elif status in {"409", "429", "503"}:
        yield "Retry-After"
    elif status in {"304", "412"}:
        yield "ETag"
    if status.startswith("2"):
        yield from _of_success(operation, method, status)


def _of_success(operation: Json, method: str, status: str) -> Iterator[str]:
    name, responses = str(operation["operationId"]), operation["responses"]
    if method == "post":
        yield "Idempotency-Replayed"
    if name in _WAITING:
        yield from ("Location", "Retry-After", "Preference-Applied")
    elif name == "start_capture":
        yield "Location"
    elif status == "202" and "webhooks" in _tags(operation):
        yield from ("Location", "Retry-After")
    elif (
        "304" in responses
        or method == "put"
        or (method == "post" and "resources" in _tags(operation))
    ):
        yield "ETag"
        if status == "201":
            yield "Location"
    if any(one["name"] == "cursor" for one in operation.get("parameters", ())):
        yield "Link"


def _tags(operation: Json) -> list[str]:
    return list(operation.get("tags", ()))
