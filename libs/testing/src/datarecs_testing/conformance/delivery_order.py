"""The behaviour of every implementation of DeliveryOrder."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from datarecs_application.ports.delivery import Unblocked
from datarecs_application.ports.state import HistoryEntry, Transaction
from datarecs_core.runs.events import RunRowsProcessed
from datarecs_core.runs.model import Disposition
from datarecs_core.values import EventId, ResourceUid, RunId
from datarecs_core.webhooks.delivery import Delivery, DeliveryState, Origin, lease
from datarecs_core.webhooks.ordering import RunPlace
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.conformance.deliveries import HOUR, fresh
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.deliveries import a_message

NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A run with four numbers: three events, and a fact without an event as the third."""

    run_id: RunId
    events: dict[int, EventId]


def recorded_run(stores: Stores) -> RecordedRun:
    run = stores.triggered()
    progress = RunRowsProcessed(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        stage_name="rows",
        row_count=1,
        mismatch_count=0,
    )
    fact = EventId(an_id())
    with stores.worker.unit.begin(A_TENANT, feed=8) as tx:
        tx.runs.for_update(run.run_id)
        tx.outbox.append(progress)
        tx.runs.record(
            run.run_id,
            HistoryEntry(
                sequence=0,
                event_id=fact,
                type="LeaseLost",
                source="/datarecs/synthesised",
                time=tx.now,
                data={},
                disposition=Disposition.SYNTHESISED,
            ),
        )
        tx.outbox.append(replace(progress, row_count=2))
        history = tx.runs.history(run.run_id)
    events = {entry.sequence: entry.event_id for entry in history if entry.event_id != fact}
    assert list(events) == [1, 2, 4]
    return RecordedRun(run_id=run.run_id, events=events)


class DeliveryOrderConformance:
    """Subclass with a fixture `stores`."""

    def test_an_event_waits_for_missing_earlier_events(self, stores: Stores) -> None:
        run, endpoint = recorded_run(stores), ResourceUid(an_id())

        def missing(tx: Transaction, sequence: int, since: datetime = NEVER) -> bool:
            place = RunPlace(run.run_id, sequence)
            return tx.delivery_order.has_missing(endpoint, place, since=since)

        with stores.webhook.unit.begin(A_TENANT) as tx:
            tx.deliveries.states([endpoint])
            assert not missing(tx, 1)
            assert missing(tx, 2)
            assert not missing(tx, 2, since=tx.now + HOUR)
            _store(tx, run, 1)
            assert not missing(tx, 2)
            assert missing(tx, 4)
            _store(tx, run, 2)
            assert not missing(tx, 4)
            assert not missing(tx, 4, since=tx.now + HOUR)

    def test_numbers_before_the_last_ordered_delivery_are_not_missing(self, stores: Stores) -> None:
        run, endpoint = recorded_run(stores), ResourceUid(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            early = fresh(tx, endpoint, run_id=run.run_id, sequence=2, is_early=True)
            tx.deliveries.add([early])
            place = RunPlace(run.run_id, 4)
            _store(tx, run, 2)
            assert tx.delivery_order.has_missing(endpoint, place, since=NEVER)
            assert tx.delivery_order.early(endpoint, run.run_id) == [early]
            tx.deliveries.save([replace(early, is_early=False)])
            assert not tx.delivery_order.has_missing(endpoint, place, since=NEVER)
            assert tx.delivery_order.early(endpoint, run.run_id) == []
            other = ResourceUid(an_id())
            assert tx.delivery_order.has_missing(other, place, since=NEVER)

    def test_the_first_of_each_run_is_due_and_blocks_the_others(self, stores: Stores) -> None:
        endpoint = ResourceUid(an_id())
        runs = [RunId(an_id()) for _ in range(2)]
        with stores.webhook.unit.begin(A_TENANT) as tx:
            made = [
                fresh(tx, endpoint, run_id=run, sequence=number)
                for number in (3, 1, 2)
                for run in runs
            ]
            unordered = fresh(tx, endpoint)
            tx.deliveries.add([*made, unordered])
            due = tx.delivery_order.due(endpoint, 10, failing_after=NEVER)
            assert sorted(one.sequence or 0 for one in due) == [0, 1, 1]
            first = next(one for one in due if one.run_id == runs[0])
            tx.deliveries.save([lease(first, owner="w", now=tx.now)])
            assert _due(tx, endpoint, runs[0]) == []
            tx.deliveries.save([replace(first, state=DeliveryState.DEAD_LETTERED)])
            assert [one.sequence for one in _due(tx, endpoint, runs[0])] == [2]
            assert len(tx.delivery_order.due(endpoint, 1, failing_after=NEVER)) == 1

    def test_each_action_has_a_separate_order(self, stores: Stores) -> None:
        endpoint, run, action = ResourceUid(an_id()), RunId(an_id()), an_id()
        with stores.webhook.unit.begin(A_TENANT) as tx:
            live = [fresh(tx, endpoint, run_id=run, sequence=number) for number in (1, 2)]
            again = [
                replace(
                    one,
                    delivery_id=an_id(),
                    action_id=action,
                    origin=Origin.REPLAY,
                    priority=Origin.REPLAY.priority,
                )
                for one in live
            ]
            tx.deliveries.add([*live, *again])
            assert _due(tx, endpoint, run) == [live[0], again[0]]

    def test_a_delivery_that_fails_for_long_does_not_block(self, stores: Stores) -> None:
        endpoint, run = ResourceUid(an_id()), RunId(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            head, later = (fresh(tx, endpoint, run_id=run, sequence=number) for number in (1, 2))
            tx.deliveries.add([head, later])
            failing_since = tx.now - HOUR
            failing = replace(head, due_at=tx.now + HOUR, failing_since=failing_since)
            tx.deliveries.save([failing])
            order = tx.delivery_order
            assert order.due(endpoint, 10, failing_after=failing_since - HOUR) == []
            assert order.unblocked(endpoint, failing_after=failing_since - HOUR) == Unblocked(
                first_due=failing.due_at, failing_since=failing_since
            )
            assert order.due(endpoint, 10, failing_after=failing_since) == [later]
            assert order.unblocked(endpoint, failing_after=failing_since) == Unblocked(
                first_due=later.due_at, failing_since=None
            )

    def test_waiting_deliveries_of_a_type_are_live_and_in_the_order_of_the_run(
        self, stores: Stores
    ) -> None:
        endpoint, run = ResourceUid(an_id()), RunId(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            second, first, leased, of_action, of_other_run = (
                fresh(tx, endpoint, run_id=run, sequence=number) for number in (2, 1, 3, 4, 5)
            )
            of_action = replace(of_action, action_id=an_id(), origin=Origin.REPLAY)
            of_other_run = replace(of_other_run, run_id=RunId(an_id()))
            of_other_type = fresh(tx, endpoint, run_id=run, sequence=6, event_type="io.x.y")
            without_number = fresh(tx, endpoint, run_id=run)
            tx.deliveries.add([second, first, leased, of_action, of_other_run, of_other_type])
            tx.deliveries.add([without_number])
            tx.deliveries.save([lease(leased, owner="w", now=tx.now)])
            waiting = tx.delivery_order.waiting_of_type(endpoint, run, first.event_type)
            assert waiting == [first, second]

    def test_without_deliveries_nothing_is_due(self, stores: Stores) -> None:
        endpoint = ResourceUid(an_id())
        with stores.webhook.unit.begin(A_TENANT) as tx:
            assert tx.delivery_order.unblocked(endpoint, failing_after=NEVER) == (None, None)
            expired = fresh(
                tx, endpoint, run_id=RunId(an_id()), sequence=1, expires_at=tx.now - timedelta(1)
            )
            tx.deliveries.add([expired])
            assert tx.delivery_order.due(endpoint, 10, failing_after=NEVER) == []


def _store(tx: Transaction, run: RecordedRun, number: int) -> None:
    event = run.events[number]
    tx.deliveries.store_event(event, a_message(event))


def _due(tx: Transaction, endpoint: ResourceUid, run: RunId) -> list[Delivery]:
    due = tx.delivery_order.due(endpoint, 10, failing_after=NEVER)
    return [one for one in due if one.run_id == run]
