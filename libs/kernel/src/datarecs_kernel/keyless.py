"""What is stored of differences beside their groups' keys, in the words that are stored.

Columns with a row per difference, made of columns or, where core's rules judged, of judgements;
`written` puts them beside keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from datarecs_core.comparison.oracle.agreement import deltas
from datarecs_core.comparison.oracle.judging import MeasureJudgement
from datarecs_core.comparison.planning.plan import MeasurePlan, StagePlan
from datarecs_core.comparison.results.differences import delta_percent, masked
from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_core.comparison.values.canonical import canonical_text
from datarecs_core.documents import decimal_text
from datarecs_kernel.columns import Flags, Numbers
from datarecs_kernel.sort_keys import size_key_of
from datarecs_kernel.whole_units import Integers, Units, doubles_of, times, unit_keys, unit_texts

NOBODY = -1
"""Stands for the index of a source where there is none."""
KINDS = tuple(DifferenceClass)
"""By their numbers in columns."""
_PERCENT_PLACES = 6
"""To which percent are cut."""


class Given(NamedTuple):
    """Texts of one source, and in which rows it has one; a text may be NULL."""

    source: int
    texts: pa.Array
    where: Flags


By = tuple[Given, ...]
"""Of the sources that have some, in ascending order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deltas:
    """Other minus reference, where both can be subtracted."""

    deltas: By = ()
    percents: By = ()
    sizes: pa.Array | None = None
    """The largest |delta|, to be sorted by; NULL without deltas."""
    size_keys: pa.Array | None = None
    """The same, exactly (`sort_keys`)."""


NO_DELTAS = Deltas()


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Groups that some source lacks, or one measure of groups that every source has."""

    measure: str
    groups: Numbers
    """Rows of their keys."""
    presence: Numbers
    kinds: Numbers
    """Places in `KINDS`."""
    within: Flags
    odd: Numbers
    """Indexes of the odd sources, or NOBODY."""
    values: By = ()
    raw: By = ()
    """Before rules, where one changed the value."""
    deltas: Deltas = NO_DELTAS

    def __len__(self) -> int:
        return len(self.groups)


def kinds_of(kind: DifferenceClass, rows: int) -> Numbers:
    """A column of one class."""
    return np.full(rows, KINDS.index(kind))


def changes_of(units: Sequence[Units], reference: int) -> dict[int, Units]:
    """Other minus reference where both can be subtracted, by index of the other source."""
    base, there = units[reference]
    return {
        index: Units(np.where(known & there, numbers - base, 0), known & there)
        for index, (numbers, known) in enumerate(units)
        if index != reference
    }


def deltas_of(changes: Mapping[int, Units], base: Integers, scale: int) -> Deltas:
    """What core says with decimals, of changes and of the reference in units of 10^-scale."""
    whole = np.abs(base)
    sizes = reduce(np.maximum, (np.abs(each.numbers) for each in changes.values()))
    unknown = ~reduce(np.logical_or, (each.known for each in changes.values()))
    keys = unit_keys(sizes, scale)
    return Deltas(
        deltas=tuple(
            Given(index, unit_texts(change, scale), known)
            for index, (change, known) in changes.items()
        ),
        percents=tuple(
            Given(index, unit_texts(_percents(change, whole), _PERCENT_PLACES), known & (base != 0))
            for index, (change, known) in changes.items()
        ),
        sizes=pa.array(doubles_of(sizes, scale), pa.float64(), mask=unknown),
        size_keys=pc.if_else(pa.array(unknown), pa.scalar(None, keys.type), keys),
    )


def _percents(changes: Integers, base: Integers) -> Integers:
    """In units of their places, cut towards zero; of base 0 whatever it is."""
    sizes = times(np.abs(changes), 100 * 10**_PERCENT_PLACES) // np.maximum(base, 1)
    return sizes * np.sign(changes)


def judged_differences(
    stage: StagePlan,
    plan: MeasurePlan,
    found: Sequence[tuple[int, MeasureJudgement]],
    key: bytes,
) -> Differences:
    """Groups and what core's rules said of a measure that is not equal there.

    The key is the tenant's.
    """
    told = [_told(stage, plan, each, key) for _, each in found]
    values, raw, changes, percents, sizes = zip(*told, strict=True)
    judged = [each for _, each in found]
    odd = [each.odd_one_out for each in judged]
    kinds = [each.difference_class or DifferenceClass.OUTSIDE for each in judged]
    size_keys = [None if each is None else size_key_of(each) for each in sizes]
    doubles = [None if each is None else float(each) for each in sizes]
    return Differences(
        measure=plan.name,
        groups=np.array([group for group, _ in found]),
        presence=np.full(len(found), stage.everywhere),
        kinds=np.array([KINDS.index(each) for each in kinds]),
        within=np.array([each.within for each in judged]),
        odd=np.array([NOBODY if each is None else each for each in odd]),
        values=_by(stage, values),
        raw=_by(stage, raw),
        deltas=Deltas(
            deltas=_by(stage, changes),
            percents=_by(stage, percents),
            sizes=pa.array(doubles, pa.float64()),
            size_keys=pa.array(size_keys, pa.string()),
        ),
    )


_Texts = Mapping[int, str | None]
"""By index of the source."""


def _told(
    stage: StagePlan, plan: MeasurePlan, judgement: MeasureJudgement, key: bytes
) -> tuple[_Texts, _Texts, _Texts, _Texts, Decimal | None]:
    """Values, those before rules, deltas, percents and the largest |delta|."""
    cells = [
        (index, canonical_text(cell.value), canonical_text(cell.raw))
        for index, cell in enumerate(judgement.shown)
    ]
    subtracted = cells and plan.mask is None and plan.subtractable
    values = [cell.value for cell in judgement.shown]
    changes = deltas(values, stage.reference) if subtracted else {}
    base = values[stage.reference].amount if cells else None
    percents = {index: delta_percent(each, base) for index, each in changes.items()}
    return (
        {index: masked(key, plan.mask, after) for index, after, _ in cells},
        {index: masked(key, plan.mask, raw) for index, after, raw in cells if raw != after},
        {index: decimal_text(each) for index, each in changes.items()},
        {index: decimal_text(each) for index, each in percents.items() if each is not None},
        max((each.copy_abs() for each in changes.values()), default=None),
    )


def _by(stage: StagePlan, rows: Sequence[_Texts]) -> By:
    return tuple(
        Given(
            index,
            pa.array([row.get(index) for row in rows], pa.string()),
            np.array([index in row for row in rows]),
        )
        for index in range(len(stage.sources))
    )
