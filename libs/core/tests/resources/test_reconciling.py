"""When an object is reconciled again, and what its conditions say."""

from datetime import timedelta

import pytest

from datarecs_core.messages import MAX_MESSAGE
from datarecs_core.resources.conditions import (
    Condition,
    Truth,
    conditions_of,
    phase_of,
    status_with,
)
from datarecs_core.resources.reconciling import (
    MOST_CONFLICTS,
    MOST_RECONCILES,
    RECONCILE_AT,
    RESYNC,
    THRASH_DELAY,
    WINDOW,
    Ended,
    Pace,
    Result,
    Settled,
    Work,
    conflict,
    failed,
    is_settled,
    requeue,
    requeue_after,
    settle,
    success,
    terminal,
)
from datarecs_core.resources.resource import Kind, Resource
from datarecs_testing.builders import NOON, a_resource, an_id

SECOND = timedelta(seconds=1)
TEN_MINUTES = timedelta(minutes=10)
READY = Condition(type="Ready", status=Truth.TRUE, reason="AllResolved")


def a_job(**changes: object) -> Resource:
    return a_resource(kind=Kind.RECONCILIATION_JOB, **changes)


def work_of(resource: Resource, **changes: object) -> Work:
    return Work(uid=resource.uid, kind=resource.kind, **changes)  # type: ignore[arg-type]  # fields of the work


def settled(work: Work, job: Resource, result: Result, *, fraction: float = 0.5) -> Settled:
    return settle(work, job, result, now=NOON, pace=Pace(fraction=fraction))


@pytest.mark.case("R20")
@pytest.mark.parametrize("fraction", [0.0, 0.999])
def test_failures_wait_twice_as_long_each_time_up_to_300_seconds(fraction: float) -> None:
    job = a_job()
    work, delays = work_of(job, generation=job.generation), []
    for _ in range(12):
        work = settled(work, job, failed("no answer"), fraction=fraction).work
        assert work.due_at is not None
        delays.append(work.due_at - NOON)
    part = 0.5 + fraction / 2
    assert delays[:6] == [n * SECOND * part for n in (1, 2, 4, 8, 16, 32)]
    assert delays[-1] == 300 * SECOND * part
    assert work.attempts == 12


@pytest.mark.case("R20")
def test_an_edit_begins_to_count_failures_again() -> None:
    job = a_job(generation=2)
    work = work_of(job, generation=1, attempts=9, conflicts=4, window_start=NOON, window_count=15)
    after = settled(work, job, failed("no answer")).work
    assert (after.attempts, after.conflicts, after.window_count) == (1, 0, 1)
    assert after.due_at == NOON + 0.75 * SECOND


@pytest.mark.case("R19")
def test_a_requested_delay_is_exact() -> None:
    job = a_job()
    after = settled(work_of(job, attempts=3), job, requeue_after(TEN_MINUTES)).work
    assert (after.due_at, after.attempts) == (NOON + TEN_MINUTES, 0)


def test_a_success_is_repeated_at_a_time_of_each_object() -> None:
    dues = set()
    for _ in range(50):
        job = a_job(uid=an_id())
        first, second = (settled(work_of(job), job, success()).work.due_at for _ in range(2))
        assert first is not None
        assert first == second
        assert 0.9 * RESYNC <= first - NOON <= 1.1 * RESYNC
        dues.add(first)
    assert len(dues) > 1


def test_what_is_not_done_is_repeated_as_after_a_failure() -> None:
    job = a_job()
    after = settled(work_of(job, generation=job.generation, attempts=2), job, requeue()).work
    assert (after.due_at, after.attempts) == (NOON + 3 * SECOND, 3)


def test_six_conflicts_in_a_row_are_an_error() -> None:
    job = a_job()
    work, ends = work_of(job, generation=job.generation), []
    for _ in range(MOST_CONFLICTS + 1):
        made = settled(work, job, conflict())
        work = made.work
        ends.append(made.ended)
    assert ends == [Ended.CONFLICT] * MOST_CONFLICTS + [Ended.ERROR]
    assert (work.attempts, work.conflicts) == (1, 0)


@pytest.mark.case("R21")
def test_a_terminal_error_stands_until_an_edit_or_a_request() -> None:
    job = a_job()
    after = settled(work_of(job), job, terminal("the password is wrong")).work
    assert (after.due_at, after.is_terminal) == (None, True)
    assert is_settled(after, job)
    assert not is_settled(after, a_job(generation=job.generation + 1))
    assert not is_settled(after, a_job(annotations={RECONCILE_AT: "2026-01-15"}))
    assert is_settled(after, a_job(labels={"team": "finance"}))


@pytest.mark.case("R23")
def test_an_object_that_is_due_all_the_time_waits_300_seconds() -> None:
    job = a_job()
    work, thrashing = work_of(job, generation=job.generation), []
    for _ in range(MOST_RECONCILES + 1):
        made = settled(work, job, requeue_after(timedelta()))
        work = made.work
        thrashing.append(made.is_thrashing)
    assert thrashing == [False] * MOST_RECONCILES + [True]
    assert work.due_at == NOON + THRASH_DELAY
    later = settle(work, job, success(), now=NOON + WINDOW, pace=Pace(fraction=0.5))
    assert (later.is_thrashing, later.work.window_count) == (False, 1)


def test_the_time_of_a_condition_moves_only_when_its_status_flips() -> None:
    first = status_with({}, [READY], details={}, generation=1, now=NOON)
    other = Condition(type="Ready", status=Truth.TRUE, reason="Other")
    second = status_with(first, [other], details={}, generation=2, now=NOON + SECOND)
    flipped = Condition(type="Ready", status=Truth.FALSE, reason="Missing", message="apply it")
    third = status_with(second, [flipped], details={"x": 1}, generation=2, now=NOON + SECOND)
    times = [_only(status)["last_transition_time"] for status in (first, second, third)]
    assert times == [
        "2026-01-15T12:00:00.000000Z",
        "2026-01-15T12:00:00.000000Z",
        "2026-01-15T12:00:01.000000Z",
    ]
    assert _only(second)["observed_generation"] == 2
    assert conditions_of(third) == {"Ready": flipped}
    assert third["x"] == 1


def test_an_equal_report_is_an_equal_status() -> None:
    first = status_with({}, [READY], details={"x": 1}, generation=1, now=NOON)
    again = status_with(first, [READY], details={"x": 1}, generation=1, now=NOON + SECOND)
    assert again == first


def test_a_long_message_is_cut_at_a_whole_character() -> None:
    long = Condition(type="Ready", status=Truth.FALSE, reason="Missing", message="ä" * 2000)
    status = status_with({}, [long], details={}, generation=1, now=NOON)
    message = str(_only(status)["message"])
    assert MAX_MESSAGE - 4 < len(message.encode()) <= MAX_MESSAGE
    assert message.endswith("ä …")


def test_conditions_of_another_form_are_left_out() -> None:
    assert conditions_of({"conditions": "x"}) == {}
    assert conditions_of({"conditions": ["x", {"type": "Ready", "status": "maybe"}]}) == {}


@pytest.mark.parametrize(
    ("conditions", "changes", "phase"),
    [
        ({}, {}, "Pending"),
        ({"Ready": "True"}, {}, "Ready"),
        ({"Ready": "False"}, {}, "Pending"),
        ({"Ready": "False", "Valid": "False"}, {}, "Invalid"),
        ({"Ready": "True", "Paused": "True"}, {}, "Paused"),
        ({"Ready": "True"}, {"generation": 2}, "Pending"),
        ({"Ready": "True"}, {"deletion_at": NOON}, "Deleting"),
    ],
)
def test_a_phase_is_made_from_conditions(
    conditions: dict[str, str], changes: dict[str, object], phase: str
) -> None:
    written = [
        Condition(type=name, status=Truth(status), reason="X")
        for name, status in conditions.items()
    ]
    status = status_with({}, written, details={}, generation=1, now=NOON)
    job = a_job(**{"generation": 1, "observed_generation": 1, "status": status, **changes})
    assert phase_of(job) == phase


def test_other_kinds_have_no_phase() -> None:
    assert phase_of(a_resource(kind=Kind.SCHEDULE)) is None


def _only(status: object) -> dict[str, object]:
    (one,) = status["conditions"]  # type: ignore[index]  # a status
    assert isinstance(one, dict)
    return one
