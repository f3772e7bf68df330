"""A sink over a lake in a folder, and what its tests write and read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
from pyiceberg.table import Table

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.sinking import CommitRequest, PendingFiles, SinkRecord
from datarecs_application.stopping import Stopping
from datarecs_connectors.iceberg.catalogs import Catalog
from datarecs_connectors.locations import Places
from datarecs_connectors.sinking.tables import IcebergSinkTables
from datarecs_connectors.sinking.writer import reference_of
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.resources.connection import IcebergConfig
from datarecs_core.sink.checkpoint import Lineage, TableCommit
from datarecs_core.sink.control import FileEntry, TableReference
from datarecs_core.sink.definition import SinkTable, SinkTarget
from datarecs_testing.lake import NAMESPACE, Lake, path_at
from datarecs_testing.tables import NOON

LINEAGE = Lineage(cluster_id="cluster", topic_id="topic-1", group="datarecs.sink.s1")
COMMIT = UUID("018f6f7c-0000-7000-8000-000000000001")
TARGET = SinkTarget(catalog="lake", namespace=(NAMESPACE,), name="orders")
SINK = SinkTable(connection="k", topics=("orders",), tables=(TARGET,))


def a_record(value: Mapping[str, Any], offset: int = 0, **fields: Any) -> SinkRecord:  # noqa: ANN401  fields of LogRecord
    facts = {"partition": 0, "timestamp_ms": 1_767_225_600_000, "key": b"k", "headers": ()}
    record = LogRecord(topic="orders", offset=offset, value=b"", **{**facts, **fields})
    return SinkRecord(record=record, value=value)


def records_of(*values: Mapping[str, Any]) -> list[SinkRecord]:
    return [a_record(value, offset) for offset, value in enumerate(values)]


def from_json(*texts: str) -> list[SinkRecord]:
    return records_of(*(json.loads(text, parse_float=Decimal) for text in texts))


@dataclass
class House:
    """The tables of a sink in one lake, and its commits."""

    lake: Lake
    config: IcebergConfig
    sink: SinkTable = SINK
    secrets: Mapping[str, str] = field(default_factory=dict)
    profile: Profile = Profile.LOCAL
    roots: tuple[Path, ...] | None = None
    offset: int = 0

    @property
    def catalog(self) -> Catalog:
        policy = Policy(purpose=Purpose.CONNECTION, profile=self.profile)
        roots = self.roots or (self.lake.folder,)
        places = Places(source="lake", roots=roots, now=lambda: NOON)
        return Catalog(
            source="lake", config=self.config, secrets=self.secrets, places=places, policy=policy
        )

    def tables(self, **changes: Any) -> IcebergSinkTables:  # noqa: ANN401  fields of SinkTable
        return IcebergSinkTables(
            sink=replace(self.sink, **changes),
            catalogs={"lake": self.catalog},
            task="s1-0",
            now=lambda: NOON,
            stop=Stopping(),
        )

    def table(self, name: str = "orders") -> Table:
        return self.lake.catalog.load_table(f"{NAMESPACE}.{name}")

    def set_property(self, name: str, value: str, table: str = "orders") -> None:
        """In the metadata as it is, without a commit that would obey it."""
        file = path_at(self.table(table).metadata_location)
        document = json.loads(file.read_bytes())
        document["properties"][name] = value
        file.write_text(json.dumps(document), encoding="utf-8")

    def write(
        self,
        records: Sequence[SinkRecord],
        target: SinkTarget = TARGET,
        **changes: Any,  # noqa: ANN401  see above
    ) -> tuple[FileEntry, ...]:
        writer = self.tables(**changes).writer(target)
        writer.add(records)
        return writer.finish()

    def reference(self, target: SinkTarget = TARGET) -> TableReference:
        table = self.lake.catalog.load_table((*target.namespace, target.name))
        return reference_of(target, table.metadata)

    def request(
        self,
        *files: FileEntry,
        target: SinkTarget = TARGET,
        **changes: Any,  # noqa: ANN401  fields of CommitRequest
    ) -> CommitRequest:
        """A commit of files in the next message of the control topic."""
        reference = changes.get("table") or self.reference(target)
        pending = PendingFiles(offset=self.offset, data_files=files)
        self.offset += 1
        facts: dict[str, Any] = {
            "commit_id": COMMIT,
            "table": reference,
            "control_offset": self.offset,
            "valid_through": NOON,
            "source_ends": {},
            "lineage": LINEAGE,
            "epoch": 1,
            "pending": (pending,),
            "stored_offset": 0,
        }
        return CommitRequest(**{**facts, **changes})

    def commit(self, request: CommitRequest, target: SinkTarget = TARGET) -> TableCommit | None:
        """The newest snapshot."""
        commits = self.tables().commit(target, request)
        return commits[-1] if commits else None

    def rows(self, name: str = "orders") -> list[dict[str, Any]]:
        """As pyiceberg reads them."""
        rows: list[dict[str, Any]] = self.table(name).scan().to_arrow().to_pylist()
        return rows

    def duck(self, query: str, name: str = "orders") -> list[tuple[Any, ...]]:
        """A query over the table's data files as DuckDB reads them."""
        files = [
            task.file.file_path.removeprefix("file://")
            for task in self.table(name).scan().plan_files()
        ]
        with duckdb.connect() as database:
            return database.execute(query.replace("ORDERS", f"read_parquet({files!r})")).fetchall()
