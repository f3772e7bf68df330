"""Roles and databases as an administrator makes them: once, and again without harm."""

import psycopg
import pytest
from psycopg.errors import OperationalError

from datarecs_application.errors import StoreUnavailableError
from datarecs_postgres import bootstrap
from datarecs_postgres.bootstrap import bootstrap_database
from datarecs_postgres.failures import ServerTooOldError
from datarecs_postgres.roles import API, LOGINS, OWNER, READ, RELAY, SERVICE_OF, WEBHOOK
from datarecs_postgres.urls import conninfo
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.stack import PostgresServer

pytestmark = pytest.mark.integration


def test_a_missing_database_is_made(postgres_server: PostgresServer) -> None:
    admin = postgres_server.url("made_by_bootstrap")
    try:
        bootstrap_database(admin, {})
        bootstrap_database(admin, {})
        with psycopg.connect(conninfo(admin)) as connection:
            assert connection.info.dbname == "made_by_bootstrap"
    finally:
        with psycopg.connect(postgres_server.conninfo, autocommit=True) as connection:
            connection.execute("DROP DATABASE IF EXISTS made_by_bootstrap WITH (FORCE)")


def test_every_role_of_the_list_exists_and_the_owner_cannot_log_in(
    database: PreparedDatabase,
) -> None:
    rows = database.query(
        "SELECT rolname, rolcanlogin FROM pg_roles WHERE rolname LIKE 'datarecs!_%%' ESCAPE '!'",
    )
    assert dict(rows) == {OWNER: False} | dict.fromkeys(LOGINS, True)


def test_a_service_logs_in_with_its_password_and_no_other(database: PreparedDatabase) -> None:
    with database.connect(API) as connection:
        assert connection.info.user == API
    wrong = conninfo(database.url(API)).replace(database.passwords[API], "wrong")
    with pytest.raises(OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)


def test_a_new_password_replaces_the_old_one(database: PreparedDatabase) -> None:
    bootstrap_database(database.admin_url, {WEBHOOK: "another"})
    changed = conninfo(database.url(WEBHOOK)).replace(database.passwords[WEBHOOK], "another")
    with psycopg.connect(changed) as connection:
        assert connection.info.user == WEBHOOK
    bootstrap_database(database.admin_url, {WEBHOOK: database.passwords[WEBHOOK]})
    with database.connect(WEBHOOK) as connection:
        assert connection.info.user == WEBHOOK


def test_the_server_receives_verifiers_and_no_passwords(database: PreparedDatabase) -> None:
    stored = database.query("SELECT rolpassword FROM pg_authid WHERE rolname = ANY (%s)", ([API],))
    assert str(stored[0][0]).startswith("SCRAM-SHA-256$")


def test_support_reads_have_a_time_limit(database: PreparedDatabase) -> None:
    with database.connect(READ) as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("30s",)


def test_the_map_of_roles_is_in_the_database_too(database: PreparedDatabase) -> None:
    assert dict(database.query("SELECT role, service FROM datarecs.service_role")) == SERVICE_OF
    with database.connect(API) as connection:
        named = connection.execute("SELECT datarecs.service_name()").fetchone()
    with database.connect(RELAY) as connection:
        relay = connection.execute("SELECT count(*) FROM datarecs.service_role").fetchone()
    assert (named, relay) == (("core-api",), (len(SERVICE_OF),))


def test_an_old_server_is_refused(
    database: PreparedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "OLDEST_SERVER", 990_000)
    with pytest.raises(ServerTooOldError, match="15 or newer"):
        bootstrap_database(database.admin_url, {})


def test_an_unreachable_server_says_so() -> None:
    with pytest.raises(StoreUnavailableError, match="refused"):
        bootstrap_database("postgresql://nobody:x@127.0.0.1:1/none", {})
