"""Kill at every named place, at its first and its second hit: nothing is lost, nothing doubled.

A case kills every process that passes its place, each once, and then settles the ledger over
everything that ever happened on the platform. `make crash` runs all cases, `make test` a sample;
`DATARECS_TEST_CRASH` says which: `all`, or the seed of the sample.
"""

import random
import signal
from functools import partial

import pytest

from datarecs_core.crashing import CrashPoint
from datarecs_core.resources.resource import Kind
from datarecs_runtime.environment import process_environment
from datarecs_testing.crashes import waits
from datarecs_testing.crashes.child import HELD, PROCESS
from datarecs_testing.crashes.furnishing import job_over
from datarecs_testing.crashes.house import COMPLETED, STOPPED, House
from datarecs_testing.crashes.killing import EXIT
from datarecs_testing.crashes.processes import API, CONTROLLER, GROUPS, MAIL, WEBHOOK, WORKER

pytestmark = [pytest.mark.integration, pytest.mark.crash, pytest.mark.slow]

PLATFORM = "datarecs.run.platform"
"""Read by every group, so that one bad record is set aside by each."""
PLACES = {
    "trigger": (API,),
    "cancel": (API,),
    "submit": (CONTROLLER,),
    "consume": tuple(GROUPS),
    "timer": (CONTROLLER,),
    "relay": (CONTROLLER,),
    "lease": (WORKER,),
    "child": (WORKER,),
    "extract": (PROCESS,),
    "compare": (PROCESS,),
    "result": (PROCESS,),
    "finish": (WORKER,),
    "dlq": tuple(GROUPS),
    "deliver": (MAIL, WEBHOOK),
}
"""First word of a place -> the processes that pass it."""
ELSEWHERE = ("fire", "reconcile", "capture")
"""Places in `test_resource_controller` and `test_capture_worker`."""
ALWAYS = (
    (CrashPoint.CONSUME_IN_TX, 1),
    (CrashPoint.RELAY_AFTER_ACK, 1),
    (CrashPoint.SUBMIT_AFTER_INTENT, 1),
    (CrashPoint.SUBMIT_AFTER_CALL, 1),
)
"""What acceptance cases name."""
PHASES = (
    (CrashPoint.EXTRACT_MID, CrashPoint.LEASE_AFTER_COMMIT),
    (CrashPoint.COMPARE_MID, CrashPoint.CHILD_STARTED),
    (CrashPoint.RESULT_BEFORE_RENAME, CrashPoint.FINISH_IN_TX),
    (CrashPoint.RESULT_AFTER_RENAME, CrashPoint.FINISH_AFTER_COMMIT),
)
"""Where the child dies while a run is worked on, and where its supervisor does."""
SAMPLE = 3
POINTS = [point for point in CrashPoint if point.partition(".")[0] not in ELSEWHERE]
CASES = [(point, hit) for point in POINTS for hit in (1, 2)]


def chosen(wanted: str) -> list[tuple[CrashPoint, int]]:
    """All cases, or as many as `make test` has time for; one seed means the same cases for ever."""
    if wanted == "all":
        return CASES
    others = [case for case in CASES if case not in ALWAYS]
    return [*ALWAYS, *random.Random(wanted).sample(others, SAMPLE)]  # noqa: S311  no secret


def processes(point: CrashPoint) -> tuple[str, ...]:
    return PLACES[point.partition(".")[0]]


def provoked(house: House, point: CrashPoint) -> list[str]:
    """Make it happen that the place is passed at least twice; the runs that came of it."""
    match point.partition(".")[0]:
        case "cancel":
            runs = [house.trigger(HELD, ends=STOPPED) for _ in range(2)]
        case "timer":
            runs = [house.trigger(HELD, ends=STOPPED) for _ in range(2)]
            house.until(lambda: set(house.statuses(runs)) == {"RUNNING", "QUEUED"})
            waits.make_timers_due(house.database, "observe", "queue_wait")
            house.until(lambda: timers_are_over(house))
        case "dlq":
            for _ in range(2):
                house.poison(PLATFORM)
                house.settle()
            return []
        case "extract" | "compare" | "result":
            return [house.trigger(ends=COMPLETED | {"ERRORED"}) for _ in range(3)]
        case _:
            return [house.trigger() for _ in range(3)]
    for run in runs:
        house.cancel(run)
    return runs


def timers_are_over(house: House) -> bool:
    waits.end_pauses(house.database)
    return not house.database.query("SELECT 1 FROM datarecs.run_timer WHERE due_at <= now()")


def settled(house: House) -> tuple[str, ...]:
    """Faults of the ledger over everything so far; only one test reports each."""
    faults = house.settle().faults
    news = tuple(one for one in faults if one not in house.reported_faults)
    house.reported_faults.update(news)
    return news


@pytest.mark.case("L46")
def test_every_place_is_passed(house: House) -> None:
    """A name that no code passes any more would be a case that shows nothing."""
    for point in (CrashPoint.CONSUME_IN_TX, CrashPoint.TIMER_IN_TX, CrashPoint.DLQ_AFTER_SEND):
        provoked(house, point)
    assert settled(house) == ()
    expected = {(process, point) for point in POINTS for process in processes(point)}
    assert house.orders.passed() == expected


@pytest.mark.case("L09", "L10", "L28", "L46", "R37", "X78")
@pytest.mark.parametrize(
    ("point", "hit"), chosen(process_environment().get("DATARECS_TEST_CRASH", "1")), ids=str
)
def test_whoever_dies_there_each_run_ends_once_and_is_reported_once(
    house: House, point: CrashPoint, hit: int
) -> None:
    before = len(house.deaths)
    orders = [house.orders.place(process, point, hit=hit) for process in processes(point)]
    runs = provoked(house, point)
    house.settle()
    house.until(lambda: all(map(house.orders.obeyed, orders)), patience_s=30)
    if processes(point) != (PROCESS,):
        house.until(lambda: len(house.deaths) >= before + len(orders), patience_s=30)
        died = sorted((one.process, one.exit_code) for one in house.deaths[before:])
        assert died == sorted((process, EXIT) for process in processes(point))
    assert settled(house) == ()
    if processes(point) == (PROCESS,):
        broken = [run for run in runs if house.outcome(run)[0] == "ERRORED"]
        assert len(broken) == (point is not CrashPoint.RESULT_AFTER_RENAME)
        assert all(house.outcome(run)[1] == "CRASHED" for run in broken)


@pytest.mark.case("L30")
@pytest.mark.case("Q29")
def test_a_run_whose_worker_is_killed_in_three_attempts_ends_crashed(house: House) -> None:
    run = house.trigger(ends=frozenset({"ERRORED"}))
    for _ in range(3):
        order = house.orders.place(WORKER, CrashPoint.CHILD_STARTED, hit=1)
        house.until(partial(ended, house, order))
    assert settled(house) == ()
    assert house.outcome(run) == ("ERRORED", "CRASHED", "LEASE_EXPIRED")
    ends = house.database.query(
        "SELECT count(*) FROM datarecs.outbox WHERE partition_key = %s AND type LIKE %s",
        (run, "%run.errored"),
    )
    assert ends == [(0,)]


@pytest.mark.case("P59")
def test_child_and_supervisor_killed_in_every_phase_leave_the_proof_of_an_undisturbed_run(
    house: House,
) -> None:
    """Nothing of an attempt that died is read: one partial extract would change the counts."""
    patient = {"attempts": 10, "retry_on": ["CRASHED"]}
    house.declare(Kind.RECONCILIATION_JOB, "patient", job_over(("a", "b", "c"), execution=patient))
    runs = [house.trigger("patient")]
    for phase in PHASES:
        orders = [
            house.orders.place(process, point, hit=1)
            for process, point in zip((PROCESS, WORKER), phase, strict=True)
        ]
        runs.append(house.trigger("patient"))
        for order in orders:
            house.until(partial(ended, house, order))
    assert settled(house) == ()
    assert set(house.statuses(runs)) == {"COMPLETED"}
    assert len({house.proof(run) for run in runs}) == 1


def ended(house: House, order: str) -> bool:
    waits.end_pauses(house.database)
    return house.orders.obeyed(order)


@pytest.mark.case("L10")
def test_a_relay_that_was_paused_and_replaced_repeats_ids_at_most(house: House) -> None:
    first = house.pid(CONTROLLER)
    house.start_second_controller()
    house.send(CONTROLLER, signal.SIGSTOP)
    waits.end_leases(house.database, first)
    runs = [house.trigger() for _ in range(10)]
    house.until(lambda: not house.observer.waiting().get("outbox"))
    house.send(CONTROLLER, signal.SIGCONT)
    assert settled(house) == ()
    assert house.statuses(runs) == ["COMPLETED"] * 10
    house.end_second_controller()
