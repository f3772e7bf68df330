"""Create the database and its roles, once, by an administrator; safe to repeat.

Separate from migrations because only this step needs rights that no daily login should have: to
create roles and to grant them access to the database.
"""

from collections.abc import Mapping
from contextlib import suppress

import psycopg
from psycopg import sql
from psycopg.errors import DuplicateDatabase, DuplicateObject, UniqueViolation

from datarecs_application.errors import StoreUnavailableError
from datarecs_postgres.failures import ServerTooOldError
from datarecs_postgres.roles import LOGINS, MIGRATE, OWNER, READ, UNPRIVILEGED
from datarecs_postgres.urls import conninfo, engine_url

OLDEST_SERVER = 150_000
MAINTENANCE_DATABASE = "postgres"

Session = psycopg.Connection[tuple[object, ...]]


def bootstrap_database(admin_url: str, passwords: Mapping[str, str]) -> None:
    """Create the database of the URL if it is missing, and its roles with access. Safe to repeat.

    Args:
        admin_url: a login that may create roles and owns the database (or may create it).
        passwords: by full role name (`roles.LOGINS`); a role without an entry keeps its password,
            and a new one cannot log in yet. The server receives only SCRAM verifiers.

    Raises:
        ServerTooOldError: the server is older than PostgreSQL 15.
        StoreUnavailableError: the server cannot be reached, or refuses the login.
    """
    _ensure_database(admin_url)
    with _connected(admin_url) as session:
        version = session.info.server_version
        if version < OLDEST_SERVER:
            raise ServerTooOldError(version=f"{version // 10_000}.{version % 10_000}")
        _ensure_roles(session, passwords)
        open_database(session)


def open_database(session: Session) -> None:
    """Grant the roles access to the session's database and revoke it from all others.

    Called again for a copy of a prepared database, because a copy does not include these rights.
    """
    name = sql.Identifier(session.info.dbname)
    roles = sql.SQL(", ").join(map(sql.Identifier, LOGINS))
    session.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name))
    session.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(name, roles))
    session.execute(
        sql.SQL("GRANT CONNECT, CREATE ON DATABASE {} TO {}").format(name, sql.Identifier(OWNER))
    )


def _ensure_database(admin_url: str) -> None:
    wanted = engine_url(admin_url).database or MAINTENANCE_DATABASE
    with suppress(psycopg.OperationalError), psycopg.connect(conninfo(admin_url)):
        return
    with _connected(admin_url, database=MAINTENANCE_DATABASE) as session:
        cursor = session.execute("SELECT 1 FROM pg_database WHERE datname = %s", (wanted,))
        if cursor.fetchone() is None:
            with suppress(DuplicateDatabase, UniqueViolation):
                session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(wanted)))


def _connected(url: str, *, database: str | None = None) -> Session:
    try:
        return psycopg.connect(conninfo(url, database=database), autocommit=True)
    except psycopg.OperationalError as cause:
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        raise StoreUnavailableError(cause=lines[0][:200]) from cause


def _ensure_roles(session: Session, passwords: Mapping[str, str]) -> None:
    _ensure_role(session, OWNER, "NOLOGIN")
    for role in LOGINS:
        _ensure_role(session, role, "LOGIN")
        if role in passwords:
            verifier = session.pgconn.encrypt_password(
                passwords[role].encode(), role.encode(), b"scram-sha-256"
            )
            session.execute(
                sql.SQL("ALTER ROLE {} PASSWORD {}").format(
                    sql.Identifier(role), sql.Literal(verifier.decode())
                )
            )
    member = session.execute("SELECT pg_has_role(%s, %s, 'MEMBER')", (MIGRATE, OWNER)).fetchone()
    if member != (True,):
        session.execute(
            sql.SQL("GRANT {} TO {}").format(sql.Identifier(OWNER), sql.Identifier(MIGRATE))
        )
    session.execute(
        sql.SQL("ALTER ROLE {} SET statement_timeout = '30s'").format(sql.Identifier(READ))
    )


def _ensure_role(session: Session, role: str, login: str) -> None:
    row = session.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
    if row is not None:
        return
    inherit = "NOINHERIT" if role in UNPRIVILEGED else "INHERIT"
    with suppress(DuplicateObject, UniqueViolation):
        session.execute(
            sql.SQL("CREATE ROLE {} {} {} NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS").format(
                sql.Identifier(role), sql.SQL(login), sql.SQL(inherit)
            )
        )
