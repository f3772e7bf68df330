"""What is kept of more differences than a stage may store: the choice of core, made in Spark.

The largest of every measure in turn, then the smallest break ids: the same rows on every engine and
partitioning. The stage's own parts are read again, the sources are not.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from datarecs_core.comparison.results.differences import samples
from datarecs_core.documents import to_document
from datarecs_kernel.counted import Counted, read_counted
from datarecs_kernel.samples import BestRows
from datarecs_kernel.stored import differences_of, schema_of
from datarecs_kernel.storing import Part, SinkPlan
from datarecs_kernel.written import digest_of
from datarecs_spark.canonical import size_key
from datarecs_spark.sinking import attempt_name


def truncated(session: SparkSession, sink: SinkPlan, counted: Counted) -> Counted:
    """The same numbers with fewer stored rows; the parts that held all of them are gone."""
    directory, caps = Path(sink.directory), sink.layout.stage.caps
    rows = session.read.parquet(*(str(directory / part) for part in counted.parts))
    columns = rows.columns
    each = size_key("trim(LEADING '-' FROM d)")
    largest = f"array_max(transform(map_values(deltas), d -> {each}))"
    nth = "row_number() OVER (PARTITION BY measure ORDER BY size DESC, break_id)"
    kept = (
        rows.selectExpr("*", f"{largest} AS size")
        .selectExpr("*", f"IF(size IS NULL, NULL, {nth}) AS nth")
        .selectExpr("*", f"IF(nth <= {caps.largest_per_measure}, nth, {2**62}L) AS turn")
        .orderBy("turn", "break_id")
        .limit(caps.max_rows)
        .select(*columns, "size")
    )
    answers = kept.mapInArrow(_step(sink), "body STRING").collect()
    found = Counted(counted.sources)
    for row in answers:
        found.add(read_counted(row["body"], counted.sources))
    for part in counted.parts:
        (directory / part).unlink()
    return replace(
        counted,
        truncated=True,
        stored=found.stored,
        digest=found.digest,
        parts=found.parts,
        samples=found.samples,
    )


def _step(sink: SinkPlan) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    schema = schema_of(sink.layout)
    per_class = sink.layout.stage.caps.sample_per_class

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counted = Counted(len(sink.layout.sources))
        best, part = BestRows(per_class), Part(Path(sink.directory), attempt_name(), schema)
        for batch in batches:
            table = pa.Table.from_batches([batch.drop_columns(["size"])]).cast(schema)
            best.see(table, batch.column("size"))
            counted.stored += table.num_rows
            counted.digest += digest_of(table)
            part.write(table)
        counted.parts = part.close()
        chosen = list(differences_of(best.table())) if best else []
        counted.samples = [to_document(row) for row in samples(chosen, per_class)]
        yield pa.RecordBatch.from_pydict({"body": [counted.written()]})

    return step
