"""The whole service over a real broker, a real database and a real receiver."""

import base64
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import standardwebhooks

from datarecs_application.ports.delivery import DeliveryKey, WebhookAttempt
from datarecs_application.webhook_actions import request_action
from datarecs_application.webhook_consent import claim_soon, grant_by_callback
from datarecs_core.resources.resource import Resource
from datarecs_core.runs.events import (
    RunCancelRequested,
    RunFinalised,
    RunRowsProcessed,
    RunTriggered,
)
from datarecs_core.runs.model import Run, RunResult
from datarecs_core.values import EventId, JobId, RunId
from datarecs_core.webhooks.actions import WebhookAction
from datarecs_core.webhooks.delivery import Delivery, DeliveryState, Origin
from datarecs_core.webhooks.endpoint import Ordering, Retry, Validation, WebhookEndpoint
from datarecs_core.webhooks.handshake import read_callback_token
from datarecs_core.webhooks.outcome import Outcome
from datarecs_core.webhooks.signature import new_secret, secret_context
from datarecs_events.codec import Stamp, encode
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import KafkaLogClient
from datarecs_postgres.database import Database
from datarecs_postgres.roles import API, WEBHOOK, WORKER_RUN
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_runtime.clock import SystemClock, UuidV7Ids, random_bytes
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets
from datarecs_testing.builders import A_TENANT, a_run
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.deliveries import an_endpoint
from datarecs_testing.receiver import OK, Receiver, status, webhook_receiver
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.stack import KafkaBroker

pytestmark = pytest.mark.integration

KEK = base64.b64encode(bytes(range(32))).decode()
SOON = Retry(delays=(timedelta(seconds=1),) * 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """Everything around the service."""

    broker: KafkaBroker
    database: PreparedDatabase
    receiver: Receiver
    api: PostgresUnitOfWork
    """As core-api, which declares endpoints and seals their secrets."""
    unit_of_work: PostgresUnitOfWork
    """As the service itself, to read what it wrote."""


@pytest.fixture
def house(database: PreparedDatabase, kafka_broker: KafkaBroker) -> Iterator[House]:
    ids = UuidV7Ids()
    api, webhook = Database(database.url(API)), Database(database.url(WEBHOOK))
    with webhook_receiver() as receiver:
        yield House(
            broker=kafka_broker,
            database=database,
            receiver=receiver,
            api=PostgresUnitOfWork(api, ids),
            unit_of_work=PostgresUnitOfWork(webhook, ids),
        )
    api.close()
    webhook.close()


@pytest.fixture
def settings(database: PreparedDatabase, kafka_broker: KafkaBroker) -> dict[str, str]:
    passwords = kafka_broker.apply_catalogue()
    kafka_broker.skip_backlog("webhook-service")
    return {
        "DATARECS_PROFILE": "local",
        "DATARECS_BASE_URL": "http://127.0.0.1:8080",
        "DATARECS_DATABASE__URL": database.url(WEBHOOK),
        "DATARECS_KAFKA__BOOTSTRAP": kafka_broker.bootstrap,
        "DATARECS_KAFKA__USERNAME": "webhook-service",
        "DATARECS_KAFKA__PASSWORD": passwords["webhook-service"],
        "DATARECS_SECRETS__KEK": KEK,
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
    }


@pytest.fixture
def service(settings: dict[str, str], tmp_path: Path) -> Iterator[ServiceProcess]:
    with running_service(
        "datarecs_webhook_service", settings, log=tmp_path / "service.log"
    ) as running:
        yield running


def declare(house: House, **changes: Any) -> tuple[Resource, str]:  # noqa: ANN401  any field of the spec
    """An endpoint with a managed secret, as core-api makes it."""
    secret = new_secret(random_bytes(32))
    keyring = Keyring({"kek-1": base64.b64decode(KEK)}, current="kek-1")
    store = TenantSecrets(Secrets(), keyring=keyring, environment={})
    with house.api.begin(A_TENANT, feed=8) as tx:
        spec = WebhookEndpoint(url=house.receiver.url, retry=SOON, **changes)
        endpoint = an_endpoint(spec, rv=tx.next_rv(), created_at=tx.now)
        tx.resources.add(endpoint)
        claim_soon(tx, endpoint)
        sealed = store.seal(secret.encode(), context=secret_context(A_TENANT, endpoint.uid, "k1"))
        tx.secrets.put(endpoint.uid, "signing", "k1", sealed)
    return endpoint, secret


class Record(NamedTuple):
    topic: str
    key: str
    headers: Sequence[tuple[str, bytes]]
    data: bytes


def send(house: House, records: Sequence[Record]) -> None:
    """Send records to the broker, in this order."""
    broker = house.broker
    access = BrokerAccess(
        bootstrap=broker.bootstrap, username=broker.username, password=broker.password
    )
    producer = KafkaLogClient(access).producer()
    for one in records:
        producer.send(one.topic, key=one.key.encode(), value=one.data, headers=one.headers).wait(
            timedelta(seconds=35)
        )
    producer.close()


def publish(house: House) -> str:
    """A run.finalised on the platform topic; its event id."""
    ids = UuidV7Ids()
    event = RunFinalised(
        run_id=RunId(ids.new()),
        job_id=JobId(ids.new()),
        tenant_id=A_TENANT,
        result=RunResult.MATCHED,
    )
    stamp = Stamp(event_id=EventId(ids.new()), time=SystemClock().now(), sequence=1)
    encoded = encode(event, stamp)
    key = encoded.attributes["partitionkey"]
    send(house, [Record(str(encoded.topic), key, encoded.headers, encoded.data)])
    return encoded.attributes["id"]


def deliveries(house: House, endpoint: Resource) -> list[Delivery]:
    with house.unit_of_work.begin(A_TENANT) as tx:
        return tx.deliveries.of_endpoint(endpoint.uid, 100)


def attempts(house: House, delivery: Delivery) -> list[WebhookAttempt]:
    with house.unit_of_work.begin(A_TENANT) as tx:
        return tx.deliveries.attempts(DeliveryKey(delivery.received_on, delivery.delivery_id))


@pytest.mark.case("W01")
@pytest.mark.case("W08")
@pytest.mark.case("W20")
def test_an_event_on_the_topic_arrives_signed_after_a_retry(
    service: ServiceProcess, house: House
) -> None:
    house.receiver.answers = [status(500), OK]
    endpoint, secret = declare(house)
    event_id = publish(house)
    first, second = house.receiver.wait_for(2, timeout=60)
    assert service.stop() == 0
    for request in (first, second):
        standardwebhooks.Webhook(secret).verify(request.body, dict(request.by_name))
        assert request.by_name["webhook-id"] == event_id
    assert first.body == second.body
    assert json.loads(first.body)["id"] == event_id
    (delivery,) = deliveries(house, endpoint)
    assert (delivery.state, delivery.attempt_no) == (DeliveryState.SUCCEEDED, 2)
    assert [attempt.outcome for attempt in attempts(house, delivery)] == [
        Outcome.HTTP_5XX,
        Outcome.OK,
    ]
    assert secret not in service.text()


@pytest.mark.case("W11")
@pytest.mark.crash
def test_a_service_killed_before_it_records_sends_the_same_event_again(
    settings: dict[str, str], house: House, tmp_path: Path
) -> None:
    endpoint, _ = declare(house)
    receiver, database = house.receiver, house.database
    log = tmp_path / "service.log"
    with running_service("datarecs_webhook_service", settings, log=log) as doomed:
        receiver.answers = [lambda handler: _kill_and_answer(doomed, handler)]
        event_id = publish(house)
        receiver.wait_for(1, timeout=60)
    database.query(
        "UPDATE datarecs.webhook_delivery SET lease_until = now() WHERE state = 'LEASED'"
    )
    database.query("UPDATE datarecs.webhook_endpoint_state SET next_claim_at = now()")
    with running_service("datarecs_webhook_service", settings, log=log) as next_one:
        receiver.wait_for(2, timeout=60)
        assert next_one.stop() == 0
    assert {request.by_name["webhook-id"] for request in receiver.requests} == {event_id}
    (delivery,) = deliveries(house, endpoint)
    assert (delivery.state, delivery.schedule_index) == (DeliveryState.SUCCEEDED, 0)
    assert [attempt.outcome for attempt in attempts(house, delivery)] == [
        Outcome.WORKER_LOST,
        Outcome.OK,
    ]


def _kill_and_answer(doomed: ServiceProcess, handler: object) -> None:
    """The receiver has taken the event; the sender dies before it can know."""
    del handler
    doomed.kill()


@pytest.mark.case("W36")
@pytest.mark.case("W37")
def test_a_test_and_a_resend_that_core_api_wrote_arrive(
    service: ServiceProcess, house: House
) -> None:
    """The service finds the rows by itself, also those that were written while it was away."""
    endpoint, secret = declare(house)
    request(house, endpoint, Origin.TEST)
    (test,) = house.receiver.wait_for(1, timeout=60)
    standardwebhooks.Webhook(secret).verify(test.body, dict(test.by_name))
    assert json.loads(test.body)["type"] == "io.datarecs.webhook.test"
    wait_until_closed(house, endpoint)
    (sent,) = deliveries(house, endpoint)
    request(house, endpoint, Origin.RESEND, deliveries=(sent.delivery_id,))
    again = house.receiver.wait_for(2, timeout=60)[1]
    assert service.stop() == 0
    assert (again.body, again.by_name["webhook-id"]) == (test.body, test.by_name["webhook-id"])
    assert again.by_name["datarecs-reason"] == "resend"
    types = house.database.query("SELECT type FROM datarecs.outbox WHERE type LIKE '%%webhook%%'")
    assert {one for (one,) in types} >= {
        "io.datarecs.webhook.endpoint.test_requested",
        "io.datarecs.webhook.delivery.resend_requested",
        "io.datarecs.webhook.delivery.retried",
    }


@pytest.mark.case("W26")
def test_nothing_is_sent_before_the_receiver_calls_back(
    service: ServiceProcess, house: House
) -> None:
    receiver = house.receiver
    receiver.answers = [status(405)]
    endpoint, secret = declare(house, validation=Validation.HANDSHAKE)
    (requested,) = receiver.wait_for(1, timeout=60)
    event_id = publish(house)
    wait_until(lambda: len(deliveries(house, endpoint)) == 1)
    assert requested.line.startswith("OPTIONS /hook ")
    callback = requested.by_name["webhook-request-callback"]
    token = read_callback_token(callback.rpartition("/")[2])
    assert token is not None
    assert len(receiver.requests) == 1
    with house.api.begin(A_TENANT) as tx:
        granted = grant_by_callback(tx, token, rate="60")
    assert granted is not None
    request = receiver.wait_for(2, timeout=60)[1]
    assert service.stop() == 0
    assert request.by_name["webhook-request-origin"] == requested.by_name["webhook-request-origin"]
    assert request.by_name["webhook-id"] == event_id
    standardwebhooks.Webhook(secret).verify(request.body, dict(request.by_name))


@pytest.mark.case("W27")
def test_the_events_of_a_run_arrive_in_their_order(service: ServiceProcess, house: House) -> None:
    """Events of two topics arrive in reverse order, and the first attempt fails."""
    receiver = house.receiver
    receiver.answers = [status(500)]
    endpoint, _ = declare(house, ordering=Ordering.RUN)
    run = record_run(house)
    rows = house.database.query(
        "SELECT topic, partition_key, headers, data FROM datarecs.outbox WHERE partition_key = %s "
        "ORDER BY position DESC",
        (str(run.run_id),),
    )
    assert len({topic for topic, *_ in rows}) == 2
    send(house, [Record(topic, key, _headers(headers), data) for topic, key, headers, data in rows])
    wait_until(lambda: len(deliveries(house, endpoint)) == len(rows))
    wait_until_closed(house, endpoint)
    assert service.stop() == 0
    numbers = [int(json.loads(one.body)["runsequence"]) for one in receiver.requests]
    assert numbers == [1, *range(1, len(rows) + 1)]


def record_run(house: House) -> Run:
    """A run with its first events, as core-api and a worker write them."""
    ids = UuidV7Ids()
    run = a_run(run_id=ids.new(), job_id=ids.new())
    key: dict[str, Any] = {"run_id": run.run_id, "job_id": run.job_id, "tenant_id": A_TENANT}
    worker = Database(house.database.url(WORKER_RUN))
    with house.api.begin(A_TENANT, feed=8) as tx:
        tx.runs.add(run)
        tx.outbox.append(RunTriggered(**key, mode=run.mode, triggered_by="u-ana"))
    with PostgresUnitOfWork(worker, ids).begin(A_TENANT, feed=8) as tx:
        for count in (1, 2, 3):
            progress = RunRowsProcessed(**key, stage_name="rows", row_count=count, mismatch_count=0)
            tx.outbox.append(progress)
    with house.api.begin(A_TENANT, feed=8) as tx:
        requested = RunCancelRequested(**key, cancelled_by="u-ana", reason="test")
        tx.outbox.append(requested)
    worker.close()
    return run


def _headers(stored: list[list[str]]) -> list[tuple[str, bytes]]:
    return [(name, value.encode()) for name, value in stored]


def wait_until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(600):
        if holds():
            return
        pause.wait(0.1)
    raise AssertionError("condition not met after 60 s")


def wait_until_closed(house: House, endpoint: Resource) -> None:
    wait_until(lambda: all(one.state.is_terminal for one in deliveries(house, endpoint)))


def request(
    house: House,
    endpoint: Resource,
    kind: Origin,
    **parts: Any,  # noqa: ANN401  any field of WebhookAction
) -> None:
    """What core-api writes for a request of a user."""
    with house.api.begin(A_TENANT, feed=8) as tx:
        action = WebhookAction(
            tenant_id=A_TENANT,
            action_id=UuidV7Ids().new(),
            endpoint_uid=endpoint.uid,
            kind=kind,
            requested_by="u-ana",
            created_at=tx.now,
            expected=1,
            **parts,
        )
        request_action(tx, endpoint, action)
