import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_cli.stack.restarts import RestartPolicy

POLICY = RestartPolicy()


def test_pauses_double_from_one_second() -> None:
    deaths = [0.0, 20.0, 40.0, 60.0]
    pauses = [POLICY.pause_s(deaths[: count + 1]) for count in range(4)]
    assert pauses == [1.0, 2.0, 4.0, 8.0]


def test_no_pause_is_longer_than_thirty_seconds() -> None:
    assert POLICY.pause_s([50.0 * at for at in range(9)]) == 30.0


def test_a_part_that_lived_for_more_than_a_minute_starts_again_at_the_first_pause() -> None:
    assert POLICY.pause_s([0.0, 1.0, 2.0, 100.0]) == 1.0


@pytest.mark.case("K19")
def test_five_deaths_within_a_minute_are_too_many() -> None:
    assert POLICY.pause_s([0.0, 1.0, 3.0, 7.0, 15.0]) is None


@given(st.lists(st.floats(0, 1_000), min_size=1, max_size=12))
def test_only_five_recent_deaths_stop_the_platform(moments: list[float]) -> None:
    deaths = sorted(moments)
    recent = [moment for moment in deaths if moment > deaths[-1] - 60]
    assert (POLICY.pause_s(deaths) is None) == (len(recent) >= 5)
