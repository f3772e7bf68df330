"""A migrated database per test on the session's server: migrated once, then copied or emptied.

A separate module because every member with state needs one, with the logins of production:
`database.url(API)` is subject to row security exactly as core-api is.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import LiteralString
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import TupleRow

from datarecs_core.values import TenantId
from datarecs_postgres.bootstrap import bootstrap_database, open_database
from datarecs_postgres.migrate import upgrade
from datarecs_postgres.rls import TABLES
from datarecs_postgres.roles import LOGINS, MIGRATE
from datarecs_postgres.urls import conninfo, engine_url
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.stack import PostgresServer

STORED_TIMES: Mapping[LiteralString, tuple[LiteralString, ...]] = {
    "run": ("next_reconcile_at", "started_at", "deadline_at"),
    "run_lease": ("lease_until", "due_at"),
    "run_timer": ("due_at", "claimed_until"),
    "run_event": ("time",),
    "ws_ticket": ("expires_at",),
    "idempotency_key": ("created_at",),
    "sealed_secret": ("created_at",),
    "relay_shard": ("lease_until",),
    "relay_owner": ("seen_until",),
    "webhook_delivery": ("due_at", "expires_at", "lease_until"),
    "webhook_endpoint_state": ("next_claim_at", "rate_paid_until", "paused_until"),
    "email_delivery": ("due_at", "claimed_until", "expires_at", "lease_until"),
    "schedule_state": ("due_at",),
    "retention_state": ("due_at",),
    "resource_check": ("due_at", "lease_until"),
    "pointer": ("expires_at",),
    "resource_work": ("due_at", "lease_until", "window_start"),
    "sink_task": ("lease_until",),
    "capture_work": (
        *("due_at", "lease_until", "deadline_at", "waits_since", "cancel_requested_at"),
        "finished_at",
    ),
}
"""Columns that are compared with the database's clock, by table."""


PERMANENT_TABLES = frozenset(
    {"schema_compat", "service_role", "partition_policy", "relay_shard", "tenant"}
)
"""Tables with rows that belong to the schema or are reset separately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDatabase:
    """A database with the schema at head and the tenants A and B."""

    admin_url: str
    """URL of the superuser, without row security; only to prepare and inspect data."""
    passwords: Mapping[str, str] = field(repr=False)
    """By role."""

    def url(self, role: str) -> str:
        """The URL of one of `datarecs_postgres.roles.LOGINS`."""
        return (
            engine_url(self.admin_url)
            .set(username=role, password=self.passwords[role])
            .render_as_string(hide_password=False)
        )

    def connect(self, role: str | None = None) -> psycopg.Connection[TupleRow]:
        """A connection of a role, or of the superuser; each statement commits by itself."""
        url = self.admin_url if role is None else self.url(role)
        return psycopg.connect(conninfo(url), autocommit=True)

    def query(self, statement: LiteralString, parameters: Sequence[object] = ()) -> list[TupleRow]:
        """Rows of one statement, as the superuser."""
        with self.connect() as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def pass_time(self, duration: timedelta) -> None:
        """Advance time for all stored data, because tests cannot change the server's clock."""
        shift = sql.SQL(
            "{column} = CASE WHEN {column} > '9000-01-01' THEN {column} ELSE {column} - {by} END"
        )
        with self.connect() as connection:
            for table, columns in STORED_TIMES.items():
                moved = (
                    shift.format(column=sql.Identifier(name), by=sql.Literal(duration))
                    for name in columns
                )
                connection.execute(
                    sql.SQL("UPDATE datarecs.{} SET {}").format(
                        sql.Identifier(table), sql.SQL(", ").join(moved)
                    )
                )

    def add_tenant(self, name: str, tenant_id: UUID) -> TenantId:
        self.query("INSERT INTO datarecs.tenant VALUES (%s, %s)", (tenant_id, name))
        return TenantId(tenant_id)


@pytest.fixture(scope="session")
def role_passwords() -> Mapping[str, str]:
    """One password per login, made for this session."""
    return {role: secrets.token_urlsafe(12) for role in LOGINS}


@pytest.fixture(scope="session")
def migrated_template(
    postgres_server: PostgresServer, role_passwords: Mapping[str, str]
) -> PreparedDatabase:
    """The template database of tests; nothing connects to it."""
    template = PreparedDatabase(
        admin_url=postgres_server.fresh_database(), passwords=role_passwords
    )
    bootstrap_database(template.admin_url, role_passwords)
    upgrade(template.url(MIGRATE))
    template.add_tenant("a", A_TENANT)
    template.add_tenant("b", B_TENANT)
    return template


@pytest.fixture
def private_database(migrated_template: PreparedDatabase) -> Iterator[PreparedDatabase]:
    """A copy for one test, dropped after it: for tests that change the schema."""
    with copied(migrated_template) as copy:
        yield copy


@pytest.fixture(scope="session")
def shared_database(migrated_template: PreparedDatabase) -> Iterator[PreparedDatabase]:
    """The copy that most tests use one after another; use `database`, which empties it."""
    with copied(migrated_template) as copy:
        yield copy


@pytest.fixture
def database(shared_database: PreparedDatabase) -> PreparedDatabase:
    """An emptied database with the tenants A and B, in 20 ms; without other connections."""
    with shared_database.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute("SET session_replication_role = replica")  # in any order of references
        for name in sorted({access.table for access in TABLES} - PERMANENT_TABLES):
            connection.execute(sql.SQL("DELETE FROM datarecs.{}").format(sql.Identifier(name)))
        connection.execute("DELETE FROM datarecs.tenant WHERE name NOT IN ('a', 'b')")
        connection.execute(
            "UPDATE datarecs.relay_shard SET owner = NULL, epoch = 0, lease_until = NULL"
        )
    return shared_database


@contextmanager
def copied(template: PreparedDatabase) -> Iterator[PreparedDatabase]:
    """A copy for as long as the block lasts."""
    origin = engine_url(template.admin_url)
    name = f"t_{secrets.token_hex(8)}"
    copy = PreparedDatabase(
        admin_url=origin.set(database=name).render_as_string(hide_password=False),
        passwords=template.passwords,
    )
    maintenance = conninfo(template.admin_url, database="postgres")
    with psycopg.connect(maintenance, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(origin.database or "")
            )
        )
        with copy.connect() as copy_connection:
            open_database(copy_connection)
        yield copy
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
