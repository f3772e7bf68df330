"""The kernel in this process, held to the suite that every engine passes, over files."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from datarecs_application.stopping import StoppedError
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.definition import Execution
from datarecs_kernel import stage_tasks
from datarecs_kernel.database import Connection
from datarecs_kernel.refusals import ComparisonFailedError
from datarecs_memory.kernel_engine import KernelEngine
from datarecs_testing.comparisons import EngineBench, RecheckBench, a_measure, rows_by
from datarecs_testing.conformance.engine import (
    DerivedConformance,
    EngineConformance,
    RelaxationConformance,
)
from datarecs_testing.conformance.engine_rechecks import RecheckSpellingConformance
from datarecs_testing.file_bench import FileBench
from datarecs_testing.tables import a_job, a_table, plan_of


class TestKernelEngine(EngineConformance, RelaxationConformance, DerivedConformance):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> EngineBench:
        return FileBench(folder=tmp_path)


class TestRechecks(RecheckSpellingConformance):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> RecheckBench:
        return FileBench(folder=tmp_path)


def wide_rows(folder: Path, *, spill: int = 2**30) -> ComparisonPlan:
    """A plan over rows of 1,000 characters, no two of them with the same key."""
    tables = [
        a_table(name, "k text, v text", *((f"{name}{k}", f"{k:01000}") for k in range(40_000)))
        for name in ("one", "two")
    ]
    job = a_job(tables, rows_by("k", a_measure("v")), execution=Execution(spill=spill))
    _, plan = FileBench(folder=folder).prepare(plan_of(job, tables), tables)
    return plan


def failure_of(plan: ComparisonPlan, folder: Path, memory_bytes: int) -> DatarecsError:
    engine = KernelEngine(
        key=COMPARE_KEY, directory=folder / "out", threads=2, memory_bytes=memory_bytes
    )
    with pytest.raises(ComparisonFailedError) as caught:
        engine.compare(plan.stages[0], lambda _: None)
    return caught.value


@pytest.mark.case("P65")
def test_too_little_memory_is_named_in_the_error(tmp_path: Path) -> None:
    failure = failure_of(wide_rows(tmp_path), tmp_path, 2**24)
    assert failure.code.name == "OUT_OF_MEMORY"
    assert str(failure) == "stage rows: the rows need more memory at once than the kernel has"


@pytest.mark.case("P65")
def test_more_disk_than_the_job_allows_is_named_in_the_error(tmp_path: Path) -> None:
    failure = failure_of(wide_rows(tmp_path, spill=2**20), tmp_path, 56 * 2**20)
    assert failure.code.name == "SPILL_EXHAUSTED"
    assert "execution.spill" in str(failure)


ENDLESS = "SELECT count(*) FROM range(10000000000) one, range(10000000000) two"


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Set once the task is at work, in a query that does not end by itself."""
    begun = Event()

    def query(connection: Connection, *_: object) -> None:
        begun.set()
        connection.execute(ENDLESS).fetchall()

    monkeypatch.setattr(stage_tasks, "compare_stage", query)
    return begun


def test_a_task_at_work_is_stopped_from_another_thread(tmp_path: Path, endless: Event) -> None:
    engine = KernelEngine(key=COMPARE_KEY, directory=tmp_path, threads=2, memory_bytes=2**28)
    stage = wide_rows(tmp_path / "files").stages[0]
    with ThreadPoolExecutor(1) as threads:
        comparing = threads.submit(engine.compare, stage, lambda _: None)
        assert endless.wait(10)
        engine.stop()
        assert comparing.exception(10) is not None
    with pytest.raises(StoppedError):
        engine.compare(stage, lambda _: None)


def test_an_exception_of_a_signal_stops_the_task(tmp_path: Path, endless: Event) -> None:
    """As the handler of Ctrl-C raises in the thread that waits."""
    engine = KernelEngine(key=COMPARE_KEY, directory=tmp_path, threads=2, memory_bytes=2**28)
    stage = wide_rows(tmp_path / "files").stages[0]

    def interrupt() -> None:
        endless.wait(10)
        signal.raise_signal(signal.SIGINT)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            engine.compare(stage, lambda _: None)
