"""Records of one tenant in one transaction: fewer commits, same effects, alone after a fault."""

from dataclasses import dataclass, field

import pytest

from datarecs_application.errors import RunExistsError, StoreBusyError
from datarecs_application.ports.state import Transaction
from datarecs_core.errors.base import RunErrorCode
from datarecs_core.runs.events import RunCompleted, RunErrored
from datarecs_core.runs.model import RunError, RunResult
from datarecs_core.values import JobId, RunId
from datarecs_events.codec import Received
from datarecs_kafka.handling import Subscription
from datarecs_testing.consuming import GROUP, INFRA, World


@pytest.fixture
def world() -> World:
    return World()


@dataclass
class Counting:
    """A handler that notes which transaction it was called in, by number."""

    world: World
    transactions: list[int] = field(default_factory=list)
    seen: list[Transaction] = field(default_factory=list)
    """All of them: the address of one that is gone may be used again."""

    def __call__(self, tx: Transaction, received: Received) -> None:
        self.world.remember(tx, received)
        if not any(tx is one for one in self.seen):
            self.seen.append(tx)
        self.transactions.append(next(at for at, one in enumerate(self.seen) if tx is one))


def a_failure(world: World) -> RunErrored:
    end = world.completed()
    return RunErrored(
        run_id=end.run_id,
        job_id=end.job_id,
        tenant_id=end.tenant_id,
        workflow_name=end.workflow_name,
        error=RunError(code=RunErrorCode.CRASHED, message="gone"),
    )


def test_a_busy_handler_takes_many_records_in_one_transaction(world: World) -> None:
    handler = Counting(world)
    ids = [world.publish() for _ in range(7)]
    world.consumer(handler, together=5).run(world.after(5))
    assert world.handled == ids
    assert [handler.transactions.count(one) for one in dict.fromkeys(handler.transactions)] == [
        5,
        2,
    ]
    assert world.committed() == 7


def test_records_of_another_tenant_have_a_separate_transaction(world: World) -> None:
    handler = Counting(world)
    other = world.store.create_tenant()
    world.publish()
    world.publish()
    world.publish(
        RunCompleted(
            run_id=RunId(world.ids.new()),
            job_id=JobId(world.ids.new()),
            tenant_id=other,
            workflow_name="recon",
            result=RunResult.MATCHED,
        )
    )
    world.publish()
    world.consumer(handler, together=100).run(world.after(5))
    assert len(world.handled) == 4
    assert len(set(handler.transactions)) == 3


def test_a_redelivery_among_them_takes_effect_once(world: World) -> None:
    event = world.completed()
    first = world.publish(event)
    world.publish(event, event_id=first)
    other = world.publish()
    world.consumer(together=100).run(world.after(5))
    assert world.handled == [first, other]
    assert world.metrics.total("inbox_duplicates_total", group=GROUP) == 1


def test_one_that_can_never_be_handled_hurts_itself_alone(world: World) -> None:
    ids = [world.publish() for _ in range(6)]
    done: list[object] = []

    def handler(tx: Transaction, received: Received) -> None:
        del tx
        if received.envelope.id == ids[3]:
            raise RunExistsError(run_id=RunId(world.ids.new()))
        done.append(received.envelope.id)

    world.consumer(handler, together=100).run(world.after(5))
    assert world.reasons() == ["RUN_EXISTS"]
    assert world.committed() == 6
    assert done == [*ids[:3], *ids[:3], *ids[4:]], "together, rolled back, then each alone"


def test_a_conflict_is_waited_for_alone(world: World) -> None:
    ids = [world.publish() for _ in range(4)]
    conflicts = [StoreBusyError(cause="deadlock") for _ in range(3)]

    def handler(tx: Transaction, received: Received) -> None:
        if received.envelope.id == ids[2] and conflicts:
            raise conflicts.pop()
        world.remember(tx, received)

    world.consumer(handler, together=100).run(world.after(30))
    assert list(dict.fromkeys(world.handled)) == ids
    assert (world.reasons(), world.committed()) == ([], 4)


def test_what_cannot_be_decoded_stands_alone(world: World) -> None:
    ids = [world.publish(), world.publish()]
    world.log.append("datarecs.run.infra", key=b"k", value=b"no json", partition=0)
    ids += [world.publish(), world.publish()]
    world.consumer(together=100).run(world.after(5))
    assert world.handled == ids
    assert world.committed() == 5
    assert len(world.letters()) == 1


def test_what_is_for_others_parts_nothing(world: World) -> None:
    handler = Counting(world)
    first, other = world.publish(), world.encoded(a_failure(world))
    world.log.append(
        INFRA, key=other.key_bytes, value=other.data, headers=other.headers, partition=0
    )
    ids = [first, world.publish()]
    consumer = world.consumer(together=100)
    consumer.subscriptions = (Subscription(INFRA, (RunCompleted,), handler, together=100),)
    consumer.__post_init__()
    consumer.run(world.after(5))
    assert (world.handled, len(set(handler.transactions))) == (ids, 1)
    assert (world.letters(), world.committed()) == ([], 3)


def test_an_event_that_nobody_requested_ends_no_loop(world: World) -> None:
    """Its topic has a handler that takes many, its type has none."""
    world.publish()
    world.publish()
    consumer = world.consumer(together=100)
    consumer.subscriptions = (Subscription(INFRA, (RunErrored,), world.remember, together=100),)
    consumer.__post_init__()
    consumer.run(world.after(5))
    assert (world.handled, world.committed()) == ([], 2)
