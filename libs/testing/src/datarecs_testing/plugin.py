"""Session fixtures over real servers, and what a missing server means.

An unavailable part skips its tests with one visible line, unless `DATARECS_TEST_REQUIRE` names it:
then the tests fail. `DATARECS_TEST_POSTGRES_URL` and `DATARECS_TEST_KAFKA_BOOTSTRAP` (with
`DATARECS_TEST_KAFKA_PASSWORD` of the user `stack`) point the fixtures at servers already running;
else `DATARECS_TEST_CONTAINERS=1` runs their official images where a container engine answers.
"""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from datarecs_cli.stack.failures import (
    JarUnavailableError,
    JavaMissingError,
    PostgresMissingError,
)
from datarecs_runtime.environment import process_environment
from datarecs_testing import stack
from datarecs_testing.azure_store import AzureServer, start_azure_store
from datarecs_testing.google_store import GoogleServer, start_google_store
from datarecs_testing.object_store import (
    ObjectServer,
    ObjectStoreMissingError,
    start_object_store,
)

pytest_plugins = ["datarecs_testing.database", "datarecs_testing.spark"]

PARTS = frozenset(
    [
        *("postgres", "kafka", "spark", "helm", "browser", "packages", "containers"),
        *("kubeapi", "objects", "azurite", "google"),
    ]
)
"""Words that DATARECS_TEST_REQUIRE may hold, separated by commas."""

_missing = pytest.StashKey[dict[str, str]]()


def required_parts(environment_value: str) -> frozenset[str]:
    """The required parts. Raises pytest.UsageError on an unknown word."""
    words = {word.strip() for word in environment_value.split(",")} - {""}
    unknown = words - PARTS
    if unknown:
        raise pytest.UsageError(
            f"DATARECS_TEST_REQUIRE names {', '.join(sorted(unknown))};"
            f" it may name {', '.join(sorted(PARTS))}"
        )
    return frozenset(words)


def wants_containers(environment: Mapping[str, str]) -> bool:
    """Whether the session's servers run in containers. Raises pytest.UsageError on another word."""
    word = environment.get("DATARECS_TEST_CONTAINERS", "")
    if word not in {"", "0", "1"}:
        raise pytest.UsageError(f"DATARECS_TEST_CONTAINERS is {word!r}; it may be 1 or 0")
    return word == "1"


def start_postgres(directory: Path, environment: Mapping[str, str]) -> stack.PostgresServer:
    """A new server of the session's kind."""
    if wants_containers(environment):
        from datarecs_testing import containers  # noqa: PLC0415  others need no engine's library

        return containers.start_postgres(environment)
    return stack.start_postgres(directory, environment)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_missing] = {}
    environment = process_environment()
    required_parts(environment.get("DATARECS_TEST_REQUIRE", ""))
    if wants_containers(environment):
        from datarecs_testing import containers  # noqa: PLC0415  others need no engine's library

        containers.require_engine()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for part, reason in config.stash[_missing].items():
        terminalreporter.write_line(
            f"NOT TESTED WITH {part.upper()}: {reason}", red=True, bold=True
        )


def lacking(config: pytest.Config, part: str, reason: str) -> NoReturn:
    """A part is not available on this machine: skip visibly, or fail if it is required."""
    if part in required_parts(process_environment().get("DATARECS_TEST_REQUIRE", "")):
        pytest.fail(f"DATARECS_TEST_REQUIRE names {part}: {reason}")
    config.stash[_missing][part] = reason
    pytest.skip(f"{part} is not available: {reason}")


@pytest.fixture(scope="session")
def server_directory() -> Iterator[Path]:
    """A folder that the database account can pass, removed at the end of the session."""
    with tempfile.TemporaryDirectory(prefix="datarecs-test-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        directory.chmod(0o711)
        yield directory


@pytest.fixture(scope="session")
def postgres_server(
    request: pytest.FixtureRequest, server_directory: Path
) -> Iterator[stack.PostgresServer]:
    """The session's database server."""
    environment = process_environment()
    url = environment.get("DATARECS_TEST_POSTGRES_URL")
    try:
        server = (
            stack.external_postgres(url, environment)
            if url
            else start_postgres(server_directory, environment)
        )
    except PostgresMissingError as failure:
        lacking(request.config, "postgres", str(failure))
    yield server
    if server.process is not None:
        server.process.stop()


@pytest.fixture(scope="session")
def object_server(request: pytest.FixtureRequest, server_directory: Path) -> Iterator[ObjectServer]:
    """The session's store of objects."""
    try:
        server = start_object_store(server_directory)
    except ObjectStoreMissingError as failure:
        lacking(request.config, "objects", str(failure))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def azure_server(request: pytest.FixtureRequest, server_directory: Path) -> Iterator[AzureServer]:
    """The session's blob service of Azure."""
    try:
        server = start_azure_store(server_directory)
    except ObjectStoreMissingError as failure:
        lacking(request.config, "azurite", str(failure))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def google_server(request: pytest.FixtureRequest) -> Iterator[GoogleServer]:
    """The session's Google Cloud Storage."""
    try:
        server = start_google_store()
    except ObjectStoreMissingError as failure:
        lacking(request.config, "google", str(failure))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def broker_programs(request: pytest.FixtureRequest, server_directory: Path) -> stack.BrokerPrograms:
    """Java and the broker's jars."""
    try:
        return stack.find_broker_programs(server_directory, process_environment())
    except (JavaMissingError, JarUnavailableError) as failure:
        lacking(request.config, "kafka", str(failure))


@pytest.fixture(scope="session")
def kafka_broker(
    request: pytest.FixtureRequest, server_directory: Path
) -> Iterator[stack.KafkaBroker]:
    """The session's broker."""
    environment = process_environment()
    bootstrap = environment.get("DATARECS_TEST_KAFKA_BOOTSTRAP")
    if bootstrap:
        yield stack.KafkaBroker(
            bootstrap=bootstrap,
            username="stack",
            password=environment.get("DATARECS_TEST_KAFKA_PASSWORD", ""),
            jvm=None,
        )
        return
    if wants_containers(environment):
        from datarecs_testing import containers  # noqa: PLC0415  others need no engine's library

        broker = containers.start_kafka()
    else:
        programs: stack.BrokerPrograms = request.getfixturevalue("broker_programs")
        broker = stack.start_kafka(server_directory, environment, programs, stack.SHORT_LIVED)
    yield broker
    if broker.jvm is not None:
        broker.jvm.stop()
