"""The index of one Parquet file: a small Parquet file with a row per column and row group.

It is made from the footer alone, so no page is read. Equal files have equal indexes: rows are
sorted, and the options of the writer are fixed. Spec queue-capture 16.
"""

import hashlib
import io
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_core.captures.bounds import MAX_BOUND_BYTES, float_text
from datarecs_core.captures.source_facts import Sidecar, SourceFile

VERSION = "1"
MAX_ROWS = 1_000_000
"""A file with more row groups and columns has no index."""
_SCHEMA = pa.schema(
    [
        pa.field("column", pa.string(), nullable=False),
        pa.field("row_group", pa.int32(), nullable=False),
        pa.field("first_row_index", pa.int64(), nullable=False),
        pa.field("row_count", pa.int64(), nullable=False),
        pa.field("null_count", pa.int64()),
        pa.field("byte_offset", pa.int64(), nullable=False),
        pa.field("compressed_size", pa.int64(), nullable=False),
        pa.field("physical_type", pa.string(), nullable=False),
        pa.field("compression", pa.string(), nullable=False),
        pa.field("value_type", pa.string()),
        pa.field("precision", pa.int32()),
        pa.field("scale", pa.int32()),
        pa.field("min", pa.string()),
        pa.field("max", pa.string()),
    ]
)
"""`value_type` is bool, i32, i64, f32, f64, utf8 or decimal: how to read min and max. A decimal has
its unscaled number."""
_GROUP_ROWS = 64 * 1024


class _ValueType(NamedTuple):
    name: str | None
    """None: its bounds are not listed."""
    precision: int | None = None
    scale: int | None = None
    is_unsigned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarWriter:
    """Writes indexes into a folder."""

    directory: str

    def write(
        self, file: SourceFile, opened: pq.ParquetFile, columns: Collection[str]
    ) -> Sidecar | None:
        """The index of these columns; None if it would have more than `MAX_ROWS` rows.

        Nested columns have no rows, nor have names that occur twice.
        """
        places = _places(opened, columns)
        if len(places) * opened.metadata.num_row_groups > MAX_ROWS:
            return None
        rows = list(_rows(opened, places))
        content = _encoded(rows, file)
        sha256 = hashlib.sha256(content).hexdigest()
        (Path(self.directory) / f"{sha256}.parquet").write_bytes(content)
        return Sidecar(
            sha256=sha256,
            size_bytes=len(content),
            columns=tuple(places) if rows else (),
            rows=len(rows),
        )


def _places(opened: pq.ParquetFile, columns: Collection[str]) -> dict[str, int]:
    """Positions of the plain columns by name, sorted by name."""
    leaves = [opened.schema.column(at) for at in range(len(opened.schema))]
    plain = [
        (leaf.name, at)
        for at, leaf in enumerate(leaves)
        if leaf.path == leaf.name and leaf.max_repetition_level == 0 and leaf.name in columns
    ]
    names = [name for name, _ in plain]
    return {name: at for name, at in sorted(plain) if names.count(name) == 1}


def _rows(opened: pq.ParquetFile, places: dict[str, int]) -> Iterator[dict[str, Any]]:
    metadata = opened.metadata
    for name, at in places.items():
        kind, first = _value_type(opened.schema.column(at)), 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            chunk = group.column(at)
            yield {
                "column": name,
                "row_group": number,
                "first_row_index": first,
                "row_count": group.num_rows,
                "byte_offset": _offset(chunk),
                "compressed_size": chunk.total_compressed_size,
                "physical_type": chunk.physical_type,
                "compression": chunk.compression,
                "value_type": kind.name,
                "precision": kind.precision,
                "scale": kind.scale,
                **_bounds(chunk, kind),
            }
            first += group.num_rows


def _offset(chunk: pq.ColumnChunkMetaData) -> int:
    """Where the pages begin: a dictionary comes first."""
    return int(chunk.dictionary_page_offset or chunk.data_page_offset)


_PHYSICAL = {
    "BOOLEAN": "bool",
    "INT32": "i32",
    "INT64": "i64",
    "FLOAT": "f32",
    "DOUBLE": "f64",
    "BYTE_ARRAY": "utf8",
}
"""Types by physical types; of byte arrays only texts."""
_UNSIGNED = {"INT32": "i64", "INT64": None}
"""No signed type holds every unsigned number of 64 bits."""


def _value_type(leaf: pq.ColumnSchema) -> _ValueType:
    logical = leaf.logical_type.type
    if logical == "DECIMAL":
        return _ValueType("decimal", leaf.precision, leaf.scale)
    if logical == "INT" and "isSigned=false" in str(leaf.logical_type):
        return _ValueType(_UNSIGNED[leaf.physical_type], is_unsigned=True)
    is_text = leaf.physical_type != "BYTE_ARRAY" or logical == "STRING"
    return _ValueType(_PHYSICAL.get(leaf.physical_type) if is_text else None)


def _bounds(chunk: pq.ColumnChunkMetaData, kind: _ValueType) -> dict[str, Any]:
    statistics = chunk.statistics
    if statistics is None:
        return {"null_count": None, "min": None, "max": None}
    low = high = None
    if statistics.has_min_max and kind.name is not None:
        low, high = (_text(raw, kind) for raw in (statistics.min_raw, statistics.max_raw))
    return {
        "null_count": statistics.null_count if statistics.has_null_count else None,
        "min": low,
        "max": high,
    }


def _text(raw: object, kind: _ValueType) -> str | None:
    """As `value_type` says; None for a value that is no text, or too long."""
    match raw:
        case bool():
            return "true" if raw else "false"
        case float():
            return float_text(raw, is_narrow=kind.name == "f32")
        case int():
            return str(raw & 0xFFFFFFFF if kind.is_unsigned else raw)
        case bytes():
            return _bytes_text(raw, kind)
        case _:
            return None


def _bytes_text(raw: bytes, kind: _ValueType) -> str | None:
    if kind.name == "decimal":
        return str(int.from_bytes(raw, "big", signed=True))
    with suppress(UnicodeDecodeError):
        return raw.decode() if len(raw) <= MAX_BOUND_BYTES else None
    return None


def _encoded(rows: list[dict[str, Any]], file: SourceFile) -> bytes:
    buffer = io.BytesIO()
    with pq.ParquetWriter(
        buffer,
        _SCHEMA,
        compression="none",
        use_dictionary=False,
        version="2.6",
        data_page_version="1.0",
        store_schema=False,
        write_statistics=True,
    ) as writer:
        writer.write_table(pa.Table.from_pylist(rows, _SCHEMA), row_group_size=_GROUP_ROWS)
        writer.add_key_value_metadata(
            {
                "sidecar.data_file_path": file.path,
                "sidecar.source_etag": file.etag,
                "sidecar.version": VERSION,
            }
        )
    return buffer.getvalue()
