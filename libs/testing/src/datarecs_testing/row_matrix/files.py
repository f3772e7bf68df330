"""The files of a combination, and the job that compares them."""
# ruff: noqa: S608 - statements are made of constants of this package

from dataclasses import dataclass
from pathlib import Path

import duckdb

from datarecs_core.jobs.definition import (
    Breaks,
    Measure,
    Normalize,
    ReconciliationJob,
    Results,
    Source,
    StringRules,
)
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import Case, SourceKind, Trim
from datarecs_testing.comparisons import rows_by
from datarecs_testing.row_matrix.columns import KEYS, VALUES, Column, Meaning, tolerances
from datarecs_testing.row_matrix.combinations import (
    Combination,
    Duplicates,
    Files,
    Order,
    Rule,
    Share,
    Storage,
)

STAGE = "rows"
HEAVY_KEY = 7
UUID_TYPE = CanonicalType(kind=TypeKind.UUID)
_ROW_GROUP_ROWS = {
    Storage.SNAPPY: 122_880,
    Storage.ZSTD: 10_240,
    Storage.GZIP: 1_000_000,
    Storage.PLAIN: 40_960,
}
_FILES = {Files.ONE: 1, Files.EIGHT: 8, Files.MANY: 64, Files.EMPTY: 8}
_EVERY = {Share.FEW: 3333, Share.SOME: 20}


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """The files of one combination, a folder per source."""

    combination: Combination
    root: Path

    @property
    def sources(self) -> tuple[str, ...]:
        """Names, in declaration order."""
        return tuple(f"s{at}" for at in range(self.combination.sources))

    @property
    def keys(self) -> tuple[Column, ...]:
        return tuple(KEYS[self.combination.key])

    @property
    def values(self) -> tuple[Column, ...]:
        return tuple(VALUES[self.combination.values])

    def job(self) -> ReconciliationJob:
        """All values by the key."""
        combination = self.combination
        measures = [
            Measure(name=each.name, tolerances=tolerances(each.meaning, combination.rule))
            for each in self.values
        ]
        folded = StringRules(trim=Trim.BOTH, case=Case.FOLD)
        cast = {each.name: UUID_TYPE for each in self.keys if each.meaning is Meaning.UUID}
        return ReconciliationJob(
            name="matrix",
            sources=tuple(
                Source(name=name, kind=SourceKind.PARQUET, path=f"{name}/*.parquet", cast=cast)
                for name in self.sources
            ),
            stages=(rows_by(" ".join(each.name for each in self.keys), *measures, name=STAGE),),
            normalize=Normalize(strings=folded) if combination.rule is Rule.FOLD else Normalize(),
            results=Results(breaks=Breaks(max_rows=combination.limit)),
        )


def write_data(combination: Combination, root: Path, *, rows: int) -> Data:
    """Write the files of every source.

    Args:
        combination: which data.
        root: an empty folder.
        rows: keys of the first source; with duplicates it has more rows.
    """
    data = Data(combination=combination, root=root)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for source in range(combination.sources):
            connection.execute(
                f"CREATE OR REPLACE TABLE source_rows AS {_select_rows(data, source, rows)}"
            )
            _write_source(connection, data, source)
    return data


def _write_source(connection: duckdb.DuckDBPyConnection, data: Data, source: int) -> None:
    folder = data.root / data.sources[source]
    folder.mkdir()
    files = _FILES[data.combination.files] if source == 0 else 1
    (total,) = connection.execute("SELECT count(*) FROM source_rows").fetchall()[0]
    storages = list(Storage)
    storage = storages[(storages.index(data.combination.storage) + source) % len(storages)]
    cuts = [total * at // files for at in range(files + 1)]
    if files > 1 and data.combination.files is Files.EMPTY:
        cuts[1] = 0
    for at in range(files):
        connection.execute(
            f"COPY (SELECT * FROM source_rows WHERE rowid >= {cuts[at]} AND rowid < {cuts[at + 1]})"
            f" TO '{folder}/part-{at:02}.parquet' (FORMAT parquet, COMPRESSION {storage.value},"
            f" ROW_GROUP_SIZE {_ROW_GROUP_ROWS[storage]})"
        )


def _select_rows(data: Data, source: int, rows: int) -> str:
    """Every row of one source in its order, key columns first."""
    combination = data.combination
    rule = combination.rule
    columns = [f"{each.stored(source, rule, 'k')} AS {each.name}" for each in data.keys]
    for at, each in enumerate(data.values):
        sql = each.stored(source, rule, "draw")
        columns.append(f"{_with_draw(sql, at)} AS {each.name}")
    order = {
        Order.SAME: "number, n",
        Order.SHUFFLED: f"hash(number, n, 'order', {source})",
        Order.REVERSED: "number DESC, n DESC" if source else "number, n",
    }[combination.order]
    return (
        f"SELECT {', '.join(columns)} FROM ({_numbered_rows(combination, source, rows)})"
        f" ORDER BY {order}"
    )


def _with_draw(sql: str, at: int) -> str:
    """A value's SQL with the row's random number and its change in this column."""
    draw = f"(hash(number, version, {at}) % 1000000000000)::BIGINT"
    changed = f"(CASE WHEN differs_{at} THEN 1 + 4 * (number % 2) ELSE 0 END)" if at < 2 else "0"
    return sql.replace("draw", draw).replace("changed", changed)


def _numbered_rows(combination: Combination, source: int, rows: int) -> str:
    """Every row of a source before its values are made.

    `number` is its key before changes, `k` the key, `n` tells rows of a key apart, and of equal
    `version` they have equal values; `differs_0` and `differs_1` belong to the first two values.
    """
    everywhere = "TRUE" if source else "FALSE"
    first, second, moved, missing = {
        Share.NONE: ("FALSE",) * 4,
        Share.COLUMN: (everywhere, "FALSE", "FALSE", "FALSE"),
        Share.COLUMNS: (everywhere, everywhere, "FALSE", "FALSE"),
        Share.DISJOINT: ("FALSE", "FALSE", everywhere, "FALSE"),
    }.get(combination.share) or _picked(source, _EVERY[combination.share])
    return (
        f"SELECT number, n, version, {first} AS differs_0, {second} AS differs_1,"
        f" CASE WHEN {moved} THEN number + {rows * (source + 1)} ELSE number END AS k FROM"
        " (SELECT *, CASE WHEN number // 10 % 2 = 0 THEN (n + 1) // 2 ELSE 0 END AS version FROM"
        f" (SELECT number, unnest(range({_copies(combination, source, rows)})) AS n"
        f" FROM range({rows}) t(number))) WHERE NOT ({missing})"
    )


def _picked(source: int, every: int) -> tuple[str, str, str, str]:
    """One of so many rows differs in the first value, in the second, in its key, or is missing."""
    if not source:
        return ("FALSE",) * 4
    picked = f"hash(number, n, 'differs', {source}) % {every} = 0"
    kind = "hash(number, n, 'kind') % 4"
    first, second, moved, missing = (f"({picked} AND {kind} = {at})" for at in range(4))
    return first, second, moved, missing


def _copies(combination: Combination, source: int, rows: int) -> str:
    """How many rows a key has."""
    return {
        Duplicates.NONE: "1",
        Duplicates.TWICE: "CASE WHEN number % 10 = 3 THEN 2 ELSE 1 END",
        Duplicates.UNEQUAL: (
            f"CASE WHEN number % 10 = 3 THEN 1 + ({source} + number // 10) % 3 ELSE 1 END"
        ),
        Duplicates.HEAVY: f"CASE WHEN number = {HEAVY_KEY} THEN {max(rows // 100, 4)} ELSE 1 END",
    }[combination.duplicates]
