"""The state of sweeps of retention policies, and what a sweep may remove.

Separate from `resources`: users own the declaration, the resource-controller alone writes these
rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from datarecs_core.retention.policy import Target
from datarecs_core.values import ResourceUid


class Place(NamedTuple):
    """Where an object is in the order in which a target is examined."""

    at: datetime
    """Creation of a run or mail; the time of a tick."""
    id: UUID
    """Of a run or mail; of the schedule of a tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepState:
    """One policy between two steps of its sweeps."""

    uid: ResourceUid
    due_at: datetime | None = None
    """When it is swept next; None for one that cannot be read."""
    generation: int | None = None
    """Of the declaration by which the current sweep began; None between sweeps."""
    target: Target | None = None
    """What the current sweep examines; None between sweeps."""
    place: Place | None = None
    """The last examined object of the target; None at its begin."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """By target, what the current sweep has removed, or would remove."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects of a target a policy removes."""

    target: Target
    namespace: str
    """Of the jobs."""
    job_labels: Mapping[str, str]
    deleted_jobs: bool
    before: datetime
    """The end of a run, or the creation of something else, is earlier."""
    keep_last: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A part of the objects of a target, in order."""

    due: Sequence[Place]
    """Those that the selection removes."""
    last: Place | None
    """The last one that was examined; None if there are no more."""


class Retention(Protocol):
    """The rows of `retention_state`, and removal of what policies select.

    Never selected: runs that have not ended, have an unsent event or an open mail or delivery; the
    newest MATCHED run of a job; mails that are not terminal; anything of a job with the annotation
    of a hold.
    """

    def sweep_soon(self, uid: ResourceUid) -> None:
        """Make the policy due now; called in the transaction that declares it."""

    def for_update(self, uid: ResourceUid) -> SweepState | None:
        """Lock the row until the transaction ends; None if it was never declared."""

    def save(self, state: SweepState) -> None:
        """Replace the locked row."""

    def examine(self, selection: Selection, *, after: Place | None, limit: int) -> Examined:
        """At most `limit` objects strictly after a place, oldest first, without locks."""

    def remove(self, target: Target, places: Sequence[Place]) -> int:
        """Remove the rows of objects that `examine` selected; their number. Safe to repeat.

        Of runs with history, lease and timers, of mails with their attempts. For differences it
        marks the runs. What has become open since is kept.
        """
