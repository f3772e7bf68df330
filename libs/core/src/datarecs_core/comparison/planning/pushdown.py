"""What a source may send instead of all rows: groups, or fewer rows, only where this is exact.

A database groups and compares by its types and collations, which agree with canonical values for
some of them. Everything else stays in the engine, with a reason. Where only the values decide (NaN,
infinity, years without canonical form) the source raises NotPushedError at the read.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from datarecs_core.comparison.expressions.exact_conditions import NotExactError, exact_condition
from datarecs_core.comparison.planning.plan import DimensionPlan, InputPlan, MeasurePlan, StagePlan
from datarecs_core.comparison.planning.rules import STRICT
from datarecs_core.comparison.planning.scan import Groups, Partial, Scan, SourceColumn
from datarecs_core.jobs.types import MAX_DIGITS, CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import Function, NullAs, SourceKind, StageType, Strategy

PUSHED_KINDS = frozenset({SourceKind.POSTGRES})
MAX_KEYS = 10_000
"""Keys of differing groups that a statement may list; more are filtered in the engine."""
PUSH_FROM = 1_000_000
"""Rows of all sources from which `auto` reads groups: below it the engine is faster."""
_MOST_GROUPS = 10
"""Percent of a source's rows: with more groups than that little is saved."""
_EXACT = frozenset({TypeKind.INT, TypeKind.DECIMAL})
_TEMPORAL = frozenset({TypeKind.DATE, TypeKind.INSTANT, TypeKind.LOCAL_TIMESTAMP})
_DIMENSIONS = _EXACT | _TEMPORAL | {TypeKind.TEXT, TypeKind.UUID, TypeKind.BOOL}
_ORDERED = _EXACT | _TEMPORAL | {TypeKind.TEXT}
"""Types with the same minimum and maximum by bytes, in SQL and in canonical order."""
_GROUPED = frozenset({StageType.AGGREGATE, StageType.COUNTS})
_INT = 20
"""Digits of the widest integer."""
_RESERVED = "$"


class NotPushedError(Exception):
    """A source cannot send the requested groups; the message is the reason. Its rows are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushing:
    """What is read from the sources of one stage."""

    groups: tuple[Groups | None, ...] = ()
    """Per source; empty where every source sends rows."""
    by_keys: tuple[int, ...] = ()
    """Sources that send only the rows of differing groups."""
    reason: str | None = None
    """Why some source, or all of them, send rows."""


def pushing_of(stages: Sequence[StagePlan], requested: Strategy) -> tuple[Pushing, ...]:
    """For every stage what is read from its sources.

    Args:
        stages: with their scans.
        requested: by the job; all but `auto` and `pushdown` push nothing.
    """
    if requested not in {Strategy.AUTO, Strategy.PUSHDOWN}:
        return tuple(Pushing(reason=f"`execution.strategy` is {requested}") for _ in stages)
    requests = [[_request(stage, scan) for scan in stage.scans] for stage in stages]
    keyed = [_by_keys(stage) for stage in stages]
    if requested is Strategy.AUTO:
        requests = [
            _saving(stage, by_source) for stage, by_source in zip(stages, requests, strict=True)
        ]
    readers = _readers(stages, requests, keyed)
    if requested is Strategy.AUTO:
        requests = [
            _unread(stage, by_source, readers)
            for stage, by_source in zip(stages, requests, strict=True)
        ]
    return tuple(
        _pushing(stage, by_source, tuple(index for index in keys if index not in readers))
        for stage, by_source, keys in zip(stages, requests, keyed, strict=True)
    )


def reads_rows(stage: StagePlan, index: int) -> bool:
    """Whether the stage needs every row of a source before it starts."""
    if stage.catalogue is not None or stage.queries or index in stage.by_keys:
        return False
    return not stage.groups or stage.groups[index] is None


def shared_condition(stages: Sequence[StagePlan], index: int) -> str | None:
    """A condition of every stage that the source evaluates exactly; other rows are not sent."""
    row_stages = [each for each in stages if each.catalogue is None and not each.queries]
    conditions = [
        {each for each in (stage.where, stage.scope.where if stage.scope else None) if each}
        for stage in row_stages
    ]
    shared = set.intersection(*conditions) if conditions else set()
    scans = [stage.scans[index] for stage in row_stages]
    if (
        not shared
        or scans[0].kind not in PUSHED_KINDS
        or any(stage.confirm for stage in row_stages)
    ):
        return None
    return next((each for each in sorted(shared) if _condition_doubt(each, scans[0]) is None), None)


def _pushing(stage: StagePlan, requests: Sequence[Groups | str], keys: tuple[int, ...]) -> Pushing:
    groups = tuple(each if isinstance(each, Groups) else None for each in requests)
    reasons = [
        (scan, each)
        for scan, each in zip(stage.scans, requests, strict=True)
        if isinstance(each, str)
    ]
    if not any(groups):
        database_reasons = [each for scan, each in reasons if scan.kind in PUSHED_KINDS]
        reason = database_reasons[0] if database_reasons else "no source is a database"
        return Pushing(by_keys=keys, reason=reason)
    text = "; ".join(f"{scan.source} sends rows: {each}" for scan, each in reasons)
    return Pushing(groups=groups, by_keys=keys, reason=text or None)


def _request(stage: StagePlan, scan: Scan) -> Groups | str:
    """The groups to read from a source, or the reason against it."""
    reason = next(_obstacles(stage, scan), None)
    if reason is not None:
        return reason
    return replace(groups_of(stage, scan.index), where=stage.where)


def groups_of(stage: StagePlan, index: int) -> Groups:
    """What is computed of a source: its dimensions as they are, and the parts of every measure."""
    dimensions = tuple(dict.fromkeys(each.inputs[index].column for each in stage.dimensions))
    partials = dict.fromkeys(
        partial for measure in stage.measures for partial in _partials(measure, index)
    )
    return Groups(dimensions=dimensions, partials=tuple(partials))


def _partials(measure: MeasurePlan, index: int) -> Iterator[Partial]:
    plan = measure.inputs[index]
    if plan is None:
        return
    if measure.function in {Function.SUM, Function.AVG}:
        yield Partial(function=Function.SUM, column=plan.column)
        yield Partial(function=Function.COUNT, column=plan.column)
    else:
        yield Partial(function=measure.function, column=plan.column)


def _obstacles(stage: StagePlan, scan: Scan) -> Iterator[str]:
    if scan.kind not in PUSHED_KINDS:
        yield f"{scan.kind} sources do not group"
    if stage.type not in _GROUPED:
        yield "only aggregate and counts stages are grouped by a database"
    if stage.scope is not None:
        yield "a scoped stage reads few rows anyway"
    if stage.confirm is not None:
        yield "`confirm` reads rows again"
    if stage.where is not None and (doubt := _condition_doubt(stage.where, scan)) is not None:
        yield f"`where` may have another meaning there: {doubt}"
    for dimension in stage.dimensions:
        yield from _dimension_obstacles(dimension, scan)
    for measure in stage.measures:
        yield from _measure_obstacles(measure, scan)


def _dimension_obstacles(dimension: DimensionPlan, scan: Scan) -> Iterator[str]:
    if dimension.rules != STRICT:
        yield f"rules on the key column {dimension.name}"
    plan = dimension.inputs[scan.index]
    yield from _input_obstacles(plan, scan, dimension.name)
    if plan.type.kind not in _DIMENSIONS:
        yield f"{dimension.name} has the type {plan.type}"


def _measure_obstacles(measure: MeasurePlan, scan: Scan) -> Iterator[str]:
    plan = measure.inputs[scan.index]
    if plan is None:
        return
    if _changes_inputs(measure):
        yield f"rules on the values of {measure.name}"
    yield from _input_obstacles(plan, scan, measure.name)
    match measure.function:
        case Function.COUNT:
            fits = plan.type.kind in _DIMENSIONS
        case Function.SUM | Function.AVG:
            fits = _adds_up([each.type for each in measure.inputs if each is not None])
        case Function.MIN | Function.MAX:
            fits = plan.type.kind in _ORDERED
        case _:
            fits = False
    if not fits:
        yield f"{measure.name} is {measure.function} of {plan.type}"


def _changes_inputs(measure: MeasurePlan) -> bool:
    """Rules change values before a function reads them; `null` and `round` change its result."""
    return replace(measure.rules, null=NullAs.KEEP, round=None) != STRICT


def _adds_up(kinds: Sequence[CanonicalType]) -> bool:
    """All sources have exact numbers that one decimal holds, so that no value is lost."""
    if any(each.kind not in _EXACT for each in kinds):
        return False
    whole = [
        each.precision - each.scale if each.precision and each.scale is not None else _INT
        for each in kinds
    ]
    return max(whole) + max(each.scale or 0 for each in kinds) <= MAX_DIGITS


def _input_obstacles(plan: InputPlan, scan: Scan, label: str) -> Iterator[str]:
    if plan.mapped or plan.cast is not None:
        yield f"{label} is mapped or cast"
    if plan.type.kind is TypeKind.DECIMAL and plan.type.scale is None:
        yield f"{label} is a number without declared digits"
    declared = declared_column(scan, plan.column)
    if plan.column.startswith(_RESERVED) or declared is None or not declared.groups_exactly:
        yield f"{scan.source} does not group {label} exactly"


def declared_column(scan: Scan, name: str) -> SourceColumn | None:
    """The source's description of a logical column."""
    column = scan.column(name)
    if column.physical is None:
        known = (each for each in scan.schema.expressions if each.name == name)
    else:
        known = (each for each in scan.schema.columns if each.name == column.physical)
    return next(known, None)


def _condition_doubt(condition: str, scan: Scan) -> str | None:
    types = {column.name: column.type for column in scan.columns}
    try:
        exact = exact_condition(condition, types)
    except NotExactError as cause:
        return str(cause)
    columns = {name: declared_column(scan, name) for name in exact.types}
    unlike = [name for name, each in columns.items() if each is None or not each.groups_exactly]
    return f"{unlike[0]} is compared in another way" if unlike else None


def _by_keys(stage: StagePlan) -> tuple[int, ...]:
    """Sources that can find the rows of differing groups by themselves."""
    scope = stage.scope
    if scope is None or scope.buckets or not scope.dimensions or stage.confirm is not None:
        return ()
    if stage.catalogue is not None or stage.queries:
        return ()
    return tuple(scan.index for scan in stage.scans if finds_groups(scope.dimensions, scan))


def finds_groups(dimensions: Sequence[DimensionPlan], scan: Scan) -> bool:
    """Whether a source can select the rows of listed groups."""
    return scan.kind in PUSHED_KINDS and not any(
        True for each in dimensions for _ in _dimension_obstacles(each, scan)
    )


def _saving(stage: StagePlan, requests: Sequence[Groups | str]) -> list[Groups | str]:
    """Groups are read where few are expected."""
    expected = sum(scan.schema.estimated_rows or 0 for scan in stage.scans)
    return [
        each if isinstance(each, str) else _little_saved(stage, scan, expected) or each
        for scan, each in zip(stage.scans, requests, strict=True)
    ]


def _little_saved(stage: StagePlan, scan: Scan, expected: int) -> str | None:
    rows = scan.schema.estimated_rows
    if rows is None or expected < PUSH_FROM:
        return f"fewer than {PUSH_FROM:,} rows are expected"
    groups = expected_groups(stage, scan)
    if groups is None:
        return f"{scan.source} has no statistics about its groups; run ANALYZE"
    if groups * 100 > rows * _MOST_GROUPS:
        return f"{groups:,} groups of {rows:,} rows are expected of {scan.source}"
    return None


def _readers(
    stages: Sequence[StagePlan],
    requests: Sequence[Sequence[Groups | str]],
    keyed: Sequence[tuple[int, ...]],
) -> Mapping[int, str]:
    """By source a stage that needs all its rows."""
    return {
        index: stage.name
        for stage, by_source, keys in zip(stages, requests, keyed, strict=True)
        for index, each in enumerate(by_source)
        if isinstance(each, str)
        and index not in keys
        and stage.catalogue is None
        and not stage.queries
    }


def _unread(
    stage: StagePlan, requests: Sequence[Groups | str], readers: Mapping[int, str]
) -> list[Groups | str]:
    """Groups of a source have no benefit where a stage reads its rows anyway."""
    return [
        f"stage {readers[index]} reads every row of {stage.scans[index].source} anyway"
        if isinstance(each, Groups) and index in readers
        else each
        for index, each in enumerate(requests)
    ]


def expected_groups(stage: StagePlan, scan: Scan) -> int | None:
    """At most the product of the dimensions' expected values; None where some is unknown."""
    groups = 1
    for dimension in stage.dimensions:
        declared = declared_column(scan, dimension.inputs[scan.index].column)
        if declared is None or declared.distinct is None:
            return None
        groups *= max(declared.distinct, 1)
    return min(groups, scan.schema.estimated_rows or groups)
