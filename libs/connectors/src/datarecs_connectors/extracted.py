"""Read the rows of an extract as plain values, so an extracted source is not read again.

The values are those that its connector returns row by row. Separate from `extracting`, which writes
extracts, because only the oracle reads rows.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_application.ports.comparing import Connector
from datarecs_connectors.typed_columns import plain_values
from datarecs_connectors.typed_text import INVALID, TypedColumn
from datarecs_core.comparison.planning.scan import Extract, Scan, ScanColumn

BATCH_ROWS = 10_000


def rows_of(connector: Connector, scan: Scan) -> Iterator[tuple[object, ...]]:
    """The rows of a scan: from its extract if it has one, else from the source."""
    if scan.extract is None or scan.groups is not None:
        return connector.rows(scan)
    return extracted_rows(scan, scan.extract)


def extracted_rows(scan: Scan, extract: Extract) -> Iterator[tuple[object, ...]]:
    """One value per column of the scan, as `Connector.rows` returns them."""
    invalid = {f"{INVALID}{label}" for label in extract.invalid_columns}
    labels = [column.name for column in scan.columns]
    names = [*labels, *(f"{INVALID}{label}" for label in labels if f"{INVALID}{label}" in invalid)]
    for file in extract.files:
        stored = pq.ParquetFile(Path(extract.root) / file.path)
        for batch in stored.iter_batches(BATCH_ROWS, columns=names):
            yield from typed_rows(batch, scan.columns)


def typed_rows(
    batch: pa.RecordBatch, columns: Sequence[ScanColumn]
) -> Iterator[tuple[object, ...]]:
    """Rows of a batch by logical names; columns may have companions for INVALID values."""
    values = [
        plain_values(TypedColumn(batch.column(each.name), _raw(batch, each.name)), each.type)
        for each in columns
    ]
    yield from zip(*values, strict=True) if values else [()] * batch.num_rows


def _raw(batch: pa.RecordBatch, label: str) -> pa.Array | None:
    at = batch.schema.get_field_index(f"{INVALID}{label}")
    return None if at < 0 else batch.column(at)
