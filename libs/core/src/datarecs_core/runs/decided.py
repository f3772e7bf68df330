"""What a rule about runs returns: the run after the fact, and everything the commit must do.

Timers, leases and the record of the fact are data here, so that a use case executes them without
further rules. Separate from the rules, which all return this.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from datarecs_core.decision import Decision
from datarecs_core.runs.model import Disposition, Run
from datarecs_core.runs.refusals import Refusal
from datarecs_core.runs.timers import PutTimer, TimerReason
from datarecs_core.values import EventId


@dataclass(frozen=True, slots=True)
class EndLease:
    """Remove the lease: a late holder finds its epoch stale and writes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseLease:
    """Return the run to the queue with a raised epoch, leasable from `due_at`."""

    due_at: datetime
    consume: bool
    """False: a drain, which uses up no attempt."""


LeaseWish = EndLease | ReleaseLease


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A fact that is not an event: written to `run_event` before the decision's events."""

    fact_id: EventId
    name: str
    """Its type in `run_event`, such as `attempt_lost`."""
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RunDecision(Decision[Run]):
    """Save `state`; store `record`; put and drop timers; end or release the lease; then append.

    For a fact from an event, `disposition` belongs to that event's line in `run_event`;
    for a `record` it belongs to the record.
    """

    disposition: Disposition = field(default=Disposition.APPLIED, kw_only=True)
    event_ids: tuple[EventId, ...] | None = field(default=None, kw_only=True)
    """Ids that the events must have, one each; None leaves them to the outbox."""
    caused_by: EventId | None = field(default=None, kw_only=True)
    """Part of the envelope of every event of this decision."""
    record: Record | None = field(default=None, kw_only=True)
    refusal: Refusal | None = field(default=None, kw_only=True)
    put_timers: tuple[PutTimer, ...] = field(default=(), kw_only=True)
    drop_timers: tuple[TimerReason, ...] = field(default=(), kw_only=True)
    lease: LeaseWish | None = field(default=None, kw_only=True)


def unchanged(run: Run, disposition: Disposition = Disposition.HISTORY) -> RunDecision:
    """The fact is recorded and has no effect."""
    return RunDecision(run, disposition=disposition)


def refused(run: Run, refusal: Refusal) -> RunDecision:
    """The fact may not happen to this run; no line is written."""
    return RunDecision(run, disposition=Disposition.HISTORY, refusal=refusal)
