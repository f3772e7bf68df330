"""Open and read Parquet files within limits: a footer is external input.

One module for files of a folder and of an Iceberg table. A footer is checked against limits before
it is used, batches are small so that decoded data needs little memory, and errors have texts of
this product, because those of a library may quote values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pat

from datarecs_connectors.errors import CorruptSourceError, SourceError, SourceLimitError
from datarecs_connectors.random_access import arrow_source, has_descriptor, last_bytes, size_of
from datarecs_connectors.text_files import FREE_BYTES, MAX_RATIO

MAX_LEAVES = 20_000
"""Primitive columns, those inside nested ones included."""
MAX_ROW_GROUPS = 100_000
MAX_FOOTER_BYTES = 64 * 1024 * 1024
_STRING_LIMIT, _CONTAINER_LIMIT = 64 * 1024 * 1024, 1_000_000
_TAIL = 8
"""Bytes after the footer: its length, and `PAR1`."""
_BATCH_BYTES = 64 * 1024 * 1024
_FAULTS = (
    ("magic bytes", "it does not begin and end as Parquet files do"),
    ("file size is", "its end is missing, or its footer is larger than the file"),
    ("CRC", "a page does not match its checksum"),
    ("thrift", "its footer or a page header is damaged"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetPlace:
    """Source and path of a file, for messages."""

    source: str
    path: str

    def error(self, cause: Exception) -> SourceError:
        """Translate an error of the library; a size limit of the reader is SOURCE_LIMIT."""
        text = str(cause)
        if "size limit" in text:
            return self.limit(
                f"its footer has more than {_CONTAINER_LIMIT} entries in a list, or a text of more "
                f"than {_STRING_LIMIT} bytes"
            )
        fault = next((words for sign, words in _FAULTS if sign in text), "its data is damaged")
        return CorruptSourceError(
            self.source, f"{self.path} is not a readable Parquet file: {fault}; deliver it again"
        )

    def limit(self, rule: str) -> SourceLimitError:
        return SourceLimitError(self.source, f"{self.path}: {rule}")


def open_parquet(
    file: BinaryIO, place: ParquetPlace, *, dictionaries: Sequence[str] = ()
) -> pq.ParquetFile:
    """A Parquet file with a footer within the limits; `file` may be closed afterwards.

    Args:
        file: open, at any position.
        place: for errors.
        dictionaries: columns to be read as dictionaries.

    Raises:
        CorruptSourceError: it is not a Parquet file, or it is damaged.
        SourceLimitError: footer, columns or row groups exceed their limits, or pages are more
            than `MAX_RATIO` times the file.
    """
    size = size_of(file)
    _check_footer_length(file, size, place)
    try:
        opened = pq.ParquetFile(
            arrow_source(file),
            thrift_string_size_limit=_STRING_LIMIT,
            thrift_container_size_limit=_CONTAINER_LIMIT,
            page_checksum_verification=True,
            coerce_int96_timestamp_unit="us",
            read_dictionary=list(dictionaries),
            # It would read all needed pages of a file at once; from a store, those of one column.
            pre_buffer=has_descriptor(file),
        )
    except (pa.ArrowException, OSError) as cause:
        raise place.error(cause) from None
    metadata = opened.metadata
    if metadata.num_columns > MAX_LEAVES:
        raise place.limit(f"it has {metadata.num_columns} columns, more than {MAX_LEAVES}")
    if metadata.num_row_groups > MAX_ROW_GROUPS:
        raise place.limit(
            f"it has {metadata.num_row_groups} row groups, more than {MAX_ROW_GROUPS}"
        )
    _check_ratio(place, size, _declared_bytes(metadata))
    return opened


def read_batches(
    file: pq.ParquetFile, place: ParquetPlace, *, rows: int, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Batches of at most this many rows, and of fewer if rows are large.

    Raises:
        CorruptSourceError: the file cannot be read to its end.
    """
    try:
        for batch in file.iter_batches(batch_size=_rows_at_once(file, rows), columns=list(columns)):
            yield from _cut(batch)
    except (pa.ArrowException, OSError) as cause:
        raise place.error(cause) from None


def dictionary_bytes(file: BinaryIO, place: ParquetPlace, names: frozenset[str]) -> int:
    """Decoded bytes of text columns with dictionaries of long repeated values; usually 0.

    A value of one MiB that a million rows repeat takes few bytes in a file. Rows are counted
    only if the dictionaries of a file could expand to more than the ratio allows.

    Raises:
        SourceLimitError: the values are more than `MAX_RATIO` times the file.
        CorruptSourceError: the file cannot be read.
    """
    size = size_of(file)
    opened = open_parquet(file, place)
    allowed = max(FREE_BYTES, MAX_RATIO * size)
    chunks = sorted(_dictionaries(opened.metadata, names), key=lambda chunk: -chunk.most_bytes)
    total = sum(chunk.most_bytes for chunk in chunks)
    columns = sorted({chunk.column for chunk in chunks})
    if total <= allowed:
        return 0
    opened = open_parquet(file, place, dictionaries=columns)
    try:
        for chunk in chunks:
            total += chunk.rows * _longest(opened, chunk) - chunk.most_bytes
            if total <= allowed:
                return 0
        total = 0
        for batch in opened.iter_batches(batch_size=65_536, columns=columns):
            total += sum(map(_decoded_bytes, batch.columns))
            _check_ratio(place, size, total)
    except (pa.ArrowException, OSError) as cause:
        raise place.error(cause) from None
    return total


def long_dictionaries(metadata: pq.FileMetaData, names: frozenset[str], rows: int) -> list[str]:
    """Text columns that may be large in a batch of this many rows because values repeat."""
    chunks = _dictionaries(metadata, names)
    most = 4 * _BATCH_BYTES
    return sorted({chunk.column for chunk in chunks if chunk.longest * rows > most})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dictionary:
    """Sizes of one text column in one row group, from the footer."""

    group: int
    column: str
    rows: int
    longest: int
    """Bytes that one value may have: approximately those of the dictionary page."""

    @property
    def most_bytes(self) -> int:
        return self.rows * self.longest


def _dictionaries(metadata: pq.FileMetaData, names: frozenset[str]) -> Iterator[_Dictionary]:
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in map(group.column, range(group.num_columns)):
            is_text = column.physical_type == "BYTE_ARRAY" and column.has_dictionary_page
            if is_text and column.path_in_schema in names:
                yield _Dictionary(
                    group=number,
                    column=column.path_in_schema,
                    rows=group.num_rows,
                    longest=_dictionary_page_bytes(column),
                )


def _dictionary_page_bytes(column: pq.ColumnChunkMetaData) -> int:
    """Estimate: its compressed size times four times the expansion of the whole chunk."""
    packed = max(column.data_page_offset - column.dictionary_page_offset, 0)
    pages = max(column.total_uncompressed_size, 1)
    growth = pages / max(column.total_compressed_size, 1)
    return int(min(pages, 4 * packed * max(growth, 1)))


def _longest(file: pq.ParquetFile, chunk: _Dictionary) -> int:
    """Bytes of the longest value in its dictionary."""
    first = next(file.iter_batches(batch_size=1, row_groups=[chunk.group], columns=[chunk.column]))
    column = first.column(0)
    if not pat.is_dictionary(column.type):
        return chunk.longest
    return int(pc.max(pc.binary_length(column.dictionary)).as_py() or 0)


def _check_footer_length(file: BinaryIO, size: int, place: ParquetPlace) -> None:
    tail = last_bytes(file, _TAIL)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] == b"PAR1" and MAX_FOOTER_BYTES < length < size:
        raise place.limit(f"its footer has {length} bytes, more than {MAX_FOOTER_BYTES}")


def _declared_bytes(metadata: pq.FileMetaData) -> int:
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return sum(group.total_byte_size for group in groups)


def _check_ratio(place: ParquetPlace, size: int, decoded: int) -> None:
    if decoded > FREE_BYTES and decoded > MAX_RATIO * size:
        raise place.limit(
            f"it holds more than {MAX_RATIO} times its size; write the file with smaller row "
            "groups or without compression if that is right"
        )


def _rows_at_once(file: pq.ParquetFile, rows: int) -> int:
    """Rows per batch such that its pages, by the sizes in the footer, fit into `_BATCH_BYTES`."""
    metadata = file.metadata
    widest = 1
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        widest = max(widest, group.total_byte_size // max(group.num_rows, 1))
    return max(1, min(rows, _BATCH_BYTES // widest))


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Replace dictionaries by their values, a few rows at a time."""
    if not any(pat.is_dictionary(column.type) for column in batch.columns):
        yield batch
        return
    if batch.num_rows > 1 and sum(map(_decoded_bytes, batch.columns)) > _BATCH_BYTES:
        half = batch.num_rows // 2
        yield from _cut(batch.slice(0, half))
        yield from _cut(batch.slice(half))
        return
    columns = [
        column.cast(column.type.value_type) if pat.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _decoded_bytes(column: pa.Array) -> int:
    """Bytes of all values; a dictionary value counts as often as it occurs."""
    if not pat.is_dictionary(column.type):
        return int(column.nbytes)
    kind = column.type.value_type
    if not (pat.is_string(kind) or pat.is_large_string(kind) or pat.is_binary(kind)):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary)
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0)
