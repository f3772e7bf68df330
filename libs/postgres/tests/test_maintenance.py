"""Partitions: a week ahead, a missing day caught and moved, old days dropped unless unsent."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from datarecs_application.errors import StoreBusyError
from datarecs_postgres.database import Database
from datarecs_postgres.event_archive import PostgresEventArchive
from datarecs_postgres.maintenance import divide_outbox, maintain_partitions, set_outbox_retention
from datarecs_postgres.outbox import hash_of
from datarecs_postgres.outbox_reader import PostgresOutboxReader
from datarecs_postgres.roles import CONTROLLER, RELAY
from datarecs_postgres.tables.delivery import OUTBOX
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.load import a_triggered_run

pytestmark = pytest.mark.integration

PARTITIONS = (
    "SELECT right(c.relname, 8) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
    " WHERE i.inhparent = 'datarecs.outbox'::regclass AND c.relname <> 'outbox_default' ORDER BY 1"
)
INSERT = (
    "INSERT INTO datarecs.outbox (event_id, created_at, tenant_id, service, type, topic,"
    " partition_key, shard, headers, data, sent_at)"
    " VALUES (%s, now() + %s::interval, %s, 's', 't', 't', 'k', 0, '[]', '', {})"
)
SENT, UNSENT = INSERT.format("now()"), INSERT.format("NULL")


@pytest.fixture
def controller(private_database: PreparedDatabase) -> Iterator[Database]:
    with closing(Database(private_database.url(CONTROLLER))) as pool:
        yield pool


def insert(database: PreparedDatabase, statement: str, age: str) -> None:
    with database.connect() as connection:
        connection.execute(statement.encode(), (an_id(), age, A_TENANT))


def test_the_coming_days_are_made_again_and_nothing_twice(
    private_database: PreparedDatabase, controller: Database
) -> None:
    before = private_database.query(PARTITIONS)
    private_database.query("DROP TABLE datarecs.outbox_" + str(before[-1][0]))
    assert maintain_partitions(controller)["outbox"] == 0
    assert private_database.query(PARTITIONS) == before
    maintain_partitions(controller)
    assert private_database.query(PARTITIONS) == before


def test_a_row_of_a_missing_day_is_stored_and_moved_when_the_day_is_made(
    private_database: PreparedDatabase, controller: Database
) -> None:
    insert(private_database, UNSENT, "20 days")
    assert private_database.query("SELECT count(*) FROM datarecs.outbox_default") == [(1,)]
    left = maintain_partitions(controller)
    assert left["outbox"] == 0
    assert private_database.query("SELECT count(*) FROM datarecs.outbox") == [(1,)]
    assert len(private_database.query(PARTITIONS)) == 9


def test_a_day_past_its_time_is_dropped_only_when_all_of_it_is_sent(
    private_database: PreparedDatabase, controller: Database
) -> None:
    insert(private_database, SENT, "-40 days")
    insert(private_database, UNSENT, "-41 days")
    insert(private_database, SENT, "-5 days")
    maintain_partitions(controller)
    maintain_partitions(controller)
    ages = private_database.query(
        "SELECT (now()::date - created_at::date) FROM datarecs.outbox ORDER BY 1"
    )
    assert ages == [(5,), (41,)]


def test_the_days_of_the_outbox_are_those_of_the_setting(
    private_database: PreparedDatabase, controller: Database
) -> None:
    insert(private_database, SENT, "-8 days")
    insert(private_database, SENT, "-5 days")
    set_outbox_retention(controller, days=7)
    for _ in range(2):
        maintain_partitions(controller)
    ages = private_database.query(
        "SELECT (now()::date - created_at::date) FROM datarecs.outbox ORDER BY 1"
    )
    assert ages == [(5,)]
    assert PostgresEventArchive(controller).memory("run-controller").outbox == timedelta(days=7)


def test_rows_that_no_partition_took_are_reported(
    private_database: PreparedDatabase, controller: Database
) -> None:
    insert(private_database, SENT, "20 days")
    with private_database.connect() as reader, reader.transaction():
        reader.execute("SELECT count(*) FROM datarecs.outbox_default")
        left = maintain_partitions(controller)
    assert left["outbox"] == 1
    assert maintain_partitions(controller)["outbox"] == 0


def test_of_two_at_once_one_does_nothing(
    private_database: PreparedDatabase, controller: Database
) -> None:
    with private_database.connect() as other, other.transaction():
        other.execute("SELECT pg_advisory_xact_lock(1684108385, 2)")
        assert maintain_partitions(controller) == {}


def test_old_marks_and_answers_are_forgotten(
    private_database: PreparedDatabase, controller: Database
) -> None:
    for days in (1, 44, 46):
        private_database.query(
            "INSERT INTO datarecs.inbox (tenant_id, consumer, source, event_id, received_at)"
            " VALUES (%s, 'c', 's', %s, now() - %s * interval '1 day')",
            (A_TENANT, an_id(), days),
        )
    for hours in (1, 25):
        private_database.query(
            "INSERT INTO datarecs.idempotency_key (tenant_id, principal, route, key, request_hash,"
            " created_at) VALUES (%s, 'p', 'r', %s, '', now() - %s * interval '1 hour')",
            (A_TENANT, str(hours), hours),
        )
    maintain_partitions(controller)
    assert private_database.query("SELECT count(*) FROM datarecs.inbox") == [(2,)]
    assert private_database.query("SELECT key FROM datarecs.idempotency_key") == [("1",)]


def test_what_is_partitioned_by_range_has_a_policy(private_database: PreparedDatabase) -> None:
    partitioned = private_database.query(
        "SELECT relname FROM pg_class WHERE relnamespace = 'datarecs'::regnamespace"
        " AND relkind = 'p' ORDER BY 1"
    )
    known = private_database.query("SELECT table_name FROM datarecs.partition_policy ORDER BY 1")
    assert partitioned == known
    assert (OUTBOX.name,) in known


@pytest.mark.parametrize("number", [3, 40])
def test_an_outbox_is_divided_anew_when_every_event_is_sent(
    private_database: PreparedDatabase, controller: Database, number: int
) -> None:
    insert(private_database, UNSENT, "0 days")
    with pytest.raises(StoreBusyError, match="every event is sent"):
        divide_outbox(controller, shards=number)
    private_database.query("UPDATE datarecs.outbox SET sent_at = now()")
    for _ in range(2):
        divide_outbox(controller, shards=number)
    with closing(Database(private_database.url(RELAY))) as login:
        relay = PostgresOutboxReader(login)
        assert sorted(relay.hold_shards("r1", ttl=timedelta(minutes=1))) == list(range(number))
        written = {one: a_triggered_run(private_database).run_id for one in range(5)}
        unsent = relay.unsent(dict.fromkeys(range(number), 100))
    shards = {row.partition_key: shard for shard, rows in unsent.items() for row in rows}
    assert shards == {str(run): hash_of(str(run)) % number for run in written.values()}
