"""Conformance suites of RunLeases, RunTimers and WorkFinder: one holder, fenced by epoch."""

from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.ports.state import HeldLease, Lease, LeasedRun
from datarecs_application.runs import lose_attempt
from datarecs_core.runs.decide import decide
from datarecs_core.runs.facts import AttemptStarted
from datarecs_core.runs.model import Backend, Run, Wish
from datarecs_core.runs.start import intend
from datarecs_core.values import EventId, RunId
from datarecs_testing.builders import A_TENANT, B_TENANT, NOON, a_run, an_api_key, an_id
from datarecs_testing.clock import FixedIds
from datarecs_testing.conformance.stores import Stores, require_run

TTL = timedelta(seconds=60)
PAST_RECLAIM = TTL + timedelta(seconds=6)


def held(leased: LeasedRun, **changes: object) -> HeldLease:
    lease = HeldLease(
        tenant_id=leased.tenant_id, run_id=leased.run_id, lease_epoch=leased.lease_epoch
    )
    return replace(lease, **changes)  # type: ignore[arg-type]  # any field, named by the test


def lease_of(stores: Stores, run_id: RunId) -> Lease | None:
    with stores.controller.unit.begin(A_TENANT) as tx:
        return tx.leases.get(run_id)


def released(stores: Stores, run: Run, *, consume: bool) -> None:
    with stores.controller.unit.begin(A_TENANT) as tx:
        tx.runs.for_update(run.run_id)
        tx.leases.release(run.run_id, due_at=tx.now, consume=consume)


def reserved(stores: Stores) -> Run:
    """A run whose lease belongs to an execution outside of the queue."""
    run = stores.triggered(backend=Backend.ARGO)
    with stores.controller.unit.begin(A_TENANT) as tx:
        intended = intend(require_run(tx.runs.for_update(run.run_id)), now=tx.now)
        tx.runs.save(intended)
        assert tx.leases.reserve(intended, holder=run.execution_name) == 1
    return intended


class RunLeasesConformance:
    def test_a_waiting_run_is_leased_once(self, stores: Stores) -> None:
        run = stores.queued()
        first = stores.worker.finder.lease_run("worker-1")
        assert stores.worker.finder.lease_run("worker-2") is None
        assert first is not None
        assert (first.tenant_id, first.run_id) == (A_TENANT, run.run_id)
        assert (first.attempt, first.lease_epoch, first.lease_ttl) == (1, 1, TTL)
        assert timedelta(seconds=3590) < first.remaining <= timedelta(seconds=3600)

    def test_a_lease_makes_of_the_run_what_the_rule_decides(self, stores: Stores) -> None:
        run = stores.queued()
        before = stores.stored(run.run_id)
        stores.worker.finder.lease_run("worker-1")
        after = stores.stored(run.run_id)
        fact = AttemptStarted(fact_id=EventId(an_id()), attempt=1)
        decided = decide(before, fact, now=require_run(after).started_at or NOON)
        assert after == replace(decided.state, row_version=before.row_version + 1)
        reasons = {timer.reason.value for timer in decided.put_timers}
        with stores.controller.unit.begin(A_TENANT) as tx:
            assert not any(tx.timers.due(run.run_id, reason) for reason in reasons)
        stores.pass_time(timedelta(hours=2))
        with stores.controller.unit.begin(A_TENANT) as tx:
            assert all(tx.timers.due(run.run_id, reason) for reason in reasons)

    def test_a_lease_drops_the_timers_of_waiting(self, stores: Stores) -> None:
        run = stores.queued()
        with stores.controller.unit.begin(A_TENANT) as tx:
            tx.timers.put(run.run_id, "queue_wait", tx.now)
            tx.timers.put(run.run_id, "queue_ttl", tx.now)
        stores.worker.finder.lease_run("worker-1")
        with stores.controller.unit.begin(A_TENANT) as tx:
            assert not tx.timers.due(run.run_id, "queue_wait")
            assert not tx.timers.due(run.run_id, "queue_ttl")

    def test_submitting_again_changes_nothing(self, stores: Stores) -> None:
        run, leased = stores.leased()
        with stores.controller.unit.begin(A_TENANT) as tx:
            tx.leases.submit(run)
            assert tx.leases.is_current(run.run_id, leased.lease_epoch)

    def test_a_reserved_run_is_leased_by_no_worker_and_never_expires(self, stores: Stores) -> None:
        run = reserved(stores)
        stores.pass_time(timedelta(days=3))
        assert stores.worker.finder.lease_run("worker-1") is None
        assert stores.controller.finder.due_tenants("run_leases") == []
        with stores.controller.unit.begin(A_TENANT) as tx:
            assert tx.leases.expired(10) == []
            assert tx.leases.is_current(run.run_id, 1)

    def test_reserving_again_changes_neither_epoch_nor_holder(self, stores: Stores) -> None:
        run = reserved(stores)
        with stores.worker.unit.begin(A_TENANT) as tx:
            tx.runs.for_update(run.run_id)
            tx.leases.pass_to(run.run_id, "pod-1")
        with stores.controller.unit.begin(A_TENANT) as tx:
            assert tx.leases.reserve(run, holder=run.execution_name) == 1
        lease = lease_of(stores, run.run_id)
        assert lease is not None
        assert (lease.lease_owner, lease.lease_epoch, lease.attempt) == ("pod-1", 1, 1)

    def test_a_reserved_lease_ends_once(self, stores: Stores) -> None:
        run = reserved(stores)
        with stores.worker.unit.begin(A_TENANT) as tx:
            assert not tx.leases.end_current(run.run_id, 2)
            assert tx.leases.end_current(run.run_id, 1)
        with stores.worker.unit.begin(A_TENANT) as tx:
            assert not tx.leases.end_current(run.run_id, 1)

    def test_a_run_that_is_not_yet_due_waits(self, stores: Stores) -> None:
        run = stores.queued()
        with stores.controller.unit.begin(A_TENANT) as tx:
            tx.leases.release(run.run_id, due_at=tx.now + timedelta(minutes=1), consume=True)
        assert stores.worker.finder.lease_run("worker-1") is None
        stores.pass_time(timedelta(minutes=2))
        assert stores.worker.finder.lease_run("worker-1") is not None

    @pytest.mark.case("L25")
    def test_a_flagged_run_is_not_leased(self, stores: Stores) -> None:
        run = stores.queued()
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.runs.save(
                replace(require_run(tx.runs.for_update(run.run_id)), cancel_requested=True)
            )
        assert stores.worker.finder.lease_run("worker-1") is None

    def test_a_run_past_its_deadline_is_not_leased_again(self, stores: Stores) -> None:
        run, _ = stores.leased(deadline_seconds=60)
        released(stores, run, consume=True)
        stores.pass_time(timedelta(seconds=61))
        assert stores.worker.finder.lease_run("worker-1") is None

    def test_the_most_urgent_run_goes_first(self, stores: Stores) -> None:
        stores.queued(priority=5)
        urgent = stores.queued(priority=1)
        leased = stores.worker.finder.lease_run("worker-1")
        assert leased is not None
        assert leased.run_id == urgent.run_id

    def test_a_tenant_holds_no_more_leases_than_its_limit(self, stores: Stores) -> None:
        for _ in range(11):
            stores.queued()
        leased = [stores.worker.finder.lease_run(f"worker-{n}") for n in range(11)]
        assert [one is not None for one in leased] == [True] * 10 + [False]

    def test_a_renewal_returns_the_request_to_stop(self, stores: Stores) -> None:
        run, leased = stores.leased()
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.runs.save(replace(require_run(tx.runs.for_update(run.run_id)), wish=Wish.STOP))
        assert stores.worker.finder.renew([held(leased)])[run.run_id].stop

    def test_each_lease_is_answered_by_itself(self, stores: Stores) -> None:
        run, leased = stores.leased()
        unknown = held(leased, run_id=a_run().run_id)
        answers = stores.worker.finder.renew([unknown, held(leased)])
        assert {one: answer.current for one, answer in answers.items()} == {
            unknown.run_id: False,
            run.run_id: True,
        }
        assert not answers[run.run_id].stop

    def test_a_renewal_between_finding_and_reclaiming_preserves_the_lease(
        self, stores: Stores
    ) -> None:
        run, leased = stores.leased()
        stores.pass_time(PAST_RECLAIM)
        with stores.controller.unit.begin(A_TENANT) as tx:
            (lost,) = tx.leases.expired(10)
        assert stores.worker.finder.renew([held(leased)])[run.run_id].current
        with stores.controller.unit.begin(A_TENANT, feed=8) as tx:
            lose_attempt(tx, lost, FixedIds(20_000_000), jitter=1.0)
            assert tx.leases.is_current(run.run_id, leased.lease_epoch)
        assert stores.controller.finder.due_tenants("run_leases") == []

    def test_leases_of_two_tenants_are_renewed_together(self, stores: Stores) -> None:
        stores.queued()
        stores.queued(tenant_id=B_TENANT)
        both = [stores.worker.finder.lease_run(f"worker-{n}") for n in range(2)]
        answers = stores.worker.finder.renew([held(one) for one in both if one is not None])
        assert [one.current for one in answers.values()] == [True, True]
        assert stores.worker.finder.renew([]) == {}

    def test_an_expired_lease_is_listed_and_still_counts_until_reclaimed(
        self, stores: Stores
    ) -> None:
        run, leased = stores.leased()
        stores.pass_time(PAST_RECLAIM)
        assert stores.controller.finder.due_tenants("run_leases") == [(A_TENANT, 1)]
        with stores.controller.unit.begin(A_TENANT) as tx:
            assert [one.run_id for one in tx.leases.expired(10)] == [run.run_id]
        with stores.worker.unit.begin(A_TENANT) as tx:
            assert tx.leases.is_current(run.run_id, leased.lease_epoch)

    def test_within_the_grace_nobody_takes_a_lease_away(self, stores: Stores) -> None:
        stores.leased()
        stores.pass_time(TTL + timedelta(seconds=2))
        assert stores.controller.finder.due_tenants("run_leases") == []
        with stores.controller.unit.begin(A_TENANT) as tx:
            assert tx.leases.expired(10) == []

    def test_the_deadline_is_not_extended_by_a_retry(self, stores: Stores) -> None:
        run, _ = stores.leased()
        before = stores.stored(run.run_id)
        released(stores, run, consume=True)
        stores.worker.finder.lease_run("worker-2")
        after = stores.stored(run.run_id)
        assert (after.deadline_at, after.started_at) == (before.deadline_at, before.started_at)

    def test_a_drain_consumes_no_attempt(self, stores: Stores) -> None:
        run, _ = stores.leased()
        with stores.worker.unit.begin(A_TENANT) as tx:
            tx.runs.for_update(run.run_id)
            tx.leases.release(run.run_id, due_at=tx.now, consume=False)
        lease = lease_of(stores, run.run_id)
        again = stores.worker.finder.lease_run("worker-2")
        assert lease is not None
        assert again is not None
        assert (lease.attempt, lease.releases, again.attempt) == (0, 1, 1)

    def test_an_ended_lease_fences_its_holder(self, stores: Stores) -> None:
        run, leased = stores.leased()
        for _ in range(2):
            with stores.worker.unit.begin(A_TENANT) as tx:
                tx.leases.end(run.run_id)
        assert lease_of(stores, run.run_id) is None
        assert not stores.worker.finder.renew([held(leased)])[run.run_id].current

    def test_only_its_holder_ends_a_lease_that_is_taken(self, stores: Stores) -> None:
        run, first = stores.leased()
        released(stores, run, consume=True)
        again = stores.worker.finder.lease_run("worker-2")
        assert again is not None
        waiting = stores.queued()
        with stores.worker.unit.begin(A_TENANT) as tx:
            assert not tx.leases.end_current(run.run_id, first.lease_epoch)
            assert not tx.leases.end_current(waiting.run_id, 0), "it has no holder"
            assert tx.leases.is_current(run.run_id, again.lease_epoch)
        with stores.worker.unit.begin(A_TENANT) as tx:
            assert tx.leases.end_current(run.run_id, again.lease_epoch)
            assert not tx.leases.end_current(run.run_id, again.lease_epoch)
        assert lease_of(stores, run.run_id) is None
        assert lease_of(stores, waiting.run_id) is not None

    def test_a_fence_ends_the_right_and_offers_the_run_to_nobody(self, stores: Stores) -> None:
        run, leased = stores.leased()
        with stores.controller.unit.begin(A_TENANT) as tx:
            tx.leases.fence(run.run_id)
        assert not stores.worker.finder.renew([held(leased)])[run.run_id].current
        assert stores.worker.finder.lease_run("worker-2") is None
        assert lease_of(stores, run.run_id) is not None

    def test_releasing_or_fencing_nothing_is_nothing(self, stores: Stores) -> None:
        run = stores.triggered()
        with stores.controller.unit.begin(A_TENANT) as tx:
            tx.leases.release(run.run_id, due_at=tx.now, consume=True)
            tx.leases.fence(run.run_id)
            assert tx.leases.get(run.run_id) is None


class WorkFinderConformance:
    def test_due_runs_of_all_tenants_are_claimed_once(self, stores: Stores) -> None:
        one, other = stores.triggered(), stores.triggered(tenant_id=B_TENANT)
        claimed = stores.controller.finder.claim_runs(50)
        assert sorted(claimed) == [(A_TENANT, one.run_id), (B_TENANT, other.run_id)]
        assert stores.controller.finder.claim_runs(50) == []

    def test_a_claimed_run_is_due_again_when_nobody_acted(self, stores: Stores) -> None:
        run = stores.triggered()
        stores.controller.finder.claim_runs(50)
        stores.pass_time(timedelta(seconds=31))
        assert stores.controller.finder.claim_runs(50) == [(A_TENANT, run.run_id)]

    def test_no_more_runs_are_claimed_than_requested(self, stores: Stores) -> None:
        for _ in range(3):
            stores.triggered()
        assert [len(stores.controller.finder.claim_runs(2)) for _ in range(3)] == [2, 1, 0]

    def test_a_due_timer_is_claimed_once_and_again_when_nobody_acted(self, stores: Stores) -> None:
        run = stores.triggered()
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.timers.put(run.run_id, "submit", tx.now + timedelta(minutes=10))
        assert stores.controller.finder.due_timers(100) == []
        stores.pass_time(timedelta(minutes=11))
        due = [(A_TENANT, run.run_id, "submit")]
        assert stores.controller.finder.due_timers(100) == due
        assert stores.controller.finder.due_timers(100) == []
        stores.pass_time(timedelta(seconds=31))
        assert stores.controller.finder.due_timers(100) == due

    def test_a_moved_timer_is_due_at_its_new_time(self, stores: Stores) -> None:
        run = stores.triggered()
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.timers.put(run.run_id, "submit", tx.now - timedelta(minutes=1))
            tx.timers.put(run.run_id, "submit", tx.now + timedelta(minutes=1))
            assert not tx.timers.due(run.run_id, "submit")
        assert stores.controller.finder.due_timers(100) == []

    def test_dropped_timers_are_gone(self, stores: Stores) -> None:
        run = stores.triggered()
        with stores.controller.unit.begin(A_TENANT) as tx:
            for reason in ("submit", "observe", "deadline"):
                tx.timers.put(run.run_id, reason, tx.now - timedelta(seconds=1))
            tx.timers.drop(run.run_id, "submit")
            assert not tx.timers.due(run.run_id, "submit")
            assert tx.timers.due(run.run_id, "observe")
            tx.timers.drop(run.run_id)
            assert not tx.timers.due(run.run_id, "observe")
        assert stores.controller.finder.due_timers(100) == []

    def test_the_run_feed_is_read_in_order_from_a_cursor(self, stores: Stores) -> None:
        first = stores.triggered()
        second = stores.triggered(tenant_id=B_TENANT)
        everything = stores.api.finder.feed_after("run", 0, 100)
        assert [tenant for tenant, _ in everything] == [A_TENANT, B_TENANT]
        assert everything == sorted(everything, key=lambda item: item[1])
        cursor = everything[0][1]
        assert stores.api.finder.feed_after("run", cursor, 100) == everything[1:]
        assert stores.api.finder.feed_after("run", 0, 1) == everything[:1]
        lines = stores.queries.run_events(A_TENANT, first.run_id, after=0, limit=9)
        assert lines[0].rv == cursor
        assert stores.queries.run_events(A_TENANT, second.run_id, after=0, limit=9) == []

    def test_a_key_is_resolved_before_a_tenant_is_known(self, stores: Stores) -> None:
        key = an_api_key(tenant_id=B_TENANT)
        with stores.api.unit.begin(B_TENANT) as tx:
            tx.api_keys.add(key)
        assert stores.api.finder.resolve_api_key(key.key_id) == key
        assert stores.api.finder.resolve_api_key("nobodyskey22") is None
