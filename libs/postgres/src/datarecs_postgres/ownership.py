"""Transactions as the schema's owner, for the few administrative acts that no service may do.

Its own module so that the one way past tenants' policies can be found by its imports: tenants,
audit verification, and nothing a service calls.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from datarecs_postgres import json_text
from datarecs_postgres.failures import RolesMissingError, sqlstate, translated
from datarecs_postgres.urls import engine_url

MAY_NOT_ACT_AS_OWNER = frozenset({"22023", "42501"})
"""What SET ROLE answers when the role does not exist or is not the login's to take."""


@contextmanager
def as_owner(url: str) -> Iterator[Connection]:
    """One transaction as datarecs_owner, who sees every tenant's rows.

    Args:
        url: the login datarecs_migrate.

    Raises:
        RolesMissingError: the login is not a member of the owner, or there is no such role.
        StoreUnavailableError: the server cannot be reached.
        StoreBusyError: another transaction was in the way.
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
    """Take the owner's role, for the transaction alone when `local`."""
    statement = "SET LOCAL ROLE datarecs_owner" if local else "SET ROLE datarecs_owner"
    try:
        connection.execute(text(statement))
    except DBAPIError as failure:
        if sqlstate(failure) not in MAY_NOT_ACT_AS_OWNER:
            raise
        raise RolesMissingError(login=connection.engine.url.username or "") from failure
