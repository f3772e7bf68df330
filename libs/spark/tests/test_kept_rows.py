"""Kept rows are judged in batches that fit in memory, and how they are cut changes nothing."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_spark import kept_rows
from datarecs_spark.kept_rows import Judged, judged
from datarecs_spark.kernel_work import KernelTask, kept_file
from datarecs_spark.layout import layout_of
from datarecs_spark.read import PlainColumns
from datarecs_spark.sink import SinkTask
from datarecs_spark.storing import SinkPlan
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import a_job, a_table, plan_of

ROWS = 5_000
WIDTH = 1_000
"""Bytes of a text."""
BOUND = 2**20
"""Bytes of the texts of a batch."""


class Batches(SinkTask):
    """The sink, and how many bytes of texts came at a time."""

    seen: list[int]

    def take(self, batch: pa.RecordBatch) -> None:
        self.seen.append(sum(map(len, filter(None, batch.column("m0").to_pylist()))))
        super().take(batch)


def judged_texts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Judged, list[int]]:
    """What is counted of rows with wide texts that differ throughout, and each batch's bytes."""
    folder.mkdir()
    tables = [a_table(name, "k int, note text") for name in ("one", "two")]
    stage = plan_of(a_job(tables, rows_by("k", a_measure("note"))), tables).stages[0]
    for index, letter in enumerate("ab"):
        rows = pa.table({"k": range(ROWS), "note": [letter * WIDTH] * ROWS})
        pq.write_table(rows, folder / kept_file(index))
    task = KernelTask(
        sources=(),
        totals=(),
        salts=(1, 2, 3),
        weights=(),
        bucket_bits=1,
        directory=str(folder),
        threads=1,
        memory_bytes=2**28,
    )
    layout = layout_of(stage, [PlainColumns()] * len(tables))
    plan = SinkPlan(layout=layout, key=b"k" * 80, directory=str(folder), scope_directory=None)
    seen: list[int] = []
    monkeypatch.setattr(Batches, "seen", seen, raising=False)
    monkeypatch.setattr(kept_rows, "SinkTask", Batches)
    found = judged(task, plan, "0")
    assert found is not None
    return found, seen


def test_wide_texts_are_judged_in_several_batches_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, (everything,) = judged_texts(tmp_path / "whole", monkeypatch)
    assert everything == 2 * ROWS * WIDTH
    monkeypatch.setattr(kept_rows, "_BATCH_BYTES", BOUND)
    cut, batches = judged_texts(tmp_path / "cut", monkeypatch)
    assert sum(batches) == everything
    # DuckDB hands over whole vectors of 2,048 rows.
    assert max(batches) <= BOUND + 2_048 * WIDTH
    assert (cut.counted.stored, cut.counted.digest) == (ROWS, whole.counted.digest)
    assert cut.counted.groups == whole.counted.groups
    assert cut.tallies == whole.tallies
