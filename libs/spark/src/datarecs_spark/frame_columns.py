"""What the kernel asks of files in Polars' language: canonical values, hashes, numbers.

Apart from those who ask, because rows are read for their hashes, to be paired and to be kept.
"""

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import reduce
from typing import cast

import numpy as np
import polars as pl

from datarecs_core.values import EXACT
from datarecs_kernel.forms import Form, FormKind
from datarecs_spark.frame_conditions import frame_condition
from datarecs_spark.kernel_work import (
    KernelColumn,
    KernelSource,
    KernelTask,
    Numbers,
)

UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What files and values do to Polars."""
_MOST = 2**63
"""No sum of 64 bits has this size."""


class TooLargeError(pl.exceptions.PolarsError):
    """A value or key is above its limit; Spark, which reads all rows instead, says which."""


@contextmanager
def failures() -> Iterator[None]:
    """Polars tells of a cut file as the operating system does of a full disk; `reason_of` knows.

    Raises:
        pl.exceptions.PolarsError: in place of OSError.
    """
    try:
        yield
    except OSError as failure:
        raise pl.exceptions.ComputeError(str(failure)) from None


def scan(source: KernelSource) -> pl.LazyFrame:
    """The rows that the stage looks at, in the order of the files."""
    rows = pl.scan_parquet(
        list(source.files),
        glob=False,
        hive_partitioning=False,
        use_statistics=not any(each.reads_texts for each in source.conditions),
    )
    return rows.filter(*map(frame_condition, source.conditions))


def meeting(column: KernelColumn) -> pl.Expr:
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


def whole_key(source: KernelSource) -> pl.Expr:
    """Of a source that `has_numbers`."""
    return meeting(source.keys[0])


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
    values = [meeting(each) for each in columns]
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


def is_text(column: KernelColumn) -> bool:
    return column.form is not None and column.form.kind in {FormKind.TEXT, FormKind.UUID}


def _size(column: KernelColumn) -> pl.Expr:
    value = meeting(column)
    binary = column.form is not None and column.form.kind is FormKind.BINARY
    return value.bin.size() if binary else value.str.len_bytes()


class Ascent:
    """Whether whole numbers that come in pieces grow from row to row, and none is NULL."""

    def __init__(self) -> None:
        self._last: int | None = None

    def goes_on(self, numbers: pl.Series) -> bool:
        """With the next rows."""
        if numbers.null_count():
            return False
        if not len(numbers):
            return True
        found = numbers.to_numpy()
        before, self._last = self._last, int(found[-1])
        return (before is None or found[0] > before) and bool((found[1:] > found[:-1]).all())


class Adding:
    """Numbers of rows as they come, in the columns of `told_columns`.

    Args:
        totals: positions in a source's values of what is added up.
    """

    def __init__(self, totals: Sequence[int]) -> None:
        self._names = [f"total{at}" for at in totals]
        self.names = ("null", "large", *self._names)
        self._totals = dict.fromkeys(self._names, Decimal(0))
        self._known = dict.fromkeys(self._names, 0)
        self._rows = self._null_keys = 0

    def add(self, rows: Mapping[str, pl.Series] | pl.DataFrame, sign: int = 1) -> None:
        """Add rows, or take them away with the sign -1.

        Raises:
            TooLargeError: some value or key is.
        """
        if rows["large"].any():
            raise TooLargeError
        self._rows += sign * len(rows["null"])
        self._null_keys += sign * int(rows["null"].sum())
        for name in self._names:
            column = rows[name]
            known = len(column) - column.null_count()
            if known:
                self._totals[name] = EXACT.add(self._totals[name], _total(column) * sign)
                self._known[name] += sign * known

    def numbers(self) -> Numbers:
        return Numbers(
            read=self._rows,
            filtered=self._rows,
            rows=self._rows,
            null_keys=self._null_keys,
            totals=tuple(
                format(total, "f") if self._known[name] else None
                for name, total in self._totals.items()
            ),
        )


def told_columns(task: KernelTask, source: KernelSource) -> dict[str, pl.Expr]:
    """What `Adding` adds up."""
    return {
        "null": pl.any_horizontal(meeting(each).is_null() for each in source.keys),
        "large": _too_large(source),
        **{f"total{at}": meeting(source.values[at]) for at in task.totals},
    }


def _total(column: pl.Series) -> Decimal:
    """Exact, of a column of integers or decimals with some value."""
    if column.dtype.is_integer():
        most = max(abs(int(cast("int", each))) for each in (column.min(), column.max()))
        if most * len(column) >= _MOST:
            column = column.cast(pl.Int128)
    return Decimal(column.sum())
