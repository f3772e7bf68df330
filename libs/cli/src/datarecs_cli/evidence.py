"""A finished run as files: its run.json, parsed strictly, and the differences beside it.

Only this module reads untrusted run.json files, for the commands that check or judge again: it
refuses repeated members, floats and unlimited depth.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from datarecs_cli.invocation import UsageFault
from datarecs_core.comparison.proof.reading import DocumentUnreadableError
from datarecs_core.comparison.proof.sealed import (
    SealedRun,
    SealedStage,
    sealed_run,
)
from datarecs_core.comparison.proof.verification import (
    Finding,
    Verified,
    verify_differences,
    verify_document,
)
from datarecs_core.comparison.results.results import Difference
from datarecs_core.comparison.values.rereading import key_form
from datarecs_reports.figures import counted
from datarecs_reports.stored_rows import DifferencesUnreadableError, parts_of, read_rows

RUN_JSON, DIFFERENCES = "run.json", "differences"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The files at a path that a user named."""

    path: Path
    """Of run.json."""
    document: object
    differences: Path | None
    """The folder beside it; None if there is none."""

    def rows(
        self, stage: SealedStage, sources: tuple[str, ...], *, masked: bool = False
    ) -> Iterator[Difference]:
        """The stored differences of a stage; none if the folder is missing."""
        if self.differences is None:
            return iter(())
        return read_rows(parts_of(self.differences, stage.name), stage, sources, masked=masked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The checks that were done, their findings, and the checks that were not possible."""

    run: SealedRun | None
    findings: tuple[Finding, ...]
    checked: tuple[str, ...]
    not_checked: tuple[str, ...]


class NoJsonError(ValueError):
    """A file is not strict JSON."""


def evidence_at(path: Path) -> Evidence:
    """The evidence at a path: a result folder of `compare`, or a run.json.

    Raises:
        UsageFault: no such file, or it cannot be read.
        NoJsonError: the file is not strict JSON.
    """
    file = path / RUN_JSON if path.is_dir() else path
    try:
        written = file.read_bytes()
    except OSError as cause:
        raise UsageFault(f"{file}: {cause.strerror or 'it cannot be read'}") from cause
    folder = file.parent / DIFFERENCES
    return Evidence(
        path=file, document=_strict(written), differences=folder if folder.is_dir() else None
    )


def stored_run(path: Path) -> tuple[SealedRun, Path]:
    """A run and the folder of its differences.

    Raises:
        UsageFault: no such path, not a run.json, or no differences beside it.
    """
    try:
        evidence = evidence_at(path)
        run = sealed_run(evidence.document)
    except (NoJsonError, DocumentUnreadableError) as broken:
        raise UsageFault(f"{path}: {broken}") from broken
    if evidence.differences is None:
        raise UsageFault(f"{path}: the folder {DIFFERENCES} beside {RUN_JSON} is missing")
    return run, evidence.differences


def _strict(written: bytes) -> object:
    try:
        return json.loads(
            written.decode(),
            object_pairs_hook=_once,
            parse_float=_no_number,
            parse_constant=_no_number,
        )
    except (ValueError, RecursionError) as cause:
        raise NoJsonError(f"the file is not strict JSON: {cause}") from cause


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise NoJsonError("an object repeats a member")
    return members


def _no_number(written: str) -> object:
    raise NoJsonError(f"{written[:32]} is not a whole number; run.json has only whole numbers")


def check(evidence: Evidence) -> Checked:
    """Check the document, then the stored differences of every stage."""
    alone = verify_document(evidence.document)
    if alone.run is None:
        return Checked(run=None, findings=alone.findings, checked=(), not_checked=())
    findings, done, left = list(alone.findings), [*_by_itself(alone)], []
    for stage in alone.run.stages:
        if stage.results is None:
            continue
        reason = _unreadable(evidence, stage, alone.run)
        if reason is not None:
            left.append(f"differences of stage {stage.name}: {reason}")
            continue
        findings += _stored(evidence, stage, alone.run)
        rows = counted(stage.results.differences.rows, "difference")
        done.append(f"{rows} of stage {stage.name}")
    return Checked(
        run=alone.run, findings=tuple(findings), checked=tuple(done), not_checked=tuple(left)
    )


def _by_itself(verified: Verified) -> Iterator[str]:
    stages = verified.run.stages if verified.run else ()
    executed = sum(stage.results is not None for stage in stages)
    yield "schema and proof_hash"
    yield f"counts (F01 to F07), closure (F14), verdict, acceptance: {counted(executed, 'stage')}"


def _unreadable(evidence: Evidence, stage: SealedStage, run: SealedRun) -> str | None:
    """The reason why the digest of a stage's differences cannot be computed; None if it can."""
    if evidence.differences is None:
        return f"the folder {DIFFERENCES} beside {evidence.path.name} is missing"
    try:
        form = key_form([each.types[0] for each in stage.dimensions if each.types], run.sources)
    except ValueError as cause:
        return str(cause)
    return None if form.readable else "their keys have arrays, structs or maps"


def _stored(evidence: Evidence, stage: SealedStage, run: SealedRun) -> list[Finding]:
    """Findings with the form of keys that matches: typed values, else masked texts."""
    findings: list[Finding] = []
    for masked in (False, True):
        try:
            rows = evidence.rows(stage, run.sources, masked=masked)
            faults = list(verify_differences(stage, rows, _samples(evidence.document, stage.name)))
        except DifferencesUnreadableError as broken:
            unreadable = Finding(check="differences", stage=stage.name, message=str(broken))
            findings = findings or [unreadable]
            continue
        if not faults:
            return []
        findings = findings or faults
    return findings


def _samples(document: object, stage: str) -> list[object]:
    """Break ids of a stage in the document."""
    samples = document.get("samples") if isinstance(document, Mapping) else None
    rows = samples.get(stage) if isinstance(samples, Mapping) else None
    listed = rows if isinstance(rows, list) else []
    return [row.get("break_id") if isinstance(row, Mapping) else None for row in listed]
