"""Kill -9 of the controller, relay included: every run still ends once, nothing is lost."""

from typing import Any

import pytest

pytestmark = pytest.mark.integration


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.case("L09", "X78")
def test_a_controller_that_is_killed_again_and_again_ends_each_run_once(
    path: Any,  # noqa: ANN401  the fixture
) -> None:
    victim = path.controller("first")
    path.work(slots=2)
    runs = path.trigger(120)
    received = []
    for event in path.ends(runs, patience=100):
        received.append(event.run_id)
        if len(received) in {20, 60}:
            victim.kill()
            path.broker.forget_members("run-controller")
            victim = path.controller(f"after-{len(received)}")
    assert sorted(set(received)) == sorted(run.run_id for run in runs)
    ends = path.database.query(
        "SELECT count(*), count(DISTINCT run_id) FROM datarecs.outbox o"
        " JOIN datarecs.run_event e USING (tenant_id, event_id)"
        " WHERE o.type LIKE '%%run.finalised' OR o.type LIKE '%%run.cancelled'"
    )
    assert ends == [(len(runs), len(runs))]
