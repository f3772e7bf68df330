"""The time of `as_of`: with its offset, and not still to come."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from datarecs_core.comparison.values.moments import AHEAD, as_of_fault, future_fault, micros_of

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("2026-01-31T12:00:00Z", "2026-01-31 13:00:00+01:00", "2026-01-31T12:01:00Z"),
        *("2026-01-31T11:59:59.123456789Z", "0001-01-01T00:00:00+14:00"),
    ],
)
def test_times_up_to_a_minute_ahead_are_read(text: str) -> None:
    assert as_of_fault(text, NOW) is None


@pytest.mark.parametrize(
    "text",
    ["2026-01-31T12:01:00.000001Z", "2036-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"],
)
def test_a_time_that_is_still_to_come_is_refused_with_the_present(text: str) -> None:
    fault = as_of_fault(text, NOW)
    assert fault == (
        "is still to come: it is 2026-01-31T12:00:00.000000Z now; write a time of the past"
    )


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-31", "2026-01-31T12:00:00"])
def test_a_time_needs_its_offset(text: str) -> None:
    assert micros_of(text) is None
    assert "with its offset, such as 2026-01-31T12:00:00Z" in (as_of_fault(text, NOW) or "")


def test_a_moment_counts_in_every_zone() -> None:
    for zone in (UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))):
        assert future_fault((NOW + AHEAD).astimezone(zone), NOW) is None
        assert future_fault((NOW + AHEAD).astimezone(zone) + timedelta(microseconds=1), NOW)
    last = datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))
    assert future_fault(last, NOW) is not None
