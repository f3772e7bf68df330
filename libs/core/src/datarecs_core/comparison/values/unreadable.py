"""Values that are not a number of their column: how many of each measure, and why.

A total over the other values would be wrong, so with one such value the total and its gap are
unknown. A separate module because every engine counts them in the same way and reports
use the same words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from datarecs_core.comparison.planning.plan import InputPlan, MeasurePlan, StagePlan
from datarecs_core.comparison.values.canonical import Tag, Value
from datarecs_core.comparison.values.forms import read_text
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import Function

_COUNTING = frozenset({Function.COUNT, Function.COUNT_DISTINCT})
_SHOWN = 80
"""Characters, or bytes, of a value that are shown."""
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """One value of a measure that has no canonical form, as people read it."""

    measure: str
    source: str
    words: str
    """`could not be read as decimal(20,4): '1,200.50'`."""


@dataclass(slots=True)
class MeasureFaults:
    """What one source has in one measure besides numbers; of rows that are grouped."""

    unreadable: int = 0
    """INVALID values."""
    not_finite: int = 0
    """NaN and infinities, where the measure has a total."""
    smallest: bytes | None = None
    """Of the INVALID values the first in canonical order: the same one for every engine."""

    def note(self, value: Value) -> None:
        """Count a value that is INVALID, or a number that is not finite."""
        if value.tag is not Tag.INVALID:
            self.not_finite += 1
            return
        _, raw = cast("tuple[str, bytes]", value.content)
        self.unreadable += 1
        self.smallest = raw if self.smallest is None else min(self.smallest, raw)

    def add(self, other: "MeasureFaults") -> None:
        """Count what was noted of other rows of the same source."""
        self.unreadable += other.unreadable
        self.not_finite += other.not_finite
        known = [each for each in (self.smallest, other.smallest) if each is not None]
        self.smallest = min(known, default=None)

    @property
    def hides_total(self) -> bool:
        return self.unreadable + self.not_finite > 0


def may_be_infinite(plan: MeasurePlan, index: int) -> bool:
    """Whether a source may have NaN or infinities in a measure that is added up."""
    input_plan = plan.inputs[index]
    if input_plan is None or not plan.has_total or plan.function in _COUNTING:
        return False
    kind = input_plan.result
    return kind.is_float or (kind.kind is TypeKind.DECIMAL and kind.precision is None)


def examples(
    stage: StagePlan, faults: Sequence[Mapping[int, MeasureFaults]]
) -> tuple[Unreadable, ...]:
    """One unreadable value for each measure and source that has any; none of masked columns.

    Args:
        stage: as compared.
        faults: one entry per source, by the measure's place in the stage.
    """
    unreadable = []
    for plan in stage.measures:
        for source, by_measure in zip(stage.scans, faults, strict=True):
            column, noted = plan.inputs[source.index], by_measure.get(plan.index)
            if plan.mask is None and column is not None and noted and noted.smallest is not None:
                words = unreadable_words(noted.smallest, column)
                unreadable.append(Unreadable(measure=plan.name, source=source.source, words=words))
    return tuple(unreadable)


def unreadable_words(raw: bytes, plan: InputPlan) -> str:
    """Why a value is INVALID, with its text; bytes that are no text stay hexadecimal.

    Args:
        raw: after the source's name in the encoding of the value.
        plan: how the source delivers its column.
    """
    try:
        written = raw.decode()
    except UnicodeDecodeError:
        return bytes_words(raw)
    return text_words(written, plan.result, is_mapped=plan.map_strict)


def bytes_words(raw: bytes) -> str:
    """Why bytes that are no text have no canonical form."""
    cut = raw[:_SHOWN]
    return f"could not be read as UTF-8: 0x{cut.hex()}{'…' if len(cut) < len(raw) else ''}"


def text_words(written: str, kind: CanonicalType, *, is_mapped: bool | None = None) -> str:
    """Why a text has no canonical form.

    Args:
        written: as it was read.
        kind: the type it was to become.
        is_mapped: the source has a strict map for it; None where this is unknown.
    """
    more = "…" if len(written) > _SHOWN else ""
    shown = f"'{written[:_SHOWN]}{more}'"
    fits = kind.kind is TypeKind.TEXT or (
        not kind.is_float and read_text(written, kind) is not None
    )
    if is_mapped is not False and fits:
        return f"not in the map: {shown}"
    digits = written.removeprefix("-").replace(".", "", 1)
    if kind.is_number and digits.isdecimal() and len(digits) > _MOST_DIGITS:
        return f"has more than {_MOST_DIGITS} digits: {shown}"
    return f"could not be read as {kind}: {shown}"
