"""What the leases of sink tasks do, and what their processes store: claims, counters, events."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from datarecs_application.ports.sink_leases import ENDS, SinkLease, SinkLeases
from datarecs_application.ports.sinking import SinkMemory
from datarecs_core.errors.captures import LeaseLostError
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    PartitionState,
    TaskReport,
    TaskWish,
)
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.decisions import ReplacedTable, TableDecision, WaitingRecords
from datarecs_core.sink.declared import SinkStatus, SinkWish
from datarecs_core.values import ResourceUid, TenantId
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.conformance.resources import stored
from datarecs_testing.conformance.sink_memory import (
    NOON,
    ORDERS,
    SinkMemoryConformance,
    checkpoint,
    cycle,
    snapshot,
)
from datarecs_testing.conformance.stores import Stores

SESSION = UUID(int=1)


def wanted(
    stores: Stores,
    *,
    tasks: int = 1,
    tenant_id: TenantId = A_TENANT,
    revision: str = "1",
    uid: ResourceUid | None = None,
) -> ResourceUid:
    """A sink that shall run."""
    if uid is None:
        uid = stored(stores, kind=Kind.SINK_TABLE, tenant_id=tenant_id).uid
    with stores.resources.unit.begin(tenant_id) as tx:
        tx.sinks.want(uid, SinkWish(tasks=tasks, wish=TaskWish.RUN, revision=revision))
    return uid


def pause(stores: Stores, uid: ResourceUid) -> None:
    with stores.resources.unit.begin(A_TENANT) as tx:
        tx.sinks.want(uid, SinkWish(tasks=1, wish=TaskWish.PAUSE, revision="1"))


def status(stores: Stores, uid: ResourceUid) -> SinkStatus:
    with stores.resources.unit.begin(A_TENANT, read_only=True) as tx:
        return tx.sinks.status(uid)


class SinkLeasesConformance:
    """Fixtures `stores` and `leases` over the same store."""

    def test_a_task_is_held_by_one_process(self, stores: Stores, leases: SinkLeases) -> None:
        uid = wanted(stores, tasks=2)
        first = leases.claim("w-1", limit=1)
        second = leases.claim("w-2", limit=4)
        held = [(one.sink_uid, one.number) for one in (*first, *second)]
        assert held == [(uid, 0), (uid, 1)]
        assert leases.claim("w-3", limit=4) == []

    def test_tenants_with_fewer_running_tasks_come_first(
        self, stores: Stores, leases: SinkLeases
    ) -> None:
        wanted(stores, tasks=6)
        leases.claim("w", limit=2)
        wanted(stores, tasks=2, tenant_id=B_TENANT)
        owners = [one.tenant_id for one in leases.claim("w", limit=3)]
        assert owners == [B_TENANT, B_TENANT, A_TENANT]

    def test_an_expired_lease_is_claimed_again_and_the_old_one_is_refused(
        self, stores: Stores, leases: SinkLeases
    ) -> None:
        wanted(stores)
        (old,) = leases.claim("w-1", limit=1)
        stores.pass_time(timedelta(seconds=31))
        (new,) = leases.claim("w-2", limit=1)
        assert new.epoch > old.epoch
        assert leases.renew([old, new]) == {new: "1"}
        stale = leases.memory(old, SESSION)
        for call in (
            stale.state,
            stale.begin_epoch,
            stale.drained,
            lambda: stale.report(TaskReport()),
            lambda: stale.committed(cycle(1, offset=5)),
            lambda: stale.committed_table(snapshot(1)),
        ):
            with pytest.raises(LeaseLostError):
                call()
        leases.release(old)
        assert leases.renew([new]) == {new: "1"}

    def test_a_released_task_is_claimed_at_once(self, stores: Stores, leases: SinkLeases) -> None:
        wanted(stores)
        (lease,) = leases.claim("w", limit=1)
        leases.release(lease)
        with pytest.raises(LeaseLostError):
            leases.memory(lease, SESSION).state()
        assert len(leases.claim("w", limit=1)) == 1

    def test_a_resting_task_is_claimed_once_its_sink_does_not_pause(
        self, stores: Stores, leases: SinkLeases
    ) -> None:
        uid = wanted(stores)
        pause(stores, uid)
        (lease,) = leases.claim("w", limit=1)
        leases.release(lease, is_resting=True)
        assert leases.claim("w", limit=1) == []
        assert [one.is_resting for one in status(stores, uid).tasks] == [True]
        wanted(stores, uid=uid)
        assert [one.is_resting for one in status(stores, uid).tasks] == [False]
        (again,) = leases.claim("w", limit=1)
        pause(stores, uid)
        leases.release(again)
        assert len(leases.claim("w", limit=1)) == 1

    def test_a_sink_that_goes_on_before_its_task_rests_is_claimed(
        self, stores: Stores, leases: SinkLeases
    ) -> None:
        uid = wanted(stores)
        pause(stores, uid)
        (lease,) = leases.claim("w", limit=1)
        wanted(stores, uid=uid)
        leases.release(lease, is_resting=True)
        assert len(leases.claim("w", limit=1)) == 1

    def test_halted_tasks_of_all_tenants_are_counted_until_they_are_retried(
        self, stores: Stores, leases: SinkLeases
    ) -> None:
        uid = wanted(stores)
        wanted(stores, tenant_id=B_TENANT)
        assert leases.halted() == 0
        for lease in leases.claim("w", limit=2):
            leases.memory(lease, SESSION).report(TaskReport(is_halted=True))
            leases.release(lease)
        assert leases.halted() == 2
        self._retry(stores, uid)
        assert leases.halted() == 1

    def test_a_task_that_is_not_wished_any_more_is_lost(
        self, stores: Stores, leases: SinkLeases
    ) -> None:
        uid = wanted(stores, tasks=2)
        first, second = leases.claim("w", limit=2)
        wanted(stores, tasks=1, uid=uid, revision="2")
        assert leases.renew([first, second]) == {first: "2"}

    def test_a_task_that_comes_back_is_not_held_by_its_former_process(
        self, stores: Stores, leases: SinkLeases
    ) -> None:
        uid = wanted(stores)
        (old,) = leases.claim("w-1", limit=1)
        wanted(stores, tasks=0, uid=uid)
        wanted(stores, tasks=1, uid=uid)
        (new,) = leases.claim("w-2", limit=1)
        assert leases.renew([old, new]) == {new: "1"}

    def test_a_halted_task_waits_for_retry_or_for_another_declaration(
        self, stores: Stores, leases: SinkLeases
    ) -> None:
        uid = wanted(stores)
        for begin_again in (self._retry, self._declare_again):
            (lease,) = leases.claim("w", limit=1)
            held = leases.memory(lease, SESSION)
            held.report(TaskReport(is_halted=True, error_code="DR7016", error="at offset 3"))
            leases.release(lease)
            assert leases.claim("w", limit=1) == []
            wanted(stores, uid=uid)
            assert leases.claim("w", limit=1) == []
            (task,) = status(stores, uid).tasks
            assert task.report is not None
            assert task.report.error == "at offset 3"
            begin_again(stores, uid)
            (task,) = status(stores, uid).tasks
            assert task.report is None

    def test_a_retry_ends_a_halted_process_that_still_runs(
        self, stores: Stores, leases: SinkLeases
    ) -> None:
        uid = wanted(stores, tasks=2)
        halted, other = leases.claim("w", limit=2)
        leases.memory(halted, SESSION).report(TaskReport(is_halted=True))
        assert leases.renew([halted, other]) == {halted: "1", other: "1"}
        self._retry(stores, uid)
        assert leases.renew([halted, other]) == {halted: ENDS, other: "1"}
        assert leases.claim("w", limit=2) == []
        leases.release(halted)
        (again,) = leases.claim("w", limit=2)
        assert again.number == halted.number
        assert leases.renew([again]) == {again: "1"}

    def test_a_process_that_ends_after_a_retry_does_not_halt_the_task_again(
        self, stores: Stores, leases: SinkLeases
    ) -> None:
        uid = wanted(stores)
        (lease,) = leases.claim("w", limit=1)
        memory = leases.memory(lease, SESSION)
        memory.report(TaskReport(is_halted=True))
        self._retry(stores, uid)
        memory.report(TaskReport(is_halted=True, dead_letters=2))
        after = status(stores, uid)
        assert after.tasks[0].report is None
        assert after.dead_letters == 2
        leases.release(lease)
        assert len(leases.claim("w", limit=1)) == 1

    @staticmethod
    def _retry(stores: Stores, uid: ResourceUid) -> None:
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.sinks.retry(uid)

    @staticmethod
    def _declare_again(stores: Stores, uid: ResourceUid) -> None:
        wanted(stores, uid=uid, revision="2")

    def test_a_lease_of_one_tenant_reaches_no_sink_of_another(
        self, stores: Stores, leases: SinkLeases
    ) -> None:
        wanted(stores)
        (lease,) = leases.claim("w", limit=1)
        forged = SinkLease(tenant_id=B_TENANT, sink_uid=lease.sink_uid, number=0, epoch=lease.epoch)
        with pytest.raises(LeaseLostError):
            leases.memory(forged, SESSION).state()
        assert leases.renew([forged]) == {}


class StoredSinkMemoryConformance(SinkMemoryConformance):
    """Fixtures `stores` and `leases` over the same store."""

    @pytest.fixture
    def lease(self, stores: Stores, leases: SinkLeases) -> SinkLease:
        wanted(stores)
        (lease,) = leases.claim("w", limit=1)
        return lease

    @pytest.fixture
    def memory(self, leases: SinkLeases, lease: SinkLease) -> SinkMemory:
        return leases.memory(lease, SESSION)

    @pytest.mark.case("I66")
    def test_a_snapshot_is_stored_once_with_one_event(
        self, memory: SinkMemory, lease: SinkLease, stores: Stores
    ) -> None:
        for _ in range(3):
            memory.committed_table(snapshot(1))
        memory.committed_table(snapshot(2))
        events = [row for row in stores.unsent() if row.topic == "datarecs.sink"]
        assert [row.type for row in events] == ["io.datarecs.sink.table.committed"] * 2
        assert {row.partition_key for row in events} == {str(lease.sink_uid)}
        assert b'"valid_through":"2026-11-20T12:00:00.000000Z"' in events[0].data

    @pytest.mark.case("I66")
    def test_a_snapshot_that_is_stored_after_a_newer_one_has_its_event_and_is_not_the_newest(
        self, memory: SinkMemory, lease: SinkLease, stores: Stores
    ) -> None:
        newer, late = replace(snapshot(2, commit=2), control_offset=9), snapshot(1)
        for one in (newer, late, newer, late):
            memory.committed_table(one)
        memory.committed(cycle(2, offset=9))
        events = [row.data for row in stores.unsent() if row.type.endswith("table.committed")]
        assert len(events) == 2
        assert str(newer.snapshot_id).encode() in events[0]
        assert str(late.snapshot_id).encode() in events[1]
        with stores.api.unit.begin(A_TENANT) as tx:
            (record,) = tx.sinks.commits(lease.sink_uid, limit=10)
            assert list(tx.sinks.newest_commits(lease.sink_uid)) == [newer]
        assert record.snapshots == (newer,)
        assert status(stores, lease.sink_uid).last_written == replace(record, snapshots=())

    @pytest.mark.case("I66")
    def test_a_cycle_is_stored_once_with_one_event(
        self, memory: SinkMemory, lease: SinkLease, stores: Stores
    ) -> None:
        memory.committed_table(snapshot(1))
        for _ in range(2):
            memory.committed(cycle(1, offset=5))
        assert memory.state().checkpoint == checkpoint(5)
        types = [row.type for row in stores.unsent() if row.topic == "datarecs.sink"]
        assert types == ["io.datarecs.sink.table.committed", "io.datarecs.sink.commit.completed"]
        with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            (record,) = tx.sinks.commits(lease.sink_uid, limit=10)
        assert record.snapshots == (snapshot(1),)
        last = status(stores, lease.sink_uid).last_commit
        assert last == replace(record, snapshots=())
        memory.committed(cycle(2, offset=6))
        seen = status(stores, lease.sink_uid)
        assert seen.last_written == last
        assert seen.last_commit is not None
        assert seen.last_commit.commit_id == UUID(int=2)

    def test_commits_are_read_in_pages_newest_first(
        self, memory: SinkMemory, lease: SinkLease, stores: Stores
    ) -> None:
        for number in range(5):
            memory.committed(cycle(number, offset=number))
        with stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            uid = lease.sink_uid
            first = tx.sinks.commits(uid, limit=3)
            last = first[-1]
            rest = tx.sinks.commits(uid, limit=3, before=(last.completed_at, last.commit_id))
        assert [one.commit_id.int for one in (*first, *rest)] == [4, 3, 2, 1, 0]

    def test_dead_letters_are_counted_over_the_sessions(
        self, memory: SinkMemory, lease: SinkLease, leases: SinkLeases, stores: Stores
    ) -> None:
        uid = lease.sink_uid
        for letters in (2, 2, 5):
            memory.report(TaskReport(dead_letters=letters))
            wanted(stores, uid=uid, revision=str(letters))
        assert status(stores, uid).fenced_at is None
        later = leases.memory(lease, UUID(int=2))
        later.report(TaskReport(dead_letters=1, fenced=1))
        seen = status(stores, uid)
        assert seen.dead_letters == 6
        assert seen.fenced_at is not None
        assert seen.tasks[0].is_held
        assert seen.tasks[0].report == TaskReport(dead_letters=1, fenced=1)

    def test_a_drained_sink_has_no_tasks_to_claim(
        self, memory: SinkMemory, lease: SinkLease, leases: SinkLeases
    ) -> None:
        memory.drained()
        assert memory.state().is_drained
        leases.release(lease)
        assert leases.claim("w", limit=1) == []

    def test_a_commit_is_requested(
        self, memory: SinkMemory, lease: SinkLease, stores: Stores
    ) -> None:
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.sinks.request_commit(lease.sink_uid)
            assert not tx.sinks.request_commit(ResourceUid(UUID(int=99)))
            assert not tx.sinks.retry(ResourceUid(UUID(int=99)))
            assert not tx.sinks.reset(ResourceUid(UUID(int=99)), {}, {})
        assert memory.state().commit_requests == 1

    def test_the_newest_snapshots_are_those_since_the_last_reset(
        self, memory: SinkMemory, lease: SinkLease, leases: SinkLeases, stores: Stores
    ) -> None:
        uid = lease.sink_uid
        for one in (snapshot(1), replace(snapshot(2), control_offset=9), snapshot(3)):
            memory.committed_table(one)
        other = replace(snapshot(4).table, name="other", uuid=UUID(int=8))
        memory.committed_table(replace(snapshot(4), table=other))
        with stores.api.unit.begin(A_TENANT) as tx:
            newest = tx.sinks.newest_commits(uid)
            assert {(one.table.name, one.snapshot_id - 2**62) for one in newest} == {
                ("orders", 2),
                ("other", 4),
            }
            assert tx.sinks.reset(uid, {}, {})
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.sinks.newest_commits(uid) == []
        (again,) = leases.claim("w", limit=1)
        leases.memory(again, SESSION).committed_table(snapshot(5))
        with stores.api.unit.begin(A_TENANT) as tx:
            assert list(tx.sinks.newest_commits(uid)) == [snapshot(5)]

    def test_a_decision_is_stored_and_ends_every_lease(
        self, memory: SinkMemory, lease: SinkLease, leases: SinkLeases, stores: Stores
    ) -> None:
        memory.committed(cycle(1, offset=5))
        decision = TableDecision(
            catalog="lake", namespace=("sales",), name="orders", records=WaitingRecords.COMMIT
        )
        lost = ReplacedTable(uuid=UUID(int=1), into=UUID(int=2), since=3)
        decided = replace(checkpoint(5), decision=decision, replaced=(lost,), first_offset=2)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.sinks.decide(lease.sink_uid, decided)
            assert not tx.sinks.decide(ResourceUid(UUID(int=99)), decided)
            assert tx.sinks.newest_commits(ResourceUid(UUID(int=99))) in ([], ())
        with pytest.raises(LeaseLostError):
            memory.committed(cycle(2, offset=6))
        (again,) = leases.claim("w", limit=1)
        state = leases.memory(again, SESSION).state()
        assert (state.checkpoint, state.epoch) == (decided, 1)

    def test_a_reset_moves_positions_and_ends_every_lease(
        self, memory: SinkMemory, lease: SinkLease, leases: SinkLeases, stores: Stores
    ) -> None:
        memory.committed(cycle(1, offset=5))
        memory.begin_epoch()
        other = SourcePartition("orders", 1)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.sinks.reset(lease.sink_uid, {ORDERS: 3, other: 8}, {ORDERS: 5})
        with pytest.raises(LeaseLostError):
            memory.committed(cycle(2, offset=9))
        with pytest.raises(LeaseLostError):
            memory.report(TaskReport(is_halted=True, error_code="SOURCE_GAP"))
        assert [one.report for one in status(stores, lease.sink_uid).tasks] == [None]
        (lease,) = leases.claim("w", limit=1)
        state = leases.memory(lease, SESSION).state()
        assert state.epoch == 2
        assert state.checkpoint == Checkpoint(
            control_offset=0,
            partitions={
                ORDERS: PartitionState(accepted=3, largest=NOON, held=5),
                other: PartitionState(accepted=8),
            },
            valid_through=NOON,
            reset_at=state.checkpoint.reset_at,
        )
