"""What can happen to a work item of a capture; `decide` says what follows. Spec queue-capture 4."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from datarecs_core.captures.items import RetryClass, WorkError, WorkState


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """An executor takes a due item."""

    executor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """Another item has its claim key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Its claim key is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The worker has read the item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What a worker reports with: an equal report about the same epoch changes nothing more."""

    outcome_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded(Reported):
    """Its own work is done."""

    children: int = 0
    """New ones, added in the same transaction."""
    counters: Mapping[str, int]
    message: str = ""
    is_tree_cancelled: bool = False
    """Whether something above the item is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Reported):
    code: str
    message: str
    retry: RetryClass
    retry_after: timedelta | None = None
    """As the source asks for; at most 15 min count."""
    jitter: float
    """From 0.5 to 1."""
    is_tree_cancelled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(Reported):
    """The worker stops before the work is done."""

    is_tree_cancelled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(Reported):
    """The worker followed a cancel request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExpired:
    """Nobody renewed the lease, or its deadline or the grace of a cancel has passed."""

    is_tree_cancelled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRevoked:
    """An operator ends the lease; the item is reclaimed as if it had expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    by: str
    reason: str | None = None
    has_live_children: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildrenEnded:
    """No child is alive any more."""

    states: Mapping[WorkState, int]
    first_error: WorkError | None = None
    """Of the child that failed first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierMet:
    """Every sibling has succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierBroken:
    """Every sibling has ended, and some did not succeed."""

    incomplete: int


Fact = (
    Claimed
    | Parked
    | Opened
    | Started
    | Succeeded
    | Failed
    | Released
    | Stopped
    | LeaseExpired
    | LeaseRevoked
    | CancelRequested
    | ChildrenEnded
    | BarrierMet
    | BarrierBroken
)
