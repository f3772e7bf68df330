"""Transactions as the schema's owner, for the few administrative actions that no service may do.

A separate module so that its imports show every use without tenant policies: tenants and audit
verification, and nothing that a service calls.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from datarecs_postgres import json_text
from datarecs_postgres.failures import RolesMissingError, sqlstate, translated
from datarecs_postgres.urls import engine_url

MAY_NOT_ACT_AS_OWNER = frozenset({"22023", "42501"})
"""SQLSTATEs of SET ROLE if the role does not exist or the login may not use it."""


@contextmanager
def as_owner(url: str) -> Iterator[Connection]:
    """One transaction as datarecs_owner, which sees the rows of every tenant.

    Args:
        url: the login datarecs_migrate.

    Raises:
        RolesMissingError: the login is not a member of the owner, or there is no such role.
        StoreUnavailableError: the server cannot be reached.
        StoreBusyError: another transaction holds a lock.
    """
    engine = create_engine(
        engine_url(url),
        poolclass=NullPool,
        json_serializer=json_text.write,
        json_deserializer=json_text.read,
    )
    try:
        with engine.begin() as connection:
            become_owner(connection, local=True)
            yield connection
    except DBAPIError as failure:
        known = translated(failure)
        if known is None:
            raise
        raise known from failure
    finally:
        engine.dispose()


def become_owner(connection: Connection, *, local: bool) -> None:
    """Take the owner's role, only for the transaction if `local`."""
    statement = "SET LOCAL ROLE datarecs_owner" if local else "SET ROLE datarecs_owner"
    try:
        connection.execute(text(statement))
    except DBAPIError as failure:
        if sqlstate(failure) not in MAY_NOT_ACT_AS_OWNER:
            raise
        raise RolesMissingError(login=connection.engine.url.username or "") from failure
