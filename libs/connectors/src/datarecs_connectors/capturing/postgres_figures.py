"""The figures of a PostgreSQL table: one statement, one scan, texts that no setting changes.

Each column is one array of texts, since a SELECT has at most 1,664 columns. Text is ordered by its
bytes. Only functions of the server are called, and only on types of the server: a type of a user or
an extension has counts, and no bounds.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from psycopg import sql

from datarecs_connectors.capturing.postgres_catalog import ServerColumn
from datarecs_connectors.capturing.statistics import fixed_width
from datarecs_core.captures.aggregates import width_text
from datarecs_core.captures.bounds import MAX_BOUND_BYTES, ORDERED, bound_text
from datarecs_core.captures.request import ObjectName
from datarecs_core.catalog.records import ScalarStats
from datarecs_core.comparison.values.calendar import days_of
from datarecs_core.jobs.types import FLOATS, CanonicalType, TypeKind

_ENDS = ("min", "max")
_BOUND: Mapping[TypeKind, str] = {
    TypeKind.TEXT: 'left({1}({0}::text COLLATE "C"), {2})',
    TypeKind.UUID: '{1}({0}::text COLLATE "C")',
    TypeKind.BINARY: "left({1}(encode({0}, 'hex') COLLATE \"C\"), 2 * {2})",
}
"""Types without an order of their bytes, or without a minimum in every version."""
_PLAIN_BOUND = "{1}({0})::text"
_BOOLEAN_BOUNDS = {"min": "bool_and({0})::text", "max": "bool_or({0})::text"}
_NANS = "(count(*) FILTER (WHERE {0} = 'NaN'))::text"
_WITH_NANS = FLOATS | {TypeKind.DECIMAL}
_BYTES: Mapping[TypeKind, str] = {
    TypeKind.TEXT: "sum(octet_length({0}::text))::text",
    TypeKind.JSON: "sum(octet_length({0}::text))::text",
    TypeKind.BINARY: "sum(octet_length({0}))::text",
    TypeKind.DECIMAL: "sum(octet_length(trim_scale({0})::text))::text",
}
"""Of types with values of different lengths; a decimal without declared digits is a text."""
_NONE = "NULL"
_MOMENT = re.compile(
    r"(?:(\d{4,})-(\d\d)-(\d\d))? ?(?:(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?(?:\+00)?( BC)?"
)
"""The server's ISO style in UTC; a year before Christ has its sign at the end."""
_ENDLESS = {"infinity": Decimal("Infinity"), "-infinity": Decimal("-Infinity")}


def figures_statement(name: ObjectName, columns: Sequence[ServerColumn]) -> sql.Composed:
    """The number of rows; per column the values, NaN, minimum, maximum, bytes of the values."""
    targets = [sql.SQL("count(*)"), *(_figures_of(each) for each in columns)]
    return sql.SQL("SELECT {} FROM {} AS r").format(
        sql.SQL(", ").join(targets), sql.Identifier(*name.namespace, name.name)
    )


def _figures_of(column: ServerColumn) -> sql.Composable:
    kind = None if column.kind is None else column.kind.kind
    parts = (
        "count({0})::text",
        _NANS if kind in _WITH_NANS else _NONE,
        *(_bound_of(kind, end) for end in _ENDS),
        _NONE if column.kind is None or fixed_width(column.kind) else _BYTES[column.kind.kind],
    )
    value = sql.Identifier("r", column.column.name)
    cut = sql.Literal(MAX_BOUND_BYTES + 1)
    ends = {"min": sql.SQL("min"), "max": sql.SQL("max")}
    composed = [
        sql.SQL(part).format(value, ends.get(part_end or ""), cut)
        for part, part_end in zip(parts, (None, None, *_ENDS, None), strict=True)
    ]
    return sql.SQL("ARRAY[{}]::text[]").format(sql.SQL(", ").join(composed))


def _bound_of(kind: TypeKind | None, end: str) -> str:
    if kind not in ORDERED:
        return _NONE
    return _BOOLEAN_BOUNDS[end] if kind is TypeKind.BOOL else _BOUND.get(kind, _PLAIN_BOUND)


def scalar_stats(
    column: ServerColumn, figures: Sequence[str | None], *, rows: int, is_unique: bool
) -> ScalarStats:
    """The figures of one column as the catalogue stores them."""
    values, nans, lowest, highest, size = figures
    counted = int(values or 0)
    return ScalarStats(
        name=column.column.name,
        type=column.column.type,
        rows=rows,
        nulls=rows - counted,
        nans=None if nans is None else int(nans),
        ndv=str(counted) if is_unique else None,
        ndv_method="exact" if is_unique else None,
        min=_bound(column.kind, lowest),
        max=_bound(column.kind, highest),
        average_width=_width(column.kind, size, counted),
    )


def is_whole(column: ServerColumn, figures: ScalarStats) -> bool:
    """Whether every figure of a column is there that its source computes."""
    if column.kind is None:
        return False
    is_bounded = column.kind.kind in ORDERED and figures.nulls != figures.rows
    return not is_bounded or None not in (figures.min, figures.max)


def _width(kind: CanonicalType | None, size: str | None, values: int) -> str | None:
    if kind is None or not values:
        return None
    return width_text(int(size) if size is not None else fixed_width(kind) * values, values)


def _bound(kind: CanonicalType | None, text: str | None) -> str | None:
    """The canonical text of a value, from the server's text."""
    if text is None or kind is None:
        return None
    if kind.is_time:
        return bound_text(_moment(text, kind.kind), kind)
    read = _READERS.get(kind.kind)
    return bound_text(text if read is None else read(text), kind)


def _moment(text: str, kind: TypeKind) -> Decimal:
    """Days of a date, microseconds of a time."""
    if text in _ENDLESS:
        return _ENDLESS[text]
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError("the server's text of a time has another form than ISO")
    year, month, day, hour, minute, second, fraction, before_christ = match.groups()
    days = 0
    if year is not None:
        days = days_of(1 - int(year) if before_christ else int(year), int(month), int(day))
    if kind is TypeKind.DATE:
        return Decimal(days)
    seconds = (int(hour) * 60 + int(minute)) * 60 + int(second) + days * 86_400
    return Decimal(seconds * 1_000_000 + int((fraction or "").ljust(6, "0")))


_READERS: Mapping[TypeKind, Callable[[str], object]] = {
    TypeKind.BOOL: lambda text: text == "true",
    TypeKind.INT: int,
    TypeKind.DECIMAL: Decimal,
    TypeKind.FLOAT64: float,
    TypeKind.FLOAT32: float,
    TypeKind.BINARY: bytes.fromhex,
}
