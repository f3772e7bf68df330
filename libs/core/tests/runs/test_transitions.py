"""The published picture of the state machine is what `decide` does."""

from datetime import timedelta
from itertools import product

import pytest

from datarecs_core.runs.decide import decide
from datarecs_core.runs.facts import (
    AttemptLost,
    AttemptStarted,
    BackendEnded,
    ConfirmCancel,
    Fact,
    ProgressSeen,
    SubmitAccepted,
    SubmitRejected,
    TimerFired,
)
from datarecs_core.runs.model import RunStatus
from datarecs_core.runs.timers import TimerReason
from datarecs_core.runs.transitions import TRANSITIONS, state_diagram
from datarecs_testing.clock import NOON
from datarecs_testing.run_facts import (
    a_cancel,
    a_completion,
    an_errored,
    an_id,
    reported,
    the_flagged_run,
    the_run,
)

RUN = the_run()
FACTS: list[Fact] = [
    SubmitAccepted(fact_id=an_id(1)),
    SubmitRejected(fact_id=an_id(1), reason="quota"),
    a_cancel(),
    ConfirmCancel(fact_id=an_id(1)),
    AttemptStarted(fact_id=an_id(1), attempt=1),
    AttemptLost(fact_id=an_id(1), attempt=1),
    ProgressSeen(fact_id=an_id(1), attempt=1),
    reported(a_completion(RUN)),
    reported(an_errored(RUN)),
    BackendEnded(fact_id=an_id(1), outcome=an_errored(RUN), ended_at=NOON - timedelta(minutes=5)),
    *(TimerFired(fact_id=an_id(1), reason=reason) for reason in TimerReason),
]


@pytest.mark.case("ARC-15")
def test_the_picture_shows_exactly_the_changes_that_facts_make() -> None:
    transitions = set()
    for status, make, fact in product(RunStatus, (the_run, the_flagged_run), FACTS):
        run = make(status=status, submit_intent_at=NOON, max_attempts=1)
        after = decide(run, fact, now=NOON + timedelta(seconds=1)).state.status
        if after is not status:
            transitions.add((status, after))
    assert transitions == {(one.before, one.after) for one in TRANSITIONS}
    assert len(TRANSITIONS) == len(transitions)


def test_the_diagram_names_every_state() -> None:
    diagram = state_diagram()
    assert diagram.startswith("stateDiagram-v2\n    [*] --> TRIGGERED: triggered\n")
    for status in RunStatus:
        assert f"{status} -->" in diagram
