"""Deleted rows as positions: each data file has a sorted list of its deleted rows.

Position deletes and deletion vectors contain positions. An equality delete is joined with the key
columns of the file, with NULL equal to NULL, which gives positions too. So there is one way to
remove rows, and a read of the other columns needs no keys.
"""

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.types import DoubleType, FloatType, NestedField

from datarecs_connectors.errors import (
    CorruptSourceError,
    SourceError,
    SourceLimitError,
    SourceUnsupportedError,
)
from datarecs_connectors.full_disk import check_disk
from datarecs_connectors.iceberg.columns import field_of
from datarecs_connectors.iceberg.files import TableFiles
from datarecs_connectors.iceberg.planning import PlannedFile
from datarecs_connectors.iceberg.snapshots import FrozenTable

MAX_EQUALITY_ROWS = 20_000_000
"""Limit of all equality deletes of a snapshot: they are in memory while the table is read."""
_PATH, _POSITION = "file_path", "pos"
_SETTINGS: Mapping[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "512MiB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
}
Positions = npt.NDArray[np.int64]
KeyBatches = Callable[[PlannedFile, Sequence[NestedField]], Iterator[pa.RecordBatch]]
"""Reads the given fields of every row of a file, deleted ones included, in its order; at least one
batch, which may be empty. Texts come as their bytes."""
OpenParquet = Callable[[str], AbstractContextManager[pq.ParquetFile]]


@dataclass(slots=True, kw_only=True)
class DeadRows:
    """Reads each delete file once, when the first data file needs it; closed after the last."""

    table: FrozenTable
    files: TableFiles
    opened: OpenParquet
    keys: KeyBatches
    scratch: str | None = None
    """Folder where joins may spill; None: the system's folder for temporary files."""
    _positions: dict[str, Mapping[str, Positions]] = field(default_factory=dict)
    _equalities: dict[str, pa.Table] = field(default_factory=dict)
    _database: duckdb.DuckDBPyConnection | None = None
    """Created for the first join; to create one takes longer than most joins."""
    _closing: ExitStack = field(default_factory=ExitStack)

    def close(self) -> None:
        self._closing.close()

    def of(self, planned: PlannedFile) -> Positions:
        """Positions of deleted rows in the file, sorted and distinct."""
        path = planned.file.file_path
        positions = [self._named(one).get(path, _none()) for one in planned.positions]
        by_keys: dict[tuple[int, ...], list[DataFile]] = defaultdict(list)
        for one in planned.equalities:
            by_keys[tuple(sorted(one.equality_ids or ()))].append(one)
        for ids, some in by_keys.items():
            positions.append(self._equal(planned, ids, some))
        return np.unique(np.concatenate(positions)) if positions else _none()

    def _named(self, file: DataFile) -> Mapping[str, Positions]:
        """The positions in one delete file, by data file."""
        if file.file_path not in self._positions:
            puffin = file.file_format == FileFormat.PUFFIN
            read = self._vectors if puffin else self._position_file
            self._positions[file.file_path] = read(file)
        return self._positions[file.file_path]

    def _vectors(self, file: DataFile) -> Mapping[str, Positions]:
        with self.files.new_input(file.file_path).open() as opened:
            content = opened.read()
        try:
            puffin = PuffinFile(content)
            for blob in puffin.footer.blobs:
                _check_sum(puffin.get_blob_payload(blob))
            return {
                one.referenced_data_file: np.asarray(one.to_vector().to_numpy(), np.int64)
                for one in deletion_vectors_from_puffin_file(puffin)
            }
        except Exception as cause:  # external bitmaps; the parser defines no error classes
            raise self._broken(file, cause) from cause

    def _position_file(self, file: DataFile) -> Mapping[str, Positions]:
        with self.opened(file.file_path) as opened:
            try:
                table = opened.read(columns=[_PATH, _POSITION])
                paths = table.column(_PATH).cast(pa.string()).combine_chunks().dictionary_encode()
                at = table.column(_POSITION).cast(pa.int64()).to_numpy()
                if paths.null_count or table.column(_POSITION).null_count:
                    raise pa.ArrowInvalid("NULL")
            except (pa.ArrowException, OSError, KeyError) as cause:
                raise self._broken(file, cause) from cause
        if not len(at):
            return {}
        codes = paths.indices.to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(1, len(paths.dictionary)))
        parts = np.split(at[order], ends)
        return dict(zip(map(str, paths.dictionary.to_pylist()), parts, strict=True))

    def _equal(
        self, planned: PlannedFile, ids: tuple[int, ...], deletes: Sequence[DataFile]
    ) -> Positions:
        """Rows of the data file with a key that a delete file contains."""
        fields = [self._key(one) for one in ids]
        if not fields:
            raise CorruptSourceError(self.table.source, "an equality delete names no column")
        dead = pa.concat_tables([self._keys_of(one, fields) for one in deletes])
        counted, start = [], 0
        for batch in self.keys(planned, fields):
            numbers = pa.array(np.arange(start, start + batch.num_rows), pa.int64())
            counted.append(_as_keys([*batch.columns, numbers], len(fields)))
            start += batch.num_rows
        try:
            return self._joined(pa.concat_tables(counted), dead, len(fields))
        except duckdb.Error as cause:
            check_disk(cause)
            if not isinstance(cause, duckdb.OutOfMemoryException):
                raise
            raise SourceLimitError(
                self.table.source,
                "the equality deletes need more memory than is available; rewrite "
                "the table's deletes (rewrite_data_files) and run again",
            ) from cause

    def _joined(self, rows: pa.Table, dead: pa.Table, keys: int) -> Positions:
        equal = " AND ".join(f"r.k{at} IS NOT DISTINCT FROM d.k{at}" for at in range(keys))
        database = self._opened_database()
        database.register("held", rows)
        database.register("dead", dead)
        matches = database.sql(
            f"SELECT r.n FROM held r WHERE EXISTS (SELECT 1 FROM dead d WHERE {equal})"  # noqa: S608  numbers alone
        ).to_arrow_table()
        database.unregister("held")
        database.unregister("dead")
        return np.asarray(matches.column("n").to_numpy(), np.int64)

    def _opened_database(self) -> duckdb.DuckDBPyConnection:
        if self._database is None:
            folder = self._closing.enter_context(
                TemporaryDirectory(dir=self.scratch, prefix="deletes-")
            )
            settings = {**_SETTINGS, "temp_directory": folder}
            self._database = self._closing.enter_context(duckdb.connect(config=settings))
        return self._database

    def _key(self, field_id: int) -> NestedField:
        key_field = field_of(self.table.metadata, field_id)
        if key_field is None or isinstance(key_field.field_type, FloatType | DoubleType):
            what = f"field {field_id}" if key_field is None else f"column {key_field.name!r}"
            raise SourceUnsupportedError(
                self.table.source,
                f"rows are deleted by {what}, which is nested or a float; rewrite the table's "
                "deletes (rewrite_data_files) and run again",
            )
        return key_field

    def _keys_of(self, file: DataFile, fields: Sequence[NestedField]) -> pa.Table:
        if file.file_path not in self._equalities:
            held = sum(one.num_rows for one in self._equalities.values())
            if held + file.record_count > MAX_EQUALITY_ROWS:
                raise SourceLimitError(
                    self.table.source,
                    f"more than {MAX_EQUALITY_ROWS} equality deletes; rewrite the table's deletes "
                    "(rewrite_data_files) and run again",
                )
            batches = self.keys(PlannedFile(file=file), fields)
            tables = [_as_keys(batch.columns, len(fields)) for batch in batches]
            self._equalities[file.file_path] = pa.concat_tables(tables)
        return self._equalities[file.file_path]

    def _broken(self, file: DataFile, cause: Exception) -> SourceError:
        name = file.file_path.rpartition("/")[2]
        return CorruptSourceError(
            self.table.source, f"the deletes in {name} cannot be read ({type(cause).__name__})"
        )


def _check_sum(vector: bytes) -> None:
    """Raises ValueError; pyiceberg does not check a vector."""
    length = int.from_bytes(vector[:4], "big")
    framed, checksum = vector[4 : 4 + length], vector[4 + length : 8 + length]
    if zlib.crc32(framed) != int.from_bytes(checksum, "big"):
        raise ValueError("checksum")


def _none() -> Positions:
    return np.empty(0, np.int64)


def _as_keys(columns: Sequence[pa.Array], keys: int) -> pa.Table:
    """Key columns, and the row numbers if they follow."""
    labels = [f"k{number}" for number in range(keys)]
    return pa.table(list(columns), names=[*labels, *(["n"] if len(columns) > keys else [])])


def alive(batch: pa.RecordBatch, start: int, dead: Positions) -> pa.RecordBatch:
    """The rows of a batch that begins at `start`, without deleted rows."""
    first, last = np.searchsorted(dead, (start, start + batch.num_rows))
    if first == last:
        return batch
    mask = np.ones(batch.num_rows, np.bool_)
    mask[dead[first:last] - start] = False
    return batch.filter(pc.cast(pa.array(mask), pa.bool_()))
