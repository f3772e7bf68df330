"""Arithmetic on the hashes of rows and keys, with numpy: which buckets differ, which keys repeat.

Separate from reading and hashing because this module uses no columns and no files.
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
        """The upper bits of the key's hash, in the type that numpy uses for positions."""
        return (keys >> np.uint64(HASH_BITS - self.bits)).view(np.intp)

    def add(self, keys: Hashes, rows: Hashes, weight: int) -> None:
        """Add rows of one source, by the hashes of their keys."""
        np.add.at(self._sums, self.bucket(keys), rows * np.uint64(weight))

    def open(self) -> Flags:
        """Buckets in which sources may differ."""
        flags: Flags = self._sums != 0
        return flags


def repeated(hashes: Hashes) -> tuple[int, Hashes]:
    """The number of hashes that occur once, and the distinct repeated ones; both sorted."""
    again = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    first, behind = (np.searchsorted(hashes, again, place) for place in ("left", "right"))
    return len(hashes) - int((behind - first).sum()), again


def weights_for(sources: int, draws: Sequence[int]) -> tuple[int, ...]:
    """Weights with the sum 0 modulo 2^64, from one random number per source except the last.

    All but the last are odd: a row of only one source cannot cancel unless its hash is 0.
    """
    first = [draw % 2**HASH_BITS | 1 for draw in draws[: sources - 1]]
    return (*first, -sum(first) % 2**HASH_BITS)
