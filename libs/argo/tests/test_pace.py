"""How fast workflows are created."""

from datetime import timedelta

import pytest

from datarecs_argo.pace import LONGEST_WAIT, CreationPace
from datarecs_testing.clock import ManualClock

NOW = timedelta()


@pytest.mark.parametrize("per_second", [0.5, 5, 100])
def test_no_second_has_more_creations_than_allowed(per_second: float) -> None:
    clock = ManualClock()
    pace = CreationPace(per_second, clock)
    made = 0
    for _ in range(1000):
        made += pace.take() == NOW
        clock.advance(timedelta(seconds=0.01))
    burst = max(per_second, 1)
    assert burst <= made <= burst + 10 * per_second
    assert made >= 10 * per_second - 1


def test_who_waits_is_spread_over_the_time_that_is_needed() -> None:
    pace = CreationPace(5, ManualClock())
    waits = [pace.take() for _ in range(505)]
    assert waits[:5] == [NOW] * 5
    assert waits[5:10] == [timedelta(seconds=n / 5) for n in range(1, 6)]
    assert waits[-1] == LONGEST_WAIT
