"""What a service checks in its database before it starts, and the profile noted in the database.

Separate from `schema_check`, because a service also starts on the newer schema of an upgrade: only
what every release promises is checked here (S4, S5 and S16 of the page on hardening).
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from sqlalchemy import text

from datarecs_core.egress.addresses import Profile
from datarecs_core.errors.process import InsecureStartError, RuleFault
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


def start_checks(
    databases: Sequence[Database], profile: Profile, *, now: Callable[[], datetime]
) -> tuple[Callable[[], None], ...]:
    """What every service checks before its loops start; arguments as `refuse_unsafe_database`."""
    return (
        databases[0].require_schema,
        lambda: refuse_unsafe_database(databases, profile, now=now),
    )


def refuse_unsafe_database(
    databases: Sequence[Database], profile: Profile, *, now: Callable[[], datetime]
) -> None:
    """Checked at start, before anything is served, on a database with a schema.

    Args:
        databases: every login of the service; the first is that of its tenants' data.
        profile: of the service.
        now: the clock of this machine.

    Raises:
        InsecureStartError: with every fault.
        UnsafeLoginError: in profile `local`, for a login without row-level security.
        StoreUnavailableError: the database cannot be reached.
    """
    if profile is Profile.LOCAL:
        databases[0].refuse_unsafe_login()
        faults = tuple(_downgrade(databases[0]))
    else:
        faults = tuple(database_faults(databases, now=now))
    if faults:
        raise InsecureStartError(faults)


def database_faults(
    databases: Sequence[Database], *, now: Callable[[], datetime]
) -> Iterator[RuleFault]:
    """Faults in profile `server`."""
    yield from _logins(databases)
    yield from _row_security(databases[0])
    yield from _clock(databases[0], now)


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
