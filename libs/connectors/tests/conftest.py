"""How the tests of this library open sources."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from datarecs_application.ports.comparing import Connector, HeldPin, Read
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.scan import Pin, Scan, ScanColumn, SourceSchema
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import Connection, ConnectionType, FilesConfig

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
Open = Callable[..., "Opened"]


@pytest.fixture
def surroundings(tmp_path: Path) -> Surroundings:
    policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
    return Surroundings(roots=(tmp_path,), policy=policy, now=lambda: NOON)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB finds room for one MiB, and says of it what it says of a disk without more."""
    connect = duckdb.connect

    def connected(**options: Any) -> duckdb.DuckDBPyConnection:  # noqa: ANN401  passed on
        database = connect(**options)
        database.execute("SET max_temp_directory_size = '1MiB'")
        return database

    monkeypatch.setattr(duckdb, "connect", connected)


@pytest.fixture
def open_files(surroundings: Surroundings) -> Open:
    """A source below `tmp_path`, pinned and described."""

    def opened(kind: SourceKind, path: str, *, root: str = ".", **fields: object) -> Opened:
        source = Source(name="files", kind=kind, path=path, connection="c", **fields)  # type: ignore[arg-type]  # fields of Source
        connection = Connection(type=ConnectionType.FILES, config=FilesConfig(root=root))
        connector = open_connector(source, connection, {}, surroundings=surroundings)
        held = connector.pin(source)
        schema = connector.describe(source, held.pin)
        return Opened(connector=connector, source=source, held=held, schema=schema)

    return opened


@dataclass(frozen=True)
class Opened:
    """A source, pinned and described."""

    connector: Connector
    source: Source
    held: HeldPin
    schema: SourceSchema

    @property
    def scan(self) -> Scan:
        return _scan(self.source, self.schema, self.held.pin)

    @property
    def types(self) -> dict[str, str]:
        return {column.name: str(column.type) for column in self.schema.columns}

    def rows(self) -> list[tuple[object, ...]]:
        return list(self.connector.rows(self.scan))

    def extracted(self, directory: Path) -> list[dict[str, object]]:
        """What an extract holds, companions without bytes left out."""
        scan = self.connector.extract(self.scan, str(directory), _ignore)
        assert scan.extract is not None
        table = pq.read_table(directory)
        assert table.num_rows == scan.extract.rows
        columns = [
            name
            for name in table.column_names
            if not name.startswith("$invalid.")
            or name.removeprefix("$invalid.") in scan.extract.invalid_columns
        ]
        rows: list[dict[str, object]] = table.select(columns).to_pylist()
        return rows


def _ignore(_read: Read) -> None:
    """Ignore progress."""


def _scan(source: Source, schema: SourceSchema, pin: Pin) -> Scan:
    return Scan(
        source=source.name,
        index=0,
        kind=source.kind,
        connection=source.connection,
        relation=source.relation,
        query=source.query,
        path=source.path,
        columns=tuple(
            ScanColumn(name=column.name, physical=column.name, type=column.type)
            for column in schema.columns
        ),
        schema=schema,
        filter=source.filter,
        pin=pin,
        limits=source.limits,
    )
