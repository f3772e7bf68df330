"""Avro schemas of control messages, as the Java connector 1.11.0 writes them.

Java creates its objects from the names here and fails for one more field, so nothing is ever added;
what is ours travels in headers. Only the partition struct differs between messages.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from datarecs_core.sink.control import PartitionField

Schema = Any
"""Parsed JSON."""

_EVENTS = "org.apache.iceberg.connect.events"
_FILES = "org.apache.iceberg"
_UUID = {"type": "fixed", "name": "uuid_fixed", "namespace": "", "size": 16, "logicalType": "uuid"}
_TIME = {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}


def _required(name: str, kind: Schema, number: int, doc: str | None = None) -> Schema:
    return {"name": name, "type": kind, **({"doc": doc} if doc else {}), "field-id": number}


def _optional(name: str, kind: Schema, number: int, doc: str | None = None) -> Schema:
    text = {"doc": doc} if doc else {}
    return {"name": name, "type": ["null", kind], **text, "default": None, "field-id": number}


def _record(name: str, *fields: Schema, namespace: str = _EVENTS) -> Schema:
    return {"type": "record", "name": name, "namespace": namespace, "fields": list(fields)}


def _list(items: Schema, number: int) -> Schema:
    return {"type": "array", "items": items, "element-id": number}


def _map(name: str, value: str, numbers: tuple[int, int, int], doc: str) -> Schema:
    """Keyed by column. The numbers are of the field, the key and the value."""
    number, key, content = numbers
    pair = _record(
        f"k{key}_v{content}",
        _required("key", "int", key),
        _required("value", value, content),
        namespace="",
    )
    return _optional(name, {"type": "array", "items": pair, "logicalType": "map"}, number, doc)


_TABLE = _record(
    "TableReference",
    _required("catalog", "string", 10600),
    _required("namespace", _list("string", 10602), 10601),
    _required("name", "string", 10603),
    _optional("table_uuid", _UUID, 10604),
)
_OFFSET = _record(
    "TopicPartitionOffset",
    _required("topic", "string", 10700),
    _required("partition", "int", 10701),
    _optional("offset", "long", 10702),
    _optional("timestamp", _TIME, 10703),
)


def _event(payload: Schema) -> Schema:
    return _record(
        "Event",
        _required("id", _UUID, 10500),
        _required("type", "int", 10501),
        _required("timestamp", _TIME, 10502),
        _required("group_id", "string", 10503),
        _required("payload", payload, 10504),
    )


def _file(name: str, partition: Schema) -> Schema:
    return _record(
        name,
        _optional(
            "content",
            "int",
            134,
            "Contents of the file: 0=data, 1=position deletes, 2=equality deletes",
        ),
        _required("file_path", "string", 100, "Location URI with FS scheme"),
        _required("file_format", "string", 101, "File format name: avro, orc, or parquet"),
        _optional("spec_id", "int", 141, "Partition spec ID"),
        _required(
            "partition", partition, 102, "Partition data tuple, schema based on the partition spec"
        ),
        _required("record_count", "long", 103, "Number of records in the file"),
        _required("file_size_in_bytes", "long", 104, "Total file size in bytes"),
        _map("column_sizes", "long", (108, 117, 118), "Map of column id to total size on disk"),
        _map(
            "value_counts",
            "long",
            (109, 119, 120),
            "Map of column id to total count, including null and NaN",
        ),
        _map("null_value_counts", "long", (110, 121, 122), "Map of column id to null value count"),
        _map(
            "nan_value_counts",
            "long",
            (137, 138, 139),
            "Map of column id to number of NaN values in the column",
        ),
        _map("lower_bounds", "bytes", (125, 126, 127), "Map of column id to lower bound"),
        _map("upper_bounds", "bytes", (128, 129, 130), "Map of column id to upper bound"),
        _optional("key_metadata", "bytes", 131, "Encryption key metadata blob"),
        _optional("split_offsets", _list("long", 133), 132, "Splittable offsets"),
        _optional("equality_ids", _list("int", 136), 135, "Equality comparison field IDs"),
        _optional("sort_order_id", "int", 140, "Sort order ID"),
        _optional(
            "first_row_id",
            "long",
            142,
            "The first row ID assigned to the first row in the data file",
        ),
        _optional(
            "referenced_data_file",
            "string",
            143,
            "Fully qualified location (URI with FS scheme) of a data file that all deletes "
            "reference",
        ),
        _optional("content_offset", "long", 144, "The offset in the file where the content starts"),
        _optional(
            "content_size_in_bytes",
            "long",
            145,
            "The length of referenced content stored in the file",
        ),
        namespace=_FILES,
    )


START_COMMIT = _event(_record("StartCommit", _required("commit_id", _UUID, 10200)))
DATA_COMPLETE = _event(
    _record(
        "DataComplete",
        _required("commit_id", _UUID, 10100),
        _optional("assignments", _list(_OFFSET, 10102), 10101),
    )
)
COMMIT_TO_TABLE = _event(
    _record(
        "CommitToTable",
        _required("commit_id", _UUID, 10400),
        _required("table_reference", _TABLE, 10401),
        _optional("snapshot_id", "long", 10402),
        _optional("valid_through_ts", _TIME, 10403),
    )
)
COMMIT_COMPLETE = _event(
    _record(
        "CommitComplete",
        _required("commit_id", _UUID, 10000),
        _optional("valid_through_ts", _TIME, 10001),
    )
)


class PartitionColumn(NamedTuple):
    """Of a partition spec, without a value."""

    field_id: int
    name: str
    type: str


def columns_of(partition: Sequence[PartitionField]) -> tuple[PartitionColumn, ...]:
    return tuple(PartitionColumn(one.field_id, one.name, one.type) for one in partition)


def data_written(columns: Sequence[PartitionColumn]) -> Schema:
    """Of files whose partitions have these columns."""
    fields = [_partition_field(column) for column in columns]
    partition = _record("PartitionData", *fields, namespace=_FILES)
    return _event(
        _record(
            "DataWritten",
            _required("commit_id", _UUID, 10300),
            _required("table_reference", _TABLE, 10301),
            _optional("data_files", _list(_file("GenericDataFile", partition), 10303), 10302),
            _optional("delete_files", _list(_file("GenericDeleteFile", partition), 10305), 10304),
        )
    )


def as_text(schema: Schema) -> str:
    """JSON of a schema; a named type is written in full where it is first used."""
    return json.dumps(_shortened(schema, "", set()), ensure_ascii=False, separators=(",", ":"))


def _shortened(schema: Schema, namespace: str, defined: set[str]) -> Schema:
    if isinstance(schema, list):
        return [_shortened(one, namespace, defined) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = namespace
    if schema["type"] in {"record", "fixed"}:
        inner = schema["namespace"]
        name = f"{inner}.{schema['name']}" if inner else schema["name"]
        if name in defined:
            return schema["name"] if inner in {namespace, ""} else name
        defined.add(name)
    return {
        key: _shortened_part(key, part, inner, defined)
        for key, part in schema.items()
        if key != "namespace" or inner != namespace
    }


def _shortened_part(key: str, part: Schema, namespace: str, defined: set[str]) -> Schema:
    if key == "fields":
        return [
            {
                name: _shortened(one, namespace, defined) if name == "type" else one
                for name, one in of.items()
            }
            for of in part
        ]
    return _shortened(part, namespace, defined) if key in {"type", "items"} else part


_SIMPLE = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "uuid": _UUID,
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": _TIME,
}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_FIXED = re.compile(r"fixed\[(\d+)\]")


def _partition_field(column: PartitionColumn) -> Schema:
    field = _optional(_avro_name(column.name), _partition_type(column.type), column.field_id)
    if field["name"] == column.name:
        return field
    number = field.pop("field-id")
    return field | {"iceberg-field-name": column.name, "field-id": number}


def _partition_type(text: str) -> Schema:
    """Raises ValueError for a type that no partition has."""
    if text in _SIMPLE:
        return _SIMPLE[text]
    if (fixed := _FIXED.fullmatch(text)) is not None:
        size = int(fixed[1])
        return {"type": "fixed", "name": f"fixed_{size}", "namespace": "", "size": size}
    if (decimal := _DECIMAL.fullmatch(text)) is None:
        raise ValueError(f"{text!r} is no type of a partition")
    precision, scale = int(decimal[1]), int(decimal[2])
    return {
        "type": "fixed",
        "name": f"decimal_{precision}_{scale}",
        "namespace": "",
        "size": (10**precision).bit_length() // 8 + 1,
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
    }


_LOGICAL = {"uuid": "uuid", "date": "date", "time-micros": "time"}


def iceberg_type(facts: Schema) -> str:
    """The type of a partition's column, from what the schema states of its Avro type.

    Raises ValueError for one that no partition has.
    """
    logical = facts.get("logicalType")
    if logical == "decimal":
        return f"decimal({facts['precision']}, {facts['scale']})"
    if logical == "timestamp-micros":
        return "timestamptz" if facts.get("adjust-to-utc") else "timestamp"
    if logical is not None and logical not in _LOGICAL:
        raise ValueError(f"{logical!r} is no type of a partition")
    if logical is None and facts["type"] == "fixed":
        return f"fixed[{facts['size']}]"
    plain = "binary" if facts["type"] == "bytes" else str(facts["type"])
    return _LOGICAL.get(str(logical), plain)


def _avro_name(name: str) -> str:
    return "".join(_avro_characters(name))


def _avro_characters(name: str) -> Iterator[str]:
    """Java judges units of UTF-16; the first one may not be a digit."""
    raw = name.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(raw), 2):
        unit = chr(int.from_bytes(raw[at : at + 2], "big"))
        if unit.isalpha() or unit == "_" or (unit.isdecimal() and at > 0):
            yield unit
        else:
            yield f"_{unit}" if unit.isdecimal() else f"_x{ord(unit):X}"
