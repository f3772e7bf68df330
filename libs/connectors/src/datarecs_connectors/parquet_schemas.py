"""The columns of the Parquet files of a source: one schema from all footers.

Separate from the connector, which reads rows, because files of one source may store a column
differently: in another position, as a dictionary, with long offsets, or without any value.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from datarecs_connectors.arrow_types import canonical_type, is_json, is_uuid
from datarecs_connectors.errors import SchemaChangedError, column_difference
from datarecs_connectors.plain_types import common_type, plain_type
from datarecs_core.comparison.planning.scan import SourceColumn
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType

INT96 = "INT96"
_INT96_INSIDE = "INT96 inside a nested value (TIMESTAMP can be compared)"
_NO_VALUE = str(pa.null())
_INSTANT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSchema:
    """Columns of one file; equal columns have equal types, independent of their storage."""

    path: str
    fields: tuple[pa.Field, ...]
    """Columns with plain types; INT96 as an instant."""
    native: Mapping[str, str]
    """The names of the types in the file."""
    int96: frozenset[str]
    """Columns with times as INT96."""
    undelivered: frozenset[str]
    """Columns with INT96 inside nested values."""

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    def is_plain(self, name: str) -> bool:
        """Whether engines may read the column directly.

        False for nested values, JSON, INT96 and columns without any value: only pyarrow reads
        these by the rules of this product.
        """
        kinds = [field.type for field in self.fields if field.name == name]
        return name not in self.int96 and not any(map(_is_odd, kinds))


def file_schema(file: pq.ParquetFile, path: str) -> FileSchema:
    """The columns of an open file."""
    arrow = file.schema_arrow
    leaves = map(file.schema.column, range(len(file.schema)))
    paths = [f"{leaf.path}." for leaf in leaves if leaf.physical_type == INT96]
    matching = frozenset(
        name for name in arrow.names if any(each.startswith(f"{name}.") for each in paths)
    )
    inside = frozenset(field.name for field in arrow if pat.is_nested(field.type)) & matching
    int96 = matching - inside
    return FileSchema(
        path=path,
        fields=tuple(
            field.with_type(_INSTANT if field.name in int96 else plain_type(field.type))
            for field in arrow
        ),
        native={field.name: _word(field, int96) for field in arrow},
        int96=int96,
        undelivered=inside,
    )


_ONE_TYPE = "cast the column in a `query` that has the files as `tables`"
"""Where a column has two types, `merge_schema` has no effect."""


def one_schema(source: str, files: Sequence[FileSchema], *, merged: bool) -> tuple[pa.Field, ...]:
    """The columns of all files, in the order of the first.

    Args:
        source: for errors.
        files: at least one.
        merged: a column that is missing in a file is NULL there.

    Raises:
        SchemaChangedError: a column has another type in a file, or, unless merged, a file has
            other columns than the first.
    """
    repeated = frozenset[str]().union(*(repeated_names(file.names) for file in files))
    everywhere = set.intersection(*(set(file.names) for file in files))
    fields_by_name: dict[str, tuple[pa.Field, str]] = {}
    for file in files:
        if not merged:
            _check_names(source, files[0], file)
        for field in file.fields:
            known, first = fields_by_name.setdefault(field.name, (field, file.path))
            common = common_type(known.type, field.type)
            if common is None and field.name not in repeated:
                types = f"{field.name!r} is {_type_name(known)}, then {_type_name(field)}"
                raise SchemaChangedError(source, (first, file.path), types, remedy=_ONE_TYPE)
            may_be_null = known.nullable or field.nullable or field.name not in everywhere
            made = pa.field(field.name, common or known.type, may_be_null)
            fields_by_name[field.name] = (made, first)
    fields = [field for field, _ in fields_by_name.values()]
    return (*(each for field in fields for each in [field] * (1 + (field.name in repeated))),)


def _type_name(field: pa.Field) -> str:
    kind = canonical_type(field.type)
    return "of a type that is not compared" if kind is None else str(kind)


def _check_names(source: str, first: FileSchema, other: FileSchema) -> None:
    """Columns are read by name, so their order has no effect."""
    if sorted(first.names) != sorted(other.names):
        difference = column_difference(first.names, other.names)
        raise SchemaChangedError(source, (first.path, other.path), difference)


def columns_of(
    fields: Sequence[pa.Field], files: Sequence[FileSchema]
) -> tuple[list[SourceColumn], tuple[tuple[str, str], ...]]:
    """Columns with a canonical type, and names and types of those that are not read.

    If a name occurs twice, both columns are listed with any type: neither is read.
    """
    repeated = repeated_names(field.name for field in fields)
    words: dict[str, str] = {}
    for file in files:
        words |= {
            name: word
            for name, word in file.native.items()
            if name not in words or word != _NO_VALUE
        }
    inside = frozenset[str]().union(*(file.undelivered for file in files))
    int96 = frozenset[str]().union(*(file.int96 for file in files))
    columns, undelivered = list[SourceColumn](), list[tuple[str, str]]()
    for field in fields:
        kind = canonical_type(field.type)
        if field.name in repeated:
            kind = kind or types.TEXT
        elif kind is None or field.name in inside:
            word = _INT96_INSIDE if field.name in inside else words[field.name]
            undelivered.append((field.name, word))
        if kind is not None and field.name not in inside:
            columns.append(_column(field, kind, words[field.name], is_int96=field.name in int96))
    return columns, tuple(undelivered)


def _column(field: pa.Field, kind: CanonicalType, word: str, *, is_int96: bool) -> SourceColumn:
    return SourceColumn(
        name=field.name,
        type=kind,
        native_type=word,
        nullable=field.nullable,
        needs_precision=is_int96,
    )


def repeated_names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name, times in Counter(names).items() if times > 1)


def _word(field: pa.Field, int96: frozenset[str]) -> str:
    if field.name in int96:
        return INT96
    return "uuid" if is_uuid(field.type) else str(field.type)


def _is_odd(kind: pa.DataType) -> bool:
    return pat.is_nested(kind) or pat.is_null(kind) or is_json(kind)
