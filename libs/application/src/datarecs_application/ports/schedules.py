"""What the scheduler knows of schedules, and what became of their times.

Separate from `resources`: users own the declaration, the scheduler alone writes these rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from datarecs_core.scheduling.schedule import Tick
from datarecs_core.values import ResourceUid, RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """One schedule between two decisions."""

    uid: ResourceUid
    due_at: datetime | None = None
    """When it is decided next; None for a suspended or ended one."""
    times: str = ""
    """What its times depend on, as text; empty before the first decision."""
    last_fire_time: datetime | None = None
    """The newest decided time, or the moment from which its times count."""
    is_suspended: bool = False
    """At the last decision."""
    waiting: datetime | None = None
    """The time whose run starts when the run that it replaces has ended."""
    tzdata: str = ""
    """Version of the zone data of the last decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedTick:
    """A tick as stored."""

    tick: Tick
    run_id: RunId | None = None
    """Of the run that it started."""
    tzdata: str = ""
    """Version of the zone data by which the time was computed."""
    at: datetime | None = None
    """When it was decided; set by the store."""


class Schedules(Protocol):
    """The rows of `schedule_state` and `schedule_tick`; both go with their schedule."""

    def decide_soon(self, uid: ResourceUid) -> None:
        """Make the schedule due now; called in the transaction that declares it."""

    def for_update(self, *uids: ResourceUid) -> Mapping[ResourceUid, ScheduleState]:
        """Lock the rows until the transaction ends; without those that were never declared."""

    def save(self, state: ScheduleState) -> None:
        """Replace the locked row."""

    def record(self, uid: ResourceUid, ticks: Sequence[DecidedTick]) -> None:
        """Append; a time that has a tick already keeps it."""

    def ticks(
        self, uid: ResourceUid, *, limit: int, before: datetime | None = None
    ) -> list[DecidedTick]:
        """Newest fire time first, strictly before the given one."""

    def state(self, uid: ResourceUid) -> ScheduleState | None:
        """Without a lock."""

    def active_runs(self, *uids: ResourceUid) -> Mapping[ResourceUid, Sequence[RunId]]:
        """Runs of these schedules that have not ended, oldest first; without those of none."""
