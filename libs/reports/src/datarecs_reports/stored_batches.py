"""Stored differences a batch at a time, of so many bytes whatever their texts hold.

Apart from the readers because rows of forty kilobytes and rows of forty bytes lie in the same kind
of file, and nobody who reads them may take memory by their number alone.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

BATCH_BYTES = 2**24
"""Of a batch, about, by what the file says of its row groups."""
MOST_CHARACTERS = 500
"""Of a text that is only looked at."""
_HASH_DIGITS = 8


def stored_batches(
    file: pq.ParquetFile, *, most: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a file in order, at most so many at a time, and fewer where they are large."""
    groups = [file.metadata.row_group(at) for at in range(file.num_row_groups)]
    widest = max((each.total_byte_size / max(each.num_rows, 1) for each in groups), default=1)
    rows = max(1, min(most, int(BATCH_BYTES / max(widest, 1))))
    yield from file.iter_batches(batch_size=rows, columns=None if columns is None else [*columns])


def with_short_texts(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The same rows whose long texts are cut; what was cut is told apart by its hash.

    Args:
        table: stored rows.
        names: of columns that map sources to texts.
    """
    for name in names:
        if name not in table.column_names:
            continue
        chunks = [_short_maps(chunk) for chunk in table[name].chunks]
        column = pa.chunked_array(chunks, table.schema.field(name).type)
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _short_maps(maps: pa.MapArray) -> pa.MapArray:
    items = maps.items
    # Without a value of Python: Arrow would import pandas for it, in every small comparison.
    if (pc.max(pc.utf8_length(items)).as_py() or 0) <= MOST_CHARACTERS:
        return maps
    is_long = pc.fill_null(pc.greater(pc.utf8_length(items), MOST_CHARACTERS), fill_value=False)
    long = items.filter(is_long)
    cut = pa.array([_cut(each.as_py()) for each in long], pa.string())
    items = pc.replace_with_mask(items, is_long, cut.cast(items.type))
    return pa.MapArray.from_arrays(maps.offsets, maps.keys, items).cast(maps.type)


def _cut(text: str) -> str:
    """Its beginning, its length, and a hash: two texts stay equal or different, and look it."""
    digest = sha256(text.encode()).hexdigest()[:_HASH_DIGITS]
    return f"{text[:MOST_CHARACTERS]}… ({len(text):,} characters, {digest})"
