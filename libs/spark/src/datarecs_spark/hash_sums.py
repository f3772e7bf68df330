"""Arithmetic on the hashes of rows and keys, with numpy: what differs, and which keys repeat.

Apart from the kernel, which reads and hashes, because nothing here knows a column or a file. All
arrays fit a processor's cache as far as they can: what costs is not adding but reaching memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

HASH_BITS = 64
_SLOT_BITS = 27
"""At most; of the table that tells hashes apart which occur once."""
_ROUNDS = 3
"""As many as 64 bits give different slots."""
_PIECE = 2**18
"""Hashes that are worked on at a time: what is made of them is small and stays in the cache."""

Kind = TypeVar("Kind", np.uint64, np.bool_)
Hashes = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Sums:
    """Per bucket the weighted sums of both hashes and of rows, all modulo a power of two."""

    bits: int
    first: Hashes = field(init=False)
    second: Hashes = field(init=False)
    counts: npt.NDArray[np.uint32] = field(init=False)

    def __post_init__(self) -> None:
        self.first = np.zeros(1 << self.bits, np.uint64)
        self.second = np.zeros(1 << self.bits, np.uint64)
        self.counts = np.zeros(1 << self.bits, np.uint32)

    def bucket(self, keys: Hashes) -> npt.NDArray[np.intp]:
        """The upper bits of the key's hash."""
        return _upper(keys, self.bits)

    def add(self, keys: Hashes, first: Hashes, second: Hashes, weight: int) -> None:
        """Add rows of one source."""
        buckets, factor = self.bucket(keys), np.uint64(weight)
        np.add.at(self.first, buckets, first * factor)
        np.add.at(self.second, buckets, second * factor)
        np.add.at(self.counts, buckets, np.uint32(weight % 2**32))

    def open(self) -> Flags:
        """Buckets in which sources may differ."""
        found: Flags = (self.first != 0) | (self.second != 0) | (self.counts != 0)
        return found


class Halves:
    """Sums by the upper and by the lower bits of the key's hash: a key is open where both are.

    Either of them closes a key, whose rows share both buckets. Two small tables keep fewer rows
    than one large table does: rows that do not differ meet one that does in both by chance alone.
    """

    def __init__(self, bits: int) -> None:
        """Args: bits: of each half, 1 to 32."""
        self._upper, self._lower = Sums(bits), Sums(bits)

    def add(self, keys: Hashes, first: Hashes, second: Hashes, weight: int) -> None:
        """Add rows of one source."""
        self._upper.add(keys, first, second, weight)
        self._lower.add(self._turned(keys), first, second, weight)

    def open_upper(self) -> Hashes:
        return np.flatnonzero(self._upper.open()).astype(np.uint64)

    def open_lower(self) -> Hashes:
        return np.flatnonzero(self._lower.open()).astype(np.uint64)

    def are_open(self, keys: Hashes) -> Flags:
        upper, lower = self._upper.open(), self._lower.open()
        found: Flags = np.zeros(len(keys), np.bool_)
        for piece, flags in zip(_pieces(keys), _pieces(found), strict=True):
            above = upper[self._upper.bucket(piece)]
            flags[:] = above & lower[self._lower.bucket(self._turned(piece))]
        return found

    def _turned(self, keys: Hashes) -> Hashes:
        """The lower bits to the top."""
        return keys << np.uint64(HASH_BITS - self._lower.bits)


def repeated(hashes: Hashes) -> tuple[int, Hashes]:
    """How many hashes occur once, and the others, each told once and in order.

    A hash alone in a slot of some of its bits occurs once; the few that never are get sorted. A
    slot of one byte counts; where 256 hashes meet, it would forget, and the rest is sorted.
    """
    rest = hashes
    for turn in range(_ROUNDS):
        bits = min(_SLOT_BITS, max(8, (2 * len(rest)).bit_length()))
        place = np.uint64(min(turn * _SLOT_BITS, HASH_BITS - bits))
        counts = np.zeros(1 << bits, np.uint8)
        for piece in _pieces(rest):
            np.add.at(counts, _upper(piece << place, bits), np.uint8(1))
        if int(counts.sum(dtype=np.int64)) < len(rest):
            break
        met = [piece[counts[_upper(piece << place, bits)] > 1] for piece in _pieces(rest)]
        rest = np.concatenate([rest[:0], *met])
    rest = np.sort(rest)
    starts = np.flatnonzero(np.diff(rest, prepend=rest[:1] - np.uint64(1)))
    sizes = np.diff(starts, append=len(rest))
    once = len(hashes) - len(rest) + int(np.count_nonzero(sizes == 1))
    return once, rest[starts[sizes > 1]]


def _pieces(whole: npt.NDArray[Kind]) -> Iterator[npt.NDArray[Kind]]:
    """Views of so many at a time, in order."""
    for start in range(0, len(whole), _PIECE):
        yield whole[start : start + _PIECE]


def _upper(hashes: Hashes, bits: int) -> npt.NDArray[np.intp]:
    """The type in which numpy takes positions without converting them."""
    return (hashes >> np.uint64(HASH_BITS - bits)).view(np.intp)
