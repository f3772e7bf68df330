import threading
from datetime import timedelta

import pytest

from datarecs_testing.clock import NOON, FixedIds, ManualClock
from datarecs_testing.signals import Signals

SECOND = timedelta(seconds=1)


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock()
    assert (clock.now(), clock.monotonic()) == (NOON, 0.0)
    clock.advance(3 * SECOND)
    assert (clock.now(), clock.monotonic()) == (NOON + 3 * SECOND, 3.0)


def test_a_waiting_thread_goes_on_when_its_moment_comes() -> None:
    clock, signals = ManualClock(), Signals()

    def waiter() -> None:
        signals.reached(f"woken {clock.wait(2 * SECOND)}")

    thread = threading.Thread(target=waiter)
    thread.start()
    clock.advance(SECOND)
    assert signals.count("woken False") == 0
    while thread.is_alive():
        clock.advance(SECOND)
        thread.join(0.01)
    assert signals.count("woken False") == 1


def test_a_latch_ends_a_wait_early() -> None:
    clock, latch = ManualClock(), threading.Event()
    latch.set()
    assert clock.wait(timedelta(days=1), until=latch) is True


def test_a_clock_that_moves_by_itself_never_blocks() -> None:
    clock, latch = ManualClock(by_itself=True), threading.Event()
    assert clock.wait(SECOND, until=latch) is False
    latch.set()
    assert clock.wait(SECOND, until=latch) is True
    assert clock.monotonic() == 1.0


def test_fixed_ids_are_growing_uuids_of_version_7_that_can_be_foreseen() -> None:
    ids = FixedIds()
    made = [ids.new(), ids.new(), ids.new()]
    assert made == [FixedIds.nth(number) for number in (1, 2, 3)] == sorted(made)
    assert {made_id.version for made_id in made} == {7}


def test_a_signal_that_never_comes_says_what_came_instead() -> None:
    signals = Signals()
    signals.reached("claimed")
    with pytest.raises(AssertionError, match=r"'done'.*claimed"):
        signals.wait_for("done", timeout=0.01)
