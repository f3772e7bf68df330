"""What a capture is asked to do: scope, mode, outputs, snapshots.

A request travels with every item of its tree, so each field says something about every item.
Source 000; spec queue-capture 14.
"""

from dataclasses import dataclass
from enum import StrEnum

from datarecs_core.values import ResourceUid


class CaptureMode(StrEnum):
    METADATA_ONLY = "METADATA_ONLY"
    """Tables, views and snapshots, and no data."""
    CAPTURE_ONLY = "CAPTURE_ONLY"
    """Statistics of tables that the catalogue has, and no change of metadata."""
    METADATA_AND_CAPTURE = "METADATA_AND_CAPTURE"


class Output(StrEnum):
    TABLE_STATS = "TABLE_STATS"
    COLUMN_STATS = "COLUMN_STATS"
    FILE_STATS = "FILE_STATS"
    PARQUET_PAGE_INDEX = "PARQUET_PAGE_INDEX"


class ColumnChoice(StrEnum):
    FIRST_N = "FIRST_N"
    ALL = "ALL"
    EXPLICIT_ONLY = "EXPLICIT_ONLY"


class SnapshotChoice(StrEnum):
    CURRENT = "CURRENT"
    LATEST_N = "LATEST_N"
    EXPLICIT = "EXPLICIT"
    ALL = "ALL"


class ExecutionClass(StrEnum):
    DEFAULT = "DEFAULT"
    INTERACTIVE = "INTERACTIVE"
    BATCH = "BATCH"
    HEAVY = "HEAVY"


DEFAULT_COLUMNS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectName:
    """A table or view, as the source names it."""

    namespace: tuple[str, ...]
    """1 to 32 parts."""
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureScope:
    """Which objects of the connection; everything empty: all of them."""

    namespaces: tuple[tuple[str, ...], ...] = ()
    tables: tuple[ObjectName, ...] = ()
    view: ObjectName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePolicy:
    """What is captured; without outputs, nothing is."""

    outputs: tuple[Output, ...] = ()
    column_choice: ColumnChoice = ColumnChoice.FIRST_N
    first_columns: int = DEFAULT_COLUMNS
    columns: tuple[str, ...] = ()
    """Of EXPLICIT_ONLY."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSelection:
    kind: SnapshotChoice
    latest: int = 0
    """Of LATEST_N."""
    snapshot_ids: tuple[int, ...] = ()
    """Of EXPLICIT: ids of the catalogue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPolicy:
    """Which workers may take the items of the tree."""

    execution_class: ExecutionClass = ExecutionClass.DEFAULT
    lane: str = ""
    """Workers that are set up for lanes take only these; others take every lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRequest:
    connection_uid: ResourceUid
    mode: CaptureMode
    is_full_rescan: bool = False
    scope: CaptureScope
    policy: CapturePolicy
    selection: SnapshotSelection | None = None
    """None: of a view, which has no snapshots."""
    execution: ExecutionPolicy

    @property
    def captures(self) -> bool:
        return self.mode is not CaptureMode.METADATA_ONLY

    @property
    def writes_metadata(self) -> bool:
        return self.mode is not CaptureMode.CAPTURE_ONLY
