"""What a service checks in its database before it starts, and the profile noted in the database.

Separate from `schema_check`, because a service also starts on the newer schema of an upgrade: only
what every release promises is checked here (S4, S5 and S16 of the page on hardening).
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from sqlalchemy import text

from datarecs_core.egress.addresses import Profile
from datarecs_core.errors.process import RuleFault
from datarecs_core.values import aware
from datarecs_postgres.database import Database
from datarecs_postgres.failures import UnsafeLoginError
from datarecs_postgres.ownership import as_owner

MOST_SKEW = timedelta(seconds=5)
SERVER_NOTE = "datarecs: profile server"
"""Comment on the schema. A service of profile `local` does not start on such a database."""
_NOTE = text("SELECT obj_description(to_regnamespace('datarecs'), 'pg_namespace') AS note")
_OPEN_TABLES = text(
    "SELECT c.relname AS name FROM pg_class c"
    " JOIN pg_attribute t ON t.attrelid = c.oid AND t.attname = 'tenant_id'"
    " WHERE c.relnamespace = to_regnamespace('datarecs') AND c.relkind IN ('r', 'p')"
    " AND NOT c.relispartition AND NOT (c.relrowsecurity AND c.relforcerowsecurity)"
    " ORDER BY c.relname"
)
_CLOCK = text("SELECT clock_timestamp() AS now")


def database_faults(
    databases: Sequence[Database], profile: Profile, *, now: Callable[[], datetime]
) -> list[RuleFault]:
    """Faults of the logins of a service, the first one with the schema; called once at start.

    Raises:
        UnsafeLoginError: in profile `local`, for a login without row-level security.
        StoreUnavailableError: the database cannot be reached.
    """
    first = databases[0]
    if profile is Profile.LOCAL:
        first.refuse_unsafe_login()
        return list(_downgrade(first))
    return [*_logins(databases), *_row_security(first), *_clock(first, now)]


def note_profile(url: str, profile: Profile) -> None:
    """Note in the database which profile its services have; called by `datarecs admin migrate`.

    Args:
        url: the login datarecs_migrate.
        profile: of the deployment.
    """
    note = f"'{SERVER_NOTE}'" if profile is Profile.SERVER else "NULL"
    with as_owner(url) as connection:
        connection.execute(text(f"COMMENT ON SCHEMA datarecs IS {note}"))


def _downgrade(database: Database) -> Iterator[RuleFault]:
    (row,) = database.call(_NOTE)
    if row.note == SERVER_NOTE:
        yield RuleFault(
            "profile",
            "DATARECS_PROFILE is local, but the database belongs to services of profile server",
            "remove DATARECS_PROFILE; for a database of one person, run `datarecs admin migrate`"
            " with DATARECS_PROFILE=local",
        )


def _logins(databases: Sequence[Database]) -> Iterator[RuleFault]:
    for database in databases:
        try:
            database.refuse_unsafe_login()
        except UnsafeLoginError as unsafe:
            yield RuleFault(
                "S4",
                f"the database login {unsafe.login} {unsafe.because}",
                "use the role of the service, which `datarecs admin bootstrap-db` creates",
            )


def _row_security(database: Database) -> Iterator[RuleFault]:
    """None without a schema: readiness reports that."""
    if names := [row.name for row in database.call(_OPEN_TABLES)]:
        yield RuleFault(
            "S5",
            f"row-level security is off or not forced for {', '.join(names)}",
            "restore the rights of the release: datarecs doctor --platform lists every difference",
        )


def _clock(database: Database, now: Callable[[], datetime]) -> Iterator[RuleFault]:
    before = now()
    (row,) = database.call(_CLOCK)
    of_database, after = aware(row.now), now()
    if not before - MOST_SKEW <= of_database <= after + MOST_SKEW:
        yield RuleFault(
            "S16",
            f"the clock of this machine differs from the database's by"
            f" {abs((of_database - after).total_seconds()):.0f} s",
            "synchronise the clocks of both machines (NTP)",
        )
