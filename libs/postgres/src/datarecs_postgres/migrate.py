"""Migrate the schema to head: one alembic head, one migrator at a time, short locks.

Called from code, because the product has no alembic.ini: the stack, the CLI and the tests pass a
URL.
"""

from collections.abc import Callable
from importlib.resources import files

import psycopg
from alembic import command, op
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, NullPool, create_engine, func, select, text
from sqlalchemy.exc import DBAPIError

from datarecs_postgres.failures import (
    MigrationBlockedError,
    SchemaTooNewError,
    sqlstate,
    translated,
)
from datarecs_postgres.ownership import become_owner
from datarecs_postgres.sessions import refuse_older_services
from datarecs_postgres.tables.metadata import SCHEMA
from datarecs_postgres.urls import engine_url

TRIES = 20
LOCK_TIMEOUT = "5s"
"""A migration that waits for a lock blocks all later sessions: it gives up and retries."""


def upgrade(url: str, revision: str = "head") -> None:
    """Apply every migration up to `revision` and create the partitions of the next days.

    Safe to repeat; of two concurrent calls one waits for the other. Older services may run, unless
    a migration removes what they use: it states the oldest release that works after it as
    `oldest_release`, and nothing is applied while an older one is connected.

    Args:
        url: the login datarecs_migrate, or another member of the owner.
        revision: for tests; production goes to head.

    Raises:
        RolesMissingError: the database was not bootstrapped, or the login may not migrate.
        SchemaTooNewError: the database knows a revision that this release does not.
        MigrationBlockedError: a table was locked in every try.
        ServicesRunningError: a service of an older release uses what would be removed.
        StoreUnavailableError: the server cannot be reached.
    """
    _migrate(url, lambda config: _upgrade(config, revision))


def downgrade(url: str, revision: str) -> None:
    """Revert migrations, for tests; production rolls back to older images on the newer schema."""
    _migrate(url, lambda config: command.downgrade(config, revision))


def _upgrade(config: Config, revision: str) -> None:
    connection: Connection = config.attributes["connection"]
    for applied, oldest in _contracting(connection, config, revision):
        purpose = f"migration {applied} removes what releases before {oldest} use"
        refuse_older_services(connection, oldest=oldest, purpose=purpose)
    connection.rollback()  # alembic commits only transactions that it begins
    command.upgrade(config, revision)


def _contracting(connection: Connection, config: Config, revision: str) -> list[tuple[str, str]]:
    """(revision, oldest release) of the waiting migrations that remove something, oldest first."""
    context = MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA})
    script = ScriptDirectory.from_config(config)
    current = context.get_current_revision()
    steps = script.walk_revisions(base=current or "base", head=revision)
    marked = ((one.revision, getattr(one.module, "oldest_release", None)) for one in steps)
    return sorted(
        (name, oldest) for name, oldest in marked if oldest is not None and name != current
    )


def run_sql_file(name: str) -> None:
    """Run a file of `migrations/sql` inside the current migration. Called by migrations only."""
    _run_file(op.get_bind(), name)


def _run_file(connection: Connection, name: str) -> None:
    """Run all statements of a file at once; only the driver accepts several."""
    script = files("datarecs_postgres").joinpath("migrations", "sql", name).read_bytes()
    driver = connection.connection.driver_connection
    if not isinstance(driver, psycopg.Connection):
        raise TypeError("migrations run on psycopg")
    driver.execute(script)


def _migrate(url: str, act: Callable[[Config], None]) -> None:
    engine = create_engine(engine_url(url), poolclass=NullPool)
    try:
        with engine.connect() as connection:
            _act_as_owner(connection)
            _repeat(connection, act)
            if connection.dialect.has_table(connection, "partition_policy", schema=SCHEMA):
                connection.execute(select(func.datarecs.maintain_partitions()))
            connection.commit()
    except DBAPIError as failure:
        known = translated(failure)
        if known is None:
            raise
        raise known from failure
    finally:
        engine.dispose()


def _act_as_owner(connection: Connection) -> None:
    """Become the owner, as the only migrator, with short lock waits from here on."""
    become_owner(connection, local=False)
    connection.execute(text("SELECT pg_advisory_lock(1684108385, 3)"))
    connection.execute(select(func.set_config("lock_timeout", LOCK_TIMEOUT, False)))  # noqa: FBT003  is_local
    _run_file(connection, "prepare.sql")
    connection.commit()


def _repeat(connection: Connection, act: Callable[[Config], None]) -> None:
    config = configuration(connection)
    for _ in range(TRIES):
        try:
            act(config)
        except (DBAPIError, psycopg.Error) as failure:
            connection.rollback()
            if sqlstate(failure) != "55P03":
                raise
        except CommandError as failure:
            revision = _current(connection)
            raise SchemaTooNewError(revision=revision) from failure
        else:
            return
    raise MigrationBlockedError(tries=TRIES)


def configuration(connection: Connection) -> Config:
    """Alembic's configuration for a connection that is open already."""
    config = Config()
    config.set_main_option("script_location", str(files("datarecs_postgres") / "migrations"))
    config.attributes["connection"] = connection
    return config


def head_revision() -> str:
    """The newest revision of this release."""
    config = Config()
    config.set_main_option("script_location", str(files("datarecs_postgres") / "migrations"))
    return ScriptDirectory.from_config(config).get_current_head() or ""


def _current(connection: Connection) -> str:
    versions = connection.execute(text("SELECT version_num FROM datarecs.alembic_version"))
    return str(versions.scalar())
