"""The difference file: its columns, and the conversion of differences to Parquet rows.

Engines write these columns, all other code reads them; this module also writes the file for the
oracle. Every value that could lose a digit is text. Arrays are built from buffers and text
builders, because `pa.array` and `pa.scalar` of Python values import pandas if it is installed,
which takes longer than a whole small comparison.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from datarecs_core.catalog.layout import segment
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.results import Difference
from datarecs_core.documents import decimal_text

_BY_SOURCE = pa.map_(pa.string(), pa.string())
"""Source to text."""
Store = Callable[[StagePlan, Sequence[Difference]], str]


def difference_schema(dimensions: Sequence[str]) -> pa.Schema:
    """The columns of a difference file, in order.

    Args:
        dimensions: names of the stage's dimensions. Parquet has no struct without fields, so a
            stage without dimensions writes no `key`.
    """
    key = [pa.field(name, pa.string()) for name in dimensions]
    return pa.schema(
        [
            pa.field("break_id", pa.string()),
            pa.field("stage", pa.string()),
            pa.field("measure", pa.string()),
            pa.field("outcome", pa.string()),
            pa.field("class", pa.string()),
            pa.field("presence", pa.int64()),
            pa.field("odd_one_out", pa.string()),
            *([pa.field("key", pa.struct(key))] if key else []),
            pa.field("key_hash", pa.binary()),
            pa.field("values", _BY_SOURCE),
            pa.field("raw_values", _BY_SOURCE),
            pa.field("deltas", _BY_SOURCE),
            pa.field("delta_percent", _BY_SOURCE),
            pa.field("locator", _BY_SOURCE),
            pa.field("sort_delta", pa.float64()),
        ]
    )


def with_text_keys(table: pa.Table) -> pa.Table:
    """The same rows with the parts of their keys as canonical text.

    Spark stores typed keys for queries on the files, and the texts beside them; the oracle stores
    only texts.
    """
    if "key_text" not in table.column_names or "key" not in table.column_names:
        return table
    at = table.column_names.index("key")
    names = [field.name for field in table.schema.field(at).type]
    lists = table["key_text"].combine_chunks()
    parts = [pc.list_element(lists, position).cast(pa.string()) for position in range(len(names))]
    return table.set_column(at, "key", pa.StructArray.from_arrays(parts, names=names))


def text_scalar(text: str) -> pa.Scalar:
    """A text scalar for comparisons with a column."""
    return _texts([text])[0]


def write_differences(path: Path, stage: StagePlan, rows: Sequence[Difference]) -> None:
    """Write one part in the given order, compressed with zstd; also without rows."""
    dimensions = [dimension.name for dimension in stage.dimensions]
    pq.write_table(_table(rows, dimensions), path, compression="zstd")


def stored_below(root: Path) -> Store:
    """The memory engine's writer: writes a folder `stage=<name>` per stage and returns its path."""

    def store(stage: StagePlan, rows: Sequence[Difference]) -> str:
        folder = root / f"stage={segment(stage.name)}"
        folder.mkdir(parents=True, exist_ok=True)
        write_differences(folder / "part-00000.parquet", stage, rows)
        return str(folder)

    return store


def _table(rows: Sequence[Difference], dimensions: Sequence[str]) -> pa.Table:
    largest = [row.max_abs_delta for row in rows]
    columns = {
        "break_id": _texts(row.break_id for row in rows),
        "stage": _texts(row.stage for row in rows),
        "measure": _texts(row.measure for row in rows),
        "outcome": _texts(row.outcome.value for row in rows),
        "class": _texts(row.difference_class.value for row in rows),
        "presence": _texts(str(row.presence) for row in rows).cast(pa.int64()),
        "odd_one_out": _texts(row.odd_one_out for row in rows),
        "key": _keys(rows, dimensions),
        "key_hash": _binary([row.key_hash for row in rows]),
        "values": _maps([row.values for row in rows]),
        "raw_values": _maps([row.raw_values for row in rows]),
        "deltas": _maps([_amounts(row.deltas) for row in rows]),
        "delta_percent": _maps([_amounts(row.delta_percent) for row in rows]),
        "locator": _maps([row.locator for row in rows]),
        "sort_delta": _texts(None if size is None else repr(float(size)) for size in largest).cast(
            pa.float64()
        ),
    }
    schema = difference_schema(dimensions)
    if any(row.raw_keys for row in rows):
        columns["raw_keys"] = _maps([row.raw_keys for row in rows])
        schema = schema.append(pa.field("raw_keys", _BY_SOURCE))
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


Pairs = Sequence[tuple[str, str | None]]


def _amounts(amounts: Sequence[tuple[str, Decimal]]) -> Pairs:
    return [(source, decimal_text(amount)) for source, amount in amounts]


def _texts(texts: Iterable[str | None]) -> pa.Array:
    builder = pa.lib.StringBuilder()
    for text in texts:
        builder.append(text)
    return builder.finish()


def _keys(rows: Sequence[Difference], dimensions: Sequence[str]) -> pa.Array | None:
    """A struct of the key's parts; None if the stage has no dimensions."""
    parts = [_texts(row.key[at] for row in rows) for at in range(len(dimensions))]
    return pa.StructArray.from_arrays(parts, names=list(dimensions)) if parts else None


def _offsets(lengths: Iterable[int]) -> pa.Buffer:
    return pa.py_buffer(array("i", accumulate(lengths, initial=0)))


def _binary(values: Sequence[bytes]) -> pa.Array:
    buffers = [None, _offsets(map(len, values)), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _maps(rows: Sequence[Pairs]) -> pa.Array:
    pairs = [pair for row in rows for pair in row]
    offsets = pa.Array.from_buffers(
        pa.int32(), len(rows) + 1, [None, _offsets(len(row) for row in rows)]
    )
    return pa.MapArray.from_arrays(
        offsets, _texts(name for name, _ in pairs), _texts(value for _, value in pairs)
    )
