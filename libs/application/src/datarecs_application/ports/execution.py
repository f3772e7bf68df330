"""Execution backends: called as often as needed, each result is a value.

The queue is part of the database, so its launcher works inside the caller's transaction. A backend
behind a network is called between two transactions: the first commits the intent, the second the
answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from datarecs_application.ports.state import Transaction
from datarecs_core.runs.model import Run
from datarecs_core.runs.workflow_failures import FailedNode
from datarecs_core.values import RunId, TenantId


@dataclass(frozen=True, slots=True)
class Accepted:
    pass


@dataclass(frozen=True, slots=True)
class Rejected:
    reason: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    pass


@dataclass(frozen=True, slots=True)
class Stopping:
    pass


@dataclass(frozen=True, slots=True)
class Pending:
    pass


@dataclass(frozen=True, slots=True)
class Running:
    pass


@dataclass(frozen=True, slots=True)
class Ended:
    status: str
    at: datetime | None = None
    """When it ended, if the backend says so."""
    failures: tuple[FailedNode, ...] = ()
    """The steps that failed, if the backend says so."""


Observation = Pending | Running | Ended | Gone


class Launcher(Protocol):
    """Idempotent by `run.execution_name`; every call is safe to repeat."""

    def ensure_running(self, tx: Transaction, run: Run) -> Accepted | Rejected | Unavailable:
        """The backend `queue` submits inside the caller's transaction."""

    def ensure_stopped(self, tx: Transaction, run: Run) -> Gone | Stopping | Unavailable: ...

    def observe(self, tx: Transaction, runs: Sequence[Run]) -> Mapping[str, Observation]:
        """By execution name; an unknown name is Gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveExecution:
    """An execution that has not ended, and the run that it names."""

    name: str
    tenant_id: TenantId
    run_id: RunId


class RemoteLauncher(Protocol):
    """A backend behind a network. Idempotent by execution name; every call is safe to repeat.

    No method raises for an answer or a missing one, and none takes longer than 10 s for a request.
    """

    def wait_before_create(self) -> timedelta:
        """Zero: an execution may be created now, and this call counts as it. Else when to ask."""

    def create(self, run: Run, *, lease_epoch: int) -> Accepted | Rejected | Unavailable:
        """Accepted as well if the run's execution exists already."""

    def stop(self, name: str, *, force: bool) -> Gone | Stopping | Unavailable:
        """Ask the execution to end; with `force` nothing of it reports the end."""

    def observe(self, names: Sequence[str]) -> Mapping[str, Observation] | Unavailable:
        """By name, with one list for all; an unknown name is Gone."""

    def live(self) -> Sequence[LiveExecution] | Unavailable:
        """Every execution of this platform that has not ended."""
