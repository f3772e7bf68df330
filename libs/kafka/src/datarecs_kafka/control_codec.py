"""Bytes of control messages: equal to those of the Java connector 1.11.0, in both directions.

A value is `C2 01`, the length of the schema in two bytes, the schema as JSON, one Avro datum.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, assert_never
from uuid import UUID

from datarecs_core.sink.control import (
    CommitComplete,
    CommitToTable,
    DataComplete,
    DataWritten,
    FileContent,
    FileEntry,
    Message,
    PartitionField,
    PartitionScalar,
    Position,
    SourcePartition,
    StartCommit,
    TableReference,
)
from datarecs_kafka import control_schema
from datarecs_kafka.avro_binary import (
    Array,
    AvroError,
    Leaf,
    Node,
    Reader,
    Record,
    Union,
    compiled,
    encoded,
)
from datarecs_kafka.control_schema import PartitionColumn, columns_of, iceberg_type

_MAGIC = b"\xc2\x01"
_HEAD = 4
_LONGEST_SCHEMA = 0xFFFF
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NOT_READ = (
    "key_metadata",
    "first_row_id",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)
"""Fields of a file that a sink never writes, and cannot commit."""


class ControlDecodeError(ValueError):
    """Bytes that are no control message."""

    def __init__(self, reason: str, *, group: str | None = None) -> None:
        super().__init__(reason)
        self.group = group
        """Of the message, if it could be read that far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A message with its envelope."""

    id: UUID
    group: str
    time: datetime
    message: Message


def encode_event(event: Event) -> bytes:
    """Raises ValueError for a partition that no message can carry: its files' differ in type."""
    number, schema, payload = _payload(event.message)
    text, node = _schema(schema)
    value = {
        "id": event.id.bytes,
        "type": number,
        "timestamp": _microseconds(event.time),
        "group_id": event.group,
        "payload": payload,
    }
    return _MAGIC + len(text).to_bytes(2) + text + encoded(node, value)


def decode_event(data: bytes) -> Event:
    """Raises ControlDecodeError."""
    group: str | None = None
    try:
        node, start = _record_of(data)
        reader, head = Reader(data, start), dict[str, Any]()
        for field in node.fields:
            head[field.name] = reader.read(field.node)
            group = str(head["group_id"]) if "group_id" in head else None
        if reader.position != len(data):
            raise AvroError(f"{len(data) - reader.position} bytes after the message")
        return Event(
            id=UUID(bytes=head["id"]),
            group=head["group_id"],
            time=_time(head["timestamp"]),
            message=_message(head["type"], head["payload"], node),
        )
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as cause:
        reason = str(cause) if isinstance(cause, ValueError) else repr(cause)
        raise ControlDecodeError(reason, group=group) from cause


# --- schemas

_SCHEMAS = {
    "start_commit": control_schema.START_COMMIT,
    "data_complete": control_schema.DATA_COMPLETE,
    "commit_to_table": control_schema.COMMIT_TO_TABLE,
    "commit_complete": control_schema.COMMIT_COMPLETE,
}
_SchemaKey = str | tuple[PartitionColumn, ...]
"""A message without files by its name, one with files by the columns of its partitions."""


@lru_cache(maxsize=256)
def _schema(key: _SchemaKey) -> tuple[bytes, Node]:
    schema = _SCHEMAS[key] if isinstance(key, str) else control_schema.data_written(key)
    text = _java_utf8(control_schema.as_text(schema))
    if len(text) > _LONGEST_SCHEMA:
        raise ValueError(f"the schema of a message has {len(text)} bytes")
    return text, compiled(schema)


def _record_of(data: bytes) -> tuple[Record, int]:
    """The schema of a message, and where its value begins."""
    if data[:2] != _MAGIC:
        raise AvroError("it does not begin with C2 01")
    start = _HEAD + int.from_bytes(data[2:_HEAD])
    node = _compiled(data[_HEAD:start])
    if not isinstance(node, Record):
        raise AvroError("it is no record")
    return node, start


@lru_cache(maxsize=256)
def _compiled(text: bytes) -> Node:
    return compiled(json.loads(_from_java_utf8(text)))


def _java_utf8(text: str) -> bytes:
    """Java writes characters above U+FFFF as two halves of three bytes each."""
    raw = text.encode("utf-16-be", "surrogatepass")
    units = (chr(int.from_bytes(raw[at : at + 2])) for at in range(0, len(raw), 2))
    return text.encode() if text.isascii() else "".join(units).encode("utf-8", "surrogatepass")


def _from_java_utf8(data: bytes) -> str:
    halves = data.decode("utf-8", "surrogatepass")
    return halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


# --- to values


def _payload(message: Message) -> tuple[int, _SchemaKey, dict[str, Any]]:
    """Number of the type, schema, value."""
    value: dict[str, Any] = {"commit_id": message.commit_id.bytes}
    match message:
        case StartCommit():
            return 0, "start_commit", value
        case DataWritten():
            files = (*message.data_files, *message.delete_files)
            columns = columns_of(files[0].partition) if files else ()
            value |= {
                "table_reference": _table_value(message.table),
                "data_files": [_file_value(one, columns) for one in message.data_files],
                "delete_files": [_file_value(one, columns) for one in message.delete_files],
            }
            return 1, columns, value
        case DataComplete():
            value["assignments"] = [_position_value(one) for one in message.positions]
            return 2, "data_complete", value
        case CommitToTable():
            value |= {
                "table_reference": _table_value(message.table),
                "snapshot_id": message.snapshot_id,
                "valid_through_ts": _microseconds_or_none(message.valid_through),
            }
            return 3, "commit_to_table", value
        case CommitComplete():
            value["valid_through_ts"] = _microseconds_or_none(message.valid_through)
            return 4, "commit_complete", value
    assert_never(message)


def _table_value(table: TableReference) -> dict[str, Any]:
    return {
        "catalog": table.catalog,
        "namespace": table.namespace,
        "name": table.name,
        "table_uuid": table.uuid.bytes,
    }


def _position_value(position: Position) -> dict[str, Any]:
    return {
        "topic": position.partition.topic,
        "partition": position.partition.number,
        "offset": position.offset,
        "timestamp": _microseconds_or_none(position.timestamp),
    }


def _file_value(file: FileEntry, columns: Sequence[PartitionColumn]) -> dict[str, Any]:
    if columns_of(file.partition) != columns:
        raise ValueError(f"the partition of {file.path} has other columns than the first file's")
    names = [field.name for field in _partition_record(columns).fields]
    return {
        "content": int(file.content),
        "file_path": file.path,
        "file_format": "PARQUET",
        "spec_id": file.spec_id,
        "partition": {
            name: _scalar_value(field) for name, field in zip(names, file.partition, strict=True)
        },
        "record_count": file.record_count,
        "file_size_in_bytes": file.size,
        "column_sizes": _pairs(file.column_sizes),
        "value_counts": _pairs(file.value_counts),
        "null_value_counts": _pairs(file.null_value_counts),
        "nan_value_counts": _pairs(file.nan_value_counts),
        "lower_bounds": _pairs(file.lower_bounds),
        "upper_bounds": _pairs(file.upper_bounds),
        "split_offsets": file.split_offsets or None,
        "equality_ids": file.equality_ids or None,
        "sort_order_id": file.sort_order_id,
        **dict.fromkeys(_NOT_READ),
    }


def _partition_record(columns: Sequence[PartitionColumn]) -> Record:
    _, node = _schema(tuple(columns))
    return _record_at(node, "payload", "data_files", "partition")


def _record_at(node: Node, *path: str) -> Record:
    """A record inside; unions are entered at their branch that is not null, arrays at the items."""
    for name in path:
        record = _inner(node)
        node = next(field.node for field in record.fields if field.name == name)
    return _inner(node)


def _inner(node: Node) -> Record:
    match node:
        case Union(branches=(_, branch)):
            return _inner(branch)
        case Array(items=items):
            return _inner(items)
        case Record():
            return node
    raise AvroError("the schema has no record where one belongs")


def _pairs(of_column: Mapping[int, int] | Mapping[int, bytes]) -> list[dict[str, Any]] | None:
    return [{"key": key, "value": value} for key, value in of_column.items()] or None


def _scalar_value(field: PartitionField) -> Any:  # noqa: ANN401 - the column's type decides
    match field.value:
        case UUID():
            return field.value.bytes
        case Decimal():
            column = PartitionColumn(field.field_id, field.name, field.type)
            leaf = _leaf(_partition_record((column,)).fields[0].node)
            return _unscaled(field.value, leaf.facts["scale"]).to_bytes(leaf.size, signed=True)
    return field.value


def _unscaled(value: Decimal, scale: int) -> int:
    """Exact, whatever the context's precision. Raises ValueError for more digits than the scale."""
    sign, digits, exponent = value.as_tuple()
    shift = int(exponent) + scale
    number, power = int("".join(map(str, digits))), int(10 ** abs(shift))
    if shift < 0 and number % power:
        raise ValueError(f"{value} has more than {scale} digits after the point")
    number = number * power if shift >= 0 else number // power
    return -number if sign else number


def _leaf(node: Node) -> Leaf:
    match node:
        case Union(branches=(_, Leaf() as leaf)) | (Leaf() as leaf):
            return leaf
    raise AvroError("a partition's column that is no simple value")


# --- from values


def _message(number: int, value: Mapping[str, Any], node: Record) -> Message:
    commit_id = UUID(bytes=value["commit_id"])
    match number:
        case 0:
            return StartCommit(commit_id=commit_id)
        case 1:
            return _data_written(commit_id, value, node)
        case 2:
            positions = tuple(_position(one) for one in value["assignments"] or ())
            return DataComplete(commit_id=commit_id, positions=positions)
        case 3:
            return CommitToTable(
                commit_id=commit_id,
                table=_table(value["table_reference"]),
                snapshot_id=value["snapshot_id"],
                valid_through=_time_or_none(value["valid_through_ts"]),
            )
        case 4:
            valid_through = _time_or_none(value["valid_through_ts"])
            return CommitComplete(commit_id=commit_id, valid_through=valid_through)
    raise AvroError(f"the type {number} is not known")


def _data_written(commit_id: UUID, value: Mapping[str, Any], node: Record) -> DataWritten:
    partition = _record_at(node, "payload", "data_files", "partition")
    return DataWritten(
        commit_id=commit_id,
        table=_table(value["table_reference"]),
        data_files=tuple(_file(one, partition) for one in value["data_files"] or ()),
        delete_files=tuple(_file(one, partition) for one in value["delete_files"] or ()),
    )


def _table(value: Mapping[str, Any]) -> TableReference:
    return TableReference(
        catalog=value["catalog"],
        namespace=tuple(value["namespace"]),
        name=value["name"],
        uuid=UUID(bytes=value["table_uuid"]),
    )


def _position(value: Mapping[str, Any]) -> Position:
    return Position(
        partition=SourcePartition(value["topic"], value["partition"]),
        offset=value["offset"],
        timestamp=_time_or_none(value["timestamp"]),
    )


def _file(value: Mapping[str, Any], partition: Record) -> FileEntry:
    for name in _NOT_READ:
        if value[name] is not None:
            raise AvroError(f"the file {value['file_path']} has {name}, which a sink does not read")
    if value["file_format"].upper() != "PARQUET":
        raise AvroError(f"the file {value['file_path']} is {value['file_format']}")
    return FileEntry(
        content=FileContent(value["content"] or 0),
        path=value["file_path"],
        spec_id=value["spec_id"] or 0,
        partition=tuple(
            PartitionField(
                field_id=field.facts["field-id"],
                name=field.facts.get("iceberg-field-name", field.name),
                type=iceberg_type(_leaf(field.node).facts),
                value=_scalar(_leaf(field.node), value["partition"][field.name]),
            )
            for field in partition.fields
        ),
        record_count=value["record_count"],
        size=value["file_size_in_bytes"],
        column_sizes=_mapping(value["column_sizes"]),
        value_counts=_mapping(value["value_counts"]),
        null_value_counts=_mapping(value["null_value_counts"]),
        nan_value_counts=_mapping(value["nan_value_counts"]),
        lower_bounds=_mapping(value["lower_bounds"]),
        upper_bounds=_mapping(value["upper_bounds"]),
        split_offsets=tuple(value["split_offsets"] or ()),
        equality_ids=tuple(value["equality_ids"] or ()),
        sort_order_id=value["sort_order_id"],
    )


def _mapping(pairs: Sequence[Mapping[str, Any]] | None) -> dict[int, Any]:
    return {pair["key"]: pair["value"] for pair in pairs or ()}


def _scalar(leaf: Leaf, value: Any) -> PartitionScalar:  # noqa: ANN401 - the column's type decides
    logical = leaf.facts.get("logicalType")
    if value is not None and logical == "uuid":
        return UUID(bytes=value)
    if value is not None and logical == "decimal":
        unscaled = int.from_bytes(value, signed=True)
        return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -leaf.facts["scale"]))
    scalar: PartitionScalar = value
    return scalar


# --- times


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND


def _microseconds_or_none(time: datetime | None) -> int | None:
    return None if time is None else _microseconds(time)


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _time_or_none(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _time(microseconds)
