"""Rows that stand in the same order in all sources: compared value by value while they are read.

Copies and exports mostly keep an order. Where keys run alike in all sources, rows are compared in
place, which takes a fraction of what their hashes take, and equal ones are done with: they would
add nothing to any sum, and no second reading looks for them. What is left, rows that differ, that
some source lacks or that stand elsewhere, goes on to the sums as files of its own. Where that is
more than a few, nothing is gained, and all rows go there.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_spark.frame_columns import Adding, failures, key_hash, meeting, scan, told_columns
from datarecs_spark.hash_sums import Flags, Hashes
from datarecs_spark.kernel_work import KernelSource, KernelTask, Paired, Scanner

_WINDOW = 200_000
"""Rows of a source that are looked at together, at most."""
_LEAST_WINDOW = 5_000
"""Of rows so wide that fewer fit into memory, none are paired."""
_GROUPS = 5
"""Row groups of a source that are in memory at a time, from bytes read to columns decoded."""
_WINDOWS = 4
"""Windows of a source that memory would have to hold."""
_RUN = 8_192
"""Rows that are compared in one step, which caches hold."""
_SHORTEST = 1_000
"""Rows of a run, on average, below which hashing them is quicker."""
_REACHES = (16, 256, 4_096, _WINDOW)
"""Rows of each source among which the next is sought that all of them have."""
_MOST_LEFT = 0.25
"""Of the rows looked at; above it sources have no order in common."""
_WRITTEN_BYTES = 2**24
"""Of what is left, before it is written."""
_PIECE = 5_000
"""Rows that are left together."""
_BUCKET_BITS = 6
"""More than the rows that are left have: few other keys are then kept with theirs."""


Places = npt.NDArray[np.intp]
_NOWHERE: Places = np.zeros(0, np.intp)


def paired(
    task: KernelTask, count: Callable[[int], None], scanner: Callable[[KernelTask], Scanner]
) -> Paired | None:
    """Compare what stands in the same order.

    Args:
        task: whose sources Polars may read.
        count: is told of rows that are done with; of more on the way, which are taken back.
        scanner: of the rows that are left.

    Returns:
        None where sources have no order in common.

    Raises:
        pl.exceptions.PolarsError: a source cannot be read.
    """
    rows = [source.rows for source in task.sources]
    groups = sum(source.group_bytes for source in task.sources)
    width = sum(source.decoded_bytes / max(source.rows, 1) for source in task.sources)
    window = min(_WINDOW, int(task.memory_bytes / max(_WINDOWS * width, 1)))
    is_large = _GROUPS * groups > task.memory_bytes or window < _LEAST_WINDOW
    if is_large or max(rows) - min(rows) > _MOST_LEFT * max(rows):
        return None
    with failures():
        pairing = _Pairing(task, window, count)
        if not pairing.run():
            count(-pairing.read)
            return None
        sources = tuple(walk.left.written() for walk in pairing.walks)
    # Also those that conditions leave out.
    count(sum(rows) - pairing.read - sum(source.rows for source in sources))
    bits = max(source.rows for source in sources).bit_length() + _BUCKET_BITS
    left = replace(task, sources=sources, bucket_bits=min(task.bucket_bits, bits))
    return Paired(scanner=scanner(left), keys=pairing.keys, numbers=pairing.adding.numbers())


class _Left:
    """Rows of a source that are left, in a file, under the names that they have in the source."""

    def __init__(self, source: KernelSource, path: Path, names: Sequence[str]) -> None:
        self._source, self._path, self._names = source, path, names
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._bytes = 0
        self.rows = 0

    def add(self, columns: Sequence[pl.Series]) -> None:
        # In Arrow's own layout: Polars' would hold on to all texts that were read with these.
        oldest = pl.CompatLevel.oldest()
        table = pa.table([each.to_arrow(compat_level=oldest) for each in columns], self._names)
        self._waiting.append(table)
        self._bytes += table.nbytes
        if self._bytes > _WRITTEN_BYTES:
            self._write()

    def _write(self) -> None:
        table = pa.concat_tables(self._waiting)
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._path, table.schema, compression="lz4", use_dictionary=False
            )
        self._writer.write_table(table)
        self._waiting.clear()
        self._bytes = 0

    def written(self) -> KernelSource:
        """Everything; nothing more comes."""
        if self._waiting:
            self._write()
        if self._writer is not None:
            self._writer.close()
        files = (str(self._path),)
        return replace(self._source, files=files, rows=self.rows, filter=None, where=None)


class _Walk:
    """One source on its way: rows from `at` on were not looked at."""

    def __init__(self, task: KernelTask, index: int, window: int, adding: Adding | None) -> None:
        source, self.adding = task.sources[index], adding
        physical = list(dict.fromkeys(column.physical for column in source.columns))
        own = {f"own{at}": pl.col(name) for at, name in enumerate(physical)}
        met = {f"met{at}": meeting(column) for at, column in enumerate(source.columns)}
        asked = {**own, **met, "key": key_hash(source, task.salts[2])}
        if adding is not None:
            asked |= told_columns(task, source)
        self._own, self._met = list(own), list(met)
        rows = scan(source).select([column.alias(name) for name, column in asked.items()])
        self._batches = rows.collect_batches(chunk_size=window, maintain_order=True)
        self._rows = self._values = pl.DataFrame(schema=rows.collect_schema())
        self._places: list[Places] = []
        self.left = _Left(source, Path(task.directory) / f"left-{index}.parquet", physical)
        self.keys: Hashes = self._rows["key"].to_numpy()
        self.at = self.looked_at = 0
        self.is_read = False

    @property
    def ahead(self) -> int:
        """Rows that are here and were not looked at."""
        return len(self.keys) - self.at

    def have(self, rows: int) -> int:
        """Have so many ahead, or all that there are; how many were read."""
        before = self.ahead
        while self.ahead < rows and not self.is_read:
            more = next(self._batches, None)
            if more is None:
                self.is_read = True
                break
            if self.adding is not None:
                self.adding.add(more)
            self.let_go()
            rest = self._rows[self.at :]
            self._rows = pl.concat([rest, more], rechunk=True) if len(rest) else more
            self.keys, self.at = self._rows["key"].to_numpy(), 0
            self._values = self._rows[self._met]
        return self.ahead - before

    def values(self, rows: int) -> pl.DataFrame:
        """Of the next rows, in the form of all sources."""
        return self._values.slice(self.at, rows)

    def look_at(self, rows: int, places: Places) -> None:
        """Be done with the next rows, but for those at some places from here: they are left."""
        if len(places):
            self._places.append(self.at + places)
            self.left.rows += len(places)
        self.at += rows
        self.looked_at += rows

    def let_go(self) -> None:
        """Write down what is left of the rows that are here."""
        places = pl.Series(np.concatenate([*self._places, _NOWHERE]).astype(np.uint32))
        self._places.clear()
        # In pieces: texts that many rows share are then each row's own. Column by column: the
        # threads that take whole frames are busy reading.
        for at in range(0, len(places) + 1, _PIECE):
            piece = places[at : at + _PIECE]
            self.left.add([self._rows[name][piece] for name in self._own])
            if self.adding is not None:
                self.adding.add({name: self._rows[name][piece] for name in self.adding.names}, -1)


class _Pairing:
    """All sources at once, from their first rows to their last."""

    def __init__(self, task: KernelTask, window: int, count: Callable[[int], None]) -> None:
        # Rows that are done with have the same numbers in all sources: the first tells them.
        self.adding, self.count = Adding(task.totals), count
        self.walks = [
            _Walk(task, index, window, None if index else self.adding)
            for index in range(len(task.sources))
        ]
        self.reaches = [each for each in _REACHES if each < window] + [window]
        self.keys: list[Hashes] = []
        self.read = self.runs = 0

    def run(self) -> bool:
        """Whether sources have an order in common; then every row is done with, or left."""
        while self._have(1):
            rows = self._alike()
            if rows:
                self._compare(rows)
            else:
                self._go_on()
            if self._is_in_vain():
                return False
        for walk in self.walks:
            while walk.ahead:
                walk.look_at(walk.ahead, np.arange(walk.ahead))
                self._read(walk, 1)
            if self._is_in_vain():
                return False
            walk.let_go()
        return True

    def _have(self, rows: int) -> bool:
        """So many rows of every source, or all that it has; not if one has no more."""
        for walk in self.walks:
            self._read(walk, rows)
        return all(walk.ahead for walk in self.walks)

    def _read(self, walk: _Walk, rows: int) -> None:
        read = walk.have(rows)
        if read:
            self.read += read
            self.count(read)

    def _alike(self) -> int:
        """Rows from here on whose keys are the same in all sources."""
        most = min(_RUN, *(walk.ahead for walk in self.walks))
        first, *others = (walk.keys[walk.at : walk.at + most] for walk in self.walks)
        unlike = reduce(np.logical_or, (first != each for each in others))
        at = int(unlike.argmax())
        return at if unlike[at] else most

    def _compare(self, rows: int) -> None:
        first, *others = (walk.values(rows) for walk in self.walks)
        unlike = reduce(np.logical_or, (_unlike(first, each) for each in others))
        places = np.flatnonzero(unlike)
        keys = self.walks[0].keys[self.walks[0].at :][:rows]
        self.keys.append(keys[~unlike] if len(places) else keys)
        for walk in self.walks:
            walk.look_at(rows, places)
        self.runs += 1

    def _go_on(self) -> None:
        """To the next row that all sources have; those before it are left."""
        places = next(filter(None, map(self._first_common, self.reaches)), None)
        for index, walk in enumerate(self.walks):
            rows = min(walk.ahead, self.reaches[-1]) if places is None else places[index]
            walk.look_at(rows, np.arange(rows))

    def _first_common(self, reach: int) -> tuple[int, ...] | None:
        """Where all sources have the same key; of several places the one with the least before."""
        self._have(reach)
        first, *others = (
            _first_places(walk.keys[walk.at : walk.at + reach]) for walk in self.walks
        )
        common = (
            (at, *(places[key] for places in others))
            for key, at in first.items()
            if all(key in places for places in others)
        )
        return min(common, key=sum, default=None)

    def _is_in_vain(self) -> bool:
        """To hash all rows is quicker than to go on."""
        looked_at = self.reaches[-1] + max(walk.looked_at for walk in self.walks)
        left = max(walk.left.rows for walk in self.walks)
        return left > _MOST_LEFT * looked_at or self.runs * _SHORTEST > looked_at


def _unlike(first: pl.DataFrame, other: pl.DataFrame) -> Flags:
    """Where some value is not the same."""
    found = np.zeros(len(first), np.bool_)
    for one, two in zip(first.get_columns(), other.get_columns(), strict=True):
        if not one.equals(two, null_equal=True):
            # From here by Arrow: Polars would wait for the threads that are busy reading.
            differs = (one != two).to_arrow()
            if differs.null_count:
                differs = differs.fill_null(False)  # noqa: FBT003 - its form
                found |= one.is_null().to_numpy() != two.is_null().to_numpy()
            found |= differs.to_numpy(zero_copy_only=False)
    return found


def _first_places(keys: Hashes) -> dict[int, int]:
    return dict(zip(keys[::-1].tolist(), range(len(keys) - 1, -1, -1), strict=True))
