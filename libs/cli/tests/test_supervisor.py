import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from datarecs_cli.stack.failures import CrashLoopError, PartNotReadyError
from datarecs_cli.stack.part import Part, tail
from datarecs_cli.stack.process import Command, Identity
from datarecs_cli.stack.restarts import Restart, RestartPolicy
from datarecs_cli.stack.stop_signals import StopSignals
from datarecs_cli.stack.supervisor import Supervisor

FAST = RestartPolicy(first_s=0.01, longest_s=0.05)
SERVES = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done"


class Place:
    """Makes parts out of shell lines; a part is ready when its log says `up`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.started: list[dict[str, Identity]] = []
        self.restarts: list[Restart] = []
        self.supervisor = Supervisor(
            changed=lambda parts: self.started.append(dict(parts)),
            restarting=self.restarts.append,
            policy=FAST,
        )

    def log(self, name: str) -> Path:
        return self.root / f"{name}.log"

    def said(self, name: str) -> str:
        return self.log(name).read_text() if self.log(name).exists() else ""

    def part(
        self,
        name: str,
        line: str = SERVES,
        *,
        ready_limit_s: float = 10,
        stop_limit_s: float = 10,
    ) -> Part:
        return Part(
            name=name,
            command=Command(
                argv=("/bin/sh", "-c", line),
                environment={"PATH": "/bin:/usr/bin"},
                log=self.log(name),
            ),
            probe=lambda: None if "up" in self.said(name) else "has not said up",
            ready_limit_s=ready_limit_s,
            stop_signal=signal.SIGTERM,
            stop_limit_s=stop_limit_s,
        )

    def watch_while(self, act: Callable[[], None]) -> None:
        """Watch, on this thread as always, while `act` runs on another."""
        failures: list[BaseException] = []

        def acting() -> None:
            try:
                act()
            except BaseException as failure:  # noqa: BLE001  raised again below
                failures.append(failure)
            finally:
                self.supervisor.request_stop()

        actor = threading.Thread(target=acting)
        actor.start()
        self.supervisor.watch()
        actor.join()
        if failures:
            raise failures[0]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.supervisor.stop()


def test_groups_stop_in_reverse_order_and_everybody_is_gone(place: Place) -> None:
    order = place.root / "order"
    for name in ("database", "broker", "service"):
        line = f"trap 'echo {name} >> {order}; exit 0' TERM; echo up; while :; do sleep 0.02; done"
        place.supervisor.start([place.part(name, line)])
        place.supervisor.until_ready()
    identities = place.supervisor.running()
    assert list(identities) == ["database", "broker", "service"]
    assert place.supervisor.stop() == ()
    assert order.read_text().split() == ["service", "broker", "database"]
    assert not any(one.is_alive() for one in identities.values())


def test_a_part_may_join_a_group_and_nobody_need_wait_for_the_slow_one(place: Place) -> None:
    place.supervisor.start([place.part("slow", "sleep 0.3; echo up; sleep 60")])
    place.supervisor.start([place.part("quick")], beside=True)
    place.supervisor.until_ready("quick")
    assert place.said("slow") == ""
    place.supervisor.until_ready()
    assert "up" in place.said("slow")
    assert place.supervisor.stop() == ()


@pytest.mark.case("K18")
def test_a_killed_part_is_started_again_and_written_down(place: Place) -> None:
    place.supervisor.start([place.part("broker")])
    place.supervisor.until_ready()
    first = place.supervisor.running()["broker"]

    def kill_and_wait() -> None:
        import os

        os.kill(first.pid, signal.SIGKILL)
        patience = threading.Event()
        for _ in range(200):
            if place.said("broker").count("up") == 2:
                return
            patience.wait(0.05)
        raise AssertionError("it did not come back")

    place.watch_while(kill_and_wait)
    assert place.started[-1]["broker"] != first
    (restart,) = place.restarts
    assert restart.words == "broker ended with signal 9; restart 1 in 0.01 s"


@pytest.mark.case("K19")
@pytest.mark.case("K50")
def test_a_part_that_exits_at_start_is_tried_five_times(place: Place) -> None:
    place.supervisor.start([place.part("database")])
    place.supervisor.until_ready()
    place.supervisor.start([place.part("service", "echo cannot find the key; exit 7")])
    with pytest.raises(CrashLoopError) as stopped:
        place.supervisor.until_ready()
    assert (stopped.value.part, stopped.value.died_with) == ("service", 7)
    assert stopped.value.log_tail == "cannot find the key\n" * 5
    assert place.supervisor.stop() == ()
    assert "bye" in place.said("database")


@pytest.mark.case("K50")
def test_a_part_that_never_answers_is_reported_with_its_reason(place: Place) -> None:
    place.supervisor.start([place.part("broker", "echo thinking; sleep 60", ready_limit_s=0.3)])
    with pytest.raises(PartNotReadyError) as late:
        place.supervisor.until_ready()
    assert late.value.reason == "has not said up"
    assert late.value.log_tail == "thinking\n"
    assert str(late.value).endswith(f"; {place.log('broker')}: \nthinking")
    assert "--ready-timeout" in late.value.code.entry.remedy


def test_a_part_that_never_answers_and_writes_nothing_is_reported_with_its_log(
    place: Place,
) -> None:
    place.supervisor.start([place.part("broker", "sleep 60", ready_limit_s=0.3)])
    with pytest.raises(PartNotReadyError, match=r"broker\S*: no line since its start$"):
        place.supervisor.until_ready()


def test_a_start_is_postponed_until_the_part_may_start(place: Place) -> None:
    answers = iter([False, True])
    postponed = replace(place.part("service"), may_start=lambda: next(answers))
    place.supervisor.start([postponed])
    assert place.supervisor.running() == {}
    place.supervisor.until_ready()
    assert list(place.supervisor.running()) == ["service"]


def test_what_does_not_stop_in_time_is_killed_and_named(place: Place) -> None:
    stubborn = "trap '' TERM; echo up; while :; do sleep 0.02; done"
    place.supervisor.start(
        [place.part("stubborn", stubborn, stop_limit_s=0.2), place.part("polite")]
    )
    place.supervisor.until_ready()
    identities = place.supervisor.running()
    assert place.supervisor.stop() == ("stubborn",)
    assert not any(one.is_alive() for one in identities.values())


def test_a_stop_during_the_start_up_ends_the_waiting(place: Place) -> None:
    place.supervisor.start([place.part("slow", "sleep 60")])
    place.supervisor.request_stop()
    with pytest.raises(KeyboardInterrupt):
        place.supervisor.until_ready()


@pytest.fixture
def restored_signals() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("restored_signals")
def test_ctrl_c_ends_the_watch_also_when_a_library_swallows_its_exception(place: Place) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signals = StopSignals(place.supervisor)
    place.supervisor.start([place.part("database")])
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    place.supervisor.watch()
    signal.raise_signal(signal.SIGTERM)
    assert signals.first is signal.SIGINT


@pytest.mark.usefixtures("restored_signals")
def test_an_ignored_ctrl_c_stays_ignored(place: Place) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signals = StopSignals(place.supervisor)
    signal.raise_signal(signal.SIGINT)
    assert signals.first is None


def test_stopping_twice_is_stopping_once(place: Place) -> None:
    place.supervisor.start([place.part("database")])
    place.supervisor.stop()
    assert place.supervisor.stop() == ()


def test_a_part_that_logs_on_is_waited_for_beyond_its_limit(place: Place) -> None:
    slow = "for step in 1 2 3 4 5; do echo step $step; sleep 0.2; done; echo up; sleep 60"
    place.supervisor.start([place.part("busy", slow, ready_limit_s=0.5)])
    place.supervisor.until_ready()
    assert "step 5" in place.said("busy")


def test_a_part_whose_answer_changes_is_waited_for_beyond_its_limit(place: Place) -> None:
    reasons = iter([*(f"{left} tasks are left" for left in range(20, 0, -1)), None])
    silent = replace(place.part("busy", "sleep 60", ready_limit_s=0.3), probe=lambda: next(reasons))
    place.supervisor.start([silent])
    place.supervisor.until_ready()


def test_a_part_that_logs_for_ever_is_late_in_the_end(place: Place) -> None:
    endless = "while :; do echo waiting; sleep 0.02; done"
    place.supervisor.start([place.part("stuck", endless, ready_limit_s=0.1)])
    with pytest.raises(PartNotReadyError, match="has not said up"):
        place.supervisor.until_ready()


def test_the_log_tail_of_a_failure_is_of_this_start_alone(place: Place) -> None:
    place.log("broker").write_text("a fault of yesterday\n")
    place.supervisor.start([place.part("broker", "echo thinking; sleep 60", ready_limit_s=0.3)])
    with pytest.raises(PartNotReadyError) as late:
        place.supervisor.until_ready()
    assert late.value.log_tail == "thinking\n"


def test_the_log_tail_of_a_part_that_dies_repeatedly_is_of_this_start_alone(place: Place) -> None:
    place.log("service").write_text("a fault of yesterday\n")
    place.supervisor.start([place.part("service", "echo no key; exit 7")])
    with pytest.raises(CrashLoopError) as stopped:
        place.supervisor.until_ready()
    assert "yesterday" not in stopped.value.log_tail
    assert [one.number for one in place.restarts] == [1, 2, 3, 4]
    assert {one.exit_code for one in place.restarts} == {7}


def test_of_a_log_that_was_cut_meanwhile_the_rest_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    log.write_text("new\n")
    assert tail(log, since=1000) == "new\n"
