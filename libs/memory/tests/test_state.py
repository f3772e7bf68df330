"""The twin of the database against the suites of the state ports, and what it alone has."""

import threading

import pytest

from datarecs_application.ports.state import Transaction
from datarecs_core.access.audit import first_broken
from datarecs_memory.sink_leases import MemorySinkLeases
from datarecs_memory.store import MemoryStore
from datarecs_testing.builders import A_TENANT, B_TENANT, a_run
from datarecs_testing.conformance.access import (
    ApiKeysConformance,
    AuditConformance,
    IdempotencyKeysConformance,
)
from datarecs_testing.conformance.change_feed import (
    ChangeFeedConformance,
    ResourceFeedConformance,
)
from datarecs_testing.conformance.checks import ChecksConformance
from datarecs_testing.conformance.event_archive import EventArchiveConformance
from datarecs_testing.conformance.isolation import IsolationConformance
from datarecs_testing.conformance.leases import RunLeasesConformance, WorkFinderConformance
from datarecs_testing.conformance.outbox import (
    InboxConformance,
    OutboxConformance,
    OutboxReaderConformance,
)
from datarecs_testing.conformance.pointers import PointersConformance
from datarecs_testing.conformance.quotas import QuotasConformance
from datarecs_testing.conformance.resource_work import ResourceWorkConformance
from datarecs_testing.conformance.resources import (
    ResourcesConformance,
    SealedSecretsConformance,
)
from datarecs_testing.conformance.retention import RetentionConformance
from datarecs_testing.conformance.runs import QueriesConformance, RunsConformance
from datarecs_testing.conformance.schedules import SchedulesConformance
from datarecs_testing.conformance.sink_leases import (
    SinkLeasesConformance,
    StoredSinkMemoryConformance,
)
from datarecs_testing.conformance.sink_resets import SinkResetsConformance
from datarecs_testing.conformance.sink_tasks import SinkTasksConformance
from datarecs_testing.conformance.stores import Stores, carry_out
from datarecs_testing.conformance.tickets import SocketTicketsConformance
from datarecs_testing.conformance.unit_of_work import UnitOfWorkConformance


class TestUnitOfWork(UnitOfWorkConformance):
    pass


class TestRuns(RunsConformance):
    pass


class TestQueries(QueriesConformance):
    pass


class TestChangeFeed(ChangeFeedConformance):
    pass


class TestResourceFeed(ResourceFeedConformance):
    pass


class TestSinkTasks(SinkTasksConformance):
    pass


@pytest.fixture
def leases(store: MemoryStore) -> MemorySinkLeases:
    return MemorySinkLeases(store)


class TestSinkLeases(SinkLeasesConformance):
    pass


class TestSinkMemory(StoredSinkMemoryConformance):
    pass


class TestSinkResets(SinkResetsConformance):
    pass


class TestSocketTickets(SocketTicketsConformance):
    pass


class TestRunLeases(RunLeasesConformance):
    pass


class TestWorkFinder(WorkFinderConformance):
    pass


class TestOutbox(OutboxConformance):
    pass


class TestOutboxReader(OutboxReaderConformance):
    pass


class TestInbox(InboxConformance):
    pass


class TestEventArchive(EventArchiveConformance):
    pass


class TestResources(ResourcesConformance):
    pass


class TestSealedSecrets(SealedSecretsConformance):
    pass


class TestPointers(PointersConformance):
    pass


class TestQuotas(QuotasConformance):
    pass


class TestChecks(ChecksConformance):
    pass


class TestResourceWork(ResourceWorkConformance):
    pass


class TestSchedules(SchedulesConformance):
    pass


class TestRetention(RetentionConformance):
    pass


class TestIdempotencyKeys(IdempotencyKeysConformance):
    pass


class TestApiKeys(ApiKeysConformance):
    pass


class TestAudit(AuditConformance):
    def test_the_chain_is_sound(self, stores: Stores, store: MemoryStore) -> None:
        self.test_deeds_are_chained(stores)
        chain = store.committed(A_TENANT).audit
        assert len(chain) == 3
        assert first_broken(chain) is None


class TestIsolation(IsolationConformance):
    pass


class TestMemoryStore:
    def test_a_second_transaction_of_one_thread_is_refused_instead_of_waiting_for_ever(
        self, stores: Stores
    ) -> None:
        unit = stores.api.unit
        with unit.begin(A_TENANT), pytest.raises(RuntimeError, match="end it first"):
            carry_out(unit, B_TENANT, lambda tx: tx.wake())

    def test_a_transaction_of_another_thread_waits_for_its_turn(self, stores: Stores) -> None:
        run, done = a_run(), threading.Event()

        def add() -> None:
            carry_out(stores.api.unit, A_TENANT, lambda tx: tx.runs.add(run))
            done.set()

        thread = threading.Thread(target=add)
        with stores.api.unit.begin(A_TENANT) as tx:
            thread.start()
            assert not done.wait(0.05)
            assert tx.runs.get(run.run_id) is None
        thread.join(5)
        assert stores.queries.run(A_TENANT, run.run_id) is not None

    def test_commits_are_announced_and_rollbacks_are_not(
        self, stores: Stores, store: MemoryStore
    ) -> None:
        notifications: list[tuple[str, str]] = []
        store.listen(lambda channel, payload: notifications.append((channel, payload)))
        run = stores.triggered()

        def fail(tx: Transaction) -> None:
            tx.wake()
            raise RuntimeError

        with pytest.raises(RuntimeError):
            carry_out(stores.api.unit, A_TENANT, fail)
        assert notifications == [("datarecs_run", str(run.run_id)), ("datarecs_wake", "")]

    def test_a_change_of_many_runs_names_none(self, stores: Stores, store: MemoryStore) -> None:
        one, other = stores.triggered(), stores.triggered()
        notifications: list[tuple[str, str]] = []
        store.listen(lambda channel, payload: notifications.append((channel, payload)))
        with stores.controller.unit.begin(A_TENANT, feed=8) as tx:
            for run in (one, other):
                locked = tx.runs.for_update(run.run_id)
                assert locked is not None
                tx.timers.put(run.run_id, "observe", tx.now)
                tx.leases.submit(locked)
                tx.runs.save(run)
        assert ("datarecs_wake", "") in notifications

    def test_tenants_get_separate_ids(self, store: MemoryStore) -> None:
        assert store.create_tenant() != store.create_tenant()

    @pytest.mark.parametrize("feed", ["runs", ""])
    def test_an_unknown_feed_is_refused(self, stores: Stores, feed: str) -> None:
        with pytest.raises(ValueError, match="no feed"):
            stores.api.finder.feed_after(feed, 0, 1)

    def test_an_unknown_kind_of_work_is_refused(self, stores: Stores) -> None:
        with pytest.raises(ValueError, match="nothing is due"):
            stores.controller.finder.due_tenants("everything")
