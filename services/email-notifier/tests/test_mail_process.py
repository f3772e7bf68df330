"""The whole service over a real broker, a real database and a real relay."""

import email
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from email.policy import default
from pathlib import Path

import pytest

from datarecs_core.errors.messaging import LogAccessDeniedError
from datarecs_core.notifications.mail import Mail, MailState
from datarecs_core.notifications.rule import NotificationRule, Notify, Recipient
from datarecs_core.runs.events import RunFinalised
from datarecs_core.runs.model import Run, RunResult, RunStatus, RunSummary
from datarecs_core.values import EventId
from datarecs_events.catalogue import Topic
from datarecs_events.codec import Stamp, encode
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import KafkaLogClient
from datarecs_postgres.database import Database
from datarecs_postgres.roles import API, CONTROLLER, MAIL
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_testing.builders import A_TENANT, a_run
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.deliveries import a_rule
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.smtp_server import TestRelay, smtp_relay
from datarecs_testing.stack import KafkaBroker

pytestmark = pytest.mark.integration

RULE = NotificationRule(
    to=(Recipient(address="ana@example.com"), Recipient(address="x@elsewhere.example")),
    notify=Notify.EVERY_RUN,
)


@pytest.fixture
def relay() -> Iterator[TestRelay]:
    with smtp_relay() as running:
        yield running


@pytest.fixture
def settings(
    database: PreparedDatabase, kafka_broker: KafkaBroker, relay: TestRelay
) -> dict[str, str]:
    passwords = kafka_broker.apply_catalogue()
    kafka_broker.skip_backlog("email-notifier")
    return {
        "DATARECS_PROFILE": "local",
        "DATARECS_BASE_URL": "https://recs.example.com",
        "DATARECS_DATABASE__URL": database.url(MAIL),
        "DATARECS_KAFKA__BOOTSTRAP": kafka_broker.bootstrap,
        "DATARECS_KAFKA__USERNAME": "email-notifier",
        "DATARECS_KAFKA__PASSWORD": passwords["email-notifier"],
        "DATARECS_MAIL__HOST": relay.host,
        "DATARECS_MAIL__PORT": str(relay.port),
        "DATARECS_MAIL__SECURITY": "none",
        "DATARECS_MAIL__FROM": "datarecs@mail.example.com",
        "DATARECS_MAIL__RECIPIENT_DOMAINS": f'{{"{A_TENANT}": ["example.com"]}}',
    }


@pytest.fixture
def service(settings: dict[str, str], tmp_path: Path) -> Iterator[ServiceProcess]:
    with running_service(
        "datarecs_email_notifier", settings, log=tmp_path / "service.log"
    ) as running:
        yield running


def finish(database: PreparedDatabase, broker: KafkaBroker) -> Run:
    """A run that ended UNMATCHED, with its rule, and its event on the topic."""
    ids, now = UuidV7Ids(), SystemClock().now()
    api, controller = Database(database.url(API)), Database(database.url(CONTROLLER))
    run = a_run(status=RunStatus.TRIGGERED, created_at=now - timedelta(minutes=1))
    with PostgresUnitOfWork(api, ids).begin(A_TENANT, feed=8) as tx:
        tx.resources.add(a_rule(RULE, rv=tx.next_rv(), created_at=tx.now))
        tx.runs.add(run)
    with PostgresUnitOfWork(controller, ids).begin(A_TENANT, feed=8) as tx:
        locked = tx.runs.for_update(run.run_id)
        assert locked is not None
        ended = replace(
            locked,
            status=RunStatus.COMPLETED,
            result=RunResult.UNMATCHED,
            closed_at=tx.now,
            summary=RunSummary(
                stages_total=1,
                stages_matched=0,
                rows_compared=1005,
                rows_matched=975,
                rows_unmatched=30,
                duration_ms=100,
            ),
        )
        tx.runs.save(ended)
    api.close()
    controller.close()
    event = RunFinalised(
        run_id=run.run_id, job_id=run.job_id, tenant_id=A_TENANT, result=RunResult.UNMATCHED
    )
    encoded = encode(event, Stamp(event_id=EventId(ids.new()), time=now, sequence=1))
    producer = KafkaLogClient(_administrator(broker)).producer()
    for _ in range(2):
        producer.send(
            Topic.RUN_PLATFORM,
            key=encoded.key_bytes,
            value=encoded.data,
            headers=encoded.headers,
        ).wait(timedelta(seconds=35))
    producer.close()
    return ended


def _administrator(broker: KafkaBroker) -> BrokerAccess:
    return BrokerAccess(
        bootstrap=broker.bootstrap, username=broker.username, password=broker.password
    )


def mails(database: PreparedDatabase, run: Run) -> list[Mail]:
    connected = Database(database.url(MAIL))
    try:
        with PostgresUnitOfWork(connected, UuidV7Ids()).begin(A_TENANT) as tx:
            return tx.mails.of_run(run.run_id)
    finally:
        connected.close()


def wait_until_stored(relay: TestRelay, count: int) -> None:
    clock = SystemClock()
    deadline = clock.monotonic() + 60
    while len(relay.script.stored) < count:
        assert clock.monotonic() < deadline, f"{len(relay.script.stored)} of {count} mails"
        clock.wait(timedelta(milliseconds=50))


@pytest.mark.case("M01")
@pytest.mark.case("M02")
@pytest.mark.case("M31")
def test_a_finished_run_is_one_mail_at_the_relay_and_one_skipped_row(
    service: ServiceProcess,
    database: PreparedDatabase,
    kafka_broker: KafkaBroker,
    relay: TestRelay,
) -> None:
    run = finish(database, kafka_broker)
    wait_until_stored(relay, 1)
    assert service.stop() == 0
    ((recipient, content),) = relay.script.stored
    assert recipient == "ana@example.com"
    message = email.message_from_bytes(content, policy=default)
    assert message["Subject"] == ("[datarecs] ▲ UNMATCHED ledger-vs-bank · 30 of 1,005 groups")
    text = message.get_body(("plain",))
    assert text is not None
    assert f"https://recs.example.com/api/v1/runs/{run.run_id}/report" in text.get_content()
    states = {mail.recipient_key: mail.state for mail in mails(database, run)}
    assert states == {
        "ana@example.com": MailState.SENT,
        "x@elsewhere.example": MailState.SKIPPED,
    }
    events = database.query("SELECT type FROM datarecs.outbox ORDER BY position")
    assert sorted(str(row[0]).rpartition(".")[2] for row in events) == ["sent", "skipped"]


@pytest.mark.case("M03")
@pytest.mark.case("L02")
def test_the_broker_refuses_the_notifier_the_infrastructure_topic(
    settings: dict[str, str], kafka_broker: KafkaBroker
) -> None:
    access = replace(
        _administrator(kafka_broker),
        username="email-notifier",
        password=settings["DATARECS_KAFKA__PASSWORD"],
    )
    for topic in (Topic.RUN_INFRA, Topic.RUN_PROGRESS):
        with pytest.raises(LogAccessDeniedError):
            _poll(KafkaLogClient(access), topic)


def _poll(client: KafkaLogClient, topic: str) -> None:
    consumer = client.consumer(group="email-notifier", topics=[topic])
    try:
        consumer.poll(timedelta(seconds=10), max_records=1)
    finally:
        consumer.close()
