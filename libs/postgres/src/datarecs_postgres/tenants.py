"""Create a tenant with its first key: `datarecs admin tenant create`, and `up` for `default`.

With the migration login, because no service may create tenants.
"""

import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Connection, func, insert, select
from sqlalchemy.dialects.postgresql import insert as insert_once

from datarecs_core.access.permissions import GRANTS, Permission, Role
from datarecs_core.access.tokens import ID_BYTES, SECRET_BYTES, NewKey, new_key
from datarecs_core.values import TenantId
from datarecs_postgres.failures import TenantExistsError
from datarecs_postgres.ownership import as_owner
from datarecs_postgres.tables.access import API_KEY, TENANT

KEY_LIFETIME = timedelta(days=366)
"""Lifetime of the first key; the maximum for keys."""
FIRST_SUBJECT = "admin"


def create_tenant(url: str, name: str) -> tuple[TenantId, str]:
    """Create a tenant and its first admin key; only the answer contains the key's text.

    Args:
        url: the login datarecs_migrate.
        name: unique over the deployment.

    Raises:
        TenantExistsError: the name is in use; nothing was created.
        RolesMissingError: the login may not do this.
        StoreUnavailableError: the server cannot be reached.
    """
    return _with_new_key(url, lambda connection: _insert_tenant(connection, name))


def new_admin_key(url: str, name: str, *, system: bool = False) -> tuple[TenantId, str]:
    """Create another admin key of a tenant, for a lost first one; existing keys do not change.

    Args:
        url: the login datarecs_migrate.
        name: of the tenant.
        system: whether it also reads figures of the whole platform.

    Raises:
        LookupError: no tenant has this name.
        StoreUnavailableError: the server cannot be reached.
    """
    more = frozenset({Permission.SYSTEM_READ}) if system else frozenset[Permission]()
    return _with_new_key(url, lambda connection: _existing_tenant(connection, name), more)


def _with_new_key(
    url: str,
    tenant_of: Callable[[Connection], TenantId],
    more: frozenset[Permission] = frozenset(),
) -> tuple[TenantId, str]:
    key = new_key(
        id_bytes=secrets.token_bytes(ID_BYTES), secret_bytes=secrets.token_bytes(SECRET_BYTES)
    )
    with as_owner(url) as connection:
        tenant = tenant_of(connection)
        _insert_key(connection, tenant, key, GRANTS[Role.ADMIN] | more)
    return tenant, key.text


def _existing_tenant(connection: Connection, name: str) -> TenantId:
    tenant_id = connection.execute(select(TENANT.c.tenant_id).where(TENANT.c.name == name)).scalar()
    if tenant_id is None:
        raise LookupError(f"no tenant is named {name}")
    return TenantId(tenant_id)


def _insert_tenant(connection: Connection, name: str) -> TenantId:
    made = connection.execute(
        insert_once(TENANT)
        .values(tenant_id=func.gen_random_uuid(), name=name)
        .on_conflict_do_nothing()
        .returning(TENANT.c.tenant_id)
    ).scalar()
    if made is None:
        raise TenantExistsError(name=name)
    return TenantId(made)


def _insert_key(
    connection: Connection, tenant: TenantId, key: NewKey, permissions: frozenset[Permission]
) -> None:
    now: datetime = connection.execute(select(func.now())).scalar_one()
    connection.execute(
        insert(API_KEY).values(
            tenant_id=tenant,
            key_id=key.key_id,
            name="first admin key",
            subject=FIRST_SUBJECT,
            secret_sha256=key.secret_sha256,
            permissions=sorted(permissions),
            created_at=now,
            expires_at=now + KEY_LIFETIME,
        )
    )
