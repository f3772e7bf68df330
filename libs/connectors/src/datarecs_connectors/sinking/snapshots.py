"""Write the files of a snapshot: its manifests, one for each partition spec, and their list."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)

from datarecs_connectors.sinking.files import SinkFiles, location_provider
from datarecs_core.errors.sink import SinkCode, SinkError

_CODEC, _DEFAULT_CODEC = "write.avro.compression-codec", "gzip"


@dataclass(slots=True, kw_only=True)
class SnapshotFiles:
    """The files of one attempt to add a snapshot on top of a table's head."""

    metadata: TableMetadata
    files: SinkFiles
    snapshot_id: int
    written: list[str] = field(default_factory=list)
    """Locations of manifests and lists."""
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    def append(
        self, added: Sequence[DataFile], facts: Mapping[str, str], *, now: datetime
    ) -> Snapshot:
        """A snapshot with everything of the head and the added files, some of them delete files.

        Raises:
            SinkError: COMMIT_FAILED, a file is of a partition spec that the table does not have.
        """
        head = self.metadata.current_snapshot()
        manifests = self._manifests(added)
        if head is not None:
            manifests += head.manifests(self.files)
        sequence = self.metadata.next_sequence_number()
        place = self._place(f"snap-{self.snapshot_id}-0-{self.token}.avro")
        with write_manifest_list(
            self.metadata.format_version,
            self.files.new_output(place),
            self.snapshot_id,
            None if head is None else head.snapshot_id,
            sequence,
            self._codec,  # type: ignore[arg-type]  # a property
        ) as writer:
            writer.add_manifests(manifests)
        return Snapshot.model_validate(
            {
                "snapshot-id": self.snapshot_id,
                "parent-snapshot-id": None if head is None else head.snapshot_id,
                "sequence-number": sequence,
                "timestamp-ms": max(
                    int(now.timestamp() * 1000), self.metadata.last_updated_ms or 0
                ),
                "manifest-list": place,
                "summary": self._summary(added, facts),
                "schema-id": self.metadata.current_schema_id,
            }
        )

    def remove(self) -> None:
        """Remove what was written, once no snapshot can name it."""
        for place in self.written:
            self.files.delete(place)

    @property
    def _codec(self) -> str:
        return self.metadata.properties.get(_CODEC, _DEFAULT_CODEC)

    def _place(self, name: str) -> str:
        place = location_provider(self.metadata).new_metadata_location(name)
        self.written.append(place)
        return place

    def _manifests(self, added: Sequence[DataFile]) -> list[ManifestFile]:
        specs = self.metadata.specs()
        manifests = []
        by_spec = sorted(added, key=_kind)
        for number, ((has_deletes, spec_id), files) in enumerate(groupby(by_spec, _kind)):
            if spec_id not in specs:
                raise SinkError(
                    SinkCode.COMMIT_FAILED,
                    f"the table no longer has the partition spec {spec_id}, and files were "
                    "written with it; restore the spec",
                )
            place = self._place(f"{self.token}-m{number}.avro")
            with self._writer(specs[spec_id], place, has_deletes=has_deletes) as writer:
                for file in files:
                    writer.add(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED,
                            snapshot_id=self.snapshot_id,
                            sequence_number=None,
                            file_sequence_number=None,
                            data_file=file,
                        )
                    )
            manifests.append(writer.to_manifest_file())
        return manifests

    def _writer(self, spec: PartitionSpec, place: str, *, has_deletes: bool) -> ManifestWriter:
        schema, output = self.metadata.schema(), self.files.new_output(place)
        codec: Any = self._codec
        if has_deletes:
            return _DeleteManifestWriter(spec, schema, output, self.snapshot_id, codec)
        version = self.metadata.format_version
        return write_manifest(version, spec, schema, output, self.snapshot_id, codec)

    def _summary(self, added: Sequence[DataFile], facts: Mapping[str, str]) -> Summary:
        head = self.metadata.current_snapshot()
        collector = SnapshotSummaryCollector()
        for file in added:
            collector.add_file(file, self.metadata.schema(), self.metadata.specs()[file.spec_id])
        previous = head.summary if head is not None else None
        has_deletes = any(map(_is_delete, added))
        operation = Operation.OVERWRITE if has_deletes else Operation.APPEND
        summary = Summary(operation, **collector.build(), **facts)
        return update_snapshot_summaries(
            summary, previous.additional_properties if previous is not None else None
        )


class _DeleteManifestWriter(ManifestWriterV2):
    """pyiceberg writes manifests of data files alone."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _is_delete(file: DataFile) -> bool:
    return file.content != DataFileContent.DATA


def _kind(file: DataFile) -> tuple[bool, int]:
    """A manifest has data files or delete files, of one spec."""
    return _is_delete(file), file.spec_id
