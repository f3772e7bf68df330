"""Real servers for tests: one Postgres and one Kafka broker per session, on free loopback ports.

Started by the code of the local stack, so tests use the same servers as `datarecs up`. They end
with the test process, for every kind of end.
"""

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from signal import SIGKILL
from typing import Protocol
from urllib.parse import quote, unquote, urlsplit

from datarecs_cli.stack import accounts, classes, jars, java, kafka, ports, postgres
from datarecs_cli.stack.failures import PostgresMissingError
from datarecs_cli.stack.part import Part, start_ready
from datarecs_cli.stack.psql import Login
from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_events.catalogue import SUBSCRIPTIONS
from datarecs_kafka import topics as catalogue
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import KafkaLogClient
from datarecs_kafka.groups import remove_members

PASSWORDS: Mapping[str, str] = {
    name: f"{name}-password"
    for name in (
        "run-controller",
        "relay",
        "email-notifier",
        "webhook-service",
        catalogue.OPERATORS,
    )
}
"""By principal. All tests use the same passwords, because they share the session's broker."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1"
"""For Java processes that are too short for the second compiler."""
FIRST_TEST_PORT = 20_000
"""Test servers stay below the range from which the system takes outgoing ports, so that a killed
server finds its port again."""


class MortalServer(Protocol):
    """A server that a test may kill and start again; same port, same data."""

    def is_running(self) -> bool: ...

    def kill(self) -> None:
        """End it as a crash does; returns after it has ended."""

    def stop(self) -> None:
        """Call it last; safe to repeat."""

    def restart(self) -> None:
        """Start it again if it does not run, and wait until it is ready."""


class ServerProcess:
    """A server of this machine that a test may kill and start again; same port, same data."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._running = start_ready(part)

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def log(self) -> Path:
        return self._part.command.log

    def is_running(self) -> bool:
        return self._running.exit_code() is None

    def kill(self) -> None:
        """SIGKILL, as a crash does; returns after it has ended."""
        self._running.send(SIGKILL)
        self._running.kill_group()

    def stop(self) -> None:
        """The orderly way; safe to repeat."""
        self._running.stop(self._part.stop_signal, self._part.stop_limit_s)

    def restart(self) -> None:
        """Start it again if it does not run, and wait until it is ready."""
        if not self.is_running():
            self._running = start_ready(self._part)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresServer:
    """A server with a superuser login; each test creates its own databases."""

    login: Login
    binaries: postgres.Server
    """A server of this machine; different from the running one if a URL was set."""
    process: MortalServer | None
    """None if DATARECS_TEST_POSTGRES_URL is set."""

    @property
    def conninfo(self) -> str:
        """The superuser's URL of the database `postgres`, as libpq reads it."""
        return self._address("postgresql", "postgres")

    def url(self, database: str) -> str:
        """The superuser's URL of a database, with the driver in the form of SQLAlchemy."""
        return self._address("postgresql+psycopg", database)

    def fresh_database(self) -> str:
        """Create an empty database; return the superuser's URL. It is removed with the server."""
        name = f"t_{secrets.token_hex(8)}"
        answer = self.login.ensure_database(name)
        if answer.refused:
            raise RuntimeError(answer.text)
        return self.url(name)

    def _address(self, scheme: str, database: str) -> str:
        login = self.login
        who = f"{quote(login.user, safe='')}:{quote(login.password, safe='')}"
        return f"{scheme}://{who}@{login.host}:{login.port}/{database}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaBroker:
    """A broker with its administrator's login (SASL_PLAINTEXT, SCRAM-SHA-512)."""

    bootstrap: str
    username: str
    password: str
    jvm: MortalServer | None
    """None if DATARECS_TEST_KAFKA_BOOTSTRAP is set."""

    @property
    def access(self) -> BrokerAccess:
        """The administrator's."""
        return BrokerAccess(
            bootstrap=self.bootstrap, username=self.username, password=self.password
        )

    def apply_catalogue(self) -> Mapping[str, str]:
        """Bring topics, rights and PASSWORDS into effect; those passwords. Idempotent."""
        catalogue.apply(self.access, principals=PASSWORDS, local=True)
        return PASSWORDS

    def forget_members(self, group: str) -> None:
        """Remove members as the local stack does before a restart; else it waits 45 s."""
        remove_members(self.bootstrap, username=self.username, password=self.password, group=group)

    def skip_backlog(self, group: str) -> None:
        """Mark records of earlier tests on the group's topics as read.

        Also removes dead members: else a member waits for a session of 45 s before it gets a
        partition. A broker without groups refuses this, but has no dead members.
        """
        topics = sorted(topics_of(group))
        with suppress(LogUnavailableError):
            self.forget_members(group)
        member = KafkaLogClient(self.access).consumer(group=group, topics=topics)
        try:
            while not member.assignment():
                member.poll(timedelta(milliseconds=200), max_records=1)
            member.commit({one: member.end_offset(one) for one in member.assignment()})
        finally:
            member.close()


def topics_of(group: str) -> frozenset[str]:
    """The topics of a group in the catalogue."""
    return frozenset(str(one.topic) for one in SUBSCRIPTIONS if one.service == group)


def free_test_port() -> int:
    """A free port of this process's range, without default ports of the platform."""
    first = FIRST_TEST_PORT + os.getpid() * (ports.SPAN + 1) % 8_900
    port = ports.next_free(first, taken=frozenset(_reserved_ports))
    if port is None:
        raise RuntimeError(f"no free port above {first}")
    _reserved_ports.add(port)
    return port


_reserved_ports: set[int] = set()


def external_postgres(url: str, environment: Mapping[str, str]) -> PostgresServer:
    """An external server, by its superuser's URL."""
    parts = urlsplit(url)
    available = postgres.servers(environment, packaged=postgres.packaged_binaries())
    if not available:
        raise PostgresMissingError(searched=["a psql for the given server"])
    login = Login(
        psql=available[0].bin / "psql",
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 5432,
        user=unquote(parts.username or "postgres"),
        password=unquote(parts.password or ""),
    )
    return PostgresServer(login=login, binaries=available[0], process=None)


def start_postgres(
    directory: Path, environment: Mapping[str, str], *, durable: bool = False
) -> PostgresServer:
    """A new server, without fsync unless it is to be measured.

    As root every parent of `directory` must be searchable.
    """
    account = accounts.server_account(effective_uid=os.geteuid())
    home = directory / "pg"
    home.mkdir(mode=0o711)
    available = postgres.servers(environment, packaged=postgres.packaged_binaries())
    reachable = [server for server in available if not accounts.obstacle(account, server.bin)]
    node = postgres.PostgresNode(
        server=postgres.choose(reachable, home),
        directory=home,
        port=free_test_port(),
        password=secrets.token_urlsafe(16),
        account=account,
        durable=durable,
    )
    postgres.prepare(node, for_children(environment))
    part = postgres.part(
        node, environment=for_children(environment), log=directory / "postgres.log"
    )
    return PostgresServer(login=node.login, binaries=node.server, process=ServerProcess(part))


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPrograms:
    """The programs for a broker on this machine."""

    java: java.Java
    lock: jars.Lock
    classpath: tuple[Path, ...]


def find_broker_programs(directory: Path, environment: Mapping[str, str]) -> BrokerPrograms:
    """Java and the locked jars, which are fetched into the user's cache the first time."""
    runtime = java.find_java(
        environment,
        shim_home=directory / "java",
        places=java.Places(packaged=java.packaged_home()),
    )
    lock = jars.read_lock()
    classpath = jars.classpath(lock, jars.sources(environment), runtime)
    return BrokerPrograms(java=runtime, lock=lock, classpath=classpath)


def start_kafka(
    directory: Path, environment: Mapping[str, str], programs: BrokerPrograms, *options: str
) -> KafkaBroker:
    """A new single-node broker, its Java machine with these further options."""
    node = broker_node(directory, programs, *options)
    kafka.prepare(node, for_children(environment))
    part = kafka.part(node, environment=for_children(environment), log=directory / "kafka.log")
    return KafkaBroker(
        bootstrap=node.bootstrap,
        username=kafka.ADMIN,
        password=node.password,
        jvm=ServerProcess(part),
    )


def broker_node(directory: Path, programs: BrokerPrograms, *options: str) -> kafka.KafkaNode:
    """A node on free ports that was never started."""
    return kafka.KafkaNode(
        directory=directory / "kafka",
        broker_port=free_test_port(),
        controller_port=free_test_port(),
        cluster_id=kafka.new_cluster_id(),
        password=secrets.token_urlsafe(16),
        java=programs.java,
        classpath=programs.classpath,
        broker_main=programs.lock.broker_main,
        storage_main=programs.lock.storage_main,
        java_options=(*classes.of_kafka(programs.java, programs.lock), *options),
    )


def for_children(environment: Mapping[str, str]) -> dict[str, str]:
    return {key: environment[key] for key in ("PATH", "LANG", "TMPDIR") if key in environment}
