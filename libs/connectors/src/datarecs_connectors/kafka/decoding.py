"""Decode the records of a topic: columns of the value, and columns of the place of a record.

A value that its column's type cannot hold is INVALID, as in JSON lines; a record that is not an
object ends the read with its partition and offset.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from datarecs_connectors.avro.decoding import AvroValueError
from datarecs_connectors.avro.registries import SchemaRegistry
from datarecs_connectors.avro.schemas import RecordNode
from datarecs_connectors.declared_types import declared_types
from datarecs_connectors.errors import (
    CorruptSourceError,
    SourceError,
    SourceLimitError,
    SourceUnsupportedError,
)
from datarecs_connectors.json_columns import MAX_COLUMNS, Columns, TooManyColumnsError, value_of
from datarecs_connectors.json_values import (
    MAX_DEPTH,
    NestedTooDeepError,
    Read,
    parse_line,
    reader_of,
)
from datarecs_connectors.kafka.avro_columns import (
    DifferentTypesError,
    SchemaColumns,
    reader_of_avro,
)
from datarecs_connectors.kafka.cluster import TopicRecord
from datarecs_connectors.kafka.options import Decode, TopicOptions
from datarecs_connectors.kafka.table_rows import RecordFields, RowKey
from datarecs_connectors.kafka.written_values import reader_as_written, written_types
from datarecs_core.comparison.planning.scan import SourceColumn
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind

VALUE = "value"
"""The column of values that are not decoded into columns."""
TOPIC, PARTITION, OFFSET = "_kafka_topic", "_kafka_partition", "_kafka_offset"
TIMESTAMP, KEY = "_kafka_timestamp", "_kafka_key"
_METADATA: Mapping[str, CanonicalType] = {
    TOPIC: types.TEXT,
    PARTITION: types.INT,
    OFFSET: types.INT,
    TIMESTAMP: types.INSTANT,
    KEY: types.BINARY,
}
METADATA_COLUMNS = tuple(
    SourceColumn(name=name, type=kind, native_type=str(kind), is_metadata=True)
    for name, kind in _METADATA.items()
)
METADATA_NAMES = frozenset(_METADATA)
HEADERS = "_kafka_headers"
"""Of tables alone: a topic as a source does not deliver it."""
HEADERS_COLUMN = SourceColumn(
    name=HEADERS,
    type=CanonicalType(kind=TypeKind.MAP, members=(("key", types.TEXT), ("value", types.BINARY))),
    native_type="headers",
    is_metadata=True,
)
_WHOLE: Mapping[Decode, CanonicalType] = {Decode.TEXT: types.TEXT, Decode.BYTES: types.BINARY}
_BLANK = b" \t\r\n"
Row = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """Decodes records of one topic for one source."""

    source: str
    topic: str
    options: TopicOptions
    max_value_bytes: int
    registry: SchemaRegistry | None = None
    """Of records in Avro."""

    @property
    def plain_columns(self) -> tuple[SourceColumn, ...] | None:
        """The columns where they do not depend on the records; None for others."""
        if self.options.infer == "none":
            declared = written_types(self.source, self.options.declared)
            return tuple(
                SourceColumn(name=name, type=kind, native_type="declared")
                for name, kind in declared.items()
            )
        kind = _WHOLE.get(self.options.decode)
        if kind is None:
            return None
        return (SourceColumn(name=VALUE, type=kind, native_type=str(self.options.decode)),)

    def inferred(self, records: Iterator[TopicRecord]) -> "Inferred":
        """Names of all objects; types that fit every value, or those of the schemas."""
        declared = declared_types(self.source, self.options.declared)
        is_avro = self.options.decode is Decode.AVRO
        columns = SchemaColumns(declared) if is_avro else Columns(declared)
        rows = size = 0
        try:
            for record in records:
                rows, size = rows + 1, size + len(record.value or b"")
                if record.value is not None:
                    self._see(columns, record)
            made = columns.list_columns()
        except DifferentTypesError as cause:
            raise SourceUnsupportedError(self.source, f"topic {self.topic}: {cause}") from cause
        except TooManyColumnsError as cause:
            raise SourceLimitError(
                self.source,
                f"more than {MAX_COLUMNS} columns; declare an object with many members as one "
                "column with options.schema: {name: json}",
            ) from cause
        for column in made:
            if column.name in _METADATA:
                raise CorruptSourceError(
                    self.source,
                    f"topic {self.topic}: a value has the member {column.name!r}, which is the "
                    "name of a column about the record",
                )
        return Inferred(columns=tuple(made), rows=rows, size_bytes=size)

    def rows(
        self, names: Sequence[str], kinds: Mapping[str, CanonicalType]
    ) -> Callable[[TopicRecord], Row]:
        """A function from records to plain values of these columns."""
        readers = self._readers([name for name in names if name not in _METADATA], kinds)
        place = self.places([name for name in names if name in _METADATA])
        fields = self._fields()

        def row(record: TopicRecord) -> Row:
            return self._values(record, readers, fields) | place(record)

        return row

    def places(self, names: Sequence[str]) -> Callable[[TopicRecord], Row]:
        """As `rows`, of columns about the record alone: its value is not decoded."""
        return lambda record: {name: self._metadata(record, name) for name in names}

    def row_keys(self) -> Callable[[TopicRecord], bytes]:
        """A function from records to the keys of their rows in the table of a sink.

        A record that the sink refuses has a key of its own.
        """
        kinds = {column.name: column.type for column in self.plain_columns or ()}
        readers = self._readers(self.options.id_columns, kinds)
        key, fields = RowKey(source=self.source, kinds=kinds, readers=readers), self._fields()

        def key_of(record: TopicRecord) -> bytes:
            named = self._named(record)
            made = None if named is None else key.of(fields.values(named) if fields else named)
            if made is None:
                return f"{record.partition} {record.offset}".encode()
            return b"\0" + made

        return key_of

    def _readers(
        self, names: Sequence[str], kinds: Mapping[str, CanonicalType]
    ) -> Mapping[str, Read]:
        read_as = reader_as_written if self.options.infer == "none" else reader_of
        readers = {name: read_as(kinds[name]) for name in names}
        if self.options.decode is Decode.AVRO:
            readers = {name: reader_of_avro(kinds[name], read) for name, read in readers.items()}
        return readers

    def _fields(self) -> RecordFields | None:
        """None where the columns are those of the values."""
        if not self.options.fields:
            return None
        return RecordFields.of(self.options.fields, ignores_case=self.options.case_insensitive)

    def _named(self, record: TopicRecord) -> Mapping[str, object] | None:
        """The fields that name the row of a record: of a record without value those of its key.

        None for a key that a sink does not understand either.
        """
        if record.value is not None:
            return self.parsed(record)
        if record.key is None:
            return None
        key = record._replace(value=record.key)
        is_avro = self.options.decode is Decode.AVRO and record.key[:1] == b"\0"
        try:
            return self._avro(key)[0] if is_avro else self._json(key)
        except (CorruptSourceError, SourceLimitError):
            return None

    def parsed(self, record: TopicRecord) -> Mapping[str, object]:
        """The object of a value that is not None.

        Raises CorruptSourceError or SourceLimitError, with the place of the record; for Avro also
        errors of the registry.
        """
        if self.options.decode is Decode.AVRO:
            return self._avro(record)[0]
        return self._json(record)

    def _json(self, record: TopicRecord) -> Mapping[str, object]:
        value = record.value or b""
        self._limit(record)
        try:
            row = parse_line(value.strip(_BLANK).decode(errors="surrogateescape"))
        except ValueError as cause:
            # The decoder's error contains the value; it must not reach a log as the cause.
            raise self._broken(record, cause) from None
        if not isinstance(row, dict):
            raise self._broken(record)
        return row

    def _see(self, columns: Columns | SchemaColumns, record: TopicRecord) -> None:
        if isinstance(columns, SchemaColumns):
            columns.see(self._avro(record)[1])
        else:
            columns.see(self.parsed(record))

    def _avro(self, record: TopicRecord) -> tuple[Mapping[str, object], RecordNode]:
        self._limit(record)
        if self.registry is None:
            raise SourceUnsupportedError(
                self.source,
                "options.decode avro needs a schema registry; write config.registry: {url: URL} "
                "in its connection",
            )
        try:
            return self.registry.decoded(record.value or b"")
        except AvroValueError as cause:
            raise self._corrupt(record, str(cause)) from None

    def _values(
        self, record: TopicRecord, readers: Mapping[str, Read], fields: RecordFields | None
    ) -> Row:
        if record.value is None:
            return dict.fromkeys(readers)
        if self.options.decode in _WHOLE:
            self._limit(record)
            return {name: self._whole(record.value) for name in readers}
        parsed, made = self.parsed(record), {}
        values = fields.values(parsed) if fields else {}
        for name, read in readers.items():
            is_of_table = fields is not None and name in fields.columns
            value = values.get(name) if is_of_table else value_of(parsed, name)
            made[name] = value if value is None or isinstance(value, Invalid) else read(value)
        return made

    def _whole(self, value: bytes) -> object:
        if self.options.decode is Decode.BYTES:
            return value
        try:
            return value.decode()
        except UnicodeDecodeError:
            return Invalid(value)

    def _metadata(self, record: TopicRecord, name: str) -> object:
        match name:
            case "_kafka_partition":
                return Decimal(record.partition)
            case "_kafka_offset":
                return Decimal(record.offset)
            case "_kafka_timestamp":
                return None if record.timestamp_ms < 0 else Decimal(record.timestamp_ms * 1000)
            case "_kafka_key":
                return record.key
            case _:
                return self.topic

    def _limit(self, record: TopicRecord) -> None:
        if len(record.value or b"") > self.max_value_bytes:
            raise SourceLimitError(
                self.source, f"{self._place(record)}: more than {self.max_value_bytes} bytes"
            )

    def _place(self, record: TopicRecord) -> str:
        return f"topic {self.topic} partition {record.partition} offset {record.offset}"

    def _broken(self, record: TopicRecord, cause: ValueError | None = None) -> SourceError:
        match cause:
            case None:
                return self._corrupt(record, "it is not a JSON object")
            case NestedTooDeepError():
                message = f"{self._place(record)}: values are nested more than {MAX_DEPTH} deep"
                return SourceLimitError(self.source, message)
            case json.JSONDecodeError():
                return self._corrupt(record, f"not JSON at character {cause.pos + 1}")
            case _:
                return self._corrupt(record, str(cause))

    def _corrupt(self, record: TopicRecord, reason: str) -> CorruptSourceError:
        """Another `decode` helps only if every value has it, so the way on is past the record."""
        behind = f'{{offsets: {{"{record.partition}": {record.offset + 1}}}}}'
        return CorruptSourceError(
            self.source,
            f"{self._place(record)}: {reason}; begin behind it with snapshot.from: {behind}, or "
            "declare the options.decode of every value",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferred:
    """What the records of a topic are together."""

    columns: tuple[SourceColumn, ...] = field(default=())
    rows: int
    size_bytes: int
    """Of values."""
