"""No secret of a connection leaves the task: nothing that the sink writes has it."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest
from kafka import KafkaConsumer, TopicPartition

from datarecs_core.resources.resource import Kind
from datarecs_core.values import ResourceUid
from datarecs_postgres.urls import conninfo, engine_url
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import running_service
from datarecs_testing.sink_process import MODULE, SinkHouse, wait_until
from datarecs_testing.stack import KafkaBroker, PostgresServer

pytestmark = pytest.mark.integration


class CanaryHouse(SinkHouse):
    """Its catalog is a database with a login of its own, which a test can take away."""

    __slots__ = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        password = engine_url(self.catalog or "").password
        return self.broker.password, str(password)

    def refuse_catalog(self, *, refused: bool) -> None:
        url = engine_url(self.catalog or "")
        self.lake.catalog.engine.dispose()
        with psycopg.connect(conninfo(self.database.admin_url), autocommit=True) as admin:
            may = psycopg.sql.SQL("NOLOGIN" if refused else "LOGIN")
            role = psycopg.sql.Identifier(str(url.username))
            admin.execute(psycopg.sql.SQL("ALTER ROLE {} {}").format(role, may))
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s",
                (url.username,),
            )


@pytest.fixture
def house(
    private_database: PreparedDatabase,
    kafka_broker: KafkaBroker,
    postgres_server: PostgresServer,
    tmp_path: Path,
) -> Iterator[CanaryHouse]:
    url = engine_url(postgres_server.fresh_database())
    role, password = f"canary_{secrets.token_hex(4)}", f"canary-{secrets.token_hex(8)}"
    with psycopg.connect(conninfo(private_database.admin_url), autocommit=True) as admin:
        statement = psycopg.sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}")
        admin.execute(statement.format(psycopg.sql.Identifier(role), password))
    catalog = url.set(username=role, password=password)
    with ExitStack() as stack:
        yield CanaryHouse(
            database=private_database,
            broker=kafka_broker,
            folder=tmp_path,
            stack=stack,
            catalog=catalog.render_as_string(hide_password=False),
        )


@pytest.mark.case("I69")
def test_no_secret_is_in_anything_that_a_sink_writes(house: CanaryHouse) -> None:
    """Also where its catalog refuses the login, and a record is bad."""
    uid = house.declare(
        Kind.SINK_TABLE, "orders", house.sink_spec(errors={"tolerance": "dead_letter"})
    )
    house.send(range(100))
    house.want(uid)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: house.rows()[0] == 100, service.text)
        house.refuse_catalog(refused=True)
        house.send_values([b"no JSON"])
        house.send(range(100, 200))
        wait_until(lambda: has_fault(house, uid), service.text)
        house.refuse_catalog(refused=False)
        wait_until(lambda: house.rows()[0] == 200, service.text)
        assert service.stop() == 0, service.text()
    places = {
        "log": service.text().encode(),
        "control topic": topic_bytes(house, f"datarecs.sink.{uid}"),
        "dead letters": topic_bytes(house, f"datarecs.sink.{uid}.dlq"),
        "files of the table": b"".join(
            path.read_bytes() for path in house.lake.folder.rglob("*") if path.is_file()
        ),
        "database": database_bytes(house),
    }
    assert all(places.values())
    hits = [
        (name, secret)
        for name, content in places.items()
        for secret in house.secrets
        if secret.encode() in content
    ]
    assert hits == []


def has_fault(house: CanaryHouse, uid: ResourceUid) -> bool:
    report = house.status(uid).tasks[0].report
    return report is not None and report.error_code != ""


def topic_bytes(house: CanaryHouse, topic: str) -> bytes:
    """Keys, values and headers, also those of aborted transactions."""
    partition, parts = TopicPartition(topic, 0), []
    with closing(
        KafkaConsumer(**house.broker.access.settings(), auto_offset_reset="earliest")
    ) as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            for batch in consumer.poll(200).values():
                for record in batch:
                    parts += [record.key or b"", record.value or b""]
                    parts += [value for _, value in record.headers if value is not None]
    return b"".join(parts)


def database_bytes(house: CanaryHouse) -> bytes:
    """Every row of the platform's tables: events, status, commits, declarations."""
    tables = house.database.query(
        "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = 'datarecs' AND table_type = 'BASE TABLE'"
    )
    rows: list[str] = []
    with house.database.connect() as connection:
        for (table,) in tables:
            name = psycopg.sql.Identifier("datarecs", table)
            cursor = connection.execute(psycopg.sql.SQL("SELECT t::text FROM {} t").format(name))
            rows += [str(row[0]) for row in cursor.fetchall()]
    return "\n".join(rows).encode()
