"""Rows that stand in the same order in all sources: compared value by value while they are read.

Copies and exports mostly keep an order. Where keys run alike in all sources, rows are compared in
place, which takes a fraction of what their hashes take, and equal ones are done with: they would
add nothing to any sum, and no second reading looks for them. What is left, rows that differ, that
some source lacks or that stand elsewhere, goes on to the sums as files of its own. Where that is
more than a few, nothing is gained, and all rows go there.

Whole numbers that ascend in some source, as keys of databases do, are not even hashed: none comes
twice there, and rows meet by their keys however many of them another source lacks.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from datarecs_kernel.hash_sums import Flags, Hashes, Keys, have
from datarecs_spark.frame_columns import (
    Adding,
    Ascent,
    failures,
    key_hash,
    meeting,
    scan,
    told_columns,
    whole_key,
)
from datarecs_spark.kernel_work import KernelTask, Paired, Scanner
from datarecs_spark.left_rows import LeftRows

_WINDOW = 200_000
"""Rows of a source that are looked at together, at most."""
_LEAST_WINDOW = 5_000
"""Of rows so wide that fewer fit into memory, none are paired."""
_GROUPS = 5
"""Row groups of a source that are in memory at a time, from bytes read to columns decoded."""
_WINDOWS = 4
"""Windows of a source that memory would have to hold."""
_RUN = 16_384
"""Rows that are compared in one step, which caches hold."""
_SHORTEST = 1_000
"""Rows of a run, on average, below which hashing them is quicker, or to let each meet by key."""
_DENSE = 4
"""Numbers between the first key and the last for every key: up to so many a table has them all."""
_REACHES = (16, 256, 4_096, _WINDOW)
"""Rows of each source among which the next is sought that all of them have."""
_MOST_LEFT = 0.25
"""Of the rows looked at; above it sources have no order in common."""
_PIECE = 5_000
"""Rows that are left together."""
_FEW = 1_000
"""Rows of a window that are left."""
_BUCKET_BITS = 6
"""More than the rows that are left have: few other keys are then kept with theirs."""


Places = npt.NDArray[np.intp]
_NOWHERE: Places = np.zeros(0, np.intp)
_NO_NUMBERS = np.zeros(0, np.int64)


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
        pairing = _found(task, window, count)
        if pairing is None:
            return None
        sources = tuple(walk.left.written() for walk in pairing.walks)
    # Also those that conditions leave out.
    count(sum(rows) - pairing.read - sum(source.rows for source in sources))
    bits = max(source.rows for source in sources).bit_length() + _BUCKET_BITS
    left = replace(task, sources=sources, bucket_bits=min(task.bucket_bits, bits))
    keys = pairing.done_keys()
    return Paired(
        scanner=scanner(left),
        keys=() if keys is None else keys,
        once=sum(map(len, pairing.keys)) if keys is None else 0,
        all_differ=pairing.all_differ(),
        numbers=pairing.adding.numbers(),
    )


def _found(task: KernelTask, window: int, count: Callable[[int], None]) -> "_Pairing | None":
    """All the way; None where sources have no order in common."""
    have_numbers = all(source.has_numbers for source in task.sources)
    ascending = [at for at, each in enumerate(task.sources) if each.ascends and have_numbers]
    for first in (*ascending[:1], None):
        pairing = _Pairing(task, window, count, first)
        if pairing.run():
            return pairing
        count(-pairing.read)
        if not pairing.is_disorder:
            break
    return None


class _DisorderError(Exception):
    """Keys do not ascend, or one is NULL, other than footers tell."""


class _Walk:
    """One source on its way: rows from `at` on were not looked at."""

    def __init__(
        self,
        task: KernelTask,
        index: int,
        window: int,
        adding: Adding | None,
        *,
        by_numbers: bool,
    ) -> None:
        source, self.adding = task.sources[index], adding
        self._ascent = Ascent() if by_numbers and adding is not None else None
        self._by_numbers = by_numbers
        own = {f"own{at}": pl.col(column.physical) for at, column in enumerate(source.columns)}
        compared = source.values if by_numbers else source.columns
        met = {f"met{at}": meeting(column) for at, column in enumerate(compared)}
        key = whole_key(source) if by_numbers else key_hash(source, task.salts[2])
        asked = {**own, **met, "key": key}
        if adding is not None:
            asked |= told_columns(task, source)
        self._own, self._met = list(own), list(met)
        self._takes = [*own, *(() if adding is None else adding.names)]
        rows = scan(source).select([column.alias(name) for name, column in asked.items()])
        self._batches = rows.collect_batches(chunk_size=window, maintain_order=True)
        self._rows = self._values = pl.DataFrame(schema=rows.collect_schema())
        self._places: list[Places] = []
        self._lacking: list[Keys] = []
        self.left = LeftRows(source, Path(task.directory) / f"left-{index}.parquet")
        self.keys: Keys = self._rows["key"].to_numpy()
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
            self._check(more["key"])
            if self.adding is not None:
                self.adding.add(more)
            self.let_go()
            rest = self._rows[self.at :]
            self._rows = pl.concat([rest, more], rechunk=True) if len(rest) else more
            self.keys, self.at = self._rows["key"].to_numpy(), 0
            self._values = self._rows[self._met]
        return self.ahead - before

    def _check(self, keys: pl.Series) -> None:
        if self._by_numbers and keys.null_count():
            raise _DisorderError
        if self._ascent is not None and not self._ascent.goes_on(keys):
            raise _DisorderError

    def values(self, rows: int) -> Sequence[pl.Series]:
        """Of the next rows, in the form of all sources."""
        return self._values.slice(self.at, rows).get_columns()

    def values_at(self, places: Places) -> Iterator[pl.Series]:
        """Of rows at some places from here; a column at a time, which caches then hold."""
        wanted = pl.Series(places.astype(np.uint32))
        near = self.values(int(places.max()) + 1)
        # In one piece: to look for each place in pieces takes longer than to copy them.
        whole = (column if column.n_chunks() == 1 else column.rechunk() for column in near)
        return (column[wanted] for column in whole)

    def look_at(self, rows: int, unlike: Places, lacking: Places = _NOWHERE) -> None:
        """Be done with the next rows, but for those at some places from here: they are left."""
        for places in (unlike, lacking):
            if len(places):
                self._places.append(self.at + places)
                self.left.rows += len(places)
        if len(lacking) and self._by_numbers:
            self._lacking.append(self.keys[self.at + lacking])
        self.at += rows
        self.looked_at += rows

    def all_lacking(self) -> Keys:
        """Numbers of rows that not every source was seen to have, sorted."""
        found = np.concatenate([*self._lacking, _NO_NUMBERS])
        found.sort()
        return found

    def lack(self, rows: int) -> None:
        """Leave the next rows."""
        self.look_at(rows, _NOWHERE, np.arange(rows))

    def let_go(self) -> None:
        """Write down what is left of the rows that are here."""
        places = np.sort(np.concatenate([*self._places, _NOWHERE]))
        self._places.clear()
        # As they lie in memory: to take rows from several pieces at once takes five times as long,
        # which is less than to ask each piece where rows are few.
        start = 0
        key = self._rows["key"]
        for length in key.chunk_lengths() if len(places) > _FEW else [len(key)]:
            first, end = np.searchsorted(places, (start, start + length))
            self._leave(start, length, places[first:end] - start)
            start += length

    def _leave(self, start: int, length: int, places: Places) -> None:
        """Of so many rows from a place on."""
        taken = pl.Series(places.astype(np.uint32))
        near = {name: self._rows[name].slice(start, length) for name in self._takes}
        # Few at a time: texts that many rows share are then each row's own. Column by column: the
        # threads that take whole frames are busy reading.
        for at in range(0, len(taken) + 1, _PIECE):
            piece = taken[at : at + _PIECE]
            self.left.add([near[name][piece] for name in self._own])
        if self.adding is not None and len(taken):
            self.adding.add({name: near[name][taken] for name in self.adding.names}, -1)


class _Pairing:
    """All sources at once, from their first rows to their last."""

    def __init__(
        self, task: KernelTask, window: int, count: Callable[[int], None], ascending: int | None
    ) -> None:
        # Rows that are done with have the same numbers in all sources: the first tells them.
        self.adding, self.count, self.by_numbers = Adding(task.totals), count, ascending is not None
        first = ascending or 0
        self.source, self.salt = task.sources[first], task.salts[2]
        self.walks = [
            _Walk(
                task, at, window, self.adding if at == first else None, by_numbers=self.by_numbers
            )
            for at in range(len(task.sources))
        ]
        self.first = self.walks[first]
        self.others = [walk for walk in self.walks if walk is not self.first]
        self.reaches = [each for each in _REACHES if each < window] + [window]
        self.keys: list[Keys] = []
        self.read = self.runs = 0
        self.is_disorder = False

    def done_keys(self) -> Sequence[Hashes] | None:
        """Hashes of the keys of rows that are done with; None where no source has one again."""
        if not self.by_numbers:
            return [keys.view(np.uint64) for keys in self.keys]
        if not any(self._has_done(walk.all_lacking()) for walk in self.others):
            return None
        (key,) = self.source.keys
        done = pl.DataFrame({key.physical: np.concatenate(self.keys)})
        return [done.select(key_hash(self.source, self.salt)).to_series().to_numpy()]

    def _has_done(self, wanted: Keys) -> bool:
        for keys in filter(len, self.keys):
            start, end = (
                np.searchsorted(wanted, keys[0]),
                np.searchsorted(wanted, keys[-1], "right"),
            )
            if have(keys, wanted[start:end]):
                return True
        return False

    def all_differ(self) -> bool:
        """No row that is left can be equal to one elsewhere in another source."""
        if not self.by_numbers:
            return False
        lacking = combinations([walk.all_lacking() for walk in self.walks], 2)
        return not any(have(one, other) for one, other in lacking)

    def run(self) -> bool:
        """Whether sources have an order in common; then every row is done with, or left."""
        try:
            return self._run()
        except _DisorderError:
            self.is_disorder = True
            return False

    def _run(self) -> bool:
        while self._have(1):
            rows = self._alike()
            is_short = self.by_numbers and rows < _SHORTEST and self._are_short()
            if not (is_short and self._meet()):
                if rows:
                    self._compare(rows)
                else:
                    self._go_on()
            if self._is_in_vain():
                return False
        for walk in self.walks:
            while walk.ahead:
                walk.lack(walk.ahead)
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
        first, *others = (walk.keys[walk.at :][:most] for walk in self.walks)
        unlike = reduce(np.logical_or, (first != each for each in others))
        at = int(unlike.argmax())
        return at if unlike[at] else most

    def _compare(self, rows: int) -> None:
        unlike = _unlike(rows, [walk.values(rows) for walk in (self.first, *self.others)])
        self._done(self.first.keys[self.first.at :][:rows], unlike)
        places = np.flatnonzero(unlike)
        for walk in self.walks:
            walk.look_at(rows, places)
        self.runs += 1

    def _done(self, keys: Keys, unlike: Flags) -> None:
        self.keys.append(keys[~unlike])

    def _meet(self) -> bool:
        """Compare rows by their keys up to the last that meets; whether one does."""
        keys = self.first.keys[self.first.at :][:_RUN]
        places = [_places(keys, walk.keys[walk.at :][:_RUN]) for walk in self.others]
        meets = np.flatnonzero(reduce(np.logical_and, (own >= 0 for own in places)))
        if not len(meets):
            return False
        met = [(self.first, meets)]
        met += ((walk, own[meets]) for walk, own in zip(self.others, places, strict=True))
        unlike = _unlike(len(meets), [walk.values_at(own) for walk, own in met])
        self._done(keys[meets], unlike)
        for walk, own in met:
            rows = int(own.max()) + 1
            lacks = np.ones(rows, np.bool_)
            lacks[own] = False
            walk.look_at(rows, own[unlike], np.flatnonzero(lacks))
        self.runs += 1 + len(meets) // _SHORTEST
        return True

    def _go_on(self) -> None:
        """To the next row that all sources have; those before it are left."""
        places = next(filter(None, map(self._first_common, self.reaches)), None)
        for index, walk in enumerate(self.walks):
            rows = min(walk.ahead, self.reaches[-1]) if places is None else places[index]
            walk.lack(rows)

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

    def _looked_at(self) -> int:
        return self.reaches[-1] + max(walk.looked_at for walk in self.walks)

    def _are_short(self) -> bool:
        """Runs are, on average."""
        return self.runs * _SHORTEST > self._looked_at()

    def _is_in_vain(self) -> bool:
        """To hash all rows is quicker than to go on."""
        left = max(walk.left.rows for walk in self.walks)
        is_long = self.by_numbers or not self._are_short()
        return not is_long or left > _MOST_LEFT * self._looked_at()


def _unlike(rows: int, sources: Sequence[Iterable[pl.Series]]) -> Flags:
    """Where some value is not the same in all sources, from the columns of each."""
    found: pl.Series | None = None
    for one, *others in zip(*sources, strict=True):
        for two in others:
            if not one.equals(two, null_equal=True):
                differs = one != two
                if differs.null_count():
                    differs = one.ne_missing(two)
                found = differs if found is None else found | differs
    if found is None:
        return np.zeros(rows, np.bool_)
    # By Arrow: Polars would wait for the threads that are busy reading.
    flags: Flags = found.to_arrow().to_numpy(zero_copy_only=False)
    return flags


def _places(keys: Keys, among: Keys) -> Places:
    """Where each of ascending keys first stands among others, -1 where it does not."""
    span = int(keys[-1]) - int(keys[0]) + 1
    if span <= _DENSE * len(keys):
        # By the number itself; those below the first wrap around and are beyond any span.
        found, wanted = among - keys[0], keys - keys[0]
        meets = np.flatnonzero(found.view(np.uint64) < span)
    else:
        span = len(keys)
        found, wanted = np.searchsorted(keys, among), np.arange(span)
        meets = np.flatnonzero(keys[np.minimum(found, span - 1)] == among)
    first = np.full(span, -1)
    # Of several places the one that is written last.
    first[found[meets[::-1]]] = meets[::-1]
    places: Places = first[wanted]
    return places


def _first_places(keys: Keys) -> dict[int, int]:
    return dict(zip(keys[::-1].tolist(), range(len(keys) - 1, -1, -1), strict=True))
