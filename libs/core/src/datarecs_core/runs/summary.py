"""The few numbers of a finished run: what lists, mails and `run.finalised` show of its outcome."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import cast

from datarecs_core.comparison.planning.additivity import adds_up, is_unit, unit_column
from datarecs_core.comparison.planning.plan import DimensionPlan, MeasurePlan, StagePlan
from datarecs_core.comparison.results.results import StageResults, Verdict, Waterfall
from datarecs_core.comparison.results.verdict import Acceptance, RunOutcome
from datarecs_core.documents import decimal_text, from_document
from datarecs_core.hashing import JsonValue
from datarecs_core.jobs.types import TypeKind
from datarecs_core.jobs.vocabulary import Function
from datarecs_core.runs.events import RunCompleted, RunEnd
from datarecs_core.runs.model import LikelyCause, MeasureGap, MissingGroups, RunSummary
from datarecs_core.runs.result_file import MAX_ENTRIES

_MILLISECOND = timedelta(milliseconds=1)


def summary_of(
    outcome: RunOutcome,
    *,
    duration: timedelta,
    report_path: str | None,
    likely_cause: LikelyCause | None = None,
) -> RunSummary:
    """Row numbers are those of the executed stage that compared the most groups.

    Adding the stages up would count one key once per stage; the widest one shows how much of the
    data agrees. Ties go to the later stage.
    """
    executed = [(stage.plan, stage.results) for stage in outcome.stages if stage.results]
    widest = max(
        enumerate(results.counts for _, results in executed),
        key=lambda pair: (pair[1].rows_compared, pair[0]),
    )[1]
    matched = [stage for stage in outcome.stages if stage.verdict is Verdict.MATCHED]
    gaps = [gap for plan, results in executed for gap in _gaps(plan, results)]
    gaps += [gap for plan, results in executed for gap in _gaps_by_unit(plan, results)]
    missing = [entry for plan, results in executed for entry in _missing(plan, results)]
    return RunSummary(
        stages_total=len(outcome.stages),
        stages_matched=len(matched),
        rows_compared=widest.rows_compared,
        rows_matched=widest.rows_matched,
        rows_unmatched=widest.rows_unmatched,
        duration_ms=duration // _MILLISECOND,
        empty=not any(any(results.counts.source_row_counts) for _, results in executed),
        acceptance=None
        if outcome.acceptance is Acceptance.NOT_CONFIGURED
        else outcome.acceptance.value,
        report_path=report_path,
        measures=tuple(gaps[:MAX_ENTRIES]) or None,
        measures_total=len(gaps) if len(gaps) > MAX_ENTRIES else None,
        missing=tuple(missing[:MAX_ENTRIES]) or None,
        likely_cause=likely_cause,
    )


def _gaps(plan: StagePlan, results: StageResults) -> Iterator[MeasureGap]:
    """Every measure and source with a different total, or with a group outside tolerance."""
    plans = {measure.name: measure for measure in plan.measures}
    is_by_unit = any(map(is_unit, map(_names, plan.dimensions)))
    for measure in results.measures:
        has_one_total = not is_by_unit and _adds_up(plan, plans[measure.name])
        for at, source in enumerate(plan.sources):
            gap = measure.gap_by_source[at] if has_one_total else None
            if at != plan.reference and (gap or measure.outside):
                steps = measure.waterfall_by_source[at] if measure.waterfall_by_source else None
                entry = MeasureGap(
                    stage_name=plan.name,
                    measure_name=measure.name,
                    source=source,
                    reference=plan.sources[plan.reference],
                    gap=None if gap is None else decimal_text(gap),
                    outside_tolerance_count=measure.outside,
                )
                yield _with_steps(entry, steps if has_one_total else None)


def _gaps_by_unit(plan: StagePlan, results: StageResults) -> Iterator[MeasureGap]:
    """The amounts of measures that have a total in each unit and none over all of them."""
    plans = {measure.name: measure for measure in plan.measures}
    for at, source in enumerate(plan.sources):
        if at == plan.reference:
            continue
        for unit in results.units:
            for amounts in unit.measures:
                steps = amounts.waterfall_by_source[at]
                if amounts.measure in plans and _adds_up(plan, plans[amounts.measure]) and steps:
                    entry = MeasureGap(
                        stage_name=plan.name,
                        measure_name=amounts.measure,
                        source=source,
                        reference=plan.sources[plan.reference],
                        unit=unit.unit,
                        gap=decimal_text(steps.gap),
                    )
                    yield _with_steps(entry, steps)


def _with_steps(entry: MeasureGap, steps: Waterfall | None) -> MeasureGap:
    if steps is None:
        return entry
    return replace(
        entry,
        missing_in_source=decimal_text(steps.missing_here),
        missing_in_reference=decimal_text(steps.missing_in_reference),
        changed=decimal_text(steps.changed),
    )


def _adds_up(plan: StagePlan, measure: MeasurePlan) -> bool:
    """Whether people may read the measure's total, by the rule that the report follows."""
    texts = [each for each in plan.measures if _is_text(each)]
    is_mixed = measure.function is not Function.COUNT and not measure.adds_up
    if is_mixed and unit_column(map(_names, plan.dimensions), map(_names, texts)) is not None:
        return False
    return measure.has_total and adds_up(
        _names(measure), measure.function, declared=measure.adds_up
    )


def _is_text(measure: MeasurePlan) -> bool:
    first = measure.inputs[0]
    return first is not None and first.result.kind is TypeKind.TEXT


def _names(planned: DimensionPlan | MeasurePlan) -> tuple[str, str]:
    """Its name and its column in the first source that has one."""
    return planned.name, next((each.column for each in planned.inputs if each is not None), "")


def _missing(plan: StagePlan, results: StageResults) -> Iterator[MissingGroups]:
    for source, groups in zip(plan.sources, results.counts.missing_by_source, strict=True):
        if groups:
            yield MissingGroups(stage_name=plan.name, source=source, groups=groups)


def likely_cause(hints: Mapping[str, JsonValue]) -> LikelyCause | None:
    """The pattern with the most differences; of equal ones the first.

    Args:
        hints: by stage, as in a run.json.
    """
    causes = [
        LikelyCause(
            stage_name=stage,
            measure_name=str(hint["measure"]),
            source=str(hint["source"]),
            pattern=str(hint["rule"]),
            explained=int(str(hint["explained"])),
            of=int(str(hint["of"])),
        )
        for stage, entries in hints.items()
        for hint in cast("list[Mapping[str, JsonValue]]", entries)
    ]
    return max(causes, key=lambda cause: cause.explained, default=None)


def read_summary(stored: Mapping[str, object]) -> RunSummary:
    """The summary from its JSON form, as rows and events have it; unknown fields are left aside.

    Raises:
        ValueError: a number is missing.
    """
    known = RunSummary.__dataclass_fields__
    document = {name: value for name, value in stored.items() if name in known}
    return from_document(RunSummary, cast("JsonValue", document))


def with_report_url(end: RunEnd, base_url: str | None) -> RunEnd:
    """The end with the report's absolute URL, where there is a report and a base URL."""
    if not isinstance(end, RunCompleted) or end.summary is None or base_url is None:
        return end
    path = end.summary.report_path
    url = None if path is None else f"{base_url.rstrip('/')}{path}"
    return replace(end, summary=replace(end.summary, report_url=url))
