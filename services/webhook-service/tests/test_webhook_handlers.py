import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.errors.base import RunErrorCode
from datarecs_core.resources.resource import Resource
from datarecs_core.runs.events import RunFinalised, RunTriggered
from datarecs_core.runs.model import RunError, RunMode, RunResult
from datarecs_core.values import EventId, JobId, ResourceUid, RunId, TenantId
from datarecs_core.webhooks.delivery import Delivery
from datarecs_core.webhooks.endpoint import DataFilter, Filter, WebhookEndpoint
from datarecs_core.webhooks.events import WebhookDeliveryFailed
from datarecs_events.catalogue import SUBSCRIPTIONS, Service, subscriptions_of
from datarecs_events.codec import EncodedEvent, Stamp, encode
from datarecs_kafka.consumer import Consumer
from datarecs_kafka.dead_letter import letter_of
from datarecs_kafka.handling import Subscription
from datarecs_memory.message_log import MessageLog
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_testing.builders import A_TENANT, B_TENANT, NOON, an_id
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.consuming import Until
from datarecs_testing.deliveries import an_endpoint
from datarecs_testing.metrics import RecordedMetrics
from datarecs_webhook_service.handlers import Handlers
from datarecs_webhook_service.wiring import read_endpoint

DLQ = "webhook-service.dlq"
MINE = subscriptions_of(Service.WEBHOOK_SERVICE)


@dataclass
class World:
    """A broker and a database in memory, and the service's consumer over them."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(by_itself=True))
    metrics: RecordedMetrics = field(default_factory=RecordedMetrics)

    def __post_init__(self) -> None:
        topics = {str(one.topic): 3 for one in SUBSCRIPTIONS} | {DLQ: 3}
        self.log = MessageLog(self.clock, topics)
        self.store = MemoryStore(self.clock, FixedIds())
        self.unit = MemoryUnitOfWork(self.store)

    def declare(
        self, tenant: TenantId = A_TENANT, *, spec: WebhookEndpoint | None = None
    ) -> Resource:
        endpoint = an_endpoint(spec, tenant_id=tenant)
        with self.unit.begin(tenant) as tx:
            tx.resources.add(endpoint)
        return endpoint

    def append(self, encoded: EncodedEvent, **changes: bytes) -> None:
        headers = [
            (name, changes.get(name.removeprefix("ce_"), value)) for name, value in encoded.headers
        ]
        self.log.append(
            str(encoded.topic),
            key=encoded.key_bytes,
            value=changes.get("value", encoded.data),
            headers=headers,
            partition=0,
        )

    def finalised(self, *, tenant: TenantId = A_TENANT) -> EncodedEvent:
        event = RunFinalised(
            run_id=RunId(an_id()),
            job_id=JobId(an_id()),
            tenant_id=tenant,
            result=RunResult.MATCHED,
        )
        stamp = Stamp(event_id=EventId(an_id()), time=NOON + timedelta(seconds=1), sequence=1)
        return encode(event, stamp)

    def consume(self) -> None:
        handlers = Handlers(
            specs=StoredSpecs(read_endpoint),
            ids=self.store.ids,
            base_url="https://recs.example.com",
            metrics=self.metrics,
        )
        consumer = Consumer(
            self.log,
            self.unit,
            group=Service.WEBHOOK_SERVICE,
            subscriptions=tuple(Subscription(one.topic, None, handlers.deliver) for one in MINE),
            metrics=self.metrics,
            clock=self.clock,
            feed=0,
        )
        consumer.run(Until(self.clock, self.clock.monotonic() + 30))

    def deliveries(self, endpoint: Resource) -> list[Delivery]:
        with self.unit.begin(endpoint.tenant_id, read_only=True) as tx:
            return tx.deliveries.of_endpoint(endpoint.uid, 100)

    def reasons(self) -> list[str]:
        return [letter_of(record).reason for record in self.log.records(DLQ)]


@pytest.mark.case("W07")
def test_the_same_record_three_times_is_one_message_and_one_delivery() -> None:
    world = World()
    endpoint = world.declare()
    encoded = world.finalised()
    for _ in range(3):
        world.append(encoded)
    world.consume()
    (delivery,) = world.deliveries(endpoint)
    assert str(delivery.event_id) == encoded.attributes["id"]
    assert len(world.store.committed(A_TENANT).delivery.messages) == 1
    assert world.metrics.total("webhook_fanout_total") == 1
    assert sum(world.log.committed("webhook-service").values()) == 3


@pytest.mark.case("W02")
def test_the_bytes_of_the_record_are_stored_as_they_came() -> None:
    world = World()
    endpoint = world.declare()
    encoded = world.finalised()
    odd = encoded.data.replace(b'"result"', b'"v":0.010 ,"n":12345678901234567890,"result"')
    world.append(encoded, value=odd)
    world.consume()
    (delivery,) = world.deliveries(endpoint)
    message = world.store.committed(A_TENANT).delivery.messages[
        delivery.received_on, delivery.event_id
    ]
    assert message.data == odd


@pytest.mark.case("W39")
def test_a_record_that_breaks_the_contract_is_set_aside_and_the_next_one_goes() -> None:
    world = World()
    endpoint = world.declare()
    world.append(world.finalised(), tenantid=str(B_TENANT).encode())
    world.append(world.finalised(), id=b"019bc0fd.8a3b")
    world.append(world.finalised(), id=b"")
    world.append(world.finalised())
    world.consume()
    assert len(world.deliveries(endpoint)) == 1
    assert sorted(world.reasons()) == ["BAD_HEADER", "MISSING_ATTRIBUTE", "TENANT_MISMATCH"]


@pytest.mark.case("W38")
def test_65536_bytes_of_data_are_delivered_and_one_more_is_set_aside() -> None:
    world = World()
    endpoint = world.declare()
    for size in (65_536, 65_537):
        encoded = world.finalised()
        padding = size - len(encoded.data) - len(b',"x":""')
        wide = encoded.data[:-1] + b',"x":"' + b"y" * padding + b'"}'
        assert len(wide) == size
        world.append(encoded, value=wide)
    world.consume()
    assert len(world.deliveries(endpoint)) == 1
    assert world.reasons() == ["EVENT_TOO_LARGE_FOR_WEBHOOK"]


@pytest.mark.case("X53")
def test_an_event_about_an_endpoint_is_withheld_from_it_and_carries_its_run() -> None:
    world = World()
    endpoint = world.declare()
    failed = WebhookDeliveryFailed(
        tenant_id=A_TENANT,
        endpoint_id=ResourceUid(endpoint.uid),
        delivery_id=an_id(),
        event_id=EventId(an_id()),
        event_type="io.datarecs.reconciliation.run.finalised",
        attempts=4,
        run_id=RunId(an_id()),
    )
    stamp = Stamp(event_id=EventId(an_id()), time=NOON + timedelta(seconds=1))
    world.append(encode(failed, stamp))
    world.consume()
    assert world.deliveries(endpoint) == []


@pytest.mark.case("W06")
def test_unmatched_results_alone_are_delivered() -> None:
    world = World()
    wanted = Filter(data=DataFilter(results=(RunResult.UNMATCHED,)))
    endpoint = world.declare(
        spec=WebhookEndpoint(url="https://receiver.example.com/hook", filter=wanted)
    )
    run: dict[str, Any] = {
        "run_id": RunId(an_id()),
        "job_id": JobId(an_id()),
        "tenant_id": A_TENANT,
    }
    events = [
        RunTriggered(**run, mode=RunMode.IMMEDIATE, triggered_by="u-ana"),
        RunFinalised(**run, result=RunResult.MATCHED),
        RunFinalised(**run, error=RunError(code=RunErrorCode.CRASHED, message="killed")),
        RunFinalised(**run, result=RunResult.UNMATCHED),
    ]
    ids = [EventId(an_id()) for _ in events]
    for number, (event, event_id) in enumerate(zip(events, ids, strict=True), start=1):
        stamp = Stamp(event_id=event_id, time=NOON + timedelta(seconds=1), sequence=number)
        world.append(encode(event, stamp))
    world.consume()
    (delivery,) = world.deliveries(endpoint)
    assert delivery.event_id == ids[-1]


@pytest.mark.case("W42")
def test_tenants_are_apart() -> None:
    world = World()
    ours, theirs = world.declare(), world.declare(B_TENANT)
    world.append(world.finalised())
    world.consume()
    assert len(world.deliveries(ours)) == 1
    assert world.deliveries(theirs) == []
    run = json.loads(next(iter(world.store.committed(A_TENANT).delivery.messages.values())).data)
    assert world.deliveries(ours)[0].run_id == UUID(run["run_id"])
