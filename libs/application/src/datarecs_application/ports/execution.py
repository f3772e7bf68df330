"""Execution backends: called as often as needed, each result is a value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from datarecs_application.ports.state import Transaction
from datarecs_core.runs.model import Run


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


Observation = Pending | Running | Ended | Gone


class Launcher(Protocol):
    """Idempotent by `run.execution_name`; every call is safe to repeat."""

    def ensure_running(self, tx: Transaction, run: Run) -> Accepted | Rejected | Unavailable:
        """The backend `queue` submits inside the caller's transaction."""

    def ensure_stopped(self, tx: Transaction, run: Run) -> Gone | Stopping | Unavailable: ...

    def observe(self, tx: Transaction, runs: Sequence[Run]) -> Mapping[str, Observation]:
        """By execution name; an unknown name is Gone."""
