"""JSON Schema of a kind for editors, and the explanation of one field for people.

Generated from the shapes that decode, so a schema and `datarecs validate` cannot differ in names,
types and bounds. Rules between fields stay with `validate`.
"""

from collections.abc import Iterator, Mapping, Sequence

from datarecs_core.resources.resource import Kind
from datarecs_specs.envelope import envelope
from datarecs_specs.kinds import KINDS, KindEntry
from datarecs_specs.reading import JsonSchema

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(kind: Kind) -> JsonSchema:
    """The schema of a whole declaration of the kind, as served at `/schemas/<alias>/v1.json`."""
    entry = KINDS[kind]
    return {
        "$schema": DIALECT,
        "$id": schema_path(entry),
        **envelope((str(kind),), entry.shape).schema(),
        "title": str(kind),
    }


def schema_path(entry: KindEntry) -> str:
    return f"/schemas/{entry.alias}/v1.json"


def explain(kind: Kind, path: Sequence[str]) -> tuple[JsonSchema, ...]:
    """What is allowed at a path of field names below the declaration; lists are skipped.

    Several schemas when variants differ, each once; empty when there is no such field.
    """
    schemas: tuple[JsonSchema, ...] = (json_schema(kind),)
    for step in path:
        deeper = [below for one in schemas for below in _below(one, step)]
        schemas = _distinct(deeper)
    return schemas


def fields(schema: JsonSchema) -> tuple[str, ...]:
    """Names of the fields inside, without aliases; empty for single values."""
    names: dict[str, None] = {}
    for one in _forms(schema):
        properties = one.get("properties")
        for name, said in properties.items() if isinstance(properties, Mapping) else ():
            if not (isinstance(said, Mapping) and said.get("deprecated")):
                names[name] = None
    return tuple(names)


def _forms(schema: JsonSchema) -> Iterator[JsonSchema]:
    """The schema itself, its alternatives, and what its lists and free maps hold."""
    yield schema
    inside: list[object] = []
    for key in ("anyOf", "oneOf"):
        some = schema.get(key)
        inside += list(some) if isinstance(some, Sequence) and not isinstance(some, str) else []
    inside += [schema.get("items"), schema.get("additionalProperties")]
    for one in inside:
        if isinstance(one, Mapping):
            yield from _forms(one)


def _below(schema: JsonSchema, step: str) -> Iterator[JsonSchema]:
    for one in _forms(schema):
        properties = one.get("properties")
        said = properties.get(step) if isinstance(properties, Mapping) else None
        if isinstance(said, Mapping):
            yield said


def _distinct(schemas: Sequence[JsonSchema]) -> tuple[JsonSchema, ...]:
    seen: list[JsonSchema] = []
    for one in schemas:
        if one not in seen:
            seen.append(one)
    return tuple(seen)
