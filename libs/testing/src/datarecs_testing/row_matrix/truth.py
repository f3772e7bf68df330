"""The true numbers of a combination, counted in the tables that DuckDB joined."""
# ruff: noqa: S608 - statements are made of constants of this package

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from pathlib import Path

import duckdb

from datarecs_core.comparison.planning.plan import ROWS
from datarecs_testing.row_matrix.columns import Column, amount
from datarecs_testing.row_matrix.files import Data
from datarecs_testing.row_matrix.tables import Tables

MEMORY = "2GB"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueMeasure:
    """The numbers of a measure, as MeasureResult names them."""

    name: str
    within: int
    outside: int
    equal: int
    null_mismatch: int
    precision: int
    multiplicity: int
    totals: tuple[Decimal, ...] | None
    """Of exact numbers."""
    max_abs_delta: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueCounts:
    """The numbers of a stage, as StageCounts names them."""

    source_row_counts: tuple[int, ...]
    groups_by_source: tuple[int, ...]
    matched_groups: int
    unmatched_by_source: tuple[int, ...]
    missing_by_source: tuple[int, ...]
    presence: tuple[tuple[int, int], ...]
    rows_compared: int
    rows_matched: int
    rows_unmatched: int
    duplicate_keys_by_source: tuple[int, ...]
    null_keys_by_source: tuple[int, ...]
    odd_one_out: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Counts what an engine has to answer; made by `truth_of`."""

    tables: Tables

    @property
    def sources(self) -> range:
        return self.tables.sources

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.tables.columns

    def counts(self) -> TrueCounts:
        """Of the stage."""
        masks = " + ".join(f"(n{at} > 0)::INTEGER * {1 << at}" for at in self.sources)
        patterns = self.tables.pairs(
            f"SELECT {masks} AS mask, count(*) FROM key_groups GROUP BY mask"
        )
        presence = tuple(sorted(patterns, key=lambda each: (-each[1], each[0])))
        compared = sum(groups for _, groups in presence)
        everywhere = (1 << len(self.sources)) - 1
        matched = sum(groups for mask, groups in presence if mask == everywhere)
        of_source = [sum(n for mask, n in presence if mask >> at & 1) for at in self.sources]
        outside = " OR ".join(f"NOT within_{at}" for at in range(len(self.columns)))
        (differing,) = self.tables.one(f"SELECT count(DISTINCT key) FROM unequal WHERE {outside}")
        (unpaired,) = self.tables.one(
            f"SELECT count(*) FROM key_groups WHERE {self.tables.everywhere}"
            f" AND NOT ({self.tables.paired})"
        )
        return TrueCounts(
            source_row_counts=self._by_source("count(*)"),
            groups_by_source=tuple(of_source),
            matched_groups=matched,
            unmatched_by_source=tuple(each - matched for each in of_source),
            missing_by_source=tuple(compared - each for each in of_source),
            presence=presence,
            rows_compared=compared,
            rows_matched=matched - differing - unpaired,
            rows_unmatched=compared - matched + differing + unpaired,
            duplicate_keys_by_source=self.tables.one(
                f"SELECT {', '.join(f'count(*) FILTER (n{at} > 1)' for at in self.sources)}"
                " FROM key_groups"
            ),
            null_keys_by_source=self._by_source("count(*) FILTER (has_null)"),
            odd_one_out=self._odd_groups(),
        )

    def _by_source(self, sql: str) -> tuple[int, ...]:
        return tuple(self.tables.one(f"SELECT {sql} FROM rows_{at}")[0] for at in self.sources)

    def _odd_groups(self) -> tuple[int, ...]:
        """Groups with the source as odd one out in all breaks."""
        named = " UNION ALL ".join(
            [
                f"SELECT key, arg_min_null(odd_{at}, rank) FILTER (NOT within_{at}) AS odd"
                f" FROM unequal GROUP BY key HAVING bool_or(NOT within_{at})"
                for at in range(len(self.columns))
            ]
        )
        rows = self.tables.pairs(
            f"SELECT odd, count(*) FROM (SELECT min(odd) AS odd FROM ({named}) GROUP BY key"
            " HAVING min(odd) = max(odd) AND count(odd) = count(*) UNION ALL"
            f" SELECT {self._odd_of_sizes()} FROM key_groups WHERE NOT ({self.tables.paired}))"
            " WHERE odd IS NOT NULL GROUP BY odd"
        )
        by_source = dict(rows)
        return tuple(by_source.get(at, 0) for at in self.sources)

    def _odd_of_sizes(self) -> str:
        """Of unmatched groups the one source that has or lacks it, of others that of `$rows`."""
        if len(self.sources) < 3:
            return "NULL::INTEGER"
        masks = " + ".join(f"(n{at} > 0)::INTEGER * {1 << at}" for at in self.sources)
        everywhere = (1 << len(self.sources)) - 1
        cases = [
            f"WHEN ({masks}) IN ({1 << at}, {everywhere ^ (1 << at)}) THEN {at}"
            for at in self.sources
        ]
        pairs = {(a, b): f"(n{a} = n{b})" for a, b in combinations(self.sources, 2)}
        return (
            f"CASE {' '.join(cases)} ELSE CASE WHEN {self.tables.everywhere}"
            f" THEN {self.tables.odd_source(pairs)} END END"
        )

    def measures(self) -> list[TrueMeasure]:
        """In the order of the stage's, `$rows` last."""
        (matched, unpaired) = self.tables.one(
            "SELECT count(*), count(*) FILTER (NOT paired) FROM"
            f" (SELECT {self.tables.paired} AS paired FROM key_groups"
            f" WHERE {self.tables.everywhere})"
        )
        return [
            *(self._measure(at, matched, unpaired) for at in range(len(self.columns))),
            self._rows_measure(matched, unpaired),
        ]

    def _measure(self, at: int, matched: int, unpaired: int) -> TrueMeasure:
        """Of the groups that have a rank which is not equal, the others being equal."""
        unequal, outside, mixed, cut, delta = self.tables.one(
            "SELECT count(*) FILTER (NOT equal), count(*) FILTER (NOT within),"
            " count(*) FILTER (NOT within AND mixed),"
            " count(*) FILTER (NOT within AND NOT mixed AND cut), max(delta)"
            f" FROM (SELECT bool_and(equal_{at}) AS equal, bool_and(within_{at}) AS within,"
            f" coalesce(bool_or(mixed_{at}) FILTER (NOT within_{at}), FALSE) AS mixed,"
            f" coalesce(bool_and(cut_{at}) FILTER (NOT within_{at}), FALSE) AS cut,"
            f" max(delta_{at}) AS delta FROM unequal GROUP BY key)"
        )
        column = self.columns[at]
        equal = matched - unpaired - unequal
        subtracts = amount(column.meaning, "v") is not None
        nothing = Decimal(0) if equal and subtracts else None
        return TrueMeasure(
            name=column.name,
            within=matched - unpaired - outside,
            outside=outside + unpaired,
            equal=equal,
            null_mismatch=mixed,
            precision=cut,
            multiplicity=unpaired,
            totals=self._totals(f"sum(v{at})") if column.is_exact_number else None,
            max_abs_delta=nothing if delta is None else Decimal(delta),
        )

    def _rows_measure(self, matched: int, unpaired: int) -> TrueMeasure:
        gaps = [f"abs(n{at} - n0)" for at in self.sources]
        (largest,) = self.tables.one(
            f"SELECT max(greatest({', '.join(gaps)})) FROM key_groups"
            f" WHERE {self.tables.everywhere}"
        )
        return TrueMeasure(
            name=ROWS,
            within=matched - unpaired,
            outside=unpaired,
            equal=matched - unpaired,
            null_mismatch=0,
            precision=0,
            multiplicity=unpaired,
            totals=self._totals("count(*)"),
            max_abs_delta=None if largest is None else Decimal(largest),
        )

    def _totals(self, sql: str) -> tuple[Decimal, ...]:
        return tuple(
            Decimal(self.tables.one(f"SELECT coalesce({sql}, 0) FROM rows_{at}")[0])
            for at in self.sources
        )

    def differences(self) -> int:
        """How many there are, stored or not."""
        groups = len(self.columns) + 1
        (of_groups,) = self.tables.one(
            f"SELECT coalesce(sum(CASE WHEN NOT ({self.tables.everywhere}) THEN 1"
            f" WHEN NOT ({self.tables.paired}) THEN {groups} ELSE 0 END), 0)::BIGINT"
            " FROM key_groups"
        )
        of_measures = [
            self.tables.one(f"SELECT count(DISTINCT key) FROM unequal WHERE NOT equal_{at}")[0]
            for at in range(len(self.columns))
        ]
        return sum((of_groups, *of_measures))


@contextmanager
def truth_of(data: Data, scratch: Path) -> Iterator[Truth]:
    """The truth about the files, while the block lasts."""
    with duckdb.connect(scratch / "truth.duckdb") as connection:
        connection.execute(f"SET TimeZone = 'UTC'; SET memory_limit = '{MEMORY}'")
        connection.execute("SET preserve_insertion_order = false")
        yield Truth(tables=Tables(connection, data))
