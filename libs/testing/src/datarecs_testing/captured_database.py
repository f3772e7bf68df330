"""A PostgreSQL database that a test captures with a login that may only read."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import LiteralString

import psycopg
from psycopg import sql

from datarecs_application.ports.capturing import CaptureSource
from datarecs_connectors.capturing.opening import open_capture_source
from datarecs_connectors.capturing.postgres import PostgresCaptureSource
from datarecs_connectors.postgres import PostgresConnector
from datarecs_connectors.registry import Surroundings
from datarecs_core.captures.request import (
    CapturePolicy,
    ColumnChoice,
    ObjectName,
    Output,
)
from datarecs_core.captures.source_facts import CapturedTable
from datarecs_core.catalog.records import ScalarStats
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    PostgresConfig,
    SslMode,
)
from datarecs_testing.stack import PostgresServer

ALL = CapturePolicy(
    outputs=(Output.TABLE_STATS, Output.COLUMN_STATS), column_choice=ColumnChoice.ALL
)


_PASSWORD = "secret"  # noqa: S105  of a role that one test has


class LoopbackConnector(PostgresConnector):
    """Dials the test's server, which profile `server` never does."""

    def _address(self) -> str:
        return "127.0.0.1"


@dataclass
class CapturedDatabase:
    """A database of one test, and a login that may only read it."""

    admin: str
    config: PostgresConfig
    open: Callable[..., CaptureSource]

    def run(self, statement: LiteralString) -> None:
        with psycopg.connect(self.admin, autocommit=True) as session:
            session.execute(statement)
            session.execute(
                sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}").format(
                    sql.Identifier(self.config.user)
                )
            )

    @property
    def source(self) -> CaptureSource:
        return self.open()

    def capture(self, table: str, policy: CapturePolicy = ALL) -> CapturedTable:
        return self.source.capture_table(named(table), policy)

    def stats(self, definition: LiteralString) -> ScalarStats:
        """Of the first column of a table made by a statement."""
        self.run(definition)
        return self.capture("t").columns[0]


def named(table: str, schema: str = "public") -> ObjectName:
    return ObjectName(namespace=(schema,), name=table)


def a_captured_database(postgres_server: PostgresServer) -> CapturedDatabase:
    """A fresh one on the server."""
    admin = postgres_server.fresh_database().replace("postgresql+psycopg", "postgresql")
    fields = psycopg.conninfo.conninfo_to_dict(admin)
    config = PostgresConfig(
        host="127.0.0.1",
        port=int(fields["port"] or 5432),
        database=str(fields["dbname"]),
        user=f"reader_{fields['dbname']}",
        sslmode=SslMode.DISABLE,
    )
    with psycopg.connect(admin, autocommit=True) as session:
        user = sql.Identifier(config.user)
        session.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(user, sql.Literal(_PASSWORD))
        )

    def opened(profile: Profile = Profile.LOCAL) -> CaptureSource:
        policy = Policy(purpose=Purpose.CONNECTION, profile=profile)
        if profile is Profile.LOCAL:
            return open_capture_source(
                "ledger",
                Connection(type=ConnectionType.POSTGRES, config=config),
                {"password": _PASSWORD},
                Surroundings(roots=(), policy=policy, now=lambda: datetime(2026, 1, 1, tzinfo=UTC)),
            )
        connector = LoopbackConnector(
            source="ledger", config=config, password=_PASSWORD, policy=policy
        )
        return PostgresCaptureSource(connector=connector)

    return CapturedDatabase(admin=admin, config=config, open=opened)
