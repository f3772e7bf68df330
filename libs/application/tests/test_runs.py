"""A run from trigger to its one end, over the real loops and the twins of state."""

import json
from collections import deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from datarecs_application.child_frames import FINISHED, READY
from datarecs_application.ports.execution import Accepted, Launcher, Rejected, Unavailable
from datarecs_application.ports.state import Transaction
from datarecs_core.runs.model import Run, RunResult, RunStatus
from datarecs_core.runs.result_file import NAME
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_testing.platform import RunPlatform
from datarecs_testing.scripted_child import ChildSide

Script = Callable[[Mapping[str, object], ChildSide], int]


def result_of(frame: Mapping[str, object], **content: object) -> None:
    """The result file that belongs to the frame's attempt."""
    document = {
        "schema": 1,
        "run_id": frame["run_id"],
        "attempt": frame["attempt"],
        "lease_epoch": frame["lease_epoch"],
        **content,
    }
    (Path(str(frame["folder"])) / NAME).write_text(json.dumps(document), encoding="utf-8")


def serving(*acts: Callable[[Mapping[str, object], ChildSide], int | None]) -> Script:
    """Children that do one act per run; an act may end its child, the next child continues."""
    left = deque(acts)

    def script(_hello: Mapping[str, object], side: ChildSide) -> int:
        side.send({"type": READY})
        while left:
            frame = side.receive()
            assert frame is not None
            code = left.popleft()(frame, side)
            if code is not None:
                return code
            side.send({"type": FINISHED})
        side.receive()
        return 0

    return script


def matched(frame: Mapping[str, object], _side: ChildSide) -> None:
    result_of(frame, outcome="COMPLETED", result="MATCHED")


def unmatched_with_numbers(frame: Mapping[str, object], side: ChildSide) -> None:
    side.send({"type": "event", "event": "stage_started", "stage_name": "s"})
    side.send(
        {
            "type": "event",
            "event": "extraction_started",
            "extraction_index": 0,
            "connection_type": "csv",
        }
    )
    result_of(frame, outcome="COMPLETED", result="UNMATCHED")


@pytest.fixture
def platform(tmp_path: Path) -> Callable[..., RunPlatform]:
    def made(script: Script | None = None, launcher: Launcher | None = None) -> RunPlatform:
        return RunPlatform(
            folder=tmp_path,
            launcher=launcher or QueueLauncher(),
            script=script or serving(matched),
        )

    return made


Make = Callable[..., RunPlatform]


@pytest.mark.case("R53")
@pytest.mark.case("L01")
def test_a_run_is_triggered_queued_leased_completed_and_finalised(platform: Make) -> None:
    here = platform(serving(unmatched_with_numbers))
    run = here.trigger()
    assert here.launching.step() == 1
    assert here.now(run).status is RunStatus.QUEUED
    assert here.supervise()
    assert here.now(run).status is RunStatus.RUNNING
    here.close_ended(run)
    closed = here.now(run)
    assert (closed.status, closed.result) == (RunStatus.COMPLETED, RunResult.UNMATCHED)
    assert here.event_names(run) == [
        "run.triggered",
        "run.queued",
        "run.stage.started",
        "run.extraction.started",
        "run.completed",
        "run.finalised",
    ]
    assert [entry.sequence for entry in here.history(run)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.case("L03")
def test_a_completion_handled_again_announces_nothing_more(platform: Make) -> None:
    here = platform()
    run = here.trigger()
    here.launching.step()
    here.supervise()
    here.close_ended(run)
    here.close_ended(run)
    assert here.event_names(run).count("run.finalised") == 1


@pytest.mark.case("L21")
def test_a_cancel_before_submission_ends_the_run_and_no_execution_exists(platform: Make) -> None:
    here = platform()
    run = here.trigger()
    here.cancel(run)
    here.launching.step()
    assert here.now(run).status is RunStatus.CANCELLED
    assert here.event_names(run) == ["run.triggered", "run.cancel_requested", "run.cancelled"]
    assert not here.supervise()


@pytest.mark.case("L22")
def test_a_cancelled_queued_run_cannot_be_leased(platform: Make) -> None:
    here = platform()
    run = here.trigger()
    here.launching.step()
    here.cancel(run)
    assert not here.supervise()
    here.launching.step()
    assert here.now(run).status is RunStatus.CANCELLED
    assert here.event_names(run)[-1] == "run.cancelled"


@pytest.mark.case("L23")
def test_a_cancel_while_running_stops_the_child_and_the_error_becomes_cancelled(
    platform: Make,
) -> None:
    def until_stopped(frame: Mapping[str, object], side: ChildSide) -> int:
        here.cancel(run)
        here.heartbeat.beat()
        message = side.receive()
        assert message is not None
        nodes = [{"name": "comparison", "code": "UNKNOWN", "message": "stopped"}]
        result_of(frame, outcome="ERRORED", nodes=nodes)
        return 75

    here = platform(serving(until_stopped))
    run = here.trigger()
    here.launching.step()
    here.supervise()
    here.close_ended(run)
    closed = here.now(run)
    assert closed.status is RunStatus.CANCELLED
    assert closed.raw_error is not None
    assert "run.finalised" not in here.event_names(run)
    ended = [entry for entry in here.history(run) if entry.type.endswith("run.errored")]
    assert closed.terminal_fact_id == ended[0].event_id


@pytest.mark.case("L24")
def test_a_completion_that_was_first_wins_over_the_cancel(platform: Make) -> None:
    here = platform()
    run = here.trigger()
    here.launching.step()
    here.supervise()
    here.cancel(run)
    here.close_ended(run)
    closed = here.now(run)
    assert (closed.status, closed.cancel_stale) == (RunStatus.COMPLETED, True)
    assert "run.cancelled" not in here.event_names(run)


class Answering(QueueLauncher):
    """A backend with prepared results of submissions, then like the queue."""

    def __init__(self, *answers: Rejected | Unavailable) -> None:
        self._answers = list(answers)

    def ensure_running(self, tx: Transaction, run: Run) -> Accepted | Rejected | Unavailable:  # type: ignore[override]  # the port's wider answer
        return self._answers.pop(0) if self._answers else super().ensure_running(tx, run)


@pytest.mark.case("R53")
def test_a_rejected_submission_is_announced_and_finalised_in_one_commit(platform: Make) -> None:
    here = platform(launcher=Answering(Rejected("no room")))
    run = here.trigger()
    here.launching.step()
    closed = here.now(run)
    assert closed.status is RunStatus.QUEUE_ERRORED
    assert here.event_names(run) == [
        "run.triggered",
        "submit_rejected",
        "run.queue_errored",
        "run.finalised",
    ]
    assert closed.error is not None
    assert closed.error.detail_code == "SUBMIT_REJECTED"


@pytest.mark.case("L29")
def test_a_killed_child_ends_the_run_crashed_and_the_supervisor_leases_on(platform: Make) -> None:
    def die(_frame: Mapping[str, object], _side: ChildSide) -> int:
        raise MemoryError

    here = platform(serving(die, matched))
    first, second = here.trigger(), here.trigger()
    here.launching.step()
    slot = here.supervisor()
    assert slot.step(here.stop)
    assert slot.step(here.stop)
    here.close_ended(first)
    here.close_ended(second)
    ended = here.now(first)
    assert ended.status is RunStatus.ERRORED
    assert ended.error is not None
    assert ended.error.code == "CRASHED"
    assert here.now(second).status is RunStatus.COMPLETED


@pytest.mark.parametrize(
    ("code", "children"), [("QUERY_FAILED", 1), ("UNKNOWN", 2), ("CRASHED", 2)]
)
def test_a_source_at_fault_costs_the_next_run_no_new_child(
    platform: Make, code: str, children: int
) -> None:
    def fail(frame: Mapping[str, object], _side: ChildSide) -> None:
        nodes = [{"name": "extract-0", "code": code, "message": "no"}]
        result_of(frame, outcome="ERRORED", nodes=nodes)

    served, hellos = serving(fail, matched), []

    def counted(hello: Mapping[str, object], side: ChildSide) -> int:
        hellos.append(hello)
        return served(hello, side)

    here = platform(counted)
    first, second = here.trigger(), here.trigger()
    here.launching.step()
    slot = here.supervisor()
    assert slot.step(here.stop)
    assert slot.step(here.stop)
    here.close_ended(first)
    here.close_ended(second)
    ended = [here.now(run).status for run in (first, second)]
    assert ended == [RunStatus.ERRORED, RunStatus.COMPLETED]
    assert len(hellos) == children


@pytest.mark.case("L34")
@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (None, "RESULT_MISSING"),
        ("", "RESULT_INVALID"),
        ("{", "RESULT_INVALID"),
        ("x" * (2 * 1024 * 1024), "RESULT_INVALID"),
    ],
)
def test_a_child_without_a_believable_result_file_completes_nothing(
    platform: Make, content: str | None, detail: str
) -> None:
    def leave(frame: Mapping[str, object], _side: ChildSide) -> None:
        if content is not None:
            (Path(str(frame["folder"])) / NAME).write_text(content, encoding="utf-8")

    here = platform(serving(leave))
    run = here.trigger()
    here.launching.step()
    here.supervise()
    here.close_ended(run)
    error = here.now(run).error
    assert error is not None
    assert (error.code, error.detail_code) == ("UNKNOWN", detail)


def test_a_result_of_another_attempt_is_not_believed(platform: Make) -> None:
    def foreign(frame: Mapping[str, object], _side: ChildSide) -> None:
        result_of({**frame, "attempt": 7}, outcome="COMPLETED", result="MATCHED")

    here = platform(serving(foreign))
    run = here.trigger()
    here.launching.step()
    here.supervise()
    here.close_ended(run)
    assert here.now(run).status is RunStatus.ERRORED


@pytest.mark.case("L38")
def test_numbers_that_contradict_each_other_are_never_emitted(platform: Make) -> None:
    def lie(frame: Mapping[str, object], side: ChildSide) -> None:
        side.send(
            {
                "type": "event",
                "event": "comparison_completed",
                "stage_name": "s",
                "source_row_counts": {"source_0": 1, "source_1": 1},
                "matched_groups": 1,
                "unmatched_by_source": {"source_0": 0, "source_1": 0},
                "tolerances": [],
                "result": "MATCHED",
                "rows_compared": 5,
                "rows_matched": 1,
                "rows_unmatched": 0,
                "source_names": {},
                "missing_by_source": {},
                "unmatched_groups": 0,
            }
        )
        side.receive()
        matched(frame, side)

    here = platform(serving(lie))
    run = here.trigger()
    here.launching.step()
    here.supervise()
    here.close_ended(run)
    error = here.now(run).error
    assert error is not None
    assert (error.code, error.detail_code) == ("UNKNOWN", "INCONSISTENT_COUNTS")
    assert "run.comparison.completed" not in here.event_names(run)


@pytest.mark.case("R52")
def test_a_lost_lease_leads_to_another_attempt_and_then_ends_the_run(platform: Make) -> None:
    here = platform()
    run = here.trigger(max_attempts=2)
    here.launching.step()
    for attempt in (1, 2):
        leased = here.finder.lease_run("dead worker")
        assert leased is not None
        assert leased.attempt == attempt
        here.clock.advance(timedelta(seconds=66))
        assert here.rescue.step() == 1
        here.clock.advance(timedelta(seconds=15))
    closed = here.now(run)
    assert closed.status is RunStatus.ERRORED
    assert closed.error is not None
    assert (closed.error.code, closed.error.detail_code) == ("CRASHED", "LEASE_EXPIRED")
    assert "run.errored" not in here.event_names(run)
    assert here.event_names(run)[-1] == "run.finalised"


@pytest.mark.case("X74")
def test_a_supervisor_with_a_stale_epoch_writes_nothing(platform: Make) -> None:
    def overtaken(frame: Mapping[str, object], side: ChildSide) -> None:
        with here.unit.begin(run.tenant_id, feed=8) as tx:
            tx.leases.release(run.run_id, due_at=tx.now, consume=True)
        side.send({"type": "event", "event": "stage_started", "stage_name": "late"})
        matched(frame, side)

    here = platform(serving(overtaken))
    run = here.trigger()
    here.launching.step()
    before = here.event_names(run)
    here.supervise()
    assert here.event_names(run) == before
    assert here.now(run).status is RunStatus.RUNNING


def test_a_declared_retry_returns_the_run_instead_of_reporting(platform: Make) -> None:
    def fail(frame: Mapping[str, object], _side: ChildSide) -> None:
        nodes = [{"name": "extract-0", "code": "QUERY_FAILED", "message": "busy"}]
        result_of(frame, outcome="ERRORED", nodes=nodes)

    here = platform(serving(fail))
    run = here.trigger(retry_on=["QUERY_FAILED"])
    here.launching.step()
    here.supervise()
    assert here.now(run).status is RunStatus.RUNNING
    assert here.event_names(run)[-1] == "attempt_lost"
    here.clock.advance(timedelta(seconds=15))
    here.script = serving(matched)
    assert here.supervise()
    here.close_ended(run)
    assert here.now(run).status is RunStatus.COMPLETED


@pytest.mark.case("K42")
def test_a_drain_returns_the_run_without_using_up_an_attempt(platform: Make) -> None:
    def slow(frame: Mapping[str, object], side: ChildSide) -> None:
        here.stop.set()
        side.receive()
        matched(frame, side)

    here = platform(serving(slow))
    run = here.trigger()
    here.launching.step()
    here.supervise()
    here.stop.clear()
    here.script = serving(matched)
    leased_again = here.supervise()
    here.close_ended(run)
    assert leased_again
    assert (here.now(run).status, here.now(run).attempt) == (RunStatus.COMPLETED, 1)


@pytest.mark.case("R55")
@pytest.mark.case("L16")
def test_an_end_that_no_consumer_handled_is_repaired_from_the_record(platform: Make) -> None:
    here = platform()
    run = here.trigger()
    here.launching.step()
    here.supervise()
    here.clock.advance(timedelta(seconds=200))
    here.timing.step()
    assert here.now(run).status is RunStatus.COMPLETED
    assert here.event_names(run).count("run.finalised") == 1


@pytest.mark.case("R51")
def test_a_missed_deadline_ends_the_run_timed_out(platform: Make) -> None:
    here = platform()
    run = here.trigger(deadline_seconds=60)
    here.launching.step()
    here.finder.lease_run("stuck worker")
    here.clock.advance(timedelta(seconds=121))
    here.timing.step()
    closed = here.now(run)
    assert closed.error is not None
    assert (closed.error.code, closed.error.detail_code) == ("TIMED_OUT", "DEADLINE_EXCEEDED")


def test_the_backend_is_tried_again_until_it_responds(platform: Make) -> None:
    here = platform(launcher=Answering(Unavailable("away"), Unavailable("away")))
    run = here.trigger()
    for _ in range(3):
        here.launching.step()
        here.clock.advance(timedelta(seconds=31))
    assert here.now(run).status is RunStatus.QUEUED
