"""Conformance suite of Deliveries and of its claim."""

from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.ports.delivery import DeliveryKey, WebhookAttempt
from datarecs_application.ports.state import Transaction
from datarecs_application.resources import release_resource
from datarecs_core.values import EventId, ResourceUid
from datarecs_core.webhooks.delivery import Delivery, DeliveryReason, DeliveryState, lease
from datarecs_core.webhooks.handshake import Handshake
from datarecs_core.webhooks.health import Disabled, DisabledBy
from datarecs_core.webhooks.outcome import Outcome
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.deliveries import a_delivery, a_message, an_endpoint

HOUR = timedelta(hours=1)


def key_of(delivery: Delivery) -> DeliveryKey:
    return DeliveryKey(delivery.received_on, delivery.delivery_id)


def fresh(tx: Transaction, endpoint: ResourceUid, **changes: object) -> Delivery:
    """A delivery made now, due a second ago."""
    times = {
        "received_on": tx.now.date(),
        "due_at": tx.now - timedelta(seconds=1),
        "expires_at": tx.now + HOUR,
        "created_at": tx.now,
    }
    return a_delivery(**{"endpoint_uid": endpoint, **times, **changes})


class DeliveriesConformance:
    """Subclass with a fixture `stores`."""

    def test_a_stored_event_comes_back_byte_for_byte(self, stores: Stores) -> None:
        event = EventId(an_id())
        message = a_message(event, subject="run/ü")
        with stores.webhook.unit.begin(A_TENANT) as tx:
            day = tx.deliveries.store_event(event, message)
            assert day == tx.now.date()
        with stores.webhook.unit.begin(A_TENANT) as tx:
            delivery = fresh(tx, ResourceUid(an_id()), event_id=event, received_on=day)
            assert tx.deliveries.messages([delivery]) == {event: message}

    @pytest.mark.case("W07")
    def test_one_endpoint_gets_one_delivery_per_event(self, stores: Stores) -> None:
        endpoint = ResourceUid(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            first = fresh(tx, endpoint)
            again = replace(first, delivery_id=an_id())
            other = replace(again, endpoint_uid=ResourceUid(an_id()))
            assert tx.deliveries.add([first]) == 1
            assert tx.deliveries.add([again, other]) == 1
            assert tx.deliveries.add([]) == 0
            assert tx.deliveries.of_endpoint(endpoint, 10) == [first]

    def test_a_delivery_is_saved_and_loaded_with_every_field(self, stores: Stores) -> None:
        with stores.webhook.unit.begin(A_TENANT) as tx:
            made = fresh(tx, ResourceUid(an_id()))
            tx.deliveries.add([made])
            leased = replace(
                lease(made, owner="w-1", now=tx.now),
                schedule_index=2,
                losses=1,
                last_outcome=Outcome.HTTP_5XX,
                last_status=503,
            )
            tx.deliveries.save([leased])
            assert tx.deliveries.get([key_of(made)]) == {key_of(made): leased}
            dead = replace(
                leased,
                state=DeliveryState.DEAD_LETTERED,
                reason=DeliveryReason.EXHAUSTED,
                lease_owner=None,
                lease_until=None,
            )
            tx.deliveries.save([dead])
        with stores.webhook.unit.begin(A_TENANT) as tx:
            assert tx.deliveries.get([key_of(made)]) == {key_of(made): dead}
            assert tx.deliveries.get([DeliveryKey(made.received_on, an_id())]) == {}
            tx.deliveries.save([])

    def test_due_ones_come_oldest_first_and_nothing_else(self, stores: Stores) -> None:
        endpoint = ResourceUid(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            late = fresh(tx, endpoint)
            early = fresh(tx, endpoint, due_at=tx.now - HOUR)
            leased = fresh(tx, endpoint)
            rows = [
                late,
                early,
                leased,
                fresh(tx, endpoint, due_at=tx.now + HOUR),
                fresh(tx, endpoint, expires_at=tx.now - HOUR),
                fresh(tx, ResourceUid(an_id())),
            ]
            assert tx.deliveries.add(rows) == len(rows)
            tx.deliveries.save([lease(leased, owner="w", now=tx.now)])
            due = tx.deliveries.due(endpoint, 10)
            assert [one.delivery_id for one in due] == [early.delivery_id, late.delivery_id]
            assert [one.delivery_id for one in tx.deliveries.due(endpoint, 1)] == [
                early.delivery_id
            ]
            assert tx.deliveries.due(endpoint, 0) == []

    @pytest.mark.case("W11")
    def test_leases_that_ran_out_and_expired_ones_are_overdue(self, stores: Stores) -> None:
        endpoint = ResourceUid(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            lost, held, expired, waiting = (fresh(tx, endpoint) for _ in range(4))
            expired = replace(expired, expires_at=tx.now - HOUR)
            tx.deliveries.add([lost, held, expired, waiting])
            tx.deliveries.save([lease(lost, owner="w", now=tx.now - HOUR)])
            tx.deliveries.save([lease(held, owner="w", now=tx.now)])
            overdue = tx.deliveries.overdue(endpoint, 10)
            assert {one.delivery_id for one in overdue} == {lost.delivery_id, expired.delivery_id}
            assert len(tx.deliveries.overdue(endpoint, 1)) == 1
            assert len(tx.deliveries.pending(endpoint, 10)) == 4
            assert len(tx.deliveries.pending(endpoint, 3)) == 3

    def test_the_backlog_is_reported_with_its_first_moments(self, stores: Stores) -> None:
        endpoint = ResourceUid(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            nothing = tx.deliveries.waiting(endpoint)
            assert (nothing.first_due, nothing.leased) == (None, 0)
            first, second, leased = (fresh(tx, endpoint) for _ in range(3))
            first = replace(first, due_at=tx.now - HOUR)
            second = replace(second, expires_at=tx.now + timedelta(minutes=1))
            tx.deliveries.add([first, second, leased])
            tx.deliveries.save([lease(leased, owner="w", now=tx.now)])
            waiting = tx.deliveries.waiting(endpoint)
            assert waiting.first_due == first.due_at
            assert waiting.first_expiry == second.expires_at
            assert waiting.leased == 1
            assert waiting.first_lease_end == tx.now + timedelta(seconds=60)

    def test_the_state_of_an_endpoint_is_made_on_first_use_and_stays(self, stores: Stores) -> None:
        one, two = sorted([ResourceUid(an_id()), ResourceUid(an_id())])
        with stores.webhook.unit.begin(A_TENANT) as tx:
            states = tx.deliveries.states([two, one])
            assert [state.endpoint_uid for state in states] == [one, two]
            assert tx.deliveries.states([]) == []
            changed = replace(
                states[0],
                paused_until=tx.now + HOUR,
                rate_paid_until=tx.now,
                failing_since=tx.now - HOUR,
                consecutive_failures=3,
                last_success_at=tx.now - HOUR,
                disabled=Disabled(by=DisabledBy.GONE, at=tx.now, generation=4),
                handshake=Handshake(
                    address_hash="a" * 64,
                    began_at=tx.now,
                    sent_at=tx.now + HOUR,
                    token_hash="b" * 64,
                    requested_rate=600,
                    answer="HTTP 200",
                    granted_at=tx.now + HOUR,
                    allowed_rate=60,
                ),
                warned_at=tx.now - HOUR,
                pending=7,
                overflow_since=tx.now - HOUR,
                overflow_until=tx.now,
            )
            tx.deliveries.save_state(changed)
        with stores.webhook.unit.begin(A_TENANT) as tx:
            assert tx.deliveries.states([one, two]) == [changed, states[1]]

    def test_deliveries_that_are_added_are_counted_at_their_endpoints(self, stores: Stores) -> None:
        one, two = sorted([ResourceUid(an_id()), ResourceUid(an_id())])
        with stores.webhook.unit.begin(A_TENANT) as tx:
            tx.deliveries.states([one, two])
            tx.deliveries.hasten([one, two], added=1)
            tx.deliveries.hasten([two], added=3)
        with stores.webhook.unit.begin(A_TENANT) as tx:
            assert [state.pending for state in tx.deliveries.states([one, two])] == [1, 4]

    @pytest.mark.case("W41")
    def test_a_marked_endpoint_is_released_by_the_service_with_its_secrets(
        self, stores: Stores
    ) -> None:
        endpoint = an_endpoint(finalizers=("datarecs.io/webhook-drain", "example.com/mine"))
        with stores.api.unit.begin(A_TENANT, feed=1) as tx:
            tx.resources.add(endpoint)
            tx.secrets.put(endpoint.uid, "signing", "k1", b"sealed")
        for finalizer, is_left in (
            ("datarecs.io/webhook-drain", True),
            ("example.com/mine", False),
        ):
            with stores.api.unit.begin(A_TENANT, feed=1) as tx:
                stored = tx.resources.get_by_uid(endpoint.uid)
                assert stored is not None
                marked = replace(stored, deletion_at=tx.now, rv=tx.next_rv())
                assert tx.resources.replace(marked, expected_rv=stored.rv)
            with stores.webhook.unit.begin(A_TENANT, feed=1) as tx:
                release_resource(tx, endpoint.uid, finalizer, actor="controller/WebhookEndpoint")
            with stores.webhook.unit.begin(A_TENANT) as tx:
                assert (tx.resources.get_by_uid(endpoint.uid) is not None) == is_left
                assert bool(tx.secrets.live(endpoint.uid, "signing")) == is_left

    def test_a_claim_moves_the_next_claim_by_five_seconds(self, stores: Stores) -> None:
        endpoint = ResourceUid(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            tx.deliveries.states([endpoint])
        assert stores.webhook.finder.claim_deliveries(10) == []
        with stores.webhook.unit.begin(A_TENANT) as tx:
            tx.deliveries.states([endpoint])
            tx.deliveries.hasten([endpoint])
            tx.deliveries.hasten([])
        assert stores.webhook.finder.claim_deliveries(10) == [(A_TENANT, endpoint)]
        assert stores.webhook.finder.claim_deliveries(10) == []
        with stores.webhook.unit.begin(A_TENANT) as tx:
            (state,) = tx.deliveries.states([endpoint])
            assert state.next_claim_at is not None
            left = state.next_claim_at - tx.now
            assert timedelta(seconds=2) < left <= timedelta(seconds=5)

    def test_the_longest_due_endpoint_of_any_tenant_is_claimed_first(self, stores: Stores) -> None:
        ours, theirs = ResourceUid(an_id()), ResourceUid(an_id())
        for tenant, endpoint, ago in ((A_TENANT, ours, HOUR), (B_TENANT, theirs, 2 * HOUR)):
            with stores.webhook.unit.begin(tenant) as tx:
                (state,) = tx.deliveries.states([endpoint])
                tx.deliveries.save_state(replace(state, next_claim_at=tx.now - ago))
        assert stores.webhook.finder.claim_deliveries(1) == [(B_TENANT, theirs)]
        assert stores.webhook.finder.claim_deliveries(1) == [(A_TENANT, ours)]

    def test_an_attempt_is_opened_before_and_closed_once_after(self, stores: Stores) -> None:
        with stores.webhook.unit.begin(A_TENANT) as tx:
            made = fresh(tx, ResourceUid(an_id()))
            tx.deliveries.add([made])
            opened = WebhookAttempt(
                key=key_of(made), attempt_no=1, lease_epoch=1, worker="w-1", started_at=tx.now
            )
            tx.deliveries.open_attempts([opened])
            assert tx.deliveries.attempts(key_of(made)) == [opened]
            closed = replace(
                opened,
                trace_id="a" * 32,
                finished_at=tx.now,
                outcome=Outcome.HTTP_4XX,
                phases={"dns": 1, "total": 30},
                url="https://receiver.example.com/hook?token=***",
                request_headers={"webhook-id": "x", "Authorization": "***"},
                body_sha256="b" * 64,
                key_ids=("k1", "k2"),
                status=404,
                response_headers={"content-type": "text/plain"},
                response_body=b"\x00\xff not found",
                truncated=True,
                error="HTTP 404",
                address_class="private",
            )
            tx.deliveries.close_attempts([closed])
            tx.deliveries.close_attempts([replace(closed, status=200)])
            tx.deliveries.close_attempts([])
            tx.deliveries.open_attempts([])
        with stores.webhook.unit.begin(A_TENANT) as tx:
            assert tx.deliveries.attempts(key_of(made)) == [closed]

    @pytest.mark.case("W42")
    def test_another_tenant_sees_claims_and_changes_nothing(self, stores: Stores) -> None:
        endpoint, event = ResourceUid(an_id()), EventId(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            made = fresh(tx, endpoint, event_id=event)
            tx.deliveries.store_event(event, a_message(event))
            tx.deliveries.add([made])
        with stores.webhook.unit.begin(B_TENANT) as tx:
            assert tx.deliveries.get([key_of(made)]) == {}
            assert tx.deliveries.of_endpoint(endpoint, 10) == []
            assert tx.deliveries.due(endpoint, 10) == []
            assert tx.deliveries.waiting(endpoint).first_due is None
            assert tx.deliveries.attempts(key_of(made)) == []
            (state,) = tx.deliveries.states([endpoint])
            tx.deliveries.save_state(replace(state, consecutive_failures=9))
        with stores.webhook.unit.begin(A_TENANT) as tx:
            (state,) = tx.deliveries.states([endpoint])
            assert state.consecutive_failures == 0

    def test_newest_deliveries_come_first(self, stores: Stores) -> None:
        endpoint = ResourceUid(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            old = fresh(tx, endpoint, created_at=tx.now - HOUR)
            new = fresh(tx, endpoint)
            tx.deliveries.add([old, new])
            listed = tx.deliveries.of_endpoint(endpoint, 10)
            assert [one.delivery_id for one in listed] == [new.delivery_id, old.delivery_id]
            assert len(tx.deliveries.of_endpoint(endpoint, 1)) == 1

    def test_the_newest_are_paged_and_filtered_by_state(self, stores: Stores) -> None:
        endpoint = ResourceUid(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            at = tx.now - HOUR  # two with the same time are distinguished by their ids
            made = [fresh(tx, endpoint, created_at=moment) for moment in (at, at, tx.now)]
            tx.deliveries.add(made)
            newest = tx.deliveries.of_endpoint(endpoint, 10)
            for place, last in enumerate(newest):
                before = (last.created_at, last.delivery_id)
                following = tx.deliveries.of_endpoint(endpoint, 10, before=before)
                assert following == newest[place + 1 :]
            dead = replace(
                newest[1],
                state=DeliveryState.DEAD_LETTERED,
                reason=DeliveryReason.EXHAUSTED,
            )
            tx.deliveries.get([key_of(dead)])
            tx.deliveries.save([dead])
            wanted = DeliveryState.DEAD_LETTERED
            assert tx.deliveries.of_endpoint(endpoint, 10, state=wanted) == [dead]
