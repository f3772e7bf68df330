"""digests.parquet: the leaves of the Merkle tree of `proof: rows`, one row each, in order.

The file is evidence: it is written once and read strictly.
"""

from array import array
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_core.comparison.results.fingerprints import FINGERPRINT_BYTES
from datarecs_core.comparison.results.row_digests import Leaf
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.storage import StorageCode

SCHEMA = pa.schema(
    [
        pa.field("stage", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("fingerprint_sum", pa.binary(FINGERPRINT_BYTES), nullable=False),
    ]
)
_BATCH_ROWS = 10_000
_MOST_BUCKETS = 4096


class DigestsUnreadableError(DatarecsError):
    """A file is not a digests.parquet, or is damaged."""

    code = StorageCode.BLOB_CORRUPT

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: not a file of row digests: {reason}")
        self.path = path


def digest_file(leaves: Sequence[Leaf]) -> bytes:
    """Write the file of sorted leaves."""
    columns = [
        _texts([leaf.stage for leaf in leaves]),
        _texts([leaf.source for leaf in leaves]),
        _fixed(pa.int32(), array("i", (leaf.bucket for leaf in leaves)).tobytes(), len(leaves)),
        _fixed(pa.int64(), array("q", (leaf.rows for leaf in leaves)).tobytes(), len(leaves)),
        _fixed(
            pa.binary(FINGERPRINT_BYTES),
            b"".join(leaf.total.to_bytes(FINGERPRINT_BYTES) for leaf in leaves),
            len(leaves),
        ),
    ]
    written = BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=SCHEMA), written, compression="zstd")
    return written.getvalue()


def _texts(texts: Sequence[str]) -> pa.Array:
    builder = pa.lib.StringBuilder()
    for text in texts:
        builder.append(text)
    return builder.finish()


def _fixed(kind: pa.DataType, values: bytes, length: int) -> pa.Array:
    """An array from a buffer: `pa.array` over Python values imports pandas if it is installed."""
    return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(values)])


def read_digests(path: Path) -> list[Leaf]:
    """The leaves of a file, in its order.

    Raises:
        DigestsUnreadableError: not such a file, or an invalid leaf.
        OSError: the file cannot be opened.
    """
    try:
        return list(_leaves(path))
    except (pa.ArrowException, OSError) as cause:
        if isinstance(cause, FileNotFoundError):
            raise
        raise DigestsUnreadableError(path, "the file cannot be read as Parquet") from cause
    except (ValueError, TypeError, KeyError) as cause:
        raise DigestsUnreadableError(path, str(cause)) from cause


def _leaves(path: Path) -> Iterator[Leaf]:
    with pq.ParquetFile(path) as file:
        if file.schema_arrow.names != SCHEMA.names:
            raise ValueError(f"its columns are {', '.join(file.schema_arrow.names)}")
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            for row in batch.to_pylist():
                if not (0 <= row["bucket"] < _MOST_BUCKETS and row["rows"] > 0):
                    raise ValueError(f"bucket {row['bucket']} of {row['rows']} rows")
                yield Leaf(
                    stage=row["stage"],
                    source=row["source"],
                    bucket=row["bucket"],
                    rows=row["rows"],
                    total=int.from_bytes(row["fingerprint_sum"]),
                )
