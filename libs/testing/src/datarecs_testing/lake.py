"""Iceberg tables in a folder: made by pyiceberg, with the delete files that it cannot write.

Delete files are written by hand as the format describes them, since no library here writes
equality deletes; what is read from them is checked against plain lists.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from datarecs_connectors.registry import Surroundings
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.resources.connection import (
    CatalogType,
    Connection,
    ConnectionType,
    HadoopCatalog,
    IcebergConfig,
)
from datarecs_core.resources.connection import SqlCatalog as DeclaredSqlCatalog
from datarecs_runtime.clock import SystemClock

NAMESPACE = "books"
_PATH_ID, _POSITION_ID = 2147483546, 2147483545
_IDS = count(7_000_000_000_000_000_001)
"""Snapshot ids beyond 2^53, as the format's random ones are."""


@dataclass(frozen=True, kw_only=True)
class Lake:
    """A SQL catalog in SQLite and its warehouse, both below one folder."""

    folder: Path
    catalog: SqlCatalog

    @property
    def connection(self) -> Connection:
        """As a job would name it, relative to the folder."""
        catalog = DeclaredSqlCatalog(type=CatalogType.SQL, name="lake", sqlite="catalog.db")
        return Connection(type=ConnectionType.ICEBERG, config=IcebergConfig(catalog=catalog))

    @property
    def surroundings(self) -> Surroundings:
        policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
        return Surroundings(roots=(self.folder,), policy=policy, now=SystemClock().now)

    def table(
        self,
        name: str,
        schema: Schema,
        *rows: pa.Table,
        spec: PartitionSpec | None = None,
        version: int = 2,
    ) -> Table:
        """A table with one data file for each of `rows`."""
        properties = {"format-version": str(version)}
        made = self.catalog.create_table(
            f"{NAMESPACE}.{name}",
            schema,
            partition_spec=spec or UNPARTITIONED_PARTITION_SPEC,
            properties=properties,
        )
        for each in rows:
            made.append(each)
        return made

    def publish_to_folder(self, table: Table) -> None:
        """Leave the metadata as Hadoop's catalog does: a number for every commit, a late hint."""
        metadata = path_at(table.refresh().metadata_location)
        number = len(table.metadata.metadata_log) + 1
        (metadata.parent / f"v{number}.metadata.json").write_bytes(metadata.read_bytes())
        (metadata.parent / "version-hint.text").write_text("1", encoding="utf-8")

    @property
    def hadoop(self) -> Connection:
        """The tables found by their folders, once they were published there."""
        catalog = HadoopCatalog(type=CatalogType.HADOOP, warehouse="warehouse")
        return Connection(type=ConnectionType.ICEBERG, config=IcebergConfig(catalog=catalog))


def a_lake(folder: Path, closing: ExitStack, *, database: str | None = None) -> Lake:
    """An empty catalog with one namespace, in SQLite unless another database is given."""
    (folder / "warehouse").mkdir(parents=True)
    catalog = SqlCatalog(
        "lake",
        uri=database or f"sqlite:///{folder}/catalog.db",
        warehouse=f"file://{folder}/warehouse",
    )
    closing.callback(catalog.close)
    catalog.create_namespace(NAMESPACE)
    return Lake(folder=folder, catalog=catalog)


def data_files(table: Table) -> list[DataFile]:
    """Of the current snapshot, sorted by path."""
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    entries = [
        entry
        for manifest in snapshot.manifests(table.io)
        if manifest.content == ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(table.io)
    ]
    return sorted((entry.data_file for entry in entries), key=lambda file: file.file_path)


def path_at(location: str) -> Path:
    """A location of a table as a path."""
    return Path(location.removeprefix("file://"))


def path_of(file: DataFile) -> Path:
    return path_at(file.file_path)


def delete_positions(table: Table, dead: Mapping[str, Sequence[int]], *, like: DataFile) -> None:
    """A position delete file over some data files of the partition of `like`."""
    rows = sorted((path, position) for path, some in dead.items() for position in some)
    fields = [
        _field("file_path", pa.string(), _PATH_ID),
        _field("pos", pa.int64(), _POSITION_ID),
    ]
    written = pa.table(
        [
            pa.array([path for path, _ in rows], pa.string()),
            pa.array([at for _, at in rows], pa.int64()),
        ],
        schema=pa.schema(fields),
    )
    commit_deletes(
        table, written, content=DataFileContent.POSITION_DELETES, spec=like.spec_id, of=like
    )


def delete_equal(
    table: Table, keys: pa.Table, *, spec: int | None = None, like: DataFile | None = None
) -> None:
    """An equality delete of these keys: everywhere, or in the partition of `like`.

    Args:
        table: with the columns of the keys.
        keys: the deleted values, one column per key.
        spec: the partition spec of the delete file; the table's current one by default.
        like: a data file of the partition.
    """
    schema = table.refresh().schema()
    ids = [schema.find_field(name).field_id for name in keys.column_names]
    fields = [
        _field(name, keys.schema.field(name).type, field_id)
        for name, field_id in zip(keys.column_names, ids, strict=True)
    ]
    commit_deletes(
        table,
        keys.cast(pa.schema(fields)),
        content=DataFileContent.EQUALITY_DELETES,
        spec=table.spec().spec_id if spec is None else spec,
        of=like,
        equality_ids=ids,
    )


def commit_deletes(  # noqa: PLR0913  what a delete file is made of
    table: Table,
    rows: pa.Table | bytes,
    *,
    content: DataFileContent,
    spec: int,
    of: DataFile | None = None,
    equality_ids: Sequence[int] | None = None,
    file_format: FileFormat = FileFormat.PARQUET,
) -> None:
    """Write a delete file and a snapshot that holds it besides everything that was there."""
    table.refresh()
    snapshot_id = next(_IDS)
    place = f"{table.location()}/data/delete-{snapshot_id}.parquet"
    if isinstance(rows, bytes):
        path_at(place).write_bytes(rows)
    else:
        pq.write_table(rows, path_at(place))
    file = DataFile.from_args(
        content=content,
        file_path=place,
        file_format=file_format,
        partition=Record() if of is None else of.partition,
        record_count=1 if isinstance(rows, bytes) else rows.num_rows,
        file_size_in_bytes=path_at(place).stat().st_size,
        equality_ids=None if equality_ids is None else list(equality_ids),
    )
    file.spec_id = spec
    manifest = _manifest(table, file, snapshot_id)
    _commit(table, manifest, snapshot_id)


class _DeletesManifest(ManifestWriterV2):
    """pyiceberg writes manifests of data files alone."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES


def _manifest(table: Table, file: DataFile, snapshot_id: int) -> ManifestFile:
    place = table.io.new_output(f"{table.location()}/metadata/deletes-{snapshot_id}.avro")
    spec = table.metadata.specs()[file.spec_id]
    entry = ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, data_file=file
    )
    with _DeletesManifest(spec, table.schema(), place, snapshot_id, "deflate") as writer:
        writer.add(entry)
    _with_short_ids(path_at(place.location))
    return writer.to_manifest_file()


def _with_short_ids(manifest: Path) -> None:
    """Ids of equality columns as int, as the format requires; pyiceberg writes long.

    Both are written alike in Avro, so that only the schema in the header is wrong.
    """
    content = manifest.read_bytes()
    at = content.index(b'"long"', content.index(b'"equality_ids"'))
    manifest.write_bytes(content[:at] + b'"int" ' + content[at + len(b'"long"') :])


def _commit(table: Table, manifest: ManifestFile, snapshot_id: int) -> None:
    parent = table.current_snapshot()
    assert parent is not None
    sequence = (parent.sequence_number or 0) + 1
    place = f"{table.location()}/metadata/snap-{snapshot_id}.avro"
    listed = [*parent.manifests(table.io), manifest]
    with write_manifest_list(
        2, table.io.new_output(place), snapshot_id, parent.snapshot_id, sequence, "deflate"
    ) as writer:
        writer.add_manifests(listed)
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent.snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": parent.timestamp_ms + 1,
            "manifest-list": place,
            "summary": Summary(Operation.DELETE),
            "schema-id": table.schema().schema_id,
        }
    )
    head = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    table.catalog.commit_table(
        table,
        (),
        (AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(head)),
    )
    table.refresh()


def _field(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})
