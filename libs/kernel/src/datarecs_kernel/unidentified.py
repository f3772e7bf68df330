"""Differences as columns before they have ids: the content of candidates, except their keys.

Texts are made here, for chosen rows only; ids, hashes and digests follow for the rows that are
stored.
"""

from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datarecs_kernel.choosing import NO_SIZE, measure_names
from datarecs_kernel.columns import Flags, Numbers
from datarecs_kernel.differing import By, Differences
from datarecs_kernel.layout import Layout

GROUP, SIZE = "group", "sort_delta"
"""Columns: the row of the group's key; the largest |delta| as a double."""
TEXTS = pa.map_(pa.string(), pa.string())
_MAPS = ("values", "raw_values", "deltas", "delta_percent")


@cache
def unidentified_schema() -> pa.Schema:
    """Measures and classes by their numbers."""
    return pa.schema(
        [
            (GROUP, pa.int64()),
            ("measure", pa.int16()),
            ("within", pa.bool_()),
            ("kind", pa.int8()),
            ("presence", pa.int64()),
            ("odd", pa.int16()),
            *((label, TEXTS) for label in _MAPS),
            (SIZE, pa.float64()),
        ]
    )


class Unidentified:
    """Of one stage."""

    def __init__(self, layout: Layout) -> None:
        self._sources = pa.array(layout.stage.sources, pa.string())
        self._measures = {name: at for at, name in enumerate(measure_names(layout))}

    def rows(self, each: Differences, at: Numbers, groups: Numbers) -> pa.RecordBatch:
        """Differences at these places, of these groups."""
        written, count = each.written(at), len(at)
        columns = (
            groups,
            np.full(count, self._measures[each.measure]),
            each.within[at],
            each.kinds[at],
            each.presence[at],
            each.odd[at],
            self._map(written.values, count),
            self._map(written.raw, count),
            self._map(written.deltas, count),
            self._map(written.percents, count),
            each.sizes.take(pa.array(at)),
        )
        schema = unidentified_schema()
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column).cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _map(self, by_source: By, rows: int) -> pa.MapArray:
        """Texts by name of the source."""
        held = np.zeros((rows, len(by_source)), np.bool_)
        for at, each in enumerate(by_source):
            held[:, at] = each.where
        row, column = np.nonzero(held)
        offsets = np.insert(np.cumsum(held.sum(axis=1), dtype=np.int32), 0, 0)
        names = self._sources.take(
            pa.array(np.array([each.source for each in by_source], np.int64)[column])
        )
        texts = pa.chunked_array([each.texts for each in by_source], pa.string())
        items = texts.combine_chunks().take(pa.array(column * rows + row))
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), names, items)


def sizes_of(each: Differences) -> NDArray[np.float64]:
    """The largest |delta| of each row, or NO_SIZE."""
    return np.asarray(each.sizes.fill_null(NO_SIZE).to_numpy(zero_copy_only=False))


def chosen_rows(
    keys: pa.RecordBatch, rows: pa.RecordBatch, flags: Flags
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Keys and rows of the differences with a flag; groups are renumbered."""
    if flags.all():
        return keys, rows
    left = rows.filter(pa.array(flags))
    groups = left.column(GROUP).to_numpy()
    used = np.zeros(keys.num_rows, np.bool_)
    used[groups] = True
    numbers = pa.array((np.cumsum(used) - 1)[groups])
    return keys.filter(pa.array(used)), left.set_column(0, GROUP, numbers)
