"""Differences with references to their groups' keys: counted immediately, written when stored.

Every difference needs a few numbers here. Texts are made later, and only for the chosen places,
because a report shows few of many differences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_kernel.columns import Flags, Numbers
from datarecs_kernel.whole_units import Integers, Units, times, unit_texts

NOBODY = -1
"""Index that means no source."""
KINDS = tuple(DifferenceClass)
"""Classes by their numbers in columns."""
_PERCENT_PLACES = 6
"""Digits after the point of percentages; more digits are truncated."""


class SourceTexts(NamedTuple):
    """Texts of one source, and the rows with a text; a text may be NULL."""

    source: int
    texts: pa.Array
    where: Flags


By = tuple[SourceTexts, ...]
"""Texts per source with texts, in ascending order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTexts:
    """All texts of some differences, one row per difference."""

    values: By = ()
    raw: By = ()
    """Texts before rules, if a rule changed the value."""
    deltas: By = ()
    """Other minus reference, if both have a difference."""
    percents: By = ()


class Texts(Protocol):
    """Makes the texts of differences, by their places."""

    def written(self, at: Numbers) -> WrittenTexts: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Groups missing in a source, or one measure of matched groups."""

    measure: str
    groups: Numbers
    """Rows of their keys."""
    presence: Numbers
    kinds: Numbers
    """Places in `KINDS`."""
    within: Flags
    odd: Numbers
    """Index of the odd one out, or NOBODY."""
    sizes: pa.Array
    """The doubles nearest to the largest |delta|, in its order; NULL without deltas."""
    texts: Texts

    def __len__(self) -> int:
        return len(self.groups)

    def written(self, at: Numbers) -> WrittenTexts:
        """Texts of the differences at these places."""
        return self.texts.written(at)


class NoTexts:
    """Texts of differences without values, only with a class."""

    def written(self, at: Numbers) -> WrittenTexts:  # noqa: ARG002 - the same whatever the places
        return WrittenTexts()


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Texts of differences with row counts as values."""

    sizes: Numbers
    """By difference and source."""
    reference: int | None = None
    """Index of the reference for deltas; None if a source has no row."""

    def written(self, at: Numbers) -> WrittenTexts:
        sizes = self.sizes[at]
        values = tuple(
            SourceTexts(index, unit_texts(each, 0), each > 0) for index, each in enumerate(sizes.T)
        )
        if self.reference is None:
            return WrittenTexts(values=values)
        changes = self._changes(at, self.reference)
        base = sizes[:, self.reference]
        deltas, percents = delta_texts(changes, 0), percent_texts(changes, base)
        return WrittenTexts(values=values, deltas=deltas, percents=percents)

    def _changes(self, at: Numbers, reference: int) -> dict[int, Units]:
        everywhere = np.ones(len(at), np.bool_)
        return changes_of([Units(each, everywhere) for each in self.sizes[at].T], reference)


def kinds_of(kind: DifferenceClass, rows: int) -> Numbers:
    """A column of one class."""
    return np.full(rows, KINDS.index(kind))


def no_sizes(rows: int) -> pa.Array:
    """A column of sizes without deltas."""
    return pa.nulls(rows, pa.float64())


def changes_of(units: Sequence[Units], reference: int) -> dict[int, Units]:
    """Other minus reference if both have a difference, by index of the other source."""
    base, has_base = units[reference]
    return {
        index: Units(np.where(known & has_base, numbers - base, 0), known & has_base)
        for index, (numbers, known) in enumerate(units)
        if index != reference
    }


def largest_change(changes: Mapping[int, Units]) -> Units:
    """The largest |delta| of each place, and whether one exists."""
    sizes = reduce(np.maximum, (np.abs(each.numbers) for each in changes.values()))
    return Units(sizes, reduce(np.logical_or, (each.known for each in changes.values())))


def delta_texts(changes: Mapping[int, Units], scale: int) -> By:
    """Deltas in stored form, from units of 10^-scale."""
    return tuple(
        SourceTexts(index, unit_texts(change, scale), known)
        for index, (change, known) in changes.items()
    )


def percent_texts(changes: Mapping[int, Units], base: Integers) -> By:
    """Percent of |base|, truncated to six places; none for base 0."""
    size = np.abs(base)
    return tuple(
        SourceTexts(
            index, unit_texts(_percents(change, size), _PERCENT_PLACES), known & (base != 0)
        )
        for index, (change, known) in changes.items()
    )


def _percents(changes: Integers, base: Integers) -> Integers:
    """Percentages in units of their places, truncated towards zero; undefined for base 0."""
    sizes = times(np.abs(changes), 100 * 10**_PERCENT_PLACES) // np.maximum(base, 1)
    return sizes * np.sign(changes)
