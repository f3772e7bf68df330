"""Stored differences: their Parquet columns (spec comparison 9.2), writing and reading them.

`key_text` and `key_encoded` are stored with the typed key, so a row has all data for a report, an
exporter or a later judgement, also for masked and INVALID keys.
"""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from datarecs_core.comparison.results.results import Difference, DifferenceClass, Outcome
from datarecs_kernel.decoding import native
from datarecs_kernel.forms import ENCODED, FormKind
from datarecs_kernel.layout import Field, Layout

_TEXTS = pa.map_(pa.string(), pa.string())
_MOMENTS = {
    FormKind.DATE: pa.date32(),
    FormKind.INSTANT: pa.timestamp("us", tz="UTC"),
    FormKind.LOCAL: pa.timestamp("us"),
}
_READ_ROWS = 1024
"""At a time."""
_MAPS = ("values", "raw_values", "deltas", "delta_percent", "locator")
REPEATED = [
    *("stage", "measure", "outcome", "class", "presence", "odd_one_out"),
    *(f"{label}.key_value.key" for label in _MAPS),
]
"""Columns of few values, stored with dictionaries; ids, keys and texts differ in nearly every
row."""


def schema_of(layout: Layout) -> pa.Schema:
    """Schema of every part of the stage."""
    return pa.schema(
        [
            ("break_id", pa.string()),
            ("stage", pa.string()),
            ("measure", pa.string()),
            ("outcome", pa.string()),
            ("class", pa.string()),
            ("presence", pa.int64()),
            ("odd_one_out", pa.string()),
            *_key_field(layout),
            ("key_text", pa.list_(pa.string())),
            ("key_encoded", pa.binary()),
            ("key_hash", pa.binary()),
            *((label, _TEXTS) for label in _MAPS),
            ("sort_delta", pa.float64()),
        ]
    )


def with_raw_key_column(schema: pa.Schema) -> pa.Schema:
    """Schema of parts that also contain the key as each source writes it."""
    return schema.append(pa.field("raw_keys", _TEXTS))


def _key_field(layout: Layout) -> list[tuple[str, pa.DataType]]:
    """None without dimensions, because Parquet has no struct without members."""
    members = [(field.label, _key_type(layout, field)) for field in layout.keys]
    return [("key", pa.struct(members))] if members else []


def _key_type(layout: Layout, field: Field) -> pa.DataType:
    if _is_text(layout, field):
        return pa.string()
    return _MOMENTS.get(field.form.kind, native(field.form))


def _is_text(layout: Layout, field: Field) -> bool:
    """Text for masked keys, and for UUIDs and times without a type that all readers support."""
    plan, form = layout.stage.dimensions[layout.keys.index(field)], field.form
    written = {FormKind.UUID, FormKind.TIME} | ENCODED
    return plan.mask is not None or form.is_finer or form.kind in written


def typed_keys(layout: Layout, columns: pa.RecordBatch, texts: pa.Array) -> pa.StructArray:
    """Column `key` of groups, from their key columns and their stored texts."""
    struct = schema_of(layout).field("key").type
    arrays = []
    for at, field in enumerate(layout.keys):
        if _is_text(layout, field):
            arrays.append(pc.list_element(texts, at).cast(pa.string()))
        elif field.form.kind is FormKind.DATE:
            arrays.append(columns.column(field.name).cast(pa.int32()).cast(pa.date32()))
        else:
            arrays.append(columns.column(field.name).cast(struct.field(at).type))
    return pa.StructArray.from_arrays(
        arrays, fields=[struct.field(at) for at in range(len(arrays))]
    )


def native_of(layout: Layout, label: str) -> pa.DataType:
    """The type of a key column, or of its companion with payloads."""
    forms = {field.name: native(field.form) for field in layout.keys}
    return forms.get(label, pa.binary())


_READ = frozenset(
    (
        *("break_id", "stage", "measure", "outcome", "class", "presence", "odd_one_out"),
        *("key_text", "key_encoded", "key_hash", "values", "raw_values", "deltas"),
        *("delta_percent", "locator", "raw_keys"),
    )
)


def differences_of(table: pa.Table | pa.RecordBatch) -> Iterator[Difference]:
    """The differences of stored rows, exactly.

    Only columns of texts are read: Python has no dates outside of the years 1 to 9999, which the
    typed columns of keys may have.
    """
    read = [name for name in table.schema.names if name in _READ]
    for row in table.select(read).to_pylist():
        yield Difference(
            break_id=row["break_id"],
            stage=row["stage"],
            measure=row["measure"],
            outcome=Outcome(row["outcome"]),
            difference_class=DifferenceClass(row["class"]),
            presence=row["presence"],
            odd_one_out=row["odd_one_out"],
            key=tuple(row["key_text"]),
            key_encoded=row["key_encoded"],
            key_hash=row["key_hash"],
            values=tuple(row["values"]),
            raw_values=tuple(row["raw_values"]),
            deltas=tuple((source, Decimal(delta)) for source, delta in row["deltas"]),
            delta_percent=tuple((source, Decimal(each)) for source, each in row["delta_percent"]),
            locator=tuple(row["locator"]),
            raw_keys=tuple(row.get("raw_keys") or ()),
        )


def read_differences(location: Path) -> Iterator[Difference]:
    """Every stored difference of a stage, part by part."""
    for part in sorted(location.glob("part-*.parquet")):
        # Never a whole part as Python values: it may have a million rows, or long ones.
        for batch in pq.ParquetFile(part).iter_batches(_READ_ROWS):
            yield from differences_of(batch)


class Part:
    """A Parquet file that is created at the first write."""

    def __init__(self, directory: Path, attempt: str, schema: pa.Schema) -> None:
        self.path, self.schema = directory / f"part-{attempt}.parquet", schema
        self._writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self.path, self.schema, compression="zstd", use_dictionary=REPEATED
            )
        self._writer.write(rows)

    def close(self) -> list[str]:
        """Names of the written files: one or none."""
        if self._writer is None:
            return []
        self._writer.close()
        return [self.path.name]
