"""Rows by the groups of another pass: those in scope, and those that were read again.

The keys of differing groups lie in files since a pass wrote them; rows are kept or left out by a
join with them alone, so that any number of groups may differ. Apart from the engine because only
stages with `scope` or `confirm` come here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from datarecs_core.comparison.values.canonical import canonical_text
from datarecs_kernel.decoding import cell
from datarecs_kernel.forms import INTEGER
from datarecs_kernel.layout import Field
from datarecs_spark.canonical import name
from datarecs_spark.fingerprints import bucket
from datarecs_spark.prepare import united
from datarecs_spark.read import INVALID, Delivered

LOOK = "look"
"""Column: of which read a row is, 0 for the first."""
_LEVEL = "level"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKeys:
    """Columns that say in which group of another pass a row is."""

    fields: tuple[Field, ...]
    buckets: bool
    key: bytes
    """The tenant's, for buckets."""

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Name and SQL type, as `of` leaves them; files have them as `k0`, `k1` and so on."""
        if self.buckets:
            return [(f"{self.fields[0].name[0]}0", INTEGER.sql_type)]
        return [column for field in self.fields for column in field.columns]

    def of(self, rows: DataFrame) -> DataFrame:
        """Rows prepared with the fields, and now with the columns of the group."""
        if not self.buckets:
            return rows
        own = {label for field in self.fields for label, _ in field.columns}
        others = [label for label in rows.columns if label not in own]
        (column, _), *_ = self.columns
        return rows.selectExpr(*others, f"{bucket(self.fields, self.key)} AS {column}")

    def stored(self, session: SparkSession, directory: Path) -> DataFrame | None:
        """The keys of the groups that a pass left there, as `dk0` and so on; None without any."""
        parts = sorted(directory.glob("part-*.parquet"))
        if not parts:
            return None
        schema = ", ".join(f"k{label[1:]} {kind}" for label, kind in self.columns)
        found = session.read.schema(schema).parquet(*map(str, parts))
        return found.toDF(*(f"d{label}" for label, _ in self.columns))

    def joined(self, rows: DataFrame, keys: DataFrame, how: str) -> DataFrame:
        """Rows met with keys, NULL parts among them; the rows' own key columns are gone."""
        same = " AND ".join(f"{label} <=> d{label}" for label, _ in self.columns)
        met = rows.join(keys, F.expr(same or "TRUE"), how=how)
        own = {one for label, _ in self.columns for one in (label, f"d{label}")}
        return met.select(*(label for label in met.columns if label not in own))


def in_scope(session: SparkSession, rows: DataFrame, keys: GroupKeys, directory: Path) -> DataFrame:
    """The rows of the groups that differed in the pass which wrote the directory."""
    rows = keys.of(rows)
    found = keys.stored(session, directory)
    if found is None:
        own = {label for label, _ in keys.columns}
        nothing = rows.filter("FALSE")
        return nothing.select(*(label for label in rows.columns if label not in own))
    return keys.joined(rows, found, "left_semi")


def of_last_looks(
    session: SparkSession, rows: DataFrame, keys: GroupKeys, directories: Sequence[Path]
) -> DataFrame:
    """Of every group the rows of its last look.

    A group that differed before so many looks has the rows of the last of these; the keys of every
    pass are among those of the pass before.

    Args:
        session: of the run.
        rows: of all reads, with `LOOK` and the fields of the keys.
        keys: of the stage's own groups.
        directories: keys of the groups that differed before each look.
    """
    parts = [found for each in directories if (found := keys.stored(session, each)) is not None]
    rows = keys.of(rows)
    if not parts:
        own = {label for label, _ in keys.columns}
        kept = rows.filter(f"{LOOK} = 0")
        return kept.select(*(label for label in rows.columns if label not in {*own, LOOK}))
    labels = parts[0].columns
    levels = united(parts)
    levels = levels.groupBy(*labels).agg(F.expr(f"CAST(count(*) AS INT) AS {_LEVEL}"))
    met = keys.joined(rows, levels, "left")
    return met.filter(f"{LOOK} = coalesce({_LEVEL}, 0)").drop(LOOK, _LEVEL)


def listed_keys(
    directory: Path, fields: Sequence[Field], most: int
) -> list[tuple[str | None, ...]] | None:
    """The keys that a pass left there, as canonical text, at most so many.

    None for more of them, and where one has no canonical form.
    """
    parts = sorted(directory.glob("part-*.parquet"))
    if sum(pq.ParquetFile(part).metadata.num_rows for part in parts) > most:
        return None
    found = []
    for row in (row for part in parts for row in pq.read_table(part).to_pylist()):
        values = [cell(each.form, row[each.name], row.get(each.payload)) for each in fields]
        if any(value.is_invalid for value in values):
            return None
        found.append(tuple(map(canonical_text, values)))
    return found


def alike(reads: Sequence[Delivered]) -> tuple[Delivered, ...]:
    """Reads of one source with the same companions, none of which promises its rows any more."""
    if len(reads) == 1:
        return tuple(reads)
    checked = frozenset(column for read in reads for column in read.checked)
    wide = frozenset(column for read in reads for column in read.wide)
    return tuple(
        replace(
            read,
            rows=read.rows.selectExpr(
                "*",
                *(
                    f"CAST(NULL AS BINARY) AS {name(INVALID + column)}"
                    for column in sorted(checked - read.checked)
                ),
            ),
            checked=checked,
            wide=wide,
            pinned_rows=None,
        )
        for read in reads
    )
