"""Statistics of one file from its rows: nulls, bounds, widths and different values of columns.

Every source hands over typed columns, batch by batch, so a value counts alike from Parquet, CSV,
JSON and lake tables, and memory is bounded by a batch. Figures are exact, or absent.
NaN is greater than every other number, and text is ordered by code points:

    with statistics_engine() as engine:
        figures = engine.of_file([("id", INT), ("name", TEXT)], batches)
        CapturedFile(rows=figures.rows, columns=figures.columns, …)

`batches` are pairs of a number of rows and one `TypedColumn` per column. The statistics of files
are merged by `datarecs_core.captures.aggregates.ColumnMerge`.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from datarecs_connectors.arrow_types import plain_column
from datarecs_connectors.capturing.sketches import Hasher, Hashes, SmallestHashes
from datarecs_connectors.nested_columns import encoded_column
from datarecs_connectors.typed_text import TypedColumn
from datarecs_core.captures.aggregates import most_different, ndv_text, width_text
from datarecs_core.captures.bounds import ORDERED, bound_text
from datarecs_core.catalog.records import ScalarStats
from datarecs_core.comparison.values.canonical import canonical_text
from datarecs_core.comparison.values.translating import translation
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind

StatColumn = tuple[str, CanonicalType | None]
"""Name and type; None for a column that cannot be read: it has its rows and no other figure."""
RowBatch = tuple[int, Sequence[TypedColumn | None]]
"""Number of rows, and one column per StatColumn; None for one without type, which is not read."""
_WIDTHS = {
    TypeKind.BOOL: 1,
    TypeKind.INT: 8,
    TypeKind.FLOAT64: 8,
    TypeKind.FLOAT32: 4,
    TypeKind.UUID: 16,
    TypeKind.DATE: 4,
    TypeKind.TIME: 8,
    TypeKind.INSTANT: 8,
    TypeKind.LOCAL_TIMESTAMP: 8,
}
"""Bytes of a value; texts, bytes and nested values have their own length."""
_DECIMAL_WIDTHS = ((9, 4), (18, 8), (38, 16))
_MICRO_EXPONENTS = {"s": 6, "ms": 3, "us": 0, "ns": -3}
_BY_VALUE = frozenset({types.NUMERIC, types.JSON})
"""Types with texts that mean the same value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFigures:
    """The figures of one file."""

    rows: int
    columns: tuple[ScalarStats, ...]
    is_complete: bool
    """False: a figure is absent because a value or a type of a column does not allow it."""


@dataclass(frozen=True, slots=True)
class StatisticsEngine:
    """Computes figures, one file after the other."""

    _hasher: Hasher

    def of_file(self, columns: Sequence[StatColumn], batches: Iterable[RowBatch]) -> FileFigures:
        """Read all batches once.

        Raises what reading a batch raises.
        """
        counters = [_Counter(name=name, kind=kind) for name, kind in columns]
        rows = 0
        for count, batch in batches:
            rows += count
            hashed = [
                (counter, values)
                for counter, column in zip(counters, batch, strict=True)
                if (values := counter.add(column)) is not None
            ]
            hashes = self._hasher.hashes([values for _, values in hashed])
            for (counter, _), batch_hashes in zip(hashed, hashes, strict=True):
                counter.add_hashes(batch_hashes)
        return FileFigures(
            rows=rows,
            columns=tuple(counter.scalar(rows) for counter in counters),
            is_complete=all(counter.is_complete for counter in counters),
        )


@contextmanager
def statistics_engine() -> Iterator[StatisticsEngine]:
    """One engine for all files of a process."""
    with Hasher.opened() as hasher:
        yield StatisticsEngine(hasher)


@dataclass(slots=True, kw_only=True)
class _Counter:
    """One column of one file."""

    name: str
    kind: CanonicalType | None
    nulls: int = 0
    nans: int = 0
    has_invalid: bool = False
    """A value has no canonical form."""
    values: int = 0
    bytes: int = 0
    lowest: object = None
    highest: object = None
    smallest: SmallestHashes = field(default_factory=SmallestHashes)

    def add(self, column: TypedColumn | None) -> pa.Array | None:
        """The values to be hashed; None if the number of different values is unknown anyway."""
        if self.kind is None or column is None:
            return None
        broken = 0 if column.invalid is None else len(column.invalid) - column.invalid.null_count
        self.nulls += column.values.null_count - broken
        self.has_invalid = self.has_invalid or broken > 0
        if self.has_invalid:
            return None
        plain = _plain_values(column.values, self.kind)
        if plain is None:
            self.has_invalid = True
            return None
        self._measure(plain, self.kind, _micro_exponent(column.values.type))
        return plain

    def add_hashes(self, hashes: Hashes) -> None:
        self.smallest.add(hashes)

    def _measure(self, plain: pa.Array, kind: CanonicalType, exponent: int) -> None:
        count = len(plain) - plain.null_count
        if not count:
            return
        self.values += count
        width = fixed_width(kind)
        self.bytes += width * count if width else int(pc.sum(pc.binary_length(plain)).as_py())
        if kind.kind in ORDERED:
            self._extend(plain, kind, exponent)

    def _extend(self, plain: pa.Array, kind: CanonicalType, exponent: int) -> None:
        nans = int(pc.sum(pc.is_nan(plain)).as_py() or 0) if kind.is_float else 0
        self.nans += nans
        if nans:
            plain = plain.filter(pc.invert(pc.is_nan(plain)))
            if len(plain) == plain.null_count:
                return
        low, high = _extremes(plain, kind)
        if kind.is_time:
            low, high = (Decimal(cast("int", one)).scaleb(exponent) for one in (low, high))
        self.lowest = low if self.lowest is None else min(low, self.lowest)  # type: ignore[call-overload]  # of one type
        self.highest = high if self.highest is None else max(high, self.highest)  # type: ignore[call-overload]  # of one type

    @property
    def is_complete(self) -> bool:
        if self.kind is None or self.has_invalid:
            return False
        is_ordered = self.kind.kind in ORDERED and self.values > 0
        return not is_ordered or None not in self._bounds(self.kind)

    def _bounds(self, kind: CanonicalType) -> tuple[str | None, str | None]:
        if kind.kind not in ORDERED or not self.values:
            return None, None
        low = float("nan") if self.lowest is None else self.lowest
        high = float("nan") if self.nans else self.highest
        if kind.kind is TypeKind.TEXT:
            low, high = (cast("bytes", one).decode() for one in (low, high))
        return bound_text(low, kind), bound_text(high, kind)

    def scalar(self, rows: int) -> ScalarStats:
        if self.kind is None:
            return ScalarStats(name=self.name, type="unsupported", rows=rows)
        if self.has_invalid:
            return ScalarStats(name=self.name, type=str(self.kind), rows=rows, nulls=self.nulls)
        low, high = self._bounds(self.kind)
        sketch = self.smallest.sketch
        return ScalarStats(
            name=self.name,
            type=str(self.kind),
            rows=rows,
            nulls=self.nulls,
            nans=self.nans if self.kind.is_float else None,
            ndv=ndv_text(sketch, self.values, most_different(str(self.kind), low, high)),
            ndv_method=sketch.method,
            min=low,
            max=high,
            average_width=width_text(self.bytes, self.values) if self.values else None,
            sketch=sketch.to_bytes(),
        )


def fixed_width(kind: CanonicalType) -> int:
    """Bytes of every value; 0 if they differ."""
    if kind.kind is TypeKind.DECIMAL and kind.precision is not None:
        return next(width for digits, width in _DECIMAL_WIDTHS if kind.precision <= digits)
    return _WIDTHS.get(kind.kind, 0)


def _plain_values(values: pa.Array, kind: CanonicalType) -> pa.Array | None:
    """Equal values of a type in one form, which can be hashed; None with an INVALID value.

    Times become whole numbers of their unit, nested values their encodings.
    """
    if pat.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pat.is_null(values.type) or kind.kind is TypeKind.NULL:
        return pa.nulls(len(values), pa.bool_())
    if kind.members:
        return _encodings(values, kind)
    return _by_value(values, kind) if kind in _BY_VALUE else _simple_values(values, kind)


def _simple_values(values: pa.Array, kind: CanonicalType) -> pa.Array:
    if kind.is_time:
        return _ticks(values)
    if kind.kind is TypeKind.DECIMAL:
        return values.cast(pa.decimal128(cast("int", kind.precision), cast("int", kind.scale)))
    return pc.ascii_lower(values) if kind.kind is TypeKind.UUID else values


def _micro_exponent(kind: pa.DataType) -> int:
    """Microseconds per unit of a clock time, as a power of ten; 0 for other types."""
    return _MICRO_EXPONENTS[kind.unit] if pat.is_timestamp(kind) or pat.is_time(kind) else 0


def _ticks(values: pa.Array) -> pa.Array:
    if pat.is_date(values.type):
        return values.cast(pa.date32()).cast(pa.int32())
    if pat.is_time32(values.type):
        return values.cast(pa.int32()).cast(pa.int64())
    return values.cast(pa.int64())


def _encodings(values: pa.Array, kind: CanonicalType) -> pa.Array | None:
    if pat.is_binary(values.type):
        return values
    made = encoded_column(values, kind)
    is_whole = made.invalid is None or made.invalid.null_count == len(made.invalid)
    return made.values if is_whole else None


def _by_value(values: pa.Array, kind: CanonicalType) -> pa.Array | None:
    """The canonical text of each value."""
    coded = values.dictionary_encode()
    translate = translation(kind, "")
    translated = [translate(value) for value in plain_column(coded.dictionary)]
    if any(value.is_invalid for value in translated):
        return None
    texts = pa.array([canonical_text(value) for value in translated], pa.string())
    return texts.take(coded.indices)


def _extremes(plain: pa.Array, kind: CanonicalType) -> tuple[object, object]:
    """Smallest and largest value; of text its bytes, of times their whole numbers."""
    if kind == types.NUMERIC:
        numbers = [Decimal(text) for text in plain.unique().drop_null().to_pylist()]
        return min(numbers), max(numbers)
    if kind.kind is TypeKind.TEXT:
        plain = plain.cast(pa.binary())
    extremes = pc.min_max(plain)
    return extremes["min"].as_py(), extremes["max"].as_py()
