"""The condition of a database for `doctor --platform`: read-only, with any login.

Separate from `schema_check`, which checks only rights.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from datarecs_application.errors import StoreUnavailableError
from datarecs_core.values import aware
from datarecs_postgres.database import Database, Limits

OLDEST_SERVER = 150_000
"""`server_version_num` of PostgreSQL 15."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseCondition:
    server: str
    """Version of the server."""
    is_supported: bool
    schema_fault: str | None
    """Why this release cannot use the schema; None if it can."""
    now: datetime
    """Time of the database."""


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    """The database for a few statements; errors of the driver become ours, without the URL."""
    database = Database(url, limits=Limits(pool_size=1))
    try:
        yield database
    except DBAPIError as cause:
        reason = " ".join(str(cause.orig).split())
        raise StoreUnavailableError(cause=reason) from cause
    finally:
        database.close()


def database_condition(url: str) -> DatabaseCondition:
    """Version, schema and time of the database.

    Raises:
        StoreUnavailableError: it cannot be reached, or refuses the login.
    """
    statement = text(
        "SELECT current_setting('server_version') AS server,"
        " current_setting('server_version_num')::int AS number, clock_timestamp() AS now"
    )
    with _opened(url) as database:
        (row,) = database.call(statement)
        return DatabaseCondition(
            server=row.server,
            is_supported=row.number >= OLDEST_SERVER,
            schema_fault=database.ready(),
            now=aware(row.now),
        )


def oldest_unsent(url: str) -> timedelta | None:
    """How long the oldest event waits for the relay; None while none waits.

    Args:
        url: the relay's login, or an administrator's; another one sees no row.
    """
    statement = text(
        "SELECT now() - min(created_at) AS age FROM datarecs.outbox"
        " WHERE sent_at IS NULL AND parked_at IS NULL"
    )
    with _opened(url) as database:
        (row,) = database.call(statement)
        age: timedelta | None = row.age
        return age
