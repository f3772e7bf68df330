"""The key of a row: its columns, and their values in records that delete.

The columns of changes follow those of the key everywhere: what happens to it, and the place of the
record that says so.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import DoubleType, FloatType, NestedField

from datarecs_application.ports.sinking import SinkRecord
from datarecs_connectors.sinking.columns import (
    fault_alone,
    first_fault,
    mapped_fields,
    struct_of,
)
from datarecs_connectors.sinking.values import REFUSALS, record_faults
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.definition import RowChange

FIRST_VERSION_WITH_DELETES = 2
CODES = {RowChange.INSERT: 0, RowChange.UPDATE: 1, RowChange.DELETE: 2}
CHANGE_FIELDS = (
    pa.field("change", pa.int8()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.int64()),
)
"""`change` is a value of CODES, `timestamp` milliseconds, -1 for a record without one."""


def check_deletable(table: str, metadata: TableMetadata) -> None:
    """Raises SinkError FORMAT_VERSION_UNSUPPORTED for a table that cannot have deletes."""
    if metadata.format_version < FIRST_VERSION_WITH_DELETES:
        raise SinkError(
            SinkCode.FORMAT_VERSION_UNSUPPORTED,
            f"table {table} has format version {metadata.format_version}, which has no deletes; "
            "upgrade it to 2, or declare mode: append",
        )


def id_fields(
    table: str, metadata: TableMetadata, declared: Sequence[str]
) -> tuple[NestedField, ...]:
    """The columns of the key, by field id.

    Args:
        table: for messages.
        metadata: of the table.
        declared: names; empty: the identifier fields of the table.

    Raises:
        SinkError: IDENTIFIER_MISSING, there is none, or one that cannot identify a row.
    """
    schema = metadata.schema()
    top = {field.field_id: field for field in schema.fields}
    by_name = {field.name: field for field in schema.fields}
    names = declared or [
        schema.find_column_name(number) or str(number) for number in schema.identifier_field_ids
    ]
    if not names:
        raise _missing(f"table {table} has no identifier fields; set them, or write id_columns")
    fields = []
    for name in names:
        field = by_name.get(name)
        if field is None or field.field_id not in top:
            raise _missing(f"table {table} has no column {name!r} at its top level")
        if not field.required or not field.field_type.is_primitive:
            raise _missing(f"column {name!r} of table {table} is optional or nested")
        if isinstance(field.field_type, FloatType | DoubleType):
            raise _missing(f"column {name!r} of table {table} is {field.field_type}")
        fields.append(field)
    return tuple(sorted(fields, key=lambda field: field.field_id))


def _missing(why: str) -> SinkError:
    return SinkError(SinkCode.IDENTIFIER_MISSING, why)


def stored(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece, without an extension type, which Arrow does not group by."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column.storage if isinstance(column, pa.ExtensionArray) else column


class KeyConverter:
    """Keys of records that delete: only their id columns are read."""

    def __init__(self, metadata: TableMetadata, fields: Sequence[NestedField]) -> None:
        self._arrow = schema_to_pyarrow(Schema(*fields))
        self._struct = struct_of(fields, self._arrow, mapped_fields(metadata.name_mapping()))
        self.fields = tuple(
            pa.field(
                f"k{number}",
                field.type.storage_type
                if isinstance(field.type, pa.BaseExtensionType)
                else field.type,
                nullable=False,
                metadata=field.metadata,
            )
            for number, field in enumerate(self._arrow)
        )
        """Of key files, with the ids of the table."""

    def convert(self, records: Sequence[SinkRecord]) -> pa.Table:
        """Raises BadRecordError for the first record whose key does not fit, as RowConverter."""
        with record_faults(len(records)):
            return self._converted([record.value for record in records])

    def _converted(self, rows: Sequence[Mapping[str, object]]) -> pa.Table:
        try:
            columns = self._struct.columns(rows)
        except REFUSALS as cause:
            fault = first_fault(self._struct, rows)
            if fault is None:
                fault = fault_alone(
                    lambda at: self._struct.columns(rows[at : at + 1]), len(rows), cause
                )
            raise fault from fault.__cause__
        return pa.Table.from_arrays([stored(one) for one in columns], schema=pa.schema(self.fields))


def change_columns(records: Sequence[SinkRecord]) -> list[pa.Array]:
    """As CHANGE_FIELDS."""
    rows = [one.record for one in records]
    values = (
        [CODES[one.change] for one in records],
        [row.topic for row in rows],
        [row.partition for row in rows],
        [row.offset for row in rows],
        [row.timestamp_ms for row in rows],
    )
    return [pa.array(v, field.type) for v, field in zip(values, CHANGE_FIELDS, strict=True)]
