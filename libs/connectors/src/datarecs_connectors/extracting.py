"""Writing an extract: batches into Parquet files of the run's own store, counted as they come."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pat

from datarecs_application.ports.comparing import Read
from datarecs_connectors.errors import SourceLimitError
from datarecs_connectors.typed_text import INVALID
from datarecs_core.comparison.faults import ValueTooLargeError
from datarecs_core.comparison.scan import Extract, PinnedFile, Scan

Batches = Iterable[tuple[pa.RecordBatch, tuple[str, ...]]]
"""Batches, each with the columns whose companion holds invalid values."""


def write_extract(
    scan: Scan, batches: Batches, directory: str, progress: Callable[[Read], None]
) -> Scan:
    """The scan with `extract` set; one file, since one reader wrote it.

    Raises SourceLimitError above the source's rows, decoded bytes or the size of a value.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "part-00000.parquet"
    rows = size = 0
    invalid: set[str] = set()
    writer: pq.ParquetWriter | None = None
    try:
        for batch, filled in batches:
            rows, size = rows + batch.num_rows, size + batch.nbytes
            _limit(scan, rows, size)
            _limit_values(scan, batch)
            invalid.update(filled)
            if writer is None:
                writer = pq.ParquetWriter(path, batch.schema, compression="zstd")
            writer.write_batch(batch)
            progress(Read(rows=rows, decoded_bytes=size))
    finally:
        if writer is not None:
            writer.close()
    file = PinnedFile(path=path.name, size_bytes=path.stat().st_size, rows=rows)
    extract = Extract(
        root=str(folder),
        files=(file,),
        rows=rows,
        decoded_bytes=size,
        invalid_columns=tuple(sorted(invalid)),
    )
    return replace(scan, extract=extract)


def _limit(scan: Scan, rows: int, size: int) -> None:
    if rows > scan.limits.max_rows:
        raise SourceLimitError(scan.source, f"more than {scan.limits.max_rows} rows (max_rows)")
    if size > scan.limits.max_bytes:
        raise SourceLimitError(
            scan.source, f"more than {scan.limits.max_bytes} decoded bytes (max_bytes)"
        )


def _limit_values(scan: Scan, batch: pa.RecordBatch) -> None:
    """One value fits into the memory of a task; a batch below the limit has none above it."""
    limit = scan.limits.max_value_bytes
    if batch.nbytes <= limit:
        return
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pat.is_string(column.type) or pat.is_binary(column.type):
            largest = pc.max(pc.binary_length(column)).as_py() or 0
            if largest > limit:
                of = name.removeprefix(INVALID)
                raise ValueTooLargeError(source=scan.source, column=of, limit=limit)
