"""Stored differences as judging again needs them: few columns, read as arrays, a million at a time.

Apart from `stored_rows`, which restores every byte of a row and costs ten times as much.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_core.comparison.insight.rejudging import StoredRow
from datarecs_core.comparison.results.results import Outcome
from datarecs_reports.stored_batches import stored_batches
from datarecs_reports.stored_rows import DifferencesUnreadableError

_COLUMNS = ("measure", "class", "outcome", "key_hash", "values", "deltas")
_BATCH_ROWS = 100_000


def judged_rows(parts: Iterable[Path]) -> Iterator[StoredRow]:
    """The rows of some parts, in their order.

    Raises:
        DifferencesUnreadableError: a file that is damaged or none of ours.
    """
    for path in parts:
        try:
            with pq.ParquetFile(path) as file:
                for batch in stored_batches(file, most=_BATCH_ROWS, columns=_COLUMNS):
                    yield from _rows(batch)
        except (pa.ArrowException, OSError, KeyError) as cause:
            raise DifferencesUnreadableError(path, "it cannot be read as Parquet") from cause


def _rows(batch: pa.RecordBatch) -> Iterator[StoredRow]:
    plain = (batch.column(name).to_pylist() for name in _COLUMNS[:4])
    maps = (_maps(batch.column(name)) for name in _COLUMNS[4:])
    for measure, kind, outcome, key_hash, values, deltas in zip(*plain, *maps, strict=True):
        yield StoredRow(measure, kind, outcome == Outcome.WITHIN, key_hash, values, deltas)


def _maps(column: pa.MapArray) -> Iterator[Mapping[str, str | None]]:
    """Each row's map; a row without one has an empty one."""
    names, values = column.keys.to_pylist(), column.items.to_pylist()
    for first, last in pairwise(column.offsets.to_pylist()):
        yield dict(zip(names[first:last], values[first:last], strict=True))
