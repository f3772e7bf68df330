from datetime import timedelta

import pytest

from datarecs_kafka.backoff import HANDLER_DELAYS, Backoff


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 0.2), (2, 0.4), (3, 0.8), (8, 25.6), (9, 30), (1000, 30)]
)
def test_the_wait_doubles_up_to_its_cap(failures: int, seconds: float) -> None:
    assert Backoff(draw=lambda: 1.0).after(failures) == timedelta(seconds=seconds)


def test_half_of_the_wait_is_drawn() -> None:
    assert Backoff(draw=lambda: 0.0).after(2) == timedelta(seconds=0.2)


def test_an_unclassified_failure_gets_five_more_tries() -> None:
    assert [delay.total_seconds() for delay in HANDLER_DELAYS] == [0.5, 1, 2, 4, 8]
