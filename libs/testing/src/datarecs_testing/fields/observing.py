"""Observe one job: its faults, its plan, and its result over the tiny sources.

Uses the validation of the command line, the real connectors and the oracle; only a database is
described by hand, and then only its plan and SQL are observed.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from datarecs_application.comparison import Answer, Means, StageFailedError, answer, plan_only
from datarecs_application.opening import ExtractionFailedError
from datarecs_application.ports.comparing import Connector, HeldPin, ProbeStep
from datarecs_cli.invocation import Invocation
from datarecs_cli.local.question import Flags, PreparedQuestion, prepare_question
from datarecs_cli.local.sources import LocalSources
from datarecs_connectors.extracted import rows_of
from datarecs_connectors.registry import statement_of
from datarecs_core.comparison.planning.documents import plan_document
from datarecs_core.comparison.planning.faults import PlanRefusedError
from datarecs_core.comparison.planning.plan import ComparisonPlan, StagePlan
from datarecs_core.comparison.planning.scan import (
    ExportedSnapshot,
    Pin,
    Scan,
    SourceColumn,
    SourceSchema,
)
from datarecs_core.comparison.results.results import Difference, StageResults
from datarecs_core.comparison.results.verdict import StageOutcome
from datarecs_core.documents import to_document
from datarecs_core.errors.base import DatarecsError
from datarecs_core.hashing import JsonValue, canonical_json
from datarecs_core.jobs import types
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_memory.engine import MemoryEngine
from datarecs_specs.documents import decode_yaml
from datarecs_specs.findings import Finding
from datarecs_testing.clock import ManualClock
from datarecs_testing.fields.tiny_topics import open_tiny_topic
from datarecs_testing.silent_reporter import SilentReporter

LATE = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)
"""The clock: in Paris it is tomorrow."""
Documents = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The result of a job. At most one of `faults` and `plan` is set."""

    faults: tuple[Finding, ...] = ()
    error: tuple[str, ...] = ()
    """Codes of the errors of the plan, of a source or of a stage."""
    plan: bytes | None = None
    result: bytes | None = None
    """None if only the plan can be made."""


def observed(documents: Documents, folder: Path) -> Observed:
    """Take the documents through validation, plan and comparison, as far as they come."""
    file = folder / "job.yaml"
    file.write_text("\n---\n".join(json.dumps(one) for one in documents), encoding="utf-8")
    decoded = decode_yaml(file.read_bytes())
    faults = tuple(fault for one in decoded for fault in one.faults)
    if faults:
        return Observed(faults=faults)
    clock = ManualClock(LATE, by_itself=True)
    try:
        question = prepare_question(
            Flags(sources=(str(file),)), now=clock.now(), invocation=Invocation(quiet=True)
        )
    except DatarecsError as error:
        return Observed(error=_codes(error))
    if question is None:  # a source cannot be read without a server, which is printed at its line
        return Observed(error=("refused",))
    with TemporaryDirectory() as scratch:
        return _compared(question, clock, scratch)


def _compared(question: PreparedQuestion, clock: ManualClock, scratch: str) -> Observed:
    opening = _Opening(LocalSources(question, clock), question)
    reporter = _RecordingReporter()
    engine = MemoryEngine(opening.rows, write=reporter.store)
    means = Means(
        connect=opening.connect,
        engine=lambda _: engine,
        clock=clock,
        extracts=scratch,
    )
    try:
        if opening.has_database:
            return Observed(plan=_plan_bytes(plan_only(question.question, means)))
        comparison = answer(question.question, means, reporter)
    except (ExtractionFailedError, StageFailedError, DatarecsError) as error:
        return Observed(plan=reporter.plan, error=_codes(error))
    return Observed(plan=reporter.plan, result=_result_bytes(comparison, reporter))


def _codes(error: BaseException) -> tuple[str, ...]:
    if isinstance(error, PlanRefusedError):
        return tuple(fault.code.docs_id for fault in error.faults)
    inner = error if isinstance(error, DatarecsError) else error.__cause__
    return (inner.code.docs_id if isinstance(inner, DatarecsError) else repr(inner),)


def _plan_bytes(plan: ComparisonPlan) -> bytes:
    """The plan as it is printed, with the SQL that it sends and without the names of its hash."""
    statements: list[JsonValue] = [statement_of(scan) for scan in plan.scans]
    bare = replace(plan, spec_hash="", job_uid=_NOBODY)
    return canonical_json({"plan": plan_document(bare), "statements": statements})


def _result_bytes(comparison: Answer, reporter: "_RecordingReporter") -> bytes:
    """The statements of a run about the data, without parts that repeat the job."""
    outcome = comparison.outcome
    return canonical_json(
        {
            "verdict": outcome.verdict.value,
            "acceptance": outcome.acceptance.value,
            "warnings": sorted(f"{one.code} {one.message}" for one in outcome.warnings),
            "stages": [_stage(stage) for stage in outcome.stages],
            "stored": _in_order(reporter.stored),
            "waited": list(reporter.waited),
        }
    )


def _stage(stage: StageOutcome) -> JsonValue:
    members: dict[str, JsonValue] = {
        "verdict": None if stage.verdict is None else stage.verdict.value,
        "acceptance": stage.acceptance.value,
        "skipped": None if stage.skipped is None else stage.skipped.value,
    }
    if stage.results is not None:
        members["results"] = _numbers(stage.results)
    return members


def _numbers(results: StageResults) -> JsonValue:
    rechecks = () if results.confirmed is None else results.confirmed.rechecks
    bare = replace(
        results,
        stage="",
        strategy=None,
        metrics=(),
        confirmed=None,
        differences=replace(results.differences, location=None, digest="", samples=()),
        measures=tuple(replace(one, tolerances=()) for one in results.measures),
    )
    alone = [[one.alone_within for one in measure.tolerances] for measure in results.measures]
    samples = _in_order(results.differences.samples)
    return {
        "numbers": to_document(bare),
        "own": [*alone],
        "looks": len(rechecks),
        "samples": samples,
    }


def _in_order(differences: Iterable[Difference]) -> list[JsonValue]:
    """Without stage and break id, which follow from the job's text, and so in another order."""
    bare = (to_document(replace(one, stage="", break_id="")) for one in differences)
    return sorted(bare, key=canonical_json)


class _RecordingReporter(SilentReporter):
    def __init__(self) -> None:
        self.waited: list[str] = []
        self.stored: list[Difference] = []
        self.plan: bytes | None = None

    def pinned(self, pins: Mapping[str, Pin], plan: ComparisonPlan) -> None:  # noqa: ARG002  the port's form
        self.plan = self.plan or _plan_bytes(plan)

    def waiting(self, stage: str, groups: int, length: timedelta) -> None:  # noqa: ARG002  the port's form
        self.waited.append(str(length))

    def store(self, stage: StagePlan, rows: Sequence[Difference]) -> str:
        self.stored += rows
        return stage.name


class _Opening:
    """The real connectors, but for databases."""

    def __init__(self, files: LocalSources, question: PreparedQuestion) -> None:
        self._files, self._question = files, question
        self._topics: dict[str, Connector] = {}
        kinds = {source.kind for source in question.question.job.sources}
        self.has_database = SourceKind.POSTGRES in kinds

    def connect(self, source: Source) -> Connector:
        if source.kind is SourceKind.KAFKA:
            connection = self._question.connections.get(source.connection or "")
            folder = self._question.base
            opened = open_tiny_topic(source, connection, folder, lambda: LATE)
            self._topics[source.name] = opened
            return opened
        is_table = source.kind is SourceKind.POSTGRES
        return DescribedTable() if is_table else self._files.connect(source)

    def rows(self, scan: Scan) -> Iterable[tuple[object, ...]]:
        topic = self._topics.get(scan.source)
        return self._files.rows(scan) if topic is None else rows_of(topic, scan)


_NOBODY = UUID(int=0)
_TYPES = {
    "id": types.INT,
    "grp": types.TEXT,
    "amount": types.parse_type("decimal(12,2)"),
    "fine": types.parse_type("decimal(12,4)"),
    "moment": types.LOCAL_TIMESTAMP,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTable:
    """Port Connector of a PostgreSQL table that is described and never read."""

    held: "_Snapshot" = field(default_factory=lambda: _Snapshot())  # noqa: PLW0108  defined below

    def pin(self, source: Source) -> HeldPin:  # noqa: ARG002  the port's form
        return self.held

    def describe(self, source: Source, pin: Pin) -> SourceSchema:  # noqa: ARG002  the port's form
        """As a server does: the columns of the table, and one for each declared expression."""
        declared = [name for name, one in source.columns.items() if one.expr is not None]
        return SourceSchema(
            columns=tuple(
                SourceColumn(name=name, type=kind, groups_exactly=True)
                for name, kind in _TYPES.items()
            ),
            expressions=tuple(
                SourceColumn(name=name, type=_TYPES["amount"], groups_exactly=True)
                for name in declared
            ),
        )

    def rows(self, scan: Scan) -> Iterator[tuple[object, ...]]:
        raise AssertionError(f"{scan.source} is only described")

    def extract(self, scan: Scan, directory: str, progress: object) -> Scan:
        raise AssertionError(f"{scan.source} is only described, not for {directory}, {progress}")

    def probe(self, source: Source | None = None) -> Sequence[ProbeStep]:  # noqa: ARG002  the port's form
        return ()

    def close(self) -> None: ...


class _Snapshot:
    pin = ExportedSnapshot(
        snapshot_id="1", system_id="1", database="books", snapshot="1:1:", lsn="0/1", taken_at=LATE
    )

    def check(self) -> Pin:
        return self.pin

    def close(self) -> None: ...
