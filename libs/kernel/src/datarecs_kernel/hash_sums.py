"""Arithmetic on the hashes of rows and keys, with numpy: what differs, and which keys repeat.

Apart from the kernel, which reads and hashes, because nothing here knows a column or a file.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

HASH_BITS = 64

Hashes = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]


class Sums:
    """Per bucket the weighted sum of the hashes of its rows, modulo 2^64."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._sums = np.zeros(1 << bits, np.uint64)

    def bucket(self, keys: Hashes) -> npt.NDArray[np.intp]:
        """The upper bits of the key's hash; the type in which numpy takes positions as they are."""
        return (keys >> np.uint64(HASH_BITS - self.bits)).view(np.intp)

    def add(self, keys: Hashes, rows: Hashes, weight: int) -> None:
        """Add rows of one source, by the hashes of their keys."""
        np.add.at(self._sums, self.bucket(keys), rows * np.uint64(weight))

    def open(self) -> Flags:
        """Buckets in which sources may differ."""
        flags: Flags = self._sums != 0
        return flags


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
