"""Alert mails of endpoints, overflow and deletion, over the webhook-service in memory."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.loops.mail_sending import MailSending, RelayHealth
from datarecs_application.mailing import Sending
from datarecs_application.notifications import MailPolicy
from datarecs_application.resources import ANY, Key, delete_resource
from datarecs_core.access.principal import Principal
from datarecs_core.notifications.evaluation import SkipReason
from datarecs_core.notifications.feedback import NewSuppression, SuppressionReason
from datarecs_core.notifications.mail import Mail, MailState
from datarecs_core.resources.resource import Resource
from datarecs_core.values import EventId
from datarecs_core.webhooks.actions import ActionState, WebhookAction, Window
from datarecs_core.webhooks.delivery import Delivery, DeliveryReason, DeliveryState, Origin
from datarecs_core.webhooks.endpoint import AutoDisable, Filter, Limits, Retry, WebhookEndpoint
from datarecs_core.webhooks.health import EndpointState
from datarecs_core.webhooks.outcome import AttemptEnd
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_reports.mail import MailTemplates
from datarecs_runtime.clock import Latch
from datarecs_testing.builders import A_TENANT, NOON, an_id
from datarecs_testing.scripted_delivery import OK, ScriptedMailer, answered
from datarecs_testing.webhook_house import WebhookHouse as House

HOUR = timedelta(hours=1)
ANA, BEN = "ana@example.com", "ben@example.com"
ANN = Principal(tenant_id=A_TENANT, subject="ann", key_id="key1")
URL = "https://a.example.com/hook?key=secret"
WATCHED = WebhookEndpoint(url=URL, alert_emails=(ANA, BEN))


def mails(house: House) -> list[Mail]:
    return sorted(
        house.store.committed(A_TENANT).delivery.mails.values(), key=lambda one: one.created_at
    )


def subjects(house: House) -> list[str]:
    return [mail.notice.subject for mail in mails(house) if mail.notice]


def state_of(house: House, endpoint: Resource) -> EndpointState:
    return house.store.committed(A_TENANT).delivery.endpoints[endpoint.uid]


def stored(house: House, endpoint: Resource) -> Resource:
    return house.store.committed(A_TENANT).resources[endpoint.uid]


def notifier(house: House, mailer: ScriptedMailer) -> MailSending:
    """The email-notifier over the same store."""
    templates = MailTemplates(
        sender="datarecs@mail.example.com",
        mail_domain="mail.example.com",
        base_url="https://recs.example.com",
    )
    policy = MailPolicy(mail_domain="mail.example.com", domains={A_TENANT: {"example.com"}})
    return MailSending(
        MemoryWorkFinder(house.store),
        house.unit,
        mailer,
        sending=Sending(
            renderer=templates,
            policy=policy,
            ids=house.store.ids,
            owner="n-1",
            relay=mailer.relay,
        ),
        health=RelayHealth(house.clock),
        jitter=lambda: 0.5,
        metrics=house.metrics,
        clock=house.clock,
        wake=Latch(),
    )


def send_mails(house: House, mailer: ScriptedMailer) -> None:
    loop = notifier(house, mailer)
    while loop.turn():
        pass


@pytest.mark.case("W13")
def test_a_410_queues_event_and_mail_with_the_change_and_holds_what_waits() -> None:
    house = House(answer=lambda _: answered(410))
    endpoint = house.declare(replace(WATCHED, limits=Limits(max_concurrent=1)))
    house.publish()
    house.publish()
    commits = []
    loop = house.sending()
    while "webhook.endpoint.auto_disabled" not in house.event_types():
        commits.append((len(mails(house)), state_of(house, endpoint).disabled))
        house.run(loop, turns=1)
    assert set(commits) == {(0, None)}
    assert [mail.recipient for mail in mails(house)] == [ANA, BEN]
    assert set(subjects(house)) == {f"Webhook {endpoint.name} is disabled"}
    house.run(loop, turns=5)
    assert len(house.client.sent) == 1
    states = sorted(one.state for one in house.deliveries(endpoint))
    assert states == [DeliveryState.DEAD_LETTERED, DeliveryState.PENDING]
    disabled = state_of(house, endpoint).disabled
    assert disabled is not None
    assert disabled.by == "gone"
    text = str([mail.notice for mail in mails(house)])
    assert "a.example.com" in text
    assert "secret" not in text


def fail_for(house: House, hours: float) -> None:
    """Half an hour at a time, an event in each."""
    loop, end = house.sending(), house.clock.now() + hours * HOUR
    while house.clock.now() < end:
        house.publish()
        house.run(loop, turns=2)
        house.clock.advance(HOUR / 2)
    house.run(loop, turns=2)


@pytest.mark.case("W31")
def test_days_of_failures_are_one_warning_and_one_auto_disable_with_one_event() -> None:
    house = House(answer=lambda _: answered(500))
    spec = replace(WATCHED, alert_emails=(ANA,), filter=Filter(operational=True))
    endpoint = house.declare(spec)
    fail_for(house, 23)
    assert subjects(house) == []
    fail_for(house, 2)
    assert subjects(house) == [f"Webhook {endpoint.name} has failed for 24 hours"]
    fail_for(house, 100)
    assert subjects(house)[1:] == [f"Webhook {endpoint.name} is disabled"]
    assert house.event_types("webhook.endpoint") == ["webhook.endpoint.auto_disabled"]


@pytest.mark.case("W31")
def test_a_success_in_between_ends_the_episode_and_says_so_once() -> None:
    answers = {"now": answered(500)}
    house = House(answer=lambda _: answers["now"])
    endpoint = house.declare(replace(WATCHED, alert_emails=(ANA,)))
    fail_for(house, 25)
    answers["now"] = OK
    fail_for(house, 30)
    answers["now"] = answered(500)
    fail_for(house, 23)
    name = endpoint.name
    assert subjects(house) == [
        f"Webhook {name} has failed for 24 hours",
        f"Webhook {name} works again",
    ]
    assert state_of(house, endpoint).disabled is None
    fail_for(house, 2)
    assert subjects(house)[2:] == [f"Webhook {name} has failed for 24 hours"]


def test_a_warning_says_when_it_is_disabled_and_when_it_never_is() -> None:
    texts = []
    for after in (AutoDisable(after=timedelta(days=3)), AutoDisable(enabled=False)):
        house = House(answer=lambda _: answered(500))
        house.declare(replace(WATCHED, alert_emails=(ANA,), auto_disable=after))
        fail_for(house, 25)
        (mail,) = mails(house)
        assert mail.notice is not None
        texts.append(" ".join(mail.notice.sentences))
    moment = (NOON + timedelta(days=3)).strftime("%Y-%m-%d %H:%M UTC")
    assert f"It is disabled on {moment} if no attempt succeeds" in texts[0]
    assert "not disabled automatically" in texts[1]


def test_nobody_is_mailed_without_an_address() -> None:
    house = House(answer=lambda _: answered(410))
    house.declare(WebhookEndpoint(url=URL))
    house.publish()
    house.run(house.sending())
    assert "webhook.endpoint.auto_disabled" in house.event_types()
    assert mails(house) == []


@pytest.mark.case("M32")
def test_an_alert_waits_for_the_notifier_and_goes_out_once_per_address() -> None:
    house, mailer = House(answer=lambda _: answered(410)), ScriptedMailer()
    endpoint = house.declare(WATCHED)
    for _ in range(3):
        house.publish()
    house.run(house.sending(), turns=6)
    assert mailer.stored == []
    house.clock.advance(3 * HOUR)
    send_mails(house, mailer)
    send_mails(house, mailer)
    assert sorted(mail.recipient for mail in mailer.stored) == [ANA, BEN]
    assert {mail.state for mail in mails(house)} == {MailState.SENT}
    text = mailer.stored[0].mime.decode()
    assert f"datarecs webhook enable --endpoint {endpoint.name}" in text.replace("=\r\n", "")


def test_an_address_that_the_tenant_may_not_write_to_is_skipped_by_the_notifier() -> None:
    house, mailer = House(answer=lambda _: answered(410)), ScriptedMailer()
    house.declare(replace(WATCHED, alert_emails=("eve@elsewhere.example", ANA, BEN)))
    with house.unit.begin(A_TENANT) as tx:
        tx.mail_choices.suppress(
            NewSuppression(
                recipient_key=BEN,
                reason=SuppressionReason.HARD_BOUNCE,
                text="550",
                ends_at=None,
            )
        )
    house.publish()
    house.run(house.sending())
    send_mails(house, mailer)
    assert [mail.recipient for mail in mailer.stored] == [ANA]
    reasons = {mail.recipient: mail.reason for mail in mails(house)}
    assert reasons["eve@elsewhere.example"] is SkipReason.UNVERIFIED
    assert reasons[BEN] is SkipReason.SUPPRESSED
    assert house.metrics.total("mail_skipped_total", reason="UNVERIFIED") == 1


def a_recover(house: House, endpoint: Resource) -> WebhookAction:
    """Of everything that came in since the overflow began."""
    since = state_of(house, endpoint).overflow_since
    assert since is not None
    window = Window(since=since, until=house.clock.now() + HOUR, only_missing=True)
    return WebhookAction(
        tenant_id=A_TENANT,
        action_id=an_id(),
        endpoint_uid=endpoint.uid,
        kind=Origin.RECOVER,
        requested_by="u-ana",
        created_at=house.clock.now(),
        window=window,
        expected=0,
    )


def ready_reason(house: House, endpoint: Resource) -> object:
    conditions = stored(house, endpoint).status.get("conditions", ())
    assert isinstance(conditions, Iterable)
    return next((one["reason"] for one in conditions if one["type"] == "Ready"), None)


def an_overflow(house: House) -> tuple[Resource, list[EventId]]:
    """An endpoint with 1,000 failing deliveries, and the events that got none."""
    limits = Limits(max_pending=1_000, rate_per_minute=6_000, max_concurrent=32)
    endpoint = house.declare(replace(WATCHED, alert_emails=(ANA,), limits=limits))
    for _ in range(1_000):
        house.publish()
    house.clock.advance(timedelta(seconds=1))
    return endpoint, [house.publish() for _ in range(7)]


@pytest.mark.case("W44")
def test_an_overflow_makes_no_rows_and_is_mailed_and_shown_once() -> None:
    house = House(answer=lambda _: answered(500))
    endpoint, _ = an_overflow(house)
    assert state_of(house, endpoint).pending == 1_000
    assert len(all_deliveries(house, endpoint)) == 1_000
    assert subjects(house) == [f"Webhook {endpoint.name} overflows"]
    house.run(house.sending(), turns=1)
    assert ready_reason(house, endpoint) == "Overflow"
    assert set(_mapping(stored(house, endpoint).status["last_overflow"])) == {"since"}


@pytest.mark.case("W44")
def test_below_four_fifths_events_are_delivered_again_and_recover_sends_exactly_the_gap() -> None:
    house = House()
    endpoint, gap = an_overflow(house)
    loop = house.sending()
    while True:
        house.clock.advance(timedelta(minutes=1))
        house.run(loop, turns=1)
        event = house.publish()
        if not state_of(house, endpoint).is_overflowing:
            break
        gap.append(event)
    assert state_of(house, endpoint).pending <= 800
    house.run(loop, turns=1)
    assert ready_reason(house, endpoint) == "Enabled"
    assert set(_mapping(stored(house, endpoint).status["last_overflow"])) == {"since", "until"}
    house.play_until_quiet(loop, endpoint)
    assert state_of(house, endpoint).pending == 0

    with house.unit.begin(A_TENANT) as tx:
        assert tx.webhook_actions.add(a_recover(house, endpoint))
    house.expand()
    again = [one for one in all_deliveries(house, endpoint) if one.origin is Origin.RECOVER]
    assert sorted(one.event_id for one in again) == sorted(gap)
    house.play_until_quiet(loop, endpoint)
    assert {one.state for one in all_deliveries(house, endpoint)} == {DeliveryState.SUCCEEDED}
    assert len(subjects(house)) == 1


def _mapping(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def all_deliveries(house: House, endpoint: Resource) -> list[Delivery]:
    with house.unit.begin(A_TENANT, read_only=True) as tx:
        return tx.deliveries.of_endpoint(endpoint.uid, 5_000)


def test_a_recover_waits_for_room_and_delays_no_other_action() -> None:
    house = House(answer=lambda _: answered(500))
    full = house.declare(replace(WATCHED, limits=Limits(max_pending=1_000)))
    for _ in range(1_001):
        house.publish()
    other = house.declare()
    action = a_recover(house, full)
    test = replace(a_recover(house, full), endpoint_uid=other.uid, kind=Origin.TEST, window=None)
    with house.unit.begin(A_TENANT) as tx:
        assert tx.webhook_actions.add(action)
        assert tx.webhook_actions.add(test)
    house.expand()
    with house.unit.begin(A_TENANT, read_only=True) as tx:
        read = [tx.webhook_actions.read(one.action_id) for one in (action, test)]
    assert [one.state for one in read if one] == [ActionState.OPEN, ActionState.DONE]
    assert [one.origin for one in house.deliveries(other)] == [Origin.TEST]


def test_events_whose_transactions_overtake_each_other_stand_in_the_gap() -> None:
    house = House(answer=lambda _: answered(500))
    endpoint = house.declare(replace(WATCHED, limits=Limits(max_pending=1_000)))
    for _ in range(1_000):
        house.publish()
    house.clock.advance(timedelta(seconds=5))
    house.publish()
    with house.unit.begin(A_TENANT) as tx:
        (state,) = tx.deliveries.states([endpoint.uid])
        later = replace(state, overflow_since=tx.now + timedelta(seconds=1))
        tx.deliveries.save_state(later)
    house.publish()
    assert state_of(house, endpoint).overflow_since == house.clock.now()


def deleted(house: House, endpoint: Resource) -> bool:
    """As a person deletes it; True when it is gone at once."""
    with house.unit.begin(A_TENANT, feed=1) as tx:
        key = Key(kind=endpoint.kind, name=endpoint.name, namespace=endpoint.namespace)
        return delete_resource(tx, ANN, key, match=ANY).is_gone


@pytest.mark.case("W41")
def test_a_deleted_endpoint_is_drained_and_then_goes_with_its_secrets() -> None:
    answers = dict[str, AttemptEnd | None](now=None)
    house = House(answer=lambda _: answers["now"])
    spec = replace(WATCHED, limits=Limits(max_concurrent=2))
    endpoint, loop = house.declare(spec), house.sending()
    for _ in range(1_000):
        house.publish()
    house.run(loop, turns=1)
    assert len(house.client.sent) == 2
    assert not deleted(house, endpoint)
    marked = stored(house, endpoint)
    assert marked.finalizers == ("datarecs.io/webhook-drain",)
    house.publish()
    house.run(loop, turns=4)
    states = [one.state for one in all_deliveries(house, endpoint)]
    assert states.count(DeliveryState.DISCARDED) == 998
    assert states.count(DeliveryState.LEASED) == 2
    assert endpoint.uid in house.store.committed(A_TENANT).resources
    answers["now"] = OK
    house.run(loop, turns=4)
    committed = house.store.committed(A_TENANT)
    assert endpoint.uid not in committed.resources
    with house.unit.begin(A_TENANT, read_only=True) as tx:
        assert tx.secrets.live(endpoint.uid, "signing") == []
    log = all_deliveries(house, endpoint)
    assert len(log) == 1_000
    assert {one.reason for one in log if one.state is DeliveryState.DISCARDED} == {
        DeliveryReason.ENDPOINT_DELETED
    }
    assert "resource.webhookendpoint.deleted" in house.event_types("resource.")
    house.clock.advance(timedelta(seconds=30))
    house.run(loop, turns=1)
    assert state_of(house, endpoint).next_claim_at is None


@pytest.mark.case("W41")
def test_a_lost_attempt_does_not_hold_a_deleted_endpoint_for_ever() -> None:
    house = House(answer=lambda _: None)
    endpoint, loop = house.declare(replace(WATCHED, retry=Retry(delays=()))), house.sending()
    house.publish()
    house.run(loop, turns=1)
    assert not deleted(house, endpoint)
    house.clock.advance(timedelta(seconds=61))
    house.run(house.sending("w-2"), turns=3)
    assert endpoint.uid not in house.store.committed(A_TENANT).resources


@pytest.mark.case("W41")
def test_an_endpoint_without_open_deliveries_goes_at_once() -> None:
    house = House()
    endpoint = house.declare()
    house.publish()
    house.play_until_quiet(house.sending(), endpoint)
    assert deleted(house, endpoint)
