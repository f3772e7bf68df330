"""Check that a run.json is complete and unaltered: hash, invariants, closure, differences.

Nothing is compared again and no source is read. Every fault is reported, so that the result shows
everything that was altered.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from datarecs_core.comparison.proof.reading import DocumentUnreadableError
from datarecs_core.comparison.proof.run_json import SCHEMA, proof_hash
from datarecs_core.comparison.proof.sealed import SealedRun, SealedStage, sealed_run
from datarecs_core.comparison.results.differences import digest
from datarecs_core.comparison.results.results import Difference, StageResults, Verdict
from datarecs_core.comparison.results.row_digests import Leaf, expected_rows, merkle_root
from datarecs_core.comparison.results.verdict import (
    accepted_within,
    broken_count_rule,
    run_acceptance,
    stage_verdict,
)

if TYPE_CHECKING:
    from datarecs_core.hashing import JsonValue

_SHOWN_BUCKETS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One failed check."""

    check: str
    """`schema`, `proof_hash`, `structure`, `F01` to `F07`, `F14`, `F15`, `F17`, `F18`, `verdict`,
    `acceptance`, `confirm`, `differences`, `samples`, `digests`, `leaves`, `source`."""
    message: str
    stage: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The content of a document, as far as it can be read, and its faults."""

    findings: tuple[Finding, ...]
    run: SealedRun | None
    """None when its structure is broken."""


def verify_document(document: object) -> Verified:
    """Check a run.json without its files.

    Args:
        document: parsed JSON without floats; a reader must have refused double members.
    """
    if not isinstance(document, Mapping):
        return Verified(findings=(Finding(check="schema", message="no object"),), run=None)
    findings = [*_schema(document), *_hash(document)]
    try:
        run = sealed_run(document)
    except DocumentUnreadableError as broken:
        fault = Finding(check="structure", message=str(broken))
        return Verified(findings=(*findings, fault), run=None)
    for stage in run.stages:
        if stage.results is not None:
            findings += _stage_findings(stage, stage.results, run.sources)
    findings += _run_findings(run)
    return Verified(findings=tuple(findings), run=run)


def verify_differences(
    stage: SealedStage, rows: Iterable[Difference], samples: Sequence[object] = ()
) -> Iterator[Finding]:
    """Check the stored differences of a stage against its digest.

    Args:
        stage: executed.
        rows: all stored rows, in any order; read once.
        samples: break ids that the document shows.
    """
    results = cast("StageResults", stage.results)
    seen: list[str] = []
    counted = digest(_noting(rows, seen))
    sealed = results.differences
    if len(seen) != sealed.rows:
        message = f"{len(seen)} rows are stored, the proof counts {sealed.rows}"
        yield Finding(check="differences", stage=stage.name, message=message)
    if counted != sealed.digest:
        message = f"the stored rows have the digest {counted}, the proof has {sealed.digest}"
        yield Finding(check="differences", stage=stage.name, message=message)
    stored = set(seen)
    unknown = [each for each in samples if each not in stored]
    if unknown:
        message = f"{len(unknown)} samples are no stored rows, such as {unknown[0]}"
        yield Finding(check="samples", stage=stage.name, message=message)


def verify_digests(run: SealedRun, leaves: Sequence[Leaf]) -> Iterator[Finding]:
    """Check the row digests of `proof: rows` against the root and the counts of every stage.

    Args:
        run: its proof seals them.
        leaves: all, as in the file.
    """
    sealed = run.digests
    if sealed is None:
        yield Finding(check="digests", message="the proof seals no row digests (proof: counts)")
        return
    if len(leaves) != sealed.leaves:
        message = f"{len(leaves)} leaves are stored, the proof counts {sealed.leaves}"
        yield Finding(check="digests", message=message)
    root = merkle_root(leaves)
    if root != sealed.merkle_root:
        message = f"the leaves have the root {root}, the proof has {sealed.merkle_root}"
        yield Finding(check="digests", message=message)
    rows = Counter[tuple[str, str]]()
    for leaf in leaves:
        rows[leaf.stage, leaf.source] += leaf.rows
    for stage in run.stages:
        if stage.results is not None:
            yield from _sealed_rows(run, stage, expected_rows(stage.type, stage.results), rows)


def _sealed_rows(
    run: SealedRun, stage: SealedStage, expected: Sequence[int], rows: Mapping[tuple[str, str], int]
) -> Iterator[Finding]:
    """F17: as many rows are sealed as the stage has counted."""
    for source, counted in zip(run.sources, expected, strict=True):
        sealed = rows.get((stage.name, source), 0)
        if sealed != counted:
            message = f"{sealed} rows of {source} are sealed, the stage counts {counted}"
            yield Finding(check="F17", stage=stage.name, source=source, message=message)


def differing_leaves(
    stored: Sequence[Leaf], made: Sequence[Leaf], *, stage: str, source: str
) -> Iterator[Finding]:
    """Leaves that are missing or different in the data of a source.

    Args:
        stored: of any stages and sources.
        made: of the stage and source, from the available data.
        stage: name.
        source: name.
    """
    by_bucket = {
        leaf.bucket: leaf for leaf in stored if (leaf.stage, leaf.source) == (stage, source)
    }
    again = {leaf.bucket: leaf for leaf in made}
    other = sorted(
        bucket for bucket in by_bucket | again if by_bucket.get(bucket) != again.get(bucket)
    )
    if other:
        shown = ", ".join(map(str, other[:_SHOWN_BUCKETS]))
        message = (
            f"the data of {source} has other rows than the proof seals in {len(other)} of "
            f"{len(by_bucket | again)} buckets: {shown}"
        )
        yield Finding(check="leaves", stage=stage, source=source, message=message)


def _noting(rows: Iterable[Difference], seen: list[str]) -> Iterator[Difference]:
    for row in rows:
        seen.append(row.break_id)
        yield row


def _schema(document: Mapping[str, object]) -> Iterator[Finding]:
    if document.get("schema") != SCHEMA:
        message = f"the document has the schema {document.get('schema')!r}, not {SCHEMA!r}"
        yield Finding(check="schema", message=message)


def _hash(document: Mapping[str, object]) -> Iterator[Finding]:
    said = document.get("proof_hash")
    try:
        computed = proof_hash(cast("JsonValue", document.get("proof")))
    except (ValueError, TypeError, AttributeError) as cause:
        yield Finding(check="proof_hash", message=f"the proof has no canonical form: {cause}")
        return
    if said != computed:
        message = f"the hash of the proof is {computed}, the document has {said}"
        yield Finding(check="proof_hash", message=message)


def _stage_findings(
    stage: SealedStage, results: StageResults, sources: Sequence[str]
) -> Iterator[Finding]:
    broken = broken_count_rule(results, grand_total=stage.is_grand_total)
    if broken is not None:
        message = f"the counts break the rule {broken}"
        yield Finding(check=broken, stage=stage.name, message=message)
    if stage.verdict is not stage_verdict(results):
        message = f"the counts give {stage_verdict(results)}, the stage has {stage.verdict}"
        yield Finding(check="F06", stage=stage.name, message=message)
    accepted = accepted_within(stage.accept, results)
    if stage.acceptance is not accepted:
        message = f"the limits give {accepted}, the stage has {stage.acceptance}"
        yield Finding(check="acceptance", stage=stage.name, message=message)
    yield from _closure(stage, results, sources)
    yield from _rows(stage, results)
    yield from _recheck_findings(stage, results)


def _recheck_findings(stage: SealedStage, results: StageResults) -> Iterator[Finding]:
    """Rechecks only take groups from those that differ, and the last one has the stage's counts."""
    confirmed = stage.confirmed
    if confirmed is None:
        return
    allowed = stage.confirm
    counts = [confirmed.first, *(recheck.counts for recheck in confirmed.rechecks)]
    differing = [each.rows_unmatched for each in counts]
    resolved = differing[0] - differing[-1]
    if allowed is None or not 0 < len(confirmed.rechecks) <= allowed.attempts:
        message = f"{len(confirmed.rechecks)} rechecks are recorded, `confirm` does not allow them"
    elif differing[0] > allowed.max_keys:
        message = f"{differing[0]} groups were read again, `confirm.max_keys` is {allowed.max_keys}"
    elif differing != sorted(differing, reverse=True):
        message = "more groups differ after a recheck than before it"
    elif counts[-1] != results.counts:
        message = "the counts of the last recheck are not those of the stage"
    elif confirmed.in_flight_resolved != resolved:
        message = f"{confirmed.in_flight_resolved} groups were resolved, the counts give {resolved}"
    else:
        return
    yield Finding(check="confirm", stage=stage.name, message=message)


def _closure(
    stage: SealedStage, results: StageResults, sources: Sequence[str]
) -> Iterator[Finding]:
    """F14: nothing was lost between the read and the comparison."""
    if len(results.closure) != len(sources):
        message = f"closure is stored for {len(results.closure)} of {len(sources)} sources"
        yield Finding(check="F14", stage=stage.name, message=message)
        return
    rows = results.counts.source_row_counts
    for source, closure, seen in zip(sources, results.closure, rows, strict=True):
        if not closure.closed or closure.grouped + closure.excluded != seen:
            message = (
                f"{closure.extracted} rows of {source} were extracted, {closure.grouped} grouped, "
                f"{closure.excluded} excluded, {closure.out_of_scope} out of scope, {seen} counted"
            )
            yield Finding(check="F14", stage=stage.name, source=source, message=message)


def _rows(stage: SealedStage, results: StageResults) -> Iterator[Finding]:
    """One stored row per unmatched group and per measure that is not equal, unless truncated."""
    if results.differences.truncated:
        return
    breaks, within = results.breaks, results.within_differences
    stored = results.differences.rows
    if stored not in (breaks, breaks + within):
        message = f"{stored} differences are stored, the counts give {breaks} and {within} within"
        yield Finding(check="differences", stage=stage.name, message=message)


def _run_findings(run: SealedRun) -> Iterator[Finding]:
    executed = [stage for stage in run.stages if stage.results is not None]
    if not executed:
        yield Finding(check="verdict", message="no stage was executed, so nothing was compared")
        return
    matched = all(stage.verdict is Verdict.MATCHED for stage in executed)
    verdict = Verdict.MATCHED if matched else Verdict.UNMATCHED
    if run.verdict is not verdict:
        yield Finding(
            check="verdict", message=f"the stages give {verdict}, the run has {run.verdict}"
        )
    accepted = run_acceptance([(stage.verdict, stage.acceptance) for stage in executed])
    if run.acceptance is not accepted:
        message = f"the stages give {accepted}, the run has {run.acceptance}"
        yield Finding(check="acceptance", message=message)
