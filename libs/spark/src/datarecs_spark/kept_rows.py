"""The exact part of a narrowed stage on one machine: kept rows in the kernel's task, or in a few.

DuckDB groups and opens them in the columns of `opening`, then the tasks' own sink judges and stores
them. Every task reads all kept rows and takes the keys that are its own, so that nothing has to be
shuffled. Only forms without companions come here; everything else, and every failure, is Spark's.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa

from datarecs_core.values import EXACT
from datarecs_kernel.counted import Counted, read_counted
from datarecs_kernel.forms import Form, FormKind
from datarecs_kernel.layout import Field, Layout, compared_fields
from datarecs_kernel.open_groups import FIRST, OPEN, WEIGHT
from datarecs_kernel.sink import SinkTask
from datarecs_kernel.storing import SinkPlan, Stores
from datarecs_kernel.tallies import SourceTally
from datarecs_spark.kernel_sql import connected
from datarecs_spark.kernel_work import KernelTask, kept_file, quoted, sql_text
from datarecs_spark.ordered_rows import opened_in_order
from datarecs_spark.prepare import SOURCE

MOST_KEPT = 100_000
"""Rows of all sources up to which one task is quicker than several."""
MOST_APART = 20_000_000
"""Up to which several tasks are asked: every one reads all of them."""


_BATCH_VALUES = 1_200_000
"""That are judged at a time: of many rows, or of few with many columns."""
_BATCH_BYTES = 2**26
"""Of their texts, about."""


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
    """Judge what the kernel kept; None where DuckDB or Arrow cannot hold it.

    Args:
        task: done; its kept rows lie in its directory.
        plan: of the stage, whose layout `is_plain`.
        attempt: names the files that are written, and what spills.
        share: of the keys.
    """
    try:
        with connected(task, f"spill-{attempt}") as connection:
            return _Kept(task, plan, connection, share).judged(attempt)
    except (duckdb.Error, pa.ArrowException):
        return None


class _Kept:
    """Kept rows of all sources as the tables `tuples` and `groups`.

    A tuple is a row that occurs so often in each source, a group is what has the same key.
    """

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
        self.sizes, self.copies = self._each("n"), self._each("c")
        rows = " UNION ALL ".join(self._source(task, index) for index in self.layout.sources)
        if share.of > 1:
            rows = f"FROM ({rows}) WHERE {in_share(self.keys, share)}"
        connection.execute(f"CREATE TEMP TABLE rows AS {rows}")

    def _each(self, prefix: str) -> list[str]:
        return [f"{prefix}{index}" for index in self.layout.sources]

    def _source(self, task: KernelTask, index: int) -> str:
        columns = ", ".join(f"{_column(each, index)} AS {each.name}" for each in self.fields)
        path = sql_text(str(Path(task.directory) / kept_file(index)))
        return f"SELECT {index} AS {SOURCE}, {columns} FROM read_parquet({path})"  # noqa: S608 - made of quoted names and literals

    def _tuples(self) -> str:
        """`grouping.tuples` in this engine's words."""
        names = ", ".join(self.names)
        copies = ", ".join(
            f"count(*) FILTER (WHERE {SOURCE} = {index}) AS {copies}"
            for index, copies in enumerate(self.copies)
        )
        return f"SELECT {names}, {copies} FROM rows GROUP BY {names}"  # noqa: S608 - made of this module's names

    def _groups(self) -> str:
        """Rows per source, whether not all tuples are alike in all sources, and the first tuple."""
        keys = "".join(f"{key}, " for key in self.keys)
        sizes = ", ".join(
            f"CAST(sum({copies}) AS BIGINT) AS {size}"
            for copies, size in zip(self.copies, self.sizes, strict=True)
        )
        unequal = " OR ".join(f"{copies} <> {self.copies[0]}" for copies in self.copies[1:])
        by = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return (
            f"SELECT {keys}{sizes}, bool_or({unequal}) AS {OPEN}, min(rowid) AS start"  # noqa: S608 - made of this module's names
            f" FROM tuples{by}"
        )

    def judged(self, attempt: str) -> Judged:
        columns = [OPEN, *self.sizes, FIRST, *self.names, *self.copies, WEIGHT]
        stores = Stores(self.plan, attempt)
        sink = SinkTask(stores, columns)
        most = min(_BATCH_VALUES // len(columns), int(_BATCH_BYTES / self._row_bytes()))
        for batch in self._opened(columns, max(1, most)):
            sink.take(batch)
        sink.close()
        return Judged(counted=stores.finish(), tallies=tuple(self._tallies()))

    def _opened(self, columns: Sequence[str], most: int) -> Iterator[pa.RecordBatch]:
        """Rows of so many at a time."""
        if self._repeats():
            self.connection.execute(f"CREATE TEMP TABLE tuples AS {self._tuples()}")
            self.connection.execute(f"CREATE TEMP TABLE groups AS {self._groups()}")
            yield from self.connection.sql(self._opened_tuples(columns)).to_arrow_reader(most)
            return
        ordered = self.connection.sql(f"FROM rows ORDER BY {', '.join((*self.keys, SOURCE))}")
        values = self.names[len(self.keys) :]
        yield from opened_in_order(
            ordered.to_arrow_reader(most), self.keys, values, self.layout.sources
        )

    def _repeats(self) -> bool:
        """Some source has a key several times."""
        by = ", ".join((*self.keys, SOURCE))
        told = f"SELECT 1 FROM rows GROUP BY {by} HAVING count(*) > 1 LIMIT 1"  # noqa: S608 - made of this module's names
        return bool(self.connection.execute(told).fetchall())

    def _row_bytes(self) -> float:
        """Of the texts of a row on average, at least 1."""
        sizes = {FormKind.TEXT: "strlen", FormKind.BINARY: "octet_length"}
        wide = [
            f"{sizes[each.form.kind]}({each.name})"
            for each in self.fields
            if each.form.kind in sizes
        ]
        added = " + ".join(["count(*) * 0", *(f"coalesce(avg({size}), 0)" for size in wide)])
        ((found,),) = self.connection.execute(f"SELECT {added} FROM rows").fetchall()  # noqa: S608 - made of this module's names
        return max(1.0, float(found))

    def _opened_tuples(self, columns: Sequence[str]) -> str:
        """`opening.opened_tuples` in this engine's words, in these columns."""
        alike = [f"tuples.{key} IS NOT DISTINCT FROM groups.{key}" for key in self.keys]
        sizes = ", ".join(self.sizes)
        order = ", ".join((OPEN, *self.keys, f"{FIRST} DESC"))
        return (
            f"SELECT {', '.join(columns)} FROM (SELECT tuples.*, {OPEN}, {sizes},"  # noqa: S608 - made of this module's names
            f" tuples.rowid = start AS {FIRST}, 1::BIGINT AS {WEIGHT}"
            f" FROM tuples JOIN groups ON {' AND '.join(alike) or 'TRUE'} WHERE {OPEN}"
            f" UNION ALL BY NAME SELECT {OPEN}, {sizes}, count(*) AS {WEIGHT}"
            f" FROM groups WHERE NOT {OPEN} GROUP BY ALL) ORDER BY {order}"
        )

    def _tallies(self) -> list[SourceTally]:
        """As `tally.passed_rows` counts them; extracts hold no more than what passed."""
        added = {
            each.index: each.field.name
            for each in self.layout.compared
            if each.plan.has_total and each.field is not None
        }
        null = " OR ".join(f"{key} IS NULL" for key in self.keys) or "FALSE"
        return [self._tally(index, null, added) for index in self.layout.sources]

    def _tally(self, index: int, null: str, added: Mapping[int, str]) -> SourceTally:
        told = [
            "count(*)",
            f"count(*) FILTER (WHERE {null})",
            *map("sum({})".format, added.values()),
        ]
        ((rows, nulls, *totals),) = self.connection.execute(
            f"SELECT {', '.join(told)} FROM rows WHERE {SOURCE} = {index}"  # noqa: S608 - made of this module's names
        ).fetchall()
        exact = [*zip(added, (each or 0 for each in totals), strict=True)]
        return _tally(rows, nulls, exact)


def _column(field: Field, index: int) -> str:
    """A kept column in its field's form."""
    plan = field.inputs[index]
    if plan is None:
        raise TypeError(f"{field.label} is absent, which the kernel refuses")
    return in_form(field.form, quoted(plan.column))


def in_share(keys: Sequence[str], share: KeyShare) -> str:
    """Of values in their form: whatever a source's own type, equal keys are in one share."""
    return f"hash({', '.join(keys)}) % {share.of} = {share.at}"


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
