"""The drill: a database goes back to a time, topics, blobs and mailboxes do not, and it goes on.

The snapshot is a copy of the database under running services, as a base backup would be: it holds
a run at work, a run in the queue, and runs that ended within the last minutes. Afterwards the
services write a future that the copy does not know. The copy then takes the database's place.
"""

import email
import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from uuid import UUID

import pytest
from psycopg import sql

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.state import HeldLease
from datarecs_cli.main import run as command
from datarecs_core.catalog.layout import run_document
from datarecs_core.notifications.rule import NotificationRule, Notify, Recipient
from datarecs_core.runs.model import Run, RunStatus
from datarecs_core.values import RunId, instant_text
from datarecs_events.catalogue import BY_TYPE, EventKind, dead_letter_topic
from datarecs_kafka.client import KafkaLogClient
from datarecs_kafka.dead_letter import letter_of
from datarecs_postgres.database import Database
from datarecs_postgres.roles import API, CONTROLLER, MAIL, MIGRATE, WORKER_RUN
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.urls import engine_url
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import UuidV7Ids
from datarecs_runtime.environment import process_environment
from datarecs_storage.opening import open_blob_stores
from datarecs_testing.builders import A_TENANT
from datarecs_testing.database import PreparedDatabase, copied
from datarecs_testing.deliveries import a_rule
from datarecs_testing.real_path import RealPath, leave_result
from datarecs_testing.scripted_child import ChildSide
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.smtp_server import TestRelay, smtp_relay
from datarecs_testing.stack import (
    SHORT_LIVED,
    BrokerPrograms,
    KafkaBroker,
    start_kafka,
)

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PAUSE_S = 0.1
RULE = NotificationRule(to=(Recipient(address="ana@example.com"),), notify=Notify.EVERY_RUN)
GONE_RUNS = 12
"""More than a consumer bears of dead letters in a row that its code is at fault for."""


@pytest.fixture
def broker(server_directory: Path, broker_programs: BrokerPrograms) -> Iterator[KafkaBroker]:
    """A broker without events of other tests, so that the list of lost events can be exact."""
    folder = server_directory / f"drill-{secrets.token_hex(4)}"
    folder.mkdir()
    made = start_kafka(folder, process_environment(), broker_programs, SHORT_LIVED)
    yield made
    assert made.jvm is not None
    made.jvm.stop()


@pytest.fixture
def relay() -> Iterator[TestRelay]:
    with smtp_relay() as running:
        yield running


class Gate:
    """A child that ends its run only while the gate is open."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.opened.set()

    def script(self, _hello: Mapping[str, object], side: ChildSide) -> int:
        side.send({"type": "ready"})
        while (frame := side.receive()) is not None:
            if frame.get("type") == "stop":
                return 75
            self.opened.wait(120)
            leave_result(frame, "UNMATCHED")  # the outcome that a rule mails
            side.send({"type": "finished"})
        return 0


class World:
    """The platform over one database: controller and notifier as processes, one worker slot."""

    def __init__(
        self, database: PreparedDatabase, broker: KafkaBroker, relay: TestRelay, folder: Path
    ) -> None:
        self.database, self.broker, self.relay, self.folder = database, broker, relay, folder
        self.open_things, self.gate = ExitStack(), Gate()
        folder.mkdir()
        self.passwords = broker.apply_catalogue()
        self.path = RealPath(
            database=database,
            broker=broker,
            principals=self.passwords,
            folder=folder,
            open_things=self.open_things,
        )

    @contextmanager
    def serving(self) -> Iterator["World"]:
        with self.open_things:
            try:
                self.controller = self.path.controller()
                self.notifier = self._notifier()
                self.path.work(slots=1, script=self.gate.script)
                yield self
            finally:  # before the threads are joined
                self.gate.opened.set()
                self.path.stop.set()
            self.controller.stop()
            self.notifier.stop()

    def _notifier(self) -> ServiceProcess:
        settings = {
            "DATARECS_PROFILE": "local",
            "DATARECS_BASE_URL": "https://recs.example.com",
            "DATARECS_DATABASE__URL": self.database.url(MAIL),
            "DATARECS_KAFKA__BOOTSTRAP": self.broker.bootstrap,
            "DATARECS_KAFKA__USERNAME": "email-notifier",
            "DATARECS_KAFKA__PASSWORD": self.passwords["email-notifier"],
            "DATARECS_MAIL__HOST": self.relay.host,
            "DATARECS_MAIL__PORT": str(self.relay.port),
            "DATARECS_MAIL__SECURITY": "none",
            "DATARECS_MAIL__FROM": "datarecs@mail.example.com",
            "DATARECS_MAIL__RECIPIENT_DOMAINS": f'{{"{A_TENANT}": ["example.com"]}}',
        }
        running = running_service(
            "datarecs_email_notifier", settings, log=self.folder / "notifier.log"
        )
        return self.open_things.enter_context(running)

    def until(self, holds: Callable[[], bool], *, seconds: float = 90, condition: str) -> None:
        pause, ends = threading.Event(), monotonic() + seconds
        while not holds():
            assert monotonic() < ends, f"not within {seconds} s: {condition}\n{self.logs()}"
            pause.wait(PAUSE_S)

    def logs(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in sorted(self.folder.glob("*.log")))

    def status(self, run_id: RunId) -> str:
        rows = self.database.query("SELECT status FROM datarecs.run WHERE run_id = %s", (run_id,))
        return str(rows[0][0])

    def mailed(self) -> dict[UUID, int]:
        """Sent mails by run, as the database knows them."""
        rows = self.database.query(
            "SELECT run_id, count(*) FROM datarecs.email_delivery WHERE state = 'SENT' GROUP BY 1"
        )
        return {run_id: int(count) for run_id, count in rows}

    def finals(self) -> dict[UUID, int]:
        rows = self.database.query(
            "SELECT run_id, count(*) FROM datarecs.run_event"
            " WHERE type LIKE '%%run.finalised' GROUP BY 1"
        )
        return {run_id: int(count) for run_id, count in rows}

    def outbox(self) -> dict[UUID, str]:
        """Types of events by id."""
        return dict(self.database.query("SELECT event_id, type FROM datarecs.outbox"))

    def ended(self, runs: list[Run]) -> None:
        """Wait until these runs are closed, mailed, and every event is sent."""
        ids = {run.run_id for run in runs}
        self.until(lambda: ids <= self.mailed().keys(), condition="a mail for each run")
        self.until(self._is_sent, condition="every event is sent")

    def _is_sent(self) -> bool:
        rows = self.database.query("SELECT count(*) FROM datarecs.outbox WHERE sent_at IS NULL")
        return rows == [(0,)]


@contextmanager
def snapshot(source: PreparedDatabase) -> Iterator[tuple[PreparedDatabase, datetime]]:
    """A copy of a database in use, and the time after its last commit; services reconnect."""
    name = sql.Identifier(engine_url(source.admin_url).database or "")
    maintenance = PreparedDatabase(
        admin_url=engine_url(source.admin_url)
        .set(database="postgres")
        .render_as_string(hide_password=False),
        passwords={},
    )
    with maintenance.connect() as server, ExitStack() as copies:
        server.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        server.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s",
            (engine_url(source.admin_url).database,),
        )
        rows = server.execute("SELECT clock_timestamp()").fetchall()
        copy = copies.enter_context(copied(source))
        server.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))
        yield copy, rows[0][0].astimezone(UTC)


class Operator:
    """Who runs `datarecs admin recover`, in this process."""

    def __init__(
        self,
        restored: PreparedDatabase,
        broker: KafkaBroker,
        blobs: str,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.capsys = capsys
        self.settings = {
            "DATARECS_PROFILE": "local",
            "DATARECS_DATABASE__URL": restored.url(MIGRATE),
            "DATARECS_KAFKA__BOOTSTRAP": broker.bootstrap,
            "DATARECS_KAFKA__USERNAME": broker.username,
            "DATARECS_KAFKA__PASSWORD": broker.password,
            "DATARECS_BLOB__URL": blobs,
        }

    def recover(self, at: datetime, *flags: str) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)."""
        self.capsys.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.settings.items():
                patch.setenv(name, value)
            code = command(["admin", "recover", "--restored-at", instant_text(at), *flags])
        out, err = self.capsys.readouterr()
        return code, out, err


@pytest.mark.case("K47")
def test_a_restored_platform_goes_on_and_names_what_it_lost(  # the drill, step by step
    private_database: PreparedDatabase,
    broker: KafkaBroker,
    relay: TestRelay,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    blobs = (tmp_path / "blobs").as_uri()
    with ExitStack() as copies:
        with World(private_database, broker, relay, tmp_path / "before").serving() as before:
            add_rule(private_database)
            done, at_work, waiting = runs_of_every_state(before)
            restored, at = copies.enter_context(snapshot(private_database))
            gone = lost_future(before, [at_work, waiting])
            mails_before = len(relay.script.stored)
        store_results(blobs, [*done, at_work, waiting, *gone])
        operator = Operator(restored, broker, blobs, capsys)
        check_refusals(operator, restored, at)
        check_missing_result(operator, blobs, done[0], at)
        lost = recovered_twice(operator, at)
        after = World(restored, broker, relay, tmp_path / "after")
        assert lost == events_lost(before, after)
        assert_no_old_lease_wins(restored, at_work)
        with after.serving():
            after.ended([*done, at_work, waiting])
            fresh = after.path.trigger(2)
            after.ended(fresh)
            after.until(lambda: letters(after) >= GONE_RUNS, condition="letters of the lost runs")
        survivors = {run.run_id for run in (*done, at_work, waiting, *fresh)}
        assert after.finals() == dict.fromkeys(survivors, 1)
        assert after.mailed() == dict.fromkeys(survivors, 1)
        assert "consumer_stopped" not in after.logs()
        assert_mailboxes(relay, mails_before, done, [at_work, waiting])


def add_rule(database: PreparedDatabase) -> None:
    api = Database(database.url(API))
    with PostgresUnitOfWork(api, UuidV7Ids()).begin(A_TENANT, feed=8) as tx:
        tx.resources.add(a_rule(RULE, rv=tx.next_rv(), created_at=tx.now))
    api.close()


def runs_of_every_state(world: World) -> tuple[list[Run], Run, Run]:
    """Ended and mailed; at work; in the queue behind it."""
    done = world.path.trigger(3)
    world.ended(done)
    world.gate.opened.clear()
    at_work = world.path.trigger_one()
    world.until(
        lambda: world.status(at_work.run_id) == RunStatus.RUNNING, condition="a run at work"
    )
    waiting = world.path.trigger_one()
    world.until(
        lambda: world.status(waiting.run_id) == RunStatus.QUEUED, condition="a run in the queue"
    )
    return done, at_work, waiting


def lost_future(world: World, in_flight: list[Run]) -> list[Run]:
    """What happens after the snapshot: runs end, further ones are triggered, all are mailed."""
    world.gate.opened.set()
    try:
        gone = world.path.trigger(GONE_RUNS)
    except StoreUnavailableError:  # the server closed this connection for the snapshot
        gone = world.path.trigger(GONE_RUNS)
    world.ended([*in_flight, *gone])
    return gone


def store_results(url: str, runs: list[Run]) -> None:
    """What children with Spark store; blobs are newer than the restored database."""
    store = open_blob_stores(url).of(A_TENANT)
    for run in runs:
        store.put(run_document(A_TENANT, run.run_id), b"{}")


def check_refusals(operator: Operator, restored: PreparedDatabase, at: datetime) -> None:
    with restored.connect(CONTROLLER):
        code, _, err = operator.recover(at)
    assert (code, "DR5810" in err, CONTROLLER in err) == (3, True, True)
    code, _, err = operator.recover(at - timedelta(minutes=1))
    assert (code, "was not restored to that time" in err) == (2, True)


def check_missing_result(operator: Operator, url: str, run: Run, at: datetime) -> None:
    """A result that the blob store lost is named, and the command ends with 3."""
    store, key = open_blob_stores(url).of(A_TENANT), run_document(A_TENANT, run.run_id)
    store.delete(key)
    code, out, err = operator.recover(at, "--dry-run")
    assert code == 3
    assert key in out
    assert "nothing was changed" in err
    store.put(key, b"{}")


def recovered_twice(operator: Operator, at: datetime) -> dict[UUID, str]:
    """The lost events by id; the second time finds the same, and nothing more to move."""
    code, out, err = operator.recover(at, "-o", "json")
    assert code == 0, err
    first = json.loads(out)
    code, out, _ = operator.recover(at, "-o", "json")
    again = json.loads(out)
    assert (code, again["lost"], again["results_missing"]) == (0, first["lost"], [])
    assert sum(one["records"] for one in first["groups"]) > 0
    assert [one["records"] for one in again["groups"]] == [0] * len(again["groups"])
    assert (first["events_sent_again"] > 0, again["events_sent_again"]) == (True, 0)
    code, out, _ = operator.recover(at)
    assert f"{GONE_RUNS} runs were triggered after that time" in out
    assert "2 runs ended after that time" in out
    return {UUID(one["event_id"]): one["type"] for one in first["lost"]}


def events_lost(before: World, after: World) -> dict[UUID, str]:
    """What the first database sent and the restored one does not have, progress left out."""
    known = after.outbox()
    return {
        event_id: kind
        for event_id, kind in before.outbox().items()
        if event_id not in known and BY_TYPE[kind].kind is not EventKind.PROGRESS
    }


def assert_no_old_lease_wins(restored: PreparedDatabase, at_work: Run) -> None:
    database = Database(restored.url(WORKER_RUN))
    finder = PostgresWorkFinder(database)
    for epoch in range(1, 4):
        held = HeldLease(tenant_id=A_TENANT, run_id=at_work.run_id, lease_epoch=epoch)
        assert not finder.renew([held])[at_work.run_id].current
    database.close()


def letters(world: World) -> int:
    """Lost runs with a dead letter of the run-controller that says so."""
    client = KafkaLogClient(world.broker.access)
    topic = dead_letter_topic("run-controller")
    reader = client.consumer(group=f"test-{secrets.token_hex(6)}", topics=[topic])
    runs: set[bytes] = set()
    silent = 0
    while silent < 4:
        batches = reader.poll(timedelta(milliseconds=500), max_records=500)
        records = [record for batch in batches.values() for record in batch]
        silent = silent + 1 if reader.assignment() and not records else 0
        for record in records:
            letter = letter_of(record)  # type: ignore[arg-type]  # written by the platform
            assert letter.reason in {"UNKNOWN_RUN", "RUN_NOT_FINISHED"}
            runs.add(letter.record.key or b"")
    reader.close()
    return len(runs)


def assert_mailboxes(relay: TestRelay, before: int, done: list[Run], in_flight: list[Run]) -> None:
    """Who was mailed before the restored time is not mailed again.

    A mail of the lost future is sent once more, with the same Message-ID: mailboxes that know it
    show it once.
    """
    stored = [content for _, content in relay.script.stored]
    ids = [str(email.message_from_bytes(one)["Message-ID"]) for one in stored]
    for run in done:
        assert sum(str(run.run_id) in one for one in ids) == 1
    for run in in_flight:
        assert sum(str(run.run_id) in one for one in ids) == 2
    assert len(ids) == before + len(in_flight) + 2
