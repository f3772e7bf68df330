"""Use cases of the launching loop: one step towards the desired state of a run's execution.

The queue is in the database, so its step is one transaction. For a remote backend a step has three
parts: commit what is to be done, call without a transaction, commit the answer. Each part may be
lost; the next pass begins again, and the backend knows the execution by its name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import assert_never

from datarecs_application.ports.execution import (
    Accepted,
    Gone,
    Launcher,
    Rejected,
    RemoteLauncher,
    Stopping,
    Unavailable,
)
from datarecs_application.ports.outside import Ids
from datarecs_application.ports.state import Transaction
from datarecs_application.runs import carry_out, new_fact_id
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.facts import (
    AttemptLost,
    ConfirmCancel,
    Loss,
    SubmitAccepted,
    SubmitRejected,
)
from datarecs_core.runs.model import Backend, Run, RunStatus, Wish
from datarecs_core.runs.start import defer, intend
from datarecs_core.values import RunId

STOP_AGAIN = timedelta(seconds=5)
"""Until a stop that the backend did not take is tried again."""


class NoRemoteLauncher:
    """In place of a remote backend that is not configured: its runs wait for one that is."""

    def wait_before_create(self) -> timedelta:
        return timedelta()

    def create(self, run: Run, *, lease_epoch: int) -> Unavailable:  # noqa: ARG002  the port's shape
        return _NOT_CONFIGURED

    def stop(self, name: str, *, force: bool) -> Unavailable:  # noqa: ARG002  the port's shape
        return _NOT_CONFIGURED

    def observe(self, names: Sequence[str]) -> Unavailable:  # noqa: ARG002  the port's shape
        return _NOT_CONFIGURED

    def live(self) -> Unavailable:
        return _NOT_CONFIGURED


_NOT_CONFIGURED = Unavailable(
    "this run-controller has no backend argo; set DATARECS_LAUNCHER__BACKEND=argo until the runs "
    "that were triggered with it have ended"
)
NO_REMOTE = NoRemoteLauncher()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """The backends of runs; the row of a run names its own."""

    queue: Launcher
    remote: RemoteLauncher = NO_REMOTE


class Step(StrEnum):
    """What a remote backend is to do."""

    CREATE = "CREATE"
    STOP = "STOP"
    TERMINATE = "TERMINATE"
    """The execution did not stop in time, or is not to report its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCall:
    """A committed intent; the call follows outside of any transaction."""

    step: Step
    run: Run
    lease_epoch: int = 0
    """Of the lease that the execution claims; 0 for a stop."""


CallAnswer = Accepted | Rejected | Unavailable | Gone | Stopping


def launch_run(
    tx: Transaction, run_id: RunId, backends: Backends, ids: Ids, *, jitter: float
) -> RemoteCall | None:
    """Bring about the desired state of the row in the backend, one step; safe to repeat.

    Returns:
        The call that a run of a remote backend needs after the commit; `settle_call` stores its
        answer.
    """
    run = tx.runs.for_update(run_id)
    if run is None or run.next_reconcile_at is None:
        return None
    is_remote = run.backend is Backend.ARGO
    is_to_stop = run.status.is_terminal or run.wish is Wish.STOP
    is_to_start = run.status is RunStatus.TRIGGERED
    if is_remote and (is_to_stop or is_to_start):
        if is_to_stop:
            return _stop_remote(tx, run, ids)
        return _create_remote(tx, run, backends.remote)
    if is_to_stop:
        _stop(tx, run, backends.queue, ids)
    elif is_to_start:
        _submit(tx, run, backends.queue, ids, jitter=jitter)
    else:
        _settled(tx, run)
    return None


def perform(call: RemoteCall, remote: RemoteLauncher) -> CallAnswer:
    """The call of a step; no transaction is open."""
    match call.step:
        case Step.CREATE:
            return remote.create(call.run, lease_epoch=call.lease_epoch)
        case Step.STOP | Step.TERMINATE:
            return remote.stop(call.run.execution_name, force=call.step is Step.TERMINATE)
    assert_never(call.step)


def settle_call(
    tx: Transaction, call: RemoteCall, answer: CallAnswer, ids: Ids, *, jitter: float
) -> None:
    """Store the answer of a remote backend; the run may have changed during the call.

    An accepted execution of a run that has ended meanwhile is stopped in the next pass (row 20). A
    rejected run is stopped by name too, because an earlier call without an answer may have
    created its execution.
    """
    run = tx.runs.for_update(call.run.run_id)
    if run is None:
        return
    match answer:
        case Accepted():
            carry_out(tx, run, SubmitAccepted(fact_id=new_fact_id(ids)))
        case Rejected(reason=reason):
            carry_out(tx, run, SubmitRejected(fact_id=new_fact_id(ids), reason=reason))
        case Unavailable():
            _try_again(tx, run, call, jitter=jitter)
        case Gone() | Stopping():
            stopped = replace(run, stop_sent_at=run.stop_sent_at or tx.now, next_reconcile_at=None)
            tx.runs.save(stopped)
        case _:
            assert_never(answer)


def _create_remote(tx: Transaction, run: Run, remote: RemoteLauncher) -> RemoteCall | None:
    """Commit the intent and the lease of the first attempt, before the backend is called."""
    wait = remote.wait_before_create()
    if wait:
        tx.runs.save(replace(run, next_reconcile_at=tx.now + wait))
        return None
    intended = intend(run, now=tx.now)
    tx.runs.save(intended)
    epoch = tx.leases.reserve(intended, holder=intended.execution_name)
    return RemoteCall(step=Step.CREATE, run=intended, lease_epoch=epoch)


def _stop_remote(tx: Transaction, run: Run, ids: Ids) -> RemoteCall | None:
    """A flagged run that does not run yet ends here; an execution that may exist is stopped."""
    confirmed = carry_out(tx, run, ConfirmCancel(fact_id=new_fact_id(ids))).state
    if run.submit_intent_at is None:
        _settled(tx, confirmed)
        return None
    raw = confirmed.raw_error
    forced = raw is not None and raw.detail_code == RunDetail.CANCEL_FORCED.name
    return RemoteCall(step=Step.TERMINATE if forced else Step.STOP, run=confirmed)


def _try_again(tx: Transaction, run: Run, call: RemoteCall, *, jitter: float) -> None:
    if call.step is not Step.CREATE:
        tx.runs.save(replace(run, next_reconcile_at=tx.now + STOP_AGAIN))
    elif run.status is RunStatus.TRIGGERED and run.wish is Wish.RUN:
        tx.runs.save(defer(run, now=tx.now, jitter=jitter))


def _submit(tx: Transaction, run: Run, launcher: Launcher, ids: Ids, *, jitter: float) -> None:
    intended = intend(run, now=tx.now)
    tx.runs.save(intended)
    crash_point(CrashPoint.SUBMIT_AFTER_INTENT)
    answer = launcher.ensure_running(tx, intended)
    crash_point(CrashPoint.SUBMIT_AFTER_CALL)
    match answer:
        case Accepted():
            carry_out(tx, intended, SubmitAccepted(fact_id=new_fact_id(ids)))
        case Rejected(reason=reason):
            launcher.ensure_stopped(tx, intended)
            carry_out(tx, intended, SubmitRejected(fact_id=new_fact_id(ids), reason=reason))
        case Unavailable():
            tx.runs.save(defer(intended, now=tx.now, jitter=jitter))
        case _:
            assert_never(answer)


def _stop(tx: Transaction, run: Run, launcher: Launcher, ids: Ids) -> None:
    """A flagged run that does not run yet ends here; a running one gets a stop request."""
    confirmed = carry_out(tx, run, ConfirmCancel(fact_id=new_fact_id(ids))).state
    lease = tx.leases.get(run.run_id)
    waiting = lease is not None and lease.lease_owner is None
    if confirmed.status is RunStatus.RUNNING and confirmed.cancel_requested and waiting:
        # Between two attempts no process can report an end (row 13).
        fact = AttemptLost(fact_id=new_fact_id(ids), attempt=run.attempt, loss=Loss.EXPIRED)
        carry_out(tx, confirmed, fact)
        return
    launcher.ensure_stopped(tx, confirmed)
    _settled(tx, confirmed)


def _settled(tx: Transaction, run: Run) -> None:
    """Nothing to do until the desired state changes; timers handle the rest."""
    if run.next_reconcile_at is not None:
        tx.runs.save(replace(run, next_reconcile_at=None))
