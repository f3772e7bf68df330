"""Measures with a unit: one measure for each unit, and one for all others.

Amounts in euros and yen have no common sum and tolerance. So a measure with a unit becomes
several plain ones, each over a column that holds the amounts of one unit and NULL elsewhere; every
engine, count, total and report treats them like any other measure.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from datarecs_core.jobs.definition import Measure, Stage

OTHER = "other"
"""Ends the name of the measure of units that the job does not list; it has no total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitMeasure:
    """One of the plain measures of a measure with a unit."""

    declared: Measure
    unit: str | None
    """None: every unit that the job does not list."""

    @property
    def name(self) -> str:
        return f"{self.declared.name} {OTHER if self.unit is None else self.unit}"

    @property
    def column(self) -> str:
        """The logical column that holds its amounts."""
        by = "" if self.declared.unit is None else self.declared.unit.column
        unit = OTHER if self.unit is None else f"= {self.unit}"
        return f"{amount_column(self.declared)} by {by} {unit}"

    @property
    def measure(self) -> Measure:
        rule = self.declared.unit
        limits = rule.tolerances.get(self.unit or "") if rule is not None else None
        return replace(
            self.declared,
            name=self.name,
            column=self.column,
            tolerances=limits or self.declared.tolerances,
            unit=None,
        )


def amount_column(measure: Measure) -> str:
    """The logical column of the values that a measure compares."""
    return measure.column or measure.name


def unit_measures(measure: Measure) -> tuple[UnitMeasure, ...]:
    """The plain measures of a measure with a unit; empty without a unit."""
    if measure.unit is None:
        return ()
    units: tuple[str | None, ...] = (*measure.unit.names, None)
    return tuple(UnitMeasure(declared=measure, unit=each) for each in units)


def measure_names(measure: Measure) -> tuple[str, ...]:
    """Under which names results show a measure."""
    return tuple(each.name for each in unit_measures(measure)) or (measure.name,)


def split_measures(stage: Stage) -> Iterator[UnitMeasure]:
    """Of all measures of a stage that have a unit."""
    if not isinstance(stage.measures, str):
        for measure in stage.measures:
            yield from unit_measures(measure)
