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
VERBS = ("list", "get", "follow", "create", "replace", "delete", "trigger", "cancel", "revoke")
OPERATIONS = [
    (method, path, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]
BODIES = [one for one in OPERATIONS if "requestBody" in one[2]]
SHOWN_ONCE = {
    ("CreatedOnce", "generated_secret"),
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
        if "security" in operation:
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
                assert answer["content"] == {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                }

    def test_needs_a_key_below_the_base_path(
        self, method: str, path: str, operation: Mapping[str, Any]
    ) -> None:
        guarded = path.startswith("/api/v1")
        assert ("security" in operation) is guarded, method
        if guarded:
            assert operation["security"] == [{"apiKey": []}]


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
    found: Mapping[str, Any] = DOCUMENT["components"]["schemas"][schema["$ref"].split("/")[-1]]
    return found


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
    schemas = DOCUMENT["components"]["schemas"]
    found = set(references(DOCUMENT))
    assert found
    for one in found:
        assert one.startswith("#/components/schemas/")
        assert one.rpartition("/")[2] in schemas


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
def test_no_request_has_a_field_that_the_server_owns() -> None:
    owned = {"tenant_id", "status", "result", "cancel_requested", "uid", "generation"}
    for _, _, operation in BODIES:
        for media in operation["requestBody"]["content"].values():
            schema = resolved(media["schema"])
            assert schema["additionalProperties"] is False
            assert not owned & set(schema["properties"])
            metadata = schema["properties"].get("metadata", {}).get("properties", {})
            assert not owned & set(metadata)
