"""Arithmetic on the hashes of rows and keys, with numpy: what differs, and which keys repeat.

Apart from the kernel, which reads and hashes, because nothing here knows a column or a file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

HASH_BITS = 64

Hashes = npt.NDArray[np.uint64]
Keys = Hashes | npt.NDArray[np.int64]
"""Their hashes; or themselves, where they are whole numbers."""
Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Sums:
    """Per bucket the weighted sums of both hashes of its rows, modulo 2^64."""

    bits: int
    first: Hashes = field(init=False)
    second: Hashes = field(init=False)

    def __post_init__(self) -> None:
        self.first = np.zeros(1 << self.bits, np.uint64)
        self.second = np.zeros(1 << self.bits, np.uint64)

    def bucket(self, keys: Hashes) -> npt.NDArray[np.intp]:
        """The upper bits of the key's hash; the type in which numpy takes positions as they are."""
        return (keys >> np.uint64(HASH_BITS - self.bits)).view(np.intp)

    def add(self, keys: Hashes, first: Hashes, second: Hashes, weight: int) -> None:
        """Add rows of one source."""
        buckets, factor = self.bucket(keys), np.uint64(weight)
        np.add.at(self.first, buckets, first * factor)
        np.add.at(self.second, buckets, second * factor)

    def open(self) -> Flags:
        """Buckets in which sources may differ."""
        flags: Flags = (self.first != 0) | (self.second != 0)
        return flags


def have(keys: Keys, wanted: Keys) -> bool:
    """Whether sorted keys have any of these."""
    ordered = np.sort(wanted)  # Neighbours are then found where caches hold them.
    places = np.searchsorted(keys, ordered)
    inside = places < len(keys)
    return bool((keys[places[inside]] == ordered[inside]).any())


def repeated(hashes: Hashes) -> tuple[int, Hashes]:
    """Of sorted hashes: how many occur once, and the others, each told once and in order."""
    again = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    first, behind = (np.searchsorted(hashes, again, place) for place in ("left", "right"))
    return len(hashes) - int((behind - first).sum()), again


def weights_for(sources: int, draws: Sequence[int]) -> tuple[int, ...]:
    """Weights that add up to 0 modulo 2^64, from one draw per source but the last.

    All but the last are odd: a row that one source alone has cannot vanish unless its hash is 0.
    """
    first = [draw % 2**HASH_BITS | 1 for draw in draws[: sources - 1]]
    return (*first, -sum(first) % 2**HASH_BITS)
