"""Generated sources of the benchmarks of comparisons, and what differs between them.

Data come as people have them: a key of two columns, source 0 in eight files in key order, every
other source in one file in another order and with another compression. The plain form has one
number as key, one file a source and one order for all. Which rows differ is arithmetic on their
numbers, so the counts that every contestant must return are known before a file is written.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from shutil import rmtree

import duckdb

COMMON: Mapping[str, str] = {
    "account": "'AC' || lpad((hash(v, 1) % 100000)::VARCHAR, 8, '0')",
    "amount": "((hash(v, 2) % 100000000)::DECIMAL(14,2) / 100)::DECIMAL(14,2)",
    "fee": "((hash(v, 3) % 1000000)::DECIMAL(12,4) / 1000)::DECIMAL(12,4)",
    "quantity": "(hash(v, 4) % 1000)::BIGINT",
    "price": "(hash(v, 5) % 1000000)::DOUBLE / 7",
    "currency": "['EUR', 'USD', 'GBP', 'CHF'][1 + (hash(v, 6) % 4)::BIGINT]",
    "booked": "DATE '2026-01-01' + (hash(v, 7) % 365)::INTEGER",
    "moment": "make_timestamp((1767225600000000 + hash(v, 8) % 31536000000000)::BIGINT)",
    "note": "'note ' || (hash(v, 10) % 10000000)::VARCHAR",
}
"""Columns of both forms, each by an expression of `v`, which numbers values."""
PLAIN: Mapping[str, str] = {
    "id": "place",
    **COMMON,
    "active": "hash(v, 9) % 2 = 0",
    "branch": "CASE WHEN hash(v, 11) % 10 > 0 THEN (hash(v, 11) % 500)::BIGINT END",
}
MIXED: Mapping[str, str] = {
    **COMMON,
    "account": "'AC' || lpad((place // 100)::VARCHAR, 8, '0')",
    "line": "place % 100",
    "price": f"CASE WHEN hash(v, 9) % 10 > 0 THEN {COMMON['price']} END",
    "branch": "'BR' || lpad((hash(v, 11) % 500)::VARCHAR, 3, '0')",
    "counterparty": "'counterparty ' || (hash(v, 12) % 20000)::VARCHAR",
}
TEXT_LINE = "'L' || lpad((place % 100)::VARCHAR, 3, '0')"
"""The second column of a key of texts alone."""
RANKED_BY = ("amount", "fee", "moment")
"""Columns that never differ; they put rows with the same key into the same order everywhere."""
FILES = 8
"""Of source 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What every contestant must count alike."""

    only_first: int
    """Groups of source 0 that another source lacks."""
    only_others: int
    """The same of every other source, added up."""
    changed: int
    """Values that differ, of groups in every source."""
    strategy: str = field(default="", compare=False)
    """How datarecs compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What is generated.

    Rows of a source lie at places 0 to `keys - 1` of the key order. A multiplication modulo `keys`
    assigns each place its draw; a source's rows with the lowest draws from its offset on differ. So
    the numbers of differing rows are exact, and they are spread over the files.
    """

    rows: int
    """Of source 0."""
    sources: int = 2
    share: float = 0.0003
    """Of the rows, in every source but the first: half have another quantity, a quarter is missing
    and a quarter has another key. At 1 every row has another quantity and another currency."""
    duplicates: float = 0.0
    """Share of rows with a repeated key; the key then consists of texts."""
    is_plain: bool = False

    def __post_init__(self) -> None:
        """Refuse what would make counts depend on chance.

        Raises:
            ValueError: the differing rows of two sources, or copies and missing rows, would meet.
        """
        if self.sources < 2 or not 0 <= self.share <= 1 or not 0 <= self.duplicates < 1:
            raise ValueError("two sources or more, shares from 0 to 1")
        if self.is_plain and self.duplicates:
            raise ValueError("plain data have no duplicates")
        if not self.differs_everywhere:
            taken = (self.sources - 1) * self.differing + self.copies
            if taken > self.keys:
                raise ValueError(f"{taken:,} differing rows and copies of {self.keys:,} keys")

    @property
    def key(self) -> tuple[str, ...]:
        return ("id",) if self.is_plain else ("account", "line")

    @property
    def columns(self) -> Mapping[str, str]:
        """Each with its expression of `place` and `v`."""
        if self.is_plain:
            return PLAIN
        return {**MIXED, "line": TEXT_LINE} if self.duplicates else MIXED

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name not in self.key)

    @property
    def copies(self) -> int:
        """Rows that share a key with an earlier one; no key has more than two rows."""
        return round(self.rows * self.duplicates / 2)

    @property
    def keys(self) -> int:
        """Of source 0."""
        return self.rows - self.copies

    @property
    def differs_everywhere(self) -> bool:
        return self.share == 1

    @property
    def differing(self) -> int:
        """Rows that differ in each source but the first."""
        return round(self.keys * self.share)

    @property
    def truth(self) -> Counts:
        others = self.sources - 1
        if self.differs_everywhere:
            return Counts(only_first=0, only_others=0, changed=2 * self.keys)
        changed, missing, replaced = self.parts
        lacking = others * (missing + replaced)
        return Counts(
            only_first=lacking,
            only_others=others * (lacking - missing),
            changed=others * changed,
        )

    @property
    def parts(self) -> tuple[int, int, int]:
        """Of the differing rows of a source: changed, missing, with another key."""
        changed, missing = self.differing // 2, self.differing // 4
        return changed, missing, self.differing - changed - missing

    def select(self, source: int, start: int, end: int) -> str:
        """SQL of a source's rows at the places from start up to before end, in key order."""
        columns = ", ".join(f"{sql} AS {name}" for name, sql in self.columns.items())
        changed, missing, replaced = self._conditions(source)
        currency = "lower(currency)" if self.differs_everywhere else "currency"
        return (
            "SELECT * EXCLUDE (is_changed) REPLACE ("  # noqa: S608 - constants of this page
            f"CASE WHEN is_changed THEN quantity + {source} ELSE quantity END AS quantity,"
            f" CASE WHEN is_changed THEN {currency} ELSE currency END AS currency)"
            f" FROM (SELECT {columns}, is_changed FROM (SELECT"
            f" CASE WHEN {replaced} THEN place + {self.keys} ELSE place END AS place,"
            f" place + copy * {2 * self.rows} AS v, {changed} AS is_changed"
            f" FROM ({self._places(start, end)}) WHERE NOT ({missing})))"
        )

    def _places(self, start: int, end: int) -> str:
        """SQL of places and their draws; a place with a copy occurs twice."""
        step = next(
            number
            for number in range(round(self.keys * 0.618) + 1, 2 * self.keys + 2)
            if math.gcd(number, self.keys) == 1
        )
        draw = f"place * {step % self.keys} % {self.keys}"
        # Half of the changed rows have a copy, and no missing row has one.
        has_copy = f"(draw + {self.keys + self.copies - self.differing // 4}) % {self.keys}"
        times = f"CASE WHEN {has_copy} < {self.copies} THEN [0, 1] ELSE [0] END"
        return (
            f"SELECT place, draw, unnest({times}) AS copy FROM"  # noqa: S608 - constants of this page
            f" (SELECT place, {draw} AS draw FROM range({start}, {end}) places(place))"
        )

    def _conditions(self, source: int) -> tuple[str, str, str]:
        """Of rows that are changed, missing and have another key in this source."""
        if not source or not self.differing:
            return "FALSE", "FALSE", "FALSE"
        if self.differs_everywhere:
            return "copy = 0", "FALSE", "FALSE"
        bounds = [(source - 1) * self.differing]
        for part in self.parts:
            bounds.append(bounds[-1] + part)
        changed, missing, replaced = (
            f"copy = 0 AND draw >= {low} AND draw < {high}" for low, high in pairwise(bounds)
        )
        return changed, missing, replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Generated files, and where a contestant writes."""

    data: Data
    files: tuple[tuple[Path, ...], ...]
    """Of every source."""
    out: Path

    @property
    def all_files(self) -> tuple[Path, ...]:
        return tuple(path for paths in self.files for path in paths)

    def clear(self) -> Path:
        """The folder for what a contestant writes, empty."""
        rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        return self.out


def generate(folder: Path, data: Data) -> Case:
    """Write the files of every source to `<folder>/source-<number>/part-<number>.parquet`."""
    files = []
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"SET temp_directory = '{folder}/spill'")
        for source in range(data.sources):
            parts = FILES if source == 0 and not data.is_plain else 1
            bounds = [data.keys * part // parts for part in range(parts + 1)]
            compression = "snappy" if source == 0 or data.is_plain else "zstd"
            is_shuffled = source > 0 and not data.is_plain
            key = ", ".join(data.key)
            order = f" ORDER BY hash({key}, {source}), amount" if is_shuffled else ""
            place = folder / f"source-{source}"
            place.mkdir(parents=True)
            paths = tuple(place / f"part-{part}.parquet" for part in range(parts))
            for path, (start, end) in zip(paths, pairwise(bounds), strict=True):
                connection.execute(
                    f"COPY ({data.select(source, start, end)}{order}) TO '{path}'"
                    f" (FORMAT parquet, COMPRESSION {compression})"
                )
            files.append(paths)
    return Case(data=data, files=tuple(files), out=folder / "out")
