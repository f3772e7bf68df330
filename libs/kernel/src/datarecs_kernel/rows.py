"""Row stages: full joins of keys that occur once in every source, counted tuples of all others.

Every group of a unique key is one row of the join, with the columns of each source; rows with equal
compared values are only counted. Rows of a repeated key are counted per (key, tuple) and source, so
duplicates never make a product. Rows that differ are streamed to the judge; memory does not grow
with their number.
"""

from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from datarecs_core.jobs.vocabulary import DuplicatePolicy, NanRule, NullKeys
from datarecs_kernel.counted import Counted
from datarecs_kernel.database import Connection, read_batches
from datarecs_kernel.first_reading import Saving, narrowed
from datarecs_kernel.group_table import is_nan, null_key, unequal
from datarecs_kernel.layout import Layout, compared_fields, compared_measures
from datarecs_kernel.open_groups import FIRST, OPEN, WEIGHT, Shape
from datarecs_kernel.repeated_keys import RepeatedKeys, key_hash, register_hashes, repeated_keys
from datarecs_kernel.settling import SinkPlan
from datarecs_kernel.sink import SinkTask
from datarecs_kernel.storing import Stores

_REPEATED = "repeated_keys"


class CountsDisagreeError(RuntimeError):
    """Sources disagree on how many groups are equal in all of them: a defect of the kernel."""


def compare_rows(
    connection: Connection,
    plan: SinkPlan,
    relations: Sequence[str],
    attempt: str,
    saving: Saving | None,
) -> Counted:
    """Compare a stage that pairs rows.

    Args:
        connection: with the relations.
        plan: of the stage.
        relations: one per source, in the columns of the layout.
        attempt: names the files that are written.
        saving: of a first reading; without it every row is compared exactly.

    Raises:
        duckdb.Error: a relation cannot be read, or memory or disk is full.
    """
    stores, rows = Stores(plan, attempt, connection), _Rows(connection, plan, relations)
    if saving is None:
        rows.judge(stores)
        return stores.leave()
    with narrowed(connection, plan.layout, rows.relations, saving) as left:
        if left is not None:
            if left.equal_groups:
                stores.add_equal([1] * len(relations), left.equal_groups)
            rows = _Rows(connection, plan, left.relations)
        rows.judge(stores)
    return stores.leave()


class _Rows:
    def __init__(self, connection: Connection, plan: SinkPlan, relations: Sequence[str]) -> None:
        self.connection, self.plan, self.layout = connection, plan, plan.layout
        self.keys = list(self.layout.key_names)
        self.relations = [self._without_excluded(each) for each in relations]

    def _without_excluded(self, relation: str) -> str:
        if self.layout.stage.null_keys is not NullKeys.EXCLUDE or not self.keys:
            return relation
        return f"(FROM {relation} WHERE NOT {null_key(self.layout.keys)})"

    def judge(self, stores: Stores) -> None:
        rows = [self._count(each) for each in self.relations]
        if not self.keys:
            self._judge_tuples(stores, self.relations)
            return
        repeated = repeated_keys(self.connection, self.relations, self.keys, sum(rows))
        single, repeating = self.relations, []
        if len(repeated.hashes):
            register_hashes(self.connection, _REPEATED, repeated.hashes)
            single = [self._joined(each, "ANTI") for each in self.relations]
            repeating = [self._joined(each, "SEMI") for each in self.relations]
        self._judge_single(stores, single, repeated)
        if repeating:
            self._judge_tuples(stores, repeating)

    def _count(self, relation: str) -> int:
        ((rows,),) = self.connection.execute(f"SELECT count(*) FROM {relation}").fetchall()
        return int(rows)

    def _joined(self, relation: str, kind: str) -> str:
        hashed = key_hash([f"r.{key}" for key in self.keys])
        return f"(SELECT r.* FROM {relation} r {kind} JOIN {_REPEATED} t ON {hashed} = t.h)"

    def _judge_single(self, stores: Stores, relations: Sequence[str], keys: RepeatedKeys) -> None:
        """Groups of one row per source: groups that differ one by one, all others as a number."""
        wide = WideGroups(self.layout, relations)
        sink = SinkTask(stores, wide.columns, Shape.WIDE)
        opened = [0 for _ in relations]
        for batch in read_batches(self.connection, wide.query):
            for at in self.layout.sources:
                opened[at] += pc.sum(batch.column(f"n{at}")).as_py() or 0
            sink.take_open(batch)
        sink.close()
        equal = {rows - of_open for rows, of_open in zip(keys.single_rows, opened, strict=True)}
        if len(equal) != 1:
            raise CountsDisagreeError(f"sources have {sorted(equal)} rows in equal groups")
        (groups,) = equal
        if groups:
            stores.add_equal([1] * len(relations), groups)

    def _judge_tuples(self, stores: Stores, relations: Sequence[str]) -> None:
        """Groups of any number of rows."""
        tuples = Tuples(self.layout, relations)
        for statement in tuples.statements:
            self.connection.execute(statement)
        sink = SinkTask(stores, tuples.columns, Shape.TUPLES)
        for batch in read_batches(self.connection, tuples.query):
            sink.take(batch)
        sink.close()


class WideGroups:
    """Groups of unique keys that differ, a column per measure and source."""

    def __init__(self, layout: Layout, relations: Sequence[str]) -> None:
        self.layout = layout
        self.keys = list(layout.key_names)
        self._relations = relations
        self._measures = compared_measures(layout)

    @property
    def columns(self) -> list[str]:
        """Of the query."""
        sizes = [f"n{at}" for at in self.layout.sources]
        values = [name for at in self.layout.sources for _, name in self._values(at)]
        return [*self.keys, *sizes, *values, *(f"d{each.index}" for each, _ in self._measures)]

    @property
    def query(self) -> str:
        """Condition: the group is missing in a source, or a measure differs."""
        sizes = [f"coalesce(n{at}, 0) AS n{at}" for at in self.layout.sources]
        names = [name for at in self.layout.sources for _, name in self._values(at)]
        differ = {
            f"d{measure.index}": f"({' OR '.join(unequal(self.layout, measure))})"
            for measure, _ in self._measures
        }
        differing = [f"{sql} AS {name}" for name, sql in differ.items()]
        columns = ", ".join([*self.keys, *sizes, *names, *differing])
        lacking = [f"n{at} = 0" for at in self.layout.sources]
        is_open = " OR ".join([*lacking, *differ])
        if len(self.layout.compared) < len(self.layout.measures):
            is_open = "TRUE"  # a measure of every group is not comparable
        inner = f"SELECT {columns} FROM ({self._joined()})"
        return f"SELECT {', '.join(self.columns)} FROM ({inner}) WHERE {is_open}"

    def _values(self, at: int) -> Iterator[tuple[str, str]]:
        """Column of a source's relation, and its name in the joined row."""
        for measure, field in self._measures:
            yield field.name, f"v{measure.index}_{at}"
            if field.may_be_invalid:
                yield field.payload, f"x{measure.index}_{at}"
            if field.changes:
                yield field.raw, f"r{measure.index}_{at}"

    def _source(self, at: int) -> str:
        values = [f"{column} AS {name}" for column, name in self._values(at)]
        columns = ", ".join([*self.keys, f"1::BIGINT AS n{at}", *values])
        return f"SELECT {columns} FROM {self._relations[at]}"

    def _joined(self) -> str:
        """Keys of all sources, joined one source at a time."""
        first, *others = self.layout.sources
        joined, names = self._source(first), self._names(first)
        on = " AND ".join(f"l.{key} IS NOT DISTINCT FROM r.{key}" for key in self.keys)
        keys = [f"coalesce(l.{key}, r.{key}) AS {key}" for key in self.keys]
        for at in others:
            columns = ", ".join([*keys, *names, *self._names(at)])
            other = self._source(at)
            joined = f"SELECT {columns} FROM ({joined}) l FULL JOIN ({other}) r ON {on}"
            names += self._names(at)
        return joined

    def _names(self, at: int) -> list[str]:
        return [f"n{at}", *(name for _, name in self._values(at))]


class Tuples:
    """Groups of several rows: their tuples with copies per source, equal groups as numbers."""

    columns: Sequence[str]

    def __init__(self, layout: Layout, relations: Sequence[str]) -> None:
        self.layout, self._relations = layout, relations
        self.keys = list(layout.key_names)
        fields = compared_fields(layout)
        self._names = [*self.keys, *(label for each in fields for label, _ in each.columns)]
        self._before = [
            label for each in fields if each.changes for label in (each.raw, each.raw_order)
        ]
        self._copies = [f"c{at}" for at in layout.sources]
        self._sizes = [f"n{at}" for at in layout.sources]
        self.columns = [OPEN, *self._sizes, FIRST, *self._names, *self._copies, WEIGHT]

    @property
    def statements(self) -> list[str]:
        """Statements that create the tables of the query."""
        return [
            f"CREATE OR REPLACE TEMP TABLE tuples AS {self._tuples()}",
            f"CREATE OR REPLACE TEMP TABLE groups AS {self._groups()}",
        ]

    @property
    def query(self) -> str:
        """Tuples of open groups, group by group, and a row per number of rows of equal groups."""
        sizes = ", ".join(self._sizes)
        order = ", ".join((OPEN, *self.keys, f"{FIRST} DESC"))
        return (
            f"SELECT {', '.join(self.columns)} FROM (SELECT tuples.*, {OPEN}, {sizes},"
            f" tuples.rowid = start AS {FIRST}, 1::BIGINT AS {WEIGHT}"
            f" FROM tuples JOIN groups ON {self._alike('tuples', 'groups')} WHERE {OPEN}"
            f" UNION ALL BY NAME SELECT {OPEN}, {sizes}, count(*) AS {WEIGHT}"
            f" FROM groups WHERE NOT {OPEN} GROUP BY ALL) ORDER BY {order}"
        )

    def _tuples(self) -> str:
        names = ", ".join(self._names)
        rows = " UNION ALL ".join(
            f"SELECT {at} AS s{', ' if names else ''}{names} FROM {relation}"
            for at, relation in enumerate(self._relations)
        )
        copies = [f"count(*) FILTER (WHERE s = {at}) AS c{at}" for at in self.layout.sources]
        by = f" GROUP BY {names}" if names else ""
        return f"SELECT {', '.join([*self._names, *copies])} FROM ({rows}){by}"

    def _groups(self) -> str:
        """Rows per source, the first tuple, and whether copies of a tuple differ by source."""
        sizes = [f"CAST(sum(c{at}) AS BIGINT) AS n{at}" for at in self.layout.sources]
        if not self._before:
            return self._grouped(
                "tuples", [*sizes, f"{self._is_open()} AS {OPEN}", "min(rowid) AS start"]
            )
        # Values that are equal only before, or only after, their rules are several tuples.
        first = self._grouped("tuples", [*sizes, "min(rowid) AS start"])
        values = ", ".join(name for name in self._names if name not in self._before)
        summed = ", ".join(f"sum(c{at}) AS c{at}" for at in self.layout.sources)
        alike = f"(SELECT {values}, {summed} FROM tuples GROUP BY {values})"
        opened = self._grouped(alike, [f"{self._is_open()} AS {OPEN}"])
        return f"SELECT f.*, o.{OPEN} FROM ({first}) f JOIN ({opened}) o ON {self._alike('f', 'o')}"

    def _grouped(self, rows: str, columns: Sequence[str]) -> str:
        by = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return f"SELECT {', '.join([*self.keys, *columns])} FROM {rows}{by}"

    def _is_open(self) -> str:
        stage = self.layout.stage
        if len(self.layout.compared) < len(self.layout.measures):
            return "bool_or(TRUE)"
        unequal = [f"bool_or(c{at} <> c0)" for at in self.layout.sources[1:]]
        unequal += [
            f"bool_or({is_nan(field.form, field.name)})"
            for measure, field in compared_measures(self.layout)
            if measure.plan.rules.nan is NanRule.UNEQUAL
        ]
        if stage.duplicates is DuplicatePolicy.ERROR:
            # Keys that occur several times are listed, so none of them is only counted.
            unequal += [f"sum(c{at}) > 1" for at in self.layout.sources]
        return f"({' OR '.join(unequal)})"

    def _alike(self, one: str, other: str) -> str:
        pairs = [f"{one}.{key} IS NOT DISTINCT FROM {other}.{key}" for key in self.keys]
        return " AND ".join(pairs) or "TRUE"
