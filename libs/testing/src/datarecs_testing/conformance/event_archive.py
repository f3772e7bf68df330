"""Conformance suite of EventArchive: sent but not received events, in order, for one topic."""

from datetime import timedelta

from datarecs_core.runs.model import Run
from datarecs_events.catalogue import Topic
from datarecs_events.codec import Received, decode
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.conformance.stores import Stores

GROUP = "run-controller"
TRIGGERED = "io.datarecs.reconciliation.run.triggered"
CANCEL = "io.datarecs.reconciliation.run.cancel_requested"


def lost(stores: Stores, types: tuple[str, ...] = (TRIGGERED,)) -> list[str]:
    """Keys of what the controller never received."""
    records = stores.archive.unheard(GROUP, Topic.RUN_PLATFORM, types)
    return [(record.key or b"").decode() for record in records]


def sent(stores: Stores, count: int, **changes: object) -> list[Run]:
    """Runs with a run.triggered at the broker."""
    runs = [stores.triggered(**changes) for _ in range(count)]
    stores.relay.mark_sent([row.event_id for row in stores.unsent()])
    return runs


def keys(runs: list[Run]) -> list[str]:
    return [str(run.run_id) for run in runs]


class EventArchiveConformance:
    def test_what_was_sent_and_not_received_comes_back_in_order(self, stores: Stores) -> None:
        assert lost(stores) == []
        runs = sent(stores, 3)
        assert lost(stores) == keys(runs)

    def test_what_waits_for_the_relay_will_come_by_itself(self, stores: Stores) -> None:
        (run,) = sent(stores, 1)
        stores.triggered()
        assert lost(stores) == [str(run.run_id)]

    def test_events_of_all_tenants_have_one_order(self, stores: Stores) -> None:
        runs = [
            run
            for tenant in (A_TENANT, B_TENANT, A_TENANT)
            for run in sent(stores, 1, tenant_id=tenant)
        ]
        assert lost(stores) == keys(runs)

    def test_a_received_event_does_not_come_back(self, stores: Stores) -> None:
        runs = sent(stores, 3)
        (_, second, _) = stores.archive.unheard(GROUP, Topic.RUN_PLATFORM, (TRIGGERED,))
        received = decode(second.topic, second.key, second.value, second.headers)
        assert isinstance(received, Received)
        envelope = received.envelope
        with stores.controller.unit.begin(A_TENANT) as tx:
            assert tx.inbox.first_time(GROUP, envelope.source, envelope.id)
        assert lost(stores) == keys([runs[0], runs[2]])

    def test_a_mark_of_another_group_is_not_ours(self, stores: Stores) -> None:
        (run,) = sent(stores, 1)
        (record,) = stores.archive.unheard(GROUP, Topic.RUN_PLATFORM, (TRIGGERED,))
        received = decode(record.topic, record.key, record.value, record.headers)
        assert isinstance(received, Received)
        with stores.webhook.unit.begin(A_TENANT) as tx:
            tx.inbox.first_time("webhook-service", received.envelope.source, received.envelope.id)
        assert lost(stores) == [str(run.run_id)]

    def test_other_topics_and_types_stay_where_they_are(self, stores: Stores) -> None:
        sent(stores, 1)
        assert lost(stores, types=(CANCEL,)) == []
        assert list(stores.archive.unheard(GROUP, Topic.RUN_INFRA, (TRIGGERED,))) == []

    def test_the_bytes_are_those_the_relay_sent(self, stores: Stores) -> None:
        stores.triggered()
        (row,) = stores.unsent()
        stores.relay.mark_sent([row.event_id])
        (record,) = stores.archive.unheard(GROUP, Topic.RUN_PLATFORM, (TRIGGERED,))
        assert (record.topic, record.key) == (row.topic, row.partition_key.encode())
        assert (record.value, record.headers) == (row.data, row.headers)
        assert (record.partition, record.offset) == (-1, row.position)

    def test_it_knows_the_retention_and_whether_the_group_is_new(self, stores: Stores) -> None:
        memory = stores.archive.memory(GROUP)
        assert (memory.outbox, memory.inbox) == (timedelta(days=30), timedelta(days=45))
        assert not memory.has_marks
        sent(stores, 1)
        (record,) = stores.archive.unheard(GROUP, Topic.RUN_PLATFORM, (TRIGGERED,))
        received = decode(record.topic, record.key, record.value, record.headers)
        assert isinstance(received, Received)
        with stores.controller.unit.begin(A_TENANT) as tx:
            tx.inbox.first_time(GROUP, received.envelope.source, received.envelope.id)
        assert stores.archive.memory(GROUP).has_marks
