"""One run inside the child: from the run frame to the result file, which is written last.

Nothing is left to be stored before everything was read and judged. The result file is written after
all artefacts, and without it no run completes. The supervisor stores them: this process, which
reads the data of strangers, has no access to the store.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from datarecs_application.assignments import Pins
from datarecs_application.catalogued_sources import Catalogued
from datarecs_application.child_frames import BadFrameError, Reader, failure_words
from datarecs_application.comparison import Answer, Means, Question, StageFailedError, answer
from datarecs_application.opening import ExtractionFailedError
from datarecs_application.ports.comparing import Connector, Engine
from datarecs_application.ports.outside import Clock, Wake
from datarecs_core.captures.catalogued import CataloguedTable
from datarecs_core.catalog.layout import differences_part, digests, run_document
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.proof.run_json import Sealing, outcome_leaves, with_hints
from datarecs_core.comparison.proof.run_json import run_document as document_of
from datarecs_core.comparison.proof.sealed import sealed_run
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.documents import from_document, to_document
from datarecs_core.hashing import JsonValue, canonical_json
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.literals import parameters_written_in
from datarecs_core.resources.connection import Connection
from datarecs_core.runs.result_file import ARTEFACTS, NAME, SCHEMA, ChildOutcome
from datarecs_core.runs.summary import likely_cause, summary_of
from datarecs_core.values import RunId, TenantId, instant_text
from datarecs_reconciliation_worker.frame_reporter import FrameReporter
from datarecs_reports.digest_file import digest_file
from datarecs_reports.likely_causes import hints_document
from datarecs_specs.documents import job_of

EXTRACTS, DIFFERENCES = "extract", "differences"
"""Folders of an attempt."""
EngineOf = Callable[[ComparisonPlan, bytes, Path], Engine]
"""The engine of one run: plan, key of break ids, directory for differences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What the sources of one run may use."""

    tenant_id: TenantId
    spill_bytes: int
    """Disk for intermediate data of one query over files."""
    catalogued: CataloguedTable | None = None
    """What the catalogue knows of the source's table."""


Connect = Callable[[Allowance, Source, Connection | None, Mapping[str, str]], Connector]
"""Opens a source of a run over its connection with the resolved secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What outlives a run in the child."""

    connect: Connect
    engine: EngineOf
    clock: Clock
    versions: Mapping[str, str]
    stop: Wake | None = None
    """Set when the supervisor requests a stop."""
    max_spill_bytes: int | None = None
    """Most disk for intermediate data of a run, whatever its job declares."""
    java_exit: Callable[[], int | None] = lambda: None
    """Exit code of Spark's Java process; None while it runs, and without one."""
    needs_no_java: Callable[[], AbstractContextManager[object]] = nullcontext
    """Around work without Java: an end of Java inside does not end the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """The parsed run frame; the credentials file is deleted afterwards."""

    tenant_id: TenantId
    run_id: RunId
    job_id: UUID
    attempt: int
    lease_epoch: int
    question: Question
    connections: Mapping[str, Connection]
    pins: Pins
    secrets: Mapping[str, str]
    folder: Path
    started_at: datetime | None
    triggered_by: str
    catalogued: Catalogued


def read_assignment(frame: Mapping[str, object]) -> Assigned:
    """Raises BadFrameError for a frame that is not the supervisor's."""
    reader = Reader(frame)
    job = job_of(reader.of("job", str), reader.of("spec", dict))
    parameters = reader.of("parameters", dict)
    started = reader.maybe("started_at", str)
    return Assigned(
        tenant_id=TenantId(UUID(reader.of("tenant_id", str))),
        run_id=RunId(UUID(reader.of("run_id", str))),
        job_id=UUID(reader.of("job_id", str)),
        attempt=reader.of("attempt", int),
        lease_epoch=reader.of("lease_epoch", int),
        question=Question(
            job=parameters_written_in(job, parameters),
            job_uid=UUID(reader.of("job_id", str)),
            spec_hash=reader.of("spec_hash", str),
            parameters=tuple(
                sorted((name, canonical_json(value).decode()) for name, value in parameters.items())
            ),
        ),
        connections={
            name: from_document(Connection, document)
            for name, document in reader.of("connections", dict).items()
        },
        pins=from_document(Pins, reader.of("pins", dict)),
        secrets=_read_once(Path(reader.of("credentials_file", str))),
        folder=Path(reader.of("folder", str)),
        started_at=None if started is None else datetime.fromisoformat(started),
        triggered_by=reader.of("triggered_by", str),
        catalogued=from_document(Catalogued, reader.maybe("catalogued", dict) or {"by_source": {}}),
    )


def _read_once(path: Path) -> Mapping[str, str]:
    secrets = json.loads(path.read_bytes())
    path.unlink()
    if not isinstance(secrets, dict):
        raise BadFrameError("the credentials are no object")
    return {str(name): str(value) for name, value in secrets.items()}


def work(assigned: Assigned, tools: Tools, reporter: FrameReporter) -> None:
    """Do the run and leave its result file; failures are in the file, not raised."""
    if assigned.started_at is None:  # the platform has not seen any progress yet
        assigned = replace(assigned, started_at=tools.clock.now())
    if tools.max_spill_bytes is not None:
        assigned = _with_less_spill(assigned, tools.max_spill_bytes)
    try:
        comparison = answer(assigned.question, _means(assigned, tools), reporter)
        with tools.needs_no_java():
            hints = leave(assigned, tools, comparison)
            _write_result(assigned, _completed(assigned, tools, comparison, hints))
    except (ExtractionFailedError, StageFailedError) as failed:
        error = failed.__cause__ if isinstance(failed.__cause__, Exception) else failed
        _fail(assigned, tools, str(failed), error)
    except Exception as error:  # noqa: BLE001  the child's entry: every failure becomes a node
        _fail(assigned, tools, "comparison", error)


def _with_less_spill(assigned: Assigned, most: int) -> Assigned:
    """The smaller of the limits of job and worker; no field of `execution` changes a number."""
    question = assigned.question
    execution = question.job.execution
    execution = replace(execution, spill=min(execution.spill, most))
    job = replace(question.job, execution=execution)
    return replace(assigned, question=replace(question, job=job))


def _means(assigned: Assigned, tools: Tools) -> Means:
    key = bytes.fromhex(assigned.secrets["break_key"])
    spill_bytes = assigned.question.job.execution.spill
    allowance = Allowance(tenant_id=assigned.tenant_id, spill_bytes=spill_bytes)

    def connect(source: Source) -> Connector:
        prefix = f"{source.connection}/"
        secrets = {
            name.removeprefix(prefix): value
            for name, value in assigned.secrets.items()
            if name.startswith(prefix)
        }
        connection = assigned.connections.get(source.connection or "")
        table = assigned.catalogued.by_source.get(source.name)
        return tools.connect(replace(allowance, catalogued=table), source, connection, secrets)

    return Means(
        connect=connect,
        engine=lambda plan: tools.engine(plan, key, assigned.folder / DIFFERENCES),
        clock=tools.clock,
        extracts=str(assigned.folder / EXTRACTS),
        pins=assigned.pins.by_source,
        stop=tools.stop,
    )


def leave(assigned: Assigned, tools: Tools, comparison: Answer) -> dict[str, JsonValue]:
    """Leave differences, digests and run.json for the supervisor, which stores them.

    Returns:
        The hints by stage, as in run.json.
    """
    artefacts = _Artefacts(assigned.folder / ARTEFACTS)
    run_ids = assigned.tenant_id, assigned.run_id
    parts: dict[str, list[Path]] = {}
    for stage in comparison.outcome.stages:
        location = stage.results.differences.location if stage.results else None
        if location is None:
            continue
        written = sorted(Path(location).glob("*.parquet"))
        parts[stage.plan.name] = [
            artefacts.move(part, differences_part(*run_ids, stage.plan.name, bucket=number))
            for number, part in enumerate(written)
        ]
    document = document_of(
        comparison.plan,
        comparison.outcome,
        sealing=Sealing(versions=tools.versions, key_id="k1"),
        run={
            "run_id": str(assigned.run_id),
            "job_id": str(assigned.job_id),
            "job": comparison.plan.job,
            "tenant_id": str(assigned.tenant_id),
            "attempt": assigned.attempt,
            "triggered_by": assigned.triggered_by,
            "times": {"ended_at": instant_text(tools.clock.now())},
        },
    )
    run = sealed_run(document)
    if run.digests is not None:
        leaves = digest_file(outcome_leaves(comparison.outcome))
        artefacts.write(digests(*run_ids), leaves)
    hints = hints_document(run, lambda stage: parts.get(stage.name, ()))
    complete = with_hints(document, hints)
    artefacts.write(run_document(*run_ids), canonical_json(complete))
    return hints


@dataclass(frozen=True, slots=True)
class _Artefacts:
    """Files under the keys with which the supervisor stores them."""

    folder: Path

    def write(self, key: str, content: bytes) -> None:
        self._path(key).write_bytes(content)

    def move(self, file: Path, key: str) -> Path:
        """The new path."""
        return file.rename(self._path(key))

    def _path(self, key: str) -> Path:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _completed(
    assigned: Assigned, tools: Tools, comparison: Answer, hints: Mapping[str, JsonValue]
) -> dict[str, object]:
    began = assigned.started_at or tools.clock.now()
    summary = summary_of(
        comparison.outcome,
        duration=max(tools.clock.now() - began, timedelta()),
        report_path=f"/api/v1/runs/{assigned.run_id}/report",
        likely_cause=likely_cause(hints),
    )
    return {
        "outcome": ChildOutcome.COMPLETED.value,
        "result": comparison.outcome.verdict.value,
        "summary": to_document(summary),
        "pins": to_document(Pins(by_source=comparison.pins)),
    }


def _fail(assigned: Assigned, tools: Tools, node: str, error: Exception) -> None:
    for name in (EXTRACTS, DIFFERENCES, ARTEFACTS):  # the disk may be full of them
        shutil.rmtree(assigned.folder / name, ignore_errors=True)
    nodes = [{"name": node, **failure_words(error)}]
    content: dict[str, object] = {"outcome": ChildOutcome.ERRORED.value, "nodes": nodes}
    java_exit = tools.java_exit()
    if java_exit is not None:
        content["jvm_exit"] = java_exit
    _write_result(assigned, content)


def _write_result(assigned: Assigned, content: Mapping[str, object]) -> None:
    """Temporary name, fsync, rename: a reader finds the whole file or none."""
    document = {
        "schema": SCHEMA,
        "run_id": str(assigned.run_id),
        "attempt": assigned.attempt,
        "lease_epoch": assigned.lease_epoch,
        **content,
    }
    partial, final = assigned.folder / f"{NAME}.partial", assigned.folder / NAME
    with partial.open("wb") as file:
        file.write(json.dumps(document).encode())
        file.flush()
        os.fsync(file.fileno())
    crash_point(CrashPoint.RESULT_BEFORE_RENAME)
    partial.rename(final)
    crash_point(CrashPoint.RESULT_AFTER_RENAME)
