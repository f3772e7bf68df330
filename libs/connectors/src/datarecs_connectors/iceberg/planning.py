"""Which data files a pinned table consists of, and which delete files apply to each of them.

Read from the snapshot's manifests by the rules of the format: a position delete applies to files
of its partition that are not newer, an equality delete those that are older, in its partition or,
without one, everywhere. pyiceberg plans no snapshot with equality deletes, so this is done here.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    read_manifest_list,
)
from pyiceberg.table import ManifestGroupPlanner

from datarecs_connectors.errors import (
    CorruptSourceError,
    SourceError,
    SourceLimitError,
    SourceUnsupportedError,
)
from datarecs_connectors.iceberg.files import TableFiles
from datarecs_connectors.iceberg.pruning import may_hold
from datarecs_connectors.iceberg.snapshots import FrozenTable
from datarecs_core.comparison.expressions.condition_tree import Condition

MAX_FILES = 1_000_000
_PATH_FIELD = 2147483546
"""Id of the column with paths of data files."""
_Partition = tuple[object, ...]
"""Spec and values: equal for two files of one partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A data file with its delete files."""

    file: DataFile
    positions: tuple[DataFile, ...] = ()
    """Position delete files and Puffin files with deletion vectors; they may name other files."""
    equalities: tuple[DataFile, ...] = ()
    sequence_number: int = 0

    @property
    def deletes(self) -> tuple[str, ...]:
        """Paths of the delete files, sorted; a Puffin file has one path for all its vectors."""
        return tuple(sorted({one.file_path for one in (*self.positions, *self.equalities)}))


def planned(
    table: FrozenTable, files: TableFiles, condition: Condition | None = None
) -> tuple[PlannedFile, ...]:
    """The files that may contain a row that meets the condition, sorted by path.

    Raises:
        SnapshotLostError: a manifest no longer exists.
        SourceUnsupportedError: a file in another format than Parquet, or an encrypted one.
        CorruptSourceError: a manifest cannot be read.
    """
    if table.snapshot is None:
        return ()
    try:
        manifests = list(read_manifest_list(files.new_input(table.snapshot.manifest_list)))
        entries = _data_entries(table, files, manifests, condition)
        deletes = _Deletes.of(table, chain.from_iterable(_entries(files, manifests, deletes=True)))
    except SourceError:
        raise
    except Exception as cause:  # external Avro, read by a library without documented error classes
        raise CorruptSourceError(
            table.source,
            f"the manifests of snapshot {table.snapshot.snapshot_id} cannot be read "
            f"({type(cause).__name__})",
        ) from cause
    if len(entries) > MAX_FILES:
        raise SourceLimitError(table.source, f"more than {MAX_FILES} data files")
    planned_files = [deletes.touching(entry) for entry in entries]
    for each in planned_files:
        for file in (each.file, *each.positions, *each.equalities):
            _check_readable(table.source, file)
    return tuple(sorted(planned_files, key=lambda each: each.file.file_path))


def _entries(
    files: TableFiles, manifests: Iterable[ManifestFile], *, deletes: bool
) -> Iterable[Sequence[ManifestEntry]]:
    for manifest in manifests:
        if (manifest.content == ManifestContent.DELETES) is deletes:
            yield manifest.fetch_manifest_entry(files)


def _data_entries(
    table: FrozenTable,
    files: TableFiles,
    manifests: Sequence[ManifestFile],
    condition: Condition | None,
) -> list[ManifestEntry]:
    wanted = None if condition is None else may_hold(condition, table.schema)
    if wanted is None or wanted == AlwaysTrue():
        return list(chain.from_iterable(_entries(files, manifests, deletes=False)))
    data = [manifest for manifest in manifests if manifest.content == ManifestContent.DATA]
    try:
        planner = ManifestGroupPlanner(table_metadata=table.metadata, io=files, row_filter=wanted)
        return list(chain.from_iterable(planner.plan_manifest_entries(data)))
    except (ValueError, TypeError, KeyError, NotImplementedError):
        # A transform or type that pyiceberg does not evaluate leaves no file out.
        return list(chain.from_iterable(_entries(files, manifests, deletes=False)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deletes:
    """The delete files of a snapshot by where they apply, each with its sequence number."""

    positions: Mapping[_Partition, Sequence[tuple[int, DataFile]]]
    equalities: Mapping[_Partition, Sequence[tuple[int, DataFile]]]
    everywhere: Sequence[tuple[int, DataFile]]
    """Equality deletes without a partition."""

    @classmethod
    def of(cls, table: FrozenTable, entries: Iterable[ManifestEntry]) -> "_Deletes":
        specs = table.metadata.specs()
        positions: dict[_Partition, list[tuple[int, DataFile]]] = defaultdict(list)
        equalities: dict[_Partition, list[tuple[int, DataFile]]] = defaultdict(list)
        everywhere = []
        for entry in entries:
            file, numbered = entry.data_file, (entry.sequence_number or 0, entry.data_file)
            if file.content == DataFileContent.POSITION_DELETES:
                positions[_partition(file)].append(numbered)
            elif specs[file.spec_id].is_unpartitioned():
                everywhere.append(numbered)
            else:
                equalities[_partition(file)].append(numbered)
        return cls(positions=positions, equalities=equalities, everywhere=tuple(everywhere))

    def touching(self, entry: ManifestEntry) -> PlannedFile:
        born, file = entry.sequence_number or 0, entry.data_file
        place = _partition(file)
        equal = chain(self.equalities.get(place, ()), self.everywhere)
        return PlannedFile(
            file=file,
            positions=tuple(
                one
                for at, one in self.positions.get(place, ())
                if at >= born and _may_name(one, file.file_path)
            ),
            equalities=tuple(one for at, one in equal if at > born),
            sequence_number=born,
        )


def _may_name(deletes: DataFile, path: str) -> bool:
    """Whether a path is within the bounds of the paths in a position delete file, if it has any."""
    encoded = path.encode()
    low, high = (
        (bounds or {}).get(_PATH_FIELD) for bounds in (deletes.lower_bounds, deletes.upper_bounds)
    )
    return (low is None or low <= encoded) and (high is None or encoded <= high)


def _partition(file: DataFile) -> _Partition:
    values = file.partition
    return (file.spec_id, *(values[position] for position in range(len(values))))


def _check_readable(source: str, file: DataFile) -> None:
    name = file.file_path.rpartition("/")[2]
    if file.key_metadata:
        raise SourceUnsupportedError(source, f"{name} is encrypted")
    puffin = file.content == DataFileContent.POSITION_DELETES
    formats = {FileFormat.PARQUET, FileFormat.PUFFIN} if puffin else {FileFormat.PARQUET}
    if file.file_format not in formats:
        raise SourceUnsupportedError(
            source, f"{name} has the format {file.file_format.value}; only Parquet can be read"
        )
