"""What happened in a tree of captures; sent in the transaction of each transition.

The subject is the root, and the envelope's `runsequence` counts the events of its tree.
"""

from dataclasses import dataclass
from datetime import datetime

from datarecs_core.captures.items import CaptureJobId, WorkKind
from datarecs_core.captures.request import CaptureMode
from datarecs_core.values import ResourceUid, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureEvent:
    """What every event of a capture carries."""

    tenant_id: TenantId
    """The owner, equal to the envelope's `tenantid`."""
    root_job_id: CaptureJobId
    """The capture: the root of its tree, and the key of the topic."""
    job_id: CaptureJobId
    """The work item."""
    kind: WorkKind
    """What the item does."""
    connection_uid: ResourceUid
    """The connection that is captured."""
    mode: CaptureMode
    """As requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureJobStarted(CaptureEvent):
    """A worker has taken the item."""

    attempt: int
    """From 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureJobRequeued(CaptureEvent):
    """An attempt ended without a result and another one follows."""

    attempt: int
    """The one that ended, from 1."""
    due_at: datetime
    """When the next one may begin."""
    error_code: str | None = None
    """Name of the error; None if a worker or an operator returned the item."""
    error_message: str | None = None
    """For people, redacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureJobSucceeded(CaptureEvent):
    """The item and everything below it succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureJobFailed(CaptureEvent):
    """The item, or something below it, failed for good."""

    error_code: str
    """Name of the error."""
    error_message: str
    """For people, redacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureJobCancelled(CaptureEvent):
    """The item ended because it, or something above it, was cancelled."""

    reason: str | None = None
    """As the person gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSnapshotPlanned(CaptureEvent):
    """The files of a snapshot are frozen into groups."""

    table_id: str
    """The table of the catalogue."""
    snapshot_id: str
    """The snapshot, a number as text."""
    file_groups: int
    """Groups of files to be captured; 0 if everything is known."""
    files: int
    """Data files of the snapshot."""
    files_reused: int
    """Files that an earlier snapshot has with the same identity; they are not opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureFileGroupCompleted(CaptureEvent):
    """The statistics of a group of files are recorded."""

    table_id: str
    """The table of the catalogue."""
    snapshot_id: str
    """The snapshot, a number as text."""
    group: int
    """Its place in the plan, from 0."""
    files: int
    """Files of the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSnapshotFinalized(CaptureEvent):
    """The statistics of a snapshot are complete and readers see them."""

    table_id: str
    """The table of the catalogue."""
    snapshot_id: str
    """The snapshot, a number as text."""
    generation: int
    """Number of the publication, from 1."""
