"""The first reading of row stages: find the rows that may differ, for the exact comparison.

Every row is hashed once, and the weighted hashes of all sources are added per bucket of keys. If
the sum is zero, the bucket has the same rows in every source (it is closed); its rows are counted
and not read again. Closed buckets are accepted only if numbers without hashes agree: rows, NULL
keys and exact totals. Otherwise, or if too many rows remain, the exact comparison reads everything.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from math import log1p

import numpy as np
import pyarrow as pa

from datarecs_core.comparison.planning.strategies import FEWEST_ROWS
from datarecs_core.jobs.vocabulary import NullKeys
from datarecs_core.values import EXACT
from datarecs_kernel.database import Connection
from datarecs_kernel.hash_sums import HASH_BITS, Flags, Hashes, Sums, repeated
from datarecs_kernel.layout import Layout
from datarecs_kernel.repeated_keys import MOST_HASHES, key_hash, sorted_hashes
from datarecs_kernel.row_hashes import RowHashes, drawn_hashes
from datarecs_kernel.tallies import SourceTally, tally

_MOST_BITS = 24
"""128 MiB of sums."""
_BATCH_ROWS = 200_000
_OPEN = "open_buckets"
_NONE: Hashes = np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """When a first reading is worthwhile, and the numbers that check it."""

    tallies: Sequence[SourceTally]
    """Counts of all rows of each source, computed without hashes."""
    fewest_rows: int = FEWEST_ROWS
    most_open: float = 0.5
    """Share of rows above which a second reading of them costs more than it saves."""
    most_hashes: int = MOST_HASHES
    """Maximum number of key hashes in memory."""
    hashes: RowHashes | None = None
    """Random seeds; None generates them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """The result of a first reading."""

    relations: tuple[str, ...]
    """Per source: a table of the rows that may differ, with all columns."""
    equal_groups: int
    """Number of the other keys: each occurs once in every source, with equal values."""


@contextmanager
def narrowed(
    connection: Connection, layout: Layout, relations: Sequence[str], saving: Saving
) -> Iterator[Narrowed | None]:
    """Read every row once, and rows that may differ a second time; drop the tables at the end.

    Args:
        connection: with the relations, without concurrent queries.
        layout: of a stage that pairs rows.
        relations: one per source: the compared rows.
        saving: limits and checks of the reading.

    Yields:
        None where all rows must be compared exactly.
    """
    reading = _Reading(connection, layout, relations, saving)
    try:
        yield reading.narrowed() if reading.can_save else None
    finally:
        reading.drop()


class _Reading:
    def __init__(
        self, connection: Connection, layout: Layout, relations: Sequence[str], saving: Saving
    ) -> None:
        self.connection, self.layout, self.relations = connection, layout, relations
        self.saving, self.keys = saving, layout.key_names
        self.hashes = saving.hashes or drawn_hashes(len(relations))
        self.rows = [_compared_rows(layout, each) for each in saving.tallies]
        # Closed buckets have the same keys in all sources; the keys of this source are counted.
        self.smallest = min(layout.sources, key=lambda at: self.rows[at])

    @property
    def can_save(self) -> bool:
        layout = self.layout
        # If a measure is not comparable, every group is a difference.
        all_compared = len(layout.compared) == len(layout.measures)
        return bool(layout.keys) and all_compared and sum(self.rows) >= self.saving.fewest_rows

    def narrowed(self) -> Narrowed | None:
        sums, keys = self._added()
        is_open = sums.open()
        rows, most = self.rows[self.smallest], self.saving.most_open
        if _open_share(is_open, rows) > most:
            return None
        single = self._open_repeated(sums, is_open, keys)
        if rows - single > most * rows:
            return None
        self._read_open(is_open)
        groups = self._equal_groups()
        if groups is None:
            return None
        names = tuple(_table(at) for at in self.layout.sources)
        return Narrowed(relations=names, equal_groups=groups)

    def _added(self) -> tuple[Sums, Hashes]:
        """Sums of all rows of all sources, and the sorted key hashes of the smallest.

        For a source with very many rows, only the first share of its key hashes.
        """
        sums, keys = Sums(_bucket_bits(max(self.rows))), [_NONE]
        bits = self._share_bits
        for source, relation in enumerate(self.relations):
            columns = ", ".join(self.hashes.columns(self.layout, source))
            rows = self.connection.sql(f"SELECT {columns} FROM {relation}")
            for batch in rows.to_arrow_reader(_BATCH_ROWS):
                key, row = (column.to_numpy() for column in batch.columns)
                sums.add(key, row, self.hashes.weights[source])
                if source == self.smallest:
                    keys.append(
                        key[key >> np.uint64(HASH_BITS - bits) == 0] if bits else key.copy()
                    )
        hashes = np.concatenate(keys)
        hashes.sort()
        return sums, hashes

    @property
    def _share_bits(self) -> int:
        turns = -(-max(self.rows[self.smallest], 1) // self.saving.most_hashes)
        return (turns - 1).bit_length()

    def _open_repeated(self, sums: Sums, is_open: Flags, keys: Hashes) -> int:
        """Open the buckets of repeated keys; count the single keys of the smallest source."""
        relation, bits = self.relations[self.smallest], self._share_bits
        single = 0
        for share in range(2**bits):
            if share:
                keys = sorted_hashes(self.connection, relation, self.keys, (share, bits))
            once, again = repeated(keys)
            single += once
            is_open[sums.bucket(again)] = True
        return single

    def _read_open(self, is_open: Flags) -> None:
        buckets = pa.table({"h": np.flatnonzero(is_open).astype(np.uint64)})
        self.connection.register("buckets", buckets)
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {_OPEN} AS FROM buckets")
        self.connection.unregister("buckets")
        shift = HASH_BITS + 1 - len(is_open).bit_length()
        bucket = f"({key_hash([f'r.{key}' for key in self.keys])} >> {shift})"
        for source, relation in enumerate(self.relations):
            rows = f"SELECT r.* FROM {relation} r SEMI JOIN {_OPEN} b ON {bucket} = b.h"
            if not buckets.num_rows:
                rows = f"SELECT * FROM {relation} LIMIT 0"
            self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {_table(source)} AS {rows}")

    def _equal_groups(self) -> int | None:
        """Number of groups in closed buckets; None if counts of the sources disagree."""
        numbers = {
            self._closed(source, tally(self.connection, self.layout, source, _table(source)))
            for source in self.layout.sources
        }
        return numbers.pop()[0] if len(numbers) == 1 else None

    def _closed(self, source: int, left: SourceTally) -> tuple[int, int, tuple[Decimal, ...]]:
        """Rows, NULL keys and totals of a source in closed buckets."""
        whole = self.saving.tallies[source]
        excluded = self.layout.stage.null_keys is NullKeys.EXCLUDE
        totals = (
            EXACT.subtract(total, left.totals.get(measure, Decimal(0)))
            for measure, total in sorted(whole.totals.items())
        )
        nulls = 0 if excluded else whole.null_keys - left.null_keys
        return self.rows[source] - left.passed, nulls, tuple(totals)

    def drop(self) -> None:
        for name in (_OPEN, *map(_table, self.layout.sources)):
            self.connection.execute(f"DROP TABLE IF EXISTS {name}")


def _table(source: int) -> str:
    return f"open_rows_{source}"


def _compared_rows(layout: Layout, counted: SourceTally) -> int:
    excluded = layout.stage.null_keys is NullKeys.EXCLUDE
    return counted.passed - (counted.null_keys if excluded else 0)


def _bucket_bits(rows: int) -> int:
    """Bits for two to four buckets per row, so few equal rows share an open bucket."""
    return min(max(rows.bit_length() + 1, 1), _MOST_BITS)


def _open_share(is_open: Flags, rows: int) -> float:
    """Estimated rows of a source in open buckets, if differences are evenly distributed.

    A bucket of `rows / buckets` rows stays closed only if it contains no row that differs; an open
    bucket also contains equal rows.
    """
    share = float(is_open.mean())
    if share >= 1 or not rows:
        return share
    differing = min(-log1p(-share) * len(is_open) / rows, 1.0)
    return 1 - (1 - differing) * (1 - share)
