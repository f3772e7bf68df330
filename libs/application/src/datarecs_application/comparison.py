"""One run from pins to proof: pin, describe, plan, extract, compare stage by stage, judge, store.

The worker's child and `datarecs compare` run this same function; what differs is who opens sources,
which engine obeys and who is told. Nothing is visible as a result before everything was read, the
pins were checked again and the counts added up.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from datarecs_application.ports.comparing import Connector, Engine, HeldPin, Progress, Read
from datarecs_application.ports.outside import Clock
from datarecs_core.comparison.logical import QUERY_KINDS, query_source
from datarecs_core.comparison.payload import ComparisonPayload, comparison_payload
from datarecs_core.comparison.plan import ComparisonPlan, StagePlan
from datarecs_core.comparison.planner import PlanRequest, plan_comparison
from datarecs_core.comparison.scan import Pin, Scan, SourceSchema
from datarecs_core.comparison.verdict import (
    RunOutcome,
    StageOutcome,
    judge_run,
    judge_stage,
    skip_of,
)
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.definition import ReconciliationJob, Source
from datarecs_core.jobs.vocabulary import StageType

PROGRESS_EVERY = timedelta(seconds=5)


class Told(Protocol):
    """Who hears how the run goes; every method may be slow to act and never blocks the work."""

    def pinned(self, pins: Mapping[str, Pin], plan: ComparisonPlan) -> None: ...

    def stage_started(self, stage: str) -> None: ...

    def extraction_started(self, index: int, kind: str) -> None: ...

    def extraction_completed(self, index: int, rows: int) -> None: ...

    def extraction_errored(self, index: int, error: Exception) -> None: ...

    def comparison_started(self, stage: str, sources: int) -> None: ...

    def rows_processed(self, stage: str, rows: int, mismatches: int) -> None: ...

    def comparison_completed(self, payload: ComparisonPayload) -> None: ...

    def comparison_errored(self, stage: str, error: Exception) -> None: ...

    def stage_completed(self, payload: ComparisonPayload) -> None: ...

    def stage_errored(self, stage: str, error: Exception) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What one run asks: the job with parameters written in, and who asks."""

    job: ReconciliationJob
    job_uid: UUID
    spec_hash: str
    """Of the job as declared, before parameters were written in."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Name and canonical JSON of each value, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """With what a run is answered."""

    connect: Callable[[Source], Connector]
    """Opens the source's connection; called once per source."""
    engine: Callable[[ComparisonPlan], Engine]
    """Made once per run, when the plan stands."""
    clock: Clock
    extracts: str
    """Directory for extracts of this attempt; one folder per source is made below it."""
    pins: Mapping[str, Pin] = field(default_factory=dict)
    """Pins somebody else holds, by source; the others are taken here."""


class ExtractionFailedError(Exception):
    """A source could not be read; names it for the result file. The cause is the real error."""

    def __init__(self, index: int, source: str) -> None:
        super().__init__(f"extract-{index}")
        self.index, self.source = index, source


class StageFailedError(Exception):
    """A stage could not be compared. The cause is the real error."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage)
        self.stage = stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a run found out: everything that run.json and the summary are made of."""

    plan: ComparisonPlan
    outcome: RunOutcome
    pins: Mapping[str, Pin]


def answer(question: Question, means: Means, told: Told) -> Answer:
    """Run the whole comparison.

    Raises:
        ExtractionFailedError: pinning, describing or reading a source failed.
        StageFailedError: a stage failed, or its numbers contradict each other.
        DatarecsError: the plan is refused, or no stage was executed.
    """
    with ExitStack() as open_things:
        sources = _open(question, means, open_things)
        plan = _planned(question, sources)
        pins = {one.source.name: one.pin for one in sources}
        told.pinned(pins, plan)
        outcome, plan = _Stages(means=means, told=told, sources=sources).run(plan)
        return Answer(plan=plan, outcome=outcome, pins=pins)


def plan_only(question: Question, means: Means) -> ComparisonPlan:
    """Pin and describe every source, make the plan, and let go: nothing is read or compared.

    Formats whose types are inferred are read for it, as they are by a run.

    Raises:
        ExtractionFailedError: pinning or describing a source failed.
        PlanRefusedError: the question does not fit the sources, with every reason.
    """
    with ExitStack() as open_things:
        return _planned(question, _open(question, means, open_things))


def _planned(question: Question, sources: "Sequence[_Opened]") -> ComparisonPlan:
    return plan_comparison(
        PlanRequest(
            job=question.job,
            job_uid=question.job_uid,
            spec_hash=question.spec_hash,
            parameters=question.parameters,
            schemas={one.source.name: one.schema for one in sources},
            pins={one.source.name: one.pin for one in sources},
            queries={
                stage.name: _described(stage.queries, sources)
                for stage in question.job.stages
                if stage.type is StageType.CUSTOM_SQL
            },
        )
    )


def _described(
    queries: Mapping[str, str], sources: "Sequence[_Opened]"
) -> Mapping[str, SourceSchema]:
    """What the queries of one stage return, at the sources' pins."""
    found = {}
    for index, one in enumerate(sources):
        if one.source.kind in QUERY_KINDS:
            asked = query_source(one.source, queries[one.source.name])
            with _Extraction(index, one.source):
                found[one.source.name] = one.connector.describe(asked, one.pin)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    source: Source
    connector: Connector
    pin: Pin
    held: HeldPin | None
    """None where somebody else holds the pin."""
    schema: SourceSchema


def _open(question: Question, means: Means, open_things: ExitStack) -> tuple[_Opened, ...]:
    """Pin every source before any is described or read, so that they form one cut."""
    pinned = []
    for index, source in enumerate(question.job.sources):
        with _Extraction(index, source):
            connector = means.connect(source)
            open_things.callback(connector.close)
            pin, held = means.pins.get(source.name), None
            if pin is None:
                held = connector.pin(source)
                open_things.callback(held.close)
                pin = held.pin
            pinned.append((source, connector, pin, held))
    opened = []
    for index, (source, connector, pin, held) in enumerate(pinned):
        with _Extraction(index, source):
            schema = connector.describe(source, pin)
        opened.append(
            _Opened(source=source, connector=connector, pin=pin, held=held, schema=schema)
        )
    return tuple(opened)


class _Extraction:
    """Says of every failure inside which source it belongs to."""

    def __init__(self, index: int, source: Source) -> None:
        self._index, self._source = index, source

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception):
            raise ExtractionFailedError(self._index, self._source.name) from error


@dataclass(slots=True, kw_only=True)
class _Stages:
    """The stages of one run in order; sources are read when the first of them starts."""

    means: Means
    told: Told
    sources: tuple[_Opened, ...]
    last_told: float = 0.0

    def run(self, plan: ComparisonPlan) -> tuple[RunOutcome, ComparisonPlan]:
        outcomes: list[StageOutcome] = []
        engine: Engine | None = None
        for position in range(len(plan.stages)):
            skipped = skip_of(plan.stages[position], outcomes)
            if skipped is not None:
                outcomes.append(skipped)
                continue
            name = plan.stages[position].name
            self.told.stage_started(name)
            try:
                if engine is None:
                    plan = self._brought(plan)
                    engine = self.means.engine(plan)
                outcomes.append(self._compared(plan.stages[position], engine))
            except ExtractionFailedError as failed:
                self.told.stage_errored(name, _cause_of(failed))
                raise
            except StageFailedError as failed:
                self.told.comparison_errored(name, _cause_of(failed))
                self.told.stage_errored(name, _cause_of(failed))
                raise
        self._check_pins()
        return judge_run(outcomes, plan.warnings), plan

    def _brought(self, plan: ComparisonPlan) -> ComparisonPlan:
        """The plan over extracts: of every source, and of every stage's own queries."""
        if any(not stage.queries for stage in plan.stages):
            plan = plan.with_scans(self._extracted(plan))
        return replace(plan, stages=tuple(map(self._answered, plan.stages)))

    def _answered(self, stage: StagePlan) -> StagePlan:
        queries = []
        for opened, scan in zip(self.sources, stage.queries, strict=False):
            with _Extraction(scan.index, opened.source):
                directory = f"{self.means.extracts}/{stage.index}-{scan.index}"
                queries.append(opened.connector.extract(scan, directory, _ignore))
        return replace(stage, queries=tuple(queries), scans=tuple(queries) or stage.scans)

    def _extracted(self, plan: ComparisonPlan) -> tuple[Scan, ...]:
        return tuple(
            self._extract(index, opened, scan)
            for index, (opened, scan) in enumerate(zip(self.sources, plan.scans, strict=True))
        )

    def _extract(self, index: int, opened: _Opened, scan: Scan) -> Scan:
        self.told.extraction_started(index, scan.kind.value)
        try:
            directory = f"{self.means.extracts}/{index}"
            extracted = opened.connector.extract(scan, directory, _ignore)
            crash_point(CrashPoint.EXTRACT_MID)
            rows = _rows_of(extracted)
        except Exception as error:
            self.told.extraction_errored(index, error)
            raise ExtractionFailedError(index, scan.source) from error
        self.told.extraction_completed(index, rows)
        return extracted

    def _compared(self, stage: StagePlan, engine: Engine) -> StageOutcome:
        self.told.comparison_started(stage.name, len(stage.scans))
        try:
            results = engine.compare(stage, self._progress)
            crash_point(CrashPoint.COMPARE_MID)
            outcome = judge_stage(stage, results)
        except (DatarecsError, MemoryError) as error:
            raise StageFailedError(stage.name) from error
        if outcome.verdict is None:
            raise TypeError("an executed stage has a verdict")
        counts = results.counts
        rows = sum(counts.source_row_counts)
        self.told.rows_processed(stage.name, rows, counts.rows_unmatched)
        payload = comparison_payload(stage, results, outcome.verdict)
        self.told.comparison_completed(payload)
        self.told.stage_completed(payload)
        return outcome

    def _progress(self, progress: Progress) -> None:
        """At most one report each five seconds; mismatches are told at the stage's end alone."""
        now = self.means.clock.monotonic()
        if now - self.last_told >= PROGRESS_EVERY.total_seconds():
            self.last_told = now
            self.told.rows_processed(progress.stage, progress.row_count, 0)

    def _check_pins(self) -> None:
        """A source that changed while it was read leaves no verdict."""
        for index, opened in enumerate(self.sources):
            if opened.held is not None:
                with _Extraction(index, opened.source):
                    opened.held.check()


def _rows_of(scan: Scan) -> int:
    """Rows a source delivers: counted while extracting, or by the pinned files' own footers."""
    if scan.extract is not None:
        return scan.extract.rows
    files: Sequence[object] = getattr(scan.pin, "files", ())
    return sum(getattr(file, "rows", None) or 0 for file in files)


def _cause_of(failed: Exception) -> Exception:
    cause = failed.__cause__
    return cause if isinstance(cause, Exception) else failed


def _ignore(_read: Read) -> None:
    """Extraction reports its rows at its end; finer progress has no event."""
