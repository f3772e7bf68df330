"""Addresses of PostgreSQL as sources: `postgresql://ana@db.example.com/books?table=public.trades`.

`compare`, `plan`, `init` and `datarecs.source` read this form. The password of an address is used,
and never part of a message, a report or a representation.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from datarecs_cli.invocation import UsageFault
from datarecs_core.egress.urls import names_loopback
from datarecs_core.resources.connection import UNENCRYPTED_MODES, Connection, PostgresConfig
from datarecs_runtime.environment import process_environment
from datarecs_specs.documents import decode_json

EXAMPLE = "postgresql://user@host/database?table=schema.table"
_SCHEME = re.compile(r"postgres(?:ql)?(?:\+\w+)?://", re.IGNORECASE)
"""With or without a driver of SQLAlchemy, which is not used."""
_PORT = 5432
_OPTIONS = ("table", "sslmode")
_SPECIAL = "in a user or password write %40 for @, %2F for / and %23 for #"
_NO_WORD = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DatabaseAddress:
    """One table or query of PostgreSQL. Its text has everything except the password."""

    name: str
    """Of the declared connection."""
    config: PostgresConfig
    fields: Mapping[str, str]
    """The declared fields of the connection."""
    password: str
    """Of the address; empty if it has none."""
    relation: str = ""
    """Table or view. Exactly one of `relation` and `query` is set."""
    query: str = ""

    @property
    def login(self) -> str:
        """The password: of the address, else PGPASSWORD; empty for a server that needs none."""
        return self.password or process_environment().get("PGPASSWORD", "")

    @property
    def place(self) -> str:
        """A path from which a source gets its name: database and table."""
        return f"{self.config.database}/{self.relation.rpartition('.')[2] or 'query'}"

    def __str__(self) -> str:
        return self._text({"table": self.relation} if self.relation else {})

    def __repr__(self) -> str:
        if not self.query:
            return f"datarecs.source({str(self)!r})"
        return f"datarecs.source({self._text({})!r}, query={self.query!r})"

    def _text(self, options: Mapping[str, str]) -> str:
        config = self.config
        host = f"[{config.host}]" if ":" in config.host else config.host
        port = "" if config.port == _PORT else f":{config.port}"
        sslmode = self.fields.get("sslmode")
        options = {**options, **({"sslmode": sslmode} if sslmode else {})}
        query = f"?{urlencode(options)}" if options else ""
        return (
            f"postgresql://{quote(config.user)}@{host}{port}/{quote(config.database, safe='')}"
            f"{query}"
        )


def is_database_address(place: str) -> bool:
    return bool(_SCHEME.match(place))


def read_address(text: str, *, table: str = "", query: str = "") -> DatabaseAddress:
    """The parts of an address.

    Args:
        text: with its table, unless `table` or `query` is set.
        table: table or view.
        query: one SELECT.

    Raises:
        UsageFault: what is missing or wrong, without a part that may contain the password.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        raise UsageFault(
            f"the address of the database cannot be read; write {EXAMPLE}; {_SPECIAL}"
        ) from None
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    if unknown := sorted(options.keys() - set(_OPTIONS)):
        raise UsageFault(
            f"unknown in the address: {', '.join(unknown)}; known: {', '.join(_OPTIONS)}"
        )
    relation, database = options.get("table", ""), unquote(parts.path.strip("/"))
    if [bool(relation), bool(table), bool(query)].count(True) > 1:
        raise UsageFault(
            "the address, `table` and `query` name more than one table or query; keep one of them"
        )
    relation = relation or table
    if not (host and parts.username and database and (relation or query)):
        raise UsageFault(
            f"the address must have user, host, database and table; write {EXAMPLE}; {_SPECIAL}"
        )
    fields = {"host": host, "port": str(port), "database": database}
    fields |= {"user": unquote(parts.username), **_transport(options.get("sslmode"), host)}
    name = f"pg-{_NO_WORD.sub('-', database.lower()).strip('-') or 'source'}"[:60]
    return DatabaseAddress(
        name=name,
        config=_config(name, fields),
        fields=fields,
        password=unquote(parts.password or ""),
        relation=relation,
        query=query,
    )


def _transport(sslmode: str | None, host: str) -> dict[str, str]:
    """An `sslmode` without encryption in the address accepts it, as `transport` does."""
    if sslmode is None:
        return {}
    accepted = sslmode in UNENCRYPTED_MODES and not names_loopback(host)
    return {"sslmode": sslmode, **({"transport": "unencrypted-accepted"} if accepted else {})}


def _config(name: str, fields: Mapping[str, str]) -> PostgresConfig:
    """Checked by the rules of a declared connection."""
    decoded = decode_json(
        {
            "apiVersion": "datarecs.io/v1",
            "kind": "Connection",
            "metadata": {"name": name},
            "spec": {"type": "postgres", "config": {**fields, "port": int(fields["port"])}},
        }
    )
    if decoded.faults:
        fault = decoded.faults[0]
        where = fault.path.rpartition(".")[2]
        raise UsageFault(
            f"the address of the database: {where}: {fault.message}; write {EXAMPLE}; {_SPECIAL}"
        )
    _, spec = decoded.require()
    if not isinstance(spec, Connection) or not isinstance(spec.config, PostgresConfig):
        raise TypeError("the declaration of a connection is a connection")
    return spec.config


def read_addresses(places: Sequence[str]) -> tuple[tuple[str, ...], dict[int, DatabaseAddress]]:
    """The places without passwords, and by position those that are addresses."""
    addresses = {
        at: read_address(place) for at, place in enumerate(places) if is_database_address(place)
    }
    shown = tuple(
        str(addresses[at]) if at in addresses else place for at, place in enumerate(places)
    )
    return shown, addresses


def connection_names(addresses: Mapping[int, DatabaseAddress]) -> dict[int, str]:
    """A connection for each address; addresses with the same login share it."""
    names: dict[int, str] = {}
    logins: dict[str, tuple[PostgresConfig, str]] = {}
    for at, address in addresses.items():
        login = (address.config, address.login)
        name = next(name for name in _numbered(address.name) if logins.get(name, login) == login)
        names[at], logins[name] = name, login
    return names


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}-{number}" for number in count(2))
