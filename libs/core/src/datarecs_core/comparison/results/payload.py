"""A stage's results as the plain values of Source 001's payloads, field names included.

The event classes belong to `runs.events`; this module supplies only numbers and words, so that
progress frames, events and stage rows agree digit for digit.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import NotRequired, TypedDict

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.tolerance import tolerance_type, tolerance_value
from datarecs_core.comparison.results.results import MeasureResult, StageResults, Verdict
from datarecs_core.documents import decimal_text


class TolerancePayload(TypedDict):
    """One entry of `tolerances[]`: the arguments of `runs.events.ToleranceCount`."""

    measure_name: str
    tolerance_type: str
    tolerance_value: Decimal
    tolerance_value_exact: str
    within_tolerance_count: int
    outside_tolerance_count: int
    passed: bool
    combine: NotRequired[str]
    own_within_count: NotRequired[int]


class ComparisonPayload(TypedDict):
    """The fields of `run.comparison.completed` about a stage, without ids.

    `stage.completed` takes `stage_name`, `result` and `tolerances` of it.
    """

    stage_name: str
    source_row_counts: dict[str, int]
    matched_groups: int
    unmatched_by_source: dict[str, int]
    tolerances: list[TolerancePayload]
    result: str
    rows_compared: int
    rows_matched: int
    rows_unmatched: int
    source_names: dict[str, str]
    missing_by_source: dict[str, int]
    unmatched_groups: int
    in_flight_resolved: NotRequired[int]
    """Where differing groups were read again."""


def by_source(numbers: Sequence[int]) -> dict[str, int]:
    """Keys `source_0`, `source_1`, …, independent of the names of the sources."""
    return {f"source_{index}": number for index, number in enumerate(numbers)}


def comparison_payload(
    plan: StagePlan, results: StageResults, verdict: Verdict
) -> ComparisonPayload:
    """The numbers of a judged stage."""
    counts = results.counts
    payload = ComparisonPayload(
        stage_name=plan.name,
        source_row_counts=by_source(counts.source_row_counts),
        matched_groups=counts.matched_groups,
        unmatched_by_source=by_source(counts.unmatched_by_source),
        tolerances=tolerance_payloads(plan, results),
        result=verdict.value,
        rows_compared=counts.rows_compared,
        rows_matched=counts.rows_matched,
        rows_unmatched=counts.rows_unmatched,
        source_names={f"source_{index}": name for index, name in enumerate(plan.sources)},
        missing_by_source=by_source(counts.missing_by_source),
        unmatched_groups=counts.unmatched_groups,
    )
    if results.confirmed is not None:
        payload["in_flight_resolved"] = results.confirmed.in_flight_resolved
    return payload


def tolerance_payloads(plan: StagePlan, results: StageResults) -> list[TolerancePayload]:
    """One entry per declared tolerance, with its measure's combined counts; `$rows` if outside."""
    combines = {measure.name: measure.combine.value for measure in plan.measures}
    shown = [*results.measures]
    if results.rows is not None and results.rows.outside:
        shown.append(results.rows)
    return [entry for measure in shown for entry in _entries(measure, combines.get(measure.name))]


def _entries(measure: MeasureResult, combine: str | None) -> list[TolerancePayload]:
    entries: list[TolerancePayload] = []
    for each in measure.tolerances:
        value = tolerance_value(each.tolerance)
        entry = TolerancePayload(
            measure_name=measure.name,
            tolerance_type=tolerance_type(each.tolerance).value,
            tolerance_value=value,
            tolerance_value_exact=decimal_text(value),
            within_tolerance_count=measure.within,
            outside_tolerance_count=measure.outside,
            passed=measure.passed,
        )
        if len(measure.tolerances) > 1 and combine is not None:
            entry["combine"] = combine
            entry["own_within_count"] = each.alone_within
        entries.append(entry)
    return entries
