"""Actions of users end to end in memory: the request, its expansion, the requests that follow."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from datarecs_application.ports.state import Transaction
from datarecs_application.webhook_actions import cancel_action, count_window, request_action
from datarecs_core.resources.resource import Resource
from datarecs_core.runs.model import RunResult
from datarecs_core.values import EventId, ResourceUid
from datarecs_core.webhooks.actions import ActionState, WebhookAction, Window
from datarecs_core.webhooks.delivery import DeliveryState, Origin
from datarecs_core.webhooks.endpoint import DataFilter, Filter, Retry, WebhookEndpoint
from datarecs_core.webhooks.matching import EndpointFacts
from datarecs_core.webhooks.refusals import ActionOpenError, TooManyMessagesError
from datarecs_testing.builders import A_TENANT, a_resource, an_id
from datarecs_testing.deliveries import FINALISED, a_message, read_endpoint
from datarecs_testing.scripted_delivery import OK, answered
from datarecs_testing.webhook_house import WebhookHouse

DAY = timedelta(days=1)


def request(
    house: WebhookHouse,
    endpoint: Resource,
    kind: Origin,
    **parts: Any,  # noqa: ANN401  any field of WebhookAction
) -> UUID:
    """What core-api writes; the id of the action."""
    with house.unit.begin(A_TENANT, feed=8) as tx:
        if kind in {Origin.RECOVER, Origin.REPLAY}:
            parts["window"] = parts.get("window") or window(house, kind)
            parts["expected"] = count(tx, endpoint, parts["window"])
        action = WebhookAction(
            tenant_id=A_TENANT,
            action_id=house.store.ids.new(),
            endpoint_uid=endpoint.uid,
            kind=kind,
            requested_by="u-ana",
            created_at=tx.now,
            **{"expected": 1} | parts,
        )
        return request_action(tx, endpoint, action).action_id


def window(
    house: WebhookHouse,
    kind: Origin,
    **changes: Any,  # noqa: ANN401  any field of Window
) -> Window:
    now = house.clock.now()
    fields: dict[str, Any] = {"since": now - 2 * DAY, "until": now + timedelta(seconds=1)}
    return Window(**fields | {"only_missing": kind is Origin.RECOVER} | changes)


def count(tx: Transaction, endpoint: Resource, chosen: Window) -> int:
    facts = EndpointFacts(
        uid=endpoint.uid, created_at=endpoint.created_at, spec=read_endpoint(endpoint.spec)
    )
    return count_window(tx, facts, chosen)


def stored(house: WebhookHouse, action_id: UUID) -> WebhookAction:
    with house.unit.begin(A_TENANT, read_only=True) as tx:
        action = tx.webhook_actions.read(action_id)
    assert action is not None
    return action


def change(house: WebhookHouse, endpoint: Resource, spec: WebhookEndpoint) -> Resource:
    changed = replace(
        endpoint,
        spec={**endpoint.spec, "enabled": spec.enabled},
        generation=endpoint.generation + 1,
        rv=endpoint.rv + 1,
    )
    with house.unit.begin(A_TENANT) as tx:
        assert tx.resources.replace(changed, expected_rv=endpoint.rv)
    return changed


def sent_reasons(house: WebhookHouse) -> list[str]:
    return [dict(one.headers)["datarecs-reason"] for one in house.client.sent]


@pytest.mark.case("W37")
def test_a_disabled_endpoint_gets_one_test_and_stays_disabled() -> None:
    house = WebhookHouse(answer=lambda _: answered(500))
    endpoint = house.declare(WebhookEndpoint(url="https://a.example.com/", enabled=False))
    house.publish()
    action_id = request(house, endpoint, Origin.TEST)
    house.expand()
    house.play_until_quiet(house.sending(), endpoint)
    (sent,) = house.client.sent
    event = json.loads(sent.body)
    assert (event["type"], event["source"]) == (
        "io.datarecs.webhook.test",
        "/datarecs/webhook-service",
    )
    assert b'"probe":0.010' in sent.body
    assert sent_reasons(house) == ["test"]
    (delivery,) = house.deliveries(endpoint)
    assert (delivery.state, delivery.attempt_no) == (DeliveryState.DEAD_LETTERED, 1)
    assert [one.reason for one in house.attempts(delivery)] == ["test"]
    action = stored(house, action_id)
    assert (action.state, action.first_delivery) == (ActionState.DONE, delivery.delivery_id)
    assert house.event_types() == ["webhook.endpoint.test_requested"]


@pytest.mark.case("W37")
def test_the_example_of_a_type_is_marked_as_a_test() -> None:
    house = WebhookHouse()
    endpoint = house.declare()
    request(house, endpoint, Origin.TEST, example=FINALISED)
    house.expand()
    house.run(house.sending())
    (sent,) = house.client.sent
    event = json.loads(sent.body)
    assert (event["type"], event["source"]) == (FINALISED, "/datarecs/test")
    assert (event["testevent"], event["tenantid"]) == ("true", str(A_TENANT))
    assert event["data"]["tenant_id"] == str(A_TENANT)


@pytest.mark.case("W36")
def test_a_resend_makes_a_new_delivery_of_the_same_bytes() -> None:
    house = WebhookHouse(answer=lambda _: answered(500))
    endpoint = house.declare(WebhookEndpoint(url="https://a.example.com/", retry=Retry(delays=())))
    event = house.publish()
    house.run(house.sending())
    (dead,) = house.deliveries(endpoint)
    assert dead.state is DeliveryState.DEAD_LETTERED
    house.clock.advance(3 * DAY)
    action_id = request(house, endpoint, Origin.RESEND, deliveries=(dead.delivery_id,))
    house.expand()
    house.run(house.sending())
    first, second = house.client.sent
    assert first.body == second.body
    assert {dict(one.headers)["webhook-id"] for one in house.client.sent} == {str(event)}
    assert sent_reasons(house) == ["event", "resend"]
    new, old = house.deliveries(endpoint)
    assert old == dead
    assert (new.origin, new.action_id, new.run_id) == (Origin.RESEND, action_id, dead.run_id)
    assert new.received_on == dead.received_on + 3 * DAY
    assert house.event_types("webhook.delivery.re") == [
        "webhook.delivery.resend_requested",
        "webhook.delivery.retried",
    ]


@pytest.mark.case("W34")
def test_recover_sends_what_was_missed_while_disabled_and_once() -> None:
    house = WebhookHouse()
    endpoint = house.declare()
    received = house.publish()
    house.run(house.sending())
    disabled = change(house, endpoint, WebhookEndpoint(url="https://a.example.com/", enabled=False))
    missed = [house.publish() for _ in range(40)]
    enabled = change(house, disabled, WebhookEndpoint(url="https://a.example.com/"))
    action_id = request(house, enabled, Origin.RECOVER)
    again = house.unit
    house.expand()
    house.play_until_quiet(house.sending(), endpoint)
    ids = [dict(one.headers)["webhook-id"] for one in house.client.sent]
    assert sorted(ids) == sorted(map(str, [received, *missed]))
    assert stored(house, action_id).made == 40
    with again.begin(A_TENANT, read_only=True) as tx:
        assert count(tx, enabled, window(house, Origin.RECOVER)) == 0
    assert house.event_types("webhook.delivery.replayed") == ["webhook.delivery.replayed"]


@pytest.mark.case("W35")
def test_replay_sends_as_many_as_its_preview_counts_and_leaves_tests_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("datarecs_application.webhook_actions.CHUNK", 3)
    house = WebhookHouse()
    endpoint = house.declare(
        WebhookEndpoint(
            url="https://a.example.com/", filter=Filter(types=("reconciliation.run.**",))
        )
    )
    for _ in range(7):
        house.publish()
    house.publish(type_="io.datarecs.resource.connection.created")
    request(house, endpoint, Origin.TEST)
    house.expand()
    house.play_until_quiet(house.sending(), endpoint)
    action_id = request(house, endpoint, Origin.REPLAY)
    assert stored(house, action_id).expected == 7
    house.expand()
    house.play_until_quiet(house.sending(), endpoint)
    assert stored(house, action_id).made == 7
    assert sent_reasons(house).count("replay") == 7


def test_types_narrow_a_replay() -> None:
    house = WebhookHouse()
    endpoint = house.declare()
    house.publish()
    house.publish(type_="io.datarecs.reconciliation.run.cancelled")
    chosen = window(house, Origin.REPLAY, types=("reconciliation.run.cancelled",))
    action_id = request(house, endpoint, Origin.REPLAY, window=chosen)
    house.expand()
    assert stored(house, action_id).made == 1


@pytest.mark.case("W06")
def test_a_filter_over_data_narrows_a_replay() -> None:
    house = WebhookHouse()
    job = a_resource(name="ledger")
    with house.unit.begin(A_TENANT) as tx:
        tx.resources.add(job)
    wanted = DataFilter(jobs=("ledger",), results=(RunResult.UNMATCHED,))
    endpoint = house.declare(
        WebhookEndpoint(url="https://a.example.com/", filter=Filter(data=wanted))
    )
    for result in ("MATCHED", "UNMATCHED", "UNMATCHED"):
        house.publish(values={"job_id": str(job.uid), "result": result})
    house.publish(values={"job_id": str(an_id()), "result": "UNMATCHED"})
    request(house, endpoint, Origin.REPLAY)
    house.expand()
    origins = [one.origin for one in house.deliveries(endpoint)]
    assert (origins.count(Origin.EVENT), origins.count(Origin.REPLAY)) == (2, 2)


def test_an_event_about_the_endpoint_is_never_replayed_to_it() -> None:
    house = WebhookHouse()
    endpoint = house.declare(
        WebhookEndpoint(url="https://a.example.com/", filter=Filter(operational=True))
    )
    event = EventId(an_id())
    message = a_message(
        event, type="io.datarecs.webhook.delivery.failed", partitionkey=str(endpoint.uid)
    )
    with house.unit.begin(A_TENANT) as tx:
        tx.deliveries.store_event(event, message)
        assert count(tx, endpoint, window(house, Origin.REPLAY)) == 0
        elsewhere = replace(endpoint, uid=ResourceUid(an_id()))
        assert count(tx, elsewhere, window(house, Origin.REPLAY)) == 1


def test_one_endpoint_has_one_open_window() -> None:
    house = WebhookHouse()
    endpoint = house.declare()
    request(house, endpoint, Origin.RECOVER)
    with pytest.raises(ActionOpenError, match=endpoint.name):
        request(house, endpoint, Origin.REPLAY)
    house.expand()
    request(house, endpoint, Origin.REPLAY)


def test_a_cancelled_action_makes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datarecs_application.webhook_actions.CHUNK", 2)
    house = WebhookHouse()
    endpoint = house.declare()
    for _ in range(5):
        house.publish()
    action_id = request(house, endpoint, Origin.REPLAY)
    house.expanding().turn()
    assert house.metrics.last("webhook_actions_open") == 1
    with house.unit.begin(A_TENANT) as tx:
        cancelled = cancel_action(tx, action_id)
        assert cancel_action(tx, an_id()) is None
    assert cancelled is not None
    assert (cancelled.state, cancelled.made) == (ActionState.CANCELLED, 2)
    house.expand()
    assert stored(house, action_id) == cancelled


def test_a_window_of_too_many_messages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datarecs_application.webhook_actions.MAX_MESSAGES", 2)
    house = WebhookHouse()
    endpoint = house.declare()
    for _ in range(3):
        house.publish()
    with pytest.raises(TooManyMessagesError, match="more than 2 messages"):
        request(house, endpoint, Origin.REPLAY)


def test_the_action_of_a_deleted_endpoint_is_cancelled() -> None:
    house = WebhookHouse()
    endpoint = house.declare()
    action_id = request(house, endpoint, Origin.TEST)
    with house.unit.begin(A_TENANT) as tx:
        tx.resources.remove(endpoint, expected_rv=endpoint.rv)
    house.expand()
    assert stored(house, action_id).state is ActionState.CANCELLED


@pytest.mark.case("W35")
def test_a_live_event_overtakes_a_replay() -> None:
    house = WebhookHouse(answer=lambda _: OK)
    endpoint = house.declare()
    for _ in range(100):
        house.publish()
    house.play_until_quiet(house.sending(), endpoint)
    request(house, endpoint, Origin.REPLAY)
    house.expand()
    house.clock.advance(timedelta(minutes=1))
    live = house.publish()
    before = len(house.client.sent)
    house.run(house.sending(), turns=1)
    assert dict(house.client.sent[before].headers)["webhook-id"] == str(live)
