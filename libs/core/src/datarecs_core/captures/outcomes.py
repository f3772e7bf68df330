"""What a worker reports about an item, and what that item becomes.

One value per kind, so that a local worker hands it over and a remote one sends it as JSON.
"""

from dataclasses import dataclass
from datetime import timedelta

from datarecs_core.captures.items import RetryClass
from datarecs_core.captures.source_facts import (
    CapturedFile,
    CapturedTable,
    SourceFile,
    SourceObjects,
    SourceTable,
    SourceView,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorPlanned:
    objects: SourceObjects


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlanned:
    table: SourceTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewPlanned:
    view: SourceView


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlanned:
    """The files of a snapshot; none: it is empty."""

    files: tuple[SourceFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotCaptured:
    """Of a PLAN_SNAPSHOT whose source captures directly."""

    table: CapturedTable


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCaptured:
    files: tuple[CapturedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalize:
    """Of FINALIZE_SNAPSHOT_CAPTURE: the control plane does the work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFailed:
    code: str
    message: str
    retry: RetryClass
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkReleased:
    """The worker stops; the item is due at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkStopped:
    """The worker followed a cancel request."""


Result = (
    ConnectorPlanned
    | TablePlanned
    | ViewPlanned
    | SnapshotPlanned
    | SnapshotCaptured
    | GroupCaptured
    | Finalize
)
Outcome = Result | WorkFailed | WorkReleased | WorkStopped
