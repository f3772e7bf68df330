"""Reads stored differences in batches with a limit in bytes, for rows with texts of any length.

Files may have rows of forty kilobytes or of forty bytes, so the number of rows alone cannot limit
memory.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

BATCH_BYTES = 2**24
"""Approximate bytes of a batch, from the metadata of the row groups."""
MOST_CHARACTERS = 500
"""Most characters of a text that is only compared."""
_HASH_DIGITS = 8


def stored_batches(
    file: pq.ParquetFile, *, most: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a file in order, at most so many per batch, and fewer if they are large."""
    groups = [file.metadata.row_group(at) for at in range(file.num_row_groups)]
    widest = max((each.total_byte_size / max(each.num_rows, 1) for each in groups), default=1)
    rows = max(1, min(most, int(BATCH_BYTES / max(widest, 1))))
    yield from file.iter_batches(batch_size=rows, columns=None if columns is None else [*columns])


def with_short_texts(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The same rows with long texts cut; a hash distinguishes cut texts.

    Args:
        table: stored rows.
        names: names of columns that map sources to texts.
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
    # No Python value, because Arrow would import pandas for it in every small comparison.
    if (pc.max(pc.utf8_length(items)).as_py() or 0) <= MOST_CHARACTERS:
        return maps
    is_long = pc.fill_null(pc.greater(pc.utf8_length(items), MOST_CHARACTERS), fill_value=False)
    long = items.filter(is_long)
    cut = pa.array([_cut(each.as_py()) for each in long], pa.string())
    items = pc.replace_with_mask(items, is_long, cut.cast(items.type))
    return pa.MapArray.from_arrays(maps.offsets, maps.keys, items).cast(maps.type)


def _cut(text: str) -> str:
    """Its beginning, its length and a hash, so that different texts stay different."""
    digest = sha256(text.encode()).hexdigest()[:_HASH_DIGITS]
    return f"{text[:MOST_CHARACTERS]}… ({len(text):,} characters, {digest})"
