"""Write through the SQL table of a catalog: compare the location of the metadata, and set it.

The rows are those of Java's JdbcCatalog and of pyiceberg. One UPDATE with the old location in its
condition is the whole commit, so of two writers exactly one changes the row.
"""

import re
import secrets
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple
from urllib.parse import quote

import psycopg
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata

from datarecs_connectors.errors import (
    ConnectionFailedError,
    PathRefusedError,
    SnapshotLostError,
    SourceUnsupportedError,
)
from datarecs_connectors.iceberg.catalogs import (
    SQLITE_TURN,
    Catalog,
    CurrentTable,
    TableMissingError,
    TableName,
)
from datarecs_connectors.postgres import PostgresConnector
from datarecs_connectors.postgres_sessions import ending
from datarecs_connectors.sinking.catalog_changes import (
    ConflictError,
    NewTable,
    OutcomeUnknownError,
    TableChange,
)
from datarecs_connectors.sinking.files import (
    SinkFiles,
    check_locations,
    location_provider,
    refused,
)
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.resources.connection import SqlCatalog

_SET = (
    "UPDATE iceberg_tables SET metadata_location = {new}, previous_metadata_location = {old} "
    "WHERE catalog_name = {catalog} AND table_namespace = {namespace} AND table_name = {table} "
    "AND metadata_location = {old}"
)
_INSERT = (
    "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) "
    "VALUES ({catalog}, {namespace}, {table}, {new}) ON CONFLICT DO NOTHING"
)
_NAMESPACE = (
    "INSERT INTO iceberg_namespace_properties "
    "(catalog_name, namespace, property_key, property_value) "
    "VALUES ({catalog}, {namespace}, 'exists', 'true') ON CONFLICT DO NOTHING"
)
_LOCATION = (
    "SELECT property_value FROM iceberg_namespace_properties WHERE catalog_name = {catalog} "
    "AND namespace = {namespace} AND property_key = 'location'"
)
_LIMIT = timedelta(seconds=30)
_LOCK_TIMEOUT_S = 5
_VERSION = re.compile(r"(\d+)-[^/]*\.metadata\.json(\.gz)?")
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_TRANSIENT = ("40", "55P03")
"""Begin of the SQLSTATE of a statement that another transaction stopped."""
_LOST = ("08", "57P")
"""Of a session that ended before the answer."""


class Statement(NamedTuple):
    text: str
    """With `{name}` for a value."""
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlTables:
    """Port WritableCatalog over rows in PostgreSQL or SQLite."""

    catalog: Catalog
    config: SqlCatalog
    file_token: Callable[[], str] = field(default=lambda: secrets.token_hex(16))

    def find(self, name: TableName) -> CurrentTable | None:
        try:
            return self.catalog.current(name)
        except TableMissingError:
            return None
        except (PathRefusedError, SourceUnsupportedError) as cause:
            raise refused(str(cause)) from cause

    def commit(self, name: TableName, current: CurrentTable, change: TableChange) -> None:
        old = str(current.location)
        metadata = _changed(current, change)
        new = self._write(metadata, _next_version(old))
        values = {**self._key(name), "new": new, "old": old}
        try:
            is_stored = self._changes(Statement(_SET, values)) == 1
        except (ConflictError, DatarecsError):
            SinkFiles(self.catalog.places).delete(new)
            raise
        if not is_stored:
            SinkFiles(self.catalog.places).delete(new)
            raise ConflictError

    def create(self, name: TableName, table: NewTable) -> None:
        location = self._location(name)
        for depth in range(1, len(name.namespace) + 1):
            levels = ".".join(name.namespace[:depth])
            self._insert(Statement(_NAMESPACE, {"catalog": self.config.name, "namespace": levels}))
        metadata = new_table_metadata(
            table.schema,
            table.spec,
            UNSORTED_SORT_ORDER,
            location,
            dict(table.properties),
        )
        check_locations(metadata, self.catalog.places)
        new = self._write(metadata, 0)
        if self._insert(Statement(_INSERT, {**self._key(name), "new": new})) != 1:
            SinkFiles(self.catalog.places).delete(new)

    def _insert(self, statement: Statement) -> int:
        """The number of new rows; 0 where the row is there."""
        try:
            return self._changes(statement)
        except (ConflictError, OutcomeUnknownError) as cause:
            raise SinkError(
                SinkCode.COMMIT_FAILED,
                "the database of the catalog is busy or gives no answer; the sink tries again",
            ) from cause

    def _key(self, name: TableName) -> dict[str, str]:
        return {
            "catalog": self.config.name,
            "namespace": ".".join(name.namespace),
            "table": name.name,
        }

    def _location(self, name: TableName) -> str:
        """Where a new table is: below its namespace's location, the store, or the catalog file.

        Raises SinkError FILE_LOCATION_REFUSED where no place is known.
        """
        namespace = ".".join(name.namespace)
        rows = self.catalog.sql_rows(
            self.config, _LOCATION, {"catalog": self.config.name, "namespace": namespace}
        )
        if rows:
            return f"{str(rows[0]['property_value']).rstrip('/')}/{name.name}"
        below = "/".join((*name.namespace, name.name))
        if self.catalog.config.store is not None:
            return f"{self.catalog.config.store.url.rstrip('/')}/{below}"
        if self.config.sqlite is not None:
            return f"file://{self.catalog.places.folder(self.config.sqlite).parent}/{below}"
        if not self.catalog.places.roots:
            raise refused(
                f"the catalog does not say where the new table {name} is to be; declare "
                f"`store.url` in the connection {self.catalog.source!r}, set `location` of the "
                "namespace, or create the table"
            )
        return f"file://{self.catalog.places.roots[0]}/{below}"

    def _write(self, metadata: TableMetadata, version: int) -> str:
        """A new file with the metadata; returns its location."""
        place = location_provider(metadata).new_metadata_location(
            f"{version:05d}-{self.file_token()}.metadata.json"
        )
        with SinkFiles(self.catalog.places).new_output(place).create() as stream:
            stream.write(metadata.model_dump_json(exclude_none=True).encode())
        return place

    def _changes(self, statement: Statement) -> int:
        """The number of changed rows. Raises what `WritableCatalog.commit` raises."""
        if self.config.postgres is None:
            with SQLITE_TURN:
                return self._in_sqlite(statement)
        names = {name: f"%({name})s" for name in statement.values}
        server = _WritingServer(
            source=self.catalog.source,
            config=self.config.postgres,
            password=self.catalog.secrets.get("password", ""),
            policy=self.catalog.policy,
        )
        return server.change(statement.text.format(**names), statement.values)

    def _in_sqlite(self, statement: Statement) -> int:
        declared = self.config.sqlite or ""
        path = self.catalog.places.folder(declared)
        tree, name = self.catalog.places.tree(str(path))
        try:
            before = tree.identity(name)
        except SnapshotLostError as cause:
            raise ConnectionFailedError(
                self.catalog.source, f"there is no catalog file {declared!r}; correct `sqlite`"
            ) from cause
        names = {name: f":{name}" for name in statement.values}
        uri = f"file:{quote(str(path))}?mode=rw"
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=_LOCK_TIMEOUT_S)) as database:
                rows = database.execute(statement.text.format(**names), statement.values).rowcount
                database.commit()
        except sqlite3.Error as cause:
            if (cause.sqlite_errorcode & 0xFF) in _BUSY:
                raise ConflictError from cause
            raise SinkError(
                SinkCode.COMMIT_FAILED,
                f"the catalog {declared!r} cannot be written: {cause.sqlite_errorname}",
            ) from cause
        after = tree.identity(name)
        if (after.device, after.inode) != (before.device, before.inode):
            raise SinkError(
                SinkCode.COMMIT_FAILED, f"the catalog file {declared!r} was replaced by another"
            )
        return rows


class _WritingServer(PostgresConnector):
    """A login that changes the rows of a catalog; everything else is only read."""

    def change(self, statement: str, values: Mapping[str, str]) -> int:
        """Changed rows of one statement, which is a transaction of its own."""
        with ending(self._session(_LIMIT)) as session:
            try:
                return session.execute(statement.encode(), values).rowcount
            except psycopg.Error as cause:
                if cause.sqlstate is None or cause.sqlstate.startswith(_LOST):
                    raise OutcomeUnknownError from cause
                if cause.sqlstate.startswith(_TRANSIENT):
                    raise ConflictError from cause
                raise SinkError(
                    SinkCode.COMMIT_FAILED,
                    f"the database of the catalog refuses the change (SQLSTATE {cause.sqlstate}); "
                    "check the rights of the login on its tables",
                ) from cause


def _changed(current: CurrentTable, change: TableChange) -> TableMetadata:
    try:
        for requirement in change.requirements:
            requirement.validate(current.metadata)
    except CommitFailedException as cause:
        raise ConflictError from cause
    return update_table_metadata(
        current.metadata, change.updates, metadata_location=current.location
    )


def _next_version(location: str) -> int:
    match = _VERSION.fullmatch(location.rpartition("/")[2])
    return int(match[1]) + 1 if match else 1
