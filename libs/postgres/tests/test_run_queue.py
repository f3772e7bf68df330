"""Launcher backend `queue`: submitting, stopping and observing are rows of the same transaction."""

from datetime import timedelta

import pytest
from sqlalchemy import text, update

from datarecs_application.ports.execution import Accepted, Gone, Pending, Running, Stopping
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_postgres.tables.runs import RUN_LEASE
from datarecs_postgres.unit_of_work import PostgresTransaction
from datarecs_testing.builders import A_TENANT
from datarecs_testing.conformance.stores import Stores

pytestmark = pytest.mark.integration
LAUNCHER = QueueLauncher()


def test_a_submitted_run_waits_and_requesting_twice_is_harmless(stores: Stores) -> None:
    run = stores.triggered()
    with stores.controller.unit.begin(A_TENANT) as tx:
        answers = [LAUNCHER.ensure_running(tx, run) for _ in range(2)]
        observed = LAUNCHER.observe(tx, [run])
    assert answers == [Accepted(), Accepted()]
    assert observed == {run.execution_name: Pending()}


def test_a_leased_run_is_running_and_stops_later(stores: Stores) -> None:
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


def test_a_renewal_touches_the_row_alone(stores: Stores) -> None:
    run, _ = stores.leased()
    renew = update(RUN_LEASE).where(RUN_LEASE.c.run_id == run.run_id)
    hot = text("SELECT n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'run_lease'")
    with stores.worker.unit.begin(A_TENANT) as tx:
        assert isinstance(tx, PostgresTransaction)
        before = tx.session.execute(hot).scalar_one()
        tx.session.execute(renew.values(lease_until=RUN_LEASE.c.lease_until + timedelta(minutes=1)))
        assert tx.session.execute(hot).scalar_one() == before + 1
