"""Find a table's current metadata: in a SQL table, a REST server, or the table's folder.

Each kind of catalog needs one request, so the requests are written here. The catalogs of pyiceberg
create tables where they should only read, load classes that a server names, and connect to
unchecked addresses.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import assert_never
from urllib.parse import quote

from pydantic import ValidationError as PydanticError
from pyiceberg.exceptions import ValidationError
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from datarecs_connectors.errors import (
    ConnectionFailedError,
    CorruptSourceError,
    QueryFailedError,
    SnapshotLostError,
    SourceLimitError,
)
from datarecs_connectors.http_json import MAX_BYTES, JsonServer
from datarecs_connectors.iceberg.files import TableFiles
from datarecs_connectors.locations import Places
from datarecs_connectors.postgres import PostgresConnector
from datarecs_core.egress.addresses import Policy
from datarecs_core.resources.connection import (
    HadoopCatalog,
    IcebergConfig,
    PostgresConfig,
    RestCatalog,
    SqlCatalog,
)

_SELECT = "SELECT * FROM iceberg_tables WHERE catalog_name = {catalog} AND table_namespace = {namespace} AND table_name = {table}"  # noqa: E501  one statement
_COUNT = "SELECT count(*) AS tables FROM iceberg_tables WHERE catalog_name = {catalog}"
VIEW = "VIEW"
"""Type of a row that is a view; older catalogs have no types."""
_VERSION = re.compile(r"v(\d+)(\.gz)?\.metadata\.json(\.gz)?")
_HINT = "version-hint.text"
_BETWEEN_LEVELS = "\x1f"
"""Separates the levels of a namespace in the path of a REST catalog, unless the server sets it."""
SQLITE_TURN = Lock()
"""Held while a thread has a catalog file open, to check or to use it: closing any descriptor of
the file drops the locks of all transactions of this process in it."""
Row = Mapping[str, object]


class TableMissingError(QueryFailedError):
    """The catalog has no such table."""


@dataclass(frozen=True, slots=True)
class TableName:
    """Namespace and table of `relation`, separated by the last dot."""

    namespace: tuple[str, ...]
    name: str

    @classmethod
    def of(cls, source: str, relation: str) -> "TableName":
        *levels, name = relation.split(".")
        if not levels or not all((*levels, name)):
            raise QueryFailedError(
                source, f"{relation!r} is not a table; write namespace and name, `sales.orders`"
            )
        return cls(tuple(levels), name)

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentTable:
    metadata: TableMetadata
    location: str | None
    """Of the file with the metadata, if the catalog names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """The catalog of one source's connection."""

    source: str
    config: IcebergConfig
    secrets: Mapping[str, str]
    places: Places
    policy: Policy

    @property
    def label(self) -> str:
        """Identity of the catalog for pins, without credentials or paths of this machine."""
        match self.config.catalog:
            case SqlCatalog(name=name, postgres=PostgresConfig() as server):
                return f"sql {server.host}:{server.port}/{server.database} {name}"
            case SqlCatalog(name=name):
                return f"sql {name}"
            case RestCatalog(uri=uri, warehouse=warehouse):
                return f"rest {uri} {warehouse}" if warehouse else f"rest {uri}"
            case HadoopCatalog():
                return "hadoop"
            case never:
                assert_never(never)

    def load(self, table: TableName) -> TableMetadata:
        """The table's current metadata; raises what `current` raises."""
        return self.current(table).metadata

    def current(self, table: TableName) -> CurrentTable:
        """The table as its catalog has it.

        Raises:
            QueryFailedError: the table does not exist, or it is a view.
            ConnectionFailedError: the catalog cannot be reached.
            CorruptSourceError: the metadata cannot be read.
        """
        match self.config.catalog:
            case SqlCatalog() as catalog:
                return self._file(table, self._registered(catalog, table))
            case RestCatalog() as catalog:
                return RestServer(catalog=self, config=catalog).load(table)
            case HadoopCatalog(warehouse=warehouse):
                folder = self.places.folder(warehouse)
                return self._file(table, str(self._newest(folder, table)))
            case never:
                assert_never(never)

    def check(self) -> str:
        """Check that the catalog answers; returns a text for people.

        Raises what `load` raises.
        """
        match self.config.catalog:
            case SqlCatalog() as catalog:
                return f"{self._tables(catalog)} tables are registered"
            case RestCatalog() as catalog:
                RestServer(catalog=self, config=catalog).configured()
                return f"{catalog.uri} is a catalog"
            case HadoopCatalog(warehouse=warehouse):
                if self._names_in(self.places.folder(warehouse)) is None:
                    raise ConnectionFailedError(
                        self.source, f"there is no folder {warehouse!r}; correct `warehouse`"
                    )
                return "the folder of the warehouse can be read"
            case never:
                assert_never(never)

    def _tables(self, catalog: SqlCatalog) -> int:
        (row,) = self.sql_rows(catalog, _COUNT, {"catalog": catalog.name})
        return int(str(row["tables"]))

    def sql_rows(self, catalog: SqlCatalog, statement: str, values: Mapping[str, str]) -> list[Row]:
        """Rows of the catalog's table; `{name}` in the statement stands for a value."""
        if catalog.postgres is None:
            placed = statement.format(**{name: f":{name}" for name in values})
            return self._in_sqlite(catalog.sqlite or "", values, placed)
        placed = statement.format(**{name: f"%({name})s" for name in values})
        return self._in_postgres(catalog.postgres, values, placed)

    def missing(self, table: TableName) -> TableMissingError:
        return TableMissingError(
            self.source,
            f"the catalog has no table {str(table)!r}; check `relation` and the rights of the "
            "login; a sink with auto_create makes its table when the first records are committed",
        )

    def _registered(self, catalog: SqlCatalog, table: TableName) -> str:
        """Location of the metadata, from the row of the table."""
        row = self.sql_row(catalog, table)
        if row is None:
            raise self.missing(table)
        if row.get("iceberg_type") not in {None, "TABLE"}:
            raise QueryFailedError(self.source, f"{str(table)!r} is a view; name a table")
        return str(row["metadata_location"])

    def sql_row(self, catalog: SqlCatalog, table: TableName) -> Row | None:
        """The row of a table or view."""
        values = {
            "catalog": catalog.name,
            "namespace": ".".join(table.namespace),
            "table": table.name,
        }
        rows = self.sql_rows(catalog, _SELECT, values)
        return rows[0] if rows else None

    def _in_postgres(
        self, server: PostgresConfig, values: Mapping[str, str], statement: str
    ) -> list[Row]:
        connector = PostgresConnector(
            source=self.source,
            config=server,
            password=self.secrets.get("password", ""),
            policy=self.policy,
        )
        return list(connector.fetch_rows(statement, values))

    def _in_sqlite(self, file: str, values: Mapping[str, str], statement: str) -> list[Row]:
        with SQLITE_TURN:
            return self._read_sqlite(file, values, statement)

    def _read_sqlite(self, file: str, values: Mapping[str, str], statement: str) -> list[Row]:
        path = self.places.folder(file)
        tree, name = self.places.tree(str(path))
        try:
            before = tree.identity(name)
        except SnapshotLostError as cause:
            raise ConnectionFailedError(
                self.source, f"there is no catalog file {file!r}; correct `sqlite`"
            ) from cause
        try:
            with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as database:
                database.row_factory = sqlite3.Row
                rows = database.execute(statement, values).fetchall()
        except sqlite3.Error as cause:
            raise ConnectionFailedError(
                self.source, f"{file!r} is not a SQL catalog: no readable table iceberg_tables"
            ) from cause
        tree.check_same_file(name, before)
        return [dict(row) for row in rows]

    def _newest(self, warehouse: Path, table: TableName) -> Path:
        """The metadata file with the highest version, unless the hint names a file.

        A hint with a number may be outdated, because it is written after the file.
        """
        if not all(_plain(level) for level in (*table.namespace, table.name)):
            raise self.missing(table)
        folder = warehouse.joinpath(*table.namespace, table.name, "metadata")
        names = self._names_in(folder)
        if names is None:
            raise self.missing(table)
        hint = self._hint(folder) if _HINT in names else ""
        if hint.endswith(".metadata.json") and _plain(hint):
            return folder / hint
        versions = {
            int(version[1]): name for name in names if (version := _VERSION.fullmatch(name))
        }
        if not versions:
            raise self.missing(table)
        return folder / versions[max(versions)]

    def _names_in(self, folder: Path) -> list[str] | None:
        """Names in a folder of the warehouse; None if the folder does not exist."""
        known = self.entries(folder)
        return None if known is None else list(known)

    def entries(self, folder: Path) -> Mapping[str, bool] | None:
        """Names in a folder, and whether each is a folder, no link; None if there is no folder."""
        tree, name = self.places.tree(str(folder))
        try:
            with tree.confinement.open_folder(tuple(name.strip("/").split("/"))) as descriptor:
                return {
                    entry.name: entry.is_dir(follow_symlinks=False)
                    for entry in os.scandir(descriptor)
                }
        except FileNotFoundError:
            return None

    def _hint(self, folder: Path) -> str:
        tree, name = self.places.tree(str(folder / _HINT))
        with tree.open(name) as file:
            return file.read(1_024).decode("utf-8", "replace").strip()

    def _file(self, table: TableName, location: str) -> CurrentTable:
        file = TableFiles(self.places).new_input(location)
        if len(file) > MAX_BYTES:
            raise SourceLimitError(self.source, f"the metadata of {table} has over {MAX_BYTES} B")
        metadata = self.parsed(table, lambda: FromInputFile.table_metadata(file))
        return CurrentTable(metadata=metadata, location=location)

    def parsed(self, table: TableName, read: Callable[[], TableMetadata]) -> TableMetadata:
        """Parse the metadata; errors of the parser contain values, so they are not repeated."""
        try:
            return read()
        except (ValidationError, PydanticError, ValueError, KeyError, TypeError, EOFError) as cause:
            raise CorruptSourceError(
                self.source,
                f"the metadata of {str(table)!r} cannot be read as a table of format version 1 to "
                f"3 ({type(cause).__name__})",
            ) from None  # the cause quotes the document


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRoutes:
    """The addresses of a REST catalog after its configuration was read."""

    server: JsonServer
    base: str
    """With the prefix of the catalog, ends with a slash."""
    separator: str
    """Between the levels of a namespace, encoded."""
    token: str | None
    endpoints: tuple[str, ...]
    """That the server lists; empty: the ones that every server has."""

    def get(self, path: str) -> Mapping[str, object] | None:
        """The answer to a path below the base; None for status 404."""
        return self.server.get(f"{self.base}{path}", token=self.token)

    def levels(self, namespace: Sequence[str]) -> str:
        """A namespace in a path or a parameter."""
        return self.separator.join(quote(level, safe="") for level in namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestServer:
    """The requests of a reader in the REST catalog protocol."""

    catalog: Catalog
    config: RestCatalog

    @property
    def server(self) -> JsonServer:
        return JsonServer(source=self.catalog.source, policy=self.catalog.policy)

    @property
    def base(self) -> str:
        return f"{self.config.uri.rstrip('/')}/v1"

    def configured(self) -> tuple[Mapping[str, object], str | None]:
        """The configuration of the catalog, and the token for the next request."""
        token = self._token(self.server, self.base)
        query = {"warehouse": self.config.warehouse} if self.config.warehouse else {}
        config = self.server.get(f"{self.base}/config", query=query, token=token)
        if config is None:
            raise ConnectionFailedError(
                self.catalog.source, f"{self.config.uri} is not a catalog: it has no v1/config"
            )
        return config, token

    def routes(self) -> RestRoutes:
        config, token = self.configured()
        said = {**member_of(config, "defaults"), **member_of(config, "overrides")}
        endpoints = config.get("endpoints")
        prefix = "".join(f"{part}/" for part in str(said.get("prefix", "")).split("/") if part)
        return RestRoutes(
            server=self.server,
            base=f"{self.base}/{prefix}",
            separator=str(said.get("namespace-separator") or quote(_BETWEEN_LEVELS)),
            token=token,
            endpoints=tuple(map(str, endpoints)) if isinstance(endpoints, list) else (),
        )

    def load(self, table: TableName) -> CurrentTable:
        routes = self.routes()
        answer = routes.get(
            f"namespaces/{routes.levels(table.namespace)}/tables/{quote(table.name, safe='')}"
        )
        if answer is None:
            raise self.catalog.missing(table)
        document = dict(member_of(answer, "metadata"))
        metadata = self.catalog.parsed(table, lambda: TableMetadataUtil.parse_obj(document))
        location = answer.get("metadata-location")
        return CurrentTable(
            metadata=metadata, location=location if isinstance(location, str) else None
        )

    def _token(self, server: JsonServer, base: str) -> str | None:
        """The connection's token, or the token that the server returns for its credential."""
        secrets = self.catalog.secrets
        if "credential" not in secrets:
            return secrets.get("token")
        first, colon, rest = secrets["credential"].partition(":")
        client, secret = (first, rest) if colon else ("", first)
        answer = server.post(
            self.config.token_uri or f"{base}/oauth/tokens",
            {
                "grant_type": "client_credentials",
                "client_id": client,
                "client_secret": secret,
                "scope": self.config.scope,
            },
        )
        if answer is None or not isinstance(answer.get("access_token"), str):
            raise ConnectionFailedError(
                self.catalog.source, "no token was returned for the credential; check `token_uri`"
            )
        return str(answer["access_token"])


def member_of(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    """A member that is an object; empty if it is missing or something else."""
    member = document.get(name)
    return member if isinstance(member, dict) else {}


def _plain(level: str) -> bool:
    """Whether the name is a single path component."""
    return "/" not in level and level not in {"", ".", ".."} and level.isprintable()
