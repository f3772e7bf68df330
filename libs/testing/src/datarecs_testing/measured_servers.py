"""Real servers to measure on: PostgreSQL with fsync on, and a Kafka broker where one is measured.

Apart from `figures`, since most of what is measured needs no server and starts sooner without.
"""

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from datarecs_postgres.bootstrap import bootstrap_database
from datarecs_postgres.migrate import upgrade
from datarecs_postgres.roles import LOGINS, MIGRATE
from datarecs_postgres.urls import conninfo
from datarecs_runtime.environment import process_environment
from datarecs_testing import stack
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.figures import per_second
from datarecs_testing.stack import KafkaBroker, PostgresServer

FSYNC_PROBES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """A durable database server, and a broker where one is measured."""

    postgres: PostgresServer
    folder: Path
    passwords: dict[str, str] = field(repr=False)
    broker: KafkaBroker | None = None

    def database(self) -> PreparedDatabase:
        """A fresh one with the schema at head and the tenants A and B."""
        made = PreparedDatabase(admin_url=self.postgres.fresh_database(), passwords=self.passwords)
        bootstrap_database(made.admin_url, self.passwords)
        upgrade(made.url(MIGRATE))
        made.add_tenant("a", A_TENANT)
        made.add_tenant("b", B_TENANT)
        return made


@contextmanager
def servers(*, kafka: bool) -> Iterator[Servers]:
    """Servers for the block, in a separate folder, with fsync on."""
    environment = process_environment()
    with ExitStack() as held:
        name = held.enter_context(
            tempfile.TemporaryDirectory(prefix="datarecs-bench-", ignore_cleanup_errors=True)
        )
        folder = Path(name)
        folder.chmod(0o711)
        postgres = stack.start_postgres(folder, environment, durable=True)
        if postgres.process is not None:
            held.callback(postgres.process.stop)
        broker = None
        if kafka:
            programs = stack.find_broker_programs(folder, environment)
            broker = stack.start_kafka(folder, environment, programs)
            if broker.jvm is not None:
                held.callback(broker.jvm.stop)
        passwords = {role: secrets.token_urlsafe(12) for role in LOGINS}
        yield Servers(postgres=postgres, folder=folder, passwords=passwords, broker=broker)


def commits_per_second(database: PreparedDatabase) -> float:
    """What one client of this machine's disk can do: the smallest transaction there is."""
    with psycopg.connect(conninfo(database.admin_url), autocommit=True) as connection:
        connection.execute("CREATE TABLE probe (n integer)")

        def commit() -> None:
            for number in range(FSYNC_PROBES):
                connection.execute("INSERT INTO probe VALUES (%s)", (number,))

        return per_second(FSYNC_PROBES, commit)
