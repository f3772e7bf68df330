"""One run from pins to verdict: the order of what is told, and what leaves no verdict."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from datarecs_application.comparison import (
    Answer,
    ExtractionFailedError,
    Means,
    Question,
    StageFailedError,
    answer,
)
from datarecs_application.ports.comparing import Connector
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.payload import ComparisonPayload
from datarecs_core.comparison.plan import ComparisonPlan
from datarecs_core.comparison.results import Verdict
from datarecs_core.comparison.scan import Pin, Scan
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import Measure, ReconciliationJob, Source, Stage
from datarecs_core.jobs.vocabulary import Function, OnUnmatched, SourceKind, StageType
from datarecs_memory.engine import MemoryEngine
from datarecs_testing.clock import ManualClock

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
COUNTS = Stage(name="counts", type=StageType.COUNTS)


class Teller:
    """Port Told that writes down names, in order."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def pinned(self, pins: Mapping[str, Pin], plan: ComparisonPlan) -> None:
        self.heard.append(f"pinned {len(pins)} {len(plan.stages)}")

    def stage_started(self, stage: str) -> None:
        self.heard.append(f"stage.started {stage}")

    def extraction_started(self, index: int, kind: str) -> None:
        self.heard.append(f"extraction.started {index} {kind}")

    def extraction_completed(self, index: int, rows: int) -> None:
        self.heard.append(f"extraction.completed {index} {rows}")

    def extraction_errored(self, index: int, error: Exception) -> None:
        self.heard.append(f"extraction.errored {index} {type(error).__name__}")

    def comparison_started(self, stage: str, sources: int) -> None:
        self.heard.append(f"comparison.started {stage} {sources}")

    def rows_processed(self, stage: str, rows: int, mismatches: int) -> None:
        self.heard.append(f"rows_processed {stage} {rows} {mismatches}")

    def comparison_completed(self, payload: ComparisonPayload) -> None:
        self.heard.append(f"comparison.completed {payload['stage_name']} {payload['result']}")

    def comparison_errored(self, stage: str, error: Exception) -> None:
        self.heard.append(f"comparison.errored {stage} {type(error).__name__}")

    def stage_completed(self, payload: ComparisonPayload) -> None:
        self.heard.append(f"stage.completed {payload['stage_name']} {payload['result']}")

    def stage_errored(self, stage: str, error: Exception) -> None:
        self.heard.append(f"stage.errored {stage} {type(error).__name__}")


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., tuple[Answer | Exception, list[str]]]:
    """Run the stages over a.csv and b.csv on the oracle; the answer, and what was told."""
    surroundings = Surroundings(
        roots=(tmp_path,),
        policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
        now=lambda: NOON,
        any_path=True,
    )

    def asked(
        *stages: Stage, before_engine: Callable[[], object] = lambda: None
    ) -> tuple[Answer | Exception, list[str]]:
        connectors: dict[str, Connector] = {}

        def connect(source: Source) -> Connector:
            opened = open_connector(source, None, {}, surroundings=surroundings)
            connectors[source.name] = opened
            return opened

        def engine(_plan: ComparisonPlan) -> MemoryEngine:
            before_engine()
            return MemoryEngine(lambda scan: _rows(connectors, scan))

        sources = tuple(
            Source(name=name, kind=SourceKind.CSV, path=f"{name}.csv") for name in ("a", "b")
        )
        job = ReconciliationJob(name="job", sources=sources, stages=stages)
        teller = Teller()
        means = Means(
            connect=connect, engine=engine, clock=ManualClock(), extracts=str(tmp_path / "x")
        )
        question = Question(job=job, job_uid=UUID(int=1), spec_hash="sha256:" + 64 * "0")
        try:
            return answer(question, means, teller), teller.heard
        except (ExtractionFailedError, StageFailedError) as failed:
            return failed, teller.heard

    (tmp_path / "a.csv").write_text("id,amount\n1,1.00\n2,2.00\n")
    (tmp_path / "b.csv").write_text("id,amount\n1,1.00\n2,2.50\n")
    return asked


def _rows(connectors: Mapping[str, Connector], scan: Scan) -> Iterator[tuple[object, ...]]:
    return connectors[scan.source].rows(scan)


Ask = Callable[..., tuple[Answer | Exception, list[str]]]


@pytest.mark.case("F19")
def test_a_stage_tells_its_start_its_extractions_its_comparison_and_its_end_in_order(
    ask: Ask,
) -> None:
    found, heard = ask(COUNTS)
    assert isinstance(found, Answer)
    assert found.outcome.verdict is Verdict.MATCHED
    assert heard == [
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
    ]


def test_a_later_stage_reads_no_source_again_and_decides_the_run(ask: Ask) -> None:
    grand_total = Stage(
        name="total",
        type=StageType.AGGREGATE,
        measures=(Measure(name="amount", function=Function.SUM),),
    )
    found, heard = ask(COUNTS, grand_total)
    assert isinstance(found, Answer)
    assert found.outcome.verdict is Verdict.UNMATCHED
    assert sum(line.startswith("extraction.started") for line in heard) == 2
    assert heard[-1] == "stage.completed total UNMATCHED"


def test_a_stage_after_a_stop_is_skipped_without_an_event(ask: Ask) -> None:
    first = Stage(
        name="total",
        type=StageType.AGGREGATE,
        measures=(Measure(name="amount", function=Function.SUM),),
        on_unmatched=OnUnmatched.STOP,
    )
    found, heard = ask(first, COUNTS)
    assert isinstance(found, Answer)
    assert [stage.executed for stage in found.outcome.stages] == [True, False]
    assert not [line for line in heard if "counts" in line]


def test_a_source_that_is_gone_fails_before_any_stage_and_names_its_place(
    ask: Ask, tmp_path: Path
) -> None:
    (tmp_path / "b.csv").unlink()
    found, heard = ask(COUNTS)
    assert isinstance(found, ExtractionFailedError)
    assert (found.index, str(found)) == (1, "extract-1")
    assert heard == []


def test_a_file_that_changes_while_it_is_compared_leaves_no_verdict(
    ask: Ask, tmp_path: Path
) -> None:
    def change() -> None:
        (tmp_path / "b.csv").write_text("id,amount\n1,1.00\n2,2.00\n3,3.00\n")

    found, _ = ask(COUNTS, before_engine=change)
    assert isinstance(found, ExtractionFailedError)
    assert type(found.__cause__).__name__ == "SnapshotLostError"
