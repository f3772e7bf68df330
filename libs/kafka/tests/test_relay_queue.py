"""The order promise of the relay, as a property of its bookkeeping alone."""

from collections import defaultdict
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from datarecs_application.ports.state import OutboxRow
from datarecs_core.values import EventId
from datarecs_kafka.relay_queue import RelayQueue
from datarecs_testing.clock import NOON


def a_row(position: int, key: str) -> OutboxRow:
    return OutboxRow(
        position=position,
        event_id=EventId(UUID(int=position)),
        topic="t",
        partition_key=key,
        headers=(),
        data=b"",
        type="x",
        created_at=NOON,
    )


@given(
    keys=st.lists(st.sampled_from("abc"), max_size=30),
    choices=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=200),
)
def test_rows_of_a_key_go_one_by_one_in_position_order(
    keys: list[str], choices: list[tuple[int, bool]]
) -> None:
    """Whatever lands or fails in whatever order, as long as failed rows are read again."""
    rows = [a_row(n, key) for n, key in enumerate(keys)]
    queue, taken, in_flight = RelayQueue(), defaultdict[str, list[int]](list), list[OutboxRow]()
    unsent = list(rows)
    for which, lands in [*choices, *[(0, True)] * (2 * len(rows) + 1)]:
        queue.offer(0, unsent, now=0.0)
        in_flight += queue.next_rows()
        assert len({row.partition_key for row in in_flight}) == len(in_flight)
        if not in_flight:
            continue
        row = in_flight.pop(which % len(in_flight))
        if lands:
            taken[row.partition_key].append(row.position)
            unsent.remove(row)
            following = queue.settle(row)
            in_flight += [] if following is None else [following]
        else:
            queue.fail(row)
            queue.rest(row, until=-1.0)
    assert not unsent
    assert all(positions == sorted(positions) for positions in taken.values())


def test_a_resting_key_does_not_hold_up_the_others() -> None:
    queue = RelayQueue()
    queue.offer(0, [a_row(1, "dead"), a_row(2, "alive")], now=0.0)
    first, _ = queue.next_rows()
    queue.fail(first)
    queue.rest(first, until=10.0)
    left_alone = queue.offer(0, [a_row(1, "dead"), a_row(3, "fresh")], now=5.0)
    assert [row.position for row in queue.next_rows()] == [3]
    assert left_alone == 1


def test_failures_of_a_key_are_counted_until_it_lands() -> None:
    queue, row = RelayQueue(), a_row(1, "k")
    counted = []
    for _ in range(3):
        queue.offer(0, [row], now=0.0)
        queue.next_rows()
        counted.append(queue.fail(row))
        queue.rest(row, until=-1.0)
    queue.offer(0, [row], now=0.0)
    queue.next_rows()
    queue.settle(row)
    queue.offer(0, [row], now=0.0)
    queue.next_rows()
    assert [*counted, queue.fail(row)] == [1, 2, 3, 1]


def test_rows_of_a_lost_shard_are_forgotten_except_in_flight() -> None:
    queue = RelayQueue()
    queue.offer(0, [a_row(1, "a"), a_row(2, "a")], now=0.0)
    queue.offer(1, [a_row(3, "b")], now=0.0)
    first, *_ = queue.next_rows()
    queue.retain_shards({1})
    assert queue.settle(first) is None
    assert queue.unsettled() == {1: 1}


def test_an_unsent_row_goes_back_to_the_front() -> None:
    queue = RelayQueue()
    queue.offer(0, [a_row(1, "a"), a_row(2, "a")], now=0.0)
    (first,) = queue.next_rows()
    queue.put_back(first)
    assert [row.position for row in queue.next_rows()] == [1]


def test_rows_in_flight_and_behind_them_are_not_settled() -> None:
    queue = RelayQueue()
    queue.offer(3, [a_row(1, "a"), a_row(2, "a"), a_row(3, "b")], now=0.0)
    first, other = queue.next_rows()
    assert queue.unsettled() == {3: 3}
    queue.settle(other)
    queue.settle(first)
    assert queue.unsettled() == {3: 1}
