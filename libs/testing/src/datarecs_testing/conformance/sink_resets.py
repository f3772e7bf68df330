"""What stays of a sink's reports when its tasks begin again: the ends of partitions."""

from collections.abc import Callable
from uuid import UUID

import pytest

from datarecs_application.ports.sink_leases import SinkLease, SinkLeases
from datarecs_application.ports.sink_tasks import SinkTasks
from datarecs_core.errors.sink import SinkCode
from datarecs_core.sink.checkpoint import PartitionState, TaskReport
from datarecs_core.values import ResourceUid
from datarecs_testing.builders import A_TENANT
from datarecs_testing.conformance.sink_leases import SESSION, pause, status, wanted
from datarecs_testing.conformance.sink_memory import ORDERS, checkpoint, cycle
from datarecs_testing.conformance.stores import Stores

LATER = UUID(int=2)
SEEN = TaskReport(ends={ORDERS: 9})
HALTED = TaskReport(
    positions={ORDERS: 12},
    ends={ORDERS: 9},
    dead_letters=1,
    error_code=SinkCode.SOURCE_GAP.name,
    error="orders 0 ends at 9",
    is_halted=True,
)
Verb = Callable[[SinkTasks, ResourceUid], bool]


def reset(sinks: SinkTasks, uid: ResourceUid) -> bool:
    return sinks.reset(uid, {ORDERS: 3}, {ORDERS: 5})


def accept_table(sinks: SinkTasks, uid: ResourceUid) -> bool:
    return sinks.decide(uid, checkpoint(5))


def retry(sinks: SinkTasks, uid: ResourceUid) -> bool:
    return sinks.retry(uid)


class SinkResetsConformance:
    """Fixtures `stores` and `leases` over the same store."""

    @pytest.fixture
    def lease(self, stores: Stores, leases: SinkLeases) -> SinkLease:
        """Of a task that has committed up to position 5 and is halted."""
        wanted(stores)
        (lease,) = leases.claim("w", limit=1)
        memory = leases.memory(lease, SESSION)
        memory.committed(cycle(1, offset=5))
        memory.report(HALTED)
        return lease

    @pytest.mark.parametrize(
        "verbs",
        [(reset,), (reset, reset), (accept_table, reset), (accept_table,), (retry,)],
        ids=["reset", "two resets", "reset after accept-table", "accept-table", "retry"],
    )
    def test_the_ends_of_partitions_stay_known_and_nothing_else_does(
        self, stores: Stores, leases: SinkLeases, lease: SinkLease, verbs: tuple[Verb, ...]
    ) -> None:
        uid = lease.sink_uid
        for verb in verbs:
            with stores.api.unit.begin(A_TENANT) as tx:
                assert verb(tx.sinks, uid)
            assert [one.report for one in status(stores, uid).tasks] == [SEEN]
        leases.release(lease)
        (again,) = leases.claim("w", limit=1)
        memory = leases.memory(again, LATER)
        fault = TaskReport(error_code=SinkCode.BROKER_TIMEOUT.name)
        memory.report(fault)
        (task,) = status(stores, uid).tasks
        assert task.report == TaskReport(ends=SEEN.ends, error_code=fault.error_code)
        memory.report(TaskReport(ends={ORDERS: 11}))
        (task,) = status(stores, uid).tasks
        assert task.report == TaskReport(ends={ORDERS: 11})

    def test_the_ends_of_a_topic_that_was_created_again_are_unknown(
        self, stores: Stores, leases: SinkLeases, lease: SinkLease
    ) -> None:
        other = TaskReport(error_code=SinkCode.LINEAGE_MISMATCH.name, is_halted=True)
        leases.memory(lease, SESSION).report(other)
        assert [one.report for one in status(stores, lease.sink_uid).tasks] == [other]
        with stores.api.unit.begin(A_TENANT) as tx:
            assert reset(tx.sinks, lease.sink_uid)
        assert [one.report for one in status(stores, lease.sink_uid).tasks] == [None]

    def test_another_declaration_may_have_other_topics(
        self, stores: Stores, lease: SinkLease
    ) -> None:
        wanted(stores, uid=lease.sink_uid, revision="2")
        assert [one.report for one in status(stores, lease.sink_uid).tasks] == [None]

    def test_a_reset_of_a_paused_sink_starts_no_task(
        self, stores: Stores, leases: SinkLeases, lease: SinkLease
    ) -> None:
        uid = lease.sink_uid
        leases.memory(lease, SESSION).report(SEEN)
        pause(stores, uid)
        leases.release(lease, is_resting=True)
        with stores.api.unit.begin(A_TENANT) as tx:
            assert reset(tx.sinks, uid)
        (task,) = status(stores, uid).tasks
        assert (task.is_resting, task.report) == (True, SEEN)
        assert leases.claim("w", limit=1) == []
        wanted(stores, uid=uid)
        (again,) = leases.claim("w", limit=1)
        state = leases.memory(again, LATER).state().checkpoint.partitions[ORDERS]
        assert (state.accepted, state.held) == (3, 5)

    def test_a_reset_begins_a_halted_task_again(
        self, stores: Stores, leases: SinkLeases, lease: SinkLease
    ) -> None:
        leases.release(lease)
        assert leases.claim("w", limit=1) == []
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.sinks.reset(lease.sink_uid, {ORDERS: 5}, {ORDERS: 5})
        (again,) = leases.claim("w", limit=1)
        state = leases.memory(again, LATER).state().checkpoint.partitions[ORDERS]
        assert state == PartitionState(accepted=5, largest=state.largest)
