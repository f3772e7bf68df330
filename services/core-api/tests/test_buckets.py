"""Token buckets: a burst, then an even rate; bounded memory."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from datarecs_core_api.buckets import MAX_REMEMBERED, Rate, TokenBuckets
from datarecs_testing.clock import ManualClock

TEN_A_MINUTE = Rate(quota=10, window_s=60)


def test_a_burst_of_the_quota_passes_and_then_one_each_tenth_of_the_window() -> None:
    clock = ManualClock()
    buckets = TokenBuckets(clock, TEN_A_MINUTE)
    assert [buckets.take("a").remaining for _ in range(10)] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert buckets.take("a").wait_s == 6
    clock.advance(timedelta(seconds=5.5))
    assert buckets.take("a").wait_s == 1
    clock.advance(timedelta(seconds=0.5))
    assert buckets.take("a").is_taken
    assert not buckets.take("a").is_taken


def test_each_name_has_a_separate_bucket() -> None:
    buckets = TokenBuckets(ManualClock(), Rate(quota=1, window_s=60))
    assert [buckets.take(name).is_taken for name in ("a", "b", "a")] == [True, True, False]


def test_what_is_remembered_is_bounded() -> None:
    buckets = TokenBuckets(ManualClock(), Rate(quota=1, window_s=60))
    buckets.take("first")
    for number in range(MAX_REMEMBERED):
        buckets.take(number)
    assert buckets.take("first").is_taken


@given(st.lists(st.floats(min_value=0, max_value=30), max_size=200))
def test_no_series_of_questions_gets_more_than_burst_and_rate(pauses: list[float]) -> None:
    clock = ManualClock()
    buckets = TokenBuckets(clock, TEN_A_MINUTE)
    taken = 0
    for pause in pauses:
        clock.advance(timedelta(seconds=pause))
        taken += buckets.take("a").is_taken
    assert taken <= TEN_A_MINUTE.quota + sum(pauses) / 6 + 1e-6
