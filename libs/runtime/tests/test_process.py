import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.outside import Wake
from datarecs_core.errors.process import SettingsError
from datarecs_runtime.clock import Latch
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.process import Process, ProcessExit


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@dataclass
class ALoop:
    name: str
    work: Callable[[Wake], None]
    ended: bool = field(default=False)

    def run(self, stop: Wake) -> None:
        self.work(stop)
        self.ended = True


def until_stopped(stop: Wake) -> None:
    assert stop.wait(10)


def request_end(stop: Wake) -> None:
    terminate()
    until_stopped(stop)


def failing(_stop: Wake) -> None:
    raise ValueError("poisoned")


def test_sigterm_ends_every_loop_and_then_closes_in_order() -> None:
    loops = ALoop("relay", until_stopped), ALoop("consumer", request_end)
    closed: list[str] = []

    def close(name: str) -> Callable[[], None]:
        return lambda: closed.append(f"{name} {loops[0].ended and loops[1].ended}")

    process = Process(name="x", loops=loops, closing=(close("log"), close("database")))
    assert process.run() == ProcessExit.DRAINED
    assert closed == ["log True", "database True"]


def test_sigint_drains_as_well() -> None:
    def interrupt(stop: Wake) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        until_stopped(stop)

    assert Process(name="x", loops=(ALoop("one", interrupt),)).run() == 0


def test_a_loop_that_waits_on_its_wake_up_is_woken_to_end() -> None:
    wake = Latch()
    loops = ALoop("one", lambda _stop: until_stopped(wake)), ALoop("two", request_end)
    assert Process(name="x", loops=loops, wakes=(wake,)).run() == 0


@pytest.mark.parametrize("work", [failing, lambda _stop: None], ids=["raises", "returns"])
def test_a_loop_that_ends_by_itself_ends_the_whole_process_with_an_error(
    work: Callable[[Wake], None],
) -> None:
    other = ALoop("other", until_stopped)
    assert Process(name="x", loops=(ALoop("one", work), other)).run() == ProcessExit.LOOP_DIED
    assert other.ended


def test_a_loop_that_fails_while_draining_is_reported_by_the_exit_code() -> None:
    def failing_late(stop: Wake) -> None:
        request_end(stop)
        raise ValueError("could not give back")

    assert Process(name="x", loops=(ALoop("one", failing_late),)).run() == ProcessExit.LOOP_DIED


def test_a_loop_that_does_not_end_within_the_grace_is_left_behind() -> None:
    held = threading.Event()

    def stubborn(_stop: Wake) -> None:
        terminate()
        held.wait(10)

    process = Process(name="x", loops=(ALoop("one", stubborn),), grace=timedelta(milliseconds=20))
    assert process.run() == ProcessExit.DRAIN_OVERDUE
    held.set()


def test_a_second_signal_ends_the_waiting() -> None:
    held = threading.Event()

    def stubborn(stop: Wake) -> None:
        request_end(stop)
        terminate()
        held.wait(10)

    process = Process(name="x", loops=(ALoop("one", stubborn),), grace=timedelta(days=1))
    assert process.run() == ProcessExit.DRAIN_OVERDUE
    held.set()


def test_one_resource_that_fails_to_close_does_not_leave_the_next_open() -> None:
    closed: list[str] = []

    def refuse() -> None:
        raise OSError("already gone")

    Process(
        name="x",
        loops=(ALoop("one", request_end),),
        closing=(refuse, lambda: closed.append("next")),
    ).run()
    assert closed == ["next"]


def test_the_handlers_of_before_stand_again_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    Process(name="x", loops=(ALoop("one", request_end),)).run()
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_metric_says_which_loops_live() -> None:
    metrics, seen = PrometheusMetrics(), list[str]()

    def observe(stop: Wake) -> None:
        seen.append(metrics.exposition().decode())
        request_end(stop)

    Process(name="x", loops=(ALoop("one", observe),), metrics=metrics).run()
    assert 'datarecs_loop_alive{loop="one"} 1.0' in seen[0]
    assert 'datarecs_loop_alive{loop="one"} 0.0' in metrics.exposition().decode()


def test_a_loop_that_lives_is_shown_until_it_ends() -> None:
    metrics = PrometheusMetrics()
    seen: list[str] = []

    def observe(stop: Wake) -> None:
        seen.append(metrics.exposition().decode())
        request_end(stop)

    Process(name="x", loops=(ALoop("one", observe),), metrics=metrics).run()
    assert 'datarecs_loop_alive{loop="one"} 1.0' in seen[0]
    assert 'datarecs_loop_alive{loop="one"} 0.0' in metrics.exposition().decode()


def test_loops_start_once_the_start_checks_pass() -> None:
    events: list[str] = []

    def unreachable_at_first() -> None:
        events.append("check")
        if len(events) == 1:
            raise StoreUnavailableError(cause="connection refused")

    def work(stop: Wake) -> None:
        events.append("loop")
        request_end(stop)

    process = Process(name="x", loops=(ALoop("one", work),), start_checks=(unreachable_at_first,))
    assert process.run() == ProcessExit.DRAINED
    assert events == ["check", "check", "loop"]


def test_a_start_check_that_no_wait_can_mend_ends_the_process() -> None:
    closed: list[str] = []

    def refuse() -> None:
        raise SettingsError(("DATARECS_X: wrong",))

    loop = ALoop("one", failing)
    process = Process(
        name="x", loops=(loop,), start_checks=(refuse,), closing=(lambda: closed.append("x"),)
    )
    assert process.run() == ProcessExit.LOOP_DIED
    assert (loop.ended, closed) == (False, ["x"])


def test_a_stop_request_ends_the_wait_for_a_server() -> None:
    def unreachable() -> None:
        terminate()
        raise StoreUnavailableError(cause="connection refused")

    loop = ALoop("one", failing)
    process = Process(name="x", loops=(loop,), start_checks=(unreachable,))
    assert process.run() == ProcessExit.DRAINED
    assert not loop.ended
