"""The isolation suite: tenant A cannot read or change data of tenant B, on every adapter."""

from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.ports.state import RunFilter
from datarecs_core.catalog.pointers import Bump
from datarecs_core.errors.catalogue import PointerRefusedError
from datarecs_core.resources.reconciling import Work
from datarecs_core.resources.resource import Kind
from datarecs_core.values import EventId
from datarecs_testing.builders import A_TENANT, B_TENANT, a_resource, an_api_key, an_id
from datarecs_testing.conformance.leases import held
from datarecs_testing.conformance.resource_work import JOB, declared
from datarecs_testing.conformance.resources import stored
from datarecs_testing.conformance.runs import a_fact
from datarecs_testing.conformance.stores import Stores, carry_out, created, triggered


@pytest.mark.case("X01")
class IsolationConformance:
    def test_a_run_of_b_does_not_exist_for_a(self, stores: Stores) -> None:
        run = stores.triggered(tenant_id=B_TENANT)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.runs.get(run.run_id) is None
            assert tx.runs.for_update(run.run_id) is None
            assert tx.runs.history(run.run_id) == []
        assert stores.queries.run(A_TENANT, run.run_id) is None
        assert stores.queries.runs(A_TENANT, RunFilter(), limit=10) == []
        assert stores.queries.runs_with_prefix(A_TENANT, str(run.run_id)) == []
        assert stores.queries.run_events(A_TENANT, run.run_id, after=0, limit=10) == []

    def test_a_run_of_b_is_not_written_by_a(self, stores: Stores) -> None:
        run = stores.triggered(tenant_id=B_TENANT)
        fact = a_fact()
        with pytest.raises(LookupError):
            carry_out(stores.controller.unit, A_TENANT, lambda tx: tx.runs.save(run))
        with pytest.raises(LookupError):
            carry_out(stores.controller.unit, A_TENANT, lambda tx: tx.runs.record(run.run_id, fact))
        assert stores.queries.run(B_TENANT, run.run_id) is not None

    def test_an_event_about_a_run_of_b_is_not_appended_by_a(self, stores: Stores) -> None:
        run = stores.triggered(tenant_id=B_TENANT)
        disguised = replace(run, tenant_id=A_TENANT)
        with pytest.raises(LookupError):
            carry_out(stores.api.unit, A_TENANT, lambda tx: tx.outbox.append(triggered(disguised)))
        with pytest.raises((LookupError, ValueError)):
            carry_out(stores.api.unit, A_TENANT, lambda tx: tx.outbox.append(triggered(run)))
        assert len(stores.unsent()) == 1

    @pytest.mark.case("X06")
    def test_an_event_of_b_is_not_appended_by_a(self, stores: Stores) -> None:
        foreign = created(a_resource(tenant_id=B_TENANT))
        with pytest.raises(ValueError, match="own tenant"):
            carry_out(stores.api.unit, A_TENANT, lambda tx: tx.outbox.append(foreign))

    def test_a_lease_of_b_is_neither_seen_nor_renewed_in_a(self, stores: Stores) -> None:
        run = stores.queued(tenant_id=B_TENANT)
        leased = stores.worker.finder.lease_run("worker-1")
        assert leased is not None
        stores.pass_time(timedelta(seconds=70))
        with stores.controller.unit.begin(A_TENANT) as tx:
            assert tx.leases.get(run.run_id) is None
            assert tx.leases.expired(10) == []
            assert not tx.leases.is_current(run.run_id, leased.lease_epoch)
            assert not tx.leases.end_current(run.run_id, leased.lease_epoch)
            tx.leases.end(run.run_id)
            tx.leases.fence(run.run_id)
        foreign = stores.worker.finder.renew([held(leased, tenant_id=A_TENANT)])
        local = stores.worker.finder.renew([held(leased)])
        assert not foreign[run.run_id].current
        assert local[run.run_id].current

    def test_a_timer_of_b_is_neither_seen_nor_dropped_in_a(self, stores: Stores) -> None:
        run = stores.triggered(tenant_id=B_TENANT)
        with stores.controller.unit.begin(B_TENANT) as tx:
            tx.timers.put(run.run_id, "submit", tx.now - timedelta(seconds=1))
        with stores.controller.unit.begin(A_TENANT) as tx:
            assert not tx.timers.due(run.run_id, "submit")
            tx.timers.drop(run.run_id)
        with stores.controller.unit.begin(B_TENANT) as tx:
            assert tx.timers.due(run.run_id, "submit")

    def test_a_resource_of_b_does_not_exist_for_a(self, stores: Stores) -> None:
        theirs = stored(stores, tenant_id=B_TENANT, name="ledger")
        with stores.api.unit.begin(A_TENANT, feed=1) as tx:
            assert tx.resources.get_by_uid(theirs.uid) is None
            assert tx.resources.get(theirs.kind, theirs.namespace, theirs.name) is None
            assert tx.resources.for_update(theirs.kind, theirs.namespace, theirs.name) is None
            assert tx.resources.page(Kind.CONNECTION) == []
            newer = replace(theirs, rv=tx.next_rv(), spec={})
            assert not tx.resources.replace(newer, expected_rv=theirs.rv)
            assert not tx.resources.remove(theirs, expected_rv=theirs.rv)
        with stores.api.unit.begin(B_TENANT) as tx:
            assert tx.resources.get_by_uid(theirs.uid) == theirs

    def test_work_of_b_is_neither_seen_nor_changed_in_a(self, stores: Stores) -> None:
        theirs = declared(stores, B_TENANT)
        with stores.resources.unit.begin(A_TENANT) as tx:
            assert tx.resource_work.get(theirs) is None
            assert not tx.resource_work.for_update(theirs)
            assert not tx.resource_work.observed([theirs])
            assert not tx.checks.of_resources([theirs])
            tx.resource_work.save(Work(uid=theirs, kind=JOB, attempts=7))
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.resource_work.reconcile_users_of("here")
        with stores.resources.unit.begin(B_TENANT) as tx:
            work = tx.resource_work.get(theirs)
        assert work is not None
        assert (work.attempts, work.dirty_seq) == (0, 1)

    def test_names_of_a_and_b_do_not_collide(self, stores: Stores) -> None:
        ours = stored(stores, name="ledger")
        theirs = stored(stores, tenant_id=B_TENANT, name="ledger")
        assert ours.uid != theirs.uid

    def test_a_secret_of_b_is_neither_read_nor_erased_by_a(self, stores: Stores) -> None:
        theirs = stored(stores, tenant_id=B_TENANT)
        with stores.api.unit.begin(B_TENANT) as tx:
            tx.secrets.put(theirs.uid, "signing", "k1", b"sealed")
        with stores.webhook.unit.begin(A_TENANT) as tx:
            assert tx.secrets.live(theirs.uid, "signing") == []
            tx.secrets.erase(theirs.uid)
        with stores.webhook.unit.begin(B_TENANT) as tx:
            assert tx.secrets.live(theirs.uid, "signing") == [("k1", b"sealed")]

    def test_a_key_of_b_is_neither_listed_nor_revoked_by_a(self, stores: Stores) -> None:
        key = an_api_key(tenant_id=B_TENANT)
        with stores.api.unit.begin(B_TENANT) as tx:
            tx.api_keys.add(key)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.api_keys.all() == []
            assert not tx.api_keys.revoke(key.key_id)
        assert stores.api.finder.resolve_api_key(key.key_id) == key

    def test_a_mark_in_the_inbox_of_b_says_nothing_to_a(self, stores: Stores) -> None:
        event = EventId(an_id())
        with stores.mail.unit.begin(B_TENANT) as tx:
            tx.inbox.first_time("email-notifier", "/datarecs/core-api", event)
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.inbox.first_time("email-notifier", "/datarecs/core-api", event)

    def test_a_pointer_of_b_is_neither_read_nor_deleted_by_a(self, stores: Stores) -> None:
        theirs = f"/accounts/{B_TENANT}/catalogs/one"
        with stores.capture.unit.begin(B_TENANT) as tx:
            tx.pointers.batch([Bump(key=theirs)])
        with stores.capture.unit.begin(A_TENANT) as tx:
            for use in (tx.pointers.get, lambda key: tx.pointers.batch([Bump(key=key)])):
                with pytest.raises(PointerRefusedError):
                    use(theirs)
            assert tx.pointers.count(f"/accounts/{A_TENANT}/", cap=1) == 0
        with stores.capture.unit.begin(B_TENANT) as tx:
            pointer = tx.pointers.get(theirs)
        assert pointer is not None
        assert pointer.version == 1

    @pytest.mark.case("X04")
    def test_the_feeds_show_only_a_number_of_other_tenants(self, stores: Stores) -> None:
        stores.triggered(tenant_id=B_TENANT)
        ((tenant, rv),) = stores.api.finder.feed_after("run", 0, 10)
        assert tenant == B_TENANT
        assert isinstance(rv, int)
