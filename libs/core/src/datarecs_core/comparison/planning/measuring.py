"""Dimensions and measures of a stage: names resolved, types aligned, rules and tolerances fixed.

The planner's fourth step, for one stage. `"*"` is written out here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from datarecs_core.comparison.planning.alignment import (
    NO_MAPS,
    Alignment,
    ColumnUse,
    align,
    text_hint,
)
from datarecs_core.comparison.planning.logical import LogicalSource
from datarecs_core.comparison.planning.plan import DimensionPlan, InputPlan, MeasurePlan, Warn
from datarecs_core.comparison.planning.relaxing import (
    average_places,
    cut_of,
    reduces,
    rules_for,
    total_scale,
)
from datarecs_core.comparison.planning.rules import Rules
from datarecs_core.comparison.planning.tolerance import tolerance_of
from datarecs_core.errors.faults import Fault, Path
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import (
    EXACTLY,
    Dimension,
    Measure,
    MeasureDefaults,
    ReconciliationJob,
    Stage,
)
from datarecs_core.jobs.types import NESTED, CanonicalType
from datarecs_core.jobs.vocabulary import (
    CompareTo,
    Function,
    StageType,
    TimePrecision,
    ToleranceType,
)

COUNTING = frozenset({Function.COUNT, Function.COUNT_DISTINCT})
ADDING = frozenset({Function.SUM, Function.AVG})
CHOOSING = frozenset({Function.MIN, Function.MAX})
ROW_COUNT = "row_count"
_PLAIN = MeasureDefaults()
_COARSE = frozenset({TimePrecision.SECONDS, TimePrecision.MILLIS, TimePrecision.MICROS})
"""What every writer of times without declared digits means alike."""


@dataclass(slots=True, kw_only=True)
class StageDraft:
    """The planned columns of one stage, with all faults and warnings."""

    job: ReconciliationJob
    sources: Sequence[LogicalSource]
    stage: Stage
    path: Path
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Warn] = field(default_factory=list)

    def dimensions(self) -> tuple[DimensionPlan, ...]:
        plans = (
            self._dimension(each, (*self.path, "dimensions", at))
            for at, each in enumerate(self.stage.dimensions)
        )
        return tuple(plan for plan in plans if plan is not None)

    def measures(self) -> tuple[MeasurePlan, ...]:
        if self.stage.type is StageType.COUNTS:
            declared = self.stage.measures or (Measure(name=ROW_COUNT),)
        else:
            declared = self.stage.measures
        if isinstance(declared, str):
            return self._every_column()
        plans = (
            self._measure(each, at, (*self.path, "measures", at))
            for at, each in enumerate(declared)
        )
        return tuple(plan for plan in plans if plan is not None)

    def measures_as_key(self) -> tuple[DimensionPlan, ...]:
        """A row stage without dimensions: the tuple of all measure columns is the key."""
        if isinstance(self.stage.measures, str):
            named = [(name, (*self.path, "measures")) for name in self._star_columns()]
        else:
            named = [
                (each.column or each.name, (*self.path, "measures", at))
                for at, each in enumerate(self.stage.measures)
            ]
            self.faults.extend(
                _key_tolerance(path)
                for each, (_, path) in zip(self.stage.measures, named, strict=True)
                if each.tolerances != EXACTLY
            )
        plans = (self._dimension(Dimension(name=name), path) for name, path in named)
        return tuple(plan for plan in plans if plan is not None)

    def _dimension(self, declared: Dimension, path: Path) -> DimensionPlan | None:
        column = declared.column or declared.name
        alignment = align(self.sources, ColumnUse(column=column, path=path, maps=NO_MAPS))
        self._note(alignment, column)
        imprecise = None if alignment.faults else self._imprecise(column, path)
        if imprecise is not None:
            self.faults.append(imprecise)
        if alignment.faults or imprecise is not None:
            return None
        rules = rules_for(column, alignment.inputs, self.job.normalize, measure=False)
        self._warn_reduced(column, rules, alignment.inputs)
        return DimensionPlan(
            name=declared.name,
            inputs=alignment.inputs,
            rules=rules,
            mask=self.job.results.breaks.mask.get(column),
        )

    def _measure(self, declared: Measure, index: int, path: Path) -> MeasurePlan | None:
        function = declared.function or self._default_function()
        if self._counts_rows(declared, function):
            inputs: tuple[InputPlan | None, ...] = (None,) * len(self.sources)
            return _count_of_rows(declared, index, inputs, self.stage.compare_to)
        column = declared.column or declared.name
        use = ColumnUse(column=column, path=path, maps=declared.map, map_strict=declared.map_strict)
        alignment = align(self.sources, use)
        self._note(alignment, column, ignore_types=function in COUNTING)
        if not alignment.inputs or (alignment.faults and function not in COUNTING):
            return None
        misfits = _misfits(declared, function, alignment.inputs, path)
        if misfits and (hint := text_hint(self.sources, column)):
            misfits = [replace(each, hint=hint) for each in misfits]
        imprecise = None if function is Function.COUNT else self._imprecise(column, path)
        misfits += [] if imprecise is None else [imprecise]
        self.faults.extend(misfits)
        return None if misfits else self._planned(declared, index, function, alignment)

    def _planned(
        self, declared: Measure, index: int, function: Function, alignment: Alignment
    ) -> MeasurePlan:
        column = declared.column or declared.name
        rules = rules_for(column, alignment.inputs, self.job.normalize, measure=True)
        self._warn_reduced(column, rules, alignment.inputs)
        has_total = _has_total(function, alignment.inputs)
        return MeasurePlan(
            name=declared.name,
            index=index,
            function=function,
            inputs=alignment.inputs,
            rules=rules,
            tolerances=tuple(tolerance_of(each) for each in declared.tolerances),
            combine=declared.combine,
            bound=declared.bound,
            compare_to=self.stage.compare_to,
            places=average_places(alignment.inputs) if function is Function.AVG else None,
            cut=None if function in COUNTING | {Function.AVG} else cut_of(alignment.inputs),
            has_total=has_total,
            total_scale=_scale_of_total(function, alignment.inputs, rules) if has_total else None,
            mask=self.job.results.breaks.mask.get(column),
            adds_up=declared.adds_up,
        )

    def _default_function(self) -> Function:
        match self.stage.type:
            case StageType.AGGREGATE:
                return Function.SUM
            case StageType.COUNTS:
                return Function.COUNT
            case _:
                return Function.VALUE

    def _counts_rows(self, declared: Measure, function: Function) -> bool:
        return function is Function.COUNT and declared.column is None

    def _star_columns(self) -> list[str]:
        """Every non-dimension column: those of the reference in its order, then others by name."""
        reference = self.job.source_index(self.stage.reference or self.job.reference_source)
        keys = {each.column or each.name for each in self.stage.dimensions}
        ignored = keys.union(self.stage.except_, *(each.metadata for each in self.sources))
        first = [name for name in self.sources[reference].columns if name not in ignored]
        others = {
            name for source in self.sources for name in (*source.columns, *source.undelivered)
        }
        return [*first, *sorted(others - ignored - set(first))]

    def _unknown_exceptions(self) -> list[Fault]:
        """Columns of `except` that no source has: they have no effect."""
        reference = self.sources[
            self.job.source_index(self.stage.reference or self.job.reference_source)
        ]
        known = {name for each in self.sources for name in (*each.columns, *each.undelivered)}
        faults = [
            reference.naming_fault(name, (*self.path, "except", at))
            for at, name in enumerate(self.stage.except_)
            if name not in known
        ]
        return [fault for fault in faults if fault is not None]

    def _every_column(self) -> tuple[MeasurePlan, ...]:
        self.faults.extend(self._unknown_exceptions())
        plans: list[MeasurePlan] = []
        for column in self._star_columns():
            absent = [
                source.name
                for source in self.sources
                if column not in source.columns and column not in source.undelivered
            ]
            if absent and column in self.job.schema.ignore:
                continue
            plans.append(self._star_measure(column, len(plans), absent=absent))
        return tuple(plans)

    def _star_measure(self, column: str, index: int, *, absent: Sequence[str]) -> MeasurePlan:
        if absent:
            self._differs(column, f"is absent in {', '.join(absent)}")
            return self._not_comparable(column, index)
        path = (*self.path, "measures")
        alignment = align(self.sources, ColumnUse(column=column, path=path, maps=NO_MAPS))
        if alignment.comparable and (fault := self._imprecise(column, path)) is not None:
            alignment = Alignment(inputs=(), faults=(fault,), comparable=False)
        if not alignment.comparable:
            self._differs(column, _reason(alignment))
            return self._not_comparable(column, index)
        self._note(alignment, column)
        defaults = self._defaults(alignment.inputs[0].result)
        declared = Measure(
            name=column,
            tolerances=defaults.tolerances,
            combine=defaults.combine,
            bound=defaults.bound,
        )
        self.faults.extend(_misfits(declared, Function.VALUE, alignment.inputs, path))
        return self._planned(declared, index, Function.VALUE, alignment)

    def _defaults(self, kind: CanonicalType) -> MeasureDefaults:
        """By the type with its digits, else by the bare type: `decimal` covers every decimal."""
        defaults = self.stage.measure_defaults
        return defaults.get(kind) or defaults.get(CanonicalType(kind=kind.kind)) or _PLAIN

    def _not_comparable(self, column: str, index: int) -> MeasurePlan:
        inputs = tuple(
            InputPlan(column=column, type=source.type_of(column))
            if column in source.columns
            else None
            for source in self.sources
        )
        return MeasurePlan(
            name=column,
            index=index,
            function=Function.VALUE,
            inputs=inputs,
            compare_to=self.stage.compare_to,
            comparable=False,
            mask=self.job.results.breaks.mask.get(column),
        )

    def _imprecise(self, column: str, path: Path) -> Fault | None:
        """A source has times without declared digits, and the job does not declare a precision."""
        rules = self.job.normalize.columns.get(column)
        declared = (rules and rules.precision) or self.job.normalize.timestamps.precision
        if declared in _COARSE:
            return None
        return next(
            (fault for source in self.sources if (fault := source.precision_fault(column, path))),
            None,
        )

    def _note(self, alignment: Alignment, column: str, *, ignore_types: bool = False) -> None:
        self.faults.extend(
            fault
            for fault in alignment.faults
            if not (ignore_types and fault.code is SpecCode.INCOMPATIBLE_TYPES)
        )
        if alignment.text_as_uuid:
            self._warn("IMPLICIT_TEXT_UUID", f"{column}: text is read as uuid", column)

    def _warn_reduced(self, column: str, rules: Rules, inputs: Sequence[InputPlan]) -> None:
        if reduces(rules, inputs):
            self._warn("PRECISION_REDUCED", f"{column}: a declared rule drops digits", column)

    def _differs(self, column: str, why: str) -> None:
        counts = "so every group differs in it until it is left out"
        self._warn("SCHEMA_DIFFERS", f"column {column} {why}, {counts}", column)

    def _warn(self, code: str, message: str, column: str) -> None:
        warning = Warn(code=code, message=message, stage=self.stage.name, column=column)
        if warning not in self.warnings:
            self.warnings.append(warning)


def _reason(alignment: Alignment) -> str:
    """Why sources cannot be compared by a column: the first fault."""
    code = alignment.faults[0].code if alignment.faults else SpecCode.INCOMPATIBLE_TYPES
    words = {
        SpecCode.AMBIGUOUS_COLUMN: "stands more than once in a source",
        SpecCode.TYPE_NOT_SUPPORTED: "has a type that cannot be compared yet",
        SpecCode.UNKNOWN_COLUMN: "is absent in a source",
    }
    named = f": {alignment.faults[0].message}" if alignment.faults else ""
    return f"{words.get(code, 'has types that do not compare')}{named}"


def _count_of_rows(
    declared: Measure, index: int, inputs: tuple[InputPlan | None, ...], compare_to: CompareTo
) -> MeasurePlan:
    return MeasurePlan(
        name=declared.name,
        index=index,
        function=Function.COUNT,
        inputs=inputs,
        tolerances=tuple(tolerance_of(each) for each in declared.tolerances),
        combine=declared.combine,
        bound=declared.bound,
        compare_to=compare_to,
        has_total=True,
        total_scale=0,
        adds_up=declared.adds_up,
    )


def _has_total(function: Function, inputs: Sequence[InputPlan]) -> bool:
    """Whether values are added up: exact numbers, and what functions make numbers of."""
    exact = all(each.result.is_number and not each.result.is_float for each in inputs)
    return exact or function in COUNTING | ADDING


def _scale_of_total(function: Function, inputs: Sequence[InputPlan], rules: Rules) -> int | None:
    if function in COUNTING:
        return 0
    return average_places(inputs) if function is Function.AVG else total_scale(inputs, rules)


def _misfits(
    declared: Measure, function: Function, inputs: Sequence[InputPlan], path: Path
) -> list[Fault]:
    """Functions and tolerances that the column's type cannot have."""
    kind = inputs[0].result
    if declared.adds_up is not None and not _has_total(function, inputs):
        message = f"'adds_up' has no effect: {function} of {kind} has no total"
        hint = "leave it out; it is for exact numbers, and for sum, avg and counts"
        at = (*path, "adds_up")
        return [Fault(code=SpecCode.WITHOUT_EFFECT, path=at, message=message, hint=hint)]
    if function in ADDING and not kind.is_number:
        message = f"{function} needs numbers, {inputs[0].column} is {kind}"
        return [Fault(code=SpecCode.INCOMPATIBLE_TYPES, path=path, message=message)]
    if function in CHOOSING and kind.kind in NESTED:
        message = f"{function} does not accept {kind}, the type of {inputs[0].column}"
        return [Fault(code=SpecCode.INCOMPATIBLE_TYPES, path=path, message=message)]
    number = kind.is_number or function in COUNTING
    time = kind.is_time and function not in COUNTING
    fitting: Mapping[ToleranceType, bool] = {
        ToleranceType.EXACT: True,
        ToleranceType.ABSOLUTE: number,
        ToleranceType.PERCENTAGE: number,
        ToleranceType.DURATION: time,
    }
    return [
        Fault(
            code=SpecCode.TOLERANCE_KIND_MISMATCH,
            path=(*path, "tolerances", at),
            message=f"{each.type} does not fit {declared.name}, which is {kind}",
            hint="ABSOLUTE and PERCENTAGE are for numbers, DURATION for dates and times",
        )
        for at, each in enumerate(declared.tolerances)
        if not fitting[each.type]
    ]


def _key_tolerance(path: Path) -> Fault:
    return Fault(
        code=SpecCode.TOLERANCE_KIND_MISMATCH,
        path=(*path, "tolerances"),
        message="a row stage without dimensions compares whole rows, so its columns are the key",
        hint="declare dimensions, or leave the tolerances out",
    )
