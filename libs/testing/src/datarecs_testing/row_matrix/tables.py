"""The rows of a combination as DuckDB joins them: by key, and of repeated keys by rank.

Rows are read in canonical form. Of keys with several rows, equal tuples cancel and the rest is
joined by rank (spec comparison 7). Nothing of an engine takes part but the files.
"""
# ruff: noqa: S608 - statements are made of constants of this package

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import duckdb

from datarecs_core.comparison.planning.plan import PRESENCE, ROWS
from datarecs_testing.row_matrix.columns import Column, agrees, amount, canonical, written
from datarecs_testing.row_matrix.combinations import Duplicates
from datarecs_testing.row_matrix.files import Data


class Tables:
    """Rows, groups and unequal ranks of one combination, in a database that is empty before."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, data: Data) -> None:
        self.connection, self.data = connection, data
        self.sources = range(data.combination.sources)
        self.columns = data.values
        self._read_rows()
        self._join_groups()
        self._rank_rows()
        self._judge_ranks()

    def _read_rows(self) -> None:
        """`rows_<source>`: key as one text, whether a part of it is NULL, `v0` and so on."""
        rule = self.data.combination.rule
        keys = [written(each.meaning, canonical(each, each.name, rule)) for each in self.data.keys]
        columns = [
            f"{key_text(keys)} AS key",
            f"{' OR '.join(f'{each.name} IS NULL' for each in self.data.keys)} AS has_null",
            *(
                f"{canonical(each, each.name, rule)} AS v{at}"
                for at, each in enumerate(self.columns)
            ),
        ]
        for source, name in enumerate(self.data.sources):
            files = self.data.root / name / "*.parquet"
            self._create(f"rows_{source}", f"SELECT {', '.join(columns)} FROM '{files}'")

    def _join_groups(self) -> None:
        """`key_groups`: every key and how many rows each source has of it."""
        counted = [
            f"(SELECT key, count(*) AS n{at} FROM rows_{at} GROUP BY key)" for at in self.sources
        ]
        joined = " FULL JOIN ".join(
            each if not at else f"{each} USING (key)" for at, each in enumerate(counted)
        )
        sizes = [f"coalesce(n{at}, 0) AS n{at}" for at in self.sources]
        self._create("key_groups", f"SELECT key, {', '.join(sizes)} FROM {joined}")

    @property
    def everywhere(self) -> str:
        """SQL: every source has the group."""
        return " AND ".join(f"n{at} > 0" for at in self.sources)

    @property
    def paired(self) -> str:
        """SQL: every source has the group, with equally many rows."""
        return f"{self.everywhere} AND " + " AND ".join(f"n{at} = n0" for at in self.sources)

    def _rank_rows(self) -> None:
        """`ranked_<source>`: the rows that do not cancel, by key and rank."""
        if self.data.combination.duplicates is Duplicates.NONE:
            for at in self.sources:
                self._create_view(f"ranked_{at}", f"SELECT *, 1 AS rank FROM rows_{at}")
            return
        values = ", ".join(f"v{at}" for at in range(len(self.columns)))
        by_name = sorted(range(len(self.columns)), key=lambda at: self.columns[at].name)
        order = ", ".join(f"v{at} NULLS FIRST" for at in by_name)
        self._create("repeated", f"SELECT key FROM key_groups WHERE {self.paired} AND n0 > 1")
        of_sources = " UNION ALL ".join(
            f"SELECT {at} AS source, key, {values}, count(*) AS copies"
            f" FROM rows_{at} SEMI JOIN repeated USING (key) GROUP BY ALL"
            for at in self.sources
        )
        self._create(
            "cancelled",
            f"SELECT key, {values}, min(copies) AS copies FROM ({of_sources})"
            f" GROUP BY key, {values} HAVING count(*) = {len(self.sources)}",
        )
        same = " AND ".join(
            f"r.v{at} IS NOT DISTINCT FROM c.v{at}" for at in range(len(self.columns))
        )
        for at in self.sources:
            self._create(
                f"ranked_{at}",
                f"SELECT *, 1 AS rank FROM rows_{at} ANTI JOIN repeated USING (key) UNION ALL"
                f" SELECT r.* EXCLUDE (copy), row_number() OVER (PARTITION BY r.key ORDER BY"
                f" {', '.join(f'r.{each}' for each in order.split(', '))}) FROM (SELECT *,"
                f" row_number() OVER (PARTITION BY key, {values}) AS copy"
                f" FROM rows_{at} SEMI JOIN repeated USING (key)) r"
                f" LEFT JOIN cancelled c ON r.key = c.key AND {same}"
                " WHERE r.copy > coalesce(c.copies, 0)",
            )

    def _judge_ranks(self) -> None:
        """`unequal`: ranks of paired groups that are not equal in every measure.

        Per measure whether they are equal, within, mixed with NULL and equal once cut, the odd
        source, and the largest delta.
        """
        joined = "ranked_0 r0" + "".join(
            f" JOIN ranked_{at} r{at} ON r{at}.key = r0.key AND r{at}.rank = r0.rank"
            for at in self.sources[1:]
        )
        columns = ["r0.key AS key", "r0.rank AS rank"]
        for at, column in enumerate(self.columns):
            values = [f"r{source}.v{at}" for source in self.sources]
            judged = self._judgement(column, values)
            columns += [f"{sql} AS {name}_{at}" for name, sql in judged.items()]
            columns += [f"{each} AS v{at}_{source}" for source, each in enumerate(values)]
        equal = " AND ".join(f"equal_{at}" for at in range(len(self.columns)))
        self._create(
            "unequal",
            f"SELECT * FROM (SELECT {', '.join(columns)} FROM {joined} JOIN key_groups g"
            f" ON g.key = r0.key WHERE {self.paired}) WHERE NOT ({equal})",
        )

    def _judgement(self, column: Column, values: Sequence[str]) -> dict[str, str]:
        rule, first = self.data.combination.rule, values[0]
        pairs = {
            (one, other): agrees(column.meaning, rule, (values[one], values[other]), first)
            for one, other in combinations(self.sources, 2)
        }
        nulls = [f"({each} IS NULL)" for each in values]
        cut = "FALSE"
        if column.places is not None:
            parts = [f"floor({each} * {10**column.places})" for each in values]
            cut = " AND ".join(f"coalesce({each} = {parts[0]}, FALSE)" for each in parts)
        others = self.sources[1:]
        return {
            "equal": " AND ".join(f"{values[at]} IS NOT DISTINCT FROM {first}" for at in others),
            "within": " AND ".join(pairs[0, at] for at in others),
            "mixed": " OR ".join(f"{nulls[at]} <> {nulls[0]}" for at in others),
            "cut": cut,
            "odd": self.odd_source(pairs),
            "delta": self._largest_delta(column, values),
        }

    def odd_source(self, pairs: Mapping[tuple[int, int], str]) -> str:
        """The one source outside to every other while the others agree."""
        if len(self.sources) < 3:
            return "NULL::INTEGER"
        cases = []
        for at in self.sources:
            terms = [f"NOT {sql}" if at in pair else sql for pair, sql in pairs.items()]
            cases.append(f"WHEN {' AND '.join(terms)} THEN {at}")
        return f"CASE {' '.join(cases)} END"

    def _largest_delta(self, column: Column, values: Sequence[str]) -> str:
        amounts = [amount(column.meaning, each) for each in values]
        if amounts[0] is None:
            return "NULL::BIGINT"
        return f"greatest({', '.join(f'abs({each} - {amounts[0]})' for each in amounts[1:])})"

    def create_differences(self, keys: str) -> None:
        """Table `true_differences` of some keys: measure, class, outcome, texts by source.

        Args:
            keys: a table with these keys.
        """
        sizes = [f"CASE WHEN n{at} > 0 THEN n{at}::VARCHAR END" for at in self.sources]
        sizes_list = f"[{', '.join(sizes)}]"
        groups = f"key_groups SEMI JOIN {keys} USING (key)"
        unpaired = f"{self.everywhere} AND NOT ({self.paired})"
        empty = f"[{', '.join('NULL::VARCHAR' for _ in self.sources)}]"
        parts = [
            (
                f"SELECT key, '{PRESENCE}' AS measure, 'MISSING' AS class, 'BREAK' AS outcome,"
                f" {sizes_list} AS texts FROM {groups} WHERE NOT ({self.everywhere})"
            ),
            (
                f"SELECT key, '{ROWS}', 'MULTIPLICITY', 'BREAK', {sizes_list}"
                f" FROM {groups} WHERE {unpaired}"
            ),
        ]
        for at, column in enumerate(self.columns):
            parts.append(
                f"SELECT key, '{column.name}', 'MULTIPLICITY', 'BREAK', {empty}"
                f" FROM {groups} WHERE {unpaired}"
            )
            parts.append(self._measure_differences(at, keys))
        self._create("true_differences", " UNION ALL ".join(parts))

    def _measure_differences(self, at: int, keys: str) -> str:
        """Each shows its first rank that is outside, else the first that is not equal."""
        texts = [written(self.columns[at].meaning, f"v{at}_{source}") for source in self.sources]
        shown = f"[{', '.join(texts)}]"
        return (
            f"SELECT key, '{self.columns[at].name}', CASE WHEN bool_and(within_{at}) THEN 'WITHIN'"
            f" WHEN bool_or(mixed_{at}) FILTER (NOT within_{at}) THEN 'NULL_MISMATCH'"
            f" WHEN bool_and(cut_{at}) FILTER (NOT within_{at}) THEN 'PRECISION'"
            " ELSE 'OUTSIDE' END,"
            f" CASE WHEN bool_and(within_{at}) THEN 'WITHIN' ELSE 'BREAK' END,"
            f" arg_min({shown}, (within_{at}, rank)) FROM unequal SEMI JOIN {keys} USING (key)"
            f" WHERE NOT equal_{at} GROUP BY key"
        )

    def one(self, sql: str) -> tuple[Any, ...]:
        """The only row of a query."""
        (row,) = self.connection.execute(sql).fetchall()
        return tuple(row)

    def pairs(self, sql: str) -> list[tuple[int, int]]:
        """Rows of two numbers."""
        return self.connection.execute(sql).fetchall()

    def _create(self, name: str, select: str) -> None:
        self.connection.execute(f"CREATE TABLE {name} AS {select}")

    def _create_view(self, name: str, select: str) -> None:
        self.connection.execute(f"CREATE VIEW {name} AS {select}")


def key_text(parts: Sequence[str]) -> str:
    """SQL of one text for the canonical texts of a key, another one for each key."""
    return " || ".join(f"coalesce(strlen({each}) || ':' || {each}, '-')" for each in parts)
