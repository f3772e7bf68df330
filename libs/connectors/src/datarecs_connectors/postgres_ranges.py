"""Divide a relation of PostgreSQL into ranges, one per reader, or state why it is not divided.

The first and last range have no outer limit, so together the ranges contain every row, also with
outdated statistics: by row position (`ctid`) per block, or by values of a column with NULL in the
first range. Separate from the connector because plans show the decision that readers use.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import LiteralString

import psycopg
from psycopg import sql

from datarecs_connectors.postgres_sessions import Session
from datarecs_connectors.postgres_statements import origin
from datarecs_core.comparison.planning.scan import Ranges
from datarecs_core.jobs.definition import Source

AUTO, NONE = "auto", "none"
LEAST_BYTES = 16 * 2**20
"""Minimum size of an undeclared range: below it a session costs more than it saves."""
_MOST_RANGES = 8
_TID_RANGES_SINCE = 140_000
_SAMPLED_BYTES = 8 * 2**20
_PARTITIONED = "p"
_NOT_CUT: Mapping[str, str] = {
    "v": "a view may return different rows to each session",
    "f": "its rows are on another server, outside the snapshot",
}
_RELATION = """
SELECT c.relkind::text, coalesce(m.amname::text, ''), c.relhassubclass, pg_relation_size(c.oid),
  current_setting('block_size')::int,
  coalesce((SELECT sum(pg_relation_size(t.relid)) FROM pg_partition_tree(c.oid) t
    WHERE t.relid <> c.oid), 0)::bigint,
  EXISTS (SELECT FROM pg_partition_tree(c.oid) t JOIN pg_class p ON p.oid = t.relid
    WHERE p.relkind = 'f')
FROM pg_class c LEFT JOIN pg_am m ON m.oid = c.relam WHERE c.oid = to_regclass(%s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """The catalog entry of a relation at a pin."""

    kind: str
    """`relkind`."""
    access: str = "heap"
    """Its storage method; empty if it stores no rows."""
    has_heirs: bool = False
    """Other tables inherit from it, or are its partitions."""
    size_bytes: int = 0
    block_bytes: int = 8192
    partition_bytes: int = 0
    holds_foreign: bool = False
    """One of its partitions is a foreign table."""

    @property
    def blocks(self) -> int:
        return self.size_bytes // self.block_bytes

    @property
    def all_bytes(self) -> int:
        """Bytes, with those of its partitions."""
        return self.size_bytes + self.partition_bytes


def relation_of(session: Session, source: Source) -> Relation | None:
    """None for a query, and for a relation that this login cannot look up."""
    if source.relation is None:
        return None
    try:
        with session.transaction():
            row = session.execute(_RELATION, [origin(source).as_string(session)]).fetchone()
    except psycopg.Error:
        return None
    if row is None:
        return None
    kind, access, heirs, size, block, partitions, foreign = row
    return Relation(
        kind=str(kind),
        access=str(access),
        has_heirs=bool(heirs),
        size_bytes=int(str(size or 0)),
        block_bytes=int(str(block)),
        partition_bytes=int(str(partitions)),
        holds_foreign=bool(foreign),
    )


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def ranges_of(source: Source, relation: Relation | None, *, version: int, cores: int) -> Ranges:
    """How a source is read.

    Args:
        source: its partition and connection limits decide.
        relation: as it is at the pin.
        version: of the server, as `server_version_num`.
        cores: of this machine; more readers than these need a declared count.
    """
    why = _why_one(source, relation, version)
    if why is not None or relation is None:
        return Ranges(reason=why or "")
    partition, limits = source.partition, source.limits
    # One session holds the snapshot; at least one more reads, for every limit.
    most = max(limits.max_connections - 1, 1)
    bounds = [
        (most, f"limits.max_connections {limits.max_connections}, one of which holds the pin")
    ]
    wanted = partition.count or min(_MOST_RANGES, 2 * limits.max_connections)
    if partition.count is None:
        bounds.append((cores, f"{cores} usable core" + ("s" if cores > 1 else "")))
        wanted = min(wanted, relation.all_bytes // LEAST_BYTES)
    if partition.by == AUTO:
        wanted = min(wanted, relation.blocks)
    if wanted <= 1:
        small = (
            f"it has less than {2 * LEAST_BYTES // 2**20} MiB; partition.count divides it anyway"
        )
        return Ranges(reason="its rows are in one block" if partition.count else small)
    at_once, reason = min(bounds, key=lambda bound: bound[0])
    if at_once == 1 and partition.count is None:
        return Ranges(reason=reason)
    return Ranges(
        count=wanted,
        at_once=min(at_once, wanted),
        by=None if partition.by == AUTO else partition.by,
        reason=reason if at_once < wanted else "",
    )


def conditions_of(session: Session, source: Source, ranges: Ranges) -> Sequence[sql.Composable]:
    """One condition per range, each row of the relation in exactly one; none for one range."""
    if ranges.by is None:
        relation = relation_of(session, source)
        blocks = 0 if relation is None else relation.blocks
        cuts = sorted({blocks * at // ranges.count for at in range(1, ranges.count)} - {0})
        return _by_place(cuts)
    row = session.execute(_cutting(source, ranges, relation_of(session, source))).fetchone()
    texts = row[0] if row is not None else None
    return _by_column(ranges.by, texts if isinstance(texts, list) else [])


def standing(source: Source) -> sql.Composed:
    """Whether the rows of a relation are still in the file of its snapshot; no row for a new one.

    The name in FROM takes the lock that prevents a rewrite until the transaction ends.
    """
    return sql.SQL(
        "SELECT c.relfilenode = 0 OR c.relfilenode = pg_relation_filenode(c.oid) FROM pg_class c"
        " LEFT JOIN (SELECT 1 FROM {} LIMIT 0) q ON true WHERE c.oid = to_regclass({})"
    ).format(origin(source), sql.Literal(origin(source).as_string(None)))


def _why_one(source: Source, relation: Relation | None, version: int) -> str | None:
    """Why a source is not divided; None if it can be divided."""
    partition = source.partition
    if partition.by == NONE or partition.count == 1:
        return "the job declares one"
    if source.query is not None:
        return "a query may return different rows to each session"
    if relation is None:
        return "this login cannot read its catalog entry"
    if relation.kind in _NOT_CUT:
        return _NOT_CUT[relation.kind]
    return _why_no_places(relation, version) if partition.by == AUTO else _why_no_values(relation)


def _why_no_values(relation: Relation) -> str | None:
    heirs = relation.has_heirs and relation.kind != _PARTITIONED
    if heirs or relation.holds_foreign:
        return "tables inherit from it, and not all of them may be under the snapshot"
    return None


def _why_no_places(relation: Relation, version: int) -> str | None:
    if relation.kind == _PARTITIONED:
        return "it is partitioned; partition.by may name a column"
    if relation.has_heirs:
        return "tables inherit from it"
    if relation.access != "heap":
        return f"its rows are stored as {relation.access}, not as a heap"
    if version < _TID_RANGES_SINCE:
        return f"PostgreSQL {version // 10_000} cannot read a range of blocks; 14 can"
    return None


def _by_place(cuts: Sequence[int]) -> list[sql.Composable]:
    places = [sql.SQL("{}::tid").format(sql.Literal(f"({block},0)")) for block in cuts]
    return _between(sql.SQL("ctid"), places, first="{column} < {cut}")


def _by_column(column: str, cuts: Sequence[object]) -> list[sql.Composable]:
    """Conditions by text values that take the column's type and compare in the column's order."""
    values = [sql.Literal(str(each)) for each in dict.fromkeys(cuts)]
    name = sql.Identifier(column)
    return _between(name, values, first="({column} < {cut} OR {column} IS NULL)")


def _between(
    column: sql.Composable, cuts: Sequence[sql.Composable], *, first: LiteralString
) -> list[sql.Composable]:
    if not cuts:
        return []
    middle = "({column} >= {cut} AND {column} < {end})"
    return [
        sql.SQL(first).format(column=column, cut=cuts[0]),
        *(sql.SQL(middle).format(column=column, cut=cut, end=end) for cut, end in pairwise(cuts)),
        sql.SQL("{column} >= {cut}").format(column=column, cut=cuts[-1]),
    ]


def _cutting(source: Source, ranges: Ranges, relation: Relation | None) -> sql.Composed:
    """Values that divide a sample of the relation into equal parts, in the column's order."""
    size = 0 if relation is None else relation.all_bytes
    percent = min(100.0, max(100 * _SAMPLED_BYTES / max(size, 1), 0.01))
    fractions = [at / ranges.count for at in range(1, ranges.count)]
    return sql.SQL(
        "SELECT (percentile_disc({}::float8[]) WITHIN GROUP (ORDER BY {}))::text[]"
        " FROM {} TABLESAMPLE SYSTEM ({})"
    ).format(
        sql.Literal(fractions),
        sql.Identifier(ranges.by or ""),
        origin(source),
        sql.Literal(percent),
    )
