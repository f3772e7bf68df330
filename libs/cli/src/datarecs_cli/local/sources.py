"""The sources of a local comparison, opened with the permissions of the user.

A plan opens the same sources without a comparison.
"""

from collections.abc import Iterator
from pathlib import Path

from datarecs_application.ports.comparing import Connector
from datarecs_application.ports.outside import Clock
from datarecs_cli.local.question import PreparedQuestion
from datarecs_connectors.extracted import rows_of
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.errors.security import SecretUnavailableError
from datarecs_core.jobs.definition import Source
from datarecs_core.resources.connection import Connection, FilesConfig
from datarecs_runtime.environment import process_environment


class LocalSources:
    """Opens the sources of one job; they stay open because the oracle reads through them."""

    def __init__(self, prepared: PreparedQuestion, clock: Clock) -> None:
        self._prepared, self._clock = prepared, clock
        self._opened: dict[str, Connector] = {}

    def connect(self, source: Source) -> Connector:
        """The open source.

        Raises:
            SecretUnavailableError, SourceUnsupportedError, ConnectionFailedError: it cannot be
                opened.
            DatarecsError: its files of an earlier time are not known; see `captured_table`.
        """
        connection = self._prepared.connections.get(source.connection or "")
        if connection is not None and isinstance(connection.config, FilesConfig):
            connection = None  # its folder is already the root
        surroundings = Surroundings(
            roots=(self._prepared.roots.get(source.name, Path.cwd()),),
            policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
            now=self._clock.now,
            any_path=True,
            spill_bytes=self._prepared.question.job.execution.spill,
            catalogued=self._prepared.captured_table(source),
        )
        secrets = self._prepared.secrets.get(source.connection or "")
        if secrets is None:
            secrets = connection_secrets(connection)
        opened = open_connector(source, connection, secrets, surroundings=surroundings)
        self._opened[source.name] = opened
        return opened

    def rows(self, scan: Scan) -> Iterator[tuple[object, ...]]:
        """The rows of an open source."""
        return rows_of(self._opened[scan.source], scan)


def connection_secrets(connection: Connection | None) -> dict[str, str]:
    """The values of a connection's references: variables and files of the user."""
    secrets = {}
    environment = process_environment()
    for name, reference in (connection.auth if connection else {}).items():
        kind, _, place = reference.partition(":")
        try:
            value = environment[place] if kind == "env" else Path(place).read_text(encoding="utf-8")
        except (KeyError, OSError, UnicodeDecodeError) as cause:
            raise SecretUnavailableError(
                reference=reference, cause="it is not set" if kind == "env" else "no readable file"
            ) from cause
        secrets[name] = value.split("\n", 1)[0].rstrip("\r")
    return secrets
