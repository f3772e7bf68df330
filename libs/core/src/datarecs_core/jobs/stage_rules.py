"""The rules of one stage: which functions, tolerances and duplicates its type allows.

Separate from the references between parts because these rules grow with stage types and functions.
"""

from collections.abc import Iterable, Iterator, Mapping

from datarecs_core.errors.faults import (
    Fault,
    Path,
    Place,
    did_you_mean,
    is_gap,
    name_of,
    usable,
)
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import (
    ALL_COLUMNS,
    EXACTLY,
    Measure,
    MeasureDefaults,
    ReconciliationJob,
    Stage,
    Tolerance,
)
from datarecs_core.jobs.types import NUMBERS, TIMES, CanonicalType, TypeKind
from datarecs_core.jobs.units import measure_names
from datarecs_core.jobs.vocabulary import DuplicatePolicy, Function, StageType, ToleranceType

ROW_COUNT = "row_count"
"""The one measure of a counts stage."""
STAR_STAGES = frozenset({StageType.ROW, StageType.DIGEST})
_VALUE = frozenset({Function.VALUE})
_FUNCTIONS: Mapping[StageType, frozenset[Function]] = {
    StageType.COUNTS: frozenset({Function.COUNT}),
    StageType.SCHEMA: frozenset(),
    StageType.AGGREGATE: frozenset(Function) - _VALUE,
    StageType.ROW: _VALUE,
    StageType.DIGEST: _VALUE,
    StageType.CUSTOM_SQL: _VALUE,
}
_COUNTING = frozenset({Function.COUNT, Function.COUNT_DISTINCT})
_UNIT_STAGES = frozenset({StageType.ROW, StageType.AGGREGATE})
_NUMBER_FUNCTIONS = frozenset({Function.COUNT, Function.COUNT_DISTINCT, Function.SUM, Function.AVG})


def stage_faults(stage: Stage, job: ReconciliationJob, at: Path) -> Iterator[Fault]:
    """All faults within the stage."""
    yield from _name_faults(stage, at)
    yield from _measure_set_faults(stage, at)
    yield from _duplicate_faults(stage, job, at)
    yield from _limit_faults(stage, at)
    for path, measure in measures_of(stage, at):
        yield from _function_faults(stage, job, measure, path)
        yield from _tolerance_faults(measure.tolerances, (*path, "tolerances"))
        yield from _fit_faults(stage, job, measure, path)
        yield from _unit_faults(stage, job, measure, path)
    yield from _default_faults(stage.measure_defaults.items(), at)


def measures_of(stage: Stage, at: Path) -> Iterator[tuple[Path, Measure]]:
    """Path and measure of every named one that is no Gap."""
    if stage.measures == ALL_COLUMNS:
        return
    for index, measure in usable(stage.measures):
        yield (*at, "measures", index), measure


def _name_faults(stage: Stage, at: Path) -> Iterator[Fault]:
    for index, dimension in usable(stage.dimensions):
        if _seen(stage.dimensions[:index], dimension.name):
            yield _duplicate((*at, "dimensions", index, "name"), "dimension")
    names: set[str] = set()
    for path, measure in measures_of(stage, at):
        if not names.isdisjoint(measure_names(measure)):
            yield _duplicate((*path, "name"), "measure")
        names.update(measure_names(measure))
        yield from _key_faults(stage, measure, path)


def _seen(parts: Iterable[object], name: str) -> bool:
    return any(name_of(part) == name for part in parts)


def _duplicate(path: Path, what: str) -> Fault:
    message = f"another {what} of the stage has this name"
    return Fault(code=SpecCode.DUPLICATE_NAME, path=path, message=message)


def _key_faults(stage: Stage, measure: Measure, path: Path) -> Iterator[Fault]:
    dimensions = [one for _, one in usable(stage.dimensions)]
    if _seen(dimensions, measure.name):
        message = "a dimension has this name"
    elif stage.type in STAR_STAGES and any(
        (one.column or one.name) == (measure.column or measure.name) for one in dimensions
    ):
        message = "its column is a dimension"
    else:
        return
    part = "column" if measure.column and "column" in message else "name"
    yield Fault(code=SpecCode.MEASURE_IS_DIMENSION, path=(*path, part), message=message)


def _measure_set_faults(stage: Stage, at: Path) -> Iterator[Fault]:
    star = stage.measures == ALL_COLUMNS
    if star and stage.type not in STAR_STAGES:
        yield Fault(
            code=SpecCode.STAR_NOT_ALLOWED,
            path=(*at, "measures"),
            message=f'stages of type {stage.type} need named measures, not "*"',
        )
    for name, declared in (("except", stage.except_), ("measure_defaults", stage.measure_defaults)):
        if declared and not star:
            yield Fault(
                code=SpecCode.FIELD_OF_ANOTHER_KIND,
                path=(*at, name),
                message=f"'{name}' belongs to `measures: \"*\"`",
                place=Place.KEY,
            )


def _duplicate_faults(stage: Stage, job: ReconciliationJob, at: Path) -> Iterator[Fault]:
    if not collapses(stage, job):
        return
    if stage.measures == ALL_COLUMNS:
        yield Fault(
            code=SpecCode.FUNCTION_REQUIRED,
            path=(*at, "measures"),
            message='`duplicates: aggregate` needs named measures with a function, not "*"',
        )
    for path, measure in measures_of(stage, at):
        if measure.function in (None, Function.VALUE):
            yield Fault(
                code=SpecCode.FUNCTION_REQUIRED,
                path=(*path, "function"),
                message="`duplicates: aggregate` needs a function here",
                place=Place.MISSING,
            )


def collapses(stage: Stage, job: ReconciliationJob) -> bool:
    """Whether copies of a key are joined by functions."""
    policy = stage.duplicates or job.duplicates
    return stage.type is StageType.ROW and policy is DuplicatePolicy.AGGREGATE


def _function_faults(
    stage: Stage, job: ReconciliationJob, measure: Measure, path: Path
) -> Iterator[Fault]:
    if stage.type is StageType.COUNTS and measure.name != ROW_COUNT:
        message = f"a counts stage has one measure, {ROW_COUNT}"
        yield Fault(code=SpecCode.FUNCTION_NOT_ALLOWED, path=(*path, "name"), message=message)
    allowed = frozenset(Function) - _VALUE if collapses(stage, job) else _FUNCTIONS[stage.type]
    if measure.function is None or measure.function in allowed:
        return
    if collapses(stage, job):
        return  # reported as FUNCTION_REQUIRED
    words = ", ".join(one for one in Function if one in allowed)
    yield Fault(
        code=SpecCode.FUNCTION_NOT_ALLOWED,
        path=(*path, "function"),
        message=f"stages of type {stage.type} allow {words}",
    )


def _tolerance_faults(tolerances: tuple[Tolerance, ...], at: Path) -> Iterator[Fault]:
    exact = [index for index, one in usable(tolerances) if one.type is ToleranceType.EXACT]
    if exact and len(tolerances) > 1:
        yield Fault(
            code=SpecCode.EXACT_WITH_OTHERS,
            path=(*at, exact[0]),
            message="EXACT beside another tolerance",
            hint="keep EXACT alone, or the others",
        )


def _fit_faults(
    stage: Stage, job: ReconciliationJob, measure: Measure, path: Path
) -> Iterator[Fault]:
    """Tolerances against the measure's type, as far as it is known without a schema."""
    if stage.type is StageType.DIGEST and measure.tolerances != EXACTLY:
        yield Fault(
            code=SpecCode.TOLERANCE_IN_DIGEST,
            path=(*path, "tolerances"),
            message="a digest stage compares exactly",
        )
        return
    kinds = _kinds_of(stage, job, measure)
    for index, one in usable(measure.tolerances):
        yield from _misfit(one, kinds, (*path, "tolerances", index, "type"))


def _unit_faults(
    stage: Stage, job: ReconciliationJob, measure: Measure, path: Path
) -> Iterator[Fault]:
    """Where a unit is allowed, and the tolerances of each."""
    if measure.unit is None:
        return
    if stage.type not in _UNIT_STAGES or measure.function in _COUNTING:
        yield Fault(
            code=SpecCode.FIELD_OF_ANOTHER_KIND,
            path=(*path, "unit"),
            message="a unit belongs to amounts of stages of type row and aggregate",
            place=Place.KEY,
        )
        return
    if not measure.unit.names:
        yield Fault(
            code=SpecCode.MISSING_FIELD,
            path=(*path, "unit", "values"),
            message="a unit needs values, or tolerances by value",
            place=Place.MISSING,
        )
    for name, tolerances in measure.unit.tolerances.items():
        at = (*path, "unit", "tolerances", name)
        yield from _tolerance_faults(tolerances, at)
        kinds = _kinds_of(stage, job, measure)
        for index, one in usable(tolerances):
            yield from _misfit(one, kinds, (*at, index, "type"))


def _kinds_of(stage: Stage, job: ReconciliationJob, measure: Measure) -> frozenset[TypeKind]:
    """The kinds the measure may have; empty when the type is unknown."""
    if stage.type is StageType.COUNTS or measure.function in _NUMBER_FUNCTIONS:
        return NUMBERS
    if measure.function is None and stage.type is StageType.AGGREGATE:
        return NUMBERS
    column = measure.column or measure.name
    if stage.type is StageType.CUSTOM_SQL:
        return frozenset()
    return frozenset(
        source.cast[column].kind for _, source in usable(job.sources) if column in source.cast
    )


def _misfit(tolerance: Tolerance, kinds: frozenset[TypeKind], path: Path) -> Iterator[Fault]:
    if tolerance.type is ToleranceType.EXACT:
        return
    is_duration = tolerance.type is ToleranceType.DURATION
    fits, what = (TIMES, "a date or time") if is_duration else (NUMBERS, "a number")
    if kinds and not kinds <= fits:
        yield Fault(
            code=SpecCode.TOLERANCE_KIND_MISMATCH,
            path=path,
            message=f"{tolerance.type} needs {what}; this measure is {_words(kinds)}",
        )


def _words(kinds: frozenset[TypeKind]) -> str:
    return "a number" if kinds == NUMBERS else ", ".join(sorted(kinds))


def _default_faults(
    defaults: Iterable[tuple[CanonicalType, MeasureDefaults]], at: Path
) -> Iterator[Fault]:
    for key, one in defaults:
        path = (*at, "measure_defaults", str(key), "tolerances")
        yield from _tolerance_faults(one.tolerances, path)
        for index, tolerance in usable(one.tolerances):
            yield from _misfit(tolerance, frozenset({key.kind}), (*path, index, "type"))


def _limit_faults(stage: Stage, at: Path) -> Iterator[Fault]:
    """Gaps are limited by the name of a measure that exists."""
    if stage.measures == ALL_COLUMNS or any(map(is_gap, stage.measures)):
        return
    known = {name for _, measure in measures_of(stage, at) for name in measure_names(measure)}
    if stage.type is StageType.COUNTS:
        known.add(ROW_COUNT)
    limits = (
        ("accept", "max_gap", stage.accept.max_gap if stage.accept else {}),
        ("warn_at", "gap", stage.warn_at.gap if stage.warn_at else {}),
    )
    for field, part, gaps in limits:
        for name in gaps:
            if name not in known:
                yield Fault(
                    code=SpecCode.UNKNOWN_FIELD,
                    path=(*at, field, part, name),
                    message="the stage has no measure of this name",
                    hint=did_you_mean(name, known),
                    place=Place.KEY,
                )
