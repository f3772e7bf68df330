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
