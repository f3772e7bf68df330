"""What the OpenAPI document says of an application: FastAPI's, completed by what only we know.

Bodies are read by our own reader, so their schemas are added here: models of requests, and for
declarations the schemas that `datarecs validate` uses. Every status a route can answer stands in
it, with the problem's schema.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from datarecs_core_api.outputs import ProblemOut
from datarecs_core_api.problems import MEDIA_TYPE
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_core_api.routes.events import TicketIn
from datarecs_core_api.routes.keys import KeyIn
from datarecs_core_api.routes.runs import CancelIn
from datarecs_core_api.triggering import TriggerIn
from datarecs_specs.json_schema import json_schema
from datarecs_specs.kinds import KINDS

Json = dict[str, Any]
BODIES = (TriggerIn, CancelIn, KeyIn, TicketIn)
_REF = "#/components/schemas/{model}"
_PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}}}
NOT_MODIFIED = "304"
_MEANINGS: Mapping[int, str] = {
    304: "Not changed since the version that If-None-Match names.",
    400: "The request cannot be read, or holds a key where none belongs.",
    401: "No valid credential.",
    403: "The key lacks the permission.",
    404: "There is no such thing, as far as this principal may know.",
    406: "No answer of the wanted type.",
    409: "It conflicts with what stands there, or with a request under way.",
    412: "The object has changed; ETag holds its current version.",
    413: "The body is too large.",
    415: "The body is of another type.",
    422: "Readable, and not allowed; `errors` names each fault.",
    428: "If-Match is missing.",
    429: "Too many; Retry-After says when to come back.",
    500: "The server failed; `trace_id` finds it in the log.",
    503: "Not now; Retry-After says when to come back.",
}
_INFO = (
    "Reconciliation of N data sources. Every path below /api/v1 needs an API key; permissions "
    "stand in `x-datarecs-permission`. GET routes take HEAD too. Any POST takes an "
    "Idempotency-Key. Lists have `items` and `next`; errors are RFC 9457 problems."
)
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A repetition under the same key gives the first answer again, for 24 hours.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}


def described(app: FastAPI) -> Json:
    """The document of an application with these routes."""
    found: Json = get_openapi(
        title=app.title,
        version=app.version,
        description=_INFO,
        routes=app.routes,
        separate_input_output_schemas=False,
    )
    components = found.setdefault("components", {})
    schemas: Json = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas |= dict(_schemas())
    components["schemas"] = dict(sorted(schemas.items()))
    components["securitySchemes"] = {
        "apiKey": {"type": "http", "scheme": "bearer", "description": "`drk_…`, an API key."}
    }
    for path in found["paths"].values():
        for method, operation in path.items():
            _complete(operation, method)
    return found


def _schemas() -> Iterator[tuple[str, Json]]:
    for model in BODIES:
        yield model.__name__, model.model_json_schema(ref_template=_REF)
    problem = ProblemOut.model_json_schema(ref_template=_REF)
    yield from problem.pop("$defs").items()
    yield "Problem", {**problem, "title": "Problem"}
    for kind in KINDS:
        schema = dict(json_schema(kind))
        for member in ("$schema", "$id"):
            schema.pop(member)
        yield str(kind), {**schema, "examples": [EXAMPLES[kind]]}


def _complete(operation: Json, method: str) -> None:
    """Idempotency-Key, and every status with its schema."""
    if method == "post":
        operation.setdefault("parameters", []).append(_KEY)
    responses: Json = operation["responses"]
    for status in _refusals(operation, method):
        responses.setdefault(str(status), {})
    for text, answer in responses.items():
        if int(text) in _MEANINGS and not _is_ready(answer):
            answer["description"] = _MEANINGS[int(text)]
            if text != NOT_MODIFIED:
                answer["content"] = _PROBLEM
    operation["responses"] = dict(sorted(responses.items()))


def _is_ready(answer: Json) -> bool:
    """/readyz answers 503 with its own body."""
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return str(schema.get("$ref", "")).endswith("/ReadyOut")


def _refusals(operation: Json, method: str) -> Iterator[int]:
    """What follows from the shape of a route; the rest it declares itself."""
    parameters = operation.get("parameters", [])
    yield from (400, 422, 500, 503)
    if "security" in operation:
        yield from (401, 429)
        if operation["x-datarecs-permission"] != "any principal":
            yield 403
    if any(one["in"] == "path" for one in parameters):
        yield 404
    if "requestBody" in operation:
        yield from (413, 415)
    if method == "post":
        yield 409
