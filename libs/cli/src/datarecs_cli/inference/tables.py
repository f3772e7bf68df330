"""PostgreSQL tables for `init`: an address with a table, or a connection's name with a table.

`postgresql://ana@db.example.com/books?table=public.trades`, or `pg-ledger:public.trades`. The
password of an address is used but not stored: the job names a variable.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from datarecs_cli.invocation import Invocation, UsageFault
from datarecs_cli.local.connections import ServerConnections
from datarecs_cli.local.database_address import EXAMPLE, is_database_address, read_address
from datarecs_cli.local.sources import connection_secrets
from datarecs_core.errors.security import SecretUnavailableError
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import Connection, ConnectionType, PostgresConfig
from datarecs_runtime.environment import process_environment
from datarecs_specs.documents import decode_yaml
from datarecs_specs.together import connections_of

_NAMED = re.compile(r"([a-z0-9][a-z0-9-]{0,62}):([^/\\]+)")
_PARTS = re.compile(r"^---[ \t]*$", re.MULTILINE)
FILE = "connections.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table with its connection."""

    source: Source
    connection: Connection
    secrets: Mapping[str, str]
    document: str = ""
    """The connection in YAML; empty if a server has it."""
    variable: str = ""
    """The variable for the password, if the address had one."""


def is_table(place: str) -> bool:
    """Whether a place is a table, not a path."""
    named = _NAMED.fullmatch(place)
    return is_database_address(place) or (named is not None and not Path(place).exists())


def table_of(place: str, name: str, file: Path | None, invocation: Invocation) -> Table:
    """Raises UsageFault if the address is incomplete or the connection is unknown."""
    if is_database_address(place):
        return _of_address(place, name)
    connection, _, relation = place.partition(":")
    document, declared = _declared(connection, file, invocation)
    if not isinstance(declared.config, PostgresConfig):
        raise UsageFault(
            f"connection {connection}: its type is not postgres; name a file or another connection"
        )
    return Table(
        source=_source(name, connection, relation),
        connection=declared,
        secrets=connection_secrets(declared),
        document=document,
    )


def name_of_table(place: str) -> str:
    """The name of a source for the table."""
    if is_database_address(place):
        return read_address(place).place
    return place.rpartition(":")[2].rpartition(".")[2]


def _source(name: str, connection: str, relation: str) -> Source:
    return Source(name=name, kind=SourceKind.POSTGRES, connection=connection, relation=relation)


def _of_address(place: str, name: str) -> Table:
    address = read_address(place)
    connection = address.name
    variable = f"DATARECS_CONN_DEFAULT_{connection.upper().replace('-', '_')}"
    document = _document(connection, variable, address.fields)
    environment = process_environment()
    password = address.password or environment.get(variable, "") or address.login
    if not password:
        reference = f"env:{variable}"
        raise SecretUnavailableError(reference=reference, cause="it is not set")
    return Table(
        source=_source(name, connection, address.relation),
        connection=Connection(type=ConnectionType.POSTGRES, config=address.config),
        secrets={"password": password},
        document=document,
        variable="" if environment.get(variable) else variable,
    )


def _document(name: str, variable: str, config: Mapping[str, str]) -> str:
    from datarecs_cli.inference.writing import quoted

    fields = ", ".join(
        f"{key}: {value if key == 'port' else quoted(value)}" for key, value in config.items()
    )
    return (
        "apiVersion: datarecs.io/v1\n"
        "kind: Connection\n"
        f"metadata: {{name: {name}}}\n"
        "spec:\n"
        "  type: postgres\n"
        f"  config: {{{fields}}}\n"
        f'  auth: {{password: "env:{variable}"}}  # the variable holds the password\n'
    )


def _declared(name: str, file: Path | None, invocation: Invocation) -> tuple[str, Connection]:
    """A connection of the file with its text, else one of the server."""
    chosen = file if file is not None else Path(FILE)
    if file is not None or chosen.is_file():
        try:
            text = chosen.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as cause:
            raise UsageFault(
                f"{chosen}: the file cannot be read as text; name a YAML file"
            ) from cause
        for part in _PARTS.split(text):
            for (_, declared), connection in connections_of(decode_yaml(part.encode())).items():
                if declared == name:
                    return f"{part.strip()}\n", connection
    elsewhere = ServerConnections(invocation)
    elsewhere.find((("default", name),))
    for connection in elsewhere.connections.values():
        return "", connection
    raise UsageFault(
        f"connection {name} is not declared; name its file with --connections, or write {EXAMPLE}"
    )
