"""Files with the changed keys of one worker, table and cycle: written once, read by a commit.

A key file is Parquet: the id columns with their field ids, what happens to the key, the place of
the record, and for a row where it is: its data file and its position there. The message that names
the file states its SHA-256.
"""

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table.metadata import TableMetadata

from datarecs_connectors.errors import ConnectionFailedError, SourceError
from datarecs_connectors.locations import Places
from datarecs_connectors.sinking.files import NewFile, SinkFiles, location_provider
from datarecs_connectors.sinking.row_keys import CHANGE_FIELDS
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.control import KeyFile

PLACE_FIELDS = (pa.field("file", pa.string()), pa.field("position", pa.int64()))
"""NULL for a delete."""


class _HashedStream(io.RawIOBase):
    """Passes bytes on, and has their SHA-256."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream
        self.hash = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, content: object, /) -> int:
        view = memoryview(content).cast("B")  # type: ignore[arg-type]  # a buffer
        self.hash.update(view)
        self._stream.write(view)
        return view.nbytes

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._stream.close()


@dataclass(slots=True, kw_only=True)
class _OpenFile:
    output: NewFile
    stream: _HashedStream
    writer: pq.ParquetWriter
    rows: int = 0


@dataclass(slots=True, kw_only=True)
class KeyFileWriter:
    """Writes at most one file until it is finished."""

    metadata: TableMetadata
    key_fields: tuple[pa.Field, ...]
    places: Places
    new_name: Callable[[], str]
    """A name that no other file has, without an ending."""
    _open: _OpenFile | None = None
    _schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        self._schema = pa.schema([*self.key_fields, *CHANGE_FIELDS, *PLACE_FIELDS])

    def write(self, columns: list[pa.Array]) -> None:
        """One array for each column of the file."""
        with self._translated():
            opened = self._open = self._open or self._opened()
            rows = pa.Table.from_arrays(columns, schema=self._schema)
            opened.writer.write_table(rows)
        opened.rows += rows.num_rows

    def finish(self) -> KeyFile | None:
        """The complete file; None if nothing was written."""
        opened, self._open = self._open, None
        if opened is None:
            return None
        with self._translated():
            opened.writer.close()
            opened.stream.close()
        return KeyFile(
            path=opened.output.location, sha256=opened.stream.hash.hexdigest(), rows=opened.rows
        )

    def discard(self) -> None:
        opened, self._open = self._open, None
        if opened is None:
            return
        with suppress(OSError, ValueError, SourceError, SinkError):
            opened.writer.close()
            opened.stream.close()
        SinkFiles(self.places).delete(opened.output)

    def _opened(self) -> _OpenFile:
        name = f"{self.new_name()}-keys.parquet"
        place = location_provider(self.metadata).new_metadata_location(name)
        output = NewFile(place, self.places)
        stream = _HashedStream(output.create())
        writer = pq.ParquetWriter(stream, self._schema, compression="zstd")
        return _OpenFile(output=output, stream=stream, writer=writer)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as cause:
            raise ConnectionFailedError(
                self.places.source, f"a file of the table cannot be written: {cause.strerror}"
            ) from cause


def read_key_file(files: SinkFiles, file: KeyFile) -> pa.Table:
    """All of it.

    Raises:
        SinkError: COMMIT_FAILED, it is not the file that the message names.
        SourceError: it is not there.
    """
    with files.new_input(file.path).open() as opened:
        content = opened.read()
    name = file.path.rpartition("/")[2]
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise SinkError(SinkCode.COMMIT_FAILED, f"the key file {name} was changed")
    rows = pq.read_table(pa.BufferReader(content))
    if rows.num_rows != file.rows:
        raise SinkError(SinkCode.COMMIT_FAILED, f"the key file {name} has other rows")
    return rows
