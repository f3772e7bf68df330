"""GET /webhook-endpoints/{name}/deliveries: what became of an endpoint's events."""

from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.ports.delivery import DeliveryKey, WebhookAttempt
from datarecs_core.access.permissions import Role
from datarecs_core.resources.resource import Kind
from datarecs_core.values import ResourceUid
from datarecs_core.webhooks.delivery import DeliveryState
from datarecs_core.webhooks.outcome import Outcome
from datarecs_testing.api import MemoryApiHouse, declare, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.clock import NOON
from datarecs_testing.deliveries import a_delivery

HOOKS = "/api/v1/webhook-endpoints"


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def place(house: MemoryApiHouse) -> str:
    """Path of an endpoint with three deliveries; the newest one has failed once."""
    place = declare(house.caller(), Kind.WEBHOOK_ENDPOINT)
    with house.unit.begin(A_TENANT) as tx:
        endpoint = tx.resources.get(Kind.WEBHOOK_ENDPOINT, "default", "erp-hook")
        assert endpoint is not None
        uid = ResourceUid(endpoint.uid)
        made = [
            a_delivery(endpoint_uid=uid, created_at=NOON + timedelta(minutes=number))
            for number in range(3)
        ]
        tx.deliveries.add(made)
        last = replace(made[-1], state=DeliveryState.PENDING, attempt_no=1)
        tx.deliveries.save([last])
        attempt = WebhookAttempt(
            key=DeliveryKey(last.received_on, last.delivery_id),
            attempt_no=1,
            lease_epoch=1,
            worker="w",
            started_at=NOON,
        )
        ended = replace(
            attempt,
            finished_at=NOON + timedelta(seconds=1),
            outcome=Outcome.HTTP_5XX,
            status=503,
            phases={"total": 1000},
            url="https://erp.example.com/hooks/recon",
            request_headers={"webhook-signature": "***"},
            response_headers={"x": "y"},
            response_body=b"busy \xff",
        )
        tx.deliveries.open_attempts([attempt])
        tx.deliveries.close_attempts([ended])
    return place


def test_the_newest_come_first_with_their_attempts(house: MemoryApiHouse, place: str) -> None:
    items = house.caller().get(f"{place}/deliveries").json()["items"]
    assert [one["created_at"][14:16] for one in items] == ["02", "01", "00"]
    (attempt,) = items[0]["attempts"]
    assert (attempt["status"], attempt["outcome"]) == (503, "HTTP_5XX")
    assert attempt["phases"] == {"total": 1000}
    assert attempt["response_body"] == "busy \ufffd"
    assert items[1]["attempts"] == []
    limited = house.caller().get(f"{place}/deliveries?limit=2").json()["items"]
    assert limited == items[:2]


def test_pages_hold_each_delivery_once(house: MemoryApiHouse, place: str) -> None:
    caller, listed = house.caller(), list[str]()
    whole = caller.get(f"{place}/deliveries").json()
    assert whole["next"] is None
    path: str | None = f"{place}/deliveries?limit=1"
    while path is not None:
        answer = caller.get(path)
        listed += [one["delivery_id"] for one in answer.json()["items"]]
        path = answer.links["next"]["url"] if "Link" in answer.headers else None
        assert (path is None) is (answer.json()["next"] is None)
    assert listed == [one["delivery_id"] for one in whole["items"]]


def test_a_state_is_filtered_by_the_server(house: MemoryApiHouse, place: str) -> None:
    caller = house.caller()
    assert len(caller.get(f"{place}/deliveries?state=PENDING").json()["items"]) == 3
    assert caller.get(f"{place}/deliveries?state=DEAD_LETTERED").json()["items"] == []
    assert caller.get(f"{place}/deliveries?state=LOST").status_code == 422


@pytest.mark.case("U28")
def test_a_cursor_is_good_for_its_list_alone(house: MemoryApiHouse, place: str) -> None:
    caller = house.caller()
    cursor = caller.get(f"{place}/deliveries?limit=1").json()["next"]
    other = house.caller(B_TENANT)
    elsewhere = declare(other, Kind.WEBHOOK_ENDPOINT)
    for answer in (
        caller.get(f"{place}/deliveries?state=PENDING&cursor={cursor}"),
        other.get(f"{elsewhere}/deliveries?cursor={cursor}"),
        caller.get(f"{HOOKS}?cursor={cursor}"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (400, "DR4006")


def test_headers_and_bodies_are_for_those_who_read_samples(
    house: MemoryApiHouse, place: str
) -> None:
    viewer = house.caller(A_TENANT, Role.VIEWER)
    (attempt,) = viewer.get(f"{place}/deliveries").json()["items"][0]["attempts"]
    shown = ("request_headers", "response_headers", "response_body")
    assert [attempt[name] for name in shown] == [None, None, None]
    assert attempt["status"] == 503


@pytest.mark.case("X01")
def test_another_tenants_are_unknown(house: MemoryApiHouse, place: str) -> None:
    bob = house.caller(B_TENANT)
    uid = house.caller().get(place).json()["metadata"]["uid"]
    for name in ("erp-hook", uid, "nothing"):
        answer = bob.get(f"{HOOKS}/{name}/deliveries")
        assert answer.status_code == 404
        assert answer.json()["detail"] == "there is no such WebhookEndpoint"
