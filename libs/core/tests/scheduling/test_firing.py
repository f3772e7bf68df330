"""Which times of a schedule start, what becomes of the others, and when the next one is due."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import process_time
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.scheduling.firing import MOST_STEPS, Due, Firing, fire, jitter_of
from datarecs_core.scheduling.schedule import Catchup, ConcurrencyPolicy, Schedule, TickOutcome
from datarecs_specs.cron_times import CronTimes

TIMES = CronTimes()
UID = UUID(int=7)
CREATED = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=one) for one in (1, 60, 3_600, 86_400))
FIRED, SKIPPED, SUSPENDED = (
    TickOutcome.FIRED,
    TickOutcome.SKIPPED_OVERLAP,
    TickOutcome.SUSPENDED,
)
LATE, PAST_DEADLINE = TickOutcome.MISSED_CATCHUP, TickOutcome.MISSED_DEADLINE
ALLOW, REPLACE = ConcurrencyPolicy.ALLOW, ConcurrencyPolicy.REPLACE


def at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2026, 5, 5, hour, minute, second, tzinfo=UTC)


def a_due(last: datetime, **spec: Any) -> Due:  # noqa: ANN401  fields of Schedule, each with its type
    return Due(
        uid=UID,
        schedule=Schedule(job="j", **{"cron": "0 * * * *", **spec}),
        created_at=CREATED,
        last_fire_time=last,
        active_runs=0,
        was_suspended=False,
    )


def decide(due: Due, now: datetime) -> Firing:
    return fire(due, TIMES, now=now)


def started(firing: Firing) -> list[datetime]:
    return list(firing.starts)


def outcomes(firing: Firing) -> list[tuple[TickOutcome, datetime, int]]:
    return [(tick.outcome, tick.fire_time, tick.missed) for tick in firing.ticks]


def test_a_time_starts_and_the_next_one_is_due() -> None:
    firing = decide(a_due(at(9)), at(10, 1))
    assert started(firing) == [at(10)]
    assert outcomes(firing) == [(FIRED, at(10), 0)]
    assert firing.ticks[0].reason is None
    assert firing.last_fire_time == at(10)
    assert firing.next_start == at(11)


def test_nothing_is_decided_before_a_time() -> None:
    firing = decide(a_due(at(9)), at(9, 59))
    assert firing == Firing(starts=(), ticks=(), last_fire_time=at(9), next_start=at(10))


@pytest.mark.case("R41")
@pytest.mark.parametrize(
    ("catchup", "expected"),
    [
        (Catchup.NONE, []),
        (Catchup.LATEST, [at(12)]),
        (Catchup.ALL, [at(10), at(11), at(12)]),
    ],
)
def test_three_hours_without_a_process(catchup: Catchup, expected: list[datetime]) -> None:
    due = a_due(at(9), catchup=catchup, concurrency_policy=ALLOW)
    firing = decide(due, at(12, 30))
    assert started(firing) == expected
    missed = [tick for tick in firing.ticks if tick.outcome is LATE]
    assert sum(tick.missed for tick in missed) == 3 - len(expected)
    assert all("was away or busy" in str(tick.reason) for tick in missed)
    assert firing.next_start == at(13)


@pytest.mark.case("R41")
def test_a_time_past_its_deadline_never_starts() -> None:
    due = a_due(at(9), starting_deadline=10 * MINUTE)
    firing = decide(due, at(12, 30))
    assert outcomes(firing) == [(PAST_DEADLINE, at(12), 3)]
    assert firing.ticks[0].first_fire_time == at(10)
    assert "PT10M" in str(firing.ticks[0].reason)
    assert started(decide(due, at(12, 9))) == [at(12)]


def test_a_deadline_below_a_minute_holds_for_times_on_time() -> None:
    due = a_due(at(9), starting_deadline=20 * SECOND)
    assert outcomes(decide(due, at(10, 0, 21))) == [(PAST_DEADLINE, at(10), 1)]
    assert started(decide(due, at(10, 0, 20))) == [at(10)]


def test_the_newest_late_time_yields_to_one_on_time() -> None:
    firing = decide(a_due(at(9)), at(12, 0, 5))
    assert started(firing) == [at(12)]
    assert outcomes(firing) == [(LATE, at(11), 2), (FIRED, at(12), 0)]
    assert firing.ticks[0].first_fire_time == at(10)


def test_times_on_time_count_among_those_that_catch_up() -> None:
    due = a_due(at(5), catchup=Catchup.ALL, max_catchup=3, concurrency_policy=ALLOW)
    firing = decide(due, at(12))
    assert started(firing) == [at(10), at(11), at(12)]
    assert firing.ticks[0].missed == 4


@pytest.mark.case("R42")
@pytest.mark.parametrize("window", [DAY, 7 * DAY])
def test_a_month_of_minutes_is_one_short_decision(window: timedelta) -> None:
    due = a_due(
        at(12) - 30 * DAY,
        cron="* * * * *",
        timezone="Europe/Berlin",
        catchup=Catchup.ALL,
        catchup_window=window,
        concurrency_policy=ALLOW,
    )
    begun = process_time()
    firing = decide(due, at(12, 0, 30))
    took = process_time() - begun
    assert started(firing) == [at(12) - number * MINUTE for number in (4, 3, 2, 1, 0)]
    [missed] = [tick for tick in firing.ticks if tick.outcome is not FIRED]
    assert missed.outcome is LATE
    assert missed.fire_time == at(11, 55)
    assert missed.first_fire_time == at(12) - 30 * DAY + MINUTE
    assert missed.missed == window // MINUTE - 5 + 1
    assert "at least" in str(missed.reason)
    assert took < 0.1 * (window / DAY)
    assert firing.next_start == at(12, 1)


def test_times_before_the_window_are_reported_once() -> None:
    """A daily schedule and a window of an hour: what was missed in three days is one tick."""
    due = a_due(at(6) - 3 * DAY, cron="0 6 * * *", catchup_window=HOUR)
    firing = decide(due, at(12))
    assert outcomes(firing) == [(LATE, at(6) - 2 * DAY, 1)]
    assert "all up to 2026" in str(firing.ticks[0].reason)
    assert "PT1H" in str(firing.ticks[0].reason)
    again = decide(replace(due, last_fire_time=firing.last_fire_time), at(12, 1))
    assert again.ticks == ()
    assert again.next_start == at(6) + DAY


def test_no_decision_has_more_steps_than_a_week_of_minutes() -> None:
    due = a_due(at(0), cron="* * * * *", catchup_window=30 * DAY, catchup=Catchup.NONE)
    now = at(0) + 30 * DAY
    firing = decide(due, now)
    assert [tick.missed for tick in firing.ticks] == [MOST_STEPS]
    assert firing.next_start is not None
    assert firing.next_start <= now


def test_forbid_starts_nothing_beside_an_active_run() -> None:
    firing = decide(replace(a_due(at(9)), active_runs=1), at(10))
    assert outcomes(firing) == [(SKIPPED, at(10), 1)]
    assert firing.last_fire_time == at(10)


def test_forbid_counts_the_runs_of_the_same_decision() -> None:
    firing = decide(a_due(at(9), catchup=Catchup.ALL), at(12, 0, 10))
    assert started(firing) == [at(10)]
    assert outcomes(firing) == [(FIRED, at(10), 0), (SKIPPED, at(12), 2)]


def test_replace_starts_the_newest_alone() -> None:
    due = a_due(at(9), catchup=Catchup.ALL, concurrency_policy=REPLACE)
    idle, busy = decide(due, at(12, 0, 10)), decide(replace(due, active_runs=1), at(12, 0, 10))
    assert started(idle) == started(busy) == [at(12)]
    assert outcomes(busy) == [(SKIPPED, at(11), 2), (FIRED, at(12), 0)]


def test_allow_starts_beside_active_runs() -> None:
    firing = decide(replace(a_due(at(9), concurrency_policy=ALLOW), active_runs=3), at(10))
    assert firing.starts == (at(10),)


@pytest.mark.case("R47")
def test_two_hours_of_suspension_are_one_tick_and_no_burst() -> None:
    due = a_due(at(9), cron="*/10 * * * *", concurrency_policy=ALLOW, catchup=Catchup.ALL)
    suspended = replace(due, schedule=replace(due.schedule, suspend=True))
    assert decide(suspended, at(10)) == Firing(
        starts=(), ticks=(), last_fire_time=at(9), next_start=None
    )
    resumed = decide(replace(due, was_suspended=True), at(11, 0, 30))
    assert outcomes(resumed) == [(SUSPENDED, at(11), 12)]
    assert resumed.ticks[0].first_fire_time == at(9, 10)
    assert started(resumed) == []
    assert resumed.next_start == at(11, 10)
    later = replace(due, last_fire_time=resumed.last_fire_time)
    assert started(decide(later, at(11, 10))) == [at(11, 10)]


@pytest.mark.case("R47")
def test_a_suspension_beyond_the_window_is_one_tick_too() -> None:
    due = replace(a_due(at(9) - 30 * DAY), was_suspended=True)
    [tick] = decide(due, at(9, 30)).ticks
    assert (tick.outcome, tick.first_fire_time) == (SUSPENDED, at(10) - 30 * DAY)
    assert (tick.fire_time, tick.missed) == (at(9), 25)
    assert "at least" in str(tick.reason)


@pytest.mark.case("R47")
def test_an_edit_of_cron_counts_from_the_edit() -> None:
    edited = decide(a_due(at(9, 31), cron="*/15 * * * *"), at(9, 31))
    assert edited.ticks == ()
    assert edited.next_start == at(9, 45)


@pytest.mark.case("R48")
def test_a_clock_set_back_repeats_no_time() -> None:
    decided = decide(a_due(at(11)), at(12))
    due = a_due(decided.last_fire_time)
    back = decide(due, at(10))
    assert back.ticks == ()
    assert back.last_fire_time == at(12)
    assert back.next_start == at(13)
    assert decide(due, at(12)).ticks == ()


@pytest.mark.case("R48")
def test_a_clock_set_forward_is_an_outage() -> None:
    firing = decide(a_due(at(9)), at(9) + DAY + 2 * MINUTE)
    assert started(firing) == [at(9) + DAY]
    assert [tick.missed for tick in firing.ticks] == [23, 0]


def test_nothing_is_due_after_the_end() -> None:
    due = a_due(at(9), end_at=at(10))
    last = decide(due, at(10))
    assert started(last) == [at(10)]
    assert last.next_start is None
    over = decide(replace(due, last_fire_time=at(10)), at(10) + 3 * DAY)
    assert over == Firing(starts=(), ticks=(), last_fire_time=at(10), next_start=None)


def test_nothing_is_due_before_the_start() -> None:
    firing = decide(a_due(at(9), start_at=at(15)), at(9))
    assert firing.next_start == at(15)


def test_an_interval_counts_from_the_minute_of_creation() -> None:
    due = a_due(CREATED, cron=None, interval=90 * SECOND)
    first = CREATED.replace(second=0) + 90 * SECOND
    assert decide(due, CREATED).next_start == first
    assert started(decide(due, first)) == [first]


@pytest.mark.case("R50")
def test_a_start_is_the_same_after_a_restart_and_the_time_remains_the_key() -> None:
    due = a_due(at(9), jitter=2 * MINUTE)
    waiting = decide(due, at(9))
    start = at(10) + jitter_of(UID, at(10), 2 * MINUTE)
    assert at(10) < start < at(10) + 2 * MINUTE
    assert waiting.next_start == start
    assert decide(due, start - SECOND) == waiting
    assert started(decide(due, start)) == [at(10)]
    assert started(decide(due, start + MINUTE)) == [at(10)]  # on time, counted from the start
    assert decide(due, start).last_fire_time == at(10)


@pytest.mark.case("R50")
def test_jitter_spreads_schedules_and_times() -> None:
    by_uid = {jitter_of(UUID(int=number), at(10), HOUR) for number in range(100)}
    by_time = {jitter_of(UID, at(10) + number * MINUTE, HOUR) for number in range(100)}
    assert min(len(by_uid), len(by_time)) > 90
    assert all(timedelta() <= one < HOUR for one in by_uid | by_time)
    assert jitter_of(UID, at(10), timedelta()) == timedelta()


MINUTES_LATER = st.integers(0, 200).map(lambda number: number * 30 * SECOND)


@given(
    steps=st.lists(MINUTES_LATER, min_size=1, max_size=8),
    catchup=st.sampled_from(Catchup),
    policy=st.sampled_from(ConcurrencyPolicy),
    jitter=st.sampled_from([timedelta(), 2 * MINUTE, HOUR]),
    active_runs=st.integers(0, 2),
)
def test_each_time_is_decided_exactly_once(
    steps: list[timedelta],
    catchup: Catchup,
    policy: ConcurrencyPolicy,
    jitter: timedelta,
    active_runs: int,
) -> None:
    """Whenever a process checks, ticks cover every time without a gap or a repetition."""
    spec: dict[str, Any] = {"cron": "*/5 * * * *", "catchup": catchup, "jitter": jitter}
    due = replace(a_due(at(0), concurrency_policy=policy, **spec), active_runs=active_runs)
    now, first = at(0), at(0, 5)
    for step in steps:
        now += step
        firing = decide(due, now)
        for tick in firing.ticks:
            assert (tick.first_fire_time or tick.fire_time) == first
            assert tick.fire_time - first == (max(tick.missed, 1) - 1) * 5 * MINUTE
            first = tick.fire_time + 5 * MINUTE
        assert firing.next_start is not None
        assert now < firing.next_start <= max(now, first) + jitter + 5 * MINUTE
        assert first - 5 * MINUTE == firing.last_fire_time
        due = replace(due, last_fire_time=firing.last_fire_time)
