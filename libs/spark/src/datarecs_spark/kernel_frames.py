"""The kernel's readings by Polars: what one task reads of files whose row groups memory holds.

Polars decodes and hashes in two thirds of the time that DuckDB needs and salts every value by
itself, but knows no bound of memory: the rest is left to `kernel_sql`.
Its own module because Polars is imported where it is used, in a task.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from datarecs_kernel.hash_sums import HASH_BITS, Flags, Hashes
from datarecs_spark.frame_columns import (
    Adding,
    Ascent,
    failures,
    first_hash,
    is_text,
    key_hash,
    meeting,
    scan,
    second_hash,
    told_columns,
    whole_key,
)
from datarecs_spark.kernel_work import (
    BATCH_ROWS,
    Hashed,
    KernelSource,
    KernelTask,
    Numbers,
    Paired,
)
from datarecs_spark.pairing import paired

_MEMORY = 0.5
"""Share of the kernel's that one decoded row group may take; more of them are never held whole."""
_SUMMED_DIGITS = 31
"""Of a decimal that a batch of rows cannot take beyond 38."""


def frames_fit(task: KernelTask) -> bool:
    """Polars can read it: columns of known forms, row groups not too large."""
    return all(map(partial(_fits, task), task.sources))


def _fits(task: KernelTask, source: KernelSource) -> bool:
    if any(column.form is None for column in source.columns):
        return False
    summed = [source.values[at].form for at in task.totals]
    if any(form is None or form.precision > _SUMMED_DIGITS for form in summed):
        return False
    return source.group_bytes <= _MEMORY * task.memory_bytes


class FrameScanner:
    """Port Scanner by Polars."""

    def __init__(self, task: KernelTask) -> None:
        self.task = task
        self._told: dict[int, Adding] = {}

    def paired(self, count: Callable[[int], None]) -> Paired | None:
        return paired(self.task, count, FrameScanner)

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
        hashed = key_hash(source, self.task.salts[2])
        for rows in self._rows(source, {"key": hashed, "texts": _texts(source)}):
            yield rows["key"].to_numpy()

    def ascending(self, source: KernelSource, count: Callable[[int], None]) -> int | None:
        if not source.ascends:
            return None
        ascent, found = Ascent(), 0
        asked = {"key": whole_key(source), "texts": _texts(source)}
        for rows in self._rows(source, asked, in_order=True):
            if not ascent.goes_on(rows["key"]):
                count(-found)
                return None
            found += len(rows)
            count(len(rows))
        return found

    def _rows(
        self, source: KernelSource, asked: Mapping[str, pl.Expr], *, in_order: bool = False
    ) -> Iterator[pl.DataFrame]:
        """Adds up the numbers of the source as well."""
        told = Adding(self.task.totals)
        asked = {**asked, **told_columns(self.task, source)}
        with failures():
            for rows in (
                scan(source)
                .select([column.alias(name) for name, column in asked.items()])
                .collect_batches(chunk_size=BATCH_ROWS, maintain_order=in_order)
            ):
                told.add(rows)
                yield rows
        self._told[id(source)] = told

    def numbers(self, source: KernelSource) -> Numbers:
        return self._told[id(source)].numbers()

    def whole(self, source: KernelSource, numbers: Numbers) -> Numbers:
        if not source.conditions:
            return numbers
        before = replace(source, where=None)
        with failures():
            read = _rows(replace(before, filter=None))
            filtered = numbers.rows if source == before else _rows(before)
        return replace(numbers, read=read, filtered=filtered)

    def keep(self, source: KernelSource, buckets: Flags, path: Path) -> int:
        if source.is_left and buckets.all():
            Path(*source.files).rename(path)
            return source.rows
        names = {each.name: each.physical for each in source.columns}
        bucket = key_hash(source, self.task.salts[2]) // (2**HASH_BITS // len(buckets))
        listed = pl.Series(np.flatnonzero(buckets).astype(np.uint64))
        with failures():
            rows = scan(source) if len(listed) else scan(source).head(0)
            kept = rows.filter(bucket.is_in(listed.implode()))
            # Read once more and soon: in the quickest form.
            kept.select(pl.col(own).alias(name) for name, own in names.items()).sink_parquet(
                path, compression="lz4", statistics=False
            )
        return int(pq.read_metadata(path).num_rows)

    def again(self, source: KernelSource, hashes: Hashes) -> tuple[int, int]:
        keys = [meeting(each).alias(each.name) for each in source.keys]
        listed = pl.Series(hashes)
        with failures():
            hashed = key_hash(source, self.task.salts[2])
            rows = scan(source).filter(hashed.is_in(listed.implode()))
            counts = rows.select(keys).group_by(pl.all()).len("copies").collect(engine="streaming")
        return len(counts), int((counts["copies"] > 1).sum())


def _texts(source: KernelSource) -> pl.Expr:
    """Decodes all of them: bytes that are no text are INVALID, and never equal to the same."""
    texts = [meeting(each).str.len_bytes() for each in source.columns if is_text(each)]
    return pl.sum_horizontal(texts or [pl.lit(0)])


def _rows(source: KernelSource) -> int:
    return int(scan(source).select(pl.len()).collect().item())
