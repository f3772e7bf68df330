"""Connections that a job names and its file does not declare: read from the configured server.

Most comparisons of files never need a server, so this is separate from the question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from datarecs_cli.invocation import Invocation
from datarecs_core.resources.connection import Connection, FilesConfig
from datarecs_core.resources.resource import Kind
from datarecs_specs.documents import decode_stored
from datarecs_specs.together import ConnectionKey

if TYPE_CHECKING:
    from datarecs_cli.client import Api

_NOT_FOUND = 404


@dataclass(slots=True)
class ServerConnections:
    """The connections of this command's server, requested at most once."""

    invocation: Invocation
    connections: dict[ConnectionKey, Connection] = field(default_factory=dict)

    def find(self, names: Sequence[ConnectionKey]) -> Mapping[ConnectionKey, Connection]:
        """The named connections that the server has; none if no server is configured.

        Raises:
            RefusedError: the key may not read connections.
            NoServerKnownError, ServerUnreachableError: for a server named on the command line.
        """
        from datarecs_cli.client import connect
        from datarecs_cli.config import NoServerKnownError
        from datarecs_cli.refusals import ServerUnreachableError

        named = self.invocation.server or self.invocation.context
        try:
            with connect(self.invocation) as api:
                for key in names:
                    self._add(api, key)
        except NoServerKnownError:
            if named:
                raise
        except ServerUnreachableError as error:
            if named:
                raise
            self.invocation.say(f"connections of the server cannot be read: {error}")
        return self.connections

    def _add(self, api: "Api", key: ConnectionKey) -> None:
        from datarecs_cli.refusals import RefusedError

        namespace, name = key
        try:
            stored = api.get("connections", name, namespace=namespace)
        except RefusedError as refused:
            if refused.status != _NOT_FOUND:
                raise
            return
        spec = stored.get("spec")
        read = decode_stored(Kind.CONNECTION, name, spec if isinstance(spec, Mapping) else {})
        if isinstance(read, Connection):
            self.connections[key] = _from_here(read)


def _from_here(connection: Connection) -> Connection:
    """A relative folder starts at the start folder of the server, usually the current folder."""
    if not isinstance(connection.config, FilesConfig):
        return connection
    root = str(Path.cwd() / connection.config.root)
    return replace(connection, config=replace(connection.config, root=root))
