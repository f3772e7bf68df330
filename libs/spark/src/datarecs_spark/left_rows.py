"""What pairing leaves of a source: a file that is read like a source, or is what is kept.

Apart from `pairing`, which decides what is left.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_spark.kernel_work import KernelColumn, KernelSource

_WRITTEN_BYTES = 2**24
"""Before they are written."""


class LeftRows:
    """Rows of a source that are left, in a file, under the names that kept rows have."""

    def __init__(self, source: KernelSource, path: Path) -> None:
        self._source, self._path = source, path
        self._names = [column.name for column in source.columns]
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._bytes = 0
        self.rows = 0

    def add(self, columns: Sequence[pl.Series]) -> None:
        # In Arrow's own layout: Polars' would hold on to all texts that were read with these.
        oldest = pl.CompatLevel.oldest()
        table = pa.table([each.to_arrow(compat_level=oldest) for each in columns], self._names)
        self._waiting.append(table)
        self._bytes += table.nbytes
        if self._bytes > _WRITTEN_BYTES:
            self._write()

    def _write(self) -> None:
        table = pa.concat_tables(self._waiting)
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._path,
                table.schema,
                compression="none",
                use_dictionary=False,
                write_statistics=False,
            )
        self._writer.write_table(table)
        self._waiting.clear()
        self._bytes = 0

    def written(self) -> KernelSource:
        """Everything; nothing more comes."""
        if self._waiting:
            self._write()
        if self._writer is not None:
            self._writer.close()
        return replace(
            self._source,
            files=(str(self._path),),
            rows=self.rows,
            keys=_renamed(self._source.keys),
            values=_renamed(self._source.values),
            filter=None,
            where=None,
            is_left=True,
        )


def _renamed(columns: Sequence[KernelColumn]) -> tuple[KernelColumn, ...]:
    return tuple(replace(column, physical=column.name) for column in columns)
