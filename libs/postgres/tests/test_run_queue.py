"""Launcher backend `queue`: submitting, stopping and observing are rows of the same transaction."""

import pytest

from datarecs_application.ports.execution import Accepted, Gone, Pending, Running, Stopping
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_testing.builders import A_TENANT
from datarecs_testing.conformance.stores import Stores

pytestmark = pytest.mark.integration
LAUNCHER = QueueLauncher()


def test_a_submitted_run_waits_and_asking_twice_is_harmless(stores: Stores) -> None:
    run = stores.triggered()
    with stores.controller.unit.begin(A_TENANT) as tx:
        answers = [LAUNCHER.ensure_running(tx, run) for _ in range(2)]
        observed = LAUNCHER.observe(tx, [run])
    assert answers == [Accepted(), Accepted()]
    assert observed == {run.execution_name: Pending()}


def test_a_leased_run_is_running_and_stops_in_its_own_time(stores: Stores) -> None:
    run, _ = stores.leased()
    with stores.controller.unit.begin(A_TENANT) as tx:
        assert LAUNCHER.observe(tx, [run]) == {run.execution_name: Running()}
        assert LAUNCHER.ensure_stopped(tx, run) == Stopping()
        assert tx.leases.get(run.run_id) is not None


def test_a_waiting_run_is_gone_at_once(stores: Stores) -> None:
    run = stores.queued()
    with stores.controller.unit.begin(A_TENANT) as tx:
        assert [LAUNCHER.ensure_stopped(tx, run) for _ in range(2)] == [Gone(), Gone()]
        assert LAUNCHER.observe(tx, [run]) == {run.execution_name: Gone()}
    assert stores.worker.finder.lease_run("worker-1") is None
