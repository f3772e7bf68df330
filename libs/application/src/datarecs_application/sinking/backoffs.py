"""Tasks that wait after a fault: this process has their leases, and they have no slot.

A lease that nobody has a slot for after its pause is released, so that another process, or a claim
that counts the tasks of each tenant, can begin the task.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.outside import Clock, Wake
from datarecs_application.ports.sink_leases import SinkLease, SinkLeases
from datarecs_application.sinking.figures import TaskFigures
from datarecs_application.sinking.renewals import TaskRenewals

log = structlog.get_logger()

FIRST_BACKOFF = timedelta(seconds=1)
LONGEST_BACKOFF = timedelta(seconds=30)
CHECKED_EVERY = timedelta(seconds=1)
SLOT_LIMIT = timedelta(seconds=10)
"""How long a task may wait for a slot after its pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTask:
    """A task with a lease of this process."""

    lease: SinkLease
    figures: TaskFigures
    backoff: timedelta = FIRST_BACKOFF
    """Its pause after the next fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    task: HeldTask
    due: float
    """Monotonic seconds."""
    revision: str | None
    """As it was wished when the pause began; another one ends it."""


@dataclass(slots=True, kw_only=True)
class Backoffs:
    """A loop; `pause` and `take` are for the slots of the same process."""

    leases: SinkLeases
    renewals: TaskRenewals
    clock: Clock
    name: str = "backoffs"
    _waiting: list[_Waiting] = field(default_factory=list, init=False)
    _is_closed: bool = field(default=False, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def run(self, stop: Wake) -> None:
        while not stop.is_set():
            self.clock.wait(CHECKED_EVERY, until=stop)
            self.step()
        with self._lock:
            self._is_closed = True
        self._release(lambda _: True)

    def pause(self, task: HeldTask, duration: timedelta) -> bool:
        """False: the process ends, and nobody would take it."""
        now, standing = self.clock.monotonic(), self.renewals.standing(task.lease)
        waiting = _Waiting(
            task=task, due=now + duration.total_seconds(), revision=standing.revision
        )
        with self._lock:
            if not self._is_closed:
                self._waiting.append(waiting)
            return not self._is_closed

    def take(self) -> HeldTask | None:
        """A task to begin now."""
        with self._lock:
            for one in self._waiting:
                if self._is_due(one):
                    self._waiting.remove(one)
                    return one.task
        return None

    def paused(self) -> frozenset[SinkLease]:
        """Leases without a slot."""
        with self._lock:
            return frozenset(one.task.lease for one in self._waiting)

    def step(self) -> None:
        """Release what is to end, and what no slot takes."""
        self._release(self._is_over)

    def _is_due(self, one: _Waiting) -> bool:
        now, standing = self.clock.monotonic(), self.renewals.standing(one.task.lease)
        if standing.ends or standing.is_lost(now):
            return False
        return now >= one.due or standing.revision != one.revision

    def _is_over(self, one: _Waiting) -> bool:
        now, standing = self.clock.monotonic(), self.renewals.standing(one.task.lease)
        is_late = now >= one.due + SLOT_LIMIT.total_seconds()
        return standing.ends or standing.is_lost(now) or is_late

    def _release(self, is_over: Callable[[_Waiting], bool]) -> None:
        with self._lock:
            ended = [one.task for one in self._waiting if is_over(one)]
            self._waiting = [one for one in self._waiting if one.task not in ended]
        for task in ended:
            release(self.leases, self.renewals, task)


def release(
    leases: SinkLeases, renewals: TaskRenewals, task: HeldTask, *, is_resting: bool = False
) -> None:
    """This process has the task no more; its process has ended."""
    task.figures.end()
    renewals.drop(task.lease)
    release_lease(leases, task.lease, is_resting=is_resting)


def release_lease(leases: SinkLeases, lease: SinkLease, *, is_resting: bool = False) -> None:
    """A store that does not answer lets it end by itself."""
    try:
        leases.release(lease, is_resting=is_resting)
    except (StoreUnavailableError, StoreBusyError) as cause:
        log.warning("sink_task_not_released", code=cause.code.name)
