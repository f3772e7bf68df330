"""Receivers that do not answer, and a database that restarts: what other receivers notice."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.loops.webhook_sending import WebhookSending
from datarecs_application.ports.delivery import OutgoingWebhook
from datarecs_application.webhook_slots import RequestSlots
from datarecs_core.resources.resource import Resource
from datarecs_core.values import EventId, ResourceUid
from datarecs_core.webhooks.delivery import DeliveryState
from datarecs_core.webhooks.endpoint import Filter, Limits, Retry, WebhookEndpoint
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.flaky import Flaky
from datarecs_testing.scripted_delivery import OK
from datarecs_testing.webhook_house import WebhookHouse

SECOND = timedelta(seconds=1)
TIMEOUT = timedelta(seconds=15)
QUIET = "io.datarecs.reconciliation.run.cancelled"
TARGET = timedelta(seconds=2)
"""From the event to its first attempt."""


@dataclass
class Crowd:
    """A house with many receivers that hang until the deadline, and some that answer at once."""

    house: WebhookHouse = field(default_factory=WebhookHouse)
    started: dict[int, datetime] = field(default_factory=dict)
    published: dict[EventId, datetime] = field(default_factory=dict)
    first_sent: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """By URL and event."""

    def __post_init__(self) -> None:
        self.house.answer = self.answer

    def declare(self, count: int, kind: str) -> list[Resource]:
        types = (QUIET,) if kind == "hanging" else ("reconciliation.run.finalised",)
        return [
            self.house.declare(
                WebhookEndpoint(
                    url=f"https://{kind}-{number}.example.com/",
                    filter=Filter(types=types),
                    limits=Limits(rate_per_minute=6000),
                    retry=Retry(delays=(SECOND,) * 20),
                )
            )
            for number in range(count)
        ]

    def answer(self, request: OutgoingWebhook) -> AttemptEnd | None:
        now = self.house.clock.now()
        event = dict(request.headers)["webhook-id"]
        self.first_sent.setdefault((request.url, event), now)
        if "hanging" not in request.url:
            return OK
        began = self.started.setdefault(id(request), now)
        return AttemptEnd(outcome=Outcome.TIMEOUT) if now - began >= TIMEOUT else None

    def publish(self) -> None:
        self.published[self.house.publish()] = self.house.clock.now()

    def delays(self) -> list[timedelta]:
        """From each event to its first attempt at each healthy receiver."""
        return [
            at - self.published[event]
            for event in self.published
            for (_, sent), at in self.first_sent.items()
            if sent == str(event)
        ]


def until_all_claimed(loop: WebhookSending) -> None:
    for _ in range(12):
        loop.turn()


@pytest.mark.case("W43")
def test_healthy_receivers_are_served_in_time_while_many_others_hang() -> None:
    crowd = Crowd()
    crowd.declare(40, "hanging")
    healthy = crowd.declare(4, "healthy")
    loop = crowd.house.sending()
    loop.max_in_flight = 16
    loop.__post_init__()
    crowd.publish()
    until_all_claimed(loop)
    for _ in range(4):
        crowd.house.publish(type_=QUIET)
    for _ in range(30):
        crowd.publish()
        until_all_claimed(loop)
        crowd.house.clock.advance(SECOND)
    assert len(crowd.delays()) == 31 * len(healthy)
    assert max(crowd.delays()) <= TARGET
    assert crowd.house.client.most_in_flight >= 8
    hanging = [url for url, _ in crowd.first_sent if "hanging" in url]
    assert len(set(hanging)) >= 4, "receivers that hang take turns"


@pytest.mark.case("W43")
def test_no_delivery_is_lost_when_the_database_restarts_under_load() -> None:
    crowd = Crowd()
    healthy = crowd.declare(4, "healthy")
    loop = crowd.house.sending()
    away = StoreUnavailableError(cause="restart")
    for turn in range(20):
        crowd.publish()
        loop.unit_of_work = Flaky(crowd.house.unit, 3, away, passing=turn % 5)
        for _ in range(3):
            with_outage(loop)
        loop.unit_of_work = crowd.house.unit
        crowd.house.clock.advance(SECOND)
    crowd.house.clock.advance(timedelta(minutes=2))
    for _ in range(100):
        loop.turn()
        crowd.house.clock.advance(SECOND)
    ends = [one.state for endpoint in healthy for one in crowd.house.deliveries(endpoint)]
    assert ends == [DeliveryState.SUCCEEDED] * 20 * len(healthy)


def with_outage(loop: WebhookSending) -> None:
    try:
        loop.turn()
    except StoreUnavailableError:
        return


def test_endpoints_without_a_success_share_half_of_the_requests() -> None:
    slots = RequestSlots(4)
    one, two, three = ((A_TENANT, ResourceUid(an_id())) for _ in range(3))
    assert [slots.room(each) for each in (one, two)] == [2, 2]
    slots.opened(one)
    assert [slots.room(each) for each in (one, two)] == [1, 1]
    slots.closed(one, is_success=True)
    assert slots.room(one) == 4
    for _ in range(2):
        slots.opened(two)
    assert [slots.room(each) for each in (one, two, three)] == [2, 0, 0]
    slots.opened(one)
    slots.closed(one, is_success=False)
    assert slots.room(one) == 0
    slots.closed(two, is_success=True)
    assert [slots.room(each) for each in (one, two)] == [2, 3]
