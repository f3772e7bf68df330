"""Conformance suites of Outbox and OutboxReader: encoded once, in order, sent at least once."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event

import pytest

from datarecs_application.capturing.queue import enqueue_root
from datarecs_application.ports.state import OutboxRow, Transaction
from datarecs_core.captures.events import CaptureJobCancelled
from datarecs_core.captures.items import CaptureJobId, WorkKind
from datarecs_core.captures.request import CaptureMode
from datarecs_core.errors.base import DatarecsError
from datarecs_core.runs.events import RunCompleted, RunTriggered
from datarecs_core.runs.model import Disposition, Run, RunResult
from datarecs_core.values import EventId, ResourceUid, TenantId
from datarecs_events.codec import Received, decode
from datarecs_testing.builders import A_TENANT, B_TENANT, a_resource, a_run, an_id
from datarecs_testing.captures import IDS, a_request
from datarecs_testing.conformance.stores import (
    SHARDS,
    Stores,
    carry_out,
    created,
    queued,
    triggered,
)

TTL = timedelta(seconds=15)


def completed(run: Run) -> RunCompleted:
    return RunCompleted(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        workflow_name=run.execution_name,
        result=RunResult.MATCHED,
    )


def a_capture(stores: Stores, tenant: TenantId = A_TENANT) -> CaptureJobId:
    """The root of a new capture."""
    with stores.api.unit.begin(tenant) as tx:
        return enqueue_root(tx, IDS, a_request(), requested_by="u-1").id


def cancelled(root: CaptureJobId, *, tenant_id: TenantId = A_TENANT) -> CaptureJobCancelled:
    return CaptureJobCancelled(
        tenant_id=tenant_id,
        root_job_id=root,
        job_id=CaptureJobId(an_id()),
        kind=WorkKind.EXEC_FILE_GROUP,
        connection_uid=ResourceUid(an_id()),
        mode=CaptureMode.CAPTURE_ONLY,
    )


def numbers_of(rows: Sequence[OutboxRow], root: CaptureJobId) -> list[int]:
    """`runsequence` of the events of a capture, in the order in which the relay sends them."""
    return [
        int(dict(row.headers)["ce_runsequence"]) for row in rows if row.partition_key == str(root)
    ]


class OutboxConformance:
    def test_an_event_is_sent_as_it_was_appended(self, stores: Stores) -> None:
        run = stores.triggered()
        (row,) = stores.unsent()
        decoded = decode(row.topic, row.partition_key.encode(), row.data, row.headers)
        assert isinstance(decoded, Received)
        assert decoded.event == triggered(run)
        assert decoded.envelope.id == row.event_id
        assert decoded.envelope.tenant_id == A_TENANT
        assert decoded.envelope.runsequence == 1
        assert row.partition_key == str(run.run_id)

    def test_cause_trace_and_ids_go_into_the_envelope(self, stores: Stores) -> None:
        run = stores.triggered()
        cause, event_id = EventId(an_id()), EventId(an_id())
        trace = "00-8c1f0000000000000000000000000001-0000000000000001-01"
        with stores.controller.unit.begin(A_TENANT, feed=1) as tx:
            ids = tx.outbox.append(queued(run), caused_by=cause, ids=[event_id], traceparent=trace)
        row = stores.unsent()[-1]
        decoded = decode(row.topic, row.partition_key.encode(), row.data, row.headers)
        assert isinstance(decoded, Received)
        envelope = decoded.envelope
        assert ids == (event_id,)
        assert (envelope.id, envelope.causationid, envelope.traceparent) == (event_id, cause, trace)

    def test_events_of_a_run_are_numbered_and_recorded(self, stores: Stores) -> None:
        run = stores.triggered()
        with stores.worker.unit.begin(A_TENANT, feed=2) as tx:
            tx.runs.for_update(run.run_id)
            tx.outbox.append(completed(run))
        with stores.controller.unit.begin(A_TENANT, feed=8) as tx:
            tx.runs.for_update(run.run_id)
            tx.outbox.append(queued(run), queued(run))
        lines = stores.queries.run_events(A_TENANT, run.run_id, after=0, limit=10)
        assert [line.sequence for line in lines] == [1, 2, 3, 4]
        assert [line.type.rpartition(".")[2] for line in lines] == [
            *("triggered", "completed", "queued", "queued")
        ]
        assert [line.event_id for line in lines] == [row.event_id for row in stores.unsent()]

    def test_a_raw_outcome_waits_as_history(self, stores: Stores) -> None:
        run = stores.triggered()
        with stores.worker.unit.begin(A_TENANT, feed=2) as tx:
            tx.outbox.append(completed(run))
        lines = stores.queries.run_events(A_TENANT, run.run_id, after=0, limit=10)
        assert [line.disposition for line in lines] == [Disposition.APPLIED, Disposition.HISTORY]
        assert lines[1].data["result"] == "MATCHED"

    def test_events_are_numbered_per_run(self, stores: Stores) -> None:
        one, other = stores.triggered(), stores.triggered()
        with stores.controller.unit.begin(A_TENANT, feed=8) as tx:
            tx.outbox.append(queued(one), queued(other), queued(one))
        numbers = [
            [
                line.sequence
                for line in stores.queries.run_events(A_TENANT, run.run_id, after=1, limit=9)
            ]
            for run in (one, other)
        ]
        assert numbers == [[2, 3], [2]]

    @pytest.mark.case("R01")
    def test_an_event_of_a_resource_carries_its_version(self, stores: Stores) -> None:
        with stores.api.unit.begin(A_TENANT, feed=8) as tx:
            resource = a_resource(rv=tx.next_rv())
            tx.resources.add(resource)
            tx.resources.record_change(resource, op="CREATED", changed=["spec"], actor="u-1")
            tx.outbox.append(created(resource))
        (row,) = stores.unsent()
        decoded = decode(row.topic, row.partition_key.encode(), row.data, row.headers)
        assert isinstance(decoded, Received)
        assert decoded.envelope.runsequence == resource.version
        assert row.partition_key == str(resource.uid)

    def test_an_event_of_a_capture_names_its_root(self, stores: Stores) -> None:
        root = a_capture(stores)
        event = cancelled(root)
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.outbox.append(event)
        (row,) = stores.unsent()
        decoded = decode(row.topic, row.partition_key.encode(), row.data, row.headers)
        assert isinstance(decoded, Received)
        assert decoded.event == event
        assert row.topic == "datarecs.capture"
        assert decoded.envelope.subject == f"capture/{root}"

    def test_events_are_numbered_per_capture(self, stores: Stores) -> None:
        one, other, theirs = a_capture(stores), a_capture(stores), a_capture(stores, B_TENANT)
        run = stores.triggered()
        with stores.api.unit.begin(A_TENANT, feed=1) as tx:
            tx.outbox.append(cancelled(one), cancelled(other), cancelled(one), triggered(run))
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.outbox.append(cancelled(one))
            tx.outbox.append(cancelled(other))
        with stores.api.unit.begin(B_TENANT) as tx:
            tx.outbox.append(cancelled(theirs, tenant_id=B_TENANT))
        rows = stores.unsent()
        assert (numbers_of(rows, one), numbers_of(rows, other)) == ([1, 2, 3], [1, 2])
        lines = stores.queries.run_events(A_TENANT, run.run_id, after=0, limit=9)
        assert [line.sequence for line in lines] == [1, 2]

    def test_a_rollback_leaves_no_gap_in_a_capture(self, stores: Stores) -> None:
        root = a_capture(stores)

        def fail(tx: Transaction) -> None:
            tx.outbox.append(cancelled(root), cancelled(root))
            raise RuntimeError

        with stores.api.unit.begin(A_TENANT) as tx:
            tx.outbox.append(cancelled(root))
        with pytest.raises(RuntimeError):
            carry_out(stores.api.unit, A_TENANT, fail)
        with stores.api.unit.begin(A_TENANT) as tx:
            tx.outbox.append(cancelled(root))
        assert numbers_of(stores.unsent(), root) == [1, 2]

    @pytest.mark.case("Q53")
    def test_concurrent_transactions_number_a_capture_without_gaps(self, stores: Stores) -> None:
        root, other = a_capture(stores), a_capture(stores)
        is_numbered, numbered = Event(), []

        def first() -> None:
            with stores.api.unit.begin(A_TENANT) as tx:
                tx.outbox.append(cancelled(root))
                is_numbered.set()
                tx.outbox.append(cancelled(root), cancelled(other))
                numbered.append("first")

        def second() -> None:
            is_numbered.wait(10)
            with stores.api.unit.begin(A_TENANT) as tx:
                tx.outbox.append(cancelled(other), cancelled(root), cancelled(root))
                numbered.append("second")

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(first), pool.submit(second)]:
                done.result(30)
        rows = stores.unsent()
        assert numbered == ["first", "second"]
        assert (numbers_of(rows, root), numbers_of(rows, other)) == ([1, 2, 3, 4], [1, 2])

    def test_an_event_of_another_tenant_fails_the_transaction(self, stores: Stores) -> None:
        run = a_run(tenant_id=A_TENANT)
        foreign = created(a_resource(tenant_id=B_TENANT))

        def mix(tx: Transaction) -> None:
            tx.runs.add(run)
            tx.outbox.append(foreign)

        with pytest.raises(ValueError, match="own tenant"):
            carry_out(stores.api.unit, A_TENANT, mix)
        assert stores.queries.run(A_TENANT, run.run_id) is None

    def test_an_event_that_breaks_its_schema_fails_the_transaction(self, stores: Stores) -> None:
        run = a_run(triggered_by=3000 * "u")
        broken = RunTriggered(
            run_id=run.run_id,
            job_id=run.job_id,
            tenant_id=run.tenant_id,
            mode=run.mode,
            triggered_by=run.triggered_by,
        )

        def append_broken(tx: Transaction) -> None:
            tx.runs.add(run)
            tx.outbox.append(broken)

        with pytest.raises(DatarecsError):
            carry_out(stores.api.unit, A_TENANT, append_broken)
        assert stores.queries.run(A_TENANT, run.run_id) is None
        assert stores.unsent() == []

    def test_appending_nothing_is_nothing(self, stores: Stores) -> None:
        with stores.api.unit.begin(A_TENANT) as tx:
            assert tx.outbox.append() == ()


def of_shard(stores: Stores, shard: int, limit: int) -> list[OutboxRow]:
    return stores.relay.unsent({shard: limit})[shard]


class OutboxReaderConformance:
    def shard_of(self, stores: Stores, run: Run) -> int:
        return next(
            shard
            for shard in range(SHARDS)
            if any(row.partition_key == str(run.run_id) for row in of_shard(stores, shard, 100))
        )

    def test_a_shard_is_read_by_position_and_up_to_the_limit(self, stores: Stores) -> None:
        run = stores.queued()
        shard = self.shard_of(stores, run)
        both = of_shard(stores, shard, 10)
        assert [row.type.rpartition(".")[2] for row in both] == ["triggered", "queued"]
        assert both[0].position < both[1].position
        assert of_shard(stores, shard, 1) == both[:1]

    def test_many_shards_are_read_at_once_each_up_to_its_limit(self, stores: Stores) -> None:
        runs = {self.shard_of(stores, run): run for run in (stores.queued() for _ in range(12))}
        assert len(runs) > 1
        limits = {shard: 1 + number % 2 for number, shard in enumerate(runs)}
        unsent = stores.relay.unsent(limits)
        assert {shard: len(rows) for shard, rows in unsent.items()} == limits
        for shard, rows in unsent.items():
            assert rows == of_shard(stores, shard, limits[shard])
        assert stores.relay.unsent({}) == {}

    def test_all_events_of_a_key_are_in_one_shard_whatever_the_tenant(self, stores: Stores) -> None:
        runs = [stores.queued(), stores.queued(tenant_id=B_TENANT)]
        for run in runs:
            shard = self.shard_of(stores, run)
            rows = [
                row for row in of_shard(stores, shard, 100) if row.partition_key == str(run.run_id)
            ]
            assert len(rows) == 2

    def test_a_sent_event_is_not_sent_again(self, stores: Stores) -> None:
        stores.queued()
        first, second = stores.unsent()
        stores.relay.mark_sent([first.event_id])
        stores.relay.mark_sent([first.event_id])
        assert [row.event_id for row in stores.unsent()] == [second.event_id]

    def test_a_failed_event_stays_and_a_parked_one_rests(self, stores: Stores) -> None:
        stores.queued()
        first, second = stores.unsent()
        stores.relay.mark_failed(first.event_id, "broker away", park=False)
        stores.relay.mark_failed(second.event_id, "too large", park=True)
        assert [row.event_id for row in stores.unsent()] == [first.event_id]

    def test_marking_an_unknown_event_changes_nothing(self, stores: Stores) -> None:
        stores.queued()
        before = stores.unsent()
        stores.relay.mark_sent([EventId(an_id())])
        stores.relay.mark_sent([])
        stores.relay.mark_failed(EventId(an_id()), "unknown", park=True)
        assert stores.unsent() == before

    def test_one_relay_holds_every_shard(self, stores: Stores) -> None:
        held = stores.relay.hold_shards("r1", ttl=TTL)
        assert sorted(held) == list(range(SHARDS))
        assert stores.relay.hold_shards("r1", ttl=TTL) == held

    def test_a_second_relay_gets_half_as_soon_as_the_first_renews(self, stores: Stores) -> None:
        stores.relay.hold_shards("r1", ttl=TTL)
        assert stores.relay.hold_shards("r2", ttl=TTL) == {}
        first = stores.relay.hold_shards("r1", ttl=TTL)
        second = stores.relay.hold_shards("r2", ttl=TTL)
        assert len(first) == len(second) == SHARDS // 2
        assert set(first) | set(second) == set(range(SHARDS))


class InboxConformance:
    def test_an_event_takes_effect_once_per_consumer(self, stores: Stores) -> None:
        event = EventId(an_id())
        first = []
        for consumer in ("run-controller", "run-controller", "another"):
            with stores.controller.unit.begin(A_TENANT) as tx:
                first.append(tx.inbox.first_time(consumer, "/datarecs/core-api", event))
        assert first == [True, False, True]

    def test_many_events_are_marked_at_once(self, stores: Stores) -> None:
        old, new, again = ("/datarecs/core-api", EventId(an_id())), ("/a", EventId(an_id())), "c"
        with stores.controller.unit.begin(A_TENANT) as tx:
            first = tx.inbox.first_of(again, [old])
        with stores.controller.unit.begin(A_TENANT) as tx:
            then = tx.inbox.first_of(again, [new, old, new])
            of_another = tx.inbox.first_of("another", [old, new])
        assert (first, then, of_another) == ({old}, {new}, {old, new})

    def test_two_emitters_may_use_one_id(self, stores: Stores) -> None:
        event = EventId(an_id())
        with stores.mail.unit.begin(A_TENANT) as tx:
            assert tx.inbox.first_time("email-notifier", "/datarecs/core-api", event)
            assert tx.inbox.first_time("email-notifier", "/datarecs/another", event)

    @pytest.mark.case("L03")
    def test_a_mark_goes_with_a_rollback(self, stores: Stores) -> None:
        event = EventId(an_id())

        def fail(tx: Transaction) -> None:
            tx.inbox.first_time("webhook-service", "/datarecs/core-api", event)
            raise RuntimeError

        with pytest.raises(RuntimeError):
            carry_out(stores.webhook.unit, A_TENANT, fail)
        with stores.webhook.unit.begin(A_TENANT) as tx:
            assert tx.inbox.first_time("webhook-service", "/datarecs/core-api", event)

    def test_marks_of_tenants_are_apart(self, stores: Stores) -> None:
        event = EventId(an_id())
        for tenant in (A_TENANT, B_TENANT):
            with stores.controller.unit.begin(tenant) as tx:
                assert tx.inbox.first_time("run-controller", "/datarecs/core-api", event)
