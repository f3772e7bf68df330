"""Compute filters and expression columns in DuckDB, batch by batch.

One evaluator for every file format, for the oracle's rows and for extracts. An expression uses one
row, so memory is bounded by the batch. The database has no table except the batch, no files and no
network; its SQL is written from the checked tree.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from datarecs_connectors.errors import QueryFailedError
from datarecs_connectors.extracting import Batches
from datarecs_connectors.full_disk import check_disk
from datarecs_connectors.typed_text import INVALID, TypedColumn, arrow_type, table_of
from datarecs_connectors.walled_query import SETTINGS, WALLS
from datarecs_core.comparison.expressions.condition import is_plain
from datarecs_core.comparison.expressions.entry import Dialect
from datarecs_core.comparison.expressions.signatures import Typed
from datarecs_core.comparison.expressions.sql import expression_sql
from datarecs_core.comparison.expressions.tree import Call, ExpressionError, columns_of
from datarecs_core.comparison.planning.computing import (
    CONDITION,
    typed_condition,
    typed_over,
    types_of,
)
from datarecs_core.comparison.planning.scan import Scan, ScanColumn
from datarecs_core.jobs.types import CanonicalType, TypeKind

_BATCH, _BROKEN = "batch", "broken"
_JOINS = {"and": " AND ", "or": " OR "}
_ROWS = 100_000
_MICROS = pa.timestamp("us")


def computed_batches(scan: Scan, read: Callable[[Scan], Batches]) -> Batches:
    """The rows of a scan with expressions, or with a filter that is not a plain comparison.

    Args:
        scan: of files, or of a query over them.
        read: reads columns of the source unchanged, after a filter of comparisons.

    Raises:
        QueryFailedError: an expression fails for a row, or is not part of the language.
    """
    computation = _Computation.of(scan)
    inner_filter = scan.filter if computation.condition is None else None
    inner = replace(scan, columns=computation.inputs, filter=inner_filter)
    with _Database(scan.source) as database:
        for batch, _ in read(inner):
            yield computation.computed(batch, database)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Computation:
    scan: Scan
    condition: Typed | None
    expressions: tuple[tuple[str, Typed], ...]
    """By logical name."""
    inputs: tuple[ScanColumn, ...]
    """Columns of the source, under their physical names."""

    @classmethod
    def of(cls, scan: Scan) -> "_Computation":
        try:
            has_condition = scan.filter is not None and not is_plain(scan.filter)
            condition = typed_condition(scan.filter or "", scan.schema) if has_condition else None
            expressions = tuple(
                (column.name, typed_over(column.expression, scan.schema))
                for column in scan.columns
                if column.expression is not None
            )
        except ExpressionError as cause:
            raise QueryFailedError(scan.source, f"an expression is refused: {cause}") from cause
        parts = [part for _, part in expressions] + ([condition] if condition else [])
        names = {column.physical for column in scan.columns if column.physical is not None}
        names.update(*(columns_of(part.node) for part in parts))
        known = types_of(scan.schema)
        types = {column.name: column.type for column in scan.schema.columns}
        inputs = tuple(
            ScanColumn(name=name, physical=name, type=types[name])
            for name in sorted(names) or sorted(known)[:1]
        )
        return cls(scan=scan, condition=condition, expressions=expressions, inputs=inputs)

    def computed(
        self, batch: pa.RecordBatch, database: "_Database"
    ) -> tuple[pa.RecordBatch, tuple[str, ...]]:
        """The rows of a batch that match the filter, in the columns of the scan."""
        types = types_of(self.scan.schema)
        if self.condition is not None:
            rows = _Rows(batch=batch, types=types)
            batch = batch.filter(_row_mask(database.condition(rows, "filter", self.condition)))
        rows = _Rows(batch=batch, types=types)
        made = {
            name: database.condition(rows, name, part)
            if name.startswith(CONDITION)
            else database.column(rows, name, part)
            for name, part in self.expressions
        }
        columns = [
            made[column.name] if column.physical is None else rows.column(column.physical)
            for column in self.scan.columns
        ]
        return table_of([column.name for column in self.scan.columns], columns)


def _row_mask(column: TypedColumn) -> pa.Array:
    """The rows where a condition is TRUE or INVALID (its result is unknown)."""
    mask = pc.fill_null(column.values, False)  # noqa: FBT003 - pyarrow's own
    return mask if column.invalid is None else pc.or_(mask, pc.is_valid(column.invalid))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """A batch of a source's columns, with their types."""

    batch: pa.RecordBatch
    types: Mapping[str, CanonicalType]

    def column(self, name: str) -> TypedColumn:
        return TypedColumn(self.batch.column(name), self.invalid([name]))

    def invalid(self, names: Sequence[str]) -> pa.Array | None:
        """Bytes of the first INVALID value of each row in these columns; None without one."""
        raw = [
            self.batch.column(at)
            for name in names
            if (at := self.batch.schema.get_field_index(f"{INVALID}{name}")) >= 0
        ]
        filled = [each for each in raw if each.null_count < len(each)]
        return pc.coalesce(*filled) if filled else None

    def table(self, names: Sequence[str]) -> pa.Table:
        """The table for the database: some columns, each with a flag for INVALID values.

        It has at least one column, because rows are counted.
        """
        table = pa.table({"c": pa.nulls(self.batch.num_rows, pa.bool_())})
        for at, name in enumerate(names):
            values = _held(self.batch.column(name), self.types[name])
            table = table.append_column(f"c{at}", values)
            raw = self.invalid([name])
            if raw is not None:
                table = table.append_column(f"{_BROKEN}{at}", pc.is_valid(raw))
        return table


class _Database:
    """A DuckDB without files, network or settings; a context manager."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._connection = duckdb.connect(config=dict(SETTINGS))

    def __enter__(self) -> Self:
        for wall in WALLS:
            self._connection.execute(wall)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def column(self, rows: _Rows, name: str, expression: Typed) -> TypedColumn:
        """One expression over all rows; INVALID where one of its columns is INVALID."""
        kind = expression.type
        if kind is None:
            raise TypeError("an expression has a type")
        names = sorted(columns_of(expression.node))
        places = {name: f'"c{at}"' for at, name in enumerate(names)}
        text = expression_sql(expression, Dialect.DUCKDB, places.__getitem__)
        values = self._computed(rows.table(names), name, text)
        return _with_invalid(_delivered(values, kind), rows.invalid(names))

    def condition(self, rows: _Rows, name: str, expression: Typed) -> TypedColumn:
        """One condition over all rows; INVALID where an INVALID value makes it unknown."""
        names = sorted(columns_of(expression.node))
        table = rows.table(names)
        values = self._computed(table, name, _condition_sql(expression, names, table.column_names))
        raw = rows.invalid(names)
        known = pc.is_valid(values)
        return TypedColumn(values, None if raw is None else pc.if_else(known, None, raw))

    def _computed(self, table: pa.Table, name: str, text: str) -> pa.Array:
        self._connection.register(_BATCH, table)
        try:
            made = self._connection.sql(f"SELECT {text} AS v FROM {_BATCH}")  # noqa: S608 - written by us
            return made.to_arrow_reader(_ROWS).read_all().column(0).combine_chunks()
        except duckdb.Error as cause:
            check_disk(cause)
            raise QueryFailedError(self._source, _failed(name, cause)) from cause


def _condition_sql(part: Typed, names: Sequence[str], held: Sequence[str]) -> str:
    """An operand of AND, OR or NOT is unknown where it uses an INVALID value.

    The database sees such a value as NULL, for which `IS NULL` and a default would decide.
    """
    node = part.node
    if isinstance(node, Call) and node.entry in {"and", "or", "not"}:
        parts = [_condition_sql(each, names, held) for each in part.arguments]
        return f"(NOT {parts[0]})" if node.entry == "not" else f"({_JOINS[node.entry].join(parts)})"
    places = {name: at for at, name in enumerate(names)}
    text = expression_sql(part, Dialect.DUCKDB, lambda name: f'"c{places[name]}"')
    flags = [f"{_BROKEN}{places[name]}" for name in sorted(columns_of(node))]
    broken = " OR ".join(f'"{flag}"' for flag in flags if flag in held)
    return f"CASE WHEN {broken} THEN NULL ELSE {text} END" if broken else text


def _failed(name: str, cause: duckdb.Error) -> str:
    """An error without DuckDB's text, because that text quotes values."""
    match cause:
        case duckdb.ConversionException():
            why = "a value does not have the form of the type it is cast to"
        case duckdb.OutOfRangeException():
            why = "a number or date is too large for its type"
        case duckdb.OutOfMemoryException():
            why = "it needs more memory than is available"
        case _:
            why = type(cause).__name__
    return f"the expression of {name!r} fails for at least one row: {why}"


def _held(array: pa.Array, kind: CanonicalType) -> pa.Array:
    """Instants as timestamps in UTC; numbers and texts in the standard form of their type."""
    if kind.kind is TypeKind.INSTANT:
        return array.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).cast(_MICROS)
    if kind.kind is TypeKind.FLOAT32:
        return array.cast(pa.float64())
    return array.cast(arrow_type(kind))


def _delivered(values: pa.Array, kind: CanonicalType) -> pa.Array:
    """The column type of an extract."""
    if kind.kind is TypeKind.INSTANT:
        return values.cast(pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return values.cast(arrow_type(kind))


def _with_invalid(values: pa.Array, invalid: pa.Array | None) -> TypedColumn:
    if invalid is None:
        return TypedColumn(values, None)
    return TypedColumn(pc.if_else(pc.is_valid(invalid), None, values), invalid)
