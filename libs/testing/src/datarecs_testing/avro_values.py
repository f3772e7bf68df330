"""Write Avro's binary form for tests, from the specification and not from the decoder.

Values are those of the primitive types: logical types are the business of tests. A branch of a
union is written as `(index, value)`.
"""

import struct
from collections.abc import Mapping
from typing import Any

_FORMS = {"float": "<f", "double": "<d", "boolean": "?"}


def confluent(number: int, schema: object, value: object) -> bytes:
    """The value of a record by the schema of a registry."""
    return b"\0" + number.to_bytes(4) + avro_bytes(schema, value)


def avro_bytes(
    schema: Any,  # noqa: ANN401  any JSON
    value: Any,  # noqa: ANN401  the schema decides
    named: dict[str, Any] | None = None,
) -> bytes:
    """Args: named: types by name; those of the whole schema if it is left out."""
    named = _definitions(schema) if named is None else named
    if isinstance(schema, list):
        index, inner = value
        return long_bytes(index) + avro_bytes(schema[index], inner, named)
    if isinstance(schema, str):
        kind = named.get(schema)
        return _primitive(schema, value) if kind is None else _complex(kind, value, named)
    return _complex(schema, value, named)


def _definitions(schema: Any) -> dict[str, Any]:  # noqa: ANN401  any JSON
    """The named types anywhere inside, by name."""
    if isinstance(schema, list):
        return {name: kind for one in schema for name, kind in _definitions(one).items()}
    if not isinstance(schema, dict):
        return {}
    inside = _definitions([schema.get(part) for part in ("type", "items", "values", "fields")])
    is_named = schema.get("type") in ("record", "enum", "fixed")
    return {**inside, **({schema["name"]: schema} if is_named else {})}


def _complex(schema: Mapping[str, Any], value: Any, named: dict[str, Any]) -> bytes:  # noqa: ANN401  see above
    match schema["type"]:
        case "record":
            fields = schema["fields"]
            return b"".join(avro_bytes(one["type"], value[one["name"]], named) for one in fields)
        case "array":
            return _blocks([avro_bytes(schema["items"], item, named) for item in value])
        case "map":
            pairs = [
                _primitive("string", name) + avro_bytes(schema["values"], item, named)
                for name, item in value.items()
            ]
            return _blocks(pairs)
        case "enum":
            return long_bytes(schema["symbols"].index(value))
        case dict() | list() as inner:
            return avro_bytes(inner, value, named)
    return bytes(value) if schema["type"] == "fixed" else _primitive(schema["type"], value)


def _blocks(items: list[bytes]) -> bytes:
    """The first item in a block with its size, the others in one without."""
    if not items:
        return b"\0"
    first, others = items[0], items[1:]
    begin = long_bytes(-1) + long_bytes(len(first)) + first
    return begin + (long_bytes(len(others)) + b"".join(others) if others else b"") + b"\0"


def _primitive(kind: str, value: Any) -> bytes:  # noqa: ANN401  the kind decides
    match kind:
        case "null":
            return b""
        case "int" | "long":
            return long_bytes(value)
        case "string" | "bytes":
            raw = value.encode() if isinstance(value, str) else bytes(value)
            return long_bytes(len(raw)) + raw
    return struct.pack(_FORMS[kind], value)


def long_bytes(value: int) -> bytes:
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    octets = bytearray()
    while rest > 127:
        octets.append(rest % 128 + 128)
        rest //= 128
    return bytes((*octets, rest))


def record_of(fields: Mapping[str, object], name: str = "Row") -> dict[str, object]:
    """The schema of a record with these fields."""
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": listed}
