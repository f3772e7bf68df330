"""Conformance suite of ResourceWork and of the claims of due objects."""

from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.ports.reconciling import RESOURCE_LEASE, ClaimedResource
from datarecs_core.resources.reconciling import Work
from datarecs_core.resources.resource import Kind
from datarecs_core.values import ResourceUid, TenantId
from datarecs_testing.builders import A_TENANT, B_TENANT, NOON, a_resource, an_id
from datarecs_testing.conformance.stores import Stores

JOB = Kind.RECONCILIATION_JOB
HOUR = timedelta(hours=1)
MOMENT = timedelta(milliseconds=1)


def declared(
    stores: Stores, tenant: TenantId = A_TENANT, *, kind: Kind = JOB, connection: str = "here"
) -> ResourceUid:
    """An object that core-api has just stored."""
    spec = {"sources": [{"name": "a", "connection": connection}]}
    with stores.api.unit.begin(tenant, feed=1) as tx:
        stored = a_resource(kind=kind, tenant_id=tenant, spec=spec, rv=tx.next_rv())
        tx.resources.add(stored)
        tx.resource_work.reconcile_soon(stored.uid, kind)
    return stored.uid


def claimed(
    stores: Stores, limit: int = 10, kind: Kind = JOB
) -> dict[ResourceUid, ClaimedResource]:
    return {one.uid: one for one in stores.resources.finder.claim_resources([kind], limit)}


def work_of(stores: Stores, uid: ResourceUid) -> Work:
    with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
        work = tx.resource_work.get(uid)
    assert work is not None
    return work


def saved(stores: Stores, uid: ResourceUid, **changes: object) -> Work:
    with stores.resources.unit.begin(A_TENANT) as tx:
        work = tx.resource_work.for_update(uid)[uid]
        work = replace(work, **changes)  # type: ignore[arg-type]  # fields of the work
        tx.resource_work.save(work)
    return work


class ResourceWorkConformance:
    def test_a_declared_object_is_due_at_once(self, stores: Stores) -> None:
        uid = declared(stores)
        (claim,) = claimed(stores).values()
        assert (claim.tenant_id, claim.uid, claim.kind, claim.epoch, claim.dirty_seq) == (
            *(A_TENANT, uid, JOB),
            *(1, 1),
        )

    def test_only_the_requested_kinds_are_claimed(self, stores: Stores) -> None:
        uid = declared(stores, kind=Kind.CONNECTION)
        assert claimed(stores) == {}
        assert set(claimed(stores, kind=Kind.CONNECTION)) == {uid}

    @pytest.mark.case("R36")
    def test_a_lease_ends_by_the_time_of_the_database(self, stores: Stores) -> None:
        uid = declared(stores)
        assert claimed(stores)[uid].epoch == 1
        stores.pass_time(RESOURCE_LEASE - timedelta(seconds=1))
        assert claimed(stores) == {}
        stores.pass_time(timedelta(seconds=2))
        assert claimed(stores)[uid].epoch == 2

    @pytest.mark.case("R18")
    def test_a_change_is_counted_and_makes_the_object_due(self, stores: Stores) -> None:
        uid = declared(stores)
        assert uid in claimed(stores)
        saved(stores, uid, due_at=None, lease_until=None, attempts=3)
        assert claimed(stores) == {}
        for _ in range(2):
            with stores.api.unit.begin(A_TENANT) as tx:
                tx.resource_work.reconcile_soon(uid, JOB)
        work = work_of(stores, uid)
        assert (work.dirty_seq, work.attempts) == (3, 3)
        assert claimed(stores)[uid].dirty_seq == 3

    def test_a_saved_row_is_read_back_by_its_tenant_alone(self, stores: Stores) -> None:
        uid = declared(stores)
        work = saved(
            stores,
            uid,
            due_at=NOON,
            attempts=2,
            conflicts=1,
            generation=4,
            reconcile_at="now",
            is_terminal=True,
            window_start=NOON,
            window_count=7,
            epoch=9,
            lease_until=NOON + HOUR,
        )
        assert work_of(stores, uid) == work
        with stores.api.unit.begin(B_TENANT, read_only=True) as tx:
            assert tx.resource_work.get(uid) is None

    def test_a_save_leaves_the_count_of_changes(self, stores: Stores) -> None:
        uid = declared(stores)
        saved(stores, uid, dirty_seq=50)
        assert work_of(stores, uid).dirty_seq == 1

    @pytest.mark.case("R31")
    def test_each_tenant_gets_its_share_of_a_claim(self, stores: Stores) -> None:
        for _ in range(6):
            declared(stores)
            stores.pass_time(MOMENT)
        last = declared(stores, B_TENANT)
        tenants = [one.tenant_id for one in claimed(stores, 4).values()]
        assert (tenants.count(A_TENANT), tenants.count(B_TENANT)) == (2, 1)
        assert last not in claimed(stores, 10)

    def test_the_jobs_of_a_connection_become_due(self, stores: Stores) -> None:
        ours, other = declared(stores), declared(stores, connection="elsewhere")
        theirs = declared(stores, B_TENANT)
        assert len(claimed(stores)) == 3
        for uid in (ours, other):
            saved(stores, uid, due_at=None, lease_until=None)
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.resource_work.reconcile_users_of("here")
        assert set(claimed(stores)) == {ours}
        with stores.api.unit.begin(B_TENANT, read_only=True) as tx:
            work = tx.resource_work.get(theirs)
        assert work is not None
        assert work.dirty_seq == 1

    def test_a_worker_makes_an_object_due_that_has_a_row(self, stores: Stores) -> None:
        uid = declared(stores)
        assert set(claimed(stores)) == {uid}
        saved(stores, uid, due_at=None, lease_until=None)
        for tenant, known in ((B_TENANT, uid), (A_TENANT, uid), (A_TENANT, an_id())):
            with stores.worker.unit.begin(tenant) as tx:
                tx.resource_work.due_again(ResourceUid(known))
        assert work_of(stores, uid).dirty_seq == 2
        assert set(claimed(stores)) == {uid}

    def test_the_backlog_counts_what_is_due_and_not_leased(self, stores: Stores) -> None:
        assert stores.resources.finder.resource_backlog() == []
        for tenant in (A_TENANT, A_TENANT, B_TENANT):
            declared(stores, tenant)
        stores.pass_time(timedelta(seconds=30))
        (backlog,) = stores.resources.finder.resource_backlog()
        assert (backlog.kind, backlog.due) == (JOB, 3)
        assert 30 <= backlog.oldest_seconds < 90
        claimed(stores)
        assert stores.resources.finder.resource_backlog() == []

    def test_objects_of_another_release_get_their_row_once(self, stores: Stores) -> None:
        known = declared(stores)
        assert set(claimed(stores)) == {known}
        with stores.api.unit.begin(B_TENANT, feed=2) as tx:
            strange = a_resource(kind=JOB, tenant_id=B_TENANT, rv=tx.next_rv())
            other = a_resource(kind=Kind.SCHEDULE, tenant_id=B_TENANT, rv=tx.next_rv())
            for one in (strange, other):
                tx.resources.add(one)
        finder = stores.resources.finder
        assert [finder.adopt_resources([JOB]) for _ in range(2)] == [1, 0]
        assert set(claimed(stores)) == {strange.uid}

    def test_the_work_goes_with_its_object(self, stores: Stores) -> None:
        uid = declared(stores)
        with stores.api.unit.begin(A_TENANT) as tx:
            resource = tx.resources.get_by_uid(uid)
            assert resource is not None
            assert tx.resources.remove(resource, expected_rv=resource.rv)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.resource_work.get(uid) is None

    def test_counters_of_a_process_are_those_of_its_last_report(self, stores: Stores) -> None:
        finder, instance = stores.resources.finder, an_id()
        finder.report_stats(instance, {"polls": 1, "poll_seconds": 0.25})
        finder.report_stats(instance, {"polls": 2, "poll_seconds": 0.5})
        assert {"polls": 2, "poll_seconds": 0.5} in stores.api.finder.read_stats()
        assert {"polls": 1, "poll_seconds": 0.25} not in stores.api.finder.read_stats()
