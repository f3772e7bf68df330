"""Groups instead of rows: DuckDB adds up each source by its raw dimensions, in one task.

The scan kernel for aggregate stages. Only exact numbers are added, by no rule: what rules make of
dimensions and results is Spark's to say of the groups, or this task's where there are none
(`kept_groups`). Each source's groups lie in a table of the connection; numbers come back.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from datarecs_core.comparison.planning.scan import GROUP_ROWS
from datarecs_kernel.storing import SinkPlan
from datarecs_spark.kept_groups import judged_groups
from datarecs_spark.kept_rows import Judged, read_judged
from datarecs_spark.kernel_sql import UNREADABLE, Connection, connected, read_of, reason_of
from datarecs_spark.kernel_work import KERNEL_VERSION, KernelSource, KernelTask, quoted, sql_text
from datarecs_spark.row_counts import RowCount

_ROWS = quoted(GROUP_ROWS)
_SIZE = quoted("$size")
"""Bytes of the largest value that a function took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A sum of one source, and what its groups may add up to without regard to signs."""

    name: str
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTask:
    """The whole work item, as it travels in a closure."""

    kernel: KernelTask
    """Whose sources have the dimensions as keys, functions' columns as values; no hash is made."""
    numbers: tuple[tuple[tuple[str, str], ...], ...]
    """Per source the name and SQL of what is computed for each group."""
    totals: tuple[tuple[Total, ...], ...]
    """Per source, of its numbers."""
    most_judged: int
    """Leave groups to Spark when more of them than this differ."""
    most_groups: float | None = None
    """Give up when there are more groups than this share of all rows; None never gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAnswer:
    """Numbers per source; its groups lie in a file each, unless the task has judged them."""

    given_up: str | None = None
    """Why the stage must be read whole; every other field is then empty."""
    read: tuple[int, ...] = ()
    """Rows in the files."""
    filtered: tuple[int, ...] = ()
    """Of those, behind the source's own filter."""
    rows: tuple[int, ...] = ()
    """In groups."""
    null_keys: tuple[int, ...] = ()
    """Of those, with a NULL in any dimension."""
    groups: tuple[int, ...] = ()
    judged: str | None = None
    """As `Judged` writes it."""

    def written(self) -> str:
        return json.dumps(asdict(self))

    @property
    def of_groups(self) -> Judged | None:
        return None if self.judged is None else read_judged(self.judged)


_LISTED = ("read", "filtered", "rows", "null_keys", "groups")


def read_groups(written: str) -> GroupAnswer:
    """What `written` wrote."""
    found = json.loads(written)
    return GroupAnswer(**{**found, **{label: tuple(found[label]) for label in _LISTED}})


def table_of(index: int) -> str:
    """Name of the table with the groups of a source."""
    return f"groups{index}"


def groups_file(index: int) -> str:
    """Name of the file with the groups of a source, in the task's directory."""
    return f"groups-{index}.parquet"


def grouped(task: GroupTask, sink: SinkPlan | None, attempt: str) -> GroupAnswer:
    """Run the task; what goes wrong in it is an answer, for Spark then reads everything itself.

    Args:
        task: over sources that may be scanned.
        sink: judges the groups where they can be judged here; None leaves them to Spark.
        attempt: names the files that are written.

    Raises:
        OSError: the disk is full, which it would be for Spark as well.
    """
    if task.kernel.version != KERNEL_VERSION:
        return GroupAnswer(given_up=f"the kernel has version {KERNEL_VERSION}")
    try:
        with connected(task.kernel) as connection:
            return _Grouping(task, connection).answer(sink, attempt)
    except UNREADABLE as failure:
        return GroupAnswer(given_up=reason_of(failure))


def faults(task: GroupTask, index: int, groups: int, counts: Sequence[Any]) -> Iterator[str]:
    """Why rows must be read after all.

    Args:
        task: over all sources.
        index: of the source that was added up last.
        groups: of all sources so far.
        counts: bytes of the source's largest value, then the magnitudes of its totals.
    """
    size, *sums = counts
    most, rows = task.most_groups, sum(source.rows for source in task.kernel.sources)
    if most is not None and groups > most * rows:
        yield f"{groups / rows:.0%} of the rows would be groups"
    if size > task.kernel.sources[index].max_value_bytes:
        # Spark, which reads all rows instead, then says which row's column it was.
        yield "a value is above its limit"
    for total, found in zip(task.totals[index], sums, strict=True):
        if found > total.most:
            yield "totals need nearly all the digits that there are"


def added_up(task: GroupTask, connection: Connection, path: Path) -> "PartNumbers":
    """Write the groups of the only source of a task; numbers of its rows."""
    return _Grouping(task, connection).added_up(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartNumbers:
    """What one task of many tells of its part of a source; as `GroupAnswer` names them."""

    read: int
    filtered: int
    rows: int
    null_keys: int
    groups: int
    largest: int
    """Bytes of the largest value that a function took."""
    magnitudes: tuple[float, ...]
    """Of totals, without regard to signs."""


class _Grouping:
    """One task over one connection."""

    def __init__(self, task: GroupTask, connection: Connection) -> None:
        self.task, self.connection = task, connection
        self.sources = task.kernel.sources
        self.count = RowCount(task.kernel.directory, "kernel", readings=1)

    def answer(self, sink: SinkPlan | None, attempt: str) -> GroupAnswer:
        groups: list[int] = []
        numbers: list[tuple[int, int]] = []
        for index in range(len(self.sources)):
            self.connection.execute(self._groups(index))
            many, rows, nulls, *more = self._row(self._counts(index))
            groups.append(many)
            numbers.append((rows, nulls))
            reason = next(faults(self.task, index, sum(groups), more), None)
            if reason is not None:
                return GroupAnswer(given_up=reason)
            self.count.add(self.sources[index].rows)
        read = [
            self._read(source, rows)
            for source, (rows, _) in zip(self.sources, numbers, strict=True)
        ]
        found = None
        if sink is not None:
            most = self.task.most_judged
            found = judged_groups(sink, self.connection, numbers, attempt=attempt, most=most)
        if found is None:
            for index in range(len(self.sources)):
                self._write(index, Path(self.task.kernel.directory) / groups_file(index))
        return GroupAnswer(
            read=tuple(rows for rows, _ in read),
            filtered=tuple(rows for _, rows in read),
            rows=tuple(rows for rows, _ in numbers),
            null_keys=tuple(nulls for _, nulls in numbers),
            groups=tuple(groups),
            judged=None if found is None else found.written(),
        )

    def _groups(self, index: int) -> str:
        source = self.sources[index]
        keys = {quoted(each.name): quoted(each.physical) for each in source.keys}
        sizes = [each.size for each in source.values if each.size is not None]
        told = [f"{sql} AS {label}" for label, sql in keys.items()]
        told += [f"count(*) AS {_ROWS}"]
        told += [f"{sql} AS {quoted(label)}" for label, sql in self.task.numbers[index]]
        told += [f"greatest({', '.join(['0', *(f'max({size})' for size in sizes)])}) AS {_SIZE}"]
        # By position: a logical name may be another column's in the files.
        places = ", ".join(str(at + 1) for at in range(len(keys)))
        by = f"GROUP BY {places}" if keys else "HAVING count(*) > 0"
        return (
            f"CREATE OR REPLACE TEMP TABLE {table_of(index)} AS SELECT {', '.join(told)}"  # noqa: S608 - made of quoted names and SQL of this package
            f" FROM {source.relation} {by}"
        )

    def _counts(self, index: int) -> str:
        """Groups, rows, rows with a NULL in their key, largest value, totals without signs."""
        nulls = " OR ".join(f"{quoted(each.name)} IS NULL" for each in self.sources[index].keys)
        told = [
            "count(*)",
            f"coalesce(sum({_ROWS}), 0)",
            f"coalesce(sum({_ROWS}) FILTER (WHERE {nulls or 'FALSE'}), 0)",
            f"coalesce(max({_SIZE}), 0)",
            *(
                f"coalesce(sum(CAST(abs({quoted(each.name)}) AS DOUBLE)), 0)"
                for each in self.task.totals[index]
            ),
        ]
        return f"SELECT {', '.join(told)} FROM {table_of(index)}"  # noqa: S608 - made of quoted names

    def _read(self, source: KernelSource, rows: int) -> tuple[int, int]:
        """Rows in the files, and behind the source's filter; without conditions those there are."""
        if source.filter is None and source.where is None:
            return rows, rows
        return read_of(source, self.connection)

    def added_up(self, path: Path) -> PartNumbers:
        """Of the only source; its groups are written."""
        self.connection.execute(self._groups(0))
        groups, rows, nulls, *more = self._row(self._counts(0))
        self._write(0, path)
        read, filtered = read_of(self.sources[0], self.connection)
        return PartNumbers(
            read=read,
            filtered=filtered,
            rows=rows,
            null_keys=nulls,
            groups=groups,
            largest=more[0],
            magnitudes=tuple(more[1:]),
        )

    def _write(self, index: int, path: Path) -> None:
        target = sql_text(str(path))
        self.connection.execute(
            f"COPY (SELECT * EXCLUDE ({_SIZE}) FROM {table_of(index)}) TO {target}"  # noqa: S608 - made of quoted names
            " (FORMAT parquet, COMPRESSION zstd)"
        )

    def _row(self, sql: str) -> tuple[Any, ...]:
        (row,) = self.connection.execute(sql).fetchall()
        return tuple(row)
