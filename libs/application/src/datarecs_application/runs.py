"""Use cases of a run: load and lock, let `decide` decide, apply the decision in one commit.

No rule is here. Each function works inside the caller's transaction, so that a consumer's inbox
mark, a route's idempotency key and the effect share it. Nothing is sent here: the outbox sends it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from datarecs_application.ports.execution import (
    Accepted,
    Ended,
    Gone,
    Launcher,
    Rejected,
    Unavailable,
)
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
    ConfirmCancel,
    EndReported,
    Fact,
    Loss,
    ProgressSeen,
    SubmitAccepted,
    SubmitRejected,
    TimerFired,
)
from datarecs_core.runs.model import Disposition, Run, RunStatus, Wish
from datarecs_core.runs.refusals import (
    AttemptAheadError,
    Refusal,
    RunAlreadyTerminalError,
    known_run,
)
from datarecs_core.runs.repairing import outcome_of_repair, recorded_end
from datarecs_core.runs.result_file import NoResult
from datarecs_core.runs.start import TriggerRun, defer, intend, trigger
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


def launch_run(
    tx: Transaction, run_id: RunId, launcher: Launcher, ids: Ids, *, jitter: float
) -> None:
    """Bring about the desired state of the row in the backend, one step; safe to repeat."""
    run = tx.runs.for_update(run_id)
    if run is None or run.next_reconcile_at is None:
        return
    if run.status.is_terminal or run.wish is Wish.STOP:
        _stop(tx, run, launcher, ids)
    elif run.status is RunStatus.TRIGGERED:
        _submit(tx, run, launcher, ids, jitter=jitter)
    else:
        _settled(tx, run)


def fire_timer(tx: Transaction, due: DueTimer, launcher: Launcher, ids: Ids) -> None:
    """Turn a due timer into its fact; a timer that was moved or dropped has no effect."""
    run = tx.runs.for_update(due.run_id)
    if run is None or not tx.timers.due(due.run_id, due.reason):
        return
    fact = TimerFired(fact_id=_new(ids), reason=TimerReason(due.reason), jitter=due.jitter)
    after = carry_out(tx, run, fact).state
    if fact.reason is TimerReason.OBSERVE and not after.status.is_terminal:
        _repair(tx, after, launcher, ids)


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
        fact_id=_new(ids), attempt=run.attempt, releases=current.releases, jitter=jitter
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
        fact_id=_new(ids), attempt=run.attempt, loss=loss, releases=releases, jitter=jitter
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


def _submit(tx: Transaction, run: Run, launcher: Launcher, ids: Ids, *, jitter: float) -> None:
    intended = intend(run, now=tx.now)
    tx.runs.save(intended)
    crash_point(CrashPoint.SUBMIT_AFTER_INTENT)
    answer = launcher.ensure_running(tx, intended)
    crash_point(CrashPoint.SUBMIT_AFTER_CALL)
    match answer:
        case Accepted():
            carry_out(tx, intended, SubmitAccepted(fact_id=_new(ids)))
        case Rejected(reason=reason):
            launcher.ensure_stopped(tx, intended)
            carry_out(tx, intended, SubmitRejected(fact_id=_new(ids), reason=reason))
        case Unavailable():
            tx.runs.save(defer(intended, now=tx.now, jitter=jitter))
        case _:
            assert_never(answer)


def _stop(tx: Transaction, run: Run, launcher: Launcher, ids: Ids) -> None:
    """A flagged run that does not run yet ends here; a running one gets a stop request."""
    confirmed = carry_out(tx, run, ConfirmCancel(fact_id=_new(ids))).state
    lease = tx.leases.get(run.run_id)
    waiting = lease is not None and lease.lease_owner is None
    if confirmed.status is RunStatus.RUNNING and confirmed.cancel_requested and waiting:
        # Between two attempts no process can report an end (row 13).
        fact = AttemptLost(fact_id=_new(ids), attempt=run.attempt, loss=Loss.EXPIRED)
        carry_out(tx, confirmed, fact)
        return
    launcher.ensure_stopped(tx, confirmed)
    _settled(tx, confirmed)


def _settled(tx: Transaction, run: Run) -> None:
    """Nothing to do until the desired state changes; timers handle the rest."""
    if run.next_reconcile_at is not None:
        tx.runs.save(replace(run, next_reconcile_at=None))


def _repair(tx: Transaction, run: Run, launcher: Launcher, ids: Ids) -> None:
    """Row 15: the execution ended and its end was not handled, so the record closes the run.

    The recorded raw outcome keeps its own id, so that its late arrival is a redelivery.
    """
    seen = launcher.observe(tx, (run,)).get(run.execution_name, Gone())
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
    )
    last_seen = run.last_progress_at or run.started_at or run.queued_at or run.created_at
    carry_out(tx, run, BackendEnded(fact_id=_new(ids), outcome=outcome, ended_at=last_seen))


def _new(ids: Ids) -> EventId:
    return EventId(ids.new())
