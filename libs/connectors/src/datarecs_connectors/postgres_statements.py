"""The SQL that reads a PostgreSQL source: all rows, some rows, or groups of rows.

Separate from the connector because plans print it without a session. Text is compared, grouped and
ordered by its bytes (`COLLATE "C"`) for every collation of a column; the padding of `char(n)` is
removed. A condition never excludes rows with a value without a canonical form (NaN, infinity, years
outside 1 to 9999): the engine decides about them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from psycopg import sql

from datarecs_connectors.errors import QueryFailedError
from datarecs_core.comparison.expressions.condition_tree import Column, Operand
from datarecs_core.comparison.expressions.entry import Dialect
from datarecs_core.comparison.expressions.exact_conditions import (
    Digits,
    NotExactError,
    exact_condition,
)
from datarecs_core.comparison.expressions.signatures import Typed
from datarecs_core.comparison.expressions.sql import expression_sql, sql_type
from datarecs_core.comparison.expressions.tree import ExpressionError
from datarecs_core.comparison.planning.computing import typed_condition, typed_over, types_of
from datarecs_core.comparison.planning.pushdown import NotPushedError, declared_column
from datarecs_core.comparison.planning.scan import Groups, Keys, Partial, Scan
from datarecs_core.comparison.values.canonical import Tag, Value
from datarecs_core.comparison.values.forms import read_text
from datarecs_core.documents import decimal_text
from datarecs_core.jobs import types
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import Function

ALL_ROWS, ODD = "$all", "$odd"
"""Columns behind those of an extract of groups: rows beside `where` too, and whether a value of the
group has no canonical form."""
_DAY, _MICROSECOND = timedelta(days=1), timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT64 = 2**63
_MOST_TEXT = 4 * 2**20
"""Maximum characters of the keys in one statement."""
_SPACED = ("bpchar", "char", "character(")
_UNBOUNDED = {
    TypeKind.DECIMAL: "{0} = 'NaN'",
    TypeKind.DATE: "NOT ({0} >= '0001-01-01' AND {0} <= '9999-12-31')",
    TypeKind.INSTANT: "NOT ({0} >= '0001-01-01 00:00+00' AND {0} < '10000-01-01 00:00+00')",
    TypeKind.LOCAL_TIMESTAMP: "NOT ({0} >= '0001-01-01' AND {0} < '10000-01-01')",
}


def statement_of(scan: Scan) -> str:
    """The SELECT of a scan, as text for plans."""
    return statement(scan).as_string(None)


def statement(scan: Scan, within: sql.Composable | None = None) -> sql.Composable:
    """The SELECT of a scan.

    Args:
        scan: of rows, some rows or groups.
        within: the range of one reader, if it reads rows of a relation.

    Raises:
        NotPushedError: SQL cannot express the scan.
    """
    return _rows(scan, within) if scan.groups is None else _grouped(scan, scan.groups)


def counting(scan: Scan, *, is_restricted: bool = False) -> sql.Composed:
    """The number of rows that match the source's filter, or of those that the scan reads."""
    conditions = [*_filters(scan), *(_restrictions(scan) if is_restricted else [])]
    place = origin(source_of(scan)) + _where(conditions)
    return sql.SQL("SELECT count(*) FROM {}").format(place)


def explaining(scan: Scan) -> sql.Composed:
    """The EXPLAIN of a scan's SELECT, which is not executed."""
    return sql.SQL("EXPLAIN {}").format(statement(scan))


def source_of(scan: Scan) -> Source:
    """The part of the statement with FROM and the conditions."""
    return Source(
        name=scan.source,
        kind=scan.kind,
        relation=scan.relation,
        query=scan.query,
        limits=scan.limits,
    )


def origin(source: Source) -> sql.Composable:
    """The relation or the wrapped query; names quoted by the driver."""
    if source.query is not None:
        # The line break ends a comment at the end of the text, before the bracket.
        return sql.SQL("({}\n) AS q").format(sql.SQL(source.query))
    return sql.Identifier(*(source.relation or "").split("."))


def answers(scan: Scan, groups: Groups) -> tuple[tuple[str, CanonicalType], ...]:
    """Name and type of every column that the source returns for groups, before `ALL_ROWS`."""
    kinds = {column.name: column.type for column in scan.columns}
    dimensions = ((name, kinds[name]) for name in groups.dimensions)
    partials = ((each.name, _type_of(each, kinds[each.column])) for each in groups.partials)
    return (*dimensions, *partials)


def _type_of(partial: Partial, kind: CanonicalType) -> CanonicalType:
    match partial.function:
        case Function.COUNT:
            return types.INT
        case Function.SUM:
            return types.decimal(types.MAX_DIGITS, kind.scale or 0)
        case _:
            return kind


def _rows(scan: Scan, within: sql.Composable | None) -> sql.Composable:
    columns = sql.SQL(", ").join(_Columns(scan).value(column.name) for column in scan.columns)
    conditions = [*([] if within is None else [within]), *_filters(scan), *_restrictions(scan)]
    return sql.SQL("SELECT {} FROM ").format(columns) + origin(source_of(scan)) + _where(conditions)


def _grouped(scan: Scan, groups: Groups) -> sql.Composable:
    columns = _Columns(scan)
    chosen: sql.Composable = sql.SQL("")
    named = [*groups.dimensions, *(each.column for each in groups.partials)]
    if groups.where is not None:
        condition, mentioned = columns.condition(groups.where)
        chosen = sql.SQL(" FILTER (WHERE {})").format(condition)
        named += mentioned
    odd = columns.odd(named)
    outputs = [
        *(columns.met(name) for name in groups.dimensions),
        *(_partial(columns, each) + chosen for each in groups.partials),
        sql.SQL("count(*)") + chosen,
        sql.SQL("count(*)"),
        sql.SQL("coalesce(bool_or({}), false)").format(odd) if odd else sql.SQL("false"),
    ]
    by = sql.SQL(", ").join(sql.SQL(str(at + 1)) for at in range(len(groups.dimensions)))
    last = sql.SQL(" GROUP BY ") + by if groups.dimensions else sql.SQL("")
    head = sql.SQL("SELECT {} FROM ").format(sql.SQL(", ").join(outputs))
    return head + origin(source_of(scan)) + _where(_filters(scan)) + last


def _partial(columns: "_Columns", partial: Partial) -> sql.Composable:
    value = columns.met(partial.column)
    return sql.SQL("{}({})").format(sql.SQL(partial.function.value), value)


def _filters(scan: Scan) -> list[sql.Composable]:
    if scan.filter is None:
        return []
    return [_computed(lambda: typed_condition(scan.filter or "", scan.schema), scan)]


def _where(conditions: Sequence[sql.Composable]) -> sql.Composable:
    if not conditions:
        return sql.SQL("")
    return sql.SQL(" WHERE ") + sql.SQL(" AND ").join(conditions)


def _restrictions(scan: Scan) -> list[sql.Composable]:
    """The conditions of the rows that a stage needs."""
    if scan.only is None:
        return []
    columns = _Columns(scan)
    conditions: list[sql.Composable] = []
    if scan.only.where is not None:
        condition, named = columns.condition(scan.only.where)
        odd = columns.odd(named)
        either = [condition, *([odd] if odd else [])]
        conditions.append(sql.SQL("({})").format(sql.SQL(" OR ").join(either)))
    if scan.only.keys is not None:
        conditions.append(_listed(columns, scan.only.keys))
    return conditions


def _listed(columns: "_Columns", keys: Keys) -> sql.Composable:
    """Keys grouped by their NULL columns, because NULL is equal to NULL here."""
    if sum(len(each or "") for values in keys.values for each in values) > _MOST_TEXT:
        raise NotPushedError("the keys are too long for one statement")
    shapes: dict[tuple[bool, ...], list[tuple[str | None, ...]]] = {}
    for values in keys.values:
        shapes.setdefault(tuple(each is None for each in values), []).append(values)
    parts = [_of_shape(columns, keys.columns, shape, rows) for shape, rows in shapes.items()]
    return sql.SQL("({})").format(sql.SQL(" OR ").join(parts)) if parts else sql.SQL("false")


def _of_shape(
    columns: "_Columns",
    names: Sequence[str],
    shape: Sequence[bool],
    rows: Sequence[tuple[str | None, ...]],
) -> sql.Composable:
    null = [name for name, is_null in zip(names, shape, strict=True) if is_null]
    not_null = [at for at, is_null in enumerate(shape) if not is_null]
    parts = [sql.SQL("{} IS NULL").format(columns.value(name)) for name in null]
    if not_null:
        left = sql.SQL(", ").join(columns.met(names[at]) for at in not_null)
        listed = sql.SQL(", ").join(
            sql.SQL("({})").format(
                sql.SQL(", ").join(columns.key(names[at], row[at] or "") for at in not_null)
            )
            for row in rows
        )
        parts.append(sql.SQL("({}) IN (VALUES {})").format(left, listed))
    return sql.SQL("({})").format(sql.SQL(" AND ").join(parts))


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns of a scan in the server's SQL."""

    scan: Scan

    @property
    def kinds(self) -> Mapping[str, CanonicalType]:
        return {column.name: column.type for column in self.scan.columns}

    def value(self, name: str) -> sql.Composable:
        """The column as it is read."""
        column = self.scan.column(name)
        if column.expression is not None:
            written = column.expression
            return _computed(lambda: typed_over(written, self.scan.schema), self.scan)
        plain = sql.Identifier(column.physical or "")
        declared = declared_column(self.scan, name)
        spaced = declared is not None and declared.native_type.startswith(_SPACED)
        return sql.SQL("{}::text").format(plain) if spaced else plain

    def met(self, name: str) -> sql.Composable:
        """The column as it is compared and grouped."""
        value = self.value(name)
        if self.scan.column(name).type.kind is TypeKind.TEXT:
            return sql.SQL('{}::text COLLATE "C"').format(value)
        return value

    def odd(self, names: Sequence[str]) -> sql.Composable | None:
        """Whether one of the columns has a value without a canonical form; never NULL."""
        kinds = self.kinds
        parts = [
            sql.SQL("coalesce({}, false)").format(sql.SQL(text).format(self.value(name)))
            for name in dict.fromkeys(names)
            if (text := _UNBOUNDED.get(kinds[name].kind)) is not None
        ]
        return sql.SQL("({})").format(sql.SQL(" OR ").join(parts)) if parts else None

    def condition(self, written: str) -> tuple[sql.Composable, Sequence[str]]:
        """A stage's condition and its columns."""
        try:
            clause = exact_condition(written, self.kinds)
        except NotExactError as cause:
            raise NotPushedError(str(cause)) from cause
        return sql.SQL(clause.sql(self._operand)), tuple(clause.types)

    def key(self, name: str, written: str) -> sql.Composable:
        """A value of a key; raises NotPushedError if the text is not a value."""
        value = read_text(written, self.kinds[name])
        if value is None:
            raise NotPushedError("a key has no canonical form")
        return sql.SQL(_constant(value))

    def _operand(self, operand: Operand, _digits: Digits | None) -> str:
        if isinstance(operand, Column):
            return self.met(operand.name).as_string(None)
        return _constant(operand.value)


def _computed(typing: Callable[[], Typed], scan: Scan) -> sql.Composable:
    """An expression over the source's columns, written from its tree."""
    try:
        typed = typing()
        kinds = types_of(scan.schema)
        written = expression_sql(typed, Dialect.POSTGRES, lambda name: _formed(name, kinds[name]))
    except ExpressionError as cause:
        raise QueryFailedError(scan.source, f"an expression is refused: {cause}") from cause
    if typed.type is not None and typed.type.kind is TypeKind.INSTANT:
        written = f"({written} AT TIME ZONE 'UTC')"
    return sql.SQL("({})").format(sql.SQL(written))


def _formed(name: str, kind: CanonicalType) -> str:
    """A column in the standard form of its type, for expressions."""
    column = sql.Identifier(name).as_string(None)
    match kind.kind:
        case TypeKind.TEXT:
            return f'({column}::text COLLATE "C")'
        case TypeKind.INSTANT:
            return f"({column} AT TIME ZONE 'UTC')"
        case TypeKind.DECIMAL if kind.scale is None:
            return column
        case TypeKind.INT | TypeKind.DECIMAL | TypeKind.FLOAT64 | TypeKind.FLOAT32:
            return f"CAST({column} AS {sql_type(kind, Dialect.POSTGRES)})"
    return column


def _constant(value: Value) -> str:
    """A literal with its type."""
    content = value.content
    match value.tag, content:
        case Tag.NUMBER, Decimal() if content.is_finite():
            fits = content % 1 == 0 and abs(content) < _INT64
            return f"{decimal_text(content)}::{'bigint' if fits else 'numeric'}"
        case Tag.BOOL, bool():
            return "true" if content else "false"
        case Tag.TEXT, str() if "\0" not in content:
            return f'{_text(content)}::text COLLATE "C"'
        case Tag.UUID, bytes():
            return f"{_text(str(UUID(bytes=content)))}::uuid"
        case Tag.DATE | Tag.INSTANT | Tag.LOCAL, Decimal():
            return _moment(value.tag, content)
        case _:
            raise NotPushedError("a value has no literal")


def _moment(tag: Tag, content: Decimal) -> str:
    if not content.is_finite() or content % 1:
        raise NotPushedError("a time is finer than a microsecond")
    try:
        if tag is Tag.DATE:
            day = date(1970, 1, 1) + int(content) * _DAY
            return f"{_text(day.isoformat())}::date"
        moment = _EPOCH + int(content) * _MICROSECOND
    except OverflowError as cause:
        raise NotPushedError("a time is outside the years 1 to 9999") from cause
    if tag is Tag.INSTANT:
        return f"{_text(moment.isoformat())}::timestamptz"
    return f"{_text(moment.replace(tzinfo=None).isoformat())}::timestamp"


def _text(content: str) -> str:
    return sql.Literal(content).as_string(None)
