"""Groups of rows in the order of their keys, of which no source has one several times.

Nothing has to be grouped or joined then: a group is open where a source lacks it, or where two of
its rows, which come next to each other, differ. Apart from `kept_rows`, which says what is read.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datarecs_kernel.columns import Flags, distinct, flags_of
from datarecs_kernel.open_groups import FIRST, OPEN, WEIGHT
from datarecs_spark.prepare import SOURCE


def opened_in_order(
    batches: Iterable[pa.RecordBatch], keys: Sequence[str], values: Sequence[str], sources: range
) -> Iterator[pa.RecordBatch]:
    """The same rows in the columns of `opening`, whole groups at a time.

    Args:
        batches: in the order of the keys, with these columns and `prepare.SOURCE`.
        keys: no source has one several times.
        values: what is compared.
        sources: indexes of all of them.
    """
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        rows = pa.concat_batches([*waiting, batch])
        begins = _begins(rows, keys)
        last = int(np.flatnonzero(begins)[-1])
        yield _opened(rows.slice(0, last), begins[:last], values, sources)
        waiting = [rows.slice(last)]
    for rows in waiting:
        yield _opened(rows, _begins(rows, keys), values, sources)


def _opened(
    rows: pa.RecordBatch, begins: Flags, values: Sequence[str], sources: range
) -> pa.RecordBatch:
    lengths = np.diff(np.flatnonzero(begins), append=len(begins))
    source = rows.column(SOURCE).to_numpy()
    copies = {f"c{index}": source == index for index in sources}
    groups = np.cumsum(begins) - 1
    has = np.zeros((len(lengths), len(sources)), np.int64)
    has[groups, source] = 1
    unlike = np.zeros(len(lengths), np.bool_)
    unlike[groups[_unlike_before(rows, values) & ~begins]] = True
    is_open = unlike | (lengths < len(sources))
    columns = {
        OPEN: pa.array(is_open[groups]),
        **{f"n{index}": pa.array(has[groups, index]) for index in sources},
        FIRST: pa.array(begins),
        **{name: rows.column(name) for name in rows.schema.names if name != SOURCE},
        **{name: pa.array(own.astype(np.int64)) for name, own in copies.items()},
        WEIGHT: pa.array(begins.astype(np.int64)),
    }
    return pa.RecordBatch.from_pydict(columns)


def _begins(rows: pa.RecordBatch, keys: Sequence[str]) -> Flags:
    """Whether a row is the first of its group."""
    begins = _unlike_before(rows, keys)
    begins[0] = True
    return begins


def _unlike_before(rows: pa.RecordBatch, names: Sequence[str]) -> Flags:
    """Whether a row differs from the one before it, as grouping has it: two NaN are alike."""
    unlike = np.zeros(rows.num_rows, np.bool_)
    for name in names:
        after, before = rows.column(name)[1:], rows.column(name)[:-1]
        told = distinct(after, before)
        if pa.types.is_floating(after.type):
            told &= ~flags_of(
                pc.fill_null(pc.and_(pc.is_nan(after), pc.is_nan(before)), fill_value=False)
            )
        unlike[1:] |= told
    return unlike
