"""The fields of a kind as its published JSON Schema names them, one entry per variant.

A separate module because a probe is looked up by these paths: a field that is added to a shape
appears here by itself, and a test that finds no probe for it fails.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from datarecs_core.resources.resource import Kind
from datarecs_specs.json_schema import json_schema
from datarecs_specs.reading import JsonSchema

_ALIAS = re.compile(r"another name of `(\w+)`")
_TAGS = ("kind", "type")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaField:
    """A value in a declaration: a place that holds no further fields."""

    path: str
    """Such as `spec.sources[]<csv>.options.delimiter`; `.*` is a name that the user chooses."""
    schema: JsonSchema

    @property
    def is_fixed(self) -> bool:
        """Whether only one word is allowed, so that there is no choice."""
        words = self.schema.get("enum")
        return isinstance(words, list) and len(words) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaAlias:
    """Another name of a field or of a part with fields."""

    parent: str
    name: str
    field: str


def fields_of(kind: Kind) -> tuple[SchemaField, ...]:
    """Every field of the kind once, without aliases, sorted by path."""
    schemas = dict(_fields(json_schema(kind), ""))
    return tuple(SchemaField(path=path, schema=schemas[path]) for path in sorted(schemas))


def aliases_of(kind: Kind) -> tuple[SchemaAlias, ...]:
    """Every alias of the kind once, in every variant that has it."""
    fields = {(parent, name): field for parent, name, field in _aliases(json_schema(kind), "")}
    return tuple(
        SchemaAlias(parent=parent, name=name, field=fields[parent, name])
        for parent, name in sorted(fields)
    )


def _fields(schema: JsonSchema, path: str) -> Iterator[tuple[str, JsonSchema]]:
    for name, said in _properties(schema):
        if not said.get("deprecated"):
            place = f"{path}.{name}".lstrip(".")
            below = list(_fields(said, place))
            yield from below or [(place, said)]
    for part, place in _parts(schema, path):
        yield from _fields(part, place)


def _aliases(schema: JsonSchema, path: str) -> Iterator[tuple[str, str, str]]:
    for name, said in _properties(schema):
        match = _ALIAS.fullmatch(str(said.get("description")))
        if match is not None:
            yield path, name, match[1]
        else:
            yield from _aliases(said, f"{path}.{name}".lstrip("."))
    for part, place in _parts(schema, path):
        yield from _aliases(part, place)


def _properties(schema: JsonSchema) -> Iterator[tuple[str, JsonSchema]]:
    properties = schema.get("properties")
    for name, said in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(said, Mapping):
            yield name, said


def _parts(schema: JsonSchema, path: str) -> Iterator[tuple[JsonSchema, str]]:
    """What lists, free mappings and alternatives hold, and where that is."""
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        part = schema.get(key)
        if isinstance(part, Mapping):
            yield part, path + mark
    for key in ("oneOf", "anyOf"):
        alternatives = schema.get(key)
        for part in alternatives if isinstance(alternatives, list) else ():
            if isinstance(part, Mapping):
                yield part, path + (_variant(part) if key == "oneOf" else "")


def _variant(schema: JsonSchema) -> str:
    """`<csv>` of the variant whose tag can only be `csv`."""
    for name, said in _properties(schema):
        words = said.get("enum")
        if name in _TAGS and isinstance(words, list) and len(words) == 1:
            return f"<{words[0]}>"
    return ""
