"""run.json: what a run proves, sealed by one hash, and the facts of this execution beside it.

`proof` depends only on the job, the pins and the data, so equal inputs give equal bytes on
any engine and partitioning; ids, times, places and samples are outside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from datarecs_core.comparison.planning.computing import CONDITION
from datarecs_core.comparison.planning.documents import plan_document
from datarecs_core.comparison.planning.plan import (
    ComparisonPlan,
    InputPlan,
    StrategyChoice,
    Warn,
)
from datarecs_core.comparison.planning.scan import FileList, Scan
from datarecs_core.comparison.proof.pin_json import Document, pin_document
from datarecs_core.comparison.proof.stage_json import stage_document, unit_document
from datarecs_core.comparison.results.results import Closure
from datarecs_core.comparison.results.row_digests import FILE, Leaf, leaves_of, merkle_root
from datarecs_core.comparison.results.verdict import RunOutcome
from datarecs_core.documents import to_document
from datarecs_core.hashing import JsonValue, canonical_json, sha256_hex
from datarecs_core.jobs.vocabulary import StageType

SCHEMA = "datarecs.run/1"
MAX_BYTES = 8 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealing:
    """What the proof needs besides plan and outcome."""

    versions: Mapping[str, str]
    """`tzdata` and `unicode`, as the run used them."""
    key_id: str
    """The name of the tenant key for ids and hashes."""


def run_document(
    plan: ComparisonPlan, outcome: RunOutcome, *, sealing: Sealing, run: Mapping[str, JsonValue]
) -> Document:
    """The whole document of a completed run; samples shrink until it fits into 8 MiB.

    Args:
        plan: as it was executed.
        outcome: judged.
        sealing: versions and key id.
        run: ids, attempt, times and execution, as they are to be read under `run`; what was done
            per stage is added to its `execution`.
    """
    proof = proof_document(plan, outcome, sealing)
    document: Document = {
        "schema": SCHEMA,
        "run": _run(plan, outcome, run),
        "proof_hash": proof_hash(proof),
        "proof": proof,
        "samples": {},
        **_unreadable(outcome),
        **_notes(plan),
        **_units(outcome),
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


def with_hints(document: Document, hints: Mapping[str, JsonValue]) -> Document:
    """The document with likely causes by stage, unless it would grow beyond its limit.

    They are not part of the proof: rules for hints may change, the result does not.
    """
    whole = {**document, "hints": hints}
    return whole if hints and len(canonical_json(whole)) <= MAX_BYTES else document


def _run(plan: ComparisonPlan, outcome: RunOutcome, run: Mapping[str, JsonValue]) -> Document:
    """The facts of this execution: ids and times as passed, places, strategies.

    With `proof: rows` also the plan, from which the digests of a source can be computed again.
    """
    execution = run.get("execution")
    document: Document = {
        **run,
        "execution": {
            **(execution if isinstance(execution, Mapping) else {}),
            **_execution(outcome),
        },
        "sources": [_place(scan) for scan in plan.scans],
    }
    return {**document, "plan": plan_document(placeless(plan))} if seals_rows(plan) else document


def _execution(outcome: RunOutcome) -> Document:
    """How each stage was compared, with the reasons against other strategies, and rows read."""
    done = [(stage.plan, stage.results) for stage in outcome.stages if stage.results is not None]
    return {
        "strategies": [
            strategy_document(plan.name, results.strategy or plan.strategy)
            for plan, results in done
        ],
        "rows_scanned": sum(
            each.extracted
            for plan, results in done
            if plan.type is not StageType.SCHEMA
            for each in results.closure
        ),
    }


def strategy_document(stage: str, choice: StrategyChoice) -> Document:
    return {
        "stage": stage,
        "chosen": choice.chosen.value,
        "requested": choice.requested.value,
        "rejected": [
            {"strategy": strategy.value, "reason": reason} for strategy, reason in choice.rejected
        ],
    }


def placeless(plan: ComparisonPlan) -> ComparisonPlan:
    """The plan without files and folders of one machine: a repetition supplies their places."""
    return plan.with_scans(tuple(map(_placeless, plan.scans)))


def _placeless(scan: Scan) -> Scan:
    pin = scan.pin
    if isinstance(pin, FileList):
        pin = replace(pin, root="", files=())
    return replace(scan, extract=None, pin=pin, schema=replace(scan.schema, notes=()))


def proof_hash(proof: JsonValue) -> str:
    """`sha256:` and 64 hexadecimal characters over RFC 8785 JSON."""
    return f"sha256:{sha256_hex(canonical_json(proof))}"


def proof_document(plan: ComparisonPlan, outcome: RunOutcome, sealing: Sealing) -> Document:
    """The part that another run over the same pins repeats byte for byte."""
    closures = _closures(outcome)
    sealed = {"digests": _digests(outcome)} if seals_rows(plan) else {}
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
        **sealed,
    }


def seals_rows(plan: ComparisonPlan) -> bool:
    """Whether the proof covers every row (`proof: rows`), and leaves belong beside it."""
    return any(stage.seal_rows for stage in plan.stages)


def outcome_leaves(outcome: RunOutcome) -> tuple[Leaf, ...]:
    """What the root of `proof: rows` covers, sorted; to be stored beside run.json."""
    leaves = (
        leaf
        for stage in outcome.stages
        if stage.results is not None
        for leaf in leaves_of(stage.results, stage.plan.sources)
    )
    return tuple(sorted(leaves))


def _digests(outcome: RunOutcome) -> Document:
    leaves = outcome_leaves(outcome)
    return {"leaves": len(leaves), "file": FILE, "merkle_root": merkle_root(leaves)}


def _closures(outcome: RunOutcome) -> tuple[Closure, ...]:
    """Of the first stage that read the sources' rows; others count columns or a query's result."""
    done = [(stage.plan, stage.results) for stage in outcome.stages if stage.results is not None]
    seen = [results for plan, results in done if plan.catalogue is None and not plan.queries]
    return (seen[0] if seen else done[0][1]).closure


def _samples(outcome: RunOutcome) -> dict[str, list[JsonValue]]:
    return {
        stage.plan.name: [to_document(row) for row in stage.results.differences.samples]
        for stage in outcome.stages
        if stage.results is not None
    }


def _unreadable(outcome: RunOutcome) -> Document:
    """One unreadable value of each measure and source, by stage: values, so beside the proof."""
    by_stage: Document = {
        stage.plan.name: [to_document(each) for each in stage.results.unreadable]
        for stage in outcome.stages
        if stage.results is not None and stage.results.unreadable
    }
    return {"unreadable": by_stage} if by_stage else {}


def _notes(plan: ComparisonPlan) -> Document:
    """Why columns of text files are text, by source: values, so beside the proof."""
    by_source: Document = {
        scan.source: [f"{each.message}; {each.hint}" for each in scan.schema.notes]
        for scan in plan.scans
        if scan.schema.notes
    }
    return {"notes": by_source} if by_source else {}


def _units(outcome: RunOutcome) -> Document:
    """Amounts by currency or unit, by stage: their names are values, so beside the proof."""
    written: Document = {
        stage.plan.name: [unit_document(each) for each in stage.results.units]
        for stage in outcome.stages
        if stage.results is not None and stage.results.units
    }
    return {"units": written} if written else {}


def _place(scan: Scan) -> Document:
    """Where a source was read: true for this run, not part of what it proves."""
    place: Document = {
        "name": scan.source,
        "kind": scan.kind.value,
        "connection": scan.connection,
        "relation": scan.relation,
        "query": scan.query,
        "path": scan.path,
        "filter": scan.filter,
        "tables": _tables(scan),
        "only": None if scan.only is None else scan.only.where,
    }
    document: Document = {name: value for name, value in place.items() if value is not None}
    if scan.schema.read_as:
        document["read_as"] = list(scan.schema.read_as)
    return document


def _tables(scan: Scan) -> str | None:
    """Further files of the query."""
    return ", ".join(f"{name} = {table.path}" for name, table in scan.tables) or None


def _source(plan: ComparisonPlan, scan: Scan, closure: Closure) -> Document:
    return {
        "name": scan.source,
        "kind": scan.kind.value,
        "pin": pin_document(scan.pin),
        "schema": [
            to_document(column) for column in scan.columns if not column.name.startswith(CONDITION)
        ],
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


def warning_document(warning: Warn) -> Document:
    """A warning without the fields that do not apply."""
    document: Document = {
        "code": warning.code,
        "message": warning.message,
        "stage": warning.stage,
        "source": warning.source,
        "column": warning.column,
    }
    return {name: value for name, value in document.items() if value is not None}
