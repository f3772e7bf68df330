"""Which strategy a stage gets: what narrowing may do is read from the plan, in one place.

Narrowing compares rows by hashes first, so it is chosen only where equal hashed values are equal
under the stage's rules and closed buckets have the stage's numbers. Aggregates it adds up by their
raw dimensions first, so only where that loses nothing. Whatever is not listed here as safe runs
`full`, with its reason; what only files can tell, the engine checks later.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from datarecs_core.comparison.expressions.exact_conditions import NotExactError, exact_condition
from datarecs_core.comparison.planning.computing import brings_computed
from datarecs_core.comparison.planning.plan import InputPlan, MeasurePlan, StagePlan, StrategyChoice
from datarecs_core.comparison.planning.pushdown import (
    GROUPED,
    ORDERED,
    Pushing,
    adds_up,
    changes_inputs,
    pushing_of,
)
from datarecs_core.comparison.planning.rules import STRICT
from datarecs_core.comparison.planning.scan import FileList, Scan
from datarecs_core.jobs.types import NESTED, CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import (
    DuplicatePolicy,
    Function,
    NanRule,
    NullKeys,
    SourceKind,
    StageType,
    Strategy,
)

NARROW_FROM = 10_000
"""Rows of all sources from which `auto` narrows: it is quicker from the first row on, but a look
with Spark's own readers at what is small checks the kernel, and costs less than a second."""
NARROW_VALUES = 100_000
"""Of all rows: Spark plans every column, which of hundreds takes longer than reading the rows."""
_EXACT = frozenset({TypeKind.INT, TypeKind.DECIMAL})
_FOREIGN = NESTED | {TypeKind.JSON, TypeKind.INTERVAL, TypeKind.TIME}
_OTHERS = "only row, aggregate and counts stages are narrowed"
_GIVEN = "a database gives groups already"
_NOT_YET = ((Strategy.FINGERPRINT, "no stored fingerprints exist in this release"),)


def with_strategies(stages: Sequence[StagePlan], requested: Strategy) -> tuple[StagePlan, ...]:
    """Every stage with what is asked of its sources, and how it is compared.

    A forced strategy that is impossible becomes `full`, never an error.
    """
    return tuple(
        _with_strategy(stage, pushing, requested)
        for stage, pushing in zip(stages, pushing_of(stages, requested), strict=True)
    )


def _with_strategy(stage: StagePlan, pushing: Pushing, requested: Strategy) -> StagePlan:
    stage = replace(stage, groups=pushing.groups, by_keys=pushing.by_keys)
    if pushing.groups:
        told = () if pushing.reason is None else ((Strategy.PUSHDOWN, pushing.reason),)
        rejected = ((Strategy.NARROW, _GIVEN), *_NOT_YET, *told)
        choice = StrategyChoice(chosen=Strategy.PUSHDOWN, requested=requested, rejected=rejected)
        return replace(stage, strategy=choice)
    choice = strategy_of(stage, requested)
    reason = (Strategy.PUSHDOWN, pushing.reason or "")
    return replace(stage, strategy=replace(choice, rejected=(*choice.rejected, reason)))


def strategy_of(stage: StagePlan, requested: Strategy) -> StrategyChoice:
    """`narrow` or `full` for a stage whose scans are known, without a word about `pushdown`."""
    obstacle = next(_obstacles(stage), None)
    if obstacle is None and requested is Strategy.AUTO:
        rows = sum(_rows(scan) for scan in stage.scans)
        values = rows * (len(stage.dimensions) + len(stage.measures))
        if rows < NARROW_FROM and values < NARROW_VALUES:
            obstacle = f"fewer than {NARROW_FROM:,} rows and {NARROW_VALUES:,} values are expected"
    elif obstacle is None and requested is not Strategy.NARROW:
        obstacle = f"{requested} was asked for"
    if obstacle is None:
        return StrategyChoice(chosen=Strategy.NARROW, requested=requested, rejected=_NOT_YET)
    rejected = ((Strategy.NARROW, obstacle), *_NOT_YET)
    return StrategyChoice(chosen=Strategy.FULL, requested=requested, rejected=rejected)


def _rows(scan: Scan) -> int:
    files = scan.pin.files if isinstance(scan.pin, FileList) else ()
    counted = sum(file.rows or 0 for file in files)
    return counted or scan.schema.estimated_rows or 0


def _obstacles(stage: StagePlan) -> Iterator[str]:
    if stage.type not in GROUPED and stage.type is not StageType.ROW:
        yield _OTHERS
    if stage.scope is not None:
        yield "a scoped stage reads few rows anyway"
    for scan in stage.scans:
        yield from _condition_obstacles(stage, scan)
    yield from _group_obstacles(stage) if stage.type in GROUPED else _row_obstacles(stage)


def _group_obstacles(stage: StagePlan) -> Iterator[str]:
    """Rows of equal raw dimensions are added up; rules see the groups, and Spark joins them."""
    for part in stage.dimensions:
        yield from _column_obstacles(stage, part.name, part.inputs)
        if any(plan.type.is_float for plan in part.inputs):
            yield f"{part.name} is a float"
    for measure in stage.measures:
        yield from _number_obstacles(stage, measure)


def _number_obstacles(stage: StagePlan, measure: MeasurePlan) -> Iterator[str]:
    types = [plan.type for plan in measure.inputs if plan is not None]
    if not types:
        if not measure.comparable:
            yield f"{measure.name} is not comparable"
        return
    yield from _column_obstacles(stage, measure.name, measure.inputs)
    if changes_inputs(measure):
        yield f"rules on the values of {measure.name}"
    match measure.function:
        case Function.COUNT:
            fits = True
        case Function.SUM | Function.AVG:
            fits = adds_up(types)
        case Function.MIN | Function.MAX:
            fits = all(each.kind in ORDERED for each in types)
        case _:
            fits = False
    if not fits:
        yield f"{measure.name} is {measure.function} of {types[0]}"


def _row_obstacles(stage: StagePlan) -> Iterator[str]:
    yield from _policy_obstacles(stage)
    for part in stage.dimensions:
        if part.rules != STRICT:
            yield f"rules on the key column {part.name}"
        yield from _column_obstacles(stage, part.name, part.inputs)
    for measure in stage.measures:
        yield from _measure_obstacles(stage, measure)


def _policy_obstacles(stage: StagePlan) -> Iterator[str]:
    if stage.duplicates is not DuplicatePolicy.MULTISET:
        yield f"`duplicates: {stage.duplicates}` needs every row"
    if stage.null_keys is not NullKeys.GROUP:
        yield f"`nulls.keys: {stage.null_keys}` needs every row"
    if stage.seal_rows:
        yield "`proof: rows` hashes every row"


def _condition_obstacles(stage: StagePlan, scan: Scan) -> Iterator[str]:
    """What the scan kernel may decide by itself: comparisons that mean the same everywhere."""
    if scan.filter is not None and scan.kind is SourceKind.PARQUET and not brings_computed(scan):
        doubt = _doubt(scan.filter, {each.name: each.type for each in scan.schema.columns})
        if doubt is not None:
            yield f"the filter of {scan.source} may mean something else to the kernel: {doubt}"
    if stage.where is None:
        return
    doubt = _doubt(stage.where, {each.name: each.type for each in scan.columns})
    if doubt is not None:
        yield f"`where` may mean something else to the kernel: {doubt}"


def _doubt(condition: str, types: Mapping[str, CanonicalType]) -> str | None:
    try:
        exact_condition(condition, types)
    except NotExactError as cause:
        return str(cause)
    return None


def _column_obstacles(
    stage: StagePlan, label: str, inputs: tuple[InputPlan | None, ...]
) -> Iterator[str]:
    """One physical form in all sources, equal exactly when values are canonically equal."""
    given = [plan for plan in inputs if plan is not None]
    if len(given) < len(stage.scans):
        yield f"{label} is absent in some source"
        return
    kinds = {plan.type.kind for plan in given}
    if any(plan.mapped or plan.cast is not None for plan in given):
        yield f"{label} is mapped or cast"
    elif kinds & _FOREIGN:
        yield f"{label} has the type {min(kinds & _FOREIGN)}"
    elif any(plan.type.is_finer for plan in given):
        yield f"{label} has times finer than a microsecond"
    elif any(plan.type.kind is TypeKind.DECIMAL and plan.type.scale is None for plan in given):
        yield f"{label} is a number without declared digits"
    elif not (len(kinds) == 1 or kinds <= _EXACT or all(plan.type.is_float for plan in given)):
        yield f"{label} meets as {' and '.join(sorted(kinds))}"


def _measure_obstacles(stage: StagePlan, measure: MeasurePlan) -> Iterator[str]:
    if not measure.comparable:
        yield f"{measure.name} is not comparable"
        return
    if measure.function is not Function.VALUE:
        yield f"{measure.name} is {measure.function}"
    yield from _column_obstacles(stage, measure.name, measure.inputs)
    if measure.rules == STRICT:
        return
    types = {plan.type for plan in measure.inputs if plan is not None}
    if measure.rules.nan is NanRule.UNEQUAL:
        yield f"`nan: unequal` of {measure.name}: equal rows may differ"
    # Equal values of one type stay equal under any rule; their totals do not stay the same.
    elif measure.has_total or len(types) > 1:
        yield f"rules on {measure.name} change its totals or meet different types"
