"""Which rows a commit replaces or deletes: rows of its own files, and rows of the table.

Of several changes of one key the last wins: in one source partition the one of the highest offset,
between partitions the one of the latest timestamp. Rows of the table are found by reading the id
columns of the files whose bounds may contain a changed key.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import (
    BinaryType,
    DateType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from datarecs_application.ports.sinking import PendingFiles
from datarecs_application.stopping import Stopping
from datarecs_connectors.iceberg.columns import FileColumns, field_of
from datarecs_connectors.iceberg.deletes import DeadRows
from datarecs_connectors.iceberg.planning import PlannedFile, planned
from datarecs_connectors.iceberg.reading import TableReader, key_values
from datarecs_connectors.iceberg.snapshots import FrozenTable
from datarecs_connectors.sinking.entries import data_file_of
from datarecs_connectors.sinking.files import SinkFiles
from datarecs_connectors.sinking.key_files import PLACE_FIELDS, read_key_file
from datarecs_connectors.sinking.position_deletes import DeletedRows, Positions, deleted_rows
from datarecs_connectors.sinking.row_keys import CHANGE_FIELDS
from datarecs_core.errors.sink import SinkCode, SinkError

MOST_ROWS = 200_000_000
"""Of files that may contain a changed key."""
_BATCH_ROWS = 1_000_000
_FIELD_ID = b"PARQUET:field_id"
_NUMBERS = (IntegerType, LongType, DateType, TimestampType, TimestamptzType)
_BYTES = (StringType, BinaryType)
_SETTINGS: Mapping[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "512MiB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What a commit deletes."""

    rows: Sequence[DeletedRows] = ()
    collisions: int = 0
    """Keys that were changed in several source partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResolver:
    """Resolves commits against one state of a table."""

    table: str
    """For messages."""
    source: str
    """Name of the connection, for messages."""
    metadata: TableMetadata
    files: SinkFiles
    stop: Stopping

    def replaced(self, pending: Sequence[PendingFiles]) -> Replacement:
        """The rows to delete, of the table and of the pending files.

        Raises:
            SinkError: SCAN_LIMIT_EXCEEDED, IDENTIFIER_MISSING, COMMIT_FAILED.
            SourceError: a file of the table, or a key file, cannot be read.
        """
        tables = [read_key_file(self.files, one.keys) for one in pending if one.keys is not None]
        if not tables:
            return Replacement()
        fields = self._fields(tables)
        changes = pa.concat_tables(self._normal(rows, fields) for rows in tables)
        with TemporaryDirectory(prefix="changes-") as folder:
            settings = {**_SETTINGS, "temp_directory": folder}
            with closing(duckdb.connect(config=settings)) as database:
                keys = _Keys(database=database, count=len(fields))
                keys.load(changes)
                collisions, positions = keys.collisions(), keys.losers()
                planned_files = self._scanned(keys, fields, positions)
        files = {one.path: data_file_of(one) for part in pending for one in part.data_files}
        files |= {one.file.file_path: one.file for one in planned_files}
        return Replacement(rows=deleted_rows(files, positions), collisions=collisions)

    def _fields(self, tables: Sequence[pa.Table]) -> tuple[NestedField, ...]:
        """The columns of the key, as the key files name them."""
        by_file = {
            tuple(int(one.metadata[_FIELD_ID]) for one in rows.schema if _is_key(one))
            for rows in tables
        }
        if len(by_file) > 1:
            raise SinkError(
                SinkCode.IDENTIFIER_MISSING,
                f"id_columns were changed while files of table {self.table} wait for their "
                "commit; use the verb reset",
            )
        (ids,) = by_file
        fields = [field_of(self.metadata, number) for number in ids]
        return tuple(field for field in fields if field is not None)

    def _normal(self, rows: pa.Table, fields: Sequence[NestedField]) -> pa.Table:
        """Keys in the form in which they are read from data files."""
        stored = {field.field_id: f"k{number}" for number, field in enumerate(fields)}
        columns = FileColumns(source=self.source, name="a key file", stored=stored, constants={})
        others = [one.name for one in (*CHANGE_FIELDS, *PLACE_FIELDS)]
        names = [*stored.values(), *others]
        parts = []
        for batch in rows.to_batches():
            keys = [key_values(columns.column(batch, field)) for field in fields]
            parts.append(
                pa.Table.from_arrays([*keys, *(batch.column(name) for name in others)], names)
            )
        return pa.concat_tables(parts)

    def _scanned(
        self, keys: "_Keys", fields: Sequence[NestedField], positions: dict[str, Positions]
    ) -> list[PlannedFile]:
        """The files that may contain a key whose rows are replaced; adds what they contain."""
        wanted = keys.wanted()
        table = FrozenTable(
            source=self.source,
            metadata=self.metadata,
            snapshot=self.metadata.current_snapshot(),
        )
        if not wanted.num_rows or table.snapshot is None:
            return []
        bounds = [_Bounds.of(field, wanted.column(at)) for at, field in enumerate(fields)]
        candidates = [
            one
            for one in planned(table, self.files)
            if all(bound is None or bound.may_contain(one.file) for bound in bounds)
        ]
        rows = sum(one.file.record_count for one in candidates)
        if rows > MOST_ROWS:
            raise SinkError(
                SinkCode.SCAN_LIMIT_EXCEEDED,
                f"{rows} rows of table {self.table} may have one of {wanted.num_rows} changed "
                f"keys, and a commit searches at most {MOST_ROWS}",
            )
        with closing(TableReader(table=table, files=self.files).dead_rows(None)) as dead:
            for candidate in candidates:
                self.stop.check()
                at = _positions(keys, dead, candidate, fields)
                if len(at):
                    positions[candidate.file.file_path] = np.setdiff1d(at, dead.of(candidate))
        return candidates


def _is_key(field: pa.Field) -> bool:
    return bool(field.metadata) and _FIELD_ID in field.metadata


def _positions(
    keys: "_Keys", dead: DeadRows, candidate: PlannedFile, fields: Sequence[NestedField]
) -> Positions:
    """Rows of a file with a wanted key, deleted ones included."""
    matches = [keys.matches(rows) for rows in _counted(dead.keys(candidate, fields))]
    return np.concatenate(matches) if matches else np.empty(0, np.int64)


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Larger tables of the same rows, with their numbers in a last column."""
    waiting: list[pa.Table] = []
    start = size = 0
    for batch in batches:
        numbers = pa.array(np.arange(start, start + batch.num_rows), pa.int64())
        names = [*(f"k{at}" for at in range(batch.num_columns)), "n"]
        waiting.append(pa.Table.from_arrays([*batch.columns, numbers], names))
        start, size = start + batch.num_rows, size + batch.num_rows
        if size >= _BATCH_ROWS:
            yield pa.concat_tables(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """The changes of a commit in a database; keys are columns k0, k1 and so on."""

    database: duckdb.DuckDBPyConnection
    count: int

    @property
    def _columns(self) -> str:
        return ", ".join(f"k{at}" for at in range(self.count))

    def load(self, changes: pa.Table) -> None:
        self.database.register("loaded", changes)
        self.database.execute(
            f"""
            CREATE TABLE aged AS SELECT *, row_number() OVER (
                PARTITION BY {self._columns}, topic, partition
                ORDER BY "offset" DESC, file DESC, position DESC) AS age FROM loaded;
            CREATE TABLE changes AS SELECT *, CASE WHEN age = 1 THEN row_number() OVER (
                PARTITION BY {self._columns}, age = 1
                ORDER BY "timestamp" DESC, topic DESC, partition DESC) END AS place FROM aged;
            DROP TABLE aged;
            CREATE TABLE wanted AS
                SELECT DISTINCT {self._columns} FROM changes WHERE change > 0;
            """  # noqa: S608  numbers alone
        )
        self.database.unregister("loaded")

    def collisions(self) -> int:
        """Keys with changes of several source partitions."""
        (row,) = self.database.execute("SELECT count(*) FROM changes WHERE place = 2").fetchall()
        return int(row[0])

    def losers(self) -> dict[str, Positions]:
        """Written rows that are not the last of their key, by data file."""
        rows = self.database.sql(
            """SELECT file, list(position) AS positions FROM changes
            WHERE file IS NOT NULL AND (age > 1 OR place > 1) GROUP BY file"""
        ).fetchall()
        return {path: np.array(positions, np.int64) for path, positions in rows}

    def wanted(self) -> pa.Table:
        """Keys of which rows of the table are replaced."""
        return self.database.sql("SELECT * FROM wanted").to_arrow_table()

    def matches(self, rows: pa.Table) -> Positions:
        """Numbers of the rows with a wanted key."""
        self.database.register("held", rows)
        equal = " AND ".join(f"r.k{at} = w.k{at}" for at in range(self.count))
        matches = self.database.sql(
            f"SELECT r.n FROM held r WHERE EXISTS (SELECT 1 FROM wanted w WHERE {equal})"  # noqa: S608  numbers alone
        ).to_arrow_table()
        self.database.unregister("held")
        return np.asarray(matches.column("n").to_numpy(), np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    """The wanted values of one id column, to compare with the bounds of files."""

    field_id: int
    decode: Callable[[bytes], Any]
    """A bound, in the form of the values."""
    values: Sequence[Any]
    """Sorted numbers, or bytes."""

    @classmethod
    def of(cls, field: NestedField, values: pa.ChunkedArray) -> "_Bounds | None":
        """None for a type whose bounds are not compared."""
        if isinstance(field.field_type, _NUMBERS):
            kind = pa.int32() if isinstance(field.field_type, DateType) else pa.int64()
            numbers = values.cast(kind).unique().to_pylist()
            return cls(field_id=field.field_id, decode=_number, values=sorted(numbers))
        if isinstance(field.field_type, _BYTES):
            texts = sorted(values.unique().to_pylist())
            return cls(field_id=field.field_id, decode=bytes, values=texts)
        return None

    def may_contain(self, file: DataFile) -> bool:
        """Whether a wanted value is within the bounds of the column, if the file has both."""
        low = (file.lower_bounds or {}).get(self.field_id)
        high = (file.upper_bounds or {}).get(self.field_id)
        if low is None or high is None:
            return True
        at = bisect_left(self.values, self.decode(low))
        return at < len(self.values) and bool(self.values[at] <= self.decode(high))


def _number(bound: bytes) -> int:
    return int.from_bytes(bound, "little", signed=True)
