"""The JSON Schema (2020-12) of an event's payload, from the same shape that the codec checks.

Schemas are open: readers ignore unknown fields. This module makes schemas in memory, for the
compatibility check and the tests.
"""

from typing import Any, assert_never

from datarecs_events.catalogue import EventDef
from datarecs_events.conversion import SOURCE_KEY
from datarecs_events.field_docs import class_doc, field_docs
from datarecs_events.scalars import RFC3339
from datarecs_events.shapes import (
    MAX_INTEGER,
    MAX_TEXT,
    Flag,
    Id,
    Instant,
    Integer,
    ListOf,
    Number,
    PerSourceMap,
    Record,
    Shape,
    Text,
    Word,
    shape_of,
)

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


def schema_of(definition: EventDef) -> Schema:
    """The published schema of a type; `$id` names type, major version and addition."""
    schema = {
        "$schema": DIALECT,
        "$id": definition.dataschema,
        "title": definition.type.value,
        **_schema(shape_of(definition.event_class)),
    }
    for name, value in definition.fixed.items():
        schema["properties"][name] |= {"const": value}
        schema["properties"][name].pop("enum", None)
    if not definition.tenant_required:
        schema["required"].remove("tenant_id")
    if definition.exactly_one:
        schema["oneOf"] = [{"required": [name]} for name in definition.exactly_one]
    if definition.absent:
        schema["not"] = {"anyOf": [{"required": [name]} for name in definition.absent]}
    return schema


def _schema(shape: Shape) -> Schema:  # noqa: C901, PLR0911 - one case per shape
    match shape:
        case Record():
            return _record(shape)
        case ListOf(item=item):
            return {"type": "array", "items": _schema(item)}
        case PerSourceMap(item=item):
            keys = {"pattern": f"^{SOURCE_KEY.pattern}$"}
            return {
                "type": "object",
                "propertyNames": keys,
                "additionalProperties": _schema(item),
            }
        case Text(known=known):
            examples = {"examples": list(known)} if known else {}
            return {"type": "string", "maxLength": MAX_TEXT} | examples
        case Word(words=words):
            return {"type": "string", "enum": [word.value for word in words]}
        case Integer(least=least):
            return {"type": "integer", "minimum": least, "maximum": MAX_INTEGER}
        case Number():
            return {"type": "number"}
        case Flag():
            return {"type": "boolean"}
        case Id():
            return {"type": "string", "format": "uuid", "pattern": _UUID}
        case Instant():
            return {"type": "string", "format": "date-time", "pattern": f"^{RFC3339.pattern}$"}
    assert_never(shape)


def _record(shape: Record) -> Schema:
    texts = field_docs(shape.event_class)
    return {
        "description": class_doc(shape.event_class),
        "type": "object",
        "properties": {
            one.name: {"description": texts.get(one.name, "")} | _inner(_schema(one.shape))
            for one in shape.fields
        },
        "required": [one.name for one in shape.fields if one.required],
    }


def _inner(schema: Schema) -> Schema:
    """The description of a field; for a nested object that of the field, not of its class."""
    return {name: value for name, value in schema.items() if name != "description"}
