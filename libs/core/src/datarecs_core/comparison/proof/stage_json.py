"""A stage in the proof: its declaration, with every relaxation, and every number.

Separate from `run_json`, which seals the whole run; `sealed` reads it back.
"""

from collections.abc import Sequence
from decimal import Decimal

from datarecs_core.comparison.planning.plan import DimensionPlan, MeasurePlan, StagePlan
from datarecs_core.comparison.planning.tolerance import (
    PercentageTolerance,
    tolerance_type,
    tolerance_value,
)
from datarecs_core.comparison.proof.pin_json import Document, pin_document
from datarecs_core.comparison.results.payload import by_source
from datarecs_core.comparison.results.results import (
    MeasureResult,
    StageCounts,
    StageResults,
    UnitResult,
    Waterfall,
)
from datarecs_core.comparison.results.verdict import StageOutcome
from datarecs_core.documents import decimal_text, to_document
from datarecs_core.hashing import JsonValue

LISTED_FILES = 100
"""Of a pin of a recheck; the list of a source's first pin may be longer."""


def stage_document(stage: StageOutcome) -> Document:
    """A stage of the proof: EXECUTED with its numbers, or SKIPPED with its reason."""
    head: Document = {"name": stage.plan.name, "type": stage.plan.type.value}
    if stage.results is None or stage.verdict is None:
        reason = None if stage.skipped is None else stage.skipped.value
        skipped: Document = {**head, "status": "SKIPPED", "reason": reason}
        return {**skipped, "stopped_by": stage.stopped_by} if stage.stopped_by else skipped
    results = stage.results
    return {
        **head,
        "status": "EXECUTED",
        "result": stage.verdict.value,
        "acceptance": stage.acceptance.value,
        "question": question_document(stage.plan),
        "counts": counts_document(results.counts),
        "measures": _measures(stage.plan, results),
        "differences": {
            "rows": results.differences.rows,
            "digest": results.differences.digest,
            "truncated": results.differences.truncated,
        },
        "closure": [to_document(each) for each in results.closure],
        **_confirmed(results),
    }


def _confirmed(results: StageResults) -> Document:
    """What was counted before the rechecks, and what every recheck read at which pins."""
    if results.confirmed is None:
        return {}
    return {
        "confirmed": {
            "in_flight_resolved": results.confirmed.in_flight_resolved,
            "first_counts": counts_document(results.confirmed.first),
            "looks": [
                {
                    "pins": [pin_document(pin, listed=LISTED_FILES) for pin in recheck.pins],
                    "counts": counts_document(recheck.counts),
                }
                for recheck in results.confirmed.rechecks
            ],
        }
    }


def question_document(plan: StagePlan) -> Document:
    """The declaration of a stage, with every relaxation."""
    return {
        "dimensions": [_dimension(each) for each in plan.dimensions],
        "reference": plan.sources[plan.reference],
        "where": plan.written_where,
        "scope": None if plan.scope is None else plan.scope.from_stage,
        "duplicates": plan.duplicates.value,
        "null_keys": plan.null_keys.value,
        "empty": plan.empty.value,
        "on_unmatched": plan.on_unmatched.value,
        "accept": to_document(plan.accept),
        "warn_at": to_document(plan.warn_at),
        **({} if plan.confirm is None else {"confirm": to_document(plan.confirm)}),
        **_derived(plan),
    }


def _derived(plan: StagePlan) -> Document:
    """The origin of groups that are not rows of a source."""
    if plan.catalogue is not None:
        policy = plan.catalogue.policy
        return {
            "schema": {
                "mode": policy.mode.value,
                "order": policy.order,
                "nullability": policy.nullability,
                "ignore": list(policy.ignore),
                "equivalences": [[str(kind) for kind in group] for group in policy.equivalences],
            }
        }
    if plan.queries:
        return {"queries": {scan.source: scan.query for scan in plan.queries}}
    if plan.hashed is not None:
        rows = plan.hashed
        return {
            "hashed": {
                "dimensions": [_dimension(each) for each in rows.dimensions],
                "measures": [
                    {"name": each.name, "rules": dict(each.rules.declared())}
                    for each in rows.measures
                ],
            }
        }
    return {}


def _dimension(dimension: DimensionPlan) -> Document:
    return {
        "name": dimension.name,
        "column": next((each.column for each in dimension.inputs), None),
        "types": [str(each.result) for each in dimension.inputs],
        "rules": dict(dimension.rules.declared()),
    }


def counts_document(counts: StageCounts) -> Document:
    """Counts with their per-source numbers under `source_<i>`."""
    return {
        "source_row_counts": by_source(counts.source_row_counts),
        "groups_by_source": by_source(counts.groups_by_source),
        "matched_groups": counts.matched_groups,
        "unmatched_groups": counts.unmatched_groups,
        "unmatched_by_source": by_source(counts.unmatched_by_source),
        "missing_by_source": by_source(counts.missing_by_source),
        "presence": [{"mask": mask, "groups": groups} for mask, groups in counts.presence],
        "presence_other": counts.presence_other,
        "rows_compared": counts.rows_compared,
        "rows_matched": counts.rows_matched,
        "rows_unmatched": counts.rows_unmatched,
        "duplicate_keys_by_source": by_source(counts.duplicate_keys_by_source),
        "null_keys_by_source": by_source(counts.null_keys_by_source),
        "invalid_values_by_source": by_source(counts.invalid_values_by_source),
        "excluded_rows_by_source": by_source(counts.excluded_rows_by_source),
        "odd_one_out": by_source(counts.odd_one_out),
    }


def _measures(plan: StagePlan, results: StageResults) -> list[JsonValue]:
    declared: list[MeasurePlan | None] = [*plan.measures]
    if results.rows is not None:
        declared.append(None)
    return [
        measure_document(measure, result)
        for measure, result in zip(declared, results.all_measures, strict=True)
    ]


def measure_document(plan: MeasurePlan | None, result: MeasureResult) -> Document:
    """A measure's declaration and numbers; `$rows` has no plan."""
    document: Document = {
        "name": result.name,
        "tolerances": [
            {
                "type": tolerance_type(each.tolerance).value,
                "value": decimal_text(tolerance_value(each.tolerance)),
                "base": each.tolerance.base.value
                if isinstance(each.tolerance, PercentageTolerance)
                else None,
                "own_within": each.alone_within,
            }
            for each in result.tolerances
        ],
        **_numbers(result),
    }
    if plan is None:
        return document
    return {
        **document,
        "function": plan.function.value,
        "column": next((each.column for each in plan.inputs if each is not None), None),
        "types": [None if each is None else str(each.result) for each in plan.inputs],
        "combine": plan.combine.value,
        "bound": plan.bound.value,
        "compare_to": plan.compare_to.value,
        "rules": dict(plan.rules.declared()),
        "comparable": plan.comparable,
        **({} if plan.adds_up is None else {"adds_up": plan.adds_up}),
    }


def _numbers(result: MeasureResult) -> Document:
    return {
        "within": result.within,
        "outside": result.outside,
        "equal": result.equal,
        "within_not_equal": result.within_not_equal,
        "null_mismatch": result.null_mismatch,
        "invalid": result.invalid,
        "precision": result.precision,
        "multiplicity": result.multiplicity,
        "not_comparable": result.not_comparable,
        "total_by_source": _amounts(result.total_by_source),
        "gap_by_source": _amounts(result.gap_by_source),
        **_faults(result),
        "waterfall_by_source": _waterfalls(result.waterfall_by_source),
        "max_abs_delta": _amount(result.max_abs_delta),
        "passed": result.passed,
    }


def _faults(result: MeasureResult) -> Document:
    """Why totals are unknown: values that are no numbers, where there are any."""
    counted = {
        "unreadable_by_source": result.unreadable_by_source,
        "not_finite_by_source": result.not_finite_by_source,
    }
    return {name: by_source(numbers) for name, numbers in counted.items() if any(numbers)}


def unit_document(result: UnitResult) -> Document:
    """Groups and amounts of one currency or unit; outside the proof."""
    return {
        "unit": result.unit,
        "differing": result.differing,
        "missing_here": by_source(result.missing_here),
        "missing_in_reference": by_source(result.missing_in_reference),
        "measures": [
            {"name": each.measure, "waterfall_by_source": _waterfalls(each.waterfall_by_source)}
            for each in result.measures
        ],
    }


def _waterfalls(waterfalls: Sequence[Waterfall | None]) -> Document:
    return {
        f"source_{index}": None if steps is None else _steps(steps)
        for index, steps in enumerate(waterfalls)
    }


def _steps(steps: Waterfall) -> Document:
    return {
        "missing_here": decimal_text(steps.missing_here),
        "missing_in_reference": decimal_text(steps.missing_in_reference),
        "changed": decimal_text(steps.changed),
    }


def _amounts(amounts: Sequence[Decimal | None]) -> Document:
    return {f"source_{index}": _amount(amount) for index, amount in enumerate(amounts)}


def _amount(amount: Decimal | None) -> str | None:
    return None if amount is None else decimal_text(amount)
