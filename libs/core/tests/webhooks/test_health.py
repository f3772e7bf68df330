from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from datarecs_core.values import ResourceUid, TenantId
from datarecs_core.webhooks.events import WebhookEndpointAutoDisabled
from datarecs_core.webhooks.health import (
    HELD_FOR,
    Allowance,
    DisabledBy,
    EndpointState,
    Receiver,
    Waiting,
    decide_endpoint,
    next_claim_time,
    paid,
    rate_in_force,
    sendable_now,
)
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome, ReceiverWish

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)

STATE = EndpointState(tenant_id=TenantId(UUID(int=1)), endpoint_uid=ResourceUid(UUID(int=2)))
RECEIVER = Receiver(generation=1, shown_url="https://a.example.com/hook")
NOTHING = Waiting(first_due=None, first_lease_end=None, leased=0, first_expiry=None)
SECOND = timedelta(seconds=1)


def after(end: AttemptEnd, state: EndpointState = STATE) -> EndpointState:
    return decide_endpoint(state, end, receiver=RECEIVER, now=NOON, u=0.5).state


def waiting(first_due: datetime, *, leased: int = 0) -> Waiting:
    return Waiting(
        first_due=first_due,
        first_lease_end=NOON + 60 * SECOND if leased else None,
        leased=leased,
        first_expiry=NOON + timedelta(days=7),
    )


def test_failures_count_until_a_success_clears_them() -> None:
    failed = after(AttemptEnd(outcome=Outcome.TIMEOUT))
    again = after(AttemptEnd(outcome=Outcome.HTTP_5XX, status=500), failed)
    assert (again.consecutive_failures, again.failing_since) == (2, NOON)
    cleared = after(AttemptEnd(outcome=Outcome.OK, status=200), again)
    assert (cleared.consecutive_failures, cleared.failing_since) == (0, None)
    assert cleared.last_success_at == NOON


@pytest.mark.parametrize(
    "outcome", [Outcome.HTTP_429, Outcome.SECRET_UNAVAILABLE, Outcome.WORKER_LOST]
)
def test_what_is_not_the_receivers_fault_does_not_count(outcome: Outcome) -> None:
    assert after(AttemptEnd(outcome=outcome)).consecutive_failures == 0


@pytest.mark.case("W14")
@pytest.mark.parametrize(
    ("end", "seconds"),
    [
        (AttemptEnd(outcome=Outcome.HTTP_429, status=429, retry_after="7200"), 7200),
        (AttemptEnd(outcome=Outcome.HTTP_429, status=429), 60),
        (AttemptEnd(outcome=Outcome.HTTP_429, status=429, retry_after="-1"), 60),
        (AttemptEnd(outcome=Outcome.HTTP_5XX, status=503, retry_after="30"), 30),
    ],
)
def test_a_receiver_that_requests_it_gets_a_pause(end: AttemptEnd, seconds: int) -> None:
    paused = after(end)
    assert paused.paused_until == NOON + seconds * SECOND
    allowed = Allowance(rate_per_minute=600, max_concurrent=4)
    assert sendable_now(paused, allowed, leased=0, now=NOON) == 0
    next_claim = next_claim_time(paused, waiting(NOON), allowed, now=NOON)
    assert next_claim == NOON + seconds * SECOND


def test_an_endpoint_that_has_rested_queues_behind_the_others() -> None:
    rested = replace(STATE, paused_until=NOON - 60 * SECOND)
    allowed = Allowance(rate_per_minute=600, max_concurrent=4)
    assert next_claim_time(rested, waiting(NOON - 3600 * SECOND), allowed, now=NOON) == NOON


def test_a_503_without_retry_after_does_not_pause() -> None:
    assert after(AttemptEnd(outcome=Outcome.HTTP_5XX, status=503)).paused_until is None


@pytest.mark.parametrize(
    ("end", "by"),
    [
        (AttemptEnd(outcome=Outcome.HTTP_410, status=410), DisabledBy.GONE),
        (
            AttemptEnd(outcome=Outcome.OK, status=200, wish=ReceiverWish.DISABLE),
            DisabledBy.RECEIVER,
        ),
    ],
)
def test_gone_and_a_requested_disable_act_at_once_and_are_reported_once(
    end: AttemptEnd, by: DisabledBy
) -> None:
    decision = decide_endpoint(STATE, end, receiver=RECEIVER, now=NOON, u=0.5)
    assert decision.state.disabled is not None
    assert decision.state.disabled.by is by
    (event,) = decision.events
    assert isinstance(event, WebhookEndpointAutoDisabled)
    assert event.reason == by.upper()
    again = decide_endpoint(decision.state, end, receiver=RECEIVER, now=NOON, u=0.5)
    assert again.events == ()


def test_a_changed_spec_enables_again() -> None:
    gone = after(AttemptEnd(outcome=Outcome.HTTP_410, status=410))
    assert not gone.accepts(1)
    assert gone.accepts(2)


def test_an_unproven_endpoint_gets_at_most_30_a_minute() -> None:
    assert rate_in_force(STATE, 600) == 30
    assert rate_in_force(STATE, 10) == 10
    assert rate_in_force(after(AttemptEnd(outcome=Outcome.OK, status=200)), 600) == 600


@pytest.mark.case("W29")
def test_the_rate_is_never_above_its_minute_plus_the_burst() -> None:
    allowed = Allowance(rate_per_minute=60, max_concurrent=32)
    state, started, now = STATE, [], NOON
    while now < NOON + timedelta(minutes=5):
        count = sendable_now(state, allowed, leased=0, now=now)
        state = paid(state, allowed, started=count, now=now)
        started += [now] * count
        now += SECOND / 2
    for moment in started:
        window = [other for other in started if moment <= other < moment + 60 * SECOND]
        assert len(window) <= 60 + allowed.burst
    assert len(started) >= 5 * 60


@pytest.mark.case("W29")
def test_open_requests_are_counted_from_leases() -> None:
    allowed = Allowance(rate_per_minute=6000, max_concurrent=2)
    assert sendable_now(STATE, allowed, leased=1, now=NOON) == 1
    assert sendable_now(STATE, allowed, leased=2, now=NOON) == 0
    full = next_claim_time(STATE, waiting(NOON, leased=2), allowed, now=NOON)
    assert full == NOON + 60 * SECOND


def test_an_endpoint_without_tokens_is_checked_when_one_is_available() -> None:
    allowed = Allowance(rate_per_minute=60, max_concurrent=32)
    spent = paid(STATE, allowed, started=6, now=NOON)
    assert sendable_now(spent, allowed, leased=0, now=NOON) == 0
    next_claim = next_claim_time(spent, waiting(NOON), allowed, now=NOON)
    assert next_claim == NOON + SECOND
    assert sendable_now(spent, allowed, leased=0, now=next_claim) == 1


def test_nothing_waiting_means_no_check_and_a_disabled_one_is_checked_again() -> None:
    allowed = Allowance(rate_per_minute=60, max_concurrent=4)
    assert next_claim_time(STATE, NOTHING, allowed, now=NOON) is None
    assert next_claim_time(STATE, waiting(NOON), None, now=NOON) == NOON + HELD_FOR


FAILED = AttemptEnd(outcome=Outcome.HTTP_5XX, status=500)
DELIVERED = AttemptEnd(outcome=Outcome.OK, status=200)


def ended(
    state: EndpointState, *ends: AttemptEnd, at: datetime = NOON, limit: timedelta | None = None
) -> EndpointState:
    receiver = replace(RECEIVER, disable_after=limit)
    for end in ends:
        state = decide_endpoint(state, end, receiver=receiver, now=at, u=0.5).state
    return state


@pytest.mark.case("W30")
def test_ten_failures_open_the_circuit_for_half_a_minute() -> None:
    allowed = Allowance(rate_per_minute=600, max_concurrent=4)
    assert ended(STATE, *[FAILED] * 9).circuit_openings == 0
    opened = ended(STATE, *[FAILED] * 10)
    assert opened.circuit_open_until == NOON + 30 * SECOND
    assert sendable_now(opened, allowed, leased=0, now=NOON + 29 * SECOND) == 0
    assert next_claim_time(opened, waiting(NOON), allowed, now=NOON) == NOON + 30 * SECOND
    later = NOON + 30 * SECOND
    assert sendable_now(opened, allowed, leased=0, now=later) == 1
    assert sendable_now(opened, allowed, leased=1, now=later) == 0
    closed = ended(opened, DELIVERED, at=later)
    assert (closed.circuit_openings, closed.circuit_open_until) == (0, None)
    assert sendable_now(closed, allowed, leased=0, now=later) == 4


@pytest.mark.case("W30")
def test_each_failed_probe_doubles_the_rest_up_to_a_quarter_of_an_hour() -> None:
    state, at, rests = ended(STATE, *[FAILED] * 10), NOON, []
    for _ in range(7):
        assert state.circuit_open_until is not None
        rests.append(state.circuit_open_until - at)
        at = state.circuit_open_until
        state = ended(state, FAILED, at=at)
    assert [rest.total_seconds() for rest in rests] == [30, 60, 120, 240, 480, 900, 900]


def test_ends_of_attempts_that_began_before_the_circuit_opened_do_not_lengthen_it() -> None:
    opened = ended(STATE, *[FAILED] * 10)
    late = ended(opened, FAILED, FAILED, at=NOON + SECOND)
    assert (late.circuit_openings, late.circuit_open_until) == (1, opened.circuit_open_until)


def test_seven_failures_of_ten_within_five_minutes_open_the_circuit() -> None:
    mixed = [DELIVERED, *[FAILED] * 3, DELIVERED, *[FAILED] * 5] * 2
    assert ended(STATE, *mixed[:-1]).circuit_openings == 0
    assert ended(STATE, *mixed).circuit_openings == 1
    first = ended(STATE, *mixed[:-1])
    assert ended(first, FAILED, at=NOON + timedelta(minutes=5)).circuit_openings == 0


def test_our_faults_and_rate_limits_do_not_open_the_circuit() -> None:
    ends = [AttemptEnd(outcome=one) for one in (Outcome.SECRET_UNAVAILABLE, Outcome.WORKER_LOST)]
    state = ended(STATE, *ends * 20, *[AttemptEnd(outcome=Outcome.HTTP_429, status=429)] * 20)
    assert state.circuit_openings == 0


def test_an_endpoint_that_fails_for_too_long_is_disabled_once() -> None:
    limit = timedelta(hours=120)
    failing = ended(STATE, *[FAILED] * 10, limit=limit)
    almost = ended(failing, FAILED, at=NOON + limit - SECOND, limit=limit)
    assert almost.disabled is None
    receiver = replace(RECEIVER, disable_after=limit)
    decision = decide_endpoint(almost, FAILED, receiver=receiver, now=NOON + limit, u=0.5)
    assert decision.state.disabled is not None
    assert decision.state.disabled.by is DisabledBy.AUTO
    (event,) = decision.events
    assert isinstance(event, WebhookEndpointAutoDisabled)
    assert (event.reason, event.failing_since, event.consecutive_failures) == ("FAILING", NOON, 12)
    later = NOON + limit + SECOND
    again = decide_endpoint(decision.state, FAILED, receiver=receiver, now=later, u=0.5)
    assert again.events == ()


def test_few_failures_a_success_or_the_wish_of_its_spec_leave_an_endpoint_enabled() -> None:
    limit, late = timedelta(hours=120), NOON + timedelta(days=9)
    few = ended(ended(STATE, *[FAILED] * 3, limit=limit), FAILED, at=late, limit=limit)
    assert few.disabled is None
    failing = ended(STATE, *[FAILED] * 20, limit=limit)
    assert ended(failing, DELIVERED, FAILED, at=late, limit=limit).disabled is None
    assert ended(failing, FAILED, at=late, limit=None).disabled is None
