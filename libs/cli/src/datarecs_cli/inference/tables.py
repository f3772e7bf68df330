"""PostgreSQL tables for `init`: an address with a table, or a connection's name with a table.

`postgresql://ana@db.example.com/books?table=public.trades`, or `pg-ledger:public.trades`. The
password of an address is used but not stored: the job names a variable.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from datarecs_cli.invocation import Invocation, UsageFault
from datarecs_cli.local.connections import ServerConnections
from datarecs_cli.local.sources import connection_secrets
from datarecs_core.errors.security import SecretUnavailableError
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import Connection, PostgresConfig
from datarecs_runtime.environment import process_environment
from datarecs_specs.documents import decode_yaml
from datarecs_specs.together import connections_of

_ADDRESS = re.compile(r"postgres(?:ql)?://", re.IGNORECASE)
_NAMED = re.compile(r"([a-z0-9][a-z0-9-]{0,62}):([^/\\]+)")
_PARTS = re.compile(r"^---[ \t]*$", re.MULTILINE)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_EXAMPLE = "postgresql://user@host/database?table=schema.table"
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
    return bool(_ADDRESS.match(place)) or (named is not None and not Path(place).exists())


def table_of(place: str, name: str, file: Path | None, invocation: Invocation) -> Table:
    """Raises UsageFault if the address is incomplete or the connection is unknown."""
    if _ADDRESS.match(place):
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
    if not _ADDRESS.match(place):
        return place.rpartition(":")[2].rpartition(".")[2]
    table = parse_qs(urlsplit(place).query).get("table", [""])[0]
    return table.rpartition(".")[2]


def _source(name: str, connection: str, relation: str) -> Source:
    return Source(name=name, kind=SourceKind.POSTGRES, connection=connection, relation=relation)


def _of_address(place: str, name: str) -> Table:
    try:
        parts = urlsplit(place)
        port = parts.port or 5432
    except ValueError:
        raise UsageFault(f"the address of the database cannot be read; write {_EXAMPLE}") from None
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    table, database = options.pop("table", ""), unquote(parts.path.strip("/"))
    if not (table and database and parts.hostname and parts.username):
        raise UsageFault(f"the address must have user, host, database and table; write {_EXAMPLE}")
    if unknown := options.keys() - {"sslmode"}:
        raise UsageFault(
            f"unknown in the address: {', '.join(sorted(unknown))}; known: table, sslmode"
        )
    connection = f"pg-{re.sub(r'[^a-z0-9]+', '-', database.lower()).strip('-') or 'source'}"[:60]
    variable = f"DATARECS_CONN_DEFAULT_{connection.upper().replace('-', '_')}"
    document = _document(
        connection,
        variable,
        {
            "host": parts.hostname,
            "port": str(port),
            "database": database,
            "user": unquote(parts.username),
            **_transport(options, parts.hostname),
        },
    )
    decoded = decode_yaml(document.encode())
    faults = [fault for each in decoded for fault in each.faults]
    if faults:
        raise UsageFault(f"the address of the database: {faults[0].message}; write {_EXAMPLE}")
    (declared,) = connections_of(decoded).values()
    environment = process_environment()
    password = unquote(parts.password or "") or environment.get(variable, "")
    password = password or environment.get("PGPASSWORD", "")
    if not password:
        reference = f"env:{variable}"
        raise SecretUnavailableError(reference=reference, cause="it is not set")
    return Table(
        source=_source(name, connection, table),
        connection=declared,
        secrets={"password": password},
        document=document,
        variable="" if environment.get(variable) else variable,
    )


def _transport(options: Mapping[str, str], host: str) -> dict[str, str]:
    if "sslmode" not in options:
        return {}
    plain = {} if host in _LOOPBACK else {"transport": "unencrypted-accepted"}
    is_plain = options["sslmode"] in {"disable", "allow", "prefer"}
    return {"sslmode": options["sslmode"], **(plain if is_plain else {})}


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
        f"connection {name} is not declared; name its file with --connections, or write {_EXAMPLE}"
    )
