from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from datarecs_core.values import ResourceUid, TenantId
from datarecs_core.webhooks.health import EndpointState, Waiting
from datarecs_core.webhooks.overflow import (
    after_end,
    check_overflow,
    counted_again,
    room_for_actions,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)
EMPTY = EndpointState(tenant_id=TenantId(UUID(int=1)), endpoint_uid=ResourceUid(UUID(int=2)))
FULL = replace(EMPTY, pending=1_000, overflow_since=NOON)


def test_an_overflow_begins_at_the_limit() -> None:
    below = replace(EMPTY, pending=999)
    assert check_overflow(below, max_pending=1_000, now=NOON) == below
    at = check_overflow(replace(EMPTY, pending=1_000), max_pending=1_000, now=NOON)
    assert (at.is_overflowing, at.overflow_since) == (True, NOON)


@pytest.mark.parametrize(("ended", "is_over"), [(200, False), (201, True)])
def test_an_overflow_ends_below_four_fifths(ended: int, *, is_over: bool) -> None:
    after = after_end(FULL, ended, max_pending=1_000, now=LATER)
    assert after.pending == 1_000 - ended
    assert after.is_overflowing is not is_over
    assert after.overflow_until == (LATER if is_over else None)


def test_without_a_readable_spec_ends_are_counted_and_nothing_is_decided() -> None:
    after = after_end(FULL, 1_000, max_pending=None, now=LATER)
    assert (after.pending, after.is_overflowing) == (0, True)


def test_the_gap_starts_with_the_first_event_whoever_commits_first() -> None:
    earlier = NOON - timedelta(milliseconds=3)
    assert check_overflow(FULL, max_pending=1_000, now=earlier).overflow_since == earlier
    assert check_overflow(FULL, max_pending=1_000, now=LATER) == FULL


def test_a_second_overflow_opens_a_new_gap() -> None:
    over = replace(FULL, overflow_until=LATER)
    again = check_overflow(over, max_pending=1_000, now=LATER + timedelta(hours=1))
    assert (again.overflow_since, again.overflow_until) == (LATER + timedelta(hours=1), None)


def test_actions_get_the_room_below_four_fifths() -> None:
    assert room_for_actions(replace(EMPTY, pending=790), 1_000) == 10
    assert room_for_actions(FULL, 1_000) == 0


@pytest.mark.parametrize(
    ("first_due", "leased", "pending"), [(None, 0, 0), (NOON, 0, 1_000), (None, 1, 1_000)]
)
def test_a_count_that_has_drifted_ends_with_an_empty_queue(
    first_due: datetime | None, leased: int, pending: int
) -> None:
    waiting = Waiting(first_due=first_due, first_lease_end=None, leased=leased, first_expiry=None)
    assert counted_again(FULL, waiting).pending == pending
