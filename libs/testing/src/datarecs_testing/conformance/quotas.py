"""Conformance suite of Quotas: exact counts of one tenant, also with concurrent calls."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

import pytest

from datarecs_application.capturing import queue
from datarecs_application.ports.quotas import WaitingRuns
from datarecs_core.resources.resource import Kind
from datarecs_core.values import JobId
from datarecs_testing.builders import A_TENANT, B_TENANT, a_resource, a_run, an_id
from datarecs_testing.captures import IDS, CaptureQueue, a_request, a_table
from datarecs_testing.conformance.stores import Stores, triggered

JOB = JobId(an_id())
MOST = 3


class _NoRoomError(Exception):
    pass


class QuotasConformance:
    @pytest.mark.case("X33")
    def test_runs_wait_until_they_start(self, stores: Stores) -> None:
        for run in (a_run(job_id=JOB), a_run(), a_run(tenant_id=B_TENANT, job_id=JOB)):
            with stores.api.unit.begin(run.tenant_id, feed=8) as tx:
                tx.runs.add(run)
                tx.timers.put(run.run_id, "submit", run.created_at)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.quotas.waiting_runs(JOB) == WaitingRuns(of_job=1, of_tenant=2)

    def test_captures_are_counted_until_they_end(self, stores: Stores) -> None:
        captures = CaptureQueue(stores)
        first, (_,) = captures.planned(a_table("a"))
        captures.put(a_request("other"))
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.quotas.open_captures() == 2
        with stores.api.unit.begin(B_TENANT) as tx:
            assert tx.quotas.open_captures() == 0
        captures.cancel(first)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.quotas.open_captures() == 1

    def test_of_many_captures_at_once_no_more_find_room_than_there_is(self, stores: Stores) -> None:
        start = Barrier(8)

        def add_one(number: int) -> bool:
            request = a_request(f"c{number}")
            start.wait()
            with suppress(_NoRoomError), stores.api.unit.begin(A_TENANT) as tx:
                queue.enqueue_root(tx, IDS, request, requested_by="u-1")
                if tx.quotas.open_captures() > MOST:
                    raise _NoRoomError
                return True
            return False

        with ThreadPoolExecutor(8) as threads:
            assert sum(threads.map(add_one, range(8))) == MOST
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.quotas.open_captures() == MOST

    def test_resources_are_counted_by_kind(self, stores: Stores) -> None:
        for resource in (
            a_resource(name="a"),
            a_resource(name="a", namespace="other"),
            a_resource(name="a", kind=Kind.RECONCILIATION_JOB),
            a_resource(name="a", tenant_id=B_TENANT),
        ):
            with stores.api.unit.begin(resource.tenant_id) as tx:
                tx.resources.add(resource)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.quotas.resources(Kind.CONNECTION) == 2
            assert tx.quotas.resources(Kind.NOTIFICATION_RULE) == 0

    @pytest.mark.case("X33")
    def test_of_many_at_once_no_more_find_room_than_there_is(self, stores: Stores) -> None:
        start = Barrier(8)

        def add_one() -> bool:
            start.wait()
            run = a_run(job_id=JOB)
            with stores.api.unit.begin(A_TENANT, feed=8) as tx:
                if tx.quotas.waiting_runs(JOB).of_job >= MOST:
                    return False
                tx.runs.add(run)
                tx.timers.put(run.run_id, "submit", run.created_at)
                tx.outbox.append(triggered(run))
            return True

        with ThreadPoolExecutor(8) as threads:
            added = [one.result() for one in [threads.submit(add_one) for _ in range(8)]]
        assert sum(added) == MOST
