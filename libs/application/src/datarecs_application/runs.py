"""Use cases of a run: load and lock, let `decide` decide, apply the decision in one commit.

No rule is here. Each function works inside the caller's transaction, so that a consumer's inbox
mark, a route's idempotency key and the effect share it. Nothing is sent here: the outbox sends it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from datarecs_application.ports.execution import Ended, Gone, Launcher, Observation
from datarecs_application.ports.outside import Ids
from datarecs_application.ports.state import HistoryEntry, Lease, Transaction
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.decide import decide
from datarecs_core.runs.decided import EndLease, ReleaseLease, RunDecision
from datarecs_core.runs.events import RunEnd, RunEvent
from datarecs_core.runs.facts import (
    AttemptLost,
    BackendEnded,
    CancelRequested,
    EndReported,
    Fact,
    Loss,
    ProgressSeen,
    TimerFired,
)
from datarecs_core.runs.model import Backend, Disposition, Run
from datarecs_core.runs.refusals import (
    AttemptAheadError,
    Refusal,
    RunAlreadyTerminalError,
    known_run,
)
from datarecs_core.runs.repairing import outcome_of_repair, recorded_end
from datarecs_core.runs.result_file import NoResult
from datarecs_core.runs.start import TriggerRun, trigger
from datarecs_core.runs.timers import TimerReason
from datarecs_core.values import EventId, RunId

SYNTHESISED_SOURCE = "/datarecs/core-api"
"""The contract's owner of platform facts, also of those that never leave the platform."""


def trigger_run(tx: Transaction, command: TriggerRun) -> Run:
    """Create the run and announce it; the launching loop is woken at commit.

    The caller has claimed the idempotency key, or the slot, in this same transaction.
    """
    decision = trigger(command, now=tx.now)
    tx.runs.add(decision.state)
    _carry_out_rest(tx, decision)
    tx.wake()
    crash_point(CrashPoint.TRIGGER_IN_TX)
    return decision.state


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """The metadata of a received event, as it is recorded."""

    event_id: EventId
    type: str
    source: str
    time: datetime | None
    data: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTimer:
    run_id: RunId
    reason: str
    jitter: float
    """Factor on a repeating timer's interval, in [0.9, 1.1]."""


class CancelOutcome(StrEnum):
    REQUESTED = "ASKED"
    ALREADY_REQUESTED = "ALREADY_ASKED"
    ALREADY_CANCELLED = "ALREADY_CANCELLED"


def request_cancel(
    tx: Transaction, run_id: RunId, *, by: str, reason: str | None, fact_id: EventId
) -> tuple[Run, CancelOutcome] | None:
    """Flag the run; its end decides. None for an unknown run; safe to repeat.

    Raises:
        RunAlreadyTerminalError: it has ended, and not by a cancel.
    """
    run = tx.runs.for_update(run_id)
    if run is None:
        return None
    fact = CancelRequested(fact_id=fact_id, by=by, reason=reason)
    decision = carry_out(tx, run, fact)
    if decision.refusal is Refusal.RUN_ALREADY_TERMINAL:
        raise RunAlreadyTerminalError(run)
    tx.wake()
    crash_point(CrashPoint.CANCEL_IN_TX)
    if run.status.is_terminal:
        return run, CancelOutcome.ALREADY_CANCELLED
    outcome = CancelOutcome.ALREADY_REQUESTED if run.cancel_requested else CancelOutcome.REQUESTED
    return decision.state, outcome


def record_progress(tx: Transaction, event: RunEvent, *, event_id: EventId) -> None:
    """Handle a progress event: it shows activity and never decides.

    Raises UnknownRunError, AttemptAheadError: for the dead letters.
    """
    run = known_run(tx.runs.for_update(event.run_id), event)
    attempt = getattr(event, "attempt", None)
    carry_out(tx, run, ProgressSeen(fact_id=event_id, attempt=attempt))


def record_end(tx: Transaction, end: RunEnd, event: EventRecord) -> RunDecision:
    """The execution reported its end: close the run, once; later facts do not change it.

    Raises UnknownRunError, AttemptAheadError: for the dead letters.
    """
    run = known_run(tx.runs.for_update(end.run_id), end)
    fact = EndReported(fact_id=event.event_id, end=end, happened_at=event.time)
    decision = decide(run, fact, now=tx.now)
    if decision.refusal is Refusal.ATTEMPT_AHEAD:
        raise AttemptAheadError(run, attempt=end.attempt)
    tx.runs.record(
        run.run_id,
        HistoryEntry(
            sequence=0,
            event_id=event.event_id,
            type=event.type,
            source=event.source,
            time=event.time or tx.now,
            data=event.data,
            disposition=decision.disposition,
        ),
    )
    _carry_out(tx, run, decision)
    return decision


def fire_timer(tx: Transaction, due: DueTimer, launcher: Launcher, ids: Ids) -> Run | None:
    """Turn a due timer into its fact; a timer that was moved or dropped has no effect.

    Returns:
        The run if its execution is to be observed in a remote backend, and `repair_run` called
        with what is seen there.
    """
    run = tx.runs.for_update(due.run_id)
    if run is None or not tx.timers.due(due.run_id, due.reason):
        return None
    fact = TimerFired(fact_id=new_fact_id(ids), reason=TimerReason(due.reason), jitter=due.jitter)
    after = carry_out(tx, run, fact).state
    if fact.reason is not TimerReason.OBSERVE or after.status.is_terminal:
        return None
    if after.backend is Backend.ARGO:
        return after
    _repair(tx, after, launcher.observe(tx, (after,)).get(after.execution_name, Gone()), ids)
    return None


def repair_run(tx: Transaction, run_id: RunId, seen: Observation, ids: Ids) -> None:
    """Close a run with an execution that ended or is gone, unless it is closed already."""
    run = tx.runs.for_update(run_id)
    if run is not None and not run.status.is_terminal:
        _repair(tx, run, seen, ids)


def lose_attempt(tx: Transaction, lease: Lease, ids: Ids, *, jitter: float) -> None:
    """A lease ran out: the next attempt, or the end. Checked again under the locks."""
    run = tx.runs.for_update(lease.run_id)
    current = tx.leases.get(lease.run_id)
    # A renewal before the lock has moved the end: that worker lives.
    if run is None or current is None or _term(current) != _term(lease):
        return
    if run.status.is_terminal:
        tx.leases.end(run.run_id)
        return
    fact = AttemptLost(
        fact_id=new_fact_id(ids), attempt=run.attempt, releases=current.releases, jitter=jitter
    )
    carry_out(tx, run, fact)


def _term(lease: Lease) -> tuple[int, datetime | None]:
    """The holder and the end of the lease: both grant and renewal change it."""
    return lease.lease_epoch, lease.lease_until


def release_run(tx: Transaction, run: Run, ids: Ids, *, loss: Loss, jitter: float) -> None:
    """The supervisor returns a run it holds (drain, declared retry); the epoch was checked."""
    lease = tx.leases.get(run.run_id)
    releases = 0 if lease is None else lease.releases
    fact = AttemptLost(
        fact_id=new_fact_id(ids), attempt=run.attempt, loss=loss, releases=releases, jitter=jitter
    )
    carry_out(tx, run, fact)


def carry_out(tx: Transaction, run: Run, fact: Fact) -> RunDecision:
    """Decide and apply in this transaction; the run is locked. Refusals change nothing."""
    decision = decide(run, fact, now=tx.now)
    if decision.refusal is Refusal.ATTEMPT_AHEAD:
        raise AttemptAheadError(run, attempt=getattr(fact, "attempt", None))
    _carry_out(tx, run, decision)
    return decision


def _carry_out(tx: Transaction, before: Run, decision: RunDecision) -> None:
    if decision.state != before:
        tx.runs.save(decision.state)
    _carry_out_rest(tx, decision)


def _carry_out_rest(tx: Transaction, decision: RunDecision) -> None:
    """Lease, timers, record, events: in the one order of locks (spec run-lifecycle 13)."""
    run = decision.state
    match decision.lease:
        case EndLease():
            tx.leases.end(run.run_id)
        case ReleaseLease(due_at=due_at, consume=consume):
            tx.leases.release(run.run_id, due_at=due_at, consume=consume)
        case None:
            pass
        case _:
            assert_never(decision.lease)
    for timer in decision.put_timers:
        tx.timers.put(run.run_id, timer.reason, timer.due_at)
    if decision.drop_timers:
        tx.timers.drop(run.run_id, *decision.drop_timers)
    if decision.record is not None:
        tx.runs.record(
            run.run_id,
            HistoryEntry(
                sequence=0,
                event_id=decision.record.fact_id,
                type=decision.record.name,
                source=SYNTHESISED_SOURCE,
                time=tx.now,
                data=decision.record.data,
                disposition=Disposition.SYNTHESISED,
            ),
        )
    if decision.events:
        tx.outbox.append(
            *decision.events,
            caused_by=decision.caused_by,
            ids=decision.event_ids,
            traceparent=run.traceparent,
        )


def _repair(tx: Transaction, run: Run, seen: Observation, ids: Ids) -> None:
    """Row 15: the execution ended and its end was not handled, so the record closes the run.

    The recorded raw outcome keeps its own id, so that its late arrival is a redelivery.
    """
    if not isinstance(seen, Gone | Ended):
        return
    for entry in reversed(tx.runs.history(run.run_id, after=max(run.last_sequence - 50, 0))):
        end = recorded_end(run, wire_type=entry.type, data=entry.data)
        if end is not None:
            fact = BackendEnded(
                fact_id=entry.event_id, outcome=end, ended_at=entry.time, recorded=True
            )
            carry_out(tx, run, fact)
            return
    outcome = outcome_of_repair(
        run,
        recorded=None,
        file=NoResult(RunDetail.RESULT_MISSING, "it cannot be reached from here"),
        status=seen.status if isinstance(seen, Ended) else None,
        failures=seen.failures if isinstance(seen, Ended) else (),
    )
    last_seen = run.last_progress_at or run.started_at or run.queued_at or run.created_at
    ended_at = (seen.at if isinstance(seen, Ended) else None) or last_seen
    carry_out(tx, run, BackendEnded(fact_id=new_fact_id(ids), outcome=outcome, ended_at=ended_at))


def new_fact_id(ids: Ids) -> EventId:
    """The id of a fact that is no event."""
    return EventId(ids.new())
