"""The table of the state machine, row by row: exact state, exact events, exact side wishes."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.runs.cancellation import DEFAULT_REASON
from datarecs_core.runs.decide import decide
from datarecs_core.runs.decided import EndLease, ReleaseLease, RunDecision
from datarecs_core.runs.events import (
    RunCancelled,
    RunCancelRequested,
    RunFinalised,
    RunQueued,
    RunQueueErrored,
    RunTriggered,
)
from datarecs_core.runs.facts import (
    AttemptLost,
    AttemptStarted,
    BackendEnded,
    ConfirmCancel,
    Fact,
    Loss,
    ProgressSeen,
    SubmitAccepted,
    SubmitRejected,
    TimerFired,
)
from datarecs_core.runs.model import (
    Backend,
    Disposition,
    Run,
    RunError,
    RunMode,
    RunResult,
    RunStatus,
    Wish,
)
from datarecs_core.runs.refusals import (
    AttemptAheadError,
    Refusal,
    RunAlreadyTerminalError,
    UnknownRunError,
    known_run,
)
from datarecs_core.runs.start import TriggerRun, defer, intend, trigger
from datarecs_core.runs.timers import TimerReason
from datarecs_core.values import JobId
from datarecs_testing.clock import NOON
from datarecs_testing.run_facts import (
    JOB,
    RUN,
    TENANT,
    a_cancel,
    a_completion,
    an_errored,
    an_id,
    reported,
    the_flagged_run,
    the_run,
)

FACT = an_id(50)
MINUTE = timedelta(minutes=1)
TERMINAL = [status for status in RunStatus if status.is_terminal]
ACCEPTED = SubmitAccepted(fact_id=FACT)
REJECTED = SubmitRejected(fact_id=FACT, reason="quota exceeded")
PROGRESS = ProgressSeen(fact_id=FACT, attempt=1)
CONFIRMED = ConfirmCancel(fact_id=FACT)
STARTED = AttemptStarted(fact_id=FACT, attempt=1)


def after(run: Run, fact: Fact) -> RunDecision:
    return decide(run, fact, now=NOON + MINUTE)


def fired(reason: TimerReason) -> TimerFired:
    return TimerFired(fact_id=FACT, reason=reason)


def kinds(decision: RunDecision) -> list[type[object]]:
    return [type(event) for event in decision.events]


def due(decision: RunDecision) -> dict[TimerReason, timedelta]:
    return {timer.reason: timer.due_at - NOON - MINUTE for timer in decision.put_timers}


def the_error(decision: RunDecision) -> tuple[RunErrorCode, str | None]:
    (event,) = [one for one in decision.events if isinstance(one, RunFinalised)]
    assert event.error is not None
    assert event.result is None
    assert decision.state.error == event.error
    return event.error.code, event.error.detail_code


def assert_cancelled(decision: RunDecision, *, before: Sequence[type[object]] = ()) -> None:
    """CANCELLED by exactly one run.cancelled, which repeats the first request; nothing is left."""
    assert decision.state.status is RunStatus.CANCELLED
    assert kinds(decision) == [*before, RunCancelled]
    event = decision.events[-1]
    assert isinstance(event, RunCancelled)
    assert (event.cancelled_by, event.reason) == ("u-7", "Wrong month")
    assert_silent(decision)


def assert_silent(decision: RunDecision) -> None:
    assert decision.state.closed_at == NOON + MINUTE
    assert decision.state.wish is Wish.STOP
    assert decision.drop_timers == tuple(TimerReason)
    assert decision.lease == EndLease()
    assert decision.state.terminal_fact_id == decision.caused_by


def command(**fields: object) -> TriggerRun:
    known: dict[str, object] = {
        "tenant_id": TENANT,
        "run_id": RUN,
        "job_id": JOB,
        "job_name": "daily",
        "job_generation": 3,
        "spec_hash": "sha256:" + "1" * 64,
        "spec": {"stages": []},
        "triggered_by": "u-1",
    }
    return TriggerRun(**(known | fields))  # type: ignore[arg-type]  # fields of TriggerRun


@pytest.mark.case("L08")
def test_row_1_a_trigger_makes_a_run_that_wishes_to_run() -> None:
    decision = trigger(command(), now=NOON)
    run = decision.state
    assert (run.status, run.wish, run.next_reconcile_at) == (RunStatus.TRIGGERED, Wish.RUN, NOON)
    assert run.execution_name.startswith("recon-")
    assert decision.events == (
        RunTriggered(
            run_id=RUN,
            job_id=JOB,
            tenant_id=TENANT,
            mode=RunMode.IMMEDIATE,
            triggered_by="u-1",
        ),
    )
    assert [timer.reason for timer in decision.put_timers] == [
        TimerReason.SUBMIT,
        TimerReason.LATE_START,
    ]
    assert decision.put_timers[0].due_at == NOON + timedelta(seconds=600)
    assert decision.caused_by is None


def test_a_trigger_of_a_schedule_preserves_its_slot() -> None:
    request = command(mode=RunMode.SCHEDULED, triggered_by="scheduled", fire_time=NOON)
    run = trigger(request, now=NOON).state
    assert (run.mode, run.triggered_by, run.fire_time) == (RunMode.SCHEDULED, "scheduled", NOON)


@pytest.mark.case("L08")
def test_row_2_an_accepted_run_is_queued() -> None:
    decision = after(the_run(), ACCEPTED)
    assert decision.state.status is RunStatus.QUEUED
    assert decision.state.queued_at == NOON + MINUTE
    assert kinds(decision) == [RunQueued]
    assert due(decision) == {
        TimerReason.QUEUE_WAIT: timedelta(seconds=600),
        TimerReason.QUEUE_TTL: timedelta(seconds=86_400),
        TimerReason.OBSERVE: timedelta(seconds=60),
    }
    assert decision.drop_timers == (TimerReason.SUBMIT, TimerReason.LATE_START)


def test_row_2_under_argo_the_first_sign_of_life_is_awaited_for_an_hour() -> None:
    decision = after(the_run(backend=Backend.ARGO), ACCEPTED)
    assert due(decision)[TimerReason.QUEUE_TTL] == timedelta(hours=1)


@pytest.mark.case("L08")
def test_row_2_a_flagged_run_is_cancelled_when_the_backend_accepts_it() -> None:
    decision = after(the_flagged_run(), ACCEPTED)
    assert_cancelled(decision)
    assert decision.caused_by == an_id(77)


@pytest.mark.case("L08")
@pytest.mark.parametrize(
    ("fact", "detail"),
    [(REJECTED, "SUBMIT_REJECTED"), (fired(TimerReason.SUBMIT), "SUBMIT_TIMEOUT")],
)
def test_row_3_a_run_without_a_worker_is_queue_errored_and_finalised(
    fact: Fact, detail: str
) -> None:
    decision = after(the_run(), fact)
    assert decision.state.status is RunStatus.QUEUE_ERRORED
    assert kinds(decision) == [RunQueueErrored, RunFinalised]
    assert the_error(decision) == (RunErrorCode.UNKNOWN, detail)
    assert decision.record is not None
    assert decision.record.fact_id == decision.caused_by == FACT
    assert decision.disposition is Disposition.SYNTHESISED
    assert_silent(decision)


def test_row_3_the_reason_of_the_backend_is_reported() -> None:
    event = after(the_run(), REJECTED).events[0]
    assert isinstance(event, RunQueueErrored)
    assert event.reason == "quota exceeded"


@pytest.mark.case("L08")
@pytest.mark.parametrize("fact", [REJECTED, fired(TimerReason.SUBMIT)])
def test_row_3_a_flagged_run_without_a_worker_is_only_cancelled(fact: Fact) -> None:
    decision = after(the_flagged_run(), fact)
    assert_cancelled(decision)
    assert decision.state.raw_error is not None


@pytest.mark.case("L08")
@pytest.mark.parametrize("status", [RunStatus.TRIGGERED, RunStatus.QUEUED, RunStatus.RUNNING])
def test_rows_4_and_8_a_cancel_flags_the_run_and_changes_no_status(status: RunStatus) -> None:
    decision = after(the_run(status=status), a_cancel())
    run = decision.state
    assert run.status is status
    assert (run.cancel_requested, run.wish) == (True, Wish.STOP)
    assert (run.cancelled_by, run.cancel_reason) == ("u-7", "Wrong month")
    assert run.cancel_requested_id == an_id(77)
    assert kinds(decision) == [RunCancelRequested]
    assert decision.event_ids == (an_id(77),)
    assert due(decision) == {TimerReason.CANCEL_FORCE: timedelta(seconds=300)}
    assert decision.lease is None


def test_a_run_is_cancelling_from_its_flag_to_its_end() -> None:
    assert the_flagged_run().cancelling
    assert not the_run().cancelling
    assert not the_flagged_run(status=RunStatus.CANCELLED).cancelling


def test_a_cancel_without_reason_has_the_default_reason() -> None:
    run = after(the_run(), a_cancel(reason=None)).state
    assert run.cancel_reason == DEFAULT_REASON == "User requested cancellation"


@pytest.mark.case("L08")
@pytest.mark.case("L21")
@pytest.mark.parametrize("status", [RunStatus.TRIGGERED, RunStatus.QUEUED])
def test_row_5_the_controller_confirms_a_cancel_before_running(status: RunStatus) -> None:
    decision = after(the_flagged_run(status=status), CONFIRMED)
    assert_cancelled(decision)
    assert decision.caused_by == an_id(77)


@pytest.mark.parametrize(
    "run",
    [the_run(), the_flagged_run(status=RunStatus.RUNNING), the_run(status=RunStatus.CANCELLED)],
)
def test_row_5_confirming_without_flag_or_while_running_changes_nothing(run: Run) -> None:
    assert after(run, CONFIRMED) == RunDecision(run, disposition=Disposition.HISTORY)


def test_row_5_under_argo_the_execution_of_a_cancelled_run_is_checked_again() -> None:
    run = the_flagged_run(status=RunStatus.QUEUED, backend=Backend.ARGO)
    assert after(run, CONFIRMED).state.next_reconcile_at == NOON + MINUTE


@pytest.mark.case("L08")
@pytest.mark.parametrize("fact", [STARTED, PROGRESS])
def test_row_6_a_lease_or_the_first_progress_starts_the_run(fact: Fact) -> None:
    decision = after(the_run(status=RunStatus.QUEUED), fact)
    run = decision.state
    assert (run.status, run.attempt) == (RunStatus.RUNNING, 1)
    assert (run.started_at, run.deadline_at) == (NOON + MINUTE, NOON + MINUTE + timedelta(hours=1))
    assert decision.events == ()
    assert due(decision) == {
        TimerReason.DEADLINE: timedelta(seconds=3660),
        TimerReason.OBSERVE: timedelta(seconds=60),
    }
    assert TimerReason.QUEUE_TTL in decision.drop_timers


def test_row_6_a_flagged_run_is_not_leased() -> None:
    run = the_flagged_run(status=RunStatus.QUEUED)
    decision = after(run, STARTED)
    assert (decision.state, decision.refusal) == (run, Refusal.LEASE_REFUSED)


def test_a_run_that_is_not_submitted_is_not_leased() -> None:
    assert after(the_run(), STARTED).refusal is Refusal.LEASE_REFUSED


@pytest.mark.case("L05")
@pytest.mark.case("L08")
def test_row_7_progress_overtakes_the_submit_reply() -> None:
    run = intend(the_run(backend=Backend.ARGO), now=NOON)
    decision = after(run, PROGRESS)
    assert decision.state.status is RunStatus.RUNNING
    assert kinds(decision) == [RunQueued]
    assert decision.caused_by == FACT
    late = after(decision.state, ACCEPTED)
    assert (late.state, late.events) == (decision.state, ())


@pytest.mark.case("L05")
@pytest.mark.case("L08")
def test_row_7_a_completion_overtakes_the_submit_reply() -> None:
    run = intend(the_run(), now=NOON)
    decision = after(run, reported(a_completion(run)))
    assert decision.state.status is RunStatus.COMPLETED
    assert kinds(decision) == [RunQueued, RunFinalised]
    late = after(decision.state, ACCEPTED)
    assert (late.state.status, late.events) == (RunStatus.COMPLETED, ())


@pytest.mark.case("L08")
def test_row_7_an_error_overtakes_the_submit_reply() -> None:
    run = intend(the_run(), now=NOON)
    decision = after(run, reported(an_errored(run)))
    assert decision.state.status is RunStatus.ERRORED
    assert kinds(decision) == [RunQueued, RunFinalised]


@pytest.mark.case("L21")
@pytest.mark.case("L08")
def test_row_7_under_the_flag_a_completion_is_a_stale_cancel_and_an_error_cancels() -> None:
    run = intend(the_flagged_run(), now=NOON)
    won = after(run, reported(a_completion(run)))
    assert (won.state.status, won.state.cancel_stale) == (RunStatus.COMPLETED, True)
    assert kinds(won) == [RunQueued, RunFinalised]
    assert_cancelled(after(run, reported(an_errored(run))), before=[RunQueued])


def test_row_7_progress_of_a_flagged_run_starts_nothing() -> None:
    run = intend(the_flagged_run(), now=NOON)
    decision = after(run, PROGRESS)
    assert (decision.state.status, decision.events) == (RunStatus.TRIGGERED, ())


def test_what_was_never_submitted_cannot_have_ended() -> None:
    run = the_run()
    for end in (a_completion(run, attempt=None), an_errored(run, attempt=None)):
        assert after(run, reported(end)).state == run
    assert after(run, ProgressSeen(fact_id=FACT)).state.status is RunStatus.TRIGGERED


@pytest.mark.case("L08")
@pytest.mark.parametrize("status", [RunStatus.QUEUED, RunStatus.RUNNING])
@pytest.mark.parametrize("result", list(RunResult))
def test_row_9_a_completion_finalises_with_its_result(status: RunStatus, result: RunResult) -> None:
    run = the_run(status=status)
    end = a_completion(run, result)
    decision = after(run, reported(end))
    closed = decision.state
    assert (closed.status, closed.result, closed.error) == (RunStatus.COMPLETED, result, None)
    assert end.summary is not None
    summary = replace(end.summary, job_name=run.job_name)
    assert (closed.cancel_stale, closed.summary) == (False, summary)
    assert decision.events == (
        RunFinalised(
            run_id=RUN,
            job_id=JOB,
            tenant_id=TENANT,
            attempt=1,
            result=result,
            summary=summary,
        ),
    )
    assert decision.disposition is Disposition.APPLIED
    assert decision.caused_by == FACT
    assert_silent(decision)


def test_the_end_of_the_execution_and_the_close_of_the_run_are_two_times() -> None:
    run = the_run(status=RunStatus.RUNNING)
    fact = replace(reported(a_completion(run)), happened_at=NOON)
    closed = after(run, fact).state
    assert (closed.ended_at, closed.closed_at) == (NOON, NOON + MINUTE)


@pytest.mark.case("L24")
@pytest.mark.case("L08")
def test_row_9_a_completion_wins_over_the_flag() -> None:
    run = the_flagged_run(status=RunStatus.RUNNING)
    decision = after(run, reported(a_completion(run)))
    assert (decision.state.status, decision.state.cancel_stale) == (RunStatus.COMPLETED, True)
    assert kinds(decision) == [RunFinalised]


@pytest.mark.case("L08")
@pytest.mark.parametrize("status", [RunStatus.QUEUED, RunStatus.RUNNING])
@pytest.mark.parametrize("code", list(RunErrorCode))
def test_row_10_an_error_finalises_with_its_code(status: RunStatus, code: RunErrorCode) -> None:
    run = the_run(status=status)
    end = an_errored(run, code, detail_code="KILLED")
    decision = after(run, reported(end))
    assert decision.state.status is RunStatus.ERRORED
    assert the_error(decision) == (code, "KILLED")
    assert decision.state.raw_error == end.error
    assert_silent(decision)


@pytest.mark.case("L23")
@pytest.mark.case("L08")
@pytest.mark.parametrize("status", [RunStatus.TRIGGERED, RunStatus.QUEUED, RunStatus.RUNNING])
def test_row_11_an_error_under_the_flag_cancels_and_preserves_its_cause(status: RunStatus) -> None:
    run = the_flagged_run(status=status)
    end = an_errored(run)
    decision = after(run, reported(end))
    assert_cancelled(decision)
    assert (decision.state.raw_error, decision.state.error) == (end.error, None)
    assert decision.caused_by == FACT


@pytest.mark.case("L08")
def test_row_12_a_lost_attempt_is_tried_again_after_a_wait() -> None:
    run = the_run(status=RunStatus.RUNNING, attempt=2)
    decision = after(run, AttemptLost(fact_id=FACT, attempt=2, jitter=0.5))
    assert decision.state == run
    assert decision.events == ()
    wait = timedelta(seconds=10)
    assert decision.lease == ReleaseLease(due_at=NOON + MINUTE + wait, consume=True)
    assert decision.record is not None
    assert decision.disposition is Disposition.SYNTHESISED
    again = after(decision.state, AttemptStarted(fact_id=an_id(51), attempt=3))
    assert (again.state.attempt, again.state.deadline_at) == (3, run.deadline_at)


@pytest.mark.case("L08")
def test_row_13_the_last_attempt_lost_ends_the_run_crashed() -> None:
    run = the_run(status=RunStatus.RUNNING, attempt=3)
    decision = after(run, AttemptLost(fact_id=FACT, attempt=3))
    assert the_error(decision) == (RunErrorCode.CRASHED, "LEASE_EXPIRED")
    assert decision.disposition is Disposition.SYNTHESISED
    assert_silent(decision)


@pytest.mark.case("L08")
def test_row_13_under_the_flag_there_is_nothing_to_wait_for() -> None:
    run = the_flagged_run(status=RunStatus.RUNNING)
    decision = after(run, AttemptLost(fact_id=FACT, attempt=1))
    assert_cancelled(decision)
    assert decision.caused_by == FACT


def test_an_attempt_lost_past_the_deadline_is_timed_out_whatever_else_fits() -> None:
    run = the_run(status=RunStatus.RUNNING, attempt=3, deadline_at=NOON)
    decision = after(run, AttemptLost(fact_id=FACT, attempt=3))
    assert the_error(decision) == (RunErrorCode.TIMED_OUT, "DEADLINE_EXCEEDED")


def test_a_drain_uses_up_no_attempt_five_times() -> None:
    run = the_run(status=RunStatus.RUNNING, attempt=3)
    for releases in range(5):
        fact = AttemptLost(fact_id=FACT, attempt=3, loss=Loss.DRAINED, releases=releases)
        assert after(run, fact).lease == ReleaseLease(due_at=NOON + MINUTE, consume=False)
    sixth = AttemptLost(fact_id=FACT, attempt=3, loss=Loss.DRAINED, releases=5)
    assert after(run, sixth).state.status is RunStatus.ERRORED


def test_an_attempt_returned_by_a_drain_starts_again_under_its_number() -> None:
    run = the_run(status=RunStatus.RUNNING)
    assert after(run, STARTED) == RunDecision(run)


@pytest.mark.case("R56")
@pytest.mark.case("R51")
@pytest.mark.case("L08")
@pytest.mark.parametrize(
    ("status", "reason", "detail"),
    [
        (RunStatus.QUEUED, TimerReason.QUEUE_TTL, "QUEUE_TIMEOUT"),
        (RunStatus.RUNNING, TimerReason.DEADLINE, "DEADLINE_EXCEEDED"),
    ],
)
def test_row_14_timers_end_runs_without_a_reported_end(
    status: RunStatus, reason: TimerReason, detail: str
) -> None:
    decision = after(the_run(status=status), fired(reason))
    assert the_error(decision) == (RunErrorCode.TIMED_OUT, detail)
    assert_silent(decision)
    flagged = after(the_flagged_run(status=status), fired(reason))
    assert_cancelled(flagged)
    assert flagged.state.raw_error is not None
    assert flagged.state.raw_error.detail_code == detail


@pytest.mark.case("L08")
@pytest.mark.parametrize("status", [RunStatus.QUEUED, RunStatus.RUNNING])
def test_row_15_repair_closes_a_run_whose_end_was_lost(status: RunStatus) -> None:
    run = the_run(status=status)
    ended = BackendEnded(fact_id=FACT, outcome=a_completion(run), ended_at=NOON - MINUTE)
    decision = after(run, ended)
    assert decision.state.status is RunStatus.COMPLETED
    assert decision.state.ended_at == NOON - MINUTE
    assert decision.disposition is Disposition.SYNTHESISED
    recorded = after(run, replace(ended, recorded=True))
    assert (recorded.record, recorded.disposition) == (None, Disposition.APPLIED)
    lost = after(run, replace(ended, outcome=an_errored(run)))
    assert lost.state.status is RunStatus.ERRORED
    flagged = the_flagged_run(status=status)
    assert_cancelled(after(flagged, replace(ended, outcome=an_errored(flagged))))


def test_row_15_repair_waits_two_minutes_for_the_end() -> None:
    run = the_run(status=RunStatus.RUNNING)
    early = BackendEnded(fact_id=FACT, outcome=a_completion(run), ended_at=NOON)
    assert after(run, early).events == ()
    submitted = intend(the_run(), now=NOON)
    old = replace(early, ended_at=NOON - timedelta(hours=1))
    assert after(submitted, old).state == submitted


@pytest.mark.case("L08")
@pytest.mark.parametrize("status", [RunStatus.TRIGGERED, RunStatus.QUEUED, RunStatus.RUNNING])
def test_row_16_a_stop_that_is_ignored_is_forced(status: RunStatus) -> None:
    decision = after(the_flagged_run(status=status), fired(TimerReason.CANCEL_FORCE))
    assert_cancelled(decision)
    assert decision.state.raw_error is not None
    assert decision.state.raw_error.detail_code == "CANCEL_FORCED"
    assert decision.record is not None


def test_row_16_without_flag_nothing_is_forced() -> None:
    run = the_run(status=RunStatus.RUNNING)
    decision = after(run, fired(TimerReason.CANCEL_FORCE))
    assert (decision.state, decision.drop_timers) == (run, (TimerReason.CANCEL_FORCE,))


@pytest.mark.case("L26")
@pytest.mark.case("L08")
@pytest.mark.parametrize("status", [RunStatus.TRIGGERED, RunStatus.QUEUED, RunStatus.RUNNING])
def test_row_17_the_first_cancel_is_retained(status: RunStatus) -> None:
    run = the_flagged_run(status=status)
    decision = after(run, a_cancel(78, by="u-8"))
    assert (decision.state, decision.events, decision.refusal) == (run, (), None)


@pytest.mark.case("L26")
@pytest.mark.case("L08")
@pytest.mark.parametrize("status", TERMINAL)
def test_row_18_a_cancel_after_the_end_is_refused_unless_it_is_what_happened(
    status: RunStatus,
) -> None:
    run = the_run(status=status)
    decision = after(run, a_cancel())
    refusal = None if status is RunStatus.CANCELLED else Refusal.RUN_ALREADY_TERMINAL
    assert (decision.state, decision.events, decision.refusal) == (run, (), refusal)


def test_the_refused_cancel_is_an_error_people_understand() -> None:
    error = RunAlreadyTerminalError(the_run(status=RunStatus.COMPLETED))
    assert "already ended COMPLETED" in str(error)
    assert error.status is RunStatus.COMPLETED


@pytest.mark.case("R54")
@pytest.mark.case("R51")
@pytest.mark.case("L08")
@pytest.mark.case("L22")
@pytest.mark.parametrize(
    ("status", "result", "late_matched", "late_errored"),
    [
        (RunStatus.COMPLETED, RunResult.MATCHED, Disposition.LATE, Disposition.CONFLICT),
        (RunStatus.COMPLETED, RunResult.UNMATCHED, Disposition.CONFLICT, Disposition.CONFLICT),
        (RunStatus.ERRORED, None, Disposition.CONFLICT, Disposition.LATE),
        (RunStatus.CANCELLED, None, Disposition.LATE, Disposition.LATE),
        (RunStatus.QUEUE_ERRORED, None, Disposition.CONFLICT, Disposition.LATE),
    ],
)
def test_row_19_ends_after_the_end_are_late_or_contradict_it(
    status: RunStatus,
    result: RunResult | None,
    late_matched: Disposition,
    late_errored: Disposition,
) -> None:
    run = the_run(status=status, result=result)
    for end, disposition in ((a_completion(run), late_matched), (an_errored(run), late_errored)):
        decision = after(run, reported(end))
        assert decision == RunDecision(run, disposition=disposition)


@pytest.mark.case("L21")
@pytest.mark.case("L08")
@pytest.mark.parametrize("status", TERMINAL)
def test_row_20_a_late_accept_or_lease_is_turned_away(status: RunStatus) -> None:
    run = the_run(status=status, backend=Backend.ARGO)
    accepted = after(run, ACCEPTED)
    assert (accepted.state.status, accepted.events, accepted.refusal) == (status, (), None)
    assert (accepted.state.wish, accepted.state.next_reconcile_at) == (Wish.STOP, NOON + MINUTE)
    leased = after(run, STARTED)
    assert (leased.refusal, leased.lease) == (Refusal.LEASE_REFUSED, EndLease())


@pytest.mark.case("L06")
@pytest.mark.case("L08")
@pytest.mark.parametrize("status", list(RunStatus))
def test_row_21_later_progress_is_history(status: RunStatus) -> None:
    run = the_flagged_run(status=status)
    decision = after(run, PROGRESS)
    assert (decision.state.status, decision.events) == (status, ())
    if status.is_terminal:
        assert decision == RunDecision(run, disposition=Disposition.LATE)
    else:
        assert decision.disposition is Disposition.HISTORY
        assert decision.state.last_progress_at == NOON + MINUTE


@pytest.mark.case("L08")
@pytest.mark.parametrize("status", [RunStatus.QUEUED, RunStatus.RUNNING])
def test_row_22_the_same_end_again_changes_nothing(status: RunStatus) -> None:
    """The inbox stops a repeated id before `decide`; even without it nothing is emitted."""
    run = the_run(status=status)
    fact = reported(a_completion(run))
    closed = after(run, fact).state
    again = after(closed, fact)
    assert (again.state, again.events) == (closed, ())


@pytest.mark.case("L08")
@pytest.mark.parametrize("status", list(RunStatus))
def test_row_23_another_attempt_is_stale_or_ahead_and_none_is_accepted(status: RunStatus) -> None:
    run = replace(the_run(status=status), attempt=2)
    for attempt, disposition, refusal in (
        (1, Disposition.STALE_ATTEMPT, None),
        (3, Disposition.HISTORY, Refusal.ATTEMPT_AHEAD),
    ):
        for fact in (
            reported(a_completion(run, attempt=attempt)),
            reported(an_errored(run, attempt=attempt)),
            ProgressSeen(fact_id=FACT, attempt=attempt),
            AttemptLost(fact_id=FACT, attempt=attempt),
        ):
            assert after(run, fact) == RunDecision(run, disposition=disposition, refusal=refusal)
    absent = after(run, reported(a_completion(run, attempt=None)))
    assert absent.disposition is not Disposition.STALE_ATTEMPT


def test_row_23_a_lease_of_another_attempt_is_stale_or_ahead() -> None:
    run = the_run(status=RunStatus.RUNNING, attempt=2)
    stale = after(run, AttemptStarted(fact_id=FACT, attempt=1))
    assert stale.disposition is Disposition.STALE_ATTEMPT
    ahead = after(run, AttemptStarted(fact_id=FACT, attempt=4))
    assert ahead.refusal is Refusal.ATTEMPT_AHEAD
    assert AttemptAheadError(run, attempt=4).attempt == 4


@pytest.mark.case("L18")
@pytest.mark.case("L08")
def test_row_24_an_event_of_an_unknown_run_goes_to_the_dead_letters() -> None:
    run = the_run()
    event = a_completion(run)
    assert known_run(run, event) is run
    with pytest.raises(UnknownRunError):
        known_run(None, event)
    with pytest.raises(UnknownRunError):
        known_run(run, replace(event, job_id=JobId(RUN)))


def test_timers_without_meaning_are_dropped() -> None:
    for status in RunStatus:
        run = the_run(status=status)
        for reason in (TimerReason.LATE_START, TimerReason.QUEUE_WAIT):
            decision = after(run, fired(reason))
            assert (decision.state, decision.events) == (run, ())
            assert reason in decision.drop_timers
    waiting = the_run(status=RunStatus.QUEUED)
    for reason in (TimerReason.SUBMIT, TimerReason.DEADLINE):
        assert after(waiting, fired(reason)).drop_timers == (reason,)


def test_observation_repeats_while_the_run_lives_and_watches_its_deadline() -> None:
    fact = replace(fired(TimerReason.OBSERVE), jitter=1.1)
    queued = after(the_run(status=RunStatus.QUEUED), fact)
    assert due(queued) == {TimerReason.OBSERVE: timedelta(seconds=66)}
    running = after(the_run(status=RunStatus.RUNNING), fact)
    assert due(running)[TimerReason.DEADLINE] == timedelta(hours=1)
    ended = after(the_run(status=RunStatus.COMPLETED), fact)
    assert (ended.put_timers, ended.drop_timers) == ((), tuple(TimerReason))


def test_the_intent_is_stored_before_the_backend_is_called() -> None:
    first = intend(the_run(), now=NOON)
    again = intend(first, now=NOON + MINUTE)
    assert (again.submit_intent_at, again.submit_attempts, again.attempt) == (NOON, 2, 0)
    assert intend(the_run(backend=Backend.ARGO), now=NOON).attempt == 1


def test_a_backend_without_response_is_tried_again_at_growing_intervals() -> None:
    run = the_run(submit_attempts=3)
    assert defer(run, now=NOON, jitter=1.0).next_reconcile_at == NOON + timedelta(seconds=4)


def test_messages_of_the_outside_become_storable() -> None:
    reason = "x" * 3000 + "\0"
    event = after(the_run(), replace(REJECTED, reason=reason)).events[0]
    assert isinstance(event, RunQueueErrored)
    assert len(event.reason) == 2000
    cancel = after(the_run(), a_cancel(reason="a\0b")).state
    assert cancel.cancel_reason == "a\N{REPLACEMENT CHARACTER}b"


def test_an_error_of_the_execution_reaches_the_row_unchanged() -> None:
    run = the_run(status=RunStatus.RUNNING)
    error = RunError(code=RunErrorCode.QUERY_FAILED, message="m", detail_code="COLUMN_NOT_FOUND")
    closed = after(run, reported(replace(an_errored(run), error=error))).state
    assert closed.error == error
