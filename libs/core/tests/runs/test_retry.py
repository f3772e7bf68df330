"""Waits between attempts and submissions, and when there is another attempt."""

from datetime import timedelta

from datarecs_core.runs.model import Backend, RunStatus
from datarecs_core.runs.retry import ATTEMPTS, SUBMISSIONS, may_try_again, overdue
from datarecs_core.runs.timers import DEFAULT_TIMING
from datarecs_testing.clock import NOON
from datarecs_testing.run_facts import the_flagged_run, the_run


def test_lost_attempts_wait_longer_up_to_two_minutes() -> None:
    waits = [ATTEMPTS.wait(number, jitter=1.0).total_seconds() for number in range(1, 7)]
    assert waits == [10, 20, 40, 80, 120, 120]
    assert ATTEMPTS.wait(1, jitter=0.5) == timedelta(seconds=5)


def test_submissions_wait_up_to_a_minute_with_full_jitter() -> None:
    assert SUBMISSIONS.wait(1, jitter=1.0) == timedelta(seconds=1)
    assert SUBMISSIONS.wait(1_000_000, jitter=1.0) == timedelta(seconds=60)
    assert SUBMISSIONS.wait(0, jitter=0.0) == timedelta()


def test_another_attempt_needs_a_number_no_flag_and_time() -> None:
    running = the_run(status=RunStatus.RUNNING)
    assert may_try_again(running, now=NOON)
    assert not may_try_again(the_flagged_run(status=RunStatus.RUNNING), now=NOON)
    assert not may_try_again(running, now=NOON + timedelta(hours=1))
    assert not may_try_again(the_run(status=RunStatus.RUNNING, attempt=3), now=NOON)
    assert may_try_again(the_run(status=RunStatus.RUNNING, attempt=3), now=NOON, free=True)


def test_a_run_without_deadline_is_never_overdue() -> None:
    assert not overdue(the_run(), now=NOON)


def test_waiting_is_shorter_under_argo() -> None:
    assert DEFAULT_TIMING.queue_ttl(Backend.QUEUE) == timedelta(days=1)
    assert DEFAULT_TIMING.queue_ttl(Backend.ARGO) == timedelta(hours=1)
