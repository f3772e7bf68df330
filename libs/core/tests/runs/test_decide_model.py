"""The promises of a run under any order, loss and repetition of facts, and under restarts.

Each example is one run's life: facts arrive in any order that Hypothesis chooses, some twice, some
never, some of other attempts; an inbox drops repeated ids as the consumer's does. 10,000 lives:
`pytest --hypothesis-profile=model libs/core/tests/runs/test_decide_model.py`.
"""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.runs.decide import decide
from datarecs_core.runs.decided import EndLease, ReleaseLease, RunDecision
from datarecs_core.runs.events import (
    RunCancelled,
    RunCancelRequested,
    RunFinalised,
    RunQueued,
    RunQueueErrored,
)
from datarecs_core.runs.facts import (
    AttemptLost,
    AttemptStarted,
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
from datarecs_core.runs.model import Backend, RunResult, RunStatus
from datarecs_core.runs.start import TriggerRun, intend, trigger
from datarecs_core.runs.timers import TimerReason
from datarecs_core.values import EventId
from datarecs_testing.clock import NOON
from datarecs_testing.run_facts import (
    JOB,
    RUN,
    TENANT,
    a_completion,
    an_errored,
    an_id,
)

ORDER = (RunStatus.TRIGGERED, RunStatus.QUEUED, RunStatus.RUNNING)
ATTEMPTS = st.sampled_from([None, 1, 1, 1, 2, 3, 4])
TERMINAL_EVENTS = (RunFinalised, RunCancelled)


def rank(status: RunStatus) -> int:
    return ORDER.index(status) if status in ORDER else len(ORDER)


class LifeOfARun(RuleBasedStateMachine):
    facts = Bundle("facts")

    @initialize(
        backend=st.sampled_from(Backend),
        attempts=st.integers(1, 3),
        reached=st.sampled_from(ORDER),
        flagged=st.booleans(),
    )
    def triggered(
        self, backend: Backend, attempts: int, reached: RunStatus, *, flagged: bool
    ) -> None:
        """A life begins anywhere before its end: else most would be over after two facts."""
        self.number, self.now = 100, NOON
        self.emitted: list[object] = []
        self.known: set[EventId] = set()
        self.timers: dict[TimerReason, datetime] = {}
        self.inbox: set[EventId] = set()
        self.leased = False
        command = TriggerRun(
            tenant_id=TENANT,
            run_id=RUN,
            job_id=JOB,
            job_name="daily",
            job_generation=1,
            spec_hash="",
            spec={},
            triggered_by="u-1",
            backend=backend,
            max_attempts=attempts,
        )
        decision = trigger(command, now=self.now)
        self.run = decision.state
        self.carry_out(decision)
        if reached is not RunStatus.TRIGGERED:
            self.intend_to_submit()
        if reached is not RunStatus.TRIGGERED:
            self.happen(SubmitAccepted(fact_id=self.new_id()))
        if reached is RunStatus.RUNNING:
            self.lease(attempt=1)
        if flagged:
            self.cancel(by="u-7")

    def new_id(self) -> EventId:
        self.number += 1
        return an_id(self.number)

    def happen(self, fact: Fact) -> RunDecision:
        self.now += timedelta(seconds=1)
        decision = decide(self.run, fact, now=self.now)
        self.judge(fact, decision)
        self.run = decision.state
        if isinstance(fact, EndReported | ProgressSeen):
            self.known.add(fact.fact_id)
        self.carry_out(decision)
        return decision

    def carry_out(self, decision: RunDecision) -> None:
        if decision.record is not None:
            self.known.add(decision.record.fact_id)
        self.emitted += decision.events
        ids = decision.event_ids or [self.new_id() for _ in decision.events]
        assert len(ids) == len(decision.events)
        self.known.update(ids)
        for reason in decision.drop_timers:
            self.timers.pop(reason, None)
        for timer in decision.put_timers:
            self.timers[timer.reason] = timer.due_at
        if isinstance(decision.lease, EndLease):
            self.leased = False

    def judge(self, fact: Fact, decision: RunDecision) -> None:
        """What must hold of every single step."""
        run, after = self.run, decision.state
        assert rank(after.status) >= rank(run.status), "a status moved back"
        assert after.attempt >= run.attempt, "an attempt moved back"
        assert not (decision.refusal and decision.events)
        if decision.caused_by is not None:
            known = {*self.known, fact.fact_id}
            assert decision.caused_by in known, "a cause that stands nowhere"
        if run.status.is_terminal:
            assert decision.events == (), "a terminal run spoke"
            quiet = replace(after, wish=run.wish, next_reconcile_at=run.next_reconcile_at)
            assert quiet == run, "a terminal run changed"
        if run.cancel_requested and not run.status.is_terminal:
            self.judge_flagged(decision)
        if isinstance(fact, CancelRequested):
            assert after.status is run.status, "a cancel request changed a status"

    def judge_flagged(self, decision: RunDecision) -> None:
        finalised = any(isinstance(event, RunFinalised) for event in decision.events)
        completed = decision.state.status is RunStatus.COMPLETED
        assert finalised is completed, "a flagged run was finalised by an error"
        assert decision.state.cancel_stale is completed
        assert decision.state.status is not RunStatus.RUNNING or self.run.status is (
            RunStatus.RUNNING
        ), "a flagged run started"

    # --- facts -------------------------------------------------------------------------------

    @rule()
    def intend_to_submit(self) -> None:
        if self.run.status is RunStatus.TRIGGERED:
            self.run = intend(self.run, now=self.now)

    @rule(accepted=st.booleans())
    def answer_of_the_backend(self, accepted: bool) -> None:
        if accepted:
            self.happen(SubmitAccepted(fact_id=self.new_id()))
        else:
            self.happen(SubmitRejected(fact_id=self.new_id(), reason="quota"))

    @rule(by=st.sampled_from(["u-1", "u-2"]))
    def cancel(self, by: str) -> None:
        self.happen(CancelRequested(fact_id=self.new_id(), by=by))

    @rule()
    def controller_pass(self) -> None:
        self.happen(ConfirmCancel(fact_id=self.new_id()))

    @rule(attempt=st.sampled_from([1, 1, 1, 2, 3]))
    def lease(self, attempt: int) -> None:
        decision = self.happen(AttemptStarted(fact_id=self.new_id(), attempt=attempt))
        self.leased = decision.refusal is None and self.run.status is RunStatus.RUNNING

    @rule(
        attempt=st.integers(1, 4),
        loss=st.sampled_from(Loss),
        releases=st.integers(0, 6),
        jitter=st.floats(0.5, 1.0),
    )
    def lose(self, attempt: int, loss: Loss, releases: int, jitter: float) -> None:
        decision = self.happen(
            AttemptLost(
                fact_id=self.new_id(),
                attempt=attempt,
                loss=loss,
                releases=releases,
                jitter=jitter,
            )
        )
        if isinstance(decision.lease, ReleaseLease):
            assert decision.lease.due_at >= self.now

    @rule(target=facts, attempt=ATTEMPTS)
    def progress(self, attempt: int | None) -> Fact:
        return ProgressSeen(fact_id=self.new_id(), attempt=attempt)

    @rule(target=facts, attempt=ATTEMPTS, result=st.sampled_from(RunResult))
    def completed(self, attempt: int | None, result: RunResult) -> Fact:
        end = a_completion(self.run, result, attempt=attempt)
        return EndReported(fact_id=self.new_id(), end=end)

    @rule(target=facts, attempt=ATTEMPTS, code=st.sampled_from(RunErrorCode))
    def errored(self, attempt: int | None, code: RunErrorCode) -> Fact:
        end = an_errored(self.run, code, attempt=attempt)
        return EndReported(fact_id=self.new_id(), end=end)

    @rule(fact=facts)
    def arrive(self, fact: Fact) -> None:
        """From Kafka, perhaps for the second time."""
        if fact.fact_id not in self.inbox and self.happen(fact).refusal is None:
            self.inbox.add(fact.fact_id)

    @rule(fact=facts)
    def arrive_without_inbox(self, fact: Fact) -> None:
        self.happen(fact)

    @rule(fact=consumes(facts))
    def get_lost(self, fact: Fact) -> None:
        assert fact is not None

    @rule(result=st.sampled_from([*RunResult, None]), age=st.integers(0, 300))
    def repair(self, result: RunResult | None, age: int) -> None:
        end = an_errored(self.run) if result is None else a_completion(self.run, result)
        ended_at = self.now - timedelta(seconds=age)
        self.happen(BackendEnded(fact_id=self.new_id(), outcome=end, ended_at=ended_at))

    @rule(reason=st.sampled_from(TimerReason))
    def any_timer(self, reason: TimerReason) -> None:
        self.happen(TimerFired(fact_id=self.new_id(), reason=reason))

    @rule(hours=st.integers(1, 30))
    def time_passes(self, hours: int) -> None:
        self.now += timedelta(hours=hours)

    # --- promises ----------------------------------------------------------------------------

    @invariant()
    def a_run_ends_once_and_says_so_once(self) -> None:
        ends = [event for event in self.emitted if isinstance(event, TERMINAL_EVENTS)]
        assert len(ends) == int(self.run.status.is_terminal)
        if not ends:
            return
        (end,) = ends
        assert isinstance(end, RunCancelled) is (self.run.status is RunStatus.CANCELLED)
        assert self.emitted[-1] is end
        assert self.timers == {}
        assert not self.leased
        if isinstance(end, RunFinalised):
            assert (end.result is None) is not (end.error is None)
            assert (end.result, end.error) == (self.run.result, self.run.error)

    @invariant()
    def each_word_is_said_once_at_most(self) -> None:
        kinds = [type(event) for event in self.emitted]
        for once in (RunQueued, RunQueueErrored, RunCancelRequested):
            assert kinds.count(once) <= 1
        assert not (RunQueued in kinds and RunQueueErrored in kinds)
        assert (RunCancelRequested in kinds) is self.run.cancel_requested
        if RunQueueErrored in kinds:
            assert kinds[-2:] == [RunQueueErrored, RunFinalised]

    def teardown(self) -> None:
        """The set timers close the run after any loss: no run stays open."""
        for _ in range(20):
            if not hasattr(self, "run") or self.run.status.is_terminal:
                return
            reason = min(self.timers, key=self.timers.__getitem__)
            self.now = max(self.now, self.timers[reason])
            self.happen(TimerFired(fact_id=self.new_id(), reason=reason))
            if reason is TimerReason.OBSERVE:
                self.timers.pop(reason)  # else it would only repeat itself
        raise AssertionError(f"the run never ends, it is {self.run.status}")


TestLifeOfARun = pytest.mark.case("L08")(LifeOfARun.TestCase)
TestLifeOfARun.settings = settings(
    deadline=None, stateful_step_count=30, max_examples=max(200, settings().max_examples)
)
