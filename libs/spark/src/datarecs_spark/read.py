"""From a scan to a DataFrame: files of a pin or an extract, columns by their logical names.

Spark's own Parquet reader reads, with a schema taken from the first footer, so that nothing is
inferred and no job runs before the first action. What has no canonical form leaves its column NULL
and its bytes in a companion column.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from datarecs_core.comparison.expressions.condition import named_columns
from datarecs_core.comparison.planning.scan import (
    GROUP_ROWS,
    Extract,
    FileList,
    PinnedFile,
    Scan,
    ScanColumn,
)
from datarecs_core.errors.run import RunDetail
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_kernel.forms import form_of
from datarecs_kernel.refusals import SourceFailedError
from datarecs_spark.canonical import name, text_literal
from datarecs_spark.conditions import ConditionRefusedError, filtered

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows whose value is NULL."""
INVALID = "$invalid."
"""Begins the name of a companion column."""
_SIMPLE = (
    (pat.is_boolean, st.BooleanType()),
    (pat.is_uint64, st.DecimalType(20, 0)),
    (pat.is_integer, st.LongType()),
    (pat.is_float64, st.DoubleType()),
    (pat.is_float32, st.FloatType()),
    (pat.is_string, st.StringType()),
    (pat.is_large_string, st.StringType()),
    (pat.is_string_view, st.StringType()),
    (pat.is_binary, st.BinaryType()),
    (pat.is_large_binary, st.BinaryType()),
    (pat.is_binary_view, st.BinaryType()),
    (pat.is_fixed_size_binary, st.BinaryType()),
    (pat.is_date, st.DateType()),
    # Spark reads the numbers inside; times of day and nanoseconds have no type of its own.
    (pat.is_time, st.LongType()),
    (lambda kind: isinstance(kind, pa.UuidType), st.BinaryType()),
)
_FROM_FOLDER = {
    TypeKind.INT: "BIGINT",
    TypeKind.BOOL: "BOOLEAN",
    TypeKind.DATE: "DATE",
    TypeKind.INSTANT: "TIMESTAMP",
    TypeKind.LOCAL_TIMESTAMP: "TIMESTAMP_NTZ",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The rows of a source after its own filter, and how each logical column stands in them."""

    scan: Scan
    rows: DataFrame
    """Logical columns, then companions."""
    checked: frozenset[str]
    """Logical columns with a companion `$invalid.<name>`."""
    wide: frozenset[str]
    """Integer columns that hold unsigned numbers of 64 bits."""
    pinned_rows: int | None
    """Rows that the pin promises; None where a filter leaves some of them out."""

    @property
    def source(self) -> str:
        return self.scan.source

    @property
    def broken(self) -> Mapping[str, str]:
        """By logical column: whether its value is INVALID, as a condition of Spark."""
        return {each: f"({name(INVALID + each)} IS NOT NULL)" for each in self.checked}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """Parquet files of one source that exist as they were pinned."""

    source: str
    root: Path
    files: Sequence[PinnedFile]

    @property
    def paths(self) -> list[str]:
        """With what Hadoop would take for a pattern escaped."""
        return [
            re.sub(r"([\\{}\[\]*?])", r"\\\1", str(self.root / file.path)) for file in self.files
        ]

    def check(self) -> None:
        """Every file stands with its size, under a name that Spark does not leave out."""
        for file in self.files:
            path = self.root / file.path
            if path.name.startswith(("_", ".")):
                raise SourceFailedError(
                    RunDetail.SOURCE_UNSUPPORTED,
                    self.source,
                    f"{file.path}: Spark reads no file whose name begins with {path.name[0]!r}; "
                    "name it otherwise",
                )
            if not path.is_file() or path.stat().st_size != file.size_bytes:
                raise SourceFailedError(
                    RunDetail.SNAPSHOT_LOST,
                    self.source,
                    f"{file.path} is gone or has another size since it was pinned",
                )

    def schema(self, *, merged: bool = False) -> pa.Schema:
        """Of the first file, or of all together; the connector has compared them with each other.

        Where a file lacks a column Spark reads NULL. Of several files only what Spark can read is
        told: the rest may differ in ways that only the connector understands.
        """
        if not merged:
            return self._schema(self.files[0])
        return pa.unify_schemas(
            pa.schema(
                field.with_type(_plain(field.type))
                for field in self._schema(file)
                if _spark_type(field.type) is not None
            )
            for file in self.files
        )

    def _schema(self, file: PinnedFile) -> pa.Schema:
        try:
            return pq.ParquetFile(self.root / file.path).schema.to_arrow_schema()
        except (pa.ArrowException, OSError) as cause:
            raise SourceFailedError(
                RunDetail.CORRUPT_SOURCE, self.source, f"{file.path} is no readable Parquet file"
            ) from cause


def delivered(session: SparkSession, scan: Scan) -> Delivered:
    """The rows of a scan as its source delivers them.

    Raises:
        SourceFailedError: a file is gone, unreadable or of a type that Spark cannot read; a filter
            that Spark cannot understand.
    """
    if scan.extract is not None:
        return _extracted(session, scan, scan.extract)
    return _pinned(session, scan)


def roots(scan: Scan) -> Mapping[str, str]:
    """Source name by the directory its files lie in."""
    place = _place(scan)
    return {} if place is None else {str(_root(place.root)): scan.source}


class Pinned(Protocol):
    """A source as it is read."""

    @property
    def scan(self) -> Scan: ...

    @property
    def pinned_rows(self) -> int | None: ...


def check_pinned(source: Pinned, rows: int) -> None:
    """Exactly the rows that were pinned have been read.

    Raises:
        SourceFailedError: others.
    """
    if source.pinned_rows is not None and rows != source.pinned_rows:
        raise SourceFailedError(
            RunDetail.SNAPSHOT_LOST,
            source.scan.source,
            f"{rows} rows were read, {source.pinned_rows} were pinned; a file changed "
            "while it was read",
        )


def all_rows(scan: Scan, rows: int) -> int:
    """Rows of a source, also those that it kept or grouped."""
    if scan.extract is None or scan.extract.source_rows is None:
        return rows
    return scan.extract.source_rows


def _place(scan: Scan) -> Extract | FileList | None:
    if scan.extract is not None:
        return scan.extract
    return scan.pin if isinstance(scan.pin, FileList) else None


def _root(root: str) -> Path:
    return Path(unquote(urlsplit(root).path) if root.startswith("file:") else root)


def _opened(scan: Scan) -> _Files:
    place = _place(scan)
    if place is None:
        raise SourceFailedError(
            RunDetail.SOURCE_UNSUPPORTED, scan.source, f"{scan.kind} needs an extract for Spark"
        )
    files = _Files(source=scan.source, root=_root(place.root), files=place.files)
    files.check()
    return files


def _extracted(session: SparkSession, scan: Scan, extract: Extract) -> Delivered:
    """Its filter was applied when it was brought."""
    files = _opened(scan)
    rows, schema = _rows(session, files)
    checked = frozenset(extract.invalid_columns)
    groups = scan.groups
    wanted = [
        column.name for column in scan.columns if groups is None or column.name in groups.dimensions
    ]
    columns = [
        f"{_stored(schema, label, files, scan.column(label).type)} AS {name(label)}"
        for label in wanted
    ]
    if groups is not None:
        columns += map(name, (GROUP_ROWS, *(each.name for each in groups.partials)))
    companions = [name(f"{INVALID}{column}") for column in sorted(checked)]
    return Delivered(
        scan=scan,
        rows=rows.selectExpr(*columns, *companions),
        checked=checked,
        wide=_wide(scan, schema),
        pinned_rows=extract.rows if groups is None else None,
    )


def _pinned(session: SparkSession, scan: Scan) -> Delivered:
    files = _opened(scan)
    merged = scan.kind is SourceKind.PARQUET and dict(scan.options).get("merge_schema") is True
    rows, schema = _rows(session, files, merged=merged)
    rows = rows.selectExpr("*", *_folders(scan, files, schema))
    if scan.filter is not None:
        _check_finer(scan, scan.filter)
        try:
            rows = filtered(rows, scan.filter, _broken_texts(scan))
        except ConditionRefusedError as cause:
            message = f"its filter cannot be used: {cause}"
            raise SourceFailedError(RunDetail.QUERY_ERROR, scan.source, message) from cause
    found = {column.name: _value(column, files, schema) for column in scan.columns}
    texts = sorted(column.name for column in scan.columns if column.type.kind is TypeKind.TEXT)
    valid = [
        f"{_if_valid(value) if label in texts else value} AS {name(label)}"
        for label, value in found.items()
    ]
    broken = [
        f"CASE WHEN NOT is_valid_utf8({found[label]}) THEN CAST({found[label]} AS BINARY) END"
        f" AS {name(INVALID + label)}"
        for label in texts
    ]
    counts = [file.rows for file in files.files]
    known = [count for count in counts if count is not None]
    complete = scan.filter is None and len(known) == len(counts)
    return Delivered(
        scan=scan,
        rows=rows.selectExpr(*valid, *broken),
        checked=frozenset(texts),
        wide=_wide(scan, schema),
        pinned_rows=sum(known) if complete else None,
    )


def _check_finer(scan: Scan, condition: str) -> None:
    """Spark has no type of times finer than a microsecond, so no condition is right about them."""
    for column in scan.schema.columns:
        if column.type.is_finer and column.name in named_columns(condition):
            raise SourceFailedError(
                RunDetail.SOURCE_UNSUPPORTED,
                scan.source,
                f"its filter names {column.name!r}, whose times are finer than a microsecond: no "
                "condition of Spark's is right about them",
            )


def _broken_texts(scan: Scan) -> Mapping[str, str]:
    """By column of the files: whether its text is INVALID."""
    texts = [each.name for each in scan.schema.columns if each.type.kind is TypeKind.TEXT]
    return {each: f"coalesce(NOT is_valid_utf8({name(each)}), FALSE)" for each in texts}


def _if_valid(value: str) -> str:
    return f"CASE WHEN is_valid_utf8({value}) THEN {value} END"


def _rows(
    session: SparkSession, files: _Files, *, merged: bool = False
) -> tuple[DataFrame, pa.Schema]:
    """Every column that Spark can read; the others are missed when somebody asks for them."""
    schema = files.schema(merged=merged)
    fields = [
        st.StructField(field.name, kind)
        for field in schema
        if (kind := _spark_type(field.type)) is not None
    ]
    return session.read.schema(st.StructType(fields)).parquet(*files.paths), schema


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type whatever way a file stores its values in."""
    if pat.is_dictionary(kind):
        return _plain(kind.value_type)
    if pat.is_large_string(kind) or pat.is_string_view(kind):
        return pa.string()
    is_bytes = (
        pat.is_large_binary(kind) or pat.is_binary_view(kind) or pat.is_fixed_size_binary(kind)
    )
    return pa.binary() if is_bytes else kind


def _spark_type(kind: pa.DataType) -> st.DataType | None:
    """None for what Spark cannot read: nested and exotic types."""
    if pat.is_dictionary(kind):
        return _spark_type(kind.value_type)
    if getattr(kind, "unit", None) == "ns":
        return st.LongType()
    if pat.is_decimal128(kind):
        return st.DecimalType(kind.precision, kind.scale)
    if pat.is_timestamp(kind):
        return st.TimestampType() if kind.tz else st.TimestampNTZType()
    return next((found for fits, found in _SIMPLE if fits(kind)), None)


def _stored(schema: pa.Schema, column: str, files: _Files, wanted: CanonicalType) -> str:
    """A column of the files; milliseconds of a day become microseconds.

    Times whose type is finer are a decimal of microseconds, however they are stored.
    """
    at = schema.get_all_field_indices(column)
    if not at:
        raise SourceFailedError(
            RunDetail.SCHEMA_CHANGED,
            files.source,
            f"{files.files[0].path} has no column {column!r} any more",
        )
    kind = schema.field(at[0]).type
    if _spark_type(kind) is None:
        raise SourceFailedError(
            RunDetail.SOURCE_UNSUPPORTED,
            files.source,
            f"column {column!r} has the type {kind}, which Spark cannot read; cast it in the "
            "source, or leave it out",
        )
    value = name(column)
    if pat.is_time(kind) and kind.unit == "ms":
        value = f"{value} * 1000"
    if isinstance(kind, pa.UuidType):
        value = f"hex({value})"
    if not wanted.is_finer:
        return value
    if pat.is_timestamp(kind) and kind.unit != "ns":
        value = f"unix_micros(CAST({value} AS TIMESTAMP))"
    nanos = f"CAST({value} AS DECIMAL(19,0)) * 0.001BD"
    micros = nanos if kind.unit == "ns" else value
    form = form_of([wanted])
    return f"CAST({micros} AS {form.sql_type})" if form is not None else value


def _value(column: ScanColumn, files: _Files, schema: pa.Schema) -> str:
    physical = column.physical or column.name
    if schema.get_field_index(physical) < 0 and physical in _folder_names(files):
        return name(physical)
    return _stored(schema, physical, files, column.type)


def _wide(scan: Scan, schema: pa.Schema) -> frozenset[str]:
    """In an extract columns stand under their logical names."""
    unsigned = {field.name for field in schema if pat.is_uint64(field.type)}
    return frozenset(
        column.name
        for column in scan.columns
        if (column.name if scan.extract else column.physical) in unsigned
    )


def _folder_names(files: _Files) -> set[str]:
    parts = {part for file in files.files for part in file.path.split("/")[:-1]}
    return {part.partition("=")[0] for part in parts if "=" in part} - {""}


def _folders(scan: Scan, files: _Files, schema: pa.Schema) -> list[str]:
    """Columns that folders such as `day=2026-01-31` stand for, unless the option says no."""
    if scan.kind is not SourceKind.PARQUET or dict(scan.options).get("hive_partitions") is False:
        return []
    types = {column.name: column.type for column in scan.schema.columns}
    place = "url_decode(replace(_metadata.file_path, '+', '%2B'))"
    found = []
    for label in sorted(_folder_names(files) - set(schema.names)):
        pattern = (
            rf"^file:/+{re.escape(str(files.root).lstrip('/'))}/(?:.*/)?{re.escape(label)}=([^/]*)/"
        )
        written = f"regexp_extract({place}, {text_literal(pattern)}, 1)"
        written = f"nullif({written}, {text_literal(_NO_VALUE)})"
        value = _of_folder(written, types[label]) if label in types else written
        found.append(f"{value} AS {name(label)}")
    return found


def _of_folder(written: str, wanted: CanonicalType) -> str:
    """Spark's casts drop what is finer than a microsecond: those digits are added."""
    kind, form = _FROM_FOLDER.get(wanted.kind), form_of([wanted])
    if kind is None:
        return written
    value = f"CAST({written} AS {kind})"
    if not wanted.is_finer or form is None:
        return value
    finer = f"rpad(regexp_extract({written}, '[.][0-9]{{6}}([0-9]+)', 1), 3, '0')"
    micros = f"unix_micros(CAST({value} AS TIMESTAMP)) + CAST({finer} AS INT) * 0.001BD"
    return f"CAST({micros} AS {form.sql_type})"
