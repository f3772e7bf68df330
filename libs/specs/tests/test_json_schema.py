"""JSON Schema: printed from the shapes, so that an editor and `validate` agree."""

from collections.abc import Mapping

import pytest
from jsonschema import Draft202012Validator

from datarecs_core.resources.resource import Kind
from datarecs_specs.documents import decode_json
from datarecs_specs.json_schema import explain, fields, json_schema, schema_path
from datarecs_specs.kinds import KINDS
from datarecs_specs.shapes import Whole

ROW = {"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}
SOURCES = [
    {"name": "a", "kind": "csv", "connection": "f", "path": "a.csv"},
    {"name": "b", "kind": "postgres", "connection": "p", "relation": "t"},
]


def job(**spec: object) -> Mapping[str, object]:
    return {
        "apiVersion": "datarecs.io/v1",
        "kind": "ReconciliationJob",
        "metadata": {"name": "orders"},
        "spec": {"sources": SOURCES, "stages": [ROW], **spec},
    }


GOOD = [
    job(),
    {**job(), "spec": {"inputs": SOURCES, "stages": [ROW]}},
    job(execution={"partitions": 7, "memory": "4GiB"}),
    job(execution={"partitions": "auto"}),
    job(stages=[{**ROW, "measures": [{"name": "m", "abs_tol": "0.01"}]}]),
    job(stages=[{**ROW, "dimensions": [{"name": "a", "column": "b"}], "accept": {}}]),
    job(parameters={"d": {"type": "list<date>", "default": ["2026-01-01"]}}),
]
BAD = [
    job(owner=["x"]),
    job(unknown=1),
    job(sources=[]),
    job(stages=[{**ROW, "type": "rows"}]),
    job(stages=[{**ROW, "queries": {}}]),
    job(sources=[SOURCES[0], {**SOURCES[1], "topic": "x"}]),
    job(execution={"partitions": "many"}),
    job(execution={"attempts": 11}),
    job(execution={"memory": "1GB"}),
    job(stages=[{**ROW, "measures": [{"name": "m", "tolerances": []}]}]),
    job(parameters={"D": {"type": "date"}}),
    {**job(), "metadata": {"name": "Orders"}},
    {**job(), "metadata": {}},
    {**job(), "kind": "Pipeline"},
    {**job(), "status": {}},
]


def agrees(document: Mapping[str, object]) -> tuple[bool, bool]:
    validator = Draft202012Validator(json_schema(Kind.RECONCILIATION_JOB))
    return validator.is_valid(document), not decode_json(document).faults


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_a_schema_that_is_one(kind: Kind) -> None:
    schema = json_schema(kind)
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == schema_path(KINDS[kind])


@pytest.mark.parametrize("document", GOOD)
def test_what_validate_accepts_the_schema_accepts(document: Mapping[str, object]) -> None:
    assert agrees(document) == (True, True)


@pytest.mark.parametrize("document", BAD)
def test_what_the_schema_refuses_validate_refuses(document: Mapping[str, object]) -> None:
    assert agrees(document) == (False, False)


def test_every_field_has_a_description() -> None:
    def without(schema: object, path: str) -> list[str]:
        if not isinstance(schema, Mapping):
            return []
        fields = []
        for name, said in schema.get("properties", {}).items():
            fields += [] if said.get("description") else [f"{path}.{name}"]
            fields += without(said, f"{path}.{name}")
        for key in ("items", "additionalProperties"):
            fields += without(schema.get(key), path)
        for key in ("anyOf", "oneOf"):
            for one in schema.get(key, []):
                fields += without(one, path)
        return fields

    assert [gap for kind in Kind for gap in without(json_schema(kind), kind)] == []


def test_a_default_is_shown() -> None:
    (memory,) = explain(Kind.RECONCILIATION_JOB, ("spec", "execution", "memory"))
    assert memory["default"] == "2GiB"
    assert "1GiB to 256GiB" in str(memory["description"])


def test_a_field_inside_lists_and_variants_is_explained_once() -> None:
    path = ("spec", "stages", "measures", "tolerances", "type")
    (explanation,) = explain(Kind.RECONCILIATION_JOB, path)
    assert explanation["enum"] == ["EXACT", "ABSOLUTE", "PERCENTAGE", "DURATION"]


def test_fields_are_listed_without_aliases() -> None:
    (spec,) = explain(Kind.RECONCILIATION_JOB, ("spec",))
    assert "sources" in fields(spec)
    assert "inputs" not in fields(spec)


def test_an_unknown_field_explains_nothing() -> None:
    assert explain(Kind.CONNECTION, ("spec", "nothing")) == ()


@pytest.mark.parametrize(
    ("most", "text", "expected"),
    [
        (2**63 - 1, "9223372036854775807", True),
        (2**63 - 1, "9223372036854775808", False),
        (2**63 - 1, "9999999999999999999", False),
        (2**63 - 1, "0", True),
        (2**63 - 1, "007", True),
        (2**63 - 1, "", False),
        (2**63 - 1, "-1", False),
    ],
)
def test_a_whole_number_that_json_cannot_hold_is_a_text_within_its_bounds(
    most: int, text: str, *, expected: bool
) -> None:
    schema = Whole(least=0, most=most).schema()
    assert Draft202012Validator(schema).is_valid(text) is expected
