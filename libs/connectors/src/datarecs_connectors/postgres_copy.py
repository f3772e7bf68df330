"""The bytes of COPY as columns of text, block by block: quoted empty is text, unquoted is NULL.

Separate from the connector because it uses only the text format, without sessions or scans.
"""

from collections.abc import Iterator, Sequence

import psycopg
import pyarrow as pa
import pyarrow.csv as pcsv

BLOCK_BYTES = 4 * 1024 * 1024


def blocks(copy: psycopg.Copy, names: Sequence[str], most_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of whole rows, of at least one block or the maximum row count; at least one batch."""
    block, rows = bytearray(), 0
    for row in copy:
        block += row
        rows += 1
        if rows == most_rows or len(block) >= BLOCK_BYTES:
            yield _parsed(block, names)
            block, rows = bytearray(), 0
    yield _parsed(block, names)


def _parsed(rows: bytearray, names: Sequence[str]) -> pa.RecordBatch:
    if not names:
        return pa.RecordBatch.from_arrays([], names=[])
    if not rows:
        empty = [pa.array([], pa.string()) for _ in names]
        return pa.RecordBatch.from_arrays(empty, names=list(names))
    table = pcsv.read_csv(
        pa.BufferReader(rows),
        read_options=pcsv.ReadOptions(
            column_names=list(names), use_threads=False, block_size=max(len(rows) + 1, 1024)
        ),
        parse_options=pcsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=pcsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return table.combine_chunks().to_batches()[0]
