"""`ordering: run` end to end in memory: events of runs arrive in any order, and leave in order."""

import random
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from datarecs_application.ports.delivery import OutgoingWebhook
from datarecs_application.ports.state import HistoryEntry
from datarecs_core.resources.resource import Resource
from datarecs_core.runs.events import RunRowsProcessed
from datarecs_core.runs.model import Disposition
from datarecs_core.values import EventId, RunId
from datarecs_core.webhooks.actions import WebhookAction, Window
from datarecs_core.webhooks.delivery import DeliveryReason, DeliveryState, Origin, lease
from datarecs_core.webhooks.endpoint import (
    Coalesced,
    Filter,
    Limits,
    Ordering,
    Retry,
    WebhookEndpoint,
)
from datarecs_core.webhooks.outcome import AttemptEnd
from datarecs_testing.builders import A_TENANT, a_run, an_id
from datarecs_testing.scripted_delivery import OK, answered
from datarecs_testing.webhook_house import WebhookHouse

TYPE = "io.datarecs.reconciliation.run.rows_processed"
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def in_order(**changes: object) -> WebhookEndpoint:
    fields: dict[str, object] = {
        "url": "https://a.example.com/hook",
        "ordering": Ordering.RUN,
        "limits": Limits(rate_per_minute=6000, max_concurrent=32),
        "retry": Retry(delays=(SECOND,) * 5),
    }
    return WebhookEndpoint(**(fields | changes))  # type: ignore[arg-type]  # fields of the spec


@dataclass
class Wire:
    """A house, and runs with events that are recorded before they arrive."""

    spec: WebhookEndpoint = field(default_factory=in_order)
    house: WebhookHouse = field(default_factory=WebhookHouse)
    events: dict[tuple[RunId, int], EventId] = field(default_factory=dict)
    endpoint: Resource = field(init=False)

    def __post_init__(self) -> None:
        self.house.answer = self.answer
        self.endpoint = self.house.declare(self.spec)
        self.failing: dict[EventId, int] = {}
        """Number of further refusals of an event."""
        self.loop = self.house.sending()

    def record(self, count: int, *, silent: int | None = None) -> RunId:
        """A run with this many numbers; `silent` is a fact without an event."""
        run = a_run()
        with self.house.unit.begin(A_TENANT, feed=2 * count) as tx:
            tx.runs.add(run)
            for number in range(1, count + 1):
                if number == silent:
                    tx.runs.record(run.run_id, _a_fact())
                    continue
                (self.events[run.run_id, number],) = tx.outbox.append(
                    RunRowsProcessed(
                        run_id=run.run_id,
                        job_id=run.job_id,
                        tenant_id=A_TENANT,
                        stage_name="rows",
                        row_count=number,
                        mismatch_count=0,
                    )
                )
        return run.run_id

    def come(self, run: RunId, number: int) -> EventId:
        return self.house.publish(
            type_=TYPE,
            id=str(self.events[run, number]),
            partitionkey=str(run),
            runsequence=f"{number:020d}",
        )

    def answer(self, request: OutgoingWebhook) -> AttemptEnd:
        event = next(one for one in self.events.values() if str(one) == _id_of(request))
        if self.failing.get(event, 0) > 0:
            self.failing[event] -= 1
            return answered(500)
        return OK

    def set_pending(self, count: int) -> None:
        """As if so many deliveries waited."""
        with self.house.unit.begin(A_TENANT) as tx:
            (state,) = tx.deliveries.states([self.endpoint.uid])
            tx.deliveries.save_state(replace(state, pending=count))

    def play(self) -> None:
        self.house.play_until_quiet(self.loop, self.endpoint)

    def turn(self) -> None:
        self.house.run(self.loop)

    @property
    def taken(self) -> list[tuple[RunId, int]]:
        """Received events, in the order of arrival."""
        places = {str(event): place for place, event in self.events.items()}
        states = {str(one.event_id): one.state for one in self.house.deliveries(self.endpoint)}
        sent = dict.fromkeys(_id_of(one) for one in reversed(self.house.client.sent))
        last = list(reversed(sent))
        return [places[one] for one in last if states[one] is DeliveryState.SUCCEEDED]

    @property
    def gaps(self) -> float:
        return self.house.metrics.total("webhook_order_gaps_total")


def _id_of(request: OutgoingWebhook) -> str:
    return dict(request.headers)["webhook-id"]


def _a_fact() -> HistoryEntry:
    return HistoryEntry(
        sequence=0,
        event_id=EventId(an_id()),
        type="LeaseLost",
        source="/datarecs/synthesised",
        time=a_run().created_at,
        data={},
        disposition=Disposition.SYNTHESISED,
    )


@pytest.mark.case("W27")
@pytest.mark.parametrize("seed", range(8))
def test_each_run_is_received_in_order_for_any_arrival_and_failures(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  a reproducible order, no secret
    wire = Wire()
    runs = [wire.record(6, silent=dice.choice([None, 3])) for _ in range(3)]
    places = list(wire.events)
    dice.shuffle(places)
    wire.failing = {one: 1 for one in wire.events.values() if dice.random() < 0.4}
    for place in places:
        wire.come(*place)
        if dice.random() < 0.5:
            wire.turn()
    wire.play()
    by_run = defaultdict(list)
    for run, number in wire.taken:
        by_run[run].append(number)
    assert {run: sorted(numbers) for run, numbers in by_run.items()} == by_run
    assert len(wire.taken) == len(wire.events)
    assert set(by_run) == set(runs)
    assert wire.gaps == 0


@pytest.mark.case("W27")
def test_a_run_that_fails_delays_no_other_run() -> None:
    wire = Wire()
    stuck, free = wire.record(2), wire.record(2)
    wire.failing[wire.events[stuck, 1]] = 3
    for run in (stuck, free):
        wire.come(run, 1)
        wire.come(run, 2)
    wire.house.run(wire.loop, turns=5)
    assert wire.taken == [(free, 1), (free, 2)]
    wire.play()
    assert wire.taken[2:] == [(stuck, 1), (stuck, 2)]


@pytest.mark.case("W27")
def test_the_next_event_is_sent_after_a_dead_lettered_one() -> None:
    wire = Wire(spec=in_order(retry=Retry(delays=())))
    run = wire.record(2)
    wire.failing[wire.events[run, 1]] = 1
    wire.come(run, 1)
    wire.come(run, 2)
    wire.play()
    assert wire.taken == [(run, 2)]


@pytest.mark.case("W28")
def test_an_event_does_not_wait_for_a_number_without_an_event() -> None:
    wire = Wire()
    run = wire.record(3, silent=2)
    wire.come(run, 1)
    wire.come(run, 3)
    wire.house.run(wire.loop, turns=5)
    assert wire.taken == [(run, 1), (run, 3)]
    assert wire.gaps == 0


@pytest.mark.case("W28")
def test_a_missing_event_causes_one_wait_and_one_count() -> None:
    wire = Wire()
    run = wire.record(5)
    wire.come(run, 1)
    wire.come(run, 3)
    wire.house.clock.advance(10 * SECOND)
    wire.come(run, 4)
    wire.turn()
    assert wire.taken == [(run, 1)]
    wire.house.clock.advance(20 * SECOND)
    wire.house.run(wire.loop, turns=5)
    assert wire.taken == [(run, 1), (run, 3), (run, 4)]
    wire.come(run, 5)
    wire.turn()
    assert wire.taken[-1] == (run, 5)
    assert wire.gaps == 1
    wire.come(run, 2)
    wire.turn()
    assert wire.taken[-1] == (run, 2)


@pytest.mark.case("W28")
def test_a_late_event_releases_the_waiting_ones_at_once() -> None:
    wire = Wire()
    run = wire.record(4)
    for number in (4, 2, 1):
        wire.come(run, number)
    wire.house.run(wire.loop, turns=5)
    assert wire.taken == [(run, 1), (run, 2)]
    wire.come(run, 3)
    wire.house.run(wire.loop, turns=5)
    assert wire.taken == [(run, number) for number in (1, 2, 3, 4)]
    assert wire.gaps == 0


@pytest.mark.case("W28")
def test_after_max_block_later_events_pass_one_that_fails() -> None:
    delays = (SECOND, HOUR)
    wire = Wire(spec=in_order(max_block=MINUTE, retry=Retry(delays=delays)))
    run = wire.record(3)
    wire.failing[wire.events[run, 1]] = 2
    for number in (1, 2, 3):
        wire.come(run, number)
    wire.turn()
    wire.house.clock.advance(MINUTE - SECOND)
    wire.turn()
    assert wire.taken == []
    wire.play()
    assert wire.taken == [(run, 2), (run, 3), (run, 1)]


def test_an_event_waits_for_a_missing_one_that_the_filter_excludes() -> None:
    """Until it arrives, the platform cannot know whether it passes the filter."""
    spec = in_order(filter=Filter(types=("reconciliation.run.finalised",)))
    wire = Wire(spec=spec)
    run = wire.record(2)
    wire.house.publish(id=str(wire.events[run, 2]), partitionkey=str(run), runsequence=f"{2:020d}")
    (delivery,) = wire.house.deliveries(wire.endpoint)
    assert delivery.is_early
    wire.come(run, 1)
    (delivery,) = wire.house.deliveries(wire.endpoint)
    assert not delivery.is_early


def test_events_without_a_run_have_no_order() -> None:
    wire = Wire()
    event = wire.house.publish(type_="io.datarecs.resource.connection.created")
    (delivery,) = wire.house.deliveries(wire.endpoint)
    assert (delivery.event_id, delivery.sequence) == (event, None)


def test_without_an_order_nothing_waits() -> None:
    wire = Wire(spec=in_order(ordering=Ordering.NONE))
    run = wire.record(3)
    wire.come(run, 3)
    wire.turn()
    assert wire.taken == [(run, 3)]


def test_a_replay_has_a_separate_order() -> None:
    wire = Wire()
    run = wire.record(4)
    for number in (1, 2, 3, 4):
        wire.come(run, number)
    wire.play()
    wire.house.client.sent.clear()
    wire.failing[wire.events[run, 2]] = 2
    now = wire.house.clock.now()
    window = Window(since=now - HOUR, until=now + SECOND, only_missing=False)
    with wire.house.unit.begin(A_TENANT) as tx:
        action = WebhookAction(
            tenant_id=A_TENANT,
            action_id=wire.house.store.ids.new(),
            endpoint_uid=wire.endpoint.uid,
            kind=Origin.REPLAY,
            window=window,
            requested_by="u-ana",
            created_at=now,
            expected=4,
        )
        tx.webhook_actions.add(action)
    wire.house.clock.advance(MINUTE)
    wire.house.expand()
    wire.play()
    assert [number for _, number in wire.taken] == [1, 2, 3, 4]


def test_an_event_that_an_overflow_left_out_holds_no_later_one() -> None:
    wire = Wire(spec=in_order(limits=Limits(max_pending=1_000)))
    run = wire.record(2)
    wire.set_pending(1_000)
    wire.come(run, 1)
    assert wire.house.deliveries(wire.endpoint) == []
    wire.set_pending(0)
    wire.come(run, 2)
    wire.turn()
    assert (wire.taken, wire.gaps) == ([(run, 2)], 0)


def test_an_endpoint_that_overflows_releases_what_waited_for_the_event_left_out() -> None:
    wire = Wire(spec=in_order(limits=Limits(max_pending=1_000)))
    run = wire.record(2)
    wire.come(run, 2)
    wire.turn()
    assert wire.taken == []
    wire.set_pending(1_000)
    wire.come(run, 1)
    wire.turn()
    assert (wire.taken, wire.gaps) == ([(run, 2)], 0)


def newest_only(**changes: object) -> WebhookEndpoint:
    """Without an order, and one request at a time."""
    limits = Limits(rate_per_minute=6000, max_concurrent=1)
    fields: dict[str, object] = {
        "ordering": Ordering.NONE,
        "limits": limits,
        "coalesce": (Coalesced.ROWS_PROCESSED,),
    }
    return in_order(**(fields | changes))


def ends(wire: Wire) -> dict[int, tuple[DeliveryState, DeliveryReason | None]]:
    """State and reason of every delivery, by the number of its event."""
    numbers = {event: number for (_, number), event in wire.events.items()}
    rows = wire.house.deliveries(wire.endpoint)
    return {numbers[one.event_id]: (one.state, one.reason) for one in rows}


SENT = (DeliveryState.SUCCEEDED, None)
SUPERSEDED = (DeliveryState.DISCARDED, DeliveryReason.SUPERSEDED)


@pytest.mark.case("W45")
@pytest.mark.parametrize("ordering", Ordering)
def test_of_fifty_waiting_progress_events_the_newest_is_sent(ordering: Ordering) -> None:
    wire = Wire(spec=newest_only(ordering=ordering))
    run = wire.record(50)
    for number in range(1, 51):
        wire.come(run, number)
    wire.play()
    assert ends(wire) == dict.fromkeys(range(1, 50), SUPERSEDED) | {50: SENT}
    assert wire.taken == [(run, 50)]
    assert wire.house.store.committed(A_TENANT).delivery.endpoints[wire.endpoint.uid].pending == 0


@pytest.mark.case("W45")
def test_without_coalesce_all_fifty_are_sent() -> None:
    wire = Wire(spec=newest_only(coalesce=()))
    run = wire.record(50)
    for number in range(1, 51):
        wire.come(run, number)
    wire.play()
    assert ends(wire) == dict.fromkeys(range(1, 51), SENT)


def test_an_older_progress_event_that_arrives_late_is_discarded_itself() -> None:
    wire = Wire(spec=newest_only())
    run, other = wire.record(3), wire.record(1)
    for number in (2, 3, 1):
        wire.come(run, number)
    wire.come(other, 1)
    wire.play()
    assert wire.taken == [(run, 3), (other, 1)]


def test_a_progress_event_that_is_being_sent_is_not_discarded() -> None:
    wire = Wire(spec=newest_only())
    run = wire.record(3)
    wire.come(run, 1)
    wire.failing[wire.events[run, 1]] = 1
    wire.turn()
    with wire.house.unit.begin(A_TENANT) as tx:
        (row,) = tx.deliveries.due(wire.endpoint.uid, 1) or tx.deliveries.pending(
            wire.endpoint.uid, 1
        )
        tx.deliveries.save([lease(row, owner="w-2", now=tx.now)])
    wire.come(run, 2)
    wire.come(run, 3)
    assert {number: state for number, (state, _) in ends(wire).items()} == {
        1: DeliveryState.LEASED,
        2: DeliveryState.DISCARDED,
        3: DeliveryState.PENDING,
    }


def test_only_progress_is_coalesced() -> None:
    wire = Wire(spec=newest_only())
    run = wire.record(2)
    for number in (1, 2):
        wire.house.publish(
            type_="io.datarecs.reconciliation.run.stage.completed",
            id=str(wire.events[run, number]),
            partitionkey=str(run),
            runsequence=f"{number:020d}",
        )
    wire.play()
    assert ends(wire) == {1: SENT, 2: SENT}


def test_recover_sends_no_superseded_event() -> None:
    wire = Wire(spec=newest_only())
    run = wire.record(3)
    for number in (1, 2, 3):
        wire.come(run, number)
    wire.play()
    now = wire.house.clock.now()
    window = Window(since=now - HOUR, until=now + SECOND, only_missing=True)
    with wire.house.unit.begin(A_TENANT) as tx:
        action = WebhookAction(
            tenant_id=A_TENANT,
            action_id=wire.house.store.ids.new(),
            endpoint_uid=wire.endpoint.uid,
            kind=Origin.RECOVER,
            window=window,
            requested_by="u-ana",
            created_at=now,
            expected=0,
        )
        tx.webhook_actions.add(action)
    wire.house.clock.advance(MINUTE)
    wire.house.expand()
    assert len(wire.house.deliveries(wire.endpoint)) == 3
