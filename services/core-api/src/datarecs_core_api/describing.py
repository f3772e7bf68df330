"""The OpenAPI document of an application: FastAPI's, completed here.

`body` reads the bodies, so their schemas are added here: models of requests, and for
declarations the schemas that `datarecs validate` uses. Every status that a route can return is in
it, with the schema of problems, an example and the headers.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from datarecs_core.errors.base import ErrorCode
from datarecs_core_api.capture_bodies import SCHEMA_NAME, CancelCaptureIn, capture_schema
from datarecs_core_api.inputs import NoFieldsIn
from datarecs_core_api.outputs import ProblemOut
from datarecs_core_api.problems import MEDIA_TYPE, STATUS
from datarecs_core_api.published_headers import HEADERS, IDEMPOTENCY_KEY, IF_MATCH, references
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_core_api.routes.endpoint_verbs import RotateIn
from datarecs_core_api.routes.events import TicketIn
from datarecs_core_api.routes.keys import KeyIn
from datarecs_core_api.routes.previews import PreviewIn, TestIn
from datarecs_core_api.routes.runs import CancelIn, RetryIn
from datarecs_core_api.routes.sinks import AcceptTableIn, ResetSinkIn
from datarecs_core_api.routes.webhook_actions import (
    EndpointTestIn,
    RecoverIn,
    ReplayIn,
    ResendIn,
)
from datarecs_core_api.triggering import TriggerIn
from datarecs_specs.json_schema import json_schema
from datarecs_specs.kinds import KINDS

Json = dict[str, Any]
BODIES = (
    *(TriggerIn, RetryIn, CancelIn, KeyIn, TicketIn, PreviewIn, TestIn),
    *(EndpointTestIn, RecoverIn, ReplayIn, ResendIn, RotateIn, NoFieldsIn),
    *(AcceptTableIn, CancelCaptureIn, ResetSinkIn),
)
_REF = "#/components/schemas/{model}"
NOT_MODIFIED = "304"
_MEANINGS: Mapping[int, str] = {
    304: "Not changed since the version that If-None-Match names.",
    400: "The request cannot be read, or has a key in a wrong place.",
    401: "No valid credential.",
    403: "The key lacks the permission.",
    404: "Not found, or you have no access to it.",
    406: "No response of the requested type.",
    409: "It conflicts with the stored object or with a request in progress.",
    410: "The place is too old; list the objects again.",
    412: "The object has changed; ETag holds its current version.",
    413: "The body is too large.",
    415: "The body is of another type.",
    422: "The request is not allowed; `errors` names each fault.",
    428: "If-Match is missing.",
    429: "Too many requests; wait for the seconds in Retry-After.",
    500: "The server failed; the log has the `trace_id`.",
    503: "Not available now; wait for the seconds in Retry-After.",
}
_INFO = (
    "Reconciliation of N data sources. Every path below /api/v1 needs an API key; "
    "`x-datarecs-permission` names the permission. GET routes accept HEAD too. Every POST "
    "accepts an Idempotency-Key. Lists have `items` and `next`; errors are RFC 9457 problems."
)
_ABOUT: Json = {
    "contact": {"name": "The datarecs maintainers"},
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}
_SERVERS = [{"url": "/", "description": "The server of this document."}]
_TAGS: Mapping[str, str] = {
    "resources": "Connections, jobs, schedules, webhook endpoints, notification rules, "
    "retention policies.",
    "runs": "Trigger, cancel, list and follow runs, and read their results.",
    "events": "Events of all runs of the tenant, live.",
    "captures": "Metadata and statistics of the tables of a connection: start, follow, cancel.",
    "webhooks": "Deliveries and their outcomes.",
    "mails": "Mails, their outcomes, and addresses that receive none.",
    "keys": "Create, list and revoke API keys.",
    "catalogue": "What captures recorded about sources: tables, snapshots, statistics.",
    "system": "Status and version of the server.",
}


def described(app: FastAPI) -> Json:
    """The document of an application with these routes."""
    document: Json = get_openapi(
        title=app.title,
        version=app.version,
        description=_INFO,
        routes=app.routes,
        separate_input_output_schemas=False,
        servers=_SERVERS,
        tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
    )
    document["info"] |= _ABOUT
    components = document.setdefault("components", {})
    schemas: Json = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas |= dict(_schemas())
    components["schemas"] = dict(sorted(schemas.items()))
    components["securitySchemes"] = {
        "apiKey": {"type": "http", "scheme": "bearer", "description": "`drk_…`, an API key."}
    }
    components["headers"] = dict(HEADERS)
    for path in document["paths"].values():
        for method, operation in path.items():
            _complete(operation, method)
    return document


def _schemas() -> Iterator[tuple[str, Json]]:
    for model in BODIES:
        yield model.__name__, model.model_json_schema(ref_template=_REF)
    yield SCHEMA_NAME, dict(capture_schema())
    problem = ProblemOut.model_json_schema(ref_template=_REF)
    yield from problem.pop("$defs").items()
    yield "Problem", {**problem, "title": "Problem"}
    for kind in KINDS:
        schema = dict(json_schema(kind))
        for member in ("$schema", "$id"):
            schema.pop(member)
        yield str(kind), {**schema, "examples": [EXAMPLES[kind]]}


def _complete(operation: Json, method: str) -> None:
    """Parameters as they are sent, and every status with its schema, example and headers."""
    operation.setdefault("security", [])
    responses: Json = operation["responses"]
    parameters = [_sent(one) for one in operation.get("parameters", ())]
    if "428" in responses:
        parameters = [IF_MATCH if one["name"] == "if-match" else one for one in parameters]
    if method == "post":
        parameters.append(IDEMPOTENCY_KEY)
    if parameters:
        operation["parameters"] = parameters
    for status in _refusals(operation, method):
        responses.setdefault(str(status), {})
    for text, answer in responses.items():
        if int(text) in _MEANINGS and not _is_ready(answer):
            answer["description"] = _MEANINGS[int(text)]
            if text != NOT_MODIFIED:
                answer["content"] = _problem(int(text))
        answer["headers"] = references(operation, method, text)
    operation["responses"] = dict(sorted(responses.items()))


def _sent(parameter: Json) -> Json:
    """Absent is not null: what is sent has the one schema beside null."""
    schema: Json = dict(parameter["schema"])
    options = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if len(options) == 1:
        schema.pop("anyOf")
        schema = {**options[0], **schema}
    schema.pop("description", None)
    return {**parameter, "schema": schema}


def _problem(status: int) -> Json:
    """The content of a refusal, with an example of a code that has this status."""
    code = next(code for code, assigned in STATUS.items() if assigned == status)
    example = _problem_example(code, status)
    return {
        MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}, "example": example},
    }


def _problem_example(code: ErrorCode, status: int) -> Json:
    return {
        "type": f"urn:datarecs:error:{code.docs_id}",
        "title": code.entry.meaning,
        "status": status,
        "detail": code.entry.causes,
        "instance": "/api/v1/runs",
        "code": code.docs_id,
        "reason": code.name,
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "request_id": "0af7651916cd43dd8448eb211c80319c",
    }


def _is_ready(answer: Json) -> bool:
    """/readyz returns 503 with a different body."""
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return str(schema.get("$ref", "")).endswith("/ReadyOut")


def _refusals(operation: Json, method: str) -> Iterator[int]:
    """What follows from the shape of a route; the rest it declares itself."""
    parameters = operation.get("parameters", [])
    yield from (400, 422, 500, 503)
    if operation["security"]:
        yield from (401, 429)
        if operation["x-datarecs-permission"] != "any principal":
            yield 403
    if any(one["in"] == "path" for one in parameters):
        yield 404
    if "requestBody" in operation:
        yield from (413, 415)
    if method == "post":
        yield 409
