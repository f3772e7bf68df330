"""Rows of an extract as plain values, so that a source that was brought is not asked again.

The same values that its connector delivers row by row. Apart from `extracting`, which writes them,
because only the oracle reads rows.
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
    """The rows of a scan: those that were brought, where rows were; else the source is asked."""
    if scan.extract is None or scan.groups is not None:
        return connector.rows(scan)
    return extracted_rows(scan, scan.extract)


def extracted_rows(scan: Scan, extract: Extract) -> Iterator[tuple[object, ...]]:
    """One value per column of the scan, as `Connector.rows` gives them."""
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
    """Rows of a batch by logical names, which may have companions for INVALID values."""
    values = [
        plain_values(TypedColumn(batch.column(each.name), _raw(batch, each.name)), each.type)
        for each in columns
    ]
    yield from zip(*values, strict=True) if values else [()] * batch.num_rows


def _raw(batch: pa.RecordBatch, label: str) -> pa.Array | None:
    at = batch.schema.get_field_index(f"{INVALID}{label}")
    return None if at < 0 else batch.column(at)
