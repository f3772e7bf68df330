"""The columns of measures with a unit: amounts of one unit, NULL in rows of another.

Written in the language of expressions, so that databases, files and every engine compute the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from datarecs_core.comparison.planning.computing import over_source
from datarecs_core.comparison.planning.logical import LogicalSource
from datarecs_core.errors.faults import Fault, Path
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import (
    ColumnMapping,
    Measure,
    ReconciliationJob,
    Source,
    Stage,
)
from datarecs_core.jobs.types import TypeKind
from datarecs_core.jobs.units import UnitMeasure, amount_column, split_measures, unit_measures

T = TypeVar("T")


def unit_faults(job: ReconciliationJob, sources: Sequence[LogicalSource]) -> list[Fault]:
    """Columns of units and amounts that a source does not have, and units that are no text."""
    return [
        fault
        for at, stage in enumerate(job.stages)
        if not isinstance(stage.measures, str)
        for place, measure in enumerate(stage.measures)
        if measure.unit is not None
        for source in sources
        for fault in _faults(measure, source, ("spec", "stages", at, "measures", place))
    ]


def _faults(measure: Measure, source: LogicalSource, path: Path) -> list[Fault]:
    unit = measure.unit.column if measure.unit is not None else ""
    at: Path = (*path, "unit", "column")
    missing = source.fault_of(unit, at), source.fault_of(amount_column(measure), path)
    faults = [each for each in missing if each is not None]
    if not faults and source.type_of(unit).kind is not TypeKind.TEXT:
        message = f"{unit} of source {source.name} is {source.type_of(unit)}; a unit is text"
        hint = "make it text in the source, or by an `expr` of `columns`"
        faults.append(Fault(code=SpecCode.INCOMPATIBLE_TYPES, path=at, message=message, hint=hint))
    return faults


def with_units(job: ReconciliationJob, sources: Sequence[LogicalSource]) -> ReconciliationJob:
    """The job with a plain measure for each unit, and the columns that they compare.

    Args:
        job: without `unit_faults`.
        sources: with the columns of the job as declared.
    """
    split = [each for stage in job.stages for each in split_measures(stage)]
    if not split:
        return job
    breaks = job.results.breaks
    rules = _copied(job.normalize.columns, split)
    return replace(
        job,
        sources=tuple(_with_columns(each, split) for each in sources),
        stages=tuple(map(_split, job.stages)),
        normalize=replace(job.normalize, columns=rules),
        results=replace(job.results, breaks=replace(breaks, mask=_copied(breaks.mask, split))),
    )


def _split(stage: Stage) -> Stage:
    if isinstance(stage.measures, str):
        return stage
    measures: list[Measure] = []
    for measure in stage.measures:
        measures += [each.measure for each in unit_measures(measure)] or [measure]
    return replace(stage, measures=tuple(measures))


def _copied(rules: Mapping[str, T], split: Sequence[UnitMeasure]) -> dict[str, T]:
    """Declarations about the column of an amount apply to its amounts of each unit."""
    more = {
        each.column: rules[amount_column(each.declared)]
        for each in split
        if amount_column(each.declared) in rules
    }
    return {**rules, **more}


def _with_columns(source: LogicalSource, split: Sequence[UnitMeasure]) -> Source:
    declared = source.source
    columns = {
        each.column: ColumnMapping(expr=over_source(_expression(each), source.columns))
        for each in split
    }
    return replace(
        declared,
        columns={**declared.columns, **columns},
        cast=_copied(declared.cast, split),
    )


def _expression(split: UnitMeasure) -> str:
    rule = split.declared.unit
    unit, amount = (
        _name(rule.column if rule is not None else ""),
        _name(amount_column(split.declared)),
    )
    if split.unit is not None:
        return f"CASE WHEN {unit} = {_literal(split.unit)} THEN {amount} END"
    listed = ", ".join(map(_literal, rule.names if rule is not None else ()))
    return f"CASE WHEN {unit} IN ({listed}) THEN NULL ELSE {amount} END"


def _name(column: str) -> str:
    escaped = column.replace('"', '""')
    return f'"{escaped}"'


def _literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def without_total(job: ReconciliationJob) -> frozenset[tuple[str, str]]:
    """Stage and name of each measure over several units, which must not be added up."""
    return frozenset(
        (stage.name, each.name)
        for stage in job.stages
        for each in split_measures(stage)
        if each.unit is None
    )
