"""Columns that a source computes: declared expressions, and conditions beyond comparisons.

Expressions get their types here over the described columns of a source, so that every kind has
the same types. A condition of a stage is written over logical columns; here it becomes one over
those of the source. Separate from `logical`, which names columns, and from the language itself.
"""

from collections.abc import Mapping

from datarecs_core.comparison.expressions.condition import is_plain
from datarecs_core.comparison.expressions.signatures import Typed
from datarecs_core.comparison.expressions.syntax import parse_expression
from datarecs_core.comparison.expressions.tree import (
    ExpressionError,
    Name,
    columns_of,
    nodes_of,
)
from datarecs_core.comparison.expressions.typing import typed_expression
from datarecs_core.comparison.planning.scan import Scan, ScanColumn, SourceColumn, SourceSchema
from datarecs_core.jobs.types import BOOL, NUMERIC, TEXT, CanonicalType, decimal
from datarecs_core.jobs.vocabulary import SourceKind

CONDITION = "$where."
"""Begins the name of the column that holds whether a row is in a stage."""
_UNSIGNED, _NUMERIC = "uint64", "numeric"
_UNSIGNED_TYPE = decimal(20, 0)


def types_of(schema: SourceSchema) -> Mapping[str, CanonicalType]:
    """Types of the columns that an expression may name.

    Unsigned integers need 20 digits. Numbers without declared digits have a type in PostgreSQL
    alone; files hold them as texts, and an expression casts them to so many digits as it needs.
    """
    absent = dict(schema.undelivered)
    return {column.name: _type_of(column) for column in schema.columns if column.name not in absent}


def _type_of(column: SourceColumn) -> CanonicalType:
    if column.native_type == _UNSIGNED:
        return _UNSIGNED_TYPE
    return TEXT if column.type == NUMERIC and column.native_type != _NUMERIC else column.type


def typed_over(sql: str, schema: SourceSchema) -> Typed:
    """An expression over the columns of a source; raises ExpressionError."""
    return typed_expression(parse_expression(sql), types_of(schema))


def typed_condition(sql: str, schema: SourceSchema) -> Typed:
    """The same of a condition, which is a boolean."""
    return typed_expression(parse_expression(sql), types_of(schema), wanted=BOOL)


def computed_column(name: str, sql: str, schema: SourceSchema) -> SourceColumn:
    """The description of a column that a source computes; raises ExpressionError.

    It groups exactly where all its columns do: the rest of the language is exact.
    """
    typed = typed_over(sql, schema)
    exact = {column.name: column.groups_exactly for column in schema.columns}
    names = columns_of(typed.node)
    return SourceColumn(
        name=name,
        type=typed.type or BOOL,
        groups_exactly=bool(names) and all(exact[each] for each in names),
    )


def condition_column(stage: str) -> str:
    """The name of the column that a source computes for the condition of a stage."""
    return f"{CONDITION}{stage}"


def over_source(where: str, columns: Mapping[str, ScanColumn]) -> str:
    """A condition over logical columns as one over those of the source.

    Args:
        where: of a stage.
        columns: of the source, by their logical names.

    Raises:
        ExpressionError: it is broken.
    """
    names = [each for each in nodes_of(parse_expression(where)) if isinstance(each, Name)]
    for name in sorted(names, key=lambda each: each.at, reverse=True):
        column = columns.get(name.name)
        if column is not None:
            where = f"{where[: name.at]}{_source_text(column)}{where[name.end :]}"
    return where


def _source_text(column: ScanColumn) -> str:
    if column.expression is not None:
        return f"({column.expression})"
    written = (column.physical or column.name).replace('"', '""')
    return f'"{written}"'


def columns_in(column: ScanColumn) -> frozenset[str]:
    """The source's columns in a column of a scan."""
    if column.expression is not None:
        return frozenset(columns_of(parse_expression(column.expression)))
    return frozenset() if column.physical is None else frozenset({column.physical})


def brings_computed(scan: Scan) -> bool:
    """A source of files computes expressions of its rows: its connector delivers them."""
    if scan.kind is SourceKind.POSTGRES:
        return False
    has_filter = scan.filter is not None and not is_plain(scan.filter)
    return has_filter or any(column.expression is not None for column in scan.columns)


def computes_alike(column: ScanColumn, schema: SourceSchema) -> bool:
    """Whether an expression still has its type over the columns of a source."""
    try:
        return typed_over(column.expression or "", schema).type == column.type
    except ExpressionError:
        return False
