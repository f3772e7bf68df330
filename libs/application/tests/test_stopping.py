"""A stop reaches every reader: by a check between batches, or by a registered action."""

from threading import Event

import pytest

from datarecs_application.stopping import StoppedError, Stopping


def test_a_stop_starts_the_acts_of_everybody_who_waits() -> None:
    stop, acts = Stopping(), [Event(), Event()]
    with stop.interrupting(acts[0].set), stop.interrupting(acts[1].set):
        stop.set()
        assert all(act.wait(5) for act in acts)


def test_who_begins_to_wait_after_the_stop_is_interrupted_as_well() -> None:
    stop, act = Stopping(), Event()
    stop.set()
    with stop.interrupting(act.set):
        assert act.wait(5)


def test_work_that_has_ended_is_not_interrupted() -> None:
    stop, act, other = Stopping(), Event(), Event()
    with stop.interrupting(act.set):
        pass
    with stop.interrupting(other.set):
        stop.set()
        assert other.wait(5)
    assert not act.is_set()


def test_one_act_that_takes_long_delays_no_other() -> None:
    stop, held, act = Stopping(), Event(), Event()
    with stop.interrupting(held.wait), stop.interrupting(act.set):
        stop.set()
        assert act.wait(5)
    held.set()


def test_a_check_between_two_batches_raises_once_it_is_set() -> None:
    stop = Stopping()
    stop.check()
    stop.set()
    with pytest.raises(StoppedError, match="stopped on request"):
        stop.check()
