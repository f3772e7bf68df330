"""Runs as workflows, from trigger to the one end: submission, cancel, drift, orphans, result."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_application.child_frames import FINISHED, READY
from datarecs_application.orphans import stop_orphans
from datarecs_application.ports.execution import Accepted, Rejected, RemoteLauncher, Unavailable
from datarecs_application.workflow_runs import claim_run
from datarecs_argo.workflows import RUN_LABEL, TENANT_LABEL, workflow_of
from datarecs_core import crashing
from datarecs_core.crashing import CrashPoint
from datarecs_core.runs.events import RunCompleted, RunErrored
from datarecs_core.runs.model import Backend, Run, RunResult, RunStatus
from datarecs_core.runs.naming import execution_name
from datarecs_core.runs.result_file import NAME
from datarecs_core.values import JobId, RunId
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_testing.argo import CREATES_PER_S, NAMESPACE, ArgoPlatform
from datarecs_testing.builders import a_run
from datarecs_testing.kubernetes import FakeKubernetes
from datarecs_testing.platform import RunPlatform
from datarecs_testing.scripted_child import ChildSide, Script

STOPPED = {"displayName": "recon", "message": "workflow shutdown with strategy:  Stop"}
BY_EXIT_CODE = {
    "displayName": "recon",
    "templateName": "reconcile",
    "message": "Error (exit code 1)",
}


def leave_result(frame: Mapping[str, object], **content: object) -> None:
    ids = {name: frame[name] for name in ("run_id", "attempt", "lease_epoch")}
    document = {"schema": 1, **ids, **content}
    (Path(str(frame["folder"])) / NAME).write_text(json.dumps(document), encoding="utf-8")


def serving(**content: object) -> Script:
    """A child that reports a stage and leaves a result file with this content."""

    def script(_hello: Mapping[str, object], side: ChildSide) -> int:
        side.send({"type": READY})
        while (frame := side.receive()) is not None:
            if frame.get("type") == "stop":
                return 75
            side.send({"type": "event", "event": "stage_started", "stage_name": "s"})
            leave_result(frame, **content)
            side.send({"type": FINISHED})
        return 0

    return script


MATCHES = serving(outcome="COMPLETED", result="MATCHED")


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., ArgoPlatform]:
    def make(script: Script = MATCHES, **fields: object) -> ArgoPlatform:
        return ArgoPlatform(folder=tmp_path, script=script, **fields)  # type: ignore[arg-type]  # fields of ArgoPlatform

    return make


Made = Callable[..., ArgoPlatform]


def the_end(here: ArgoPlatform, run: Run) -> tuple[str, str | None, str | None]:
    now = here.runs.now(run)
    error = now.error or now.raw_error
    return (
        now.status.value,
        None if error is None else error.code.value,
        None if error is None else error.detail_code,
    )


@pytest.mark.case("L01")
def test_a_run_is_executed_by_its_workflow_and_reported_by_the_exit_handler(made: Made) -> None:
    here = made()
    run = here.submitted(deadline_seconds=900)
    assert here.runs.now(run).status is RunStatus.QUEUED
    assert here.workflow(run)["spec"]["activeDeadlineSeconds"] == 900
    assert isinstance(here.execute(run), RunCompleted)
    here.progress(run)
    assert here.runs.now(run).status is RunStatus.RUNNING
    assert here.finish(run, "Succeeded") == "RunCompleted"
    closed = here.runs.now(run)
    assert (closed.status, closed.result) == (RunStatus.COMPLETED, RunResult.MATCHED)
    assert here.runs.event_names(run) == [
        "run.triggered",
        "run.queued",
        "run.stage.started",
        "run.completed",
        "run.finalised",
    ]
    assert here.runs.launching.step() == 0


def test_no_worker_of_the_queue_takes_the_run_of_a_workflow(made: Made) -> None:
    here = made()
    run = here.submitted()
    assert not here.runs.supervise()
    here.clock.advance(timedelta(hours=1))
    here.runs.rescue.step()
    assert not here.runs.supervise()
    assert here.runs.now(run).attempt == 1


def test_a_run_stays_with_the_backend_of_its_row(tmp_path: Path) -> None:
    here = RunPlatform(folder=tmp_path, launcher=QueueLauncher(), script=MATCHES)
    run = here.trigger(backend=Backend.ARGO)
    here.launching.step()
    assert here.now(run).status is RunStatus.TRIGGERED
    here.clock.advance(timedelta(seconds=601))
    here.timing.step()
    error = here.now(run).error
    assert error is not None
    assert (here.now(run).status, error.detail_code) == (
        RunStatus.QUEUE_ERRORED,
        "SUBMIT_TIMEOUT",
    )


@pytest.mark.case("L28")
def test_a_quota_ends_the_run_in_one_commit(made: Made) -> None:
    here = made(server=FakeKubernetes(quota=0))
    run = here.submitted()
    assert here.runs.event_names(run) == [
        "run.triggered",
        "submit_rejected",
        "run.queue_errored",
        "run.finalised",
    ]
    assert the_end(here, run) == ("QUEUE_ERRORED", "UNKNOWN", "SUBMIT_REJECTED")
    error = here.runs.now(run).error
    assert error is not None
    assert "exceeded quota" in error.message


@pytest.mark.case("L28")
def test_a_create_without_an_answer_for_ten_minutes_leaves_no_workflow_behind(
    made: Made,
) -> None:
    here = made()
    here.server.unanswered = ["POST"]
    run = here.submitted()
    assert here.runs.now(run).status is RunStatus.TRIGGERED
    here.server.outages = [503] * 1000
    for _ in range(61):
        here.clock.advance(timedelta(seconds=10))
        here.runs.launching.step()
        here.runs.timing.step()
    assert the_end(here, run) == ("QUEUE_ERRORED", "UNKNOWN", "SUBMIT_TIMEOUT")
    assert here.shutdown(run) is None
    here.server.outages = []
    here.clock.advance(timedelta(minutes=1))
    here.runs.launching.step()
    assert here.shutdown(run) == "Stop"
    assert here.runs.event_names(run).count("run.finalised") == 1
    here.clock.advance(timedelta(minutes=1))
    assert here.runs.launching.step() == 0


class KilledError(BaseException):
    """The process ends here."""


@pytest.mark.case("L28")
@pytest.mark.parametrize("point", [CrashPoint.SUBMIT_AFTER_INTENT, CrashPoint.SUBMIT_AFTER_CALL])
def test_a_controller_killed_during_a_submission_leaves_one_execution(
    made: Made, point: CrashPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = made()
    run = here.trigger()

    def kill(reached: CrashPoint) -> None:
        if reached is point:
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(crashing, "hook", kill)
        with pytest.raises(KilledError):
            here.runs.launching.step()
    assert here.runs.now(run).submit_intent_at is not None
    here.clock.advance(timedelta(seconds=31))
    here.runs.launching.step()
    assert len(here.server.workflows) == 1
    assert here.runs.event_names(run) == ["run.triggered", "run.queued"]


@pytest.mark.case("L05")
def test_an_execution_may_overtake_the_answer_to_its_submission(made: Made) -> None:
    here = made()
    here.server.unanswered = ["POST"]
    run = here.submitted()
    assert isinstance(here.execute(run), RunCompleted)
    here.progress(run)
    here.finish(run, "Succeeded")
    here.clock.advance(timedelta(minutes=1))
    here.runs.launching.step()
    assert here.runs.now(run).status is RunStatus.COMPLETED
    assert here.runs.event_names(run).count("run.queued") == 1


def test_creations_have_a_pace_and_those_who_wait_lose_nothing(made: Made) -> None:
    here = made()
    runs = [here.trigger() for _ in range(CREATES_PER_S + 2)]
    here.runs.launching.step()
    assert len(here.server.workflows) == CREATES_PER_S
    for _ in range(5):
        here.clock.advance(timedelta(seconds=0.5))
        here.runs.launching.step()
    assert len(here.server.workflows) == len(runs)
    assert {here.runs.now(run).status for run in runs} == {RunStatus.QUEUED}
    assert {here.runs.now(run).submit_attempts for run in runs} == {1}


@pytest.mark.case("L21")
def test_a_cancel_before_the_submission_creates_nothing(made: Made) -> None:
    here = made()
    run = here.trigger()
    here.runs.cancel(run)
    here.runs.launching.step()
    assert here.runs.now(run).status is RunStatus.CANCELLED
    assert here.server.requests == []


@dataclass
class During:
    """Does something while a creation is on its way."""

    inner: RemoteLauncher
    act: Callable[[Run], None]

    def __post_init__(self) -> None:
        self.wait_before_create = self.inner.wait_before_create
        self.stop, self.observe = self.inner.stop, self.inner.observe
        self.live = self.inner.live

    def create(self, run: Run, *, lease_epoch: int) -> Accepted | Rejected | Unavailable:
        answer = self.inner.create(run, lease_epoch=lease_epoch)
        self.act(run)
        return answer


@pytest.mark.case("L21")
def test_a_cancel_between_creation_and_answer_stops_the_workflow(made: Made) -> None:
    def cancel(run: Run) -> None:
        here.runs.cancel(run)

    here = made(around=lambda inner: During(inner, cancel))
    run = here.submitted()
    here.runs.launching.step()
    assert here.runs.event_names(run) == [
        "run.triggered",
        "run.cancel_requested",
        "run.cancelled",
    ]
    assert here.shutdown(run) == "Stop"
    assert here.execute(run) is None


@pytest.mark.case("L22")
def test_a_cancelled_waiting_run_is_stopped_at_once_and_its_end_is_not_reported(
    made: Made,
) -> None:
    here = made()
    run = here.submitted()
    here.runs.cancel(run)
    here.runs.launching.step()
    assert here.runs.now(run).status is RunStatus.CANCELLED
    assert here.shutdown(run) == "Stop"
    assert here.finish(run, "Failed", STOPPED) is None
    assert here.runs.event_names(run)[-1] == "run.cancelled"


@pytest.mark.case("L23")
def test_a_cancel_while_running_stops_the_workflow_and_its_error_becomes_cancelled(
    made: Made,
) -> None:
    here = made()
    run = here.running()
    here.runs.cancel(run)
    here.runs.launching.step()
    assert (here.shutdown(run), here.runs.now(run).status) == ("Stop", RunStatus.RUNNING)
    assert here.finish(run, "Failed", STOPPED) == "RunErrored"
    assert the_end(here, run) == ("CANCELLED", "UNKNOWN", "STOPPED_EXTERNALLY")
    names = here.runs.event_names(run)
    assert ("run.cancelled" in names, "run.finalised" in names) == (True, False)


@pytest.mark.case("L24")
def test_a_result_that_came_before_the_stop_wins_over_the_cancel(made: Made) -> None:
    here = made()
    run = here.running()
    here.execute(run)
    here.runs.cancel(run)
    here.runs.launching.step()
    assert here.finish(run, "Succeeded") == "RunCompleted"
    closed = here.runs.now(run)
    assert (closed.status, closed.cancel_stale) == (RunStatus.COMPLETED, True)
    assert "run.cancelled" not in here.runs.event_names(run)


@pytest.mark.case("L27")
def test_a_workflow_that_ignores_the_stop_is_terminated(made: Made) -> None:
    here = made()
    run = here.running()
    here.runs.cancel(run)
    here.runs.launching.step()
    assert here.shutdown(run) == "Stop"
    here.clock.advance(timedelta(seconds=301))
    here.runs.timing.step()
    here.runs.launching.step()
    assert the_end(here, run) == ("CANCELLED", "UNKNOWN", "CANCEL_FORCED")
    assert here.shutdown(run) == "Terminate"
    assert here.finish(run, "Failed") is None


def test_a_stop_that_is_not_taken_is_repeated(made: Made) -> None:
    here = made()
    run = here.running()
    here.runs.cancel(run)
    here.server.outages = [503]
    here.runs.launching.step()
    assert here.shutdown(run) is None
    here.clock.advance(timedelta(seconds=6))
    here.runs.launching.step()
    assert here.shutdown(run) == "Stop"


def seconds_to_close(here: ArgoPlatform, run: Run) -> int:
    """Let time pass in steps until the run has ended."""
    for seconds in range(0, 300, 2):
        here.runs.timing.step()
        if here.runs.now(run).status.is_terminal:
            return seconds
        here.clock.advance(timedelta(seconds=2))
    raise AssertionError("the run never ended")


@pytest.mark.case("L32")
def test_a_workflow_that_vanished_closes_its_run(made: Made) -> None:
    here = made()
    run = here.running()
    here.server.workflows.clear()
    assert 120 <= seconds_to_close(here, run) <= 190
    assert the_end(here, run) == ("ERRORED", "UNKNOWN", "STOPPED_EXTERNALLY")
    assert here.runs.event_names(run).count("run.finalised") == 1


@pytest.mark.case("L32")
@pytest.mark.parametrize(
    ("phase", "message", "end"),
    [
        ("Failed", "main: OOMKilled (exit code 137)", ("CRASHED", "OUT_OF_MEMORY")),
        ("Error", "pod deleted", ("CRASHED", "TERMINATED")),
        ("Failed", "Step exceeded its deadline", ("TIMED_OUT", "DEADLINE_EXCEEDED")),
        (
            "Failed",
            "workflow shutdown with strategy:  Terminate",
            ("UNKNOWN", "STOPPED_EXTERNALLY"),
        ),
        ("Succeeded", "", ("UNKNOWN", "RESULT_MISSING")),
    ],
)
def test_a_workflow_that_ended_without_its_exit_handler_closes_its_run(
    made: Made, phase: str, message: str, end: tuple[str, str]
) -> None:
    here = made()
    run = here.running()
    here.clock.advance(timedelta(seconds=30))
    node = {"displayName": "reconcile", "phase": "Failed", "message": message}
    status = {
        "phase": phase,
        "finishedAt": here.clock.now().isoformat(),
        "nodes": {"n": node} if message else {},
    }
    labels = {"workflows.argoproj.io/completed": "true"}
    here.server.patch(
        NAMESPACE, run.execution_name, {"status": status, "metadata": {"labels": labels}}
    )
    assert 120 <= seconds_to_close(here, run) <= 190
    assert the_end(here, run) == ("ERRORED", *end)


@pytest.mark.case("L32")
def test_an_end_that_is_on_its_way_is_not_replaced(made: Made) -> None:
    here = made()
    run = here.running()
    here.execute(run)
    here.server.workflows.pop((NAMESPACE, run.execution_name))
    with here.runs.unit.begin(run.tenant_id, feed=8) as tx:
        tx.outbox.append(
            RunCompleted(
                run_id=run.run_id,
                job_id=run.job_id,
                tenant_id=run.tenant_id,
                attempt=1,
                workflow_name=run.execution_name,
                result=RunResult.UNMATCHED,
            )
        )
    seconds_to_close(here, run)
    closed = here.runs.now(run)
    assert (closed.status, closed.result) == (RunStatus.COMPLETED, RunResult.UNMATCHED)
    here.runs.close_ended(run)
    assert here.runs.event_names(run).count("run.finalised") == 1


@pytest.mark.case("R52")
def test_while_the_api_is_silent_no_run_is_closed(made: Made) -> None:
    here = made()
    run = here.running()
    here.server.workflows.clear()
    here.server.outages = [503] * 1000
    for _ in range(60):
        here.clock.advance(timedelta(seconds=10))
        here.runs.timing.step()
    assert here.runs.now(run).status is RunStatus.RUNNING


@pytest.mark.case("L33")
def test_a_run_past_its_deadline_is_closed_and_its_workflow_stopped(made: Made) -> None:
    here = made()
    run = here.running(deadline_seconds=60)
    here.clock.advance(timedelta(seconds=121))
    here.runs.timing.step()
    here.runs.launching.step()
    assert the_end(here, run) == ("ERRORED", "TIMED_OUT", "DEADLINE_EXCEEDED")
    assert here.shutdown(run) == "Stop"


@pytest.mark.case("R57")
def test_workflows_without_a_run_that_wants_them_are_stopped(made: Made) -> None:
    here = made()
    live, ended, unknown = here.running(), here.running(), a_run(backend=Backend.ARGO, attempt=1)
    here.finish(ended, "Failed", BY_EXIT_CODE)
    here.remote.create(unknown, lease_epoch=1)
    stranger = here.workflow(unknown) | {"metadata": {"name": "x", "labels": {}}}
    here.server.workflows[NAMESPACE, "x"] = stranger
    assert stop_orphans(here.runs.unit, here.remote) == 2
    assert [here.shutdown(run) for run in (live, ended, unknown)] == [None, "Stop", "Stop"]
    assert "shutdown" not in stranger["spec"] or stranger["spec"] is here.workflow(unknown)["spec"]


def test_a_sweep_without_an_answer_stops_nothing(made: Made) -> None:
    here = made()
    run = here.running()
    here.server.outages = [500]
    assert stop_orphans(here.runs.unit, here.remote) == 0
    assert here.shutdown(run) is None


@pytest.mark.parametrize("change", [{"lease_epoch": 2}, {"attempt": 2}], ids=str)
def test_an_execution_with_other_parameters_does_nothing(
    made: Made, change: dict[str, int]
) -> None:
    here = made()
    run = here.submitted()
    wrong = replace(here.assignment(run), **change)  # type: ignore[arg-type]  # both are numbers
    with here.runs.unit.begin(run.tenant_id) as tx:
        assert claim_run(tx, wrong, holder="pod-1") is None
        assert claim_run(tx, here.assignment(run), holder="pod-1") is not None


def test_a_second_pod_does_nothing_and_a_restarted_one_goes_on(made: Made) -> None:
    here = made()
    run = here.submitted()
    assert here.execute(run, pod="pod-1") is not None
    assert here.execute(run, pod="pod-2") is None
    assert here.finish(run, "Succeeded") == "RunCompleted"
    assert here.execute(run, pod="pod-1") is None


def test_the_exit_handler_reports_once(made: Made) -> None:
    here = made()
    run = here.submitted()
    here.execute(run)
    assert here.finish(run, "Succeeded") == "RunCompleted"
    assert here.finish(run, "Succeeded") is None
    assert here.runs.event_names(run).count("run.completed") == 1
    assert here.runs.event_names(run).count("run.finalised") == 1


def failing(name: str, code: str, detail: str, message: str) -> Script:
    node = {"name": name, "code": code, "detail_code": detail, "message": message}
    return serving(outcome="ERRORED", nodes=[node])


@pytest.mark.case("K40")
@pytest.mark.parametrize(
    ("script", "end"),
    [
        (
            failing("extract-1", "QUERY_FAILED", "COLUMN_NOT_FOUND", "source bank has no column x"),
            ("QUERY_FAILED", "COLUMN_NOT_FOUND"),
        ),
        (
            failing("comparison", "CRASHED", "OUT_OF_MEMORY", "the heap is full"),
            ("CRASHED", "OUT_OF_MEMORY"),
        ),
        (
            failing("comparison", "UNKNOWN", "OVERFLOW", "a sum is too large"),
            ("UNKNOWN", "OVERFLOW"),
        ),
    ],
)
def test_the_one_pod_reports_which_step_failed(
    made: Made, script: Script, end: tuple[str, str]
) -> None:
    here = made(script)
    run = here.running()
    assert isinstance(here.execute(run), RunErrored)
    here.finish(run, "Failed", BY_EXIT_CODE)
    assert the_end(here, run) == ("ERRORED", *end)


def test_a_child_killed_by_the_kernel_is_a_crash_though_its_pod_survived(made: Made) -> None:
    def dies(_hello: Mapping[str, object], side: ChildSide) -> int:
        side.send({"type": READY})
        side.receive()
        return -9

    here = made(dies)
    run = here.running()
    assert isinstance(here.execute(run), RunErrored)
    here.finish(run, "Failed", BY_EXIT_CODE)
    status, code, _ = the_end(here, run)
    assert (status, code) == ("ERRORED", "CRASHED")


def test_a_stopped_pod_leaves_its_run_to_the_words_of_the_workflow(made: Made) -> None:
    here = made()
    run = here.running()
    here.runs.stop.set()
    assert here.execute(run) is None
    here.finish(run, "Failed", {"displayName": "recon", "message": "Step exceeded its deadline"})
    assert the_end(here, run) == ("ERRORED", "TIMED_OUT", "DEADLINE_EXCEEDED")


def test_a_succeeded_workflow_without_a_result_is_no_success(made: Made) -> None:
    here = made()
    run = here.running()
    here.finish(run, "Succeeded")
    assert the_end(here, run) == ("ERRORED", "UNKNOWN", "RESULT_MISSING")


@pytest.mark.case("K40")
@given(job=st.uuids(), run=st.uuids(), seconds=st.integers(60, 86_400))
def test_every_workflow_has_a_name_of_59_characters_and_an_integer_deadline(
    job: UUID, run: UUID, seconds: int
) -> None:
    name = execution_name(JobId(job), RunId(run))
    a_workflow = workflow_of(
        replace(
            a_run(attempt=1),
            run_id=RunId(run),
            job_id=JobId(job),
            execution_name=name,
            deadline_seconds=seconds,
        ),
        namespace="recon",
        lease_epoch=1,
    )
    metadata, spec = a_workflow["metadata"], a_workflow["spec"]
    assert isinstance(metadata, dict)
    assert isinstance(spec, dict)
    assert len(metadata["name"]) == 59
    assert metadata["labels"][RUN_LABEL] == str(run)
    assert TENANT_LABEL in metadata["labels"]
    assert type(spec["activeDeadlineSeconds"]) is int
