"""Database and broker of a crash test outside pytest: the same servers as in a session.

Separate from the house because a pytest session already has servers; the soak kills its servers and
needs separate ones.
"""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from datarecs_postgres.bootstrap import bootstrap_database
from datarecs_postgres.migrate import upgrade
from datarecs_postgres.roles import LOGINS, MIGRATE
from datarecs_runtime.environment import process_environment
from datarecs_testing import stack
from datarecs_testing.database import PreparedDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Running and migrated servers, used only by this test."""

    folder: Path
    postgres: stack.PostgresServer
    database: PreparedDatabase
    broker: stack.KafkaBroker
    programs: stack.BrokerPrograms


@contextmanager
def temporary_servers() -> Iterator[Servers]:
    """Servers for the block; their data is removed at its end."""
    environment = process_environment()
    with temporary_database() as (folder, server, database):
        programs = stack.find_broker_programs(folder, environment)
        broker = stack.start_kafka(folder, environment, programs, stack.SHORT_LIVED)
        try:
            yield Servers(
                folder=folder,
                postgres=server,
                database=database,
                broker=broker,
                programs=programs,
            )
        finally:
            _ended(broker.jvm)


@contextmanager
def temporary_database() -> Iterator[tuple[Path, stack.PostgresServer, PreparedDatabase]]:
    """A folder, and in it a server with a migrated database; removed at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="datarecs-crash-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)  # the database account passes through it
        server = stack.start_postgres(folder, process_environment())
        try:
            yield folder, server, _prepared(server)
        finally:
            _ended(server.process)


def _prepared(server: stack.PostgresServer) -> PreparedDatabase:
    passwords = {role: secrets.token_urlsafe(12) for role in LOGINS}
    database = PreparedDatabase(admin_url=server.fresh_database(), passwords=passwords)
    bootstrap_database(database.admin_url, passwords)
    upgrade(database.url(MIGRATE))
    return database


def _ended(process: stack.MortalServer | None) -> None:
    if process is not None:
        process.stop()
