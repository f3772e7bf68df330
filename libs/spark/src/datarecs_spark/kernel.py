"""The scan kernel: finds rows that may differ between sources, and tells the numbers of all others.

One task does all of it. Rows in the same order are compared in place (`pairing`), all others are
hashed and their hashes added up: a bucket whose weighted sums vanish holds the same rows in every
source, any other is open and its rows are written out, to be compared exactly. Numbers come back,
never rows.
"""

import os
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from datarecs_kernel.hash_sums import Flags, Hashes, Sums, have, repeated
from datarecs_spark.kernel_sql import UNREADABLE, SqlScanner, connected, reason_of
from datarecs_spark.kernel_work import (
    KERNEL_VERSION,
    READINGS,
    KernelAnswer,
    KernelSource,
    KernelTask,
    Numbers,
    Scanner,
    kept_file,
)
from datarecs_spark.row_counts import RowCount

_POLARS = {
    # Rows and row groups it reads ahead; its own values take more memory and no less time.
    "POLARS_IDEAL_MORSEL_SIZE": "20000",
    "POLARS_ROW_GROUP_PREFETCH_SIZE": "2",
    # Its allocator gives memory back at once, and takes it again for the next row group. A minute
    # lasts until the next run where runs follow each other; large pages then stay whole.
    "_RJEM_MALLOC_CONF": "narenas:1,dirty_decay_ms:60000,muzzy_decay_ms:60000,thp:always",
}
_NO_HASHES: Hashes = np.zeros(0, np.uint64)
_ALL_OPEN = Sums(1)
_ALL_OPEN.first += np.uint64(1)


def narrow(task: KernelTask) -> KernelAnswer:
    """Run the task; what goes wrong in it is an answer, for Spark then reads everything itself.

    Raises:
        OSError: the disk is full, which it would be for Spark as well.
    """
    # Polars looks for them once, when it is imported, which it is in a task alone.
    for name, value in {"POLARS_MAX_THREADS": str(task.threads), **_POLARS}.items():
        os.environ.setdefault(name, value)  # noqa: TID251 - written, not read
    from datarecs_spark import frame_columns, kernel_frames  # noqa: PLC0415 - as above

    if task.version != KERNEL_VERSION:
        return KernelAnswer(given_up=f"the kernel has version {KERNEL_VERSION}")
    try:
        if kernel_frames.frames_fit(task):
            return _Narrowing(task, kernel_frames.FrameScanner(task)).answer()
        with connected(task) as connection:
            return _Narrowing(task, SqlScanner(task, connection)).answer()
    except (*UNREADABLE, *frame_columns.UNREADABLE) as failure:
        return KernelAnswer(given_up=reason_of(failure))


class _Narrowing:
    """One task; numpy works on a thread of its own while rows are read on."""

    def __init__(self, task: KernelTask, scanner: Scanner) -> None:
        self.task, self.scanner = task, scanner
        self.fewest = min(range(len(task.sources)), key=lambda at: task.sources[at].rows)
        self.count = RowCount(task.directory, "kernel", readings=READINGS)

    def answer(self) -> KernelAnswer:
        with ThreadPoolExecutor(1) as beside:
            if self.task.alike:
                return self._one_for_all(beside)
            return self._of_all(beside)

    def _one_for_all(self, beside: Executor) -> KernelAnswer:
        """Of sources with the same files: no bucket is open, nothing is added."""
        source, *_ = self.task.sources
        keys: list[Hashes] = []

        def count(rows: int) -> None:
            self.count.add(rows * len(self.task.sources))

        once = self.scanner.ascending(source, count)
        if once is None:
            for key in self.scanner.keys(source):
                keys.append(key.copy())
                count(len(key))
        numbers = self.scanner.whole(source, self.scanner.numbers(source))
        none_open = np.zeros(2, np.bool_)
        told = [numbers] * len(self.task.sources)
        return self._told(self.scanner, beside, none_open, (once or 0, _sorted(keys)), told)

    def _of_all(self, beside: Executor) -> KernelAnswer:
        """By sums of the rows that are left once others were paired; of all where none were."""
        paired = self.scanner.paired(self.count.add)
        scanner = self.scanner if paired is None else paired.scanner
        done, once = ((), 0) if paired is None else (paired.keys, paired.once)
        if paired is not None and paired.all_differ:
            sums = _ALL_OPEN
            hashes = {at: self._keys(scanner, own) for at, own in enumerate(scanner.task.sources)}
        else:
            sums = Sums(scanner.task.bucket_bits)
            hashes = self._added(sums, scanner, beside, all_tell=paired is not None)
        buckets = sums.open()
        is_open = {at: buckets[sums.bucket(own)] for at, own in hashes.items()}
        keys = _sorted([*done, hashes[self.fewest][~is_open[self.fewest]]])
        kept = int(np.count_nonzero(is_open[self.fewest]))
        share = kept / max(once + len(keys) + kept, 1)
        if self.task.most_open is not None and share > self.task.most_open:
            return KernelAnswer(given_up=f"{share:.0%} of the rows are in open buckets")
        numbers = [scanner.numbers(source) for source in scanner.task.sources]
        if paired is not None:
            numbers = [each.plus(paired.numbers) for each in numbers]
            if any(have(keys, own[is_open[at]]) for at, own in hashes.items()):
                # Keys with rows of both kinds: all rows of open buckets, as if none were paired.
                keys, scanner = keys[~buckets[sums.bucket(keys)]], self.scanner
        whole = list(map(self.scanner.whole, self.task.sources, numbers))
        return self._told(scanner, beside, buckets, (once, keys), whole)

    def _keys(self, scanner: Scanner, source: KernelSource) -> Hashes:
        keys = [_NO_HASHES]
        for key in scanner.keys(source):
            keys.append(key.copy())
            self.count.add(len(key))
        return np.concatenate(keys)

    def _added(
        self, sums: Sums, scanner: Scanner, beside: Executor, *, all_tell: bool
    ) -> dict[int, Hashes]:
        """Add all rows of all sources; key hashes of those that tell them, at least the fewest."""
        hashes: dict[int, Hashes] = {}
        adding: Future[None] | None = None
        for index, source in enumerate(scanner.task.sources):
            left, keys = source.rows, []
            for key, first, second in scanner.hashed(source):
                if adding is not None:
                    adding.result()
                adding = beside.submit(sums.add, key, first, second, self.task.weights[index])
                keys.append(key.copy() if all_tell or index == self.fewest else _NO_HASHES)
                self.count.add(len(key))
                left -= len(key)
            self.count.add(left)  # behind conditions
            hashes[index] = np.concatenate([*keys, _NO_HASHES])
        if adding is not None:
            adding.result()
        return hashes

    def _told(
        self,
        scanner: Scanner,
        beside: Executor,
        buckets: Flags,
        closed: tuple[int, Hashes],
        numbers: Sequence[Numbers],
    ) -> KernelAnswer:
        """Keep the rows of open buckets; count the groups of closed ones.

        Of those: how many are known to have one row, and sorted keys of all others.
        """
        once, keys = closed
        counting = beside.submit(repeated, keys)
        kept = []
        for index, source in enumerate(scanner.task.sources):
            path = Path(self.task.directory) / kept_file(index)
            kept.append(scanner.keep(source, buckets, path))
            self.count.add(self.task.sources[index].rows)
        groups, groups_again = self._groups(*counting.result())
        return KernelAnswer(
            rows=tuple(each.rows for each in numbers),
            read=tuple(each.read for each in numbers),
            filtered=tuple(each.filtered for each in numbers),
            null_keys=tuple(each.null_keys for each in numbers),
            totals=tuple(each.totals for each in numbers),
            kept=tuple(kept),
            closed_groups=once + groups,
            closed_repeated=groups_again,
            open_buckets=int(np.count_nonzero(buckets)),
        )

    def _groups(self, once: int, again: Hashes) -> tuple[int, int]:
        """Groups of closed buckets and how many of them repeat; in all sources alike.

        A hash that occurs once is one key; those that occur again are counted by their keys.
        """
        if not len(again):
            return once, 0
        found, several = self.scanner.again(self.task.sources[self.fewest], again)
        return once + found, several


def _sorted(hashes: Sequence[Hashes]) -> Hashes:
    found = np.concatenate([*hashes, _NO_HASHES])
    found.sort()
    return found
