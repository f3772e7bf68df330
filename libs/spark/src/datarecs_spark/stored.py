"""Stored differences: their Parquet columns (spec comparison 9.2), written whole columns at a time.

`key_text` and `key_encoded` stand beside the typed key, so that a row says everything a report, an
exporter or a later judgement needs, masked and INVALID keys included.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from datarecs_core.comparison.results import Difference, DifferenceClass, Outcome
from datarecs_core.documents import decimal_text
from datarecs_spark.decoding import native
from datarecs_spark.forms import FormKind
from datarecs_spark.layout import Field, Layout

_TEXTS = pa.map_(pa.string(), pa.string())
_MOMENTS = {
    FormKind.DATE: pa.date32(),
    FormKind.INSTANT: pa.timestamp("us", tz="UTC"),
    FormKind.LOCAL: pa.timestamp("us"),
}
_MAPS = ("values", "raw_values", "deltas", "delta_percent", "locator")


def schema_of(layout: Layout) -> pa.Schema:
    """Of every part of the stage."""
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


def _key_field(layout: Layout) -> list[tuple[str, pa.DataType]]:
    """None without dimensions: Parquet has no struct without members."""
    members = [(field.label, _key_type(layout, field)) for field in layout.keys]
    return [("key", pa.struct(members))] if members else []


def _key_type(layout: Layout, field: Field) -> pa.DataType:
    if _is_text(layout, field):
        return pa.string()
    return _MOMENTS.get(field.form.kind, native(field.form))


def _is_text(layout: Layout, field: Field) -> bool:
    """Masked keys have no other form; UUIDs and times of day none that every reader knows."""
    plan = layout.stage.dimensions[layout.keys.index(field)]
    return plan.mask is not None or field.form.kind in {FormKind.UUID, FormKind.TIME}


def _keys(layout: Layout, batch: pa.RecordBatch) -> pa.Array:
    struct = schema_of(layout).field("key").type
    arrays = []
    for at, field in enumerate(layout.keys):
        if _is_text(layout, field):
            texts = pc.list_element(batch.column("key_text"), at)
            arrays.append(texts.cast(pa.string()))
        elif field.form.kind is FormKind.DATE:
            arrays.append(batch.column(field.name).cast(pa.int32()).cast(pa.date32()))
        else:
            arrays.append(batch.column(field.name).cast(struct.field(at).type))
    return pa.StructArray.from_arrays(
        arrays, fields=[struct.field(at) for at in range(len(arrays))]
    )


def from_differences(
    layout: Layout, rows: Sequence[Difference], keys: Sequence[tuple[object, ...]]
) -> pa.Table:
    """Stored rows of differences; `keys` holds their key columns as Arrow gave them."""
    schema = schema_of(layout)
    natives = {label: native_of(layout, label) for label in layout.key_names}
    batch = pa.RecordBatch.from_arrays(
        [
            *(
                pa.array([key[at] for key in keys], kind)
                for at, kind in enumerate(natives.values())
            ),
            pa.array([list(row.key) for row in rows], pa.list_(pa.string())),
        ],
        names=[*natives, "key_text"],
    )
    plain = [_plain(row) for row in rows]
    typed = _keys(layout, batch) if layout.keys else None
    columns = {
        field.name: typed
        if field.name == "key"
        else pa.array([row[field.name] for row in plain], field.type)
        for field in schema
    }
    return pa.table(columns, schema=schema)


def native_of(layout: Layout, label: str) -> pa.DataType:
    """The type of a key column, or of its companion with payloads."""
    forms = {field.name: native(field.form) for field in layout.keys}
    return forms.get(label, pa.binary())


def _plain(row: Difference) -> dict[str, object]:
    size = row.max_abs_delta
    return {
        "break_id": row.break_id,
        "stage": row.stage,
        "measure": row.measure,
        "outcome": row.outcome.value,
        "class": row.difference_class.value,
        "presence": row.presence,
        "odd_one_out": row.odd_one_out,
        "key": None,
        "key_text": list(row.key),
        "key_encoded": row.key_encoded,
        "key_hash": row.key_hash,
        "values": list(row.values),
        "raw_values": list(row.raw_values),
        "deltas": [(source, decimal_text(delta)) for source, delta in row.deltas],
        "delta_percent": [(source, decimal_text(each)) for source, each in row.delta_percent],
        "locator": list(row.locator),
        "sort_delta": None if size is None else float(size),
    }


def differences_of(table: pa.Table) -> Iterator[Difference]:
    """The differences that stored rows tell of, exactly."""
    for row in table.to_pylist():
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
        )


def read_differences(location: Path) -> Iterator[Difference]:
    """Every stored difference of a stage, part by part."""
    for part in sorted(location.glob("part-*.parquet")):
        yield from differences_of(pq.read_table(part))
