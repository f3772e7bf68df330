"""A role that may do more than read is refused by profile `server`, and named by a probe."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import tuple_row

from datarecs_connectors.errors import PermissionDeniedError
from datarecs_connectors.postgres import PostgresConnector
from datarecs_connectors.postgres_privileges import excess_privileges
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import PostgresConfig, SslMode
from datarecs_testing.stack import PostgresServer

pytestmark = pytest.mark.integration
SOURCE = Source(name="ledger", kind=SourceKind.POSTGRES, connection="c", relation="public.t")
GRANTS: tuple[tuple[LiteralString, str], ...] = (
    ("ALTER ROLE {} SUPERUSER", "is a superuser"),
    ("ALTER ROLE {} CREATEROLE", "may create roles"),
    ("ALTER ROLE {} CREATEDB", "may create databases"),
    ("ALTER ROLE {} REPLICATION", "may replicate"),
    ("GRANT pg_read_server_files TO {}", "is a member of pg_read_server_files"),
    ("GRANT pg_execute_server_program TO {}", "is a member of pg_execute_server_program"),
    ("GRANT pg_signal_backend TO {}", "is a member of pg_signal_backend"),
    ("GRANT INSERT ON public.t TO {}", "owns or may write public.t"),
    ("GRANT UPDATE (id) ON public.t TO {}", "owns or may write public.t"),
    ("GRANT TRUNCATE ON public.t TO {}", "owns or may write public.t"),
    ("ALTER TABLE public.t OWNER TO {}", "owns or may write public.t"),
)


class LoopbackConnector(PostgresConnector):
    """Dials the test's server, which profile `server` never does."""

    def _address(self) -> str:
        return "127.0.0.1"


class Database:
    """One table, and a role that may read it and nothing else until a test grants more."""

    def __init__(self, server: PostgresServer) -> None:
        self.admin = psycopg.conninfo.make_conninfo(
            server.fresh_database().replace("postgresql+psycopg", "postgresql")
        )
        fields = psycopg.conninfo.conninfo_to_dict(self.admin)
        self.port, self.name = int(fields["port"] or 5432), str(fields["dbname"])
        self.role = f"source_{self.name}"
        self.run("CREATE TABLE public.t (id int)")
        self.run("CREATE ROLE {} LOGIN PASSWORD 'secret'")
        self.run("GRANT SELECT ON public.t TO {}")

    def run(self, statement: LiteralString) -> None:
        with psycopg.connect(self.admin, autocommit=True) as session:
            session.execute(sql.SQL(statement).format(sql.Identifier(self.role)))

    def connector(self, profile: Profile) -> PostgresConnector:
        return LoopbackConnector(
            source=SOURCE.name,
            config=PostgresConfig(
                host="127.0.0.1",
                port=self.port,
                database=self.name,
                user=self.role,
                sslmode=SslMode.DISABLE,
            ),
            password="secret",
            policy=Policy(purpose=Purpose.CONNECTION, profile=profile),
        )

    def excess(self) -> tuple[str, ...]:
        fields = psycopg.conninfo.conninfo_to_dict(self.admin)
        fields |= {"user": self.role, "password": "secret"}
        with psycopg.connect(**fields, row_factory=tuple_row) as session:  # type: ignore[arg-type]  # one type for all fields
            return excess_privileges(session)


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[Database]:
    made = Database(postgres_server)
    yield made
    made.run("ALTER TABLE public.t OWNER TO CURRENT_USER")
    made.run("DROP OWNED BY {}")
    made.run("DROP ROLE {}")


@pytest.mark.case("X37")
@pytest.mark.parametrize(("grant", "words"), GRANTS)
def test_profile_server_refuses_a_role_that_may_do_more_than_read(
    database: Database, grant: LiteralString, words: str
) -> None:
    database.run(grant)
    assert database.excess() == (words,)
    with pytest.raises(PermissionDeniedError, match=words):
        database.connector(Profile.SERVER).pin(SOURCE)


@pytest.mark.case("X37")
def test_profile_local_reads_with_such_a_role_and_its_probe_names_it(database: Database) -> None:
    database.run("GRANT DELETE ON public.t TO {}")
    connector = database.connector(Profile.LOCAL)
    connector.pin(SOURCE).close()
    steps = {step.name: step for step in connector.probe(SOURCE)}
    assert steps["privileges"].ok
    assert "owns or may write public.t" in steps["privileges"].detail


@pytest.mark.case("X37")
def test_profile_server_reads_with_a_role_that_only_reads(database: Database) -> None:
    connector = database.connector(Profile.SERVER)
    connector.pin(SOURCE).close()
    steps = {step.name: step for step in connector.probe(SOURCE)}
    assert steps["privileges"].detail == f"role {database.role} only reads"


@pytest.mark.case("X38")
def test_settings_that_a_query_changes_reach_no_other_session(database: Database) -> None:
    connector = database.connector(Profile.LOCAL)
    with closing(connector._session(timedelta(seconds=5))) as first:  # noqa: SLF001  the session a query runs in
        first.execute("SELECT set_config('default_transaction_read_only', 'off', false)")
        first.execute("SELECT set_config('statement_timeout', '0', false)")
    held = connector.pin(SOURCE)
    with closing(connector._session(timedelta(seconds=5))) as second:  # noqa: SLF001  another run's
        row = second.execute("SHOW statement_timeout").fetchone()
        assert row == ("5s",)
    assert held.session.execute("SHOW transaction_read_only").fetchone() == ("on",)
    held.close()
