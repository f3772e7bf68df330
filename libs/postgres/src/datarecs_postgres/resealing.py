"""Seal every stored secret again, after a new key-encryption key (spec security 10).

With the migration login, because no service may read the secrets of all tenants. A batch is one
transaction and a row changes only if nobody has changed it since, so the command may be stopped and
repeated while all services run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, select, text, tuple_, update

from datarecs_core.errors.security import SecretTamperedError
from datarecs_core.values import ResourceUid, TenantId
from datarecs_postgres.ownership import as_owner
from datarecs_postgres.tables.resources import SEALED_SECRET

BATCH = 100
_KEY = (
    SEALED_SECRET.c.tenant_id,
    SEALED_SECRET.c.resource_uid,
    SEALED_SECRET.c.field,
    SEALED_SECRET.c.key_id,
)
_BY_KEY = text(
    "SELECT convert_from(substring(sealed from 3 for get_byte(sealed, 1)), 'UTF8') AS kek_id,"
    " count(*) AS rows FROM datarecs.sealed_secret GROUP BY 1 ORDER BY 1"
)
"""An envelope starts with its version, the length of the id, and the id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """One row, and what its envelope is bound to."""

    tenant_id: TenantId
    resource_uid: ResourceUid
    key_id: str
    sealed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resealed:
    changed: int
    unreadable: tuple[str, ...]
    """Rows that no configured key opens: resource, key id, reason."""
    rows_by_kek: Mapping[str, int]
    """After the last batch; rows of a concurrent write may be missing."""


def reseal_secrets(url: str, reseal: Callable[[StoredSecret], bytes | None]) -> Resealed:
    """Replace every envelope for which `reseal` returns another one. Safe to repeat.

    Args:
        url: the login datarecs_migrate.
        reseal: raises SecretTamperedError for a row that no key opens; it is left as it is.

    Raises:
        RolesMissingError: the login may not do this.
        StoreUnavailableError: the server cannot be reached; finished batches remain.
    """
    changed, unreadable, last = 0, list[str](), None
    while True:
        with as_owner(url) as connection:
            rows = _batch(connection, last)
            for row in rows:
                try:
                    changed += _replace(connection, row, reseal)
                except SecretTamperedError as error:
                    unreadable.append(f"{row.resource_uid} {row.key_id}: {error}")
        if len(rows) < BATCH:
            break
        last = rows[-1]
    with as_owner(url) as connection:
        by_kek = {row.kek_id: row.rows for row in connection.execute(_BY_KEY)}
    return Resealed(changed=changed, unreadable=tuple(unreadable), rows_by_kek=by_kek)


_Stored = Row[Any]


def _batch(connection: Connection, last: _Stored | None) -> list[_Stored]:
    query = select(*_KEY, SEALED_SECRET.c.sealed).order_by(*_KEY).limit(BATCH)
    if last is not None:
        query = query.where(tuple_(*_KEY) > tuple_(*last[: len(_KEY)]))
    return list(connection.execute(query))


def _replace(
    connection: Connection, row: _Stored, reseal: Callable[[StoredSecret], bytes | None]
) -> int:
    before = bytes(row.sealed)
    after = reseal(
        StoredSecret(
            tenant_id=row.tenant_id,
            resource_uid=row.resource_uid,
            key_id=row.key_id,
            sealed=before,
        )
    )
    if after is None:
        return 0
    is_row = [column == value for column, value in zip(_KEY, row[: len(_KEY)], strict=True)]
    replaced = connection.execute(
        update(SEALED_SECRET).where(*is_row, SEALED_SECRET.c.sealed == before).values(sealed=after)
    )
    return replaced.rowcount
