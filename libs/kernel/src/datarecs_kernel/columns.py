"""Columns for judging: counts and flags as numpy arrays, and values of sources per place.

A place pairs one row of every source; the paired values may be equal or not.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


def flags_of(flags: pa.Array) -> Flags:
    """The numpy array of an Arrow array without NULL."""
    return np.asarray(flags.to_numpy(zero_copy_only=False), dtype=np.bool_)


class Values(NamedTuple):
    """Values of one source per place; NULL has neither a value nor a payload, INVALID no value."""

    plain: pa.Array
    payloads: pa.Array | None = None
    """Of INVALID values."""

    def take(self, at: Numbers) -> "Values":
        places = pa.array(at)
        payloads = self.payloads
        if payloads is not None:
            payloads = payloads.take(places) if self.has_invalid else None
        return Values(self.plain.take(places), payloads)

    @property
    def has_invalid(self) -> bool:
        return self.payloads is not None and self.payloads.null_count < len(self.payloads)

    @property
    def is_invalid(self) -> Flags:
        if not self.has_invalid:
            return np.zeros(len(self.plain), np.bool_)
        return flags_of(pc.is_valid(self.payloads))

    @property
    def is_null(self) -> Flags:
        if not self.plain.null_count:
            return np.zeros(len(self.plain), np.bool_)
        return flags_of(pc.is_null(self.plain)) & ~self.is_invalid

    def differs(self, other: "Values") -> Flags:
        unequal = distinct(self.plain, other.plain)
        if not self.has_invalid and not other.has_invalid:
            return unequal
        if self.payloads is None or other.payloads is None:
            return unequal | self.is_invalid | other.is_invalid
        return unequal | distinct(self.payloads, other.payloads)


def distinct(one: pa.Array, other: pa.Array) -> Flags:
    """SQL's IS DISTINCT FROM; two NaN are distinct here, but equal by core's rules."""
    unequal = pc.not_equal(one, other)
    if not unequal.null_count:
        return flags_of(unequal)
    unequal = pc.fill_null(unequal, fill_value=True)
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return flags_of(pc.and_not(unequal, both_null))


class Runs:
    """The consecutive places of each group."""

    def __init__(self, groups: Numbers) -> None:
        is_first = np.ones(len(groups), np.bool_)
        is_first[1:] = groups[1:] != groups[:-1]
        self._places = np.arange(len(groups))
        self._starts: Numbers | None = None
        """None if every group has one place."""
        self.groups = groups
        if not is_first.all():
            self._starts = np.flatnonzero(is_first)
            self.groups = groups[self._starts]

    def all_of(self, flags: Flags) -> Flags:
        """Per group, whether the flag is set at all of its places."""
        if self._starts is None:
            return flags
        return np.logical_and.reduceat(flags, self._starts)

    def first_of(self, flags: Flags) -> Numbers:
        """Per group, its first place with the flag set, else its first place."""
        if self._starts is None:
            return self._places
        chosen = np.where(flags, self._places, len(self._places))
        first = np.minimum.reduceat(chosen, self._starts)
        return np.where(first < len(self._places), first, self._starts)
