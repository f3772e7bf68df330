"""Conformance suite of WebhookActions, and of the reads for actions."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from datarecs_application.ports.state import Transaction
from datarecs_core.values import EventId, ResourceUid
from datarecs_core.webhooks.actions import (
    ActionState,
    Position,
    WebhookAction,
    Window,
    close,
)
from datarecs_core.webhooks.delivery import DeliveryReason, DeliveryState, Origin, lease
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id
from datarecs_testing.conformance.deliveries import fresh, key_of
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.deliveries import a_message

HOUR = timedelta(hours=1)


def an_action(tx: Transaction, **changes: Any) -> WebhookAction:  # noqa: ANN401  any field
    """A recover of the last hour."""
    values: dict[str, Any] = {
        "tenant_id": tx.tenant_id,
        "action_id": an_id(),
        "endpoint_uid": ResourceUid(an_id()),
        "kind": Origin.RECOVER,
        "requested_by": "u-ana",
        "created_at": tx.now,
        "window": Window(since=tx.now - HOUR, until=tx.now, only_missing=True),
        "expected": 3,
    }
    return WebhookAction(**values | changes)


class WebhookActionsConformance:
    """Subclass with a fixture `stores`."""

    def test_an_action_comes_back_with_every_field(self, stores: Stores) -> None:
        with stores.api.unit.begin(A_TENANT) as tx:
            recover = an_action(tx)
            resend = an_action(tx, kind=Origin.RESEND, window=None, deliveries=(an_id(), an_id()))
            test = an_action(tx, kind=Origin.TEST, window=None, example="x.y")
            types = ("reconciliation.run.**",)
            window = Window(since=tx.now - HOUR, until=tx.now, types=types, only_missing=False)
            replay = an_action(tx, kind=Origin.REPLAY, window=window)
            actions = [recover, resend, test, replay]
            assert [tx.webhook_actions.add(one) for one in actions] == [True] * 4
        with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            assert [tx.webhook_actions.read(one.action_id) for one in actions] == actions
            assert tx.webhook_actions.read(an_id()) is None

    def test_the_progress_of_an_action_is_stored_by_the_service(self, stores: Stores) -> None:
        with stores.api.unit.begin(A_TENANT) as tx:
            action = an_action(tx)
            tx.webhook_actions.add(action)
        with stores.webhook.unit.begin(A_TENANT) as tx:
            (locked,) = tx.webhook_actions.open(10)
            moved = replace(
                locked,
                position=Position(tx.now.date(), EventId(an_id())),
                made=7,
                first_delivery=an_id(),
            )
            tx.webhook_actions.save(moved)
            assert tx.webhook_actions.get(action.action_id) == moved
            tx.webhook_actions.save(close(moved, ActionState.DONE, now=tx.now))
        with stores.webhook.unit.begin(A_TENANT) as tx:
            assert tx.webhook_actions.open(10) == []
            stored = tx.webhook_actions.get(action.action_id)
            assert stored is not None
            assert (stored.state, stored.made) == (ActionState.DONE, 7)

    def test_an_endpoint_has_one_open_window_and_any_number_of_tests(self, stores: Stores) -> None:
        endpoint = ResourceUid(an_id())
        with stores.api.unit.begin(A_TENANT) as tx:
            first = an_action(tx, endpoint_uid=endpoint)
            second = an_action(tx, endpoint_uid=endpoint, kind=Origin.REPLAY)
            test = an_action(tx, endpoint_uid=endpoint, kind=Origin.TEST, window=None)
            other = an_action(tx)
            added = [tx.webhook_actions.add(one) for one in (first, second, test, other)]
            assert added == [True, False, True, True]
            tx.webhook_actions.save(close(first, ActionState.CANCELLED, now=tx.now))
            assert tx.webhook_actions.add(second)

    def test_tenants_with_open_actions_are_due(self, stores: Stores) -> None:
        assert stores.webhook.finder.due_tenants("webhook_actions") == []
        with stores.api.unit.begin(A_TENANT) as tx:
            action = an_action(tx)
            tx.webhook_actions.add(action)
            tx.webhook_actions.add(an_action(tx))
        with stores.api.unit.begin(B_TENANT) as tx:
            assert tx.webhook_actions.read(action.action_id) is None
            assert tx.webhook_actions.get(action.action_id) is None
        assert stores.webhook.finder.due_tenants("webhook_actions") == [(A_TENANT, 2)]

    def test_closed_actions_are_forgotten_after_their_time(self, stores: Stores) -> None:
        with stores.api.unit.begin(A_TENANT) as tx:
            closed = close(an_action(tx), ActionState.DONE, now=tx.now - HOUR)
            tx.webhook_actions.add(closed)
            still_open = an_action(tx)
            tx.webhook_actions.add(still_open)
        with stores.webhook.unit.begin(A_TENANT) as tx:
            tx.webhook_actions.forget(tx.now - 2 * HOUR)
            assert tx.webhook_actions.read(closed.action_id) is not None
            tx.webhook_actions.forget(tx.now)
            assert tx.webhook_actions.read(closed.action_id) is None
            assert tx.webhook_actions.read(still_open.action_id) is not None

    def test_stored_events_are_paged_by_key_and_bounded_by_time(self, stores: Stores) -> None:
        events = [EventId(an_id()) for _ in range(3)]
        with stores.webhook.unit.begin(A_TENANT) as tx:
            for event in events:
                message = replace(a_message(event), values={"result": "UNMATCHED"})
                tx.deliveries.store_event(event, message)
            start = tx.now
        with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            end = start + HOUR
            every = tx.deliveries.stored(start, end, after=None, limit=10)
            assert [where.event_id for where, _ in every] == sorted(events)
            assert every[0][1].attributes == a_message(every[0][0].event_id).attributes
            assert every[0][1].data == b""
            assert every[0][1].values == {"result": "UNMATCHED"}
            paged = tx.deliveries.stored(start, end, after=every[0][0], limit=1)
            assert paged == every[1:2]
            assert tx.deliveries.stored(start - HOUR, start, after=None, limit=10) == []
        with stores.api.unit.begin(B_TENANT, read_only=True) as tx:
            assert tx.deliveries.stored(start, end, after=None, limit=10) == []

    def test_events_that_succeeded_wait_or_were_replaced_are_served(self, stores: Stores) -> None:
        endpoint = ResourceUid(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            waiting, leased, succeeded, dead, replaced = rows = [
                fresh(tx, endpoint) for _ in range(5)
            ]
            elsewhere = fresh(tx, ResourceUid(an_id()))
            tx.deliveries.add([*rows, elsewhere])
            ends = [
                lease(leased, owner="w", now=tx.now),
                replace(succeeded, state=DeliveryState.SUCCEEDED),
                replace(dead, state=DeliveryState.DEAD_LETTERED),
                replace(replaced, state=DeliveryState.DISCARDED, reason=DeliveryReason.SUPERSEDED),
            ]
            tx.deliveries.save(ends)
        with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            positions = [Position(one.received_on, one.event_id) for one in (*rows, elsewhere)]
            served = tx.deliveries.served(endpoint, positions)
            assert served == {one.event_id for one in (waiting, leased, succeeded, replaced)}
            assert tx.deliveries.served(endpoint, []) == set()

    @pytest.mark.case("W36")
    def test_an_action_repeats_an_event_that_was_delivered(self, stores: Stores) -> None:
        event = EventId(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            day = tx.deliveries.store_event(event, a_message(event))
            live = fresh(tx, ResourceUid(an_id()), event_id=event)
            again = replace(
                live,
                delivery_id=an_id(),
                origin=Origin.RESEND,
                priority=Origin.RESEND.priority,
                action_id=an_id(),
                received_on=day + timedelta(days=1),
                event_on=day,
            )
            twice = replace(again, delivery_id=an_id())
            assert tx.deliveries.add([live, again]) == 2
            assert tx.deliveries.add([twice]) == 0
            assert tx.deliveries.get([key_of(again)]) == {key_of(again): again}
            assert tx.deliveries.messages([again]) == {event: a_message(event)}
            ids = [again.delivery_id, live.delivery_id, an_id()]
            assert tx.deliveries.by_id(ids) == [live, again]

    def test_tests_come_first_and_repeated_events_last(self, stores: Stores) -> None:
        endpoint = ResourceUid(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            origins = (Origin.REPLAY, Origin.EVENT, Origin.TEST)
            rows = [
                fresh(tx, endpoint, origin=one, priority=one.priority, due_at=tx.now - HOUR)
                for one in origins
            ]
            tx.deliveries.add(rows)
            due = tx.deliveries.due(endpoint, 10)
            assert [one.origin for one in due] == [Origin.TEST, Origin.EVENT, Origin.REPLAY]
            (test,) = tx.deliveries.due(endpoint, 10, tests_only=True)
            assert test.origin is Origin.TEST
            assert tx.deliveries.waiting(endpoint).first_test == test.due_at
