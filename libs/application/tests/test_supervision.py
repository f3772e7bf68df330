"""How an attempt ends when its processes die: before they are ready, in the middle, and idle."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from datarecs_application.child_frames import FINISHED, JAVA_ENDED, NOT_STARTED, READY
from datarecs_application.warm_child import WarmChild
from datarecs_core.errors.base import RunErrorCode
from datarecs_core.errors.process import ChildStartError
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.model import Run, RunStatus
from datarecs_core.runs.result_file import NAME
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_testing.platform import RunPlatform
from datarecs_testing.scripted_child import ChildSide, Script, ScriptedChild

ATTEMPTS = 3
LONGEST_PAUSE = timedelta(minutes=2)
"""Between two attempts."""
SIGKILL, KILLED, FULL_HEAP, BROKEN = 9, -9, 3, 70


def leave(frame: Mapping[str, object], **content: object) -> None:
    ids = {name: frame[name] for name in ("run_id", "attempt", "lease_epoch")}
    document = {"schema": 1, **ids, **content}
    (Path(str(frame["folder"])) / NAME).write_text(json.dumps(document), encoding="utf-8")


def matches(_hello: Mapping[str, object], side: ChildSide) -> int:
    """A child that serves until it is stopped."""
    side.send({"type": READY})
    while (frame := side.receive()) is not None:
        if frame.get("type") == "stop":
            return 75
        leave(frame, outcome="COMPLETED", result="MATCHED")
        side.send({"type": FINISHED})
    return 0


def dies_at_once(_hello: Mapping[str, object], _side: ChildSide) -> int:
    return 1


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., RunPlatform]:
    def make(*scripts: Script) -> RunPlatform:
        """A platform with children that follow the scripts in turn; the last one repeats."""
        left = list(scripts)

        def script(hello: Mapping[str, object], side: ChildSide) -> int:
            chosen = left.pop(0) if len(left) > 1 else left[0]
            return chosen(hello, side)

        return RunPlatform(folder=tmp_path, launcher=QueueLauncher(), script=script)

    return make


Made = Callable[..., RunPlatform]


def supervised(here: RunPlatform, *, attempts: int = 1) -> Run:
    """One run after so many turns of one slot; each turn comes when the run is due."""
    run = here.trigger()
    here.launching.step()
    slot = here.supervisor()
    for _ in range(attempts):
        assert slot.step(here.stop)
        here.clock.advance(LONGEST_PAUSE)
    here.close_ended(run)
    return here.now(run)


def the_error(run: Run) -> tuple[str, str | None]:
    assert run.error is not None
    return run.error.code.value, run.error.detail_code


def test_a_child_that_dies_once_before_it_is_ready_costs_one_attempt(made: Made) -> None:
    run = supervised(made(dies_at_once, matches), attempts=2)
    assert (run.status, run.attempt) == (RunStatus.COMPLETED, 2)


def test_a_child_that_never_becomes_ready_ends_the_run_clearly_after_its_attempts(
    made: Made,
) -> None:
    here = made(dies_at_once)
    run = supervised(here, attempts=ATTEMPTS)
    assert (run.status, run.attempt) == (RunStatus.ERRORED, ATTEMPTS)
    assert the_error(run) == ("CRASHED", "DRIVER_LOST")
    assert run.error is not None
    assert "did not start" in run.error.message
    assert "exit code 1" in run.error.message
    assert here.event_names(run).count("attempt_lost") == ATTEMPTS - 1


def test_readiness_names_why_children_do_not_start(made: Made) -> None:
    def has_no_java(_hello: Mapping[str, object], side: ChildSide) -> int:
        side.send({"type": NOT_STARTED, "cause": "DR5551 no Java\n  at a.line"})
        return 1

    here = made(has_no_java)
    slot = here.supervisor()
    assert slot.child.ready() == "the child is being started"
    for _ in range(ATTEMPTS):
        with pytest.raises(ChildStartError):
            slot.child.ready_within(60)
        here.clock.advance(LONGEST_PAUSE)
    reason = slot.child.ready()
    assert reason is not None
    assert reason.endswith("3 starts have failed; the last start failed: DR5551 no Java at a.line")


def test_readiness_names_the_exit_of_children_that_report_nothing(made: Made) -> None:
    here = made(dies_at_once, dies_at_once, matches)
    slot = here.supervisor()
    for _ in range(2):
        slot.child.warm()
        slot.child.await_end(timedelta(seconds=10))
        here.clock.advance(LONGEST_PAUSE)
    slot.child.warm()
    assert "the last start failed: it ended with exit code 1" in (slot.child.ready() or "")
    here.clock.advance(LONGEST_PAUSE)
    slot.child.ready_within(60)
    assert slot.child.ready() is None
    slot.child.end()


def test_no_credentials_are_written_before_a_child_is_ready(made: Made, tmp_path: Path) -> None:
    seen = []

    def slow(_hello: Mapping[str, object], _side: ChildSide) -> int:
        seen.append(list(tmp_path.rglob("credentials.json")))
        return 1

    supervised(made(slow), attempts=ATTEMPTS)
    assert len(seen) >= ATTEMPTS
    assert not any(seen)


def test_a_cancel_between_children_that_do_not_start_ends_the_run(made: Made) -> None:
    here = made(dies_at_once)
    run = here.trigger()
    here.launching.step()
    here.supervise()
    here.cancel(run)
    here.launching.step()
    assert here.now(run).status is RunStatus.CANCELLED


def without_java(java_exit: int, *, file: bool, then: Callable[[ChildSide], int]) -> Script:
    """A child with a Java process that ends in the middle of a run, and its end."""

    def script(_hello: Mapping[str, object], side: ChildSide) -> int:
        side.send({"type": READY})
        frame = side.receive()
        assert frame is not None
        if file:
            node = {"name": "comparison", "code": "CRASHED", "detail_code": "DRIVER_LOST"}
            nodes = [{**node, "message": "m"}]
            leave(frame, outcome="ERRORED", nodes=nodes, jvm_exit=java_exit)
            side.send({"type": FINISHED})
        else:
            side.send({"type": JAVA_ENDED, "exit": java_exit})
        return then(side)

    return script


def lives_on(side: ChildSide) -> int:
    side.receive()
    return 0


def leaves(_side: ChildSide) -> int:
    return BROKEN


def is_killed(side: ChildSide) -> int:
    side.end_by(SIGKILL)


@pytest.mark.parametrize("file", [True, False])
@pytest.mark.parametrize("then", [lives_on, leaves])
@pytest.mark.parametrize(
    ("java_exit", "detail"), [(KILLED, "DRIVER_LOST"), (FULL_HEAP, "OUT_OF_MEMORY")]
)
def test_a_dead_java_ends_with_one_error_however_the_child_reports_it(
    made: Made, java_exit: int, detail: str, then: Callable[[ChildSide], int], *, file: bool
) -> None:
    run = supervised(made(without_java(java_exit, file=file, then=then), matches))
    assert the_error(run) == ("CRASHED", detail)


@pytest.mark.parametrize("file", [True, False])
def test_a_kill_of_java_and_child_is_a_killed_child(made: Made, *, file: bool) -> None:
    """Java dies first; its end is already reported."""
    run = supervised(made(without_java(KILLED, file=file, then=is_killed), matches))
    assert the_error(run) == ("CRASHED", "KILLED")


def test_a_finished_result_is_retained_although_java_ended(made: Made) -> None:
    def completes(_hello: Mapping[str, object], side: ChildSide) -> int:
        side.send({"type": READY})
        frame = side.receive()
        assert frame is not None
        leave(frame, outcome="COMPLETED", result="MATCHED")
        side.send({"type": JAVA_ENDED, "exit": KILLED})
        return BROKEN

    assert supervised(made(completes, matches)).status is RunStatus.COMPLETED


def test_a_java_that_ended_between_two_runs_costs_the_next_run_nothing(made: Made) -> None:
    def loses_java_idle(_hello: Mapping[str, object], side: ChildSide) -> int:
        side.send({"type": READY})
        frame = side.receive()
        assert frame is not None
        leave(frame, outcome="COMPLETED", result="MATCHED")
        side.send({"type": FINISHED})
        side.send({"type": JAVA_ENDED, "exit": KILLED})
        side.receive()
        return 0

    here = made(loses_java_idle, matches)
    first, second = here.trigger(), here.trigger()
    here.launching.step()
    slot = here.supervisor()
    assert slot.step(here.stop)
    assert slot.step(here.stop)
    for run in (first, second):
        here.close_ended(run)
        assert (here.now(run).status, here.now(run).attempt) == (RunStatus.COMPLETED, 1)


class RefusedChild(ScriptedChild):
    """The machine has no room for another process."""

    def start(self, plan: bytes) -> None:
        raise ChildStartError(program="python", cause=f"no room ({len(plan)} bytes)")


def test_a_child_that_cannot_be_replaced_leaves_the_result_of_the_run_before(made: Made) -> None:
    here = made(matches)
    slot = here.supervisor()
    scripted = (ScriptedChild(matches) for _ in range(2))
    children = iter([ScriptedChild(matches), RefusedChild(matches), *scripted])
    slot.child = WarmChild(make=children.__next__, hello=b"{}", clock=here.clock, recycle_after=1)
    first, second = here.trigger(), here.trigger()
    here.launching.step()
    assert slot.step(here.stop)
    assert slot.step(here.stop)
    for run in (first, second):
        here.close_ended(run)
        assert (here.now(run).status, here.now(run).attempt) == (RunStatus.COMPLETED, 1)


def begun(act: Callable[[Mapping[str, object], ChildSide], int]) -> Script:
    """A child that acts once it has a run."""

    def script(_hello: Mapping[str, object], side: ChildSide) -> int:
        side.send({"type": READY})
        frame = side.receive()
        assert frame is not None
        return act(frame, side)

    return script


CRASHES: Mapping[str, Script] = {
    "KILLED": begun(lambda _, side: is_killed(side)),
    "TERMINATED": begun(lambda _, side: leaves(side)),
    "DRIVER_LOST": without_java(KILLED, file=False, then=lives_on),
}


@pytest.mark.case("L29")
@pytest.mark.parametrize("detail", CRASHES)
def test_each_way_to_crash_has_its_code(made: Made, detail: str) -> None:
    assert the_error(supervised(made(CRASHES[detail], matches))) == ("CRASHED", detail)


def test_a_child_above_its_memory_limit_is_out_of_memory(made: Made) -> None:
    here = made(begun(lambda _, side: lives_on(side)), matches)
    run, slot = here.trigger(), here.supervisor()
    slot.limits = replace(slot.limits, memory_bytes=0)
    here.launching.step()
    assert slot.step(here.stop)
    here.close_ended(run)
    assert the_error(here.now(run)) == ("CRASHED", "OUT_OF_MEMORY")


def test_a_child_that_shows_no_sign_of_life_is_unresponsive(made: Made) -> None:
    def is_silent(_frame: Mapping[str, object], side: ChildSide) -> int:
        for _ in range(5):  # the lease is renewed meanwhile
            here.clock.advance(timedelta(seconds=30))
            here.heartbeat.beat()
        return lives_on(side)

    here = made(begun(is_silent), matches)
    assert the_error(supervised(here)) == ("CRASHED", "UNRESPONSIVE")


def test_every_code_of_a_crash_is_raised_by_a_test_here() -> None:
    """LEASE_EXPIRED is the controller's, in `test_runs.py`."""
    raised = {*CRASHES, "OUT_OF_MEMORY", "UNRESPONSIVE", "LEASE_EXPIRED"}
    assert raised == {one.name for one in RunDetail if one.run_code is RunErrorCode.CRASHED}
