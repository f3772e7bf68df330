"""The OpenAPI document: complete, stable in its names, honest about secrets, equal every time."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from datarecs_core.resources.resource import Kind
from datarecs_core_api import outputs
from datarecs_core_api.app import routes
from datarecs_core_api.guarded import ANY_PRINCIPAL, guarded_routes
from datarecs_core_api.openapi import document
from datarecs_core_api.outputs import Out
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_core_api.triggering import TriggerIn
from datarecs_specs.documents import Expected, decode_json
from datarecs_testing.api import memory_api

DOCUMENT = document()
VERBS = (
    *("list", "get", "follow", "create", "replace", "delete", "trigger", "retry", "cancel"),
    *("revoke", "test", "resend", "recover", "replay", "enable", "disable", "rotate", "preview"),
    *("reconcile", "pause", "resume", "start", "release", "commit", "reset", "accept"),
)
OPERATIONS = [
    (method, path, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]
BODIES = [one for one in OPERATIONS if "requestBody" in one[2]]
SHOWN_ONCE = {
    ("CreatedOnce", "generated_secret"),
    ("RotatedOnce", "generated_secret"),
    ("KeyOnce", "key"),
    ("TicketOnce", "ticket"),
}
SECRET = re.compile(r"secret|password|token|^key$|^ticket$|credential")


def names(cases: list[tuple[str, str, Any]]) -> list[str]:
    return [f"{method} {path}" for method, path, _ in cases]


def test_is_the_same_from_every_process() -> None:
    assert json.dumps(document()) == json.dumps(DOCUMENT)
    assert memory_api().bearing(None).get("/openapi.json").json() == DOCUMENT


@pytest.mark.case("U31")
def test_has_every_route_and_no_other() -> None:
    guarded = guarded_routes(routes())
    published = {
        (method.upper(), path): operation["x-datarecs-permission"]
        for method, path, operation in OPERATIONS
        if path.startswith("/api/v1")
    }
    assert published == guarded
    rest = {path for _, path, _ in OPERATIONS if not path.startswith("/api/v1")}
    assert rest == {"/livez", "/readyz", "/schemas/{kind}/v1.json"}


def test_names_each_operation_once_as_verb_and_noun() -> None:
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(ids)) == len(ids)
    for one in ids:
        assert re.fullmatch(rf"({'|'.join(VERBS)})_[a-z_]+", one), one


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=names(OPERATIONS))
class TestAnOperation:
    def test_says_what_it_does(self, method: str, path: str, operation: Mapping[str, Any]) -> None:
        assert operation["summary"]
        assert operation["tags"], (method, path)

    def test_names_every_status_it_can_answer(
        self, method: str, path: str, operation: Mapping[str, Any]
    ) -> None:
        statuses = set(operation["responses"])
        wanted = {"400", "500", "503"}
        if operation["security"]:
            wanted |= {"401", "429"}
            if operation["x-datarecs-permission"] != ANY_PRINCIPAL:
                wanted |= {"403"}
        if "{" in path:
            wanted |= {"404"}
        if "requestBody" in operation:
            wanted |= {"413", "415", "422"}
        if method in {"put", "delete"} and "{name}" in path:
            wanted |= {"412", "428"}
        if method == "post":
            wanted |= {"409"}
        assert statuses >= wanted

    def test_describes_each_answer(
        self, method: str, path: str, operation: Mapping[str, Any]
    ) -> None:
        for status, answer in operation["responses"].items():
            assert answer["description"], (method, path, status)
            if status != "304":
                assert answer["content"], (method, path, status)
            if int(status) >= 400 and path != "/readyz":
                (problem,) = answer["content"].values()
                assert [*answer["content"]] == ["application/problem+json"]
                assert problem["schema"] == {"$ref": "#/components/schemas/Problem"}
                assert problem["example"]["status"] == int(status)

    def test_needs_a_key_below_the_base_path(
        self, method: str, path: str, operation: Mapping[str, Any]
    ) -> None:
        guarded = path.startswith("/api/v1")
        assert operation["security"] == ([{"apiKey": []}] if guarded else []), method

    def test_names_the_headers_of_its_answers(
        self, method: str, path: str, operation: Mapping[str, Any]
    ) -> None:
        for status, answer in operation["responses"].items():
            assert "X-Request-Id" in answer["headers"], (method, path)
            assert ("Retry-After" in answer["headers"]) >= (status in {"429", "503"})
            for header in answer["headers"].values():
                assert header["$ref"].rpartition("/")[2] in DOCUMENT["components"]["headers"]

    def test_requires_if_match_where_428_follows_without(
        self, method: str, path: str, operation: Mapping[str, Any]
    ) -> None:
        needed = [one for one in operation.get("parameters", ()) if one["name"] == "If-Match"]
        assert [one["required"] for one in needed] == [True] * len(needed)
        assert (
            bool(needed)
            is ("428" in operation["responses"])
            is (method in {"put", "delete"} and "{name}" in path)
        )
        if needed:
            assert "412" in operation["responses"]


def test_says_whose_it_is_and_where() -> None:
    assert DOCUMENT["servers"] == [{"url": "/", "description": "The server of this document."}]
    assert DOCUMENT["info"]["license"] == {"name": "Apache-2.0", "identifier": "Apache-2.0"}
    assert DOCUMENT["info"]["contact"]["name"]
    described = {one["name"] for one in DOCUMENT["tags"] if one["description"]}
    assert {tag for *_, operation in OPERATIONS for tag in operation["tags"]} == described


FREE = {
    # headers as long as the server reads
    ("get", "if-none-match"),
    ("get", "accept"),
    ("get", "last-event-id"),
    ("post", "Prefer"),
}
"""Parameters without a bound: a text of any length is read, or means nothing."""
FREE_FIELDS = {
    # as long as the request that they speak of
    *(("FaultOut", name) for name in ("pointer", "message", "hint")),
    *(("Problem", name) for name in ("detail", "instance")),
    # as long as a receiver's answer, of which 64 KiB are stored, or as a declared URL
    *(("AttemptOut", name) for name in ("response_body", "response_headers", "request_headers")),
    *(("AttemptOut", name) for name in ("url", "key_ids", "body_sha256", "phases")),
    ("MetadataOut", "annotations"),
    ("ReadyOut", "reasons"),
}
"""Members of answers without a bound of their own."""
BOUNDS = {
    "string": {"format", "maxLength", "enum", "const", "pattern", "contentMediaType"},
    "integer": {"minimum", "enum", "const"},
}


def unbounded(schema: Mapping[str, Any]) -> bool:
    """Whether a text or an integer in it has neither format nor bound."""
    bounds = BOUNDS.get(schema.get("type", ""))
    if bounds is not None and not bounds & set(schema):
        return True
    inner = [*schema.get("anyOf", ()), schema.get("items"), schema.get("additionalProperties")]
    return any(unbounded(one) for one in inner if isinstance(one, dict))


def test_every_parameter_has_a_bound() -> None:
    free = {
        (method, one["name"])
        for method, _, operation in OPERATIONS
        for one in operation.get("parameters", ())
        if unbounded(one["schema"])
    }
    assert free == FREE


def test_every_member_of_our_models_has_a_bound() -> None:
    """Schemas of declarations are those of `datarecs validate` and have separate tests."""
    free = {
        (model, name)
        for model, schema in DOCUMENT["components"]["schemas"].items()
        if model not in set(Kind)
        for name, member in schema.get("properties", {}).items()
        if unbounded(member)
    }
    assert free == FREE_FIELDS


def test_every_example_is_one() -> None:
    validated = 0
    for holder in holders_of_examples(DOCUMENT):
        examples = holder.get("examples", [holder["example"]] if "example" in holder else [])
        schema = holder.get("schema", holder)
        validator = Draft202012Validator({**schema, "components": DOCUMENT["components"]})
        for example in examples:
            validator.validate(example)
            validated += 1
    assert validated > 100


def holders_of_examples(value: object) -> Iterator[Mapping[str, Any]]:
    """Everything with an example and a schema: parameters, headers, media, schemas."""
    match value:
        case dict():
            if isinstance(value.get("examples"), list) or (
                "example" in value and "schema" in value
            ):
                yield value
            for name, item in value.items():
                if name not in {"example", "examples"}:
                    yield from holders_of_examples(item)
        case list():
            for item in value:
                yield from holders_of_examples(item)


def test_the_key_is_a_bearer() -> None:
    scheme = DOCUMENT["components"]["securitySchemes"]["apiKey"]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")


@pytest.mark.parametrize(("method", "path", "operation"), BODIES, ids=names(BODIES))
def test_every_body_has_a_schema_and_an_example_of_it(
    method: str, path: str, operation: Mapping[str, Any]
) -> None:
    for media in operation["requestBody"]["content"].values():
        schema = resolved(media["schema"])
        assert schema["examples"], (method, path)
        validator = Draft202012Validator({**schema, "components": DOCUMENT["components"]})
        for example in schema["examples"]:
            validator.validate(example)


def test_every_post_takes_an_idempotency_key() -> None:
    for method, path, operation in OPERATIONS:
        headers = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "header"}
        assert ("Idempotency-Key" in headers) is (method == "post"), path


@pytest.mark.parametrize("kind", Kind)
def test_the_example_of_a_kind_is_free_of_faults(kind: Kind) -> None:
    decoded = decode_json(EXAMPLES[kind], expected=Expected(kind=kind))
    assert decoded.findings == ()


def test_the_examples_of_requests_are_taken() -> None:
    for example in TriggerIn.model_json_schema()["examples"]:
        TriggerIn.model_validate(example)


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    schema_of: Mapping[str, Any] = DOCUMENT["components"]["schemas"][schema["$ref"].split("/")[-1]]
    return schema_of


def references(value: object) -> Iterator[str]:
    match value:
        case dict():
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for item in value.values():
                yield from references(item)
        case list():
            for item in value:
                yield from references(item)


def test_every_reference_leads_somewhere() -> None:
    targets = set(references(DOCUMENT))
    assert targets
    for one in targets:
        _, _, group, name = one.split("/")
        assert name in DOCUMENT["components"][group]


def test_every_schema_is_one() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        assert name


@pytest.mark.case("X64")
def test_no_answer_can_hold_a_secret_but_those_shown_once() -> None:
    models = [
        one for one in vars(outputs).values() if isinstance(one, type) and issubclass(one, Out)
    ]
    suspicious = {
        (model.__name__, name)
        for model in models
        for name in model.model_fields
        if SECRET.search(name) and name in model.__annotations__
    }
    assert suspicious == SHOWN_ONCE


@pytest.mark.case("X21")
def test_no_request_has_a_field_that_the_server_sets() -> None:
    server_fields = {"tenant_id", "status", "result", "cancel_requested", "uid", "generation"}
    for _, _, operation in BODIES:
        for media in operation["requestBody"]["content"].values():
            schema = resolved(media["schema"])
            assert schema["additionalProperties"] is False
            assert not server_fields & set(schema["properties"])
            metadata = schema["properties"].get("metadata", {}).get("properties", {})
            assert not server_fields & set(metadata)
