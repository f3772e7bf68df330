"""The plan of a snapshot: its files, which of them are known, and the groups of the others.

Frozen before any file is opened: the finaliser compares what was recorded with it.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from uuid import UUID

from datarecs_core.captures.request import CapturePolicy, ColumnChoice, ObjectName
from datarecs_core.captures.source_facts import Completion, SourceFile
from datarecs_core.catalog.publication import Captured
from datarecs_core.catalog.records import TableColumn
from datarecs_core.documents import to_document
from datarecs_core.hashing import canonical_json, sha256_hex

GROUP_FILES = 128
GROUP_BYTES = 1024**3
GROUP_CELLS = 2_000
"""Figures of files times columns, so that the report about a group stays small."""
MOST_NAMES = 100
"""Of files in an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlan:
    """Everything that the groups and the finaliser of a snapshot need."""

    table_id: UUID
    snapshot_id: int
    native_id: str
    object: ObjectName
    generation: str
    """Where the statistics are written until they are published."""
    completion: Completion
    policy: CapturePolicy
    columns: tuple[str, ...]
    """Names of the captured columns, in the order of the table."""
    files: tuple[SourceFile, ...]
    """All data files, by path."""
    reused: tuple[str, ...]
    """Paths of files whose statistics an earlier capture has; they are not opened."""
    groups: tuple[tuple[str, ...], ...]
    """Paths of the other files."""

    def group(self, number: int) -> tuple[SourceFile, ...]:
        """The files of a group, by path."""
        paths = set(self.groups[number])
        return tuple(file for file in self.files if file.path in paths)

    def content(self) -> bytes:
        """Canonical: equal plans have equal bytes."""
        return canonical_json(to_document(self))

    @property
    def captured(self) -> Captured:
        return captured_by(self.policy, self.columns)


def captured_by(policy: CapturePolicy, columns: Sequence[str]) -> Captured:
    """What a capture of these columns contains."""
    return Captured(
        outputs=tuple(sorted(policy.outputs)),
        columns_sha256=sha256_hex(canonical_json(list(columns))) if columns else "",
    )


def chosen_columns(
    policy: CapturePolicy, columns: Sequence[TableColumn]
) -> tuple[TableColumn, ...]:
    """The columns of a table that a policy chooses, in the order of the table.

    A name that the table does not have is ignored, because a policy serves many tables.
    """
    match policy.column_choice:
        case ColumnChoice.FIRST_N:
            return tuple(columns[: policy.first_columns])
        case ColumnChoice.EXPLICIT_ONLY:
            return tuple(column for column in columns if column.name in policy.columns)
        case ColumnChoice.ALL:
            return tuple(columns)


def group_files(files: Sequence[SourceFile], *, columns: int) -> tuple[tuple[str, ...], ...]:
    """Groups of about the same size, at most 128 files and 1 GiB and the largest file each.

    The same files are grouped in the same way, in whatever order they come. A file is never split.

    Args:
        files: to be opened.
        columns: number of captured columns.
    """
    if not files:
        return ()
    most = max(1, min(GROUP_FILES, GROUP_CELLS // max(columns, 1)))
    total = sum(file.size_bytes for file in files)
    count = max(-(-len(files) // most), -(-total // GROUP_BYTES))
    groups: list[list[str]] = [[] for _ in range(count)]
    open_groups = [(0, number) for number in range(count)]
    heapify(open_groups)
    for file in sorted(files, key=lambda one: (-one.size_bytes, one.path)):
        size, number = heappop(open_groups)
        groups[number].append(file.path)
        if len(groups[number]) < most:
            heappush(open_groups, (size + file.size_bytes, number))
    return tuple(tuple(sorted(group)) for group in groups if group)


def coverage_faults(planned: Collection[str], recorded: Sequence[str]) -> tuple[str, ...]:
    """How the recorded files differ from the planned ones; at most 100 names of each kind."""
    counts = Counter(recorded)
    kinds = {
        "missing": sorted(set(planned) - counts.keys()),
        "not planned": sorted(counts.keys() - set(planned)),
        "recorded twice": sorted(path for path, count in counts.items() if count > 1),
    }
    return tuple(
        f"{kind}: {', '.join(paths[:MOST_NAMES])}"
        + (f" and {len(paths) - MOST_NAMES} more" if len(paths) > MOST_NAMES else "")
        for kind, paths in kinds.items()
        if paths
    )
