"""Texts about a job before its sources are opened: the declarations of its file.

`plan_words` has the texts of a plan with types, rows and strategies, which are unknown here. The
caller escapes foreign text.
"""

from collections.abc import Iterator, Sequence

from datarecs_core.comparison.planning.tolerance import tolerance_of
from datarecs_core.jobs.definition import Measure, ReconciliationJob, Source, Stage
from datarecs_core.jobs.units import unit_measures
from datarecs_core.jobs.vocabulary import Function, StageType
from datarecs_reports.decoding import tolerance_facts
from datarecs_reports.figures import visible
from datarecs_reports.plan_words import NEXT, PlanPart, Question, limit_words
from datarecs_reports.words import kind_words, policy_words, tolerance_words

_KEYED = frozenset({StageType.ROW, StageType.AGGREGATE, StageType.DIGEST})


def source_parts(job: ReconciliationJob) -> list[PlanPart]:
    """Every source: its place, its columns, and the rows that are left out."""
    references = {job.reference_source, *(each.reference for each in job.stages)}
    return [
        PlanPart(
            title=f"source {visible(each.name)}"
            + (" (reference)" if each.name in references else ""),
            lines=tuple(_source(each)),
        )
        for each in job.sources
    ]


def _source(source: Source) -> Iterator[tuple[str, str]]:
    place = source.relation or source.path or source.topic or "a query"
    over = f" over connection {visible(source.connection)}" if source.connection else ""
    yield "read", f"{source.kind} {visible(place)}{over}"
    for name, table in source.tables.items():
        yield "table", f"{visible(name)}: {table.kind or source.kind} {visible(table.path)}"
    if source.query is not None:
        yield "query", visible(source.query, most=4000)
    for name, mapping in source.columns.items():
        yield (
            "columns",
            f"{visible(name)} = {visible(mapping.expr or mapping.column or '', most=500)}",
        )
    for name, kind in source.cast.items():
        yield "cast", f"{visible(name)} is read as {kind}"
    if source.filter is not None:
        yield "filter", visible(source.filter, most=1000)
    if source.timezone is not None:
        yield "zone", f"times without a zone are in {source.timezone}"
    yield "limits", limit_words(source.limits)


def stage_parts(job: ReconciliationJob) -> list[PlanPart]:
    """Every stage in order: comparison, tolerances, policies and the next step."""
    return [
        PlanPart(title=f"stage {visible(each.name)}", lines=tuple(_stage(job, each)))
        for each in job.stages
    ]


def _stage(job: ReconciliationJob, stage: Stage) -> Iterator[tuple[str, str]]:
    reference = stage.reference or job.reference_source
    yield "compares", kind_words(stage.type.value, [each.name for each in stage.dimensions])
    measures: Sequence[Measure] = () if isinstance(stage.measures, str) else stage.measures
    for measure in measures:
        for each in [one.measure for one in unit_measures(measure)] or [measure]:
            yield "measure", f"{_measured(stage, each)}: {_limits(stage, each, reference)}"
    if isinstance(stage.measures, str):
        left_out = f" except {', '.join(map(visible, stage.except_))}" if stage.except_ else ""
        yield "measure", f"every column that is not a dimension{left_out}"
    yield "against", visible(reference)
    for name, query in stage.queries.items():
        yield "query", f"{visible(name)}: {visible(query, most=4000)}"
    if stage.where is not None:
        yield "where", visible(stage.where, most=1000)
    if stage.scope is not None:
        yield "scope", f"only groups that differ in {visible(stage.scope.from_stage)}"
    duplicates = stage.duplicates or job.duplicates
    for line in policy_words(
        duplicates=duplicates.value if stage.type is StageType.ROW else None,
        null_keys=job.normalize.nulls.keys.value if stage.type in _KEYED else None,
        empty=job.empty.value,
    ):
        yield "policy", line
    yield "strategy", f"{job.execution.strategy}; the sources decide what is possible"
    yield "then", NEXT[stage.on_unmatched]


def _measured(stage: Stage, measure: Measure) -> str:
    name, column = visible(measure.name), measure.column
    function = measure.function or (Function.SUM if stage.type is StageType.AGGREGATE else None)
    if function is None:
        return name if column in (None, measure.name) else f"{name}, {visible(column or '')}"
    of = " of rows" if function is Function.COUNT and column is None else ""
    return f"{name}, {function}{of or f' of {visible(column or measure.name)}'}"


def _limits(stage: Stage, measure: Measure, reference: str) -> str:
    question = Question(
        name=measure.name,
        tolerances=tuple(tolerance_facts(tolerance_of(each)) for each in measure.tolerances),
        combine=measure.combine.value,
        bound=measure.bound.value,
        compare_to=stage.compare_to.value,
        comparable=True,
    )
    return tolerance_words(question, reference)
