"""The Arrow step for values that SQL cannot prepare: floats as decimals, Unicode, casts, JSON.

One step per source carries all such columns (spec comparison 12, E3); how values are prepared is
the kernel's (`datarecs_kernel.prepared_values`).
"""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from datarecs_kernel.prepared_values import AMBIGUOUS, ColumnInput, ColumnPreparation

Step = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


def python_step(rows: DataFrame, columns: tuple[ColumnInput, ...]) -> DataFrame:
    """The rows with the columns replaced by their prepared ones, and `dst` beside them."""
    made = {label: kind for each in columns for label, kind in each.field.columns}
    taken = {label for each in columns for label in (each.field.name, each.field.payload)}
    kept = [field for field in rows.schema.fields if field.name not in taken]
    kinds = [f"`{field.name}` {field.dataType.simpleString()}" for field in kept]
    added = [f"`{label}` {kind}" for label, kind in made.items()]
    schema = ", ".join([*kinds, *added, f"{AMBIGUOUS} INT"])
    return rows.mapInArrow(_step(columns, [field.name for field in kept]), schema)


def _step(columns: tuple[ColumnInput, ...], kept: list[str]) -> Step:
    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        preparations = [(each.field, ColumnPreparation(each)) for each in columns]
        for batch in batches:
            arrays = {label: batch.column(label) for label in kept}
            ambiguous = pa.array([0] * batch.num_rows, pa.int32())
            for field, preparation in preparations:
                made = preparation.prepared(batch.column(field.name), batch.column(field.payload))
                ambiguous = pc.add(ambiguous, made.pop(AMBIGUOUS))
                arrays |= made
            arrays[AMBIGUOUS] = ambiguous
            yield pa.RecordBatch.from_pydict(arrays)

    return step
