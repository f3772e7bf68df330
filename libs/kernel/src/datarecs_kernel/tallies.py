"""Counts of the rows of each source, separate from the counts of groups.

Rows that passed, NULL keys, INVALID values and the totals of a row stage: a second, independent
count of the same rows, so that closure fails if one of the counts is wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

from datarecs_core.comparison.values.unreadable import MeasureFaults, may_be_infinite
from datarecs_kernel.database import Connection
from datarecs_kernel.decoding import invalid_of
from datarecs_kernel.exact_sums import Part, parts_of, read_sum
from datarecs_kernel.forms import FormKind
from datarecs_kernel.group_table import grouped_rows, null_key
from datarecs_kernel.layout import Field, Layout, MeasureLayout
from datarecs_kernel.partials import WEIGHT, delivers_groups

_SPECIAL_BITS = 7
"""Bits of an amount's state: NaN and infinities."""
_SPECIAL_TEXTS = "'NaN', 'Inf', '-Inf'"


@dataclass(slots=True)
class SourceTally:
    """One source of one stage."""

    extracted: int = 0
    passed: int = 0
    null_keys: int = 0
    invalid: int = 0
    ambiguous: int = 0
    totals: dict[int, Decimal] = field(default_factory=dict)
    """Totals by measure, of row stages."""
    faults: dict[int, MeasureFaults] = field(default_factory=dict)
    """By measure."""


def tally(connection: Connection, layout: Layout, index: int, relation: str) -> SourceTally:
    """Count the rows of one source in one scan of the columns that this needs.

    Args:
        connection: a database without concurrent queries.
        layout: of the stage.
        index: of the source.
        relation: its rows, in the columns of the layout's rows.

    Returns:
        A tally with the rows that passed as `extracted`; the caller adds the rows it excluded.
    """
    counting = _Tally(layout, index)
    columns = ", ".join(f"{sql} AS {name}" for name, sql in counting.columns.items())
    query = f"SELECT {columns} FROM {relation}"
    (row,) = connection.execute(query).fetchall()
    return counting.read(dict(zip(counting.columns, row, strict=True)))


class _Tally:
    """The counts of one source."""

    def __init__(self, layout: Layout, index: int) -> None:
        self.layout, self.index = layout, index
        rows, self.delivers_groups = layout.of_rows, delivers_groups(layout.stage, index)
        self.grouped = grouped_rows(rows)
        self.parts = dict(self._totals())
        # If a source returns groups, measures are not columns of rows.
        fields = rows.keys if self.delivers_groups else rows.fields
        null = f"FILTER (WHERE {null_key(rows.keys)})"
        invalid = [
            self._count(f"{each.payload} IS NOT NULL") for each in fields if each.may_be_invalid
        ]
        self.columns = {
            "rows": self._weighed(""),
            "nulls": self._weighed(null),
            "invalid": " + ".join(invalid) or "0",
            "ambiguous": "coalesce(sum(dst), 0)",
        }
        for measure in self._direct_measures():
            self.columns |= self._faults(measure)
        for at, parts in self.parts.items():
            for number, part in enumerate(parts):
                self.columns[f"t{at}_{number}"] = self._filtered(f"sum({part.sql})")

    def _weighed(self, condition: str) -> str:
        """The number of rows of the source."""
        if not self.delivers_groups:
            return f"count(*) {condition}"
        return f"CAST(coalesce(sum({WEIGHT}) {condition}, 0) AS BIGINT)"

    def _filtered(self, aggregation: str) -> str:
        return f"{aggregation} FILTER (WHERE {self.grouped})"

    def _count(self, condition: str) -> str:
        return f"count(*) FILTER (WHERE {self.grouped} AND {condition})"

    def _direct_measures(self) -> tuple[MeasureLayout, ...]:
        """Compared measures of the stage; none for a digest stage: its rows have other columns."""
        return () if self.layout.hashed or self.delivers_groups else self.layout.compared

    def _totals(self) -> Iterator[tuple[int, tuple[Part, ...]]]:
        for measure in self._direct_measures() if self.layout.pairs_rows else ():
            if measure.plan.has_total and measure.field is not None:
                yield measure.index, parts_of(measure.field.form, measure.field.name)

    def _faults(self, measure: MeasureLayout) -> dict[str, str]:
        columns: dict[str, str] = {}
        measure_field, at = measure.field, measure.index
        if measure_field is None:
            return columns
        if measure_field.may_be_invalid:
            columns[f"u{at}"] = self._count(f"{measure_field.payload} IS NOT NULL")
            columns[f"p{at}"] = self._filtered(f"min({measure_field.payload})")
        if may_be_infinite(measure.plan, self.index):
            columns[f"f{at}"] = self._count(_is_infinite(measure_field))
        return columns

    def read(self, row: dict[str, Any]) -> SourceTally:
        """The tally from a row of these columns."""
        totals = {
            at: read_sum(parts, [row[f"t{at}_{number}"] for number in range(len(parts))])
            for at, parts in self.parts.items()
        }
        return SourceTally(
            extracted=row["rows"],
            passed=row["rows"],
            null_keys=row["nulls"],
            invalid=row["invalid"],
            ambiguous=int(row["ambiguous"]),
            totals=totals,
            faults=dict(self._read_faults(row)),
        )

    def _read_faults(self, row: dict[str, Any]) -> Iterator[tuple[int, MeasureFaults]]:
        """Totals of the measures that have any."""
        for measure in self._direct_measures():
            at, smallest = measure.index, row.get(f"p{measure.index}")
            faults = MeasureFaults(
                unreadable=row.get(f"u{at}", 0),
                not_finite=row.get(f"f{at}", 0),
                smallest=None if smallest is None else _raw(smallest),
            )
            if faults.hides_total:
                yield at, faults


def _is_infinite(field: Field) -> str:
    """Whether a number is NaN or infinite."""
    if field.stateful:
        return f"{field.state} & {_SPECIAL_BITS} > 0"
    match field.form.kind:
        case FormKind.DOUBLE:
            return f"NOT isfinite({field.name})"
        case FormKind.NUMBER:
            return f"{field.name} IN ({_SPECIAL_TEXTS})"
        case _:
            return "FALSE"


def _raw(payload: bytes) -> bytes:
    """The raw bytes of an INVALID value, after the source's name."""
    return cast("tuple[str, bytes]", invalid_of(payload).content)[1]
