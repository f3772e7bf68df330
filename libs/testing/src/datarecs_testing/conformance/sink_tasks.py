"""What every store of declared sinks does: wishes, verbs, and the rows that go with a sink."""

from uuid import UUID

import pytest

from datarecs_core.resources.resource import Kind
from datarecs_core.sink.checkpoint import Checkpoint, PartitionState, SinkState, TaskWish
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.declared import SinkStatus, SinkWish, TaskStatus
from datarecs_core.values import ResourceUid
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.conformance.resources import stored
from datarecs_testing.conformance.stores import Stores

UNKNOWN = ResourceUid(UUID(int=99))
ORDERS, OTHER = SourcePartition("orders", 0), SourcePartition("orders", 1)


def wish(tasks: int, *, revision: str = "1", what: TaskWish = TaskWish.RUN) -> SinkWish:
    return SinkWish(tasks=tasks, wish=what, revision=revision)


def want(stores: Stores, uid: ResourceUid, wished: SinkWish) -> None:
    with stores.resources.unit.begin(A_TENANT) as tx:
        tx.sinks.want(uid, wished)


def status(stores: Stores, uid: ResourceUid) -> SinkStatus:
    with stores.resources.unit.begin(A_TENANT, read_only=True) as tx:
        return tx.sinks.status(uid)


class SinkTasksConformance:
    @pytest.fixture
    def uid(self, stores: Stores) -> ResourceUid:
        return stored(stores, kind=Kind.SINK_TABLE).uid

    def test_a_wish_is_returned_with_a_task_for_each_number(
        self, stores: Stores, uid: ResourceUid
    ) -> None:
        want(stores, uid, wish(2))
        assert status(stores, uid) == SinkStatus(
            wished=wish(2),
            tasks=tuple(TaskStatus(number=number, is_held=False) for number in range(2)),
        )

    def test_the_last_wish_counts(self, stores: Stores, uid: ResourceUid) -> None:
        want(stores, uid, wish(3))
        for wished in (wish(1, revision="2", what=TaskWish.PAUSE), wish(0), wish(2)):
            want(stores, uid, wished)
            seen = status(stores, uid)
            assert seen.wished == wished
            assert [one.number for one in seen.tasks] == list(range(wished.tasks))
            assert seen.state == SinkState(wish=wished.wish)

    def test_what_was_never_wanted_has_no_status_and_no_verbs(self, stores: Stores) -> None:
        assert status(stores, UNKNOWN) == SinkStatus()
        with stores.api.unit.begin(A_TENANT) as tx:
            assert not tx.sinks.request_commit(UNKNOWN)
            assert not tx.sinks.retry(UNKNOWN)
            assert not tx.sinks.reset(UNKNOWN, {ORDERS: 1}, {})
            assert tx.sinks.commits(UNKNOWN, limit=10) == []
        with stores.resources.unit.begin(A_TENANT) as tx:
            tx.sinks.remove(UNKNOWN)

    def test_each_request_of_a_commit_is_counted(self, stores: Stores, uid: ResourceUid) -> None:
        want(stores, uid, wish(1))
        for _ in range(2):
            with stores.api.unit.begin(A_TENANT) as tx:
                assert tx.sinks.request_commit(uid)
        want(stores, uid, wish(1, revision="2"))
        assert status(stores, uid).state.commit_requests == 2

    def test_a_reset_sets_the_named_positions(self, stores: Stores, uid: ResourceUid) -> None:
        want(stores, uid, wish(1))
        for positions in ({ORDERS: 5}, {OTHER: 7}):
            with stores.api.unit.begin(A_TENANT) as tx:
                assert tx.sinks.reset(uid, positions, {})
        state = status(stores, uid).state
        assert state.epoch == 2
        assert state.checkpoint.reset_at is not None
        assert state.checkpoint == Checkpoint(
            partitions={ORDERS: PartitionState(accepted=5), OTHER: PartitionState(accepted=7)},
            reset_at=state.checkpoint.reset_at,
        )

    def test_a_removed_sink_was_never_wanted(self, stores: Stores, uid: ResourceUid) -> None:
        want(stores, uid, wish(1))
        with stores.resources.unit.begin(A_TENANT) as tx:
            tx.sinks.remove(uid)
        assert status(stores, uid) == SinkStatus()

    def test_another_tenant_sees_and_changes_nothing(
        self, stores: Stores, uid: ResourceUid
    ) -> None:
        want(stores, uid, wish(1))
        with stores.api.unit.begin(B_TENANT) as tx:
            assert tx.sinks.status(uid) == SinkStatus()
            assert not tx.sinks.request_commit(uid)
        with stores.resources.unit.begin(B_TENANT) as tx:
            tx.sinks.remove(uid)
        assert status(stores, uid).wished == wish(1)
