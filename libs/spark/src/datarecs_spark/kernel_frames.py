"""The kernel's readings by Polars: what one task reads of files whose row groups memory holds.

Polars decodes and hashes in two thirds of the time that DuckDB needs and salts every value by
itself, but knows no bound of memory and none of our conditions: the rest is left to `kernel`'s SQL.
Its own module because Polars is imported where it is used, in a task.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial, reduce
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from datarecs_core.values import EXACT
from datarecs_spark.forms import Form, FormKind
from datarecs_spark.hash_sums import HASH_BITS, Flags, Hashes
from datarecs_spark.kernel import (
    BATCH_ROWS,
    Hashed,
    KernelColumn,
    KernelSource,
    KernelTask,
    Numbers,
)

UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What files and values do to Polars."""
_MEMORY = 0.5
"""Share of the kernel's that one decoded row group may take; more of them are never held whole."""
_SUMMED_DIGITS = 31
"""Of a decimal that a batch of rows cannot take beyond 38."""


class TooLargeError(pl.exceptions.PolarsError):
    """A value or key is above its limit; Spark, which reads all rows instead, says which."""


def frames_fit(task: KernelTask) -> bool:
    """Polars can read it: no conditions, columns of known forms, row groups not too large."""
    return all(map(partial(_fits, task), task.sources))


def _fits(task: KernelTask, source: KernelSource) -> bool:
    if source.filter is not None or source.where is not None:
        return False
    if any(column.form is None for column in source.columns):
        return False
    summed = [source.values[at].form for at in task.totals]
    if any(form is None or form.precision > _SUMMED_DIGITS for form in summed):
        return False
    return source.group_bytes <= _MEMORY * task.memory_bytes


@dataclass(slots=True)
class _Told:
    """Numbers of the rows of a source."""

    rows: int = 0
    null_keys: int = 0
    totals: list[Decimal | None] = field(default_factory=list)


class FrameScanner:
    """Port Scanner by Polars."""

    def __init__(self, task: KernelTask) -> None:
        self.task = task
        self._told: dict[int, _Told] = {}

    def hashed(self, source: KernelSource) -> Iterator[Hashed]:
        salts = self.task.salts
        asked = {
            "key": key_hash(source, salts[2]),
            "first": first_hash(source, salts[0]),
            "second": second_hash(source, salts[1]),
        }
        for rows in self._rows(source, asked):
            key, first, second = (rows[name].to_numpy() for name in asked)
            yield key, first, second

    def keys(self, source: KernelSource) -> Iterator[Hashes]:
        # Bytes that are no text are INVALID, and never equal to the same bytes.
        texts = [_meeting(each).str.len_bytes() for each in source.columns if _is_text(each)]
        asked = {
            "key": key_hash(source, self.task.salts[2]),
            "texts": pl.sum_horizontal(texts or [pl.lit(0)]),
        }
        for rows in self._rows(source, asked):
            yield rows["key"].to_numpy()

    def _rows(self, source: KernelSource, asked: Mapping[str, pl.Expr]) -> Iterator[pl.DataFrame]:
        """Adds up the numbers of the source as well."""
        others = {
            "null": pl.any_horizontal(_meeting(each).is_null() for each in source.keys),
            "large": _too_large(source),
            **{f"total{at}": _meeting(source.values[at]) for at in self.task.totals},
        }
        told = _Told(totals=[None] * len(self.task.totals))
        columns = [column.alias(name) for name, column in {**asked, **others}.items()]
        with _failures():
            for rows in (
                _scan(source)
                .select(columns)
                .collect_batches(chunk_size=BATCH_ROWS, maintain_order=False)
            ):
                self._add(told, rows)
                yield rows
        self._told[id(source)] = told

    def numbers(self, source: KernelSource) -> Numbers:
        told = self._told[id(source)]
        exact = [None if each is None else format(each, "f") for each in told.totals]
        return told.rows, told.null_keys, tuple(exact)

    def read(self, source: KernelSource) -> tuple[int, int]:
        rows = self._told[id(source)].rows
        return rows, rows

    def keep(self, source: KernelSource, buckets: Flags, path: Path) -> int:
        names = {each.name: each.physical for each in source.columns}
        bucket = key_hash(source, self.task.salts[2]) // 2 ** (HASH_BITS - self.task.bucket_bits)
        listed = pl.Series(np.flatnonzero(buckets).astype(np.uint64))
        with _failures():
            rows = _scan(source) if len(listed) else _scan(source).head(0)
            kept = rows.filter(bucket.is_in(listed.implode()))
            kept.select(pl.col(own).alias(name) for name, own in names.items()).sink_parquet(path)
        return int(pq.read_metadata(path).num_rows)

    def again(self, source: KernelSource, hashes: Hashes) -> tuple[int, int]:
        keys = [_meeting(each).alias(each.name) for each in source.keys]
        listed = pl.Series(hashes)
        with _failures():
            hashed = key_hash(source, self.task.salts[2])
            rows = _scan(source).filter(hashed.is_in(listed.implode()))
            counts = rows.select(keys).group_by(pl.all()).len("copies").collect(engine="streaming")
        return len(counts), int((counts["copies"] > 1).sum())

    def _add(self, told: _Told, rows: pl.DataFrame) -> None:
        if rows["large"].any():
            raise TooLargeError
        told.rows += len(rows)
        told.null_keys += int(rows["null"].sum())
        for place, at in enumerate(self.task.totals):
            column = rows[f"total{at}"]
            if column.null_count() < len(column):
                whole = column.cast(pl.Int128) if column.dtype.is_integer() else column
                total = told.totals[place] or Decimal(0)
                told.totals[place] = EXACT.add(total, Decimal(whole.sum()))


def _scan(source: KernelSource) -> pl.LazyFrame:
    return pl.scan_parquet(list(source.files), glob=False, hive_partitioning=False)


def _meeting(column: KernelColumn) -> pl.Expr:
    """A value in the form of all sources; equal exactly when values are canonically equal."""
    found = pl.col(column.physical)
    form = column.form or Form(kind=FormKind.TEXT)
    match form.kind:
        case FormKind.INTEGER:
            return found.cast(pl.Int64)
        case FormKind.DECIMAL:
            return found.cast(pl.Decimal(form.precision, form.scale))
        case FormKind.DOUBLE:
            return found.cast(pl.Float64)
        case FormKind.UUID:
            return found.str.replace_all("-", "", literal=True).str.to_lowercase()
        case _:
            return found


def key_hash(source: KernelSource, salt: int) -> pl.Expr:
    """64 bits of the key."""
    return _hashed(source.keys, salt)


def first_hash(source: KernelSource, salt: int) -> pl.Expr:
    """64 bits of key and values."""
    return _hashed(source.columns, salt)


def second_hash(source: KernelSource, salt: int) -> pl.Expr:
    """Another 64 bits of the same, from the last column to the first."""
    return _hashed(source.columns[::-1], salt)


def _hashed(columns: Sequence[KernelColumn], salt: int) -> pl.Expr:
    """Each value by a function of its own.

    Hashed once more at last: sums of sums would not see values that two rows have swapped.
    """
    values = [_meeting(each) for each in columns]
    *seeds, outer = np.random.PCG64(salt).random_raw(len(values) + 1).tolist()
    hashes = [value.hash(seed) for value, seed in zip(values, seeds, strict=True)]
    return pl.sum_horizontal(hashes).hash(outer)


def _too_large(source: KernelSource) -> pl.Expr:
    """The row holds a value, or has a key, above its limit."""
    sizes = {each.name: _size(each) for each in source.columns if each.size is not None}
    keys = [sizes[each.name].fill_null(0) for each in source.keys if each.size is not None]
    tests = [size > source.max_value_bytes for size in sizes.values()]
    if keys:
        tests.append(reduce(operator.add, keys) > source.max_key_bytes)
    return pl.any_horizontal(tests) if tests else pl.lit(value=False)


def _is_text(column: KernelColumn) -> bool:
    return column.form is not None and column.form.kind in {FormKind.TEXT, FormKind.UUID}


def _size(column: KernelColumn) -> pl.Expr:
    value = _meeting(column)
    binary = column.form is not None and column.form.kind is FormKind.BINARY
    return value.bin.size() if binary else value.str.len_bytes()


@contextmanager
def _failures() -> Iterator[None]:
    """Polars tells of a cut file as the operating system does of a full disk; `reason_of` knows.

    Raises:
        pl.exceptions.PolarsError: in place of OSError.
    """
    try:
        yield
    except OSError as failure:
        raise pl.exceptions.ComputeError(str(failure)) from None
