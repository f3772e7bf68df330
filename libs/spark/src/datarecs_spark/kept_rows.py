"""The exact part of a narrowed stage on one machine: kept rows in the kernel's task, or in a few.

DuckDB groups and opens them in the columns of `opening`, then the tasks' own sink judges and stores
them. Every task reads all kept rows and takes the keys that are its own, so that nothing has to be
shuffled. Only forms without companions come here; everything else, and every failure, is Spark's.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import duckdb

from datarecs_core.values import EXACT
from datarecs_spark.counted import Counted, read_counted
from datarecs_spark.forms import Form, FormKind
from datarecs_spark.grouping import compared_fields
from datarecs_spark.kernel import KernelTask, connected, kept_file, quoted, sql_text
from datarecs_spark.layout import Field, Layout
from datarecs_spark.opening import FIRST, OPEN, WEIGHT
from datarecs_spark.prepare import SOURCE
from datarecs_spark.sink import SinkTask
from datarecs_spark.storing import SinkPlan
from datarecs_spark.tally import SourceTally

MOST_KEPT = 50_000
"""Rows of all sources up to which one task is quicker than several."""
MOST_APART = 20_000_000
"""Up to which several tasks are asked: every one reads all of them."""


@dataclass(frozen=True, slots=True)
class KeyShare:
    """One of so many parts of all keys."""

    at: int = 0
    of: int = 1


WHOLE = KeyShare()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the sink counted of the kept rows, and their tallies per source."""

    counted: Counted
    tallies: tuple[SourceTally, ...]

    def add(self, other: "Judged") -> None:
        """Add what another share of the keys gave."""
        self.counted.add(other.counted)
        for own, told in zip(self.tallies, other.tallies, strict=True):
            own.extracted += told.extracted
            own.passed += told.passed
            own.null_keys += told.null_keys
            for measure, total in told.totals.items():
                own.totals[measure] = EXACT.add(own.totals.get(measure, Decimal(0)), total)

    def written(self) -> str:
        tallies = [
            [each.passed, each.null_keys, [[at, str(total)] for at, total in each.totals.items()]]
            for each in self.tallies
        ]
        return json.dumps([self.counted.written(), tallies])


def read_judged(written: str) -> Judged:
    """What `written` wrote."""
    counted, tallies = json.loads(written)
    return Judged(
        counted=read_counted(counted, len(tallies)),
        tallies=tuple(_tally(*each) for each in tallies),
    )


def _tally(rows: int, nulls: int, totals: Sequence[tuple[int, str | int]]) -> SourceTally:
    exact = {at: Decimal(total) for at, total in totals}
    return SourceTally(extracted=rows, passed=rows, null_keys=nulls, totals=exact)


def is_plain(layout: Layout) -> bool:
    """Whether every column is its value alone: nothing INVALID, rewritten or made in Python."""
    return all(len(each.columns) == 1 and not any(each.python) for each in layout.fields)


def judged(
    task: KernelTask, plan: SinkPlan, attempt: str, share: KeyShare = WHOLE
) -> Judged | None:
    """Judge what the kernel kept; None where DuckDB cannot hold it.

    Args:
        task: done; its kept rows lie in its directory.
        plan: of the stage, whose layout `is_plain`.
        attempt: names the files that are written, and what spills.
        share: of the keys.
    """
    try:
        with connected(task, f"spill-{attempt}") as connection:
            return _Kept(task, plan, connection, share).judged(attempt)
    except duckdb.Error:
        return None


class _Kept:
    """Kept rows of all sources as one table, `kept`."""

    def __init__(
        self,
        task: KernelTask,
        plan: SinkPlan,
        connection: duckdb.DuckDBPyConnection,
        share: KeyShare,
    ) -> None:
        self.plan, self.layout, self.connection = plan, plan.layout, connection
        self.fields = (*self.layout.keys, *compared_fields(self.layout))
        self.keys = [each.name for each in self.layout.keys]
        self.names = [each.name for each in self.fields]
        parts = [self._source(task, index) for index in self.layout.sources]
        rows = " UNION ALL ".join(parts)
        if share.of > 1:
            # Of values in their form: whatever a source's own type, equal keys are in one share.
            rows = f"FROM ({rows}) WHERE hash({', '.join(self.keys)}) % {share.of} = {share.at}"
        connection.execute(f"CREATE TEMP TABLE kept AS {rows}")

    def _source(self, task: KernelTask, index: int) -> str:
        columns = ", ".join(f"{_column(each, index)} AS {each.name}" for each in self.fields)
        path = sql_text(str(Path(task.directory) / kept_file(index)))
        return f"SELECT {index} AS {SOURCE}, {columns} FROM read_parquet({path})"  # noqa: S608 - made of quoted names and literals

    def judged(self, attempt: str) -> Judged:
        sink = SinkTask(self.plan, self._columns(), attempt)
        for batch in self.connection.sql(self._opened()).to_arrow_reader(10_000):
            sink.take(batch)
        return Judged(counted=sink.finish(), tallies=tuple(self._tallies()))

    def _columns(self) -> list[str]:
        sizes, copies = self._each("n"), self._each("c")
        return [OPEN, *sizes, FIRST, *self.names, *copies, WEIGHT]

    def _each(self, prefix: str) -> list[str]:
        return [f"{prefix}{index}" for index in self.layout.sources]

    def _opened(self) -> str:
        """`grouping.tuples` and `opening.opened_tuples` in this engine's words."""
        copies = ", ".join(
            f"count(*) FILTER (WHERE {SOURCE} = {index}) AS c{index}"
            for index in self.layout.sources
        )
        names = ", ".join(self.names)
        unequal = " OR ".join(f"c{index} <> c0" for index in self.layout.sources[1:])
        key = f"PARTITION BY {', '.join(self.keys)}" if self.keys else ""
        sizes = ", ".join(
            f"CAST(sum(c{index}) OVER ({key}) AS BIGINT) AS n{index}"
            for index in self.layout.sources
        )
        apart = (FIRST, *self.names, *self._each("c"))
        told = ", ".join(f"CASE WHEN {OPEN} THEN {each} END AS {each}" for each in apart)
        order = ", ".join((OPEN, *self.keys, f"{FIRST} DESC"))
        return (
            f"WITH tuples AS (SELECT {names}, {copies} FROM kept GROUP BY {names}),"  # noqa: S608 - made of this module's names
            f" marked AS (SELECT *, bool_or({unequal}) OVER ({key}) AS {OPEN},"
            f" row_number() OVER ({key} ORDER BY c0) = 1 AS {FIRST}, {sizes} FROM tuples),"
            f" apart AS (SELECT {OPEN}, {', '.join(self._each('n'))}, {told}"
            f" FROM marked WHERE {OPEN} OR {FIRST})"
            f" SELECT *, count(*) AS {WEIGHT} FROM apart GROUP BY ALL ORDER BY {order}"
        )

    def _tallies(self) -> list[SourceTally]:
        """As `tally.passed_rows` counts them; extracts hold no more than what passed."""
        added = {
            each.index: each.field.name
            for each in self.layout.compared
            if each.plan.has_total and each.field is not None
        }
        null = " OR ".join(f"{key} IS NULL" for key in self.keys) or "FALSE"
        counts = [SOURCE, "count(*)", f"count(*) FILTER (WHERE {null})"]
        told = ", ".join([*counts, *(f"sum({column})" for column in added.values())])
        found = self.connection.execute(f"SELECT {told} FROM kept GROUP BY {SOURCE}").fetchall()  # noqa: S608 - made of this module's names
        tallies = {
            source: _tally(rows, nulls, [*zip(added, (each or 0 for each in totals), strict=True)])
            for source, rows, nulls, *totals in found
        }
        return [tallies.get(index, SourceTally()) for index in self.layout.sources]


def _column(field: Field, index: int) -> str:
    """A kept column in its field's form."""
    plan = field.inputs[index]
    if plan is None:
        raise TypeError(f"{field.label} is absent, which the kernel refuses")
    return in_form(field.form, quoted(plan.column))


def in_form(form: Form, column: str) -> str:
    """A column of files in a form, as `prepare` has it for Spark."""
    match form.kind:
        case FormKind.INTEGER | FormKind.DECIMAL:
            return f"CAST({column} AS {form.sql_type})"
        case FormKind.DOUBLE:
            return f"(CAST({column} AS DOUBLE) + 0)"
        case FormKind.DATE:
            return f"CAST({column} - DATE '1970-01-01' AS BIGINT)"
        case FormKind.INSTANT | FormKind.LOCAL:
            return f"epoch_us({column})"
        case FormKind.UUID:
            return f"unhex(replace({column}, '-', ''))"
        case _:
            return column
