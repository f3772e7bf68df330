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
    fault_alone,
    first_fault,
    mapped_fields,
    nullable_members,
    struct_of,
)
from datarecs_connectors.sinking.partitions import BelowRangeError, least_numbers
from datarecs_connectors.sinking.values import REFUSALS, MismatchError, record_faults
from datarecs_core.errors.sink import BadRecordError
from datarecs_core.sink.definition import MetadataColumns

_INSTANT = pa.timestamp("us", tz="UTC")
_HEADERS = pa.map_(pa.string(), pa.binary())
_NO_TIMESTAMP = -1
_LAST_MS = 253_402_300_799_999
_REQUIRED = "the column is required, and the record has nothing for it"


class _ReservedNameError(MismatchError):
    """A record has a name of a column that the sink fills."""


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
    if stamp == _NO_TIMESTAMP:
        return None
    if not 0 <= stamp <= _LAST_MS:
        raise MismatchError("the timestamp of the record is before 1970 or after the year 9999")
    return stamp * 1000


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
        self._required = frozenset(field.name for field in schema.fields if field.required)
        self._payload: list[int] = []
        self._refused_drops = 0
        """Values that were counted in conversions that failed."""
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
        self._least = least_numbers(metadata.spec(), schema)

    @property
    def dropped_fields(self) -> int:
        """Values of fields without a column so far."""
        return dropped_in(self._struct) - self._refused_drops

    def convert(self, records: Sequence[SinkRecord]) -> pa.Table:
        """All records, in order.

        Raises:
            BadRecordError: for the first that does not fit, with its index; -1 if each of them
                fits alone, and only together they do not.
        """
        dropped = self.dropped_fields
        try:
            with record_faults(len(records)):
                return self._checked(records)
        except BadRecordError:
            self._refused_drops += self.dropped_fields - dropped
            raise

    def _checked(self, records: Sequence[SinkRecord]) -> pa.Table:
        try:
            return self._converted(records)
        except REFUSALS as cause:
            fault = self._first_fault(records, cause)
            raise fault from fault.__cause__

    def _converted(self, records: Sequence[SinkRecord]) -> pa.Table:
        rows = [record.value for record in records]
        if self._reserved and not self._reserved.isdisjoint(set().union(*rows)):
            raise _ReservedNameError
        columns: list[pa.Array | None] = [None] * len(self.arrow)
        for position, column in zip(self._payload, self._struct.columns(rows), strict=True):
            columns[position] = column
        for position, place in self._places:
            columns[position] = self._placed(position, place, records)
        table = pa.Table.from_arrays(columns, schema=self.arrow)
        for limit in self._least:
            limit.check(table)
        return table

    def _first_fault(self, records: Sequence[SinkRecord], cause: Exception) -> BadRecordError:
        if isinstance(cause, BelowRangeError):
            return BadRecordError(path=cause.path, reason=str(cause), at=cause.at)
        rows = [record.value for record in records]
        faults = [self._reserved_name(rows), first_fault(self._struct, rows)]
        faults += [self._place_fault(position, place, records) for position, place in self._places]
        placed = [fault for fault in faults if fault is not None]
        if placed:
            return min(placed, key=lambda fault: fault.at)
        return fault_alone(lambda at: self._converted(records[at : at + 1]), len(records), cause)

    def _reserved_name(self, rows: Sequence[Mapping[str, object]]) -> BadRecordError | None:
        for at, row in enumerate(rows):
            for name in self._reserved.intersection(row):
                reason = "the name belongs to a column that the sink fills"
                return BadRecordError(path=name, reason=reason, at=at)
        return None

    def _place_fault(
        self, position: int, place: PlaceColumn, records: Sequence[SinkRecord]
    ) -> BadRecordError | None:
        try:
            self._placed(position, place, records)
        except REFUSALS:
            for at in range(len(records)):
                try:
                    self._placed(position, place, records[at : at + 1])
                except REFUSALS as cause:
                    reason = str(cause)
                    if not isinstance(cause, MismatchError):
                        kind = self.arrow.field(position).type
                        reason = (
                            f"the column has type {kind}, and the sink fills it with {place.type}"
                        )
                    return BadRecordError(path=place.name, reason=reason, at=at)
        return None

    def _placed(self, position: int, place: PlaceColumn, records: Sequence[SinkRecord]) -> pa.Array:
        """Raises REFUSALS."""
        column = pa.array([place.read(record) for record in records], type=place.arrow)
        if column.null_count and place.name in self._required:
            raise MismatchError(_REQUIRED)
        return column.cast(self.arrow.field(position).type)
