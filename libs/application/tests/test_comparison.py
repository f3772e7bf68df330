"""One run from pins to verdict: the order of the reports, and ends without a verdict."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_application.comparison import Answer, Means, Question, StageFailedError, answer
from datarecs_application.opening import ExtractionFailedError
from datarecs_application.ports.comparing import Connector, Progress
from datarecs_application.ports.outside import Wake
from datarecs_connectors.extracted import rows_of
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.plan import ComparisonPlan, StagePlan
from datarecs_core.comparison.planning.scan import FileList, Pin, Scan
from datarecs_core.comparison.proof.run_json import Sealing, proof_hash, run_document
from datarecs_core.comparison.proof.verification import verify_document
from datarecs_core.comparison.results.payload import ComparisonPayload
from datarecs_core.comparison.results.results import StageResults, Verdict
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.hashing import canonical_json
from datarecs_core.jobs.definition import (
    Confirm,
    Dimension,
    Measure,
    ReconciliationJob,
    Source,
    Stage,
)
from datarecs_core.jobs.vocabulary import Function, OnUnmatched, SourceKind, StageType
from datarecs_memory.engine import MemoryEngine, Reader
from datarecs_testing.clock import ManualClock

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
COUNTS = Stage(name="counts", type=StageType.COUNTS)
ROWS = Stage(
    name="rows",
    type=StageType.ROW,
    dimensions=(Dimension(name="id"),),
    measures=(Measure(name="amount"),),
    confirm=Confirm(after=timedelta(minutes=2), attempts=3),
)
STOP = object()
"""A stop of the run is requested."""


class Teller:
    """Port ProgressReporter that writes down names, in order."""

    def __init__(self) -> None:
        self.reports: list[str] = []

    def pinned(self, pins: Mapping[str, Pin], plan: ComparisonPlan) -> None:
        self.reports.append(f"pinned {len(pins)} {len(plan.stages)}")

    def stage_started(self, stage: str) -> None:
        self.reports.append(f"stage.started {stage}")

    def extraction_started(self, index: int, kind: str, stage: str | None = None) -> None:
        self.reports.append(f"extraction.started {index} {stage or kind}")

    def extraction_progressed(self, index: int, rows: int, stage: str | None = None) -> None:  # noqa: ARG002  the port's form
        self.reports.append(f"extraction.progressed {index} {rows}")

    def extraction_completed(self, index: int, rows: int, stage: str | None = None) -> None:
        self.reports.append(f"extraction.completed {index} {rows}{f' {stage}' if stage else ''}")

    def extraction_errored(self, index: int, error: Exception, stage: str | None = None) -> None:  # noqa: ARG002  the port's form
        self.reports.append(f"extraction.errored {index} {type(error).__name__}")

    def comparison_started(self, stage: str, sources: int) -> None:
        self.reports.append(f"comparison.started {stage} {sources}")

    def waiting(self, stage: str, groups: int, length: timedelta) -> None:
        self.reports.append(f"waiting {stage} {groups} {length.total_seconds():g}")

    def rows_processed(self, stage: str, rows: int, mismatches: int) -> None:
        self.reports.append(f"rows_processed {stage} {rows} {mismatches}")

    def comparison_completed(self, payload: ComparisonPayload) -> None:
        self.reports.append(f"comparison.completed {payload['stage_name']} {payload['result']}")

    def comparison_errored(self, stage: str, error: Exception) -> None:
        self.reports.append(f"comparison.errored {stage} {type(error).__name__}")

    def stage_completed(self, payload: ComparisonPayload) -> None:
        self.reports.append(f"stage.completed {payload['stage_name']} {payload['result']}")

    def stage_errored(self, stage: str, error: Exception) -> None:
        self.reports.append(f"stage.errored {stage} {type(error).__name__}")


@pytest.fixture
def run_job(tmp_path: Path) -> Callable[..., tuple[Answer | Exception, list[str]]]:
    """Run the stages over two files, `a` and `b`, on the oracle; the result and the reports."""
    surroundings = Surroundings(
        roots=(tmp_path,),
        policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
        now=lambda: NOON,
        any_path=True,
    )

    def run(
        *stages: Stage,
        before_engine: Callable[[], object] = lambda: None,
        meanwhile: Callable[[int], object] = lambda _: None,
        on_the_way: Sequence[tuple[int, int]] = (),
        kind: SourceKind = SourceKind.CSV,
    ) -> tuple[Answer | Exception, list[str]]:
        connectors: dict[str, Connector] = {}
        clock = _Clock(meanwhile)

        def connect(source: Source) -> Connector:
            opened = open_connector(source, None, {}, surroundings=surroundings)
            connectors[source.name] = opened
            return opened

        def engine(_plan: ComparisonPlan) -> MemoryEngine:
            before_engine()
            return _Slow(clock, on_the_way, lambda scan: _rows(connectors, scan))

        sources = tuple(Source(name=name, kind=kind, path=f"{name}.{kind}") for name in ("a", "b"))
        job = ReconciliationJob(name="job", sources=sources, stages=stages)
        teller = Teller()
        means = Means(
            connect=connect,
            engine=engine,
            clock=clock,
            extracts=str(tmp_path / "x"),
            stop=threading.Event(),
        )
        question = Question(job=job, job_uid=UUID(int=1), spec_hash="sha256:" + 64 * "0")
        try:
            return answer(question, means, teller), teller.reports
        except (ExtractionFailedError, StageFailedError) as failed:
            return failed, teller.reports

    (tmp_path / "a.csv").write_text("id,amount\n1,1.00\n2,2.00\n")
    (tmp_path / "b.csv").write_text("id,amount\n1,1.00\n2,2.50\n")
    return run


class _Clock(ManualClock):
    """Port Clock; during the nth wait an action runs."""

    def __init__(self, meanwhile: Callable[[int], object]) -> None:
        super().__init__(by_itself=True)
        self.meanwhile, self.waits = meanwhile, 0

    def wait(self, duration: timedelta, *, until: Wake | None = None) -> bool:
        self.waits += 1
        if self.meanwhile(self.waits) is STOP and until is not None:
            until.set()
        return super().wait(duration, until=until)


class _Slow(MemoryEngine):
    """Reports rows during the read: a number of rows after a number of seconds."""

    def __init__(
        self, clock: ManualClock, on_the_way: Sequence[tuple[int, int]], read: Reader
    ) -> None:
        super().__init__(read)
        self._clock, self._on_the_way = clock, on_the_way

    def compare(self, plan: StagePlan, progress: Callable[[Progress], None]) -> StageResults:
        for seconds, rows in self._on_the_way:
            self._clock.advance(timedelta(seconds=seconds))
            progress(Progress(stage=plan.name, row_count=rows))
        return super().compare(plan, progress)


def _rows(connectors: Mapping[str, Connector], scan: Scan) -> Iterator[tuple[object, ...]]:
    return rows_of(connectors[scan.source], scan)


RunJob = Callable[..., tuple[Answer | Exception, list[str]]]


@pytest.mark.case("F19")
def test_a_stage_reports_start_extractions_comparison_and_end_in_order(
    run_job: RunJob,
) -> None:
    result, reports = run_job(COUNTS)
    assert isinstance(result, Answer)
    assert result.outcome.verdict is Verdict.MATCHED
    assert reports == [
        "pinned 2 1",
        "stage.started counts",
        "extraction.started 0 csv",
        "extraction.completed 0 2",
        "extraction.started 1 csv",
        "extraction.completed 1 2",
        "comparison.started counts 2",
        "rows_processed counts 4 0",
        "comparison.completed counts MATCHED",
        "stage.completed counts MATCHED",
        "pinned 2 1",  # with the hashes, which are made while the files are read
    ]


@pytest.mark.case("F14")
def test_files_are_hashed_while_they_are_read(run_job: RunJob, tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("id,amount\n1,1.00\n2,2.005\n")
    result, reports = run_job(COUNTS)
    assert isinstance(result, Answer)
    assert [reports[0], reports[-1]] == ["pinned 2 1", "pinned 2 1"]
    for name, scan in zip("ab", result.plan.scans, strict=True):
        assert isinstance(scan.pin, FileList)
        assert scan.pin == result.pins[name]
        hashed = hashlib.sha256((tmp_path / f"{name}.csv").read_bytes()).hexdigest()
        assert [file.sha256 for file in scan.pin.files] == [hashed]


@pytest.mark.parametrize("amount", ["2.50", "2.505"], ids=["same-size", "other-size"])
def test_no_read_waits_for_the_hashes_of_files_whatever_their_sizes(
    run_job: RunJob, tmp_path: Path, amount: str
) -> None:
    (tmp_path / "b.csv").write_text(f"id,amount\n1,1.00\n2,{amount}\n")
    result, reports = run_job(COUNTS)
    assert isinstance(result, Answer)
    for stage in result.outcome.stages:
        for scan in stage.plan.scans:
            assert isinstance(scan.pin, FileList)
            assert not any(file.sha256 for file in scan.pin.files)
    assert sum(line.startswith("extraction.started") for line in reports) == 2
    assert reports[-1] == "pinned 2 1"


def test_files_that_did_not_change_are_not_read_again_whatever_their_sizes(
    run_job: RunJob, tmp_path: Path
) -> None:
    (tmp_path / "b.csv").write_text("id,amount\n1,1.00\n2,2.005\n")
    _, reports = run_job(ROWS)
    assert sum(line.startswith("waiting") for line in reports) == 3
    assert sum(line.startswith("extraction.started") for line in reports) == 2


def test_progress_is_reported_every_five_seconds_and_never_falls(run_job: RunJob) -> None:
    """More rows may be read than the stage uses, or they are read once more."""
    reports = ((4, 1), (1, 2), (4, 3), (1, 9), (5, 7))
    _, events = run_job(COUNTS, on_the_way=reports)
    lines = [line for line in events if line.startswith("rows_processed")]
    assert lines == [f"rows_processed counts {rows} 0" for rows in (2, 9, 9, 9)]


def test_a_later_stage_reads_no_source_again_and_decides_the_run(run_job: RunJob) -> None:
    grand_total = Stage(
        name="total",
        type=StageType.AGGREGATE,
        measures=(Measure(name="amount", function=Function.SUM),),
    )
    result, reports = run_job(COUNTS, grand_total)
    assert isinstance(result, Answer)
    assert result.outcome.verdict is Verdict.UNMATCHED
    assert sum(line.startswith("extraction.started") for line in reports) == 2
    assert reports[-2:] == ["stage.completed total UNMATCHED", "pinned 2 2"]


@pytest.mark.case("F20")
def test_a_stage_after_a_stop_is_skipped_without_an_event(run_job: RunJob) -> None:
    first = Stage(
        name="total",
        type=StageType.AGGREGATE,
        measures=(Measure(name="amount", function=Function.SUM),),
        on_unmatched=OnUnmatched.STOP,
    )
    result, reports = run_job(first, COUNTS)
    assert isinstance(result, Answer)
    assert [stage.executed for stage in result.outcome.stages] == [True, False]
    assert not [line for line in reports if "counts" in line]


def test_a_source_that_is_gone_fails_before_any_stage_and_names_its_place(
    run_job: RunJob, tmp_path: Path
) -> None:
    (tmp_path / "b.csv").unlink()
    result, reports = run_job(COUNTS)
    assert isinstance(result, ExtractionFailedError)
    assert (result.index, str(result)) == (1, "extract-1")
    assert reports == []


def test_a_file_that_changes_while_an_engine_reads_it_leaves_no_verdict(
    run_job: RunJob, tmp_path: Path
) -> None:
    table = pa.table({"id": [1, 2]})
    for name in ("a", "b"):
        pq.write_table(table, tmp_path / f"{name}.parquet")

    def change() -> None:
        pq.write_table(pa.concat_tables([table, table]), tmp_path / "b.parquet")

    result, _ = run_job(COUNTS, before_engine=change, kind=SourceKind.PARQUET)
    assert isinstance(result, ExtractionFailedError)
    assert type(result.__cause__).__name__ == "SnapshotLostError"


def test_a_file_that_changes_once_its_rows_were_brought_changes_nothing(
    run_job: RunJob, tmp_path: Path
) -> None:
    def change() -> None:
        (tmp_path / "b.csv").write_text("id,amount\n1,1.00\n2,2.00\n3,3.00\n")

    result, _ = run_job(COUNTS, before_engine=change)
    assert isinstance(result, Answer)
    assert result.outcome.verdict is Verdict.MATCHED


def test_a_file_that_changes_before_its_rows_were_brought_leaves_no_verdict(
    run_job: RunJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(_teller: Teller, index: int, _rows: int, _stage: str | None = None) -> None:
        if index:
            (tmp_path / "a.csv").write_text("id,amount\n1,1.00\n2,2.00\n3,3.00\n")

    monkeypatch.setattr(Teller, "extraction_completed", change)
    result, reports = run_job(COUNTS)
    assert isinstance(result, ExtractionFailedError)
    assert (result.index, type(result.__cause__).__name__) == (0, "SnapshotLostError")
    assert reports[-1] == "stage.errored counts SnapshotLostError"


@pytest.mark.case("P57")
@pytest.mark.case("P45")
def test_a_row_that_lands_between_the_pins_is_in_flight_and_a_break_stays(
    run_job: RunJob, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id,amount\n1,1.00\n2,2.00\n3,3.00\n")

    def land(attempt: int) -> None:
        changed = "id,amount\n1,9.00\n2,2.50\n" + "3,3.00\n" * (attempt > 1)
        (tmp_path / "b.csv").write_text(changed)

    result, reports = run_job(ROWS, meanwhile=land)
    assert isinstance(result, Answer)
    (stage,) = result.outcome.stages
    assert stage.results is not None
    confirmed = stage.results.confirmed
    assert confirmed is not None
    counts = stage.results.counts
    assert (confirmed.in_flight_resolved, len(confirmed.rechecks)) == (1, 3)
    assert (confirmed.first.rows_unmatched, confirmed.first.source_row_counts) == (2, (3, 2))
    assert (counts.rows_unmatched, counts.source_row_counts) == (1, (3, 3))
    assert counts.rows_matched == 2  # key 1 agreed at first: it is not read again
    assert result.outcome.verdict is Verdict.UNMATCHED
    assert [each.code for each in stage.warnings] == ["IN_FLIGHT_RESOLVED"]
    begin = reports.index("comparison.started rows 2")
    assert reports[begin + 1 : begin + 6] == [
        "waiting rows 2 120",
        "extraction.started 1 rows",
        "extraction.completed 1 2 rows",
        "waiting rows 2 120",
        "extraction.started 1 rows",
    ]
    assert reports[-3:] == [
        "rows_processed rows 6 1",
        "comparison.completed rows UNMATCHED",
        "stage.completed rows UNMATCHED",
    ]


@pytest.mark.case("P57")
def test_both_counts_and_every_pin_are_in_run_json_and_are_verified(
    run_job: RunJob, tmp_path: Path
) -> None:
    def land(_attempt: int) -> None:
        (tmp_path / "b.csv").write_text("id,amount\n1,1.00\n2,2.00\n")

    result, _ = run_job(ROWS, meanwhile=land)
    assert isinstance(result, Answer)
    assert result.outcome.verdict is Verdict.MATCHED
    sealing = Sealing(versions={}, key_id="k1")
    document = json.loads(
        canonical_json(run_document(result.plan, result.outcome, sealing=sealing, run={}))
    )
    assert verify_document(document).findings == ()
    stage = document["proof"]["stages"][0]
    confirmed = stage["confirmed"]
    assert confirmed["in_flight_resolved"] == 1
    assert (confirmed["first_counts"]["rows_unmatched"], stage["counts"]["rows_unmatched"]) == (
        1,
        0,
    )
    pins = [pin["digest"] for pin in confirmed["looks"][0]["pins"]]
    first = [source["pin"]["digest"] for source in document["proof"]["sources"]]
    assert [pin == other for pin, other in zip(pins, first, strict=True)] == [True, False]
    confirmed["in_flight_resolved"] = 2
    document["proof_hash"] = proof_hash(document["proof"])
    assert [each.check for each in verify_document(document).findings] == ["confirm"]


def test_more_differing_groups_than_max_keys_are_not_read_again(run_job: RunJob) -> None:
    few = Confirm(after=timedelta(minutes=2), max_keys=1)
    twice = (Dimension(name="id"), Dimension(name="amount"))
    result, reports = run_job(replace(ROWS, confirm=few, dimensions=twice, measures=()))
    assert isinstance(result, Answer)
    assert [each.code for each in result.outcome.warnings] == ["CONFIRM_SKIPPED"]
    assert not [line for line in reports if line.startswith("waiting")]


def test_a_source_whose_columns_have_changed_is_not_read_again(
    run_job: RunJob, tmp_path: Path
) -> None:
    def change(_attempt: int) -> None:
        (tmp_path / "b.csv").write_text("id,amount\n1,1.00\n2,two\n")

    result, _ = run_job(ROWS, meanwhile=change)
    assert isinstance(result, Answer)
    assert result.outcome.verdict is Verdict.UNMATCHED
    (warning,) = result.outcome.warnings
    assert (warning.code, "b has other columns" in warning.message) == ("CONFIRM_SKIPPED", True)


def test_a_run_with_a_stop_request_does_not_wait_for_a_recheck(run_job: RunJob) -> None:
    result, reports = run_job(ROWS, meanwhile=lambda _: STOP)
    assert isinstance(result, StageFailedError)
    assert type(result.__cause__).__name__ == "StoppedWhileWaitingError"
    assert reports[-1] == "stage.errored rows StoppedWhileWaitingError"


def test_a_source_that_cannot_be_read_again_leaves_no_verdict(
    run_job: RunJob, tmp_path: Path
) -> None:
    result, reports = run_job(ROWS, meanwhile=lambda _: (tmp_path / "b.csv").unlink())
    assert isinstance(result, ExtractionFailedError)
    assert reports[-2:] == [
        "comparison.errored rows NoFilesError",
        "stage.errored rows NoFilesError",
    ]
