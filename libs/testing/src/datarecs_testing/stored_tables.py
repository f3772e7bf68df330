"""Small tables as files: pinned Parquet of a source, or an extract of the product.

Every second table comes as an extract and the others as pinned files, so both readers meet every
case; types that only one of them has decide for it.
"""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_core.comparison.planning.scan import Extract, FileList, PinnedFile, Scan
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.types import CLOCK_TIMES, CanonicalType, TypeKind
from datarecs_testing.tables import NOON, Table

_ARROW = {
    TypeKind.BOOL: pa.bool_(),
    TypeKind.INT: pa.int64(),
    TypeKind.FLOAT64: pa.float64(),
    TypeKind.FLOAT32: pa.float32(),
    TypeKind.BINARY: pa.binary(),
    TypeKind.DATE: pa.date32(),
    TypeKind.TIME: pa.time64("us"),
    TypeKind.INSTANT: pa.timestamp("us", tz="UTC"),
    TypeKind.LOCAL_TIMESTAMP: pa.timestamp("us"),
}
_FINER = {
    TypeKind.TIME: pa.time64("ns"),
    TypeKind.INSTANT: pa.timestamp("ns", tz="UTC"),
    TypeKind.LOCAL_TIMESTAMP: pa.timestamp("ns"),
}
_MICROS = 6
"""Digits of a second."""
_SPLIT_ROWS = 4
"""Number of rows from which a pinned table is stored in two files."""


def stored_scan(scan: Scan, table: Table, folder: Path) -> Scan:
    """The table as files below the folder, and the scan that reads them."""
    folder.mkdir(parents=True)
    as_text = any(_is_written(kind) for _, kind in table.columns)
    if as_text or scan.index % 2:
        return _extracted(scan, table, folder)
    pinned = pa.table(
        [_column(table, at) for at in range(len(table.columns))],
        names=[name for name, _ in table.columns],
    )
    cuts = [pinned]
    if pinned.num_rows >= _SPLIT_ROWS:
        half = pinned.num_rows // 2
        cuts = [pinned.slice(0, half), pinned.slice(half)]
    files = [_file(cut, folder, f"part {at}.parquet") for at, cut in enumerate(cuts)]
    pin = FileList(root=str(folder), files=tuple(files), taken_at=NOON)
    return replace(scan, pin=pin)


def _extracted(scan: Scan, table: Table, folder: Path) -> Scan:
    """Columns by logical name, with a companion where some value is invalid."""
    names = [name for name, _ in table.columns]
    columns: dict[str, pa.Array] = {}
    invalid = []
    for wanted in scan.columns:
        at = names.index(str(wanted.physical))
        columns[wanted.name] = _column(table, at, without_invalid=True)
        broken = [value.raw if isinstance(value, Invalid) else None for value in _values(table, at)]
        if any(raw is not None for raw in broken):
            invalid.append(wanted.name)
            columns[f"$invalid.{wanted.name}"] = pa.array(broken, pa.binary())
    rows = pa.table(columns) if columns else pa.table({"none": pa.nulls(len(table.rows))})
    extract = Extract(
        root=str(folder),
        files=(_file(rows, folder, "part-00000.parquet"),),
        rows=len(table.rows),
        decoded_bytes=rows.nbytes,
        invalid_columns=tuple(sorted(invalid)),
    )
    return replace(scan, extract=extract)


def _file(rows: pa.Table, folder: Path, name: str) -> PinnedFile:
    pq.write_table(rows, folder / name)
    size = (folder / name).stat().st_size
    return PinnedFile(path=name, size_bytes=size, rows=rows.num_rows)


def _is_written(kind: CanonicalType) -> bool:
    """Held as text, which a plain Parquet column of that type is not."""
    bare = kind.kind is TypeKind.DECIMAL and kind.precision is None
    return bare or kind.kind in {TypeKind.UUID, TypeKind.JSON}


def _values(table: Table, at: int) -> list[object]:
    return [row[at] for row in table.rows]


def _column(table: Table, at: int, *, without_invalid: bool = False) -> pa.Array:
    kind = table.columns[at][1]
    values = _values(table, at)
    if kind.kind is TypeKind.TEXT:
        raw = [_bytes(value, without_invalid=without_invalid) for value in values]
        return pa.array(raw, pa.binary()).view(pa.string())
    plain = [None if isinstance(value, Invalid) else value for value in values]
    if _is_written(kind):
        return pa.array([None if value is None else _text(value) for value in plain], pa.string())
    if kind.kind is TypeKind.DECIMAL:
        return pa.array(plain, pa.decimal128(kind.precision or 0, kind.scale or 0))
    if kind.kind in CLOCK_TIMES and kind.second_digits > _MICROS:
        return pa.array(map(_nanos, plain), pa.int64()).cast(_FINER[kind.kind])
    return pa.array(plain, _ARROW[kind.kind])


def _nanos(micros: object) -> int | None:
    return int(micros * 1000) if isinstance(micros, Decimal) else None


def _bytes(value: object, *, without_invalid: bool) -> bytes | None:
    if isinstance(value, Invalid):
        return None if without_invalid else value.raw
    return None if value is None else str(value).encode()


def _text(value: object) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)
