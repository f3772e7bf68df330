"""The audit chain in the database: sound as written, and every tampering named."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import LiteralString

import pytest

from datarecs_application.ports.state import AuditEntry
from datarecs_postgres.audit import broken_chains
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.roles import API, MIGRATE
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.clock import FixedIds
from datarecs_testing.conformance.stores import carry_out
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration

ENTRY = AuditEntry(
    actor="u-1",
    actor_kind="key",
    action="resource.write",
    resource_kind="Connection",
    resource_uid="uid",
    detail={"changed": ["spec"], "n": 1, "text": "größe", "none": None},
    before_sha256=bytes(32),
    address="192.0.2.7",
)


@pytest.fixture
def unit(database: PreparedDatabase) -> Iterator[PostgresUnitOfWork]:
    with closing(Database(database.url(API), limits=Limits(pool_size=4))) as pool:
        yield PostgresUnitOfWork(pool, FixedIds())


@pytest.fixture
def chained(unit: PostgresUnitOfWork, database: PreparedDatabase) -> PreparedDatabase:
    """Four deeds of A, one of B."""
    for _ in range(4):
        carry_out(unit, A_TENANT, lambda tx: tx.audit.append(ENTRY))
    carry_out(unit, B_TENANT, lambda tx: tx.audit.append(ENTRY))
    return database


def test_what_was_written_is_sound(chained: PreparedDatabase) -> None:
    assert broken_chains(chained.url(MIGRATE)) == {}


@pytest.mark.case("X76")
@pytest.mark.parametrize(
    ("tampering", "named"),
    [
        ("UPDATE datarecs.audit_event SET actor = 'u-2' WHERE seq = 2", 2),
        ("UPDATE datarecs.audit_event SET detail = '{}' WHERE seq = 3", 3),
        ("UPDATE datarecs.audit_event SET at = at + interval '1 us' WHERE seq = 1", 1),
        ("DELETE FROM datarecs.audit_event WHERE seq = 2", 2),
        ("DELETE FROM datarecs.audit_event WHERE seq = 4", 4),
        ("UPDATE datarecs.audit_event SET hash = prev_hash WHERE seq = 4", 4),
    ],
)
def test_a_changed_chain_names_its_first_broken_row(
    chained: PreparedDatabase, tampering: LiteralString, named: int
) -> None:
    chained.query(tampering)
    assert broken_chains(chained.url(MIGRATE))[A_TENANT] == named


def test_a_lost_head_is_noticed(chained: PreparedDatabase) -> None:
    chained.query("DELETE FROM datarecs.audit_head WHERE tenant_id = %s", (B_TENANT,))
    assert broken_chains(chained.url(MIGRATE)) == {B_TENANT: 2}


def test_concurrent_deeds_make_one_chain(
    unit: PostgresUnitOfWork, database: PreparedDatabase
) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda _: carry_out(unit, A_TENANT, lambda tx: tx.audit.append(ENTRY)), range(20)
            )
        )
    assert database.query("SELECT max(seq), count(*) FROM datarecs.audit_event") == [(20, 20)]
    assert broken_chains(database.url(MIGRATE)) == {}
