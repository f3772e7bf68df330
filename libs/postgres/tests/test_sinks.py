"""What is stored of sinks: the suites of the ports, rows that go with others, and rights."""

from collections.abc import Callable
from uuid import UUID

import pytest
from psycopg.errors import InsufficientPrivilege

from datarecs_application.ports.sinking import SinkMemory
from datarecs_core.sink.declared import SinkStatus
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.roles import API, MAIL, SINK
from datarecs_postgres.sink_leases import PostgresSinkLeases
from datarecs_testing.builders import A_TENANT
from datarecs_testing.clock import FixedIds
from datarecs_testing.conformance.sink_leases import (
    SESSION,
    SinkLeasesConformance,
    StoredSinkMemoryConformance,
    status,
    wanted,
)
from datarecs_testing.conformance.sink_memory import cycle, snapshot
from datarecs_testing.conformance.sink_resets import SinkResetsConformance
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration


@pytest.fixture
def leases(connect: Callable[..., Database]) -> PostgresSinkLeases:
    return PostgresSinkLeases(connect(SINK, limits=Limits(pool_size=3)), FixedIds(20_000_000))


class TestSinkLeases(SinkLeasesConformance):
    pass


class TestSinkMemory(StoredSinkMemoryConformance):
    def test_old_commits_are_removed_by_later_ones(
        self, memory: SinkMemory, database: PreparedDatabase
    ) -> None:
        memory.committed_table(snapshot(1))
        memory.committed(cycle(1, offset=5))
        database.query("UPDATE datarecs.sink_commit SET completed_at = now() - interval '91 d'")
        database.query(
            "UPDATE datarecs.sink_table_commit SET committed_at = now() - interval '91 d'"
        )
        memory.committed(cycle(2, offset=6))
        rows = database.query("SELECT commit_id FROM datarecs.sink_commit")
        assert rows == [(UUID(int=2),)]
        assert database.query("SELECT count(*) FROM datarecs.sink_table_commit") == [(0,)]


class TestSinkResets(SinkResetsConformance):
    pass


class TestRows:
    def test_a_removed_sink_has_no_rows(
        self, stores: Stores, leases: PostgresSinkLeases, database: PreparedDatabase
    ) -> None:
        uid = wanted(stores)
        (lease,) = leases.claim("w", limit=1)
        held = leases.memory(lease, SESSION)
        held.committed_table(snapshot(1))
        held.committed(cycle(1, offset=5))
        with stores.resources.unit.begin(A_TENANT) as tx:
            tx.sinks.remove(uid)
        assert leases.renew([lease]) == {}
        for table in ("sink_state", "sink_task", "sink_commit", "sink_table_commit"):
            assert database.query(f"SELECT count(*) FROM datarecs.{table}") == [(0,)]  # noqa: S608  a name of this test
        assert status(stores, uid) == SinkStatus()

    def test_rows_go_with_the_declaration(
        self, stores: Stores, leases: PostgresSinkLeases, database: PreparedDatabase
    ) -> None:
        wanted(stores)
        leases.claim("w", limit=1)
        database.query("DELETE FROM datarecs.resource")
        assert database.query("SELECT count(*) FROM datarecs.sink_task") == [(0,)]


class TestRights:
    def test_the_sink_writes_no_wish_and_takes_no_lease_without_a_claim(
        self, stores: Stores, leases: PostgresSinkLeases, database: PreparedDatabase
    ) -> None:
        wanted(stores)
        leases.claim("w", limit=1)
        with database.connect(SINK) as connection:
            connection.execute("SELECT set_config('app.tenant_id', %s, false)", (str(A_TENANT),))
            for statement in (
                "UPDATE datarecs.sink_state SET wish = 'pause'",
                "UPDATE datarecs.sink_task SET epoch = 9",
                "DELETE FROM datarecs.sink_state",
                "SELECT * FROM datarecs.sealed_secret",
                "SELECT * FROM datarecs.run",
                "UPDATE datarecs.resource SET status = '{}'",
            ):
                with pytest.raises(InsufficientPrivilege):
                    connection.execute(statement)

    @pytest.mark.parametrize("role", [API, MAIL])
    def test_nobody_else_claims(self, database: PreparedDatabase, role: str) -> None:
        with database.connect(role) as connection, pytest.raises(InsufficientPrivilege):
            connection.execute("SELECT * FROM datarecs.claim_sink_tasks('w', '30 s', 1)")
