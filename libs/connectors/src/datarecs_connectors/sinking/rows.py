"""Convert records to the rows of a table: its columns by name, and where each record came from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import sanitize_column_names
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import (
    BinaryType,
    IcebergType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    TimestamptzType,
)

from datarecs_application.ports.sinking import SinkRecord
from datarecs_connectors.sinking.columns import (
    Struct,
    dropped_in,
    first_fault,
    mapped_fields,
    nullable_members,
    struct_of,
)
from datarecs_connectors.sinking.values import MismatchError
from datarecs_core.errors.sink import BadRecordError
from datarecs_core.sink.definition import MetadataColumns

_INSTANT = pa.timestamp("us", tz="UTC")
_HEADERS = pa.map_(pa.string(), pa.binary())


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceColumn:
    """A column that names the place of a record in its topic."""

    name: str
    type: IcebergType
    arrow: pa.DataType
    read: Callable[[SinkRecord], object]


def _instant(row: SinkRecord) -> int | None:
    """Microseconds; None for a record without timestamp."""
    stamp = row.record.timestamp_ms
    return None if stamp < 0 else stamp * 1000


def _headers(row: SinkRecord) -> list[tuple[str, bytes | None]]:
    """Of a repeated name the last value: a map has each key once."""
    return list(dict(row.record.headers).items())


_HEADERS_TYPE = MapType(1, StringType(), 2, BinaryType(), value_required=False)
_OFFSETS = (
    PlaceColumn(
        name="_kafka_topic", type=StringType(), arrow=pa.string(), read=lambda row: row.record.topic
    ),
    PlaceColumn(
        name="_kafka_partition",
        type=IntegerType(),
        arrow=pa.int32(),
        read=lambda row: row.record.partition,
    ),
    PlaceColumn(
        name="_kafka_offset", type=LongType(), arrow=pa.int64(), read=lambda row: row.record.offset
    ),
    PlaceColumn(name="_kafka_timestamp", type=TimestamptzType(), arrow=_INSTANT, read=_instant),
)
_KEY = PlaceColumn(
    name="_kafka_key", type=BinaryType(), arrow=pa.binary(), read=lambda row: row.record.key
)
_HEADER = PlaceColumn(name="_kafka_headers", type=_HEADERS_TYPE, arrow=_HEADERS, read=_headers)


def place_columns(declared: MetadataColumns) -> tuple[PlaceColumn, ...]:
    match declared:
        case MetadataColumns.NONE:
            return ()
        case MetadataColumns.OFFSETS:
            return _OFFSETS
        case MetadataColumns.ALL:
            return (*_OFFSETS, _KEY, _HEADER)


class RowConverter:
    """Rows of one version of a table's schema."""

    def __init__(
        self, metadata: TableMetadata, declared: MetadataColumns, *, ignores_case: bool = False
    ) -> None:
        schema = metadata.schema()
        self.file_schema = sanitize_column_names(schema)
        """With the names that other writers give columns in files; readers go by field ids."""
        fields = schema_to_pyarrow(self.file_schema)
        self.arrow = pa.schema([each.with_type(nullable_members(each.type)) for each in fields])
        """Of the files, with field ids."""
        reserved = {column.name: column for column in place_columns(declared)}
        self._reserved = frozenset(reserved)
        self._places: list[tuple[int, PlaceColumn]] = []
        self._payload: list[int] = []
        for position, field in enumerate(schema.fields):
            if field.name in reserved:
                self._places.append((position, reserved[field.name]))
            else:
                self._payload.append(position)
        self._struct: Struct = struct_of(
            [schema.fields[position] for position in self._payload],
            [self.arrow.field(position) for position in self._payload],
            mapped_fields(metadata.name_mapping()),
            ignores_case=ignores_case,
        )

    @property
    def dropped_fields(self) -> int:
        """Values of fields without a column so far."""
        return dropped_in(self._struct)

    def convert(self, records: Sequence[SinkRecord]) -> pa.Table:
        """All records, in order.

        Raises:
            BadRecordError: for the first that does not fit.
        """
        rows = [record.value for record in records]
        self._check_names(rows)
        try:
            payload = self._struct.columns(rows)
        except (MismatchError, pa.ArrowException, ValueError, OverflowError) as cause:
            raise self._fault(rows, cause) from None
        columns: list[pa.Array | None] = [None] * len(self.arrow)
        for position, column in zip(self._payload, payload, strict=True):
            columns[position] = column
        for position, place in self._places:
            columns[position] = self._placed(place, records, self.arrow.field(position).type)
        return pa.Table.from_arrays(columns, schema=self.arrow)

    def _check_names(self, rows: Sequence[Mapping[str, object]]) -> None:
        if not self._reserved or self._reserved.isdisjoint(set().union(*rows)):
            return
        for at, row in enumerate(rows):
            for name in self._reserved.intersection(row):
                reason = "the name belongs to a column that the sink fills"
                raise BadRecordError(path=name, reason=reason, at=at)

    def _fault(self, rows: Sequence[Mapping[str, object]], cause: Exception) -> BadRecordError:
        fault = first_fault(self._struct, rows)
        if fault is not None:
            return fault
        reason = f"the batch cannot be converted ({type(cause).__name__})"
        return BadRecordError(path="", reason=reason, at=0)

    def _placed(
        self, place: PlaceColumn, records: Sequence[SinkRecord], kind: pa.DataType
    ) -> pa.Array:
        column = pa.array([place.read(record) for record in records], type=place.arrow)
        try:
            return column.cast(kind)
        except pa.ArrowException:
            reason = f"the column has type {kind}, and the sink fills it with {place.type}"
            raise BadRecordError(path=place.name, reason=reason, at=0) from None
