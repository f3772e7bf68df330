"""Which of too many differences are stored: `core.comparison.results.differences.choose_rows`.

A cut decides for single rows, so it can be computed over all rows and used in every task. A cut
over some of the rows never refuses a row that the cut over all rows allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from datarecs_core.comparison.planning.plan import PRESENCE, ROWS, Caps
from datarecs_kernel.columns import Flags, Numbers
from datarecs_kernel.layout import Layout
from datarecs_kernel.ranks import Ranks

NO_SIZE = -1.0
"""Size of differences without a delta: below every |delta|."""
_HIGHEST = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Choices:
    """The input of the choice, row by row."""

    ranks: Ranks
    """Of their groups."""
    sizes: NDArray[np.float64]
    """The largest |delta|, or NO_SIZE."""
    measures: Numbers
    """Indexes in `measure_names`."""

    def __len__(self) -> int:
        return len(self.ranks)

    def take(self, at: Flags | Numbers) -> "Choices":
        """Rows with a flag, or at these places."""
        return Choices(self.ranks[at], self.sizes[at], self.measures[at])


NO_CHOICES = Choices(np.zeros(0, np.uint64), np.zeros(0), np.zeros(0, np.int64))


def joined(parts: Sequence[Choices]) -> Choices:
    """All rows of some columns."""
    parts = [NO_CHOICES, *parts]
    return Choices(
        np.concatenate([each.ranks for each in parts]),
        np.concatenate([each.sizes for each in parts]),
        np.concatenate([each.measures for each in parts]),
    )


def measure_names(layout: Layout) -> list[str]:
    """Names of all measures, in the order that decides between equal ranks."""
    return sorted({PRESENCE, ROWS, *(each.plan.name for each in layout.measures)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The last rows that are stored."""

    sizes: tuple[float, ...]
    """Per measure, the smallest size of the rows stored for their size; NaN without any."""
    ranks: tuple[int, ...]
    """Per measure, the largest rank of the rows with that size."""
    last: tuple[int, int] | None
    """Rank and measure of the last row stored for its rank; None without any."""

    def allows(self, rows: Choices) -> Flags:
        """The rows that are stored."""
        return self.allows_size(rows) | self.allows_rank(rows)

    def allows_size(self, rows: Choices) -> Flags:
        """The rows among the largest of their measure."""
        sizes = np.array(self.sizes)[rows.measures]
        ranks = np.array(self.ranks, np.uint64)[rows.measures]
        ties = (rows.sizes == sizes) & (rows.ranks <= ranks)
        return np.asarray((rows.sizes > sizes) | ties)

    def allows_rank(self, rows: Choices) -> Flags:
        """The rows of the groups with the smallest ranks."""
        if self.last is None:
            return np.zeros(len(rows), np.bool_)
        rank, measure = np.uint64(self.last[0]), self.last[1]
        ties = (rows.ranks == rank) & (rows.measures <= measure)
        return np.asarray((rows.ranks < rank) | ties)


def candidate_cut(rows: Choices, caps: Caps, measures: int) -> Cut:
    """A cut that allows every row that may be stored, for any later rows.

    Args:
        rows: differences so far.
        caps: of the stage.
        measures: the number of names.
    """
    is_large = largest(rows, caps)
    cut = _cut(rows, is_large, caps, measures)
    most = min(caps.largest_per_measure, caps.max_rows)
    counts = np.bincount(rows.measures[is_large], minlength=measures)
    # A measure with fewer rows than its limit accepts any later size.
    sizes = np.where(counts < most, NO_SIZE / 2, cut.sizes)
    cut = replace(cut, sizes=tuple(sizes.tolist()))
    if len(rows) < max(caps.max_rows, int(np.count_nonzero(is_large))):
        return replace(cut, last=(_HIGHEST, measures))
    return cut


def final_cut(rows: Choices, caps: Caps, measures: int) -> Cut:
    """A cut that allows exactly the stored rows, of all rows or those of an earlier cut."""
    chosen = np.flatnonzero(largest(rows, caps))
    if len(chosen) > caps.max_rows:
        chosen = chosen[_by_turn(rows.take(chosen))][: caps.max_rows]
    is_large = np.zeros(len(rows), np.bool_)
    is_large[chosen] = True
    return _cut(rows, is_large, caps, measures)


def largest(rows: Choices, caps: Caps) -> Flags:
    """The rows of each measure that are stored for their size."""
    most = min(caps.largest_per_measure, caps.max_rows)
    flags = np.zeros(len(rows), np.bool_)
    for measure in np.unique(rows.measures) if most else ():
        at = np.flatnonzero((rows.measures == measure) & (rows.sizes >= 0))
        flags[at[_top(rows.sizes[at], rows.ranks[at], most)]] = True
    return flags


def _top(sizes: NDArray[np.float64], ranks: Ranks, most: int) -> Flags:
    """The largest rows; of equal sizes those with the smallest ranks."""
    if len(sizes) <= most:
        return np.ones(len(sizes), np.bool_)
    smallest = np.partition(sizes, -most)[-most]
    flags = np.asarray(sizes > smallest)
    ties, left = np.flatnonzero(sizes == smallest), most - np.count_nonzero(flags)
    flags[ties[np.argpartition(ranks[ties], left - 1)[:left]]] = True
    return flags


def _by_turn(rows: Choices) -> Numbers:
    """Positions of the largest rows: the first of each measure, then the second, and so on."""
    order = np.lexsort((rows.ranks, -rows.sizes, rows.measures))
    measures = rows.measures[order]
    starts = np.flatnonzero(np.diff(measures, prepend=-1))
    turns = np.empty(len(order), np.int64)
    turns[order] = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
    return np.lexsort((rows.measures, rows.ranks, turns))


def _cut(rows: Choices, is_large: Flags, caps: Caps, measures: int) -> Cut:
    large = rows.take(is_large)
    sizes, ranks = [float("nan")] * measures, [0] * measures
    for measure in np.unique(large.measures).tolist():
        of_measure = large.take(large.measures == measure)
        smallest = of_measure.sizes.min()
        sizes[measure] = float(smallest)
        ranks[measure] = int(of_measure.ranks[of_measure.sizes == smallest].max())
    last = _last_by_rank(rows.take(~is_large), max(caps.max_rows - len(large), 0))
    return Cut(sizes=tuple(sizes), ranks=tuple(ranks), last=last)


def _last_by_rank(rows: Choices, room: int) -> tuple[int, int] | None:
    """Rank and measure of the last of `count` rows."""
    room = min(room, len(rows))
    if not room:
        return None
    rank = np.partition(rows.ranks, room - 1)[room - 1]
    left = room - np.count_nonzero(rows.ranks < rank)
    return int(rank), int(np.sort(rows.measures[rows.ranks == rank])[left - 1])
