"""Statistics of a PostgreSQL server before a read.

The estimated numbers of rows and values, and the types that compare as canonical values do.

Estimates decide how a stage is compared, never its result; if the server has no statistics, or this
login may not read them, its rows are read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import psycopg

from datarecs_connectors.postgres_statements import origin
from datarecs_core.comparison.planning.scan import SourceColumn
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.types import CanonicalType, TypeKind

_OBJECT = """
SELECT reltuples::bigint, pg_relation_size(oid)
FROM pg_class WHERE oid = to_regclass(%s) AND relkind IN ('r', 'm', 'p') AND reltuples >= 0
"""
_VALUES = """
SELECT a.attname::text, s.n_distinct::float8
FROM pg_stats s JOIN pg_attribute a ON a.attname = s.attname AND a.attrelid = to_regclass(%s)
WHERE s.schemaname = (
    SELECT nspname FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid
    WHERE c.oid = to_regclass(%s)
  ) AND s.tablename = (SELECT relname FROM pg_class WHERE oid = to_regclass(%s))
"""
_GROUPED_OIDS = frozenset({16, 20, 21, 23, 25, 1042, 1043, 1082, 1114, 1184, 1700, 2950})
"""bool, the integers, text, char(n), varchar, date, timestamps, numeric, uuid: not `oid`, which
has no sums, `name` and `"char"`, whose text is cut, nor floats, json and times of day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Statistics of one relation; empty for queries, views and relations never analysed."""

    rows: int | None = None
    size_bytes: int | None = None
    distinct: Mapping[str, int] = field(default_factory=dict)

    def of(self, column: SourceColumn) -> SourceColumn:
        """The column with its estimated number of values."""
        return replace(column, distinct=self.distinct.get(column.name))


def statistics_of(session: psycopg.Connection[tuple[object, ...]], source: Source) -> Statistics:
    """Statistics of a relation from the catalog, read in the transaction of the pin."""
    if source.query is not None:
        return Statistics()
    name = origin(source).as_string(session)
    try:
        with session.transaction():
            row = session.execute(_OBJECT, [name]).fetchone()
            values = session.execute(_VALUES, [name, name, name]).fetchall()
    except psycopg.Error:
        return Statistics()
    if row is None:
        return Statistics()
    rows = int(str(row[0]))
    return Statistics(
        rows=rows,
        size_bytes=int(str(row[1])),
        distinct={
            str(column): _expected(float(str(estimate)), rows) for column, estimate in values
        },
    )


def _expected(estimate: float, rows: int) -> int:
    """A negative number is a share of the rows; NULL counts as one more value."""
    return 1 + round(estimate if estimate >= 0 else -estimate * rows)


def groups_exactly(
    oid: int, kind: CanonicalType, session: psycopg.Connection[tuple[object, ...]]
) -> bool:
    """Whether values of a type are grouped, compared and ordered as canonical ones are.

    True for text, by its bytes, in a UTF-8 database. False for numeric without precision: values
    of more than 38 digits are not numbers here.
    """
    if oid not in _GROUPED_OIDS or (kind.kind is TypeKind.DECIMAL and kind.scale is None):
        return False
    encoding = session.info.parameter_status("server_encoding")
    return kind.kind is not TypeKind.TEXT or encoding == "UTF8"
