from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.decision import Event
from datarecs_core.values import EventId, ResourceUid, TenantId
from datarecs_core.webhooks.delivery import (
    LEASE_TTL,
    Delivery,
    DeliveryReason,
    DeliveryState,
    Ended,
    EndpointDeleted,
    Expired,
    Fact,
    LeaseExpired,
    Superseded,
    decide_delivery,
    lease,
)
from datarecs_core.webhooks.endpoint import DEFAULT_DELAYS, Retry
from datarecs_core.webhooks.events import WebhookDeliveryDeadLettered, WebhookDeliveryFailed
from datarecs_core.webhooks.outcome import (
    AttemptEnd,
    Outcome,
    ReceiverWish,
    outcome_of_status,
    retry_after,
    wish_of,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)

FINALISED = "io.datarecs.reconciliation.run.finalised"
RETRY = Retry()
PLAIN = 0.5
"""The jitter number that leaves delays as they are."""


def a_delivery(**changes: object) -> Delivery:
    fields: dict[str, object] = {
        "tenant_id": TenantId(UUID(int=1)),
        "received_on": NOON.date(),
        "delivery_id": UUID(int=2),
        "endpoint_uid": ResourceUid(UUID(int=3)),
        "event_id": EventId(UUID(int=4)),
        "event_type": FINALISED,
        "due_at": NOON,
        "created_at": NOON,
        "expires_at": NOON + RETRY.max_age,
    }
    return Delivery(**(fields | changes))  # type: ignore[arg-type]  # a builder's table


def leased(**changes: object) -> Delivery:
    return lease(a_delivery(**changes), owner="w1", now=NOON)


def ended(delivery: Delivery, end: AttemptEnd, *, u: float = PLAIN) -> Ended:
    return Ended(lease_epoch=delivery.lease_epoch, end=end, u=u)


def status(code: int, retry_after_header: str | None = None) -> AttemptEnd:
    return AttemptEnd(outcome=outcome_of_status(code), status=code, retry_after=retry_after_header)


def after(delivery: Delivery, end: AttemptEnd, *, now: datetime = NOON) -> Delivery:
    return decide_delivery(delivery, ended(delivery, end), retry=RETRY, now=now).state


def play(*codes: int, u: float = PLAIN) -> tuple[Delivery, list[timedelta], list[Event]]:
    """Attempts one after another, each at its due time; waits and events on the way."""
    delivery, now = a_delivery(), NOON
    waits: list[timedelta] = []
    events: list[Event] = []
    for code in codes:
        delivery = lease(delivery, owner="w", now=now)
        decision = decide_delivery(
            delivery, ended(delivery, status(code), u=u), retry=RETRY, now=now
        )
        delivery = decision.state
        events += decision.events
        if delivery.state.is_terminal:
            break
        waits.append(delivery.due_at - now)
        now = delivery.due_at
    return delivery, waits, events


def test_a_lease_counts_the_attempt_before_a_byte_is_sent() -> None:
    delivery = leased()
    assert (delivery.state, delivery.attempt_no) == (DeliveryState.LEASED, 1)
    assert delivery.lease_until == NOON + LEASE_TTL


@pytest.mark.case("W08")
@pytest.mark.parametrize("u", [0.0, 0.999])
def test_two_failures_then_success_wait_5_seconds_and_5_minutes_with_jitter(u: float) -> None:
    delivery, waits, events = play(500, 500, 200, u=u)
    assert delivery.state is DeliveryState.SUCCEEDED
    assert delivery.attempt_no == 3
    assert timedelta(seconds=4) <= waits[0] <= timedelta(seconds=6)
    assert timedelta(seconds=240) <= waits[1] <= timedelta(seconds=360)
    assert events == []


@pytest.mark.case("W09")
def test_ten_failures_exhaust_the_schedule_and_are_reported_early_and_at_the_end() -> None:
    delivery, waits, events = play(*[500] * 20)
    assert (delivery.state, delivery.reason) == (
        DeliveryState.DEAD_LETTERED,
        DeliveryReason.EXHAUSTED,
    )
    assert delivery.attempt_no == 10
    assert sum(waits, timedelta()).total_seconds() == 272_105
    early, final = events
    assert isinstance(early, WebhookDeliveryFailed)
    assert early.attempts == 4
    assert early.next_attempt_at is not None
    assert isinstance(final, WebhookDeliveryDeadLettered)
    assert (final.attempts, final.reason, final.status_code) == (10, "EXHAUSTED", 500)


@pytest.mark.case("X53")
def test_a_delivery_of_an_operational_event_creates_no_event() -> None:
    delivery = leased(event_type="io.datarecs.webhook.delivery.failed", schedule_index=3)
    decision = decide_delivery(delivery, ended(delivery, status(500)), retry=RETRY, now=NOON)
    assert decision.events == ()
    last = leased(event_type="io.datarecs.webhook.delivery.failed", schedule_index=9)
    dead = decide_delivery(last, ended(last, status(500)), retry=RETRY, now=NOON)
    assert dead.state.state is DeliveryState.DEAD_LETTERED
    assert dead.events == ()


@pytest.mark.case("W10")
def test_a_connection_cut_before_the_status_line_is_tried_again() -> None:
    cut = after(leased(), AttemptEnd(outcome=Outcome.PROTOCOL_ERROR))
    assert cut.state is DeliveryState.PENDING
    assert cut.due_at == NOON + timedelta(seconds=5)


@pytest.mark.case("W11")
def test_a_lost_worker_costs_no_delay_three_times_and_then_counts_as_a_failure() -> None:
    delivery = leased()
    for _ in range(3):
        lost = decide_delivery(delivery, LeaseExpired(u=PLAIN), retry=RETRY, now=NOON).state
        assert (lost.state, lost.due_at) == (DeliveryState.PENDING, NOON)
        assert lost.schedule_index == 0
        assert lost.last_outcome is Outcome.WORKER_LOST
        delivery = lease(lost, owner="w2", now=NOON)
    fourth = decide_delivery(delivery, LeaseExpired(u=PLAIN), retry=RETRY, now=NOON).state
    assert fourth.schedule_index == 1
    assert fourth.due_at == NOON + timedelta(seconds=5)


def test_a_lease_that_is_not_held_cannot_run_out() -> None:
    waiting = a_delivery()
    fact = LeaseExpired(u=PLAIN)
    assert decide_delivery(waiting, fact, retry=RETRY, now=NOON).state is waiting


@pytest.mark.case("W12")
def test_a_result_under_an_old_epoch_changes_nothing() -> None:
    old = leased()
    lost = decide_delivery(old, LeaseExpired(u=PLAIN), retry=RETRY, now=NOON).state
    again = lease(lost, owner="w2", now=NOON)
    late = ended(old, status(200))
    assert decide_delivery(again, late, retry=RETRY, now=NOON).state is again
    assert decide_delivery(lost, late, retry=RETRY, now=NOON).state is lost


@pytest.mark.case("X52")
@pytest.mark.case("W14")
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7200", 7200),
        ("1000000000", 86_400),
        ("99999999999999999999", 86_400),
        ("-1", 5),
        ("1e9", 5),
        ("1.5", 5),
        ("Sun, 01 Jan 2017 00:00:00 GMT", 5),
        ("Fri, 20 Nov 2026 12:10:00 GMT", 600),
        ("Fri, 20 Nov 2026 12:10:00 +0000", 5),
        ("2", 5),
        (None, 5),
    ],
)
def test_retry_after_moves_the_next_attempt_within_a_day(header: str | None, seconds: int) -> None:
    moment = datetime.fromisoformat("2026-11-20T12:00:00+00:00")
    waiting = after(leased(expires_at=moment + timedelta(days=7)), status(429, header), now=moment)
    assert waiting.due_at == moment + timedelta(seconds=seconds)
    assert waiting.schedule_index == 1


@pytest.mark.case("W14")
def test_only_429_and_503_may_request_a_wait() -> None:
    assert after(leased(), status(500, "7200")).due_at == NOON + timedelta(seconds=5)
    assert after(leased(), status(503, "7200")).due_at == NOON + timedelta(seconds=7200)


@pytest.mark.case("W15")
@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (302, Outcome.HTTP_3XX),
        (401, Outcome.HTTP_4XX),
        (404, Outcome.HTTP_4XX),
        (500, Outcome.HTTP_5XX),
        (204, Outcome.OK),
        (999, Outcome.PROTOCOL_ERROR),
        (101, Outcome.PROTOCOL_ERROR),
    ],
)
def test_the_status_line_fixes_the_outcome(code: int, outcome: Outcome) -> None:
    assert outcome_of_status(code) is outcome


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (status(410), DeliveryReason.GONE),
        (replace(status(500), wish=ReceiverWish.DISABLE), DeliveryReason.GONE),
        (
            replace(status(500), wish=ReceiverWish.ABORT_MESSAGE),
            DeliveryReason.ABORTED_BY_RECEIVER,
        ),
    ],
)
def test_a_receiver_can_end_a_delivery(end: AttemptEnd, reason: DeliveryReason) -> None:
    delivery = leased()
    decision = decide_delivery(delivery, ended(delivery, end), retry=RETRY, now=NOON)
    assert (decision.state.state, decision.state.reason) == (DeliveryState.DEAD_LETTERED, reason)
    (event,) = decision.events
    assert isinstance(event, WebhookDeliveryDeadLettered)


def test_success_stays_success_whatever_the_receiver_wishes() -> None:
    end = replace(status(200), wish=ReceiverWish.DISABLE)
    assert after(leased(), end).state is DeliveryState.SUCCEEDED


def test_a_missing_secret_waits_a_minute_and_uses_no_delay() -> None:
    waiting = after(leased(), AttemptEnd(outcome=Outcome.SECRET_UNAVAILABLE))
    assert waiting.due_at == NOON + timedelta(seconds=60)
    assert waiting.schedule_index == 0


def test_age_ends_a_delivery_and_no_attempt_is_due_after_it() -> None:
    delivery = leased(expires_at=NOON + timedelta(seconds=3))
    waiting = after(delivery, status(500))
    assert waiting.due_at == delivery.expires_at
    expired = decide_delivery(waiting, Expired(), retry=RETRY, now=waiting.due_at)
    assert expired.state.reason is DeliveryReason.EXPIRED
    assert len(expired.events) == 1


def test_a_deleted_endpoint_discards_without_an_event() -> None:
    decision = decide_delivery(a_delivery(), EndpointDeleted(), retry=RETRY, now=NOON)
    assert decision.state.state is DeliveryState.DISCARDED
    assert decision.events == ()


FACTS: st.SearchStrategy[Fact] = st.one_of(
    st.builds(
        Ended,
        lease_epoch=st.integers(0, 12),
        end=st.builds(AttemptEnd, outcome=st.sampled_from(list(Outcome))),
        u=st.floats(0, 0.99),
    ),
    st.builds(LeaseExpired, u=st.floats(0, 0.99)),
    st.just(Expired()),
    st.just(EndpointDeleted()),
    st.just(Superseded()),
)


@given(st.lists(FACTS, max_size=40))
def test_for_any_facts_a_delivery_ends_once_and_reports_its_end_once(facts: list[Fact]) -> None:
    delivery, ends = a_delivery(), 0
    for fact in facts:
        if delivery.state is DeliveryState.PENDING:
            delivery = lease(delivery, owner="w", now=NOON)
        was_terminal = delivery.state.is_terminal
        decision = decide_delivery(delivery, fact, retry=RETRY, now=NOON)
        ends += sum(isinstance(event, WebhookDeliveryDeadLettered) for event in decision.events)
        assert not was_terminal or decision.state is delivery
        delivery = decision.state
        assert delivery.schedule_index <= len(DEFAULT_DELAYS)
    assert ends == (delivery.state is DeliveryState.DEAD_LETTERED)


def test_unknown_wishes_of_receivers_are_ignored() -> None:
    assert wish_of(" disable ") is ReceiverWish.DISABLE
    assert wish_of("abort-message") is ReceiverWish.ABORT_MESSAGE
    assert wish_of("explode") is None
    assert wish_of(None) is None
    assert retry_after("", now=NOON) is None
