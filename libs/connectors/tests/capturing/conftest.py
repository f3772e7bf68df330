"""How these tests capture a folder, a lake and a database."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from datarecs_application.ports.capturing import CaptureSource, FileRequest
from datarecs_connectors.capturing.opening import open_capture_source
from datarecs_connectors.registry import Surroundings
from datarecs_core.captures.request import (
    CapturePolicy,
    CaptureScope,
    ColumnChoice,
    ObjectName,
    Output,
)
from datarecs_core.captures.source_facts import CapturedFile, SourceFile, SourceTable
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.resources.connection import Connection, ConnectionType, FilesConfig
from datarecs_testing.captured_database import CapturedDatabase, a_captured_database
from datarecs_testing.lake import Lake, a_lake
from datarecs_testing.stack import PostgresServer

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
EVERYTHING = CapturePolicy(
    outputs=(Output.TABLE_STATS, Output.COLUMN_STATS, Output.FILE_STATS),
    column_choice=ColumnChoice.ALL,
)


def _name(name: str) -> ObjectName:
    return ObjectName(namespace=("default",), name=name)


@dataclass(frozen=True)
class Folder:
    """A connection of type files over a folder; every method opens it anew."""

    root: Path
    scratch: Path

    def open(self) -> CaptureSource:
        policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
        around = Surroundings(roots=(self.root,), policy=policy, now=lambda: NOON)
        connection = Connection(type=ConnectionType.FILES, config=FilesConfig(root="."))
        return open_capture_source("files", connection, {}, around)

    def tables(self, scope: CaptureScope | None = None) -> list[str]:
        objects = self.open().objects(CaptureScope() if scope is None else scope)
        return [table.name for table in objects.tables]

    def table(self, name: str, known: Sequence[str] = ()) -> SourceTable:
        return self.open().table(_name(name), known=known)

    def plan(self, name: str) -> list[SourceFile]:
        native_id = self.table(name).snapshots[0].native_id
        return list(self.open().files(_name(name), native_id))

    def capture(
        self,
        name: str,
        policy: CapturePolicy = EVERYTHING,
        *,
        files: Sequence[SourceFile] | None = None,
        table: SourceTable | None = None,
        source: CaptureSource | None = None,
    ) -> list[CapturedFile]:
        """Files of a table, in the order of `files`; by default all, as they are now."""
        planned = self.plan(name) if files is None else files
        table = table or self.table(name)
        request = FileRequest(policy=policy, columns=table.columns, directory=str(self.scratch))
        native_id = table.snapshots[0].native_id
        opened = source or self.open()
        return list(opened.capture_files(table.name, native_id, planned, request))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    for name in ("data", "scratch"):
        (tmp_path / name).mkdir()
    return Folder(root=tmp_path / "data", scratch=tmp_path / "scratch")


@pytest.fixture
def explicit() -> Callable[..., CapturePolicy]:
    """Column statistics of these columns alone."""

    def policy(*names: str) -> CapturePolicy:
        return replace(EVERYTHING, column_choice=ColumnChoice.EXPLICIT_ONLY, columns=names)

    return policy


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with ExitStack() as closing:
        yield a_lake(tmp_path / "lake", closing)


@pytest.fixture
def database(postgres_server: PostgresServer) -> CapturedDatabase:
    return a_captured_database(postgres_server)
