"""Map the columns of a Parquet file to a table's fields, by field id and exact type.

A field that is missing in a file has the value that the format defines: that of its partition, the
field's default, or NULL. A type that does not widen without loss is refused, never cast.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField

from datarecs_connectors.errors import CorruptSourceError, SourceUnsupportedError
from datarecs_connectors.iceberg.snapshots import canonical_type
from datarecs_connectors.typed_text import TypedColumn, arrow_type
from datarecs_core.jobs.types import CanonicalType, TypeKind

_FIELD_ID = b"PARQUET:field_id"
_UUID_BYTES = 16
_FITS: Mapping[TypeKind, tuple[Callable[[pa.DataType], bool], ...]] = {
    TypeKind.BOOL: (pat.is_boolean,),
    TypeKind.INT: (pat.is_integer,),
    TypeKind.FLOAT32: (pat.is_float32,),
    TypeKind.FLOAT64: (pat.is_float64, pat.is_float32),
    TypeKind.DECIMAL: (pat.is_decimal,),
    TypeKind.TEXT: (pat.is_string, pat.is_large_string, pat.is_binary, pat.is_large_binary),
    TypeKind.BINARY: (pat.is_binary, pat.is_large_binary, pat.is_fixed_size_binary),
    TypeKind.UUID: (pat.is_fixed_size_binary,),
    TypeKind.DATE: (pat.is_date,),
    TypeKind.TIME: (pat.is_time,),
    TypeKind.INSTANT: (pat.is_timestamp, pat.is_date),
    TypeKind.LOCAL_TIMESTAMP: (pat.is_timestamp, pat.is_date),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """How one file stores the fields of a table."""

    source: str
    name: str
    """Name of the file, for messages."""
    stored: Mapping[int, str]
    """Field id to the column of the file."""
    constants: Mapping[int, object]
    """Field id to the constant value of every row, in the form that Arrow accepts."""

    @classmethod
    def of(
        cls, source: str, metadata: TableMetadata, file: DataFile, schema: pa.Schema
    ) -> "FileColumns":
        return cls(
            source=source,
            name=file.file_path.rpartition("/")[2],
            stored=_stored(source, metadata, schema),
            constants=_partition_values(metadata, file),
        )

    def names(self, fields: Sequence[NestedField]) -> list[str]:
        """The columns that must be read from the file."""
        return [self.stored[one.field_id] for one in fields if one.field_id in self.stored]

    def column(self, batch: pa.RecordBatch, field: NestedField) -> TypedColumn:
        """A field's values in a batch of the file.

        Raises:
            CorruptSourceError: a required field is missing, or the type in the file does not fit.
        """
        kind = canonical_type(field.field_type)
        if kind is None:
            raise SourceUnsupportedError(
                self.source,
                f"column {field.name!r} has the type {field.field_type}, which cannot be read yet; "
                "a query may name other columns, without `*`",
            )
        if field.field_id not in self.stored:
            return TypedColumn(self._absent(field, kind, batch.num_rows), None)
        array = batch.column(batch.schema.get_field_index(self.stored[field.field_id]))
        return self._typed(array, field, kind)

    def _absent(self, field: NestedField, kind: CanonicalType, rows: int) -> pa.Array:
        value = self.constants.get(field.field_id, field.initial_default)
        if value is None and field.required:
            raise CorruptSourceError(
                self.source, f"{self.name} does not have the required column {field.name!r}"
            )
        if isinstance(value, bytes) and kind.kind is TypeKind.UUID:
            value = UUID(bytes=value)
        if isinstance(value, UUID):
            value = str(value)
        return pa.array([value], arrow_type(kind)).take(pa.array([0] * rows, pa.int32()))

    def _typed(self, array: pa.Array, field: NestedField, kind: CanonicalType) -> TypedColumn:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if pat.is_dictionary(array.type):
            array = array.dictionary_decode()
        if not any(fits(array.type) for fits in _FITS[kind.kind]):
            raise self._other(array.type, field)
        if kind.kind is TypeKind.UUID:
            return TypedColumn(_uuids(array), None)
        if kind.kind is TypeKind.TEXT:
            return _texts(array)
        try:
            return TypedColumn(pc.cast(array, arrow_type(kind)), None)
        except pa.ArrowException:
            raise self._other(array.type, field) from None  # the cause quotes the value

    def _other(self, kind: pa.DataType, field: NestedField) -> CorruptSourceError:
        return CorruptSourceError(
            self.source,
            f"{self.name} holds {field.name!r} as {kind}, which is not {field.field_type}",
        )


def _stored(source: str, metadata: TableMetadata, schema: pa.Schema) -> dict[int, str]:
    """Columns by the ids in the file, or by the table's name mapping for a file without ids."""
    marked = {
        int(field.metadata[_FIELD_ID]): field.name
        for field in schema
        if field.metadata and _FIELD_ID in field.metadata
    }
    if marked:
        return marked
    mapping = metadata.name_mapping()
    if mapping is None:
        raise SourceUnsupportedError(
            source,
            "a file carries no field ids and the table has no name mapping; set "
            "schema.name-mapping.default",
        )
    return {
        field.field_id: name
        for field in mapping.root
        if field.field_id is not None
        for name in field.names
        if name in schema.names
    }


def _partition_values(metadata: TableMetadata, file: DataFile) -> dict[int, object]:
    """Values of the columns by which the file was partitioned with the identity transform."""
    spec = metadata.specs()[file.spec_id]
    return {
        field.source_id: file.partition[position]
        for position, field in enumerate(spec.fields)
        if isinstance(field.transform, IdentityTransform) and file.partition[position] is not None
    }


def field_of(metadata: TableMetadata, field_id: int) -> NestedField | None:
    """A top-level field: of the read schema, or of the newest schema that contains it."""
    older = sorted(metadata.schemas, key=lambda schema: -schema.schema_id)
    fields = (field for schema in (metadata.schema(), *older) for field in schema.fields)
    return next((field for field in fields if field.field_id == field_id), None)


def _uuids(array: pa.Array) -> pa.Array:
    texts = [None if raw is None else str(UUID(bytes=raw)) for raw in array.to_pylist()]
    return pa.array(texts, pa.string())


def _texts(array: pa.Array) -> TypedColumn:
    """Bytes that are not UTF-8 are INVALID; Arrow does not check strings of a Parquet file."""
    raw = array.cast(pa.binary())
    try:
        return TypedColumn(raw.cast(pa.string()), None)
    except pa.ArrowException:
        pairs = [_decoded(one) for one in raw.to_pylist()]
    return TypedColumn(
        pa.array([text for text, _ in pairs], pa.string()),
        pa.array([broken for _, broken in pairs], pa.binary()),
    )


def _decoded(raw: bytes | None) -> tuple[str | None, bytes | None]:
    try:
        return (None if raw is None else raw.decode()), None
    except UnicodeDecodeError:
        return None, raw
