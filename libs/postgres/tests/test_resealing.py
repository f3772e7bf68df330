"""Stored secrets move to a new key-encryption key while services read them."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from uuid import UUID

import pytest
from pydantic import SecretStr

from datarecs_core.errors.security import SecretTamperedError
from datarecs_core.values import ResourceUid, TenantId
from datarecs_core.webhooks.signature import SECRET_FIELD, secret_context
from datarecs_postgres.database import Database
from datarecs_postgres.resealing import BATCH, Resealed, StoredSecret, reseal_secrets
from datarecs_postgres.roles import MIGRATE, WEBHOOK
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_runtime.clock import Latch
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.clock import FixedIds
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration
OLD, NEW = bytes(range(32)), bytes(range(1, 33))
ROWS = BATCH + 20
"""Of each of two tenants."""


def store(current: str, **keys: bytes) -> TenantSecrets:
    return TenantSecrets(
        Secrets(kek=SecretStr("unused")), keyring=Keyring(keys, current=current), environment={}
    )


BEFORE, DURING, AFTER = store("old", old=OLD), store("new", old=OLD, new=NEW), store("new", new=NEW)


def reseal(stored: StoredSecret) -> bytes | None:
    context = secret_context(stored.tenant_id, stored.resource_uid, stored.key_id)
    return DURING.reseal(stored.sealed, context=context)


def plain(tenant: TenantId, number: int) -> bytes:
    return f"whsec_{tenant}_{number}".encode()


@pytest.fixture
def uids(database: PreparedDatabase) -> dict[TenantId, ResourceUid]:
    """Secrets sealed under the old key, of one resource per tenant."""
    uids = {A_TENANT: ResourceUid(UUID(int=1)), B_TENANT: ResourceUid(UUID(int=2))}
    with database.connect() as connection:
        connection.execute("SET session_replication_role = replica")  # without the resources
        for tenant, uid in uids.items():
            for number in range(ROWS):
                context = secret_context(tenant, uid, str(number))
                sealed = BEFORE.seal(plain(tenant, number), context=context)
                connection.execute(
                    "INSERT INTO datarecs.sealed_secret (tenant_id, resource_uid, field, key_id,"
                    " sealed) VALUES (%s, %s, %s, %s, %s)",
                    (tenant, uid, SECRET_FIELD, str(number), sealed),
                )
    return uids


def opened(
    database: Database, secrets: TenantSecrets, tenant: TenantId, uid: ResourceUid
) -> list[bytes]:
    """Every secret of the resource, read with the login of the webhook-service."""
    with PostgresUnitOfWork(database, FixedIds()).begin(tenant) as tx:
        rows = tx.secrets.live(uid, SECRET_FIELD)
    return sorted(
        secrets.open(sealed, context=secret_context(tenant, uid, key_id)) for key_id, sealed in rows
    )


@contextmanager
def reading(database: PreparedDatabase, uid: ResourceUid) -> Iterator[list[Exception]]:
    """Opens all secrets of tenant A again and again, as deliveries do; its failures."""
    stop, failures, reads = Latch(), list[Exception](), list[int]()
    expected = sorted(plain(A_TENANT, number) for number in range(ROWS))

    def read() -> None:
        with closing(Database(database.url(WEBHOOK))) as login:
            while not stop.is_set() or len(reads) < 2:
                try:
                    assert opened(login, DURING, A_TENANT, uid) == expected
                except Exception as failure:  # noqa: BLE001  reported by the test
                    failures.append(failure)
                reads.append(ROWS)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield failures
    finally:
        stop.set()
        reader.join(timeout=30)
    assert sum(reads) >= 2 * ROWS


@pytest.mark.case("X67", "W25")
def test_a_stopped_rotation_goes_on_while_every_secret_stays_readable(
    database: PreparedDatabase, uids: dict[TenantId, ResourceUid]
) -> None:
    left = BATCH + 10

    def killed(stored: StoredSecret) -> bytes | None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return reseal(stored)

    with reading(database, uids[A_TENANT]) as failures:
        with pytest.raises(KeyboardInterrupt):
            reseal_secrets(database.url(MIGRATE), killed)
        done = reseal_secrets(database.url(MIGRATE), reseal)
        again = reseal_secrets(database.url(MIGRATE), reseal)
    assert failures == []
    assert done == Resealed(changed=2 * ROWS - BATCH, unreadable=(), rows_by_kek={"new": 2 * ROWS})
    assert (again.changed, again.rows_by_kek) == (0, {"new": 2 * ROWS})
    with closing(Database(database.url(WEBHOOK))) as login:
        for tenant, uid in uids.items():
            assert opened(login, AFTER, tenant, uid) == sorted(
                plain(tenant, number) for number in range(ROWS)
            )


def test_a_secret_that_no_key_opens_is_named_and_left(
    database: PreparedDatabase, uids: dict[TenantId, ResourceUid]
) -> None:
    database.query(
        "UPDATE datarecs.sealed_secret SET sealed = sealed || '\\x00'"
        " WHERE tenant_id = %s AND key_id = '7'",
        (A_TENANT,),
    )
    done = reseal_secrets(database.url(MIGRATE), reseal)
    assert done.changed == 2 * ROWS - 1
    (line,) = done.unreadable
    assert line.startswith(f"{uids[A_TENANT]} 7: a stored secret cannot be decrypted")
    assert done.rows_by_kek == {"new": 2 * ROWS - 1, "old": 1}


def test_a_key_that_is_not_configured_opens_nothing() -> None:
    context = {"tenant": "a"}
    sealed = BEFORE.seal(b"x", context=context)
    with pytest.raises(SecretTamperedError, match="'old'"):
        AFTER.reseal(sealed, context=context)
