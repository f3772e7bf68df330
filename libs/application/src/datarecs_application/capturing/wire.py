"""What remote workers and the control API send each other, as JSON documents.

Separate from both sides, so that they cannot differ. Frames and indexes cross unchanged.
"""

from dataclasses import dataclass

from datarecs_core.captures.items import WorkKind, WorkToken
from datarecs_core.captures.outcomes import (
    ConnectorPlanned,
    GroupCaptured,
    SnapshotCaptured,
    SnapshotPlanned,
    TablePlanned,
    ViewPlanned,
    WorkFailed,
    WorkReleased,
    WorkStopped,
)
from datarecs_core.captures.request import ExecutionClass

PREFIX = "/api/v1/worker"
PROTOCOL = "1"
"""Version of these documents; the previous one is accepted for one release."""
PROTOCOL_HEADER = "Datarecs-Worker-Protocol"
EPOCH_HEADER = "Datarecs-Lease-Epoch"
TENANT_HEADER = "Datarecs-Tenant"
"""The tenant of the item; a worker that is bound to a tenant may send no other."""
LONGEST_WAIT_S = 20
REMOTE_KINDS = frozenset(WorkKind) - {WorkKind.FINALIZE_SNAPSHOT_CAPTURE}
"""Snapshots are finalized beside the database alone."""
RemoteOutcome = (
    ConnectorPlanned
    | TablePlanned
    | ViewPlanned
    | SnapshotPlanned
    | SnapshotCaptured
    | GroupCaptured
    | WorkFailed
    | WorkReleased
    | WorkStopped
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimWish:
    """Body of a claim."""

    executor: str
    kinds: tuple[WorkKind, ...]
    """At least one, each of REMOTE_KINDS."""
    lanes: tuple[str, ...] = ()
    execution_classes: tuple[ExecutionClass, ...] = ()
    limit: int = 1
    wait_seconds: int = 0
    """How long the answer may wait for work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenList:
    """Answer to a claim, and body of a renewal."""

    items: tuple[WorkToken, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    token: WorkToken
    renewed: bool
    cancel_requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewalList:
    """Answer to a renewal."""

    items: tuple[Renewal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteReport:
    """Body of an end; the class of the outcome is part of it."""

    outcome: RemoteOutcome
