"""One run from pins to proof: pin, describe, plan, extract, compare stage by stage, judge, store.

The worker's child and `datarecs compare` run this function with different ways to open sources,
engines and reporters. No result is visible before everything was read, the pins were checked again
and the counts added up.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from datarecs_application.confirming import Again, RecheckRefused, confirmed
from datarecs_application.opening import (
    Extraction,
    ExtractionFailedError,
    Opened,
    opened_sources,
    pinned_again,
)
from datarecs_application.ports.comparing import Connector, Engine, HeldPin, Progress, Read
from datarecs_application.ports.outside import Clock, Wake
from datarecs_application.reading import Reading, rows_of
from datarecs_application.stopping import StoppedError
from datarecs_core.comparison.planning.confirming import delivers_alike, is_same_read, only_groups
from datarecs_core.comparison.planning.logical import QUERY_KINDS, query_source
from datarecs_core.comparison.planning.plan import ComparisonPlan, StagePlan
from datarecs_core.comparison.planning.planner import PlanRequest, plan_comparison
from datarecs_core.comparison.planning.pushdown import MAX_KEYS
from datarecs_core.comparison.planning.scan import Pin, Scan, SourceSchema
from datarecs_core.comparison.results.payload import ComparisonPayload, comparison_payload
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.comparison.results.verdict import (
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


class ProgressReporter(Protocol):
    """Who is informed of progress; every method may be slow to act and never blocks the work."""

    def pinned(self, pins: Mapping[str, Pin], plan: ComparisonPlan) -> None:
        """What is going to be read; once more at the end, where pins had to be completed."""

    def stage_started(self, stage: str) -> None: ...

    def extraction_started(self, index: int, kind: str, stage: str | None = None) -> None:
        """Of all stages, or again of one stage with its differing groups."""

    def extraction_progressed(self, index: int, rows: int, stage: str | None = None) -> None:
        """The rows read so far; called from the thread that reads them."""

    def extraction_completed(self, index: int, rows: int, stage: str | None = None) -> None: ...

    def extraction_errored(
        self, index: int, error: Exception, stage: str | None = None
    ) -> None: ...

    def comparison_started(self, stage: str, sources: int) -> None: ...

    def waiting(self, stage: str, groups: int, length: timedelta) -> None:
        """So many groups differ, and are read again after a wait."""

    def rows_processed(self, stage: str, rows: int, mismatches: int) -> None:
        """Never fewer rows than before; called from the thread on which the engine checks."""

    def comparison_completed(self, payload: ComparisonPayload) -> None: ...

    def comparison_errored(self, stage: str, error: Exception) -> None: ...

    def stage_completed(self, payload: ComparisonPayload) -> None: ...

    def stage_errored(self, stage: str, error: Exception) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The request of one run: the job with its parameters filled in, and the requester."""

    job: ReconciliationJob
    job_uid: UUID
    spec_hash: str
    """Of the job as declared, before parameters were written in."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Name and canonical JSON of each value, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a run uses to produce its result."""

    connect: Callable[[Source], Connector]
    """Opens the source's connection; called once per source."""
    engine: Callable[[ComparisonPlan], Engine]
    """Created once per run, after the plan is made."""
    clock: Clock
    extracts: str
    """Directory for extracts of this attempt; one folder per source is made below it."""
    pins: Mapping[str, Pin] = field(default_factory=dict)
    """Pins that the caller holds, by source; the others are taken here."""
    stop: Wake | None = None
    """Set when the result is no longer needed: ends reads between two batches, and a wait
    before a recheck."""
    progress_every: timedelta = PROGRESS_EVERY
    """Between two reports of one read or stage, at least; the last of a stage is always sent."""


class StageFailedError(Exception):
    """A stage could not be compared. The cause is the real error."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage)
        self.stage = stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a run: everything in run.json and the summary."""

    plan: ComparisonPlan
    outcome: RunOutcome
    pins: Mapping[str, Pin]


def answer(question: Question, means: Means, reporter: ProgressReporter) -> Answer:
    """Run the whole comparison.

    Raises:
        ExtractionFailedError: pinning, describing or reading a source failed.
        StageFailedError: a stage failed, or its numbers contradict each other.
        DatarecsError: the plan is refused, or no stage was executed.
    """
    with ExitStack() as open_things:
        # The pin distinguishes what is read again later from what was read before.
        whole = any(stage.confirm is not None for stage in question.job.stages)
        sources = opened_sources(
            question.job.sources, means.connect, means.pins, open_things, whole=whole
        )
        plan = _planned(question, sources)
        pins = {one.source.name: one.pin for one in sources}
        reporter.pinned(pins, plan)
        stages = _Stages(means=means, reporter=reporter, sources=sources, open_things=open_things)
        outcome, plan = stages.run(plan)
        if stages.pins != pins:
            plan = plan.with_pins(stages.pins)
            reporter.pinned(stages.pins, plan)
        return Answer(plan=plan, outcome=outcome, pins=stages.pins)


def plan_only(question: Question, means: Means, *, whole: bool = True) -> ComparisonPlan:
    """Pin and describe every source, make the plan and release the pins: nothing is compared.

    Formats with inferred types are read for it, as in a run.

    Args:
        question: the job with its parameters filled in.
        means: only `connect` and `pins` are used.
        whole: wait for everything in pins, such as hashes of files.

    Raises:
        ExtractionFailedError: pinning or describing a source failed.
        PlanRefusedError: the job does not fit the sources, with every reason.
    """
    with ExitStack() as open_things:
        sources = opened_sources(
            question.job.sources, means.connect, means.pins, open_things, whole=whole
        )
        return _planned(question, sources)


def _planned(question: Question, sources: "Sequence[Opened]") -> ComparisonPlan:
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
    queries: Mapping[str, str], sources: "Sequence[Opened]"
) -> Mapping[str, SourceSchema]:
    """What the queries of one stage return, at the sources' pins."""
    schemas = {}
    for index, one in enumerate(sources):
        if one.source.kind in QUERY_KINDS:
            query = query_source(one.source, queries[one.source.name])
            with Extraction(index, one.source):
                schemas[one.source.name] = one.connector.describe(query, one.pin)
    return schemas


@dataclass(slots=True, kw_only=True)
class _Stages:
    """The stages of one run in order; sources are read when the first of them starts."""

    means: Means
    reporter: ProgressReporter
    sources: tuple[Opened, ...]
    open_things: ExitStack
    reported_at: float = 0.0
    """By the monotonic clock: when the read or stage at work began, or was last reported."""
    reported_rows: int = 0
    """Rows of the stage at work."""
    reading: Reading = field(init=False)
    first_pins: dict[int, HeldPin] = field(default_factory=dict)
    """Of the cut that all stages read, by source; without those that are no longer read.
    """
    recheck_pins: list[HeldPin] = field(default_factory=list)
    """Of the latest recheck."""
    to_check: list[tuple[int, HeldPin]] = field(default_factory=list)
    """Pins at which rows are still read, by the index of their source."""

    pins: dict[str, Pin] = field(init=False)
    """Of all sources, with everything known once they were checked."""

    def __post_init__(self) -> None:
        self.reading = Reading(extract=self._read)
        self.pins = {one.source.name: one.pin for one in self.sources}

    def run(self, plan: ComparisonPlan) -> tuple[RunOutcome, ComparisonPlan]:
        outcomes: list[StageOutcome] = []
        engine: Engine | None = None
        self.first_pins = {
            index: each.held for index, each in enumerate(self.sources) if each.held is not None
        }
        self.to_check = list(self.first_pins.items())
        for position in range(len(plan.stages)):
            skipped = skip_of(plan.stages[position], outcomes)
            if skipped is not None:
                outcomes.append(skipped)
                continue
            name = plan.stages[position].name
            self.reporter.stage_started(name)
            try:
                if engine is None:
                    plan = self._brought(plan)
                stage = self.reading.read_stage(plan.stages[position], engine)
                self._let_go(stage, plan.stages[position + 1 :])
                if engine is None:
                    engine = self._make_engine(_with_stage(plan, stage, position), stage)
                outcomes.append(self._compared(stage, engine))
            except ExtractionFailedError as failed:
                self.reporter.stage_errored(name, _cause_of(failed))
                raise
            except StageFailedError as failed:
                self.reporter.comparison_errored(name, _cause_of(failed))
                self.reporter.stage_errored(name, _cause_of(failed))
                raise
        self._check_pins()
        return judge_run(outcomes, plan.warnings), plan

    def _make_engine(self, plan: ComparisonPlan, stage: StagePlan) -> Engine:
        try:
            return self.means.engine(plan)
        except ConnectionError:
            raise
        except (DatarecsError, OSError) as error:
            raise StageFailedError(stage.name) from error

    def _brought(self, plan: ComparisonPlan) -> ComparisonPlan:
        """The plan over extracts: of every source, and of every stage's queries."""
        if any(not stage.queries for stage in plan.stages):
            plan = self.reading.brought(plan)
        return replace(plan, stages=tuple(map(self._answered, plan.stages)))

    def _answered(self, stage: StagePlan) -> StagePlan:
        queries = []
        for opened, scan in zip(self.sources, stage.queries, strict=False):
            with Extraction(scan.index, opened.source):
                directory = f"{self.means.extracts}/{stage.index}-{scan.index}"
                queries.append(opened.connector.extract(scan, directory, self._check_stop))
        return replace(stage, queries=tuple(queries), scans=tuple(queries) or stage.scans)

    def _read(self, scan: Scan, folder: str, stage: str | None) -> Scan:
        directory = f"{self.means.extracts}/{folder}"
        return self._extract(self.sources[scan.index], scan, directory, stage)

    def _extract(
        self, opened: Opened, scan: Scan, directory: str, stage: str | None = None
    ) -> Scan:
        index = scan.index
        self.reporter.extraction_started(index, scan.kind.value, stage)
        self.reported_at = self.means.clock.monotonic()

        def progress(read: Read) -> None:
            self._check_stop(read)
            if self._is_due():
                self.reporter.extraction_progressed(index, read.rows, stage)

        try:
            extracted = self.reading.query_connector(
                opened.connector, scan, directory, progress=progress
            )
            crash_point(CrashPoint.EXTRACT_MID)
            rows = rows_of(extracted)
        except Exception as error:
            self.reporter.extraction_errored(index, error, stage)
            raise ExtractionFailedError(index, scan.source) from error
        self.reporter.extraction_completed(index, rows, stage)
        return extracted

    def _check_stop(self, _read: Read) -> None:
        """Called between two batches of any source: stops when the rest is not needed."""
        if self.means.stop is not None and self.means.stop.is_set():
            raise StoppedError

    def _compared(self, stage: StagePlan, engine: Engine) -> StageOutcome:
        self.reporter.comparison_started(stage.name, len(stage.scans))
        self.reported_at, self.reported_rows = self.means.clock.monotonic(), 0
        try:
            results = engine.compare(stage, self._progress)
            crash_point(CrashPoint.COMPARE_MID)
            outcome = judge_stage(stage, results)
            rows = sum(results.counts.source_row_counts)
            if stage.confirm is not None:
                results = self._confirmed(stage, results, engine)
                outcome = judge_stage(stage, results)
        except ExtractionFailedError as failed:
            self.reporter.comparison_errored(stage.name, _cause_of(failed))
            raise
        except ConnectionError:
            raise  # of the reporter: its reader has ended
        except (DatarecsError, MemoryError, OSError) as error:
            raise StageFailedError(stage.name) from error
        if outcome.verdict is None:
            raise TypeError("an executed stage has a verdict")
        counts = results.counts
        # What is reported never falls: rows that were read may be beside the stage's `where`.
        rows = max(rows, sum(counts.source_row_counts), self.reported_rows)
        self.reporter.rows_processed(stage.name, rows, counts.rows_unmatched)
        payload = comparison_payload(stage, results, outcome.verdict)
        self.reporter.comparison_completed(payload)
        self.reporter.stage_completed(payload)
        return outcome

    def _progress(self, progress: Progress) -> None:
        """Mismatches are reported at the stage's end alone."""
        if self._is_due():
            self.reported_rows = max(self.reported_rows, progress.row_count)
            self.reporter.rows_processed(progress.stage, self.reported_rows, 0)

    def _is_due(self) -> bool:
        """Whether the next report is due."""
        now = self.means.clock.monotonic()
        if now - self.reported_at < self.means.progress_every.total_seconds():
            return False
        self.reported_at = now
        return True

    def _confirmed(self, stage: StagePlan, first: StageResults, engine: Engine) -> StageResults:
        """Later changes cannot be separated from earlier ones, so the first cut is checked."""
        self._check_pins()
        self.to_check = [
            (index, held) for index, held in self.to_check if stage.scans[index].extract is None
        ]

        def compare(latest: StagePlan) -> StageResults:
            results = engine.compare(latest, lambda _: None)
            judge_stage(latest, results)
            return results

        again = _StageRecheck(stages=self, engine=engine)
        final = confirmed(stage, first, compare=compare, again=again)
        self._close_recheck()
        return final

    def recheck(self, stage: StagePlan, engine: Engine) -> tuple[Scan, ...] | RecheckRefused:
        """All sources in one new cut; what was not moved is not read."""
        self._close_recheck()
        pinned = pinned_again(self.sources, self._hold)
        before = stage.rechecks[-1] if stage.rechecks else stage.scans
        keys = engine.differing(stage.name, MAX_KEYS)
        scans = [
            self._recheck_source(stage, *each, keys) for each in zip(pinned, before, strict=True)
        ]
        moved = [each for each in scans if each is not None]
        if len(moved) < len(scans):
            name = stage.sources[scans.index(None)]
            return RecheckRefused(f"{name} has other columns than before: no group was read again")
        return tuple(moved)

    def _hold(self, held: HeldPin) -> None:
        self.open_things.callback(held.close)
        self.recheck_pins.append(held)

    def _recheck_source(
        self,
        stage: StagePlan,
        opened: Opened,
        before: Scan,
        keys: Sequence[Sequence[str | None]] | None,
    ) -> Scan | None:
        """The scan of a source at its new pin; None where its columns have changed.

        Only the rows of these keys are requested, where the source can find them.
        """
        if opened.held is None or is_same_read(before.pin, opened.pin):
            return before
        source, index = opened.source, before.index
        if index in self.first_pins:
            # The session that holds the first cut is one of those that the source may have.
            fewer = max(source.limits.max_connections - 1, 1)
            source = replace(source, limits=replace(source.limits, max_connections=fewer))
        if stage.queries:
            source = query_source(source, before.query or "")
        with Extraction(index, opened.source):
            schema = opened.connector.describe(source, opened.pin)
        if not delivers_alike(schema, before):
            return None
        scan = replace(stage.scans[index], pin=opened.pin, schema=schema, extract=None, only=None)
        if keys is not None and not stage.queries:
            scan = replace(scan, only=only_groups(stage, scan, keys))
        directory = f"{self.means.extracts}/{stage.index}-{index}-{len(stage.rechecks) + 1}"
        reread = self._extract(opened, scan, directory, stage.name)
        with Extraction(index, opened.source):
            opened.held.check()
        if reread.extract is None:
            self.to_check.append((index, opened.held))
        return reread

    def _let_go(self, stage: StagePlan, later: Sequence[StagePlan]) -> None:
        """Check and release pins that are no longer read: comparing may take longer."""
        over = [index for index in self.first_pins if self.reading.is_over(index, stage, later)]
        for index in over:
            held = self.first_pins.pop(index)
            if (index, held) in self.to_check:
                self._check(index, held)
                self.to_check.remove((index, held))
            held.close()

    def _close_recheck(self) -> None:
        """Nothing is read at the latest recheck's pins, unless an engine reads files itself."""
        needed = [held for _, held in self.to_check]
        for held in self.recheck_pins:
            if held not in needed:
                held.close()
        self.recheck_pins.clear()

    def _check_pins(self) -> None:
        """A source that changed while it was read leaves no verdict."""
        for index, held in self.to_check:
            self._check(index, held)

    def _check(self, index: int, held: HeldPin) -> None:
        one = self.sources[index]
        with Extraction(index, one.source):
            pin = held.check()
        if held is one.held:
            self.pins[one.source.name] = pin


def _with_stage(plan: ComparisonPlan, stage: StagePlan, position: int) -> ComparisonPlan:
    """The plan as an engine is made for it: with the groups or rows that its sources returned."""
    stages = (*plan.stages[:position], stage, *plan.stages[position + 1 :])
    return replace(plan, stages=stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StageRecheck(Again):
    """What a recheck of one stage takes."""

    stages: _Stages
    engine: Engine

    def wait(self, stage: StagePlan, groups: int, length: timedelta) -> bool:
        self.stages.reporter.waiting(stage.name, groups, length)
        means = self.stages.means
        return means.clock.wait(length, until=means.stop)

    def recheck(self, stage: StagePlan) -> tuple[Scan, ...] | RecheckRefused:
        return self.stages.recheck(stage, self.engine)


def _cause_of(failed: Exception) -> Exception:
    cause = failed.__cause__
    return cause if isinstance(cause, Exception) else failed
