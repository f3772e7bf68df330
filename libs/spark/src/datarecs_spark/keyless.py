"""What is stored of a difference beside its group's key, in the words that are stored.

Made by columns or, where core's rules judged, from its judgement; `written` puts it beside keys.
"""

from collections.abc import Sequence
from typing import NamedTuple

from datarecs_core.comparison.agreement import deltas, odd_presence
from datarecs_core.comparison.canonical import canonical_text
from datarecs_core.comparison.differences import delta_percent, masked
from datarecs_core.comparison.judging import MeasureJudgement
from datarecs_core.comparison.plan import PRESENCE, MeasurePlan, StagePlan
from datarecs_core.comparison.results import DifferenceClass
from datarecs_core.documents import decimal_text
from datarecs_spark.sort_keys import size_key_of, unit_key

Texts = tuple[tuple[int, str | None], ...]
"""By index of the source."""
Amounts = tuple[tuple[int, str], ...]
"""Decimal texts by index of the source."""
_PERCENT = 100 * 10**6
"""Percent are cut to six places."""


class KeylessDifference(NamedTuple):
    """A group that some source lacks, or one measure of a group that every source has."""

    measure: str
    presence: int
    kind: DifferenceClass
    within: bool = False
    odd: int | None = None
    """Index of the odd source."""
    values: Texts = ()
    raw: Texts = ()
    """Before rules, where one changed the value."""
    deltas: Amounts = ()
    percents: Amounts = ()
    size: float | None = None
    """The largest |delta|, to be sorted by; None without deltas."""
    size_key: str | None = None
    """The same, exactly (`sort_keys`)."""


def missing(sizes: tuple[int, ...], mask: int) -> KeylessDifference:
    """A group that some source lacks, by its rows per source."""
    return KeylessDifference(
        PRESENCE,
        mask,
        DifferenceClass.MISSING,
        odd=odd_presence(mask, len(sizes)),
        values=tuple((at, str(size)) for at, size in enumerate(sizes) if size),
    )


def keyless_of(
    stage: StagePlan, plan: MeasurePlan, judgement: MeasureJudgement, key: bytes
) -> KeylessDifference:
    """What core's rules said of a measure that is not equal; the key is the tenant's."""

    def shown(written: str | None) -> str | None:
        return masked(key, plan.mask, written)

    cells = [
        (index, canonical_text(cell.value), canonical_text(cell.raw))
        for index, cell in enumerate(judgement.shown)
    ]
    subtracted = cells and plan.mask is None and plan.subtractable
    values = [cell.value for cell in judgement.shown]
    changes = deltas(values, stage.reference) if subtracted else {}
    base = values[stage.reference].amount if cells else None
    percents = [(index, delta_percent(each, base)) for index, each in changes.items()]
    largest = max((each.copy_abs() for each in changes.values()), default=None)
    return KeylessDifference(
        plan.name,
        stage.everywhere,
        judgement.difference_class or DifferenceClass.OUTSIDE,
        within=judgement.within,
        odd=judgement.odd_one_out,
        values=tuple((index, shown(value)) for index, value, _ in cells),
        raw=tuple((index, shown(before)) for index, value, before in cells if before != value),
        deltas=tuple((index, decimal_text(each)) for index, each in changes.items()),
        percents=tuple((index, decimal_text(each)) for index, each in percents if each is not None),
        size=None if largest is None else float(largest),
        size_key=None if largest is None else size_key_of(largest),
    )


class Deltas(NamedTuple):
    """The last members of a difference."""

    deltas: Amounts = ()
    percents: Amounts = ()
    size: float | None = None
    size_key: str | None = None


NO_DELTAS = Deltas()


def deltas_of(units: Sequence[int | None], reference: int, scale: int) -> Deltas:
    """Other minus reference where both can be subtracted, in whole units of 10^-scale.

    What `keyless_of` says with decimals.
    """
    base = units[reference]
    if base is None:
        return NO_DELTAS
    changes = [
        (index, each - base)
        for index, each in enumerate(units)
        if each is not None and index != reference
    ]
    if not changes:
        return NO_DELTAS
    largest = max(abs(change) for _, change in changes)
    percents: Amounts = ()
    if base:
        percents = tuple(
            (index, unit_text(_percent(change, abs(base)), 6)) for index, change in changes
        )
    return Deltas(
        deltas=tuple((index, unit_text(change, scale)) for index, change in changes),
        percents=percents,
        size=largest / 10**scale,
        size_key=unit_key(largest, scale),
    )


def _percent(change: int, base: int) -> int:
    """In millionths of a percent, cut towards zero."""
    size = abs(change) * _PERCENT // base
    return -size if change < 0 else size


def unit_text(units: int, scale: int) -> str:
    """`decimal_text` of so many units of 10^-scale."""
    if not scale or not units:
        return str(units)
    digits = str(abs(units)).rjust(scale + 1, "0")
    whole, rest = digits[:-scale], digits[-scale:].rstrip("0")
    sign = "-" if units < 0 else ""
    return f"{sign}{whole}.{rest}" if rest else f"{sign}{whole}"
