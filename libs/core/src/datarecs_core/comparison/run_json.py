"""run.json: what a run proves, sealed by one hash, and beside it what only this run knows.

`proof` depends on the question, the pins and the data alone, so equal inputs give equal bytes on
any engine and partitioning; ids, times, places and samples stand outside it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from datarecs_core.comparison.payload import by_source
from datarecs_core.comparison.plan import (
    ComparisonPlan,
    DimensionPlan,
    InputPlan,
    MeasurePlan,
    StagePlan,
    Warn,
)
from datarecs_core.comparison.results import Closure, MeasureResult, StageCounts, StageResults
from datarecs_core.comparison.scan import ExportedSnapshot, Pin, Scan
from datarecs_core.comparison.tolerance import (
    PercentageTolerance,
    tolerance_type,
    tolerance_value,
)
from datarecs_core.comparison.verdict import RunOutcome, StageOutcome
from datarecs_core.documents import decimal_text, to_document
from datarecs_core.hashing import JsonValue, canonical_json, sha256_hex
from datarecs_core.jobs.vocabulary import StageType
from datarecs_core.values import instant_text

SCHEMA = "datarecs.run/1"
MAX_BYTES = 8 * 1024**2
MAX_LISTED_FILES = 1000
"""A longer list stands in the proof by its count and digest alone."""

Document = dict[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealing:
    """What the proof needs besides plan and outcome."""

    versions: Mapping[str, str]
    """`tzdata` and `unicode`, as the run used them."""
    key_id: str
    """Names the tenant key behind ids and hashes."""


def run_document(
    plan: ComparisonPlan, outcome: RunOutcome, *, sealing: Sealing, run: Mapping[str, JsonValue]
) -> Document:
    """The whole document of a completed run; samples shrink until it fits into 8 MiB.

    Args:
        plan: as it was executed.
        outcome: judged.
        sealing: versions and key id.
        run: ids, attempt, times and execution, as they are to be read under `run`.
    """
    proof = proof_document(plan, outcome, sealing)
    document: Document = {
        "schema": SCHEMA,
        "run": {**run, "sources": [_place(scan) for scan in plan.scans]},
        "proof_hash": proof_hash(proof),
        "proof": proof,
        "samples": {},
    }
    most = max((len(rows) for rows in _samples(outcome).values()), default=0)
    while most:
        document["samples"] = {name: rows[:most] for name, rows in _samples(outcome).items()}
        if len(canonical_json(document)) <= MAX_BYTES:
            return document
        most //= 2
        document["samples_cut"] = True
    document["samples"] = {}
    return document


def proof_hash(proof: JsonValue) -> str:
    """`sha256:` and 64 hexadecimal characters over RFC 8785 JSON."""
    return f"sha256:{sha256_hex(canonical_json(proof))}"


def proof_document(plan: ComparisonPlan, outcome: RunOutcome, sealing: Sealing) -> Document:
    """The part that another run over the same pins repeats byte for byte."""
    closures = _closures(outcome)
    return {
        "canonical": plan.canonical,
        "spec_hash": plan.spec_hash,
        "parameters": dict(plan.parameters),
        "versions": dict(sealing.versions),
        "key_id": sealing.key_id,
        "result": outcome.verdict.value,
        "acceptance": outcome.acceptance.value,
        "warnings": [warning_document(each) for each in outcome.warnings],
        "sources": [_source(plan, scan, closures[scan.index]) for scan in plan.scans],
        "stages": [stage_document(stage) for stage in outcome.stages],
    }


def _closures(outcome: RunOutcome) -> tuple[Closure, ...]:
    """Of the first stage that saw rows; schema stages count columns."""
    done = [(stage.plan, stage.results) for stage in outcome.stages if stage.results is not None]
    seen = [results for plan, results in done if plan.type is not StageType.SCHEMA]
    return (seen[0] if seen else done[0][1]).closure


def _samples(outcome: RunOutcome) -> dict[str, list[JsonValue]]:
    return {
        stage.plan.name: [to_document(row) for row in stage.results.differences.samples]
        for stage in outcome.stages
        if stage.results is not None
    }


def _place(scan: Scan) -> Document:
    """Where a source was read: true for this run, not part of what it proves."""
    given: Document = {
        "name": scan.source,
        "kind": scan.kind.value,
        "connection": scan.connection,
        "relation": scan.relation,
        "query": scan.query,
        "path": scan.path,
        "filter": scan.filter,
    }
    return {name: value for name, value in given.items() if value is not None}


def _source(plan: ComparisonPlan, scan: Scan, closure: Closure) -> Document:
    return {
        "name": scan.source,
        "kind": scan.kind.value,
        "pin": pin_document(scan.pin),
        "schema": [to_document(column) for column in scan.columns],
        "rules": _input_rules(plan, scan.index),
        "closure": to_document(closure),
    }


def _input_rules(plan: ComparisonPlan, index: int) -> Document:
    """Casts, zones and maps of one source by logical column."""
    inputs: list[InputPlan] = []
    for stage in plan.stages:
        inputs.extend(dimension.inputs[index] for dimension in stage.row_dimensions)
        inputs.extend(each for measure in stage.row_measures if (each := measure.inputs[index]))
    changed: Document = {}
    for each in inputs:
        if each.cast is not None or each.mapped:
            changed[each.column] = {
                "cast": None if each.cast is None else str(each.cast),
                "zone": each.zone,
                "map": dict(each.map),
            }
    return changed


def pin_document(pin: Pin) -> Document:
    """A pin as the proof tells it: no session handle, no absolute path."""
    if isinstance(pin, ExportedSnapshot):
        return {
            "kind": "exported_snapshot",
            "system_id": pin.system_id,
            "database": pin.database,
            "snapshot": pin.snapshot,
            "lsn": pin.lsn,
            "taken_at": instant_text(pin.taken_at),
        }
    files = [to_document(each) for each in pin.files]
    listed = {"files": files} if len(files) <= MAX_LISTED_FILES else {}
    return {
        "kind": "file_list",
        "count": len(files),
        "size_bytes": str(sum(each.size_bytes for each in pin.files)),
        "digest": f"sha256:{hashlib.sha256(canonical_json(files)).hexdigest()}",
        **listed,
    }


def warning_document(warning: Warn) -> Document:
    """A warning without the fields that do not apply."""
    given: Document = {
        "code": warning.code,
        "message": warning.message,
        "stage": warning.stage,
        "source": warning.source,
        "column": warning.column,
    }
    return {name: value for name, value in given.items() if value is not None}


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
    }


def question_document(plan: StagePlan) -> Document:
    """What a stage asks, with every relaxation that is declared."""
    return {
        "dimensions": [_dimension(each) for each in plan.dimensions],
        "reference": plan.sources[plan.reference],
        "where": plan.where,
        "scope": None if plan.scope is None else plan.scope.from_stage,
        "duplicates": plan.duplicates.value,
        "null_keys": plan.null_keys.value,
        "empty": plan.empty.value,
        "on_unmatched": plan.on_unmatched.value,
        "accept": to_document(plan.accept),
        "warn_at": to_document(plan.warn_at),
        **_derived(plan),
    }


def _derived(plan: StagePlan) -> Document:
    """What groups are made of that are no rows of a source."""
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
    """A measure's question and numbers; `$rows` has no plan of its own."""
    document: Document = {
        "name": result.name,
        "tolerances": [
            {
                "type": tolerance_type(each.tolerance).value,
                "value": decimal_text(tolerance_value(each.tolerance)),
                "base": each.tolerance.base.value
                if isinstance(each.tolerance, PercentageTolerance)
                else None,
                "own_within": each.own_within,
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
        "combine": plan.combine.value,
        "bound": plan.bound.value,
        "compare_to": plan.compare_to.value,
        "rules": dict(plan.rules.declared()),
        "comparable": plan.comparable,
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
        "max_abs_delta": _amount(result.max_abs_delta),
        "passed": result.passed,
    }


def _amounts(amounts: Sequence[Decimal | None]) -> Document:
    return {f"source_{index}": _amount(amount) for index, amount in enumerate(amounts)}


def _amount(amount: Decimal | None) -> str | None:
    return None if amount is None else decimal_text(amount)
