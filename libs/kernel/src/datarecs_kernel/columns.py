"""Columns as judging holds them: counts and flags of numpy, and values of sources place by place.

A place is where one row of every source meets; what stands there may be equal or not.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


def flags_of(told: pa.Array) -> Flags:
    """Of an array without NULL."""
    return np.asarray(told.to_numpy(zero_copy_only=False), dtype=np.bool_)


class Values(NamedTuple):
    """Of one source, place by place; NULL has neither a value nor a payload."""

    plain: pa.Array
    payloads: pa.Array | None = None
    """Of INVALID values."""

    def take(self, at: Numbers) -> "Values":
        own = pa.array(at)
        return Values(
            self.plain.take(own), None if self.payloads is None else self.payloads.take(own)
        )

    @property
    def is_invalid(self) -> Flags:
        if self.payloads is None:
            return np.zeros(len(self.plain), np.bool_)
        return flags_of(pc.is_valid(self.payloads))

    @property
    def is_null(self) -> Flags:
        return flags_of(pc.is_null(self.plain)) & ~self.is_invalid

    def differs(self, other: "Values") -> Flags:
        told = distinct(self.plain, other.plain)
        if self.payloads is None:
            return told
        return told | distinct(self.payloads, other.payloads)


def distinct(one: pa.Array, other: pa.Array) -> Flags:
    """SQL's IS DISTINCT FROM; two NaN are distinct here, and equal to core's rules."""
    unequal = pc.not_equal(one, other)
    if not unequal.null_count:
        return flags_of(unequal)
    unequal = pc.fill_null(unequal, fill_value=True)
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return flags_of(pc.and_not(unequal, both_null))


class Runs:
    """Places that belong to the same group, one behind another."""

    def __init__(self, groups: Numbers) -> None:
        self._starts = np.flatnonzero(np.diff(groups, prepend=-1))
        self._places = np.arange(len(groups))
        self.groups = groups[self._starts]

    @property
    def edges(self) -> list[int]:
        """First place of each group, and the end."""
        return [*self._starts.tolist(), len(self._places)]

    def all_of(self, flags: Flags) -> Flags:
        """By group, whether it is so at all of its places."""
        return np.logical_and.reduceat(flags, self._starts)

    def first_of(self, flags: Flags) -> Numbers:
        """By group, its first place at which it is so, else its first place."""
        found = np.where(flags, self._places, len(self._places))
        first = np.minimum.reduceat(found, self._starts)
        return np.where(first < len(self._places), first, self._starts)
