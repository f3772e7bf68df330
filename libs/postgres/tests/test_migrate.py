"""Migrations on the real server: up, down, up; one head; two at once; what a release accepts."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg import sql
from sqlalchemy import create_engine

from datarecs_postgres import migrate
from datarecs_postgres.bootstrap import bootstrap_database
from datarecs_postgres.database import newest_revision
from datarecs_postgres.failures import (
    MigrationBlockedError,
    RolesMissingError,
    SchemaTooNewError,
)
from datarecs_postgres.migrate import configuration, downgrade, upgrade
from datarecs_postgres.roles import API, MIGRATE
from datarecs_postgres.schema_check import schema_faults
from datarecs_postgres.tables import METADATA, SCHEMA
from datarecs_postgres.urls import engine_url
from datarecs_testing.builders import A_TENANT, a_run
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.stack import PostgresServer

pytestmark = pytest.mark.integration


@pytest.fixture
def empty_database(
    postgres_server: PostgresServer, migrated_template: PreparedDatabase
) -> Iterator[PreparedDatabase]:
    """A bootstrapped database without a schema, dropped behind the test."""
    url = postgres_server.fresh_database()
    bootstrap_database(url, {})
    yield PreparedDatabase(admin_url=url, passwords=migrated_template.passwords)
    with PreparedDatabase(
        admin_url=postgres_server.url("postgres"), passwords={}
    ).connect() as connection:
        name = engine_url(url).database or ""
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def tables(database: PreparedDatabase) -> list[str]:
    rows = database.query(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = 'datarecs' AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
        " ORDER BY 1"
    )
    return [name for (name,) in rows]


def scripts() -> ScriptDirectory:
    return ScriptDirectory(str(files("datarecs_postgres") / "migrations"))


class TestUpgrade:
    def test_up_down_up_ends_where_it_began(self, empty_database: PreparedDatabase) -> None:
        url = empty_database.url(MIGRATE)
        upgrade(url)
        first = tables(empty_database)
        downgrade(url, "base")
        left = tables(empty_database)
        upgrade(url)
        assert left == ["alembic_version"]
        assert tables(empty_database) == first
        assert schema_faults(url) == []

    def test_every_migration_goes_down_and_up_on_data(
        self, private_database: PreparedDatabase
    ) -> None:
        url = private_database.url(MIGRATE)
        revisions = [one.revision for one in scripts().walk_revisions()]
        private_database.query(
            "INSERT INTO datarecs.run (tenant_id, run_id, job_id, job_name, job_generation,"
            " spec_hash, spec, triggered_by, execution_name, created_at)"
            " VALUES (%s, %s, %s, 'j', 1, 's', '{}', 'u', 'e', now())",
            (A_TENANT, a_run().run_id, a_run().job_id),
        )
        for _ in revisions[:-1]:
            downgrade(url, "-1")
        upgrade(url)
        assert private_database.query("SELECT count(*) FROM datarecs.run") == [(1,)]
        assert schema_faults(url) == []

    def test_repeating_it_changes_nothing(self, private_database: PreparedDatabase) -> None:
        url = private_database.url(MIGRATE)
        before = tables(private_database)
        upgrade(url)
        upgrade(url)
        assert tables(private_database) == before

    @pytest.mark.case("K46")
    def test_of_two_at_once_one_waits_and_both_succeed(
        self, empty_database: PreparedDatabase
    ) -> None:
        url = empty_database.url(MIGRATE)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(upgrade, [url, url]))
        revisions = empty_database.query("SELECT version_num FROM datarecs.alembic_version")
        assert revisions == [(newest_revision(),)]

    def test_there_is_one_head_and_the_files_name_it(self) -> None:
        assert scripts().get_heads() == [newest_revision()]

    def test_autogenerate_finds_nothing_to_do(self, database: PreparedDatabase) -> None:
        """Tables, columns, types, defaults, indexes and keys; partitions are left out."""
        partitions = {
            name
            for (name,) in database.query(
                "SELECT relname FROM pg_class WHERE relnamespace = 'datarecs'::regnamespace"
                " AND relispartition"
            )
        }

        def ours(name: str | None, kind: str, parents: object) -> bool:
            del parents
            if kind == "schema":
                return name == SCHEMA
            return kind != "table" or name not in {*partitions, "alembic_version"}

        engine = create_engine(engine_url(database.admin_url))
        with engine.connect() as connection:
            context = MigrationContext.configure(
                connection,
                opts={
                    "include_schemas": True,
                    "include_name": ours,
                    "compare_server_default": True,
                    "version_table_schema": SCHEMA,
                },
            )
            differences = compare_metadata(context, METADATA)
        engine.dispose()
        assert differences == []

    def test_partitions_of_the_next_days_are_made(self, database: PreparedDatabase) -> None:
        rows = database.query(
            "SELECT count(*) FROM pg_inherits"
            " WHERE inhparent = 'datarecs.outbox'::regclass AND inhrelid::regclass::text"
            " ~ '_[0-9]{8}$'"
        )
        assert rows == [(8,)]


class TestRefusals:
    def test_a_login_that_may_not_migrate_is_reported_as_such(
        self, database: PreparedDatabase
    ) -> None:
        with pytest.raises(RolesMissingError) as failure:
            upgrade(database.url(API))
        assert failure.value.login == API
        assert "bootstrap-db" in str(failure.value)

    @pytest.mark.case("K50")
    def test_a_database_of_a_newer_release_is_refused(
        self, private_database: PreparedDatabase
    ) -> None:
        private_database.query("UPDATE datarecs.alembic_version SET version_num = '9999'")
        with pytest.raises(SchemaTooNewError) as failure:
            upgrade(private_database.url(MIGRATE))
        assert failure.value.code.docs_id == "DR5006"
        assert "9999" in str(failure.value)

    def test_a_table_that_stays_locked_ends_the_attempt(
        self, private_database: PreparedDatabase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(migrate, "TRIES", 2)
        monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "100ms")
        url = private_database.url(MIGRATE)
        with private_database.connect() as holder, holder.transaction():
            holder.execute("LOCK TABLE datarecs.schema_compat IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(MigrationBlockedError):
                downgrade(url, "base")
        assert schema_faults(url) == []

    def test_a_configuration_names_the_migrations_of_this_package(
        self, database: PreparedDatabase
    ) -> None:
        engine = create_engine(engine_url(database.admin_url))
        with engine.connect() as connection:
            config = configuration(connection)
        engine.dispose()
        assert ScriptDirectory.from_config(config).get_current_head() == newest_revision()
