"""Conformance suites of durable queues: the same rules of leases for all of them.

An item is leased to one worker with an epoch until a database time; it is renewed, ended and
returned only with that epoch, reclaimed after it expires, tried again after a wait, and set aside
at the end. A queue adds an adapter (`leased_runs`, `leased_deliveries`) and the suites that apply.
"""

import threading
from collections.abc import Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeVar

import pytest

from datarecs_core.values import TenantId
from datarecs_testing.builders import A_TENANT, B_TENANT

WORKERS, ROUNDS = 4, 3
MOMENT = timedelta(milliseconds=1)
SOON = timedelta(seconds=1)

Ticket = TypeVar("Ticket")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one worker was granted."""

    epoch: int
    attempt: int = 0
    """The number of the try, if the queue counts tries."""
    tenant: TenantId = A_TENANT
    ticket: object
    """Data of the adapter to report with this lease."""

    def of(self, kind: type[Ticket]) -> Ticket:
        """The ticket, as the adapter made it."""
        assert isinstance(self.ticket, kind)
        return self.ticket


Grants = Mapping[Hashable, Taken]
"""New grants of one call, by item."""


class LeasedQueue(Protocol):
    """The operations that the suites need from every queue."""

    ttl: timedelta
    """Minimum duration of a lease without renewal."""
    lasts: timedelta
    """Time after which it may be reclaimed."""
    pause: timedelta
    """Maximum wait before another try, in these suites."""

    def put(self, tenant: TenantId = A_TENANT) -> Hashable:
        """A new item that is due."""

    def take(self, worker: str) -> Grants:
        """The new grants of a worker, after a check for lost leases."""

    def end(self, taken: Taken) -> bool:
        """End the work; False without a change if another worker has the lease."""

    def pass_time(self, duration: timedelta) -> None: ...


class RenewedQueue(LeasedQueue, Protocol):
    def renew(self, taken: Taken) -> bool:
        """Renew the lease; False if another worker has it."""


class RetriedQueue(LeasedQueue, Protocol):
    tries: int
    """Number of tries before an item is set aside."""

    def fail(self, taken: Taken) -> None:
        """End the try with a retryable failure."""

    def is_set_aside(self, item: Hashable) -> bool:
        """Whether the row is final and is not tried again."""


class DrainedQueue(LeasedQueue, Protocol):
    def release(self, taken: Taken) -> None:
        """The worker stops and returns its leases."""


def taken_over(queue: LeasedQueue, item: Hashable, worker: str) -> Taken:
    """The next grant after a holder without heartbeats."""
    queue.pass_time(queue.lasts)
    return offered(queue, item, worker)


def offered(queue: LeasedQueue, item: Hashable, worker: str) -> Taken:
    """The item's next grant: now, or after the wait that follows a try."""
    granted = queue.take(worker)
    if item not in granted:
        queue.pass_time(queue.pause)
        granted = queue.take(worker)
    return granted[item]


class LeaseDiscipline:
    """For every queue. Subclass with a fixture `queue`."""

    def test_a_due_item_is_leased_to_one_worker(self, queue: LeasedQueue) -> None:
        item = queue.put()
        assert item in queue.take("worker-1")
        assert item not in queue.take("worker-2")

    @pytest.mark.case("W12")
    def test_concurrent_workers_never_share_an_item(self, queue: LeasedQueue) -> None:
        items, granted = [], []
        for number in range(ROUNDS):
            items += [queue.put(tenant) for tenant in (A_TENANT, B_TENANT, A_TENANT, B_TENANT)]
            together = threading.Barrier(WORKERS)

            def take_at_once(
                worker: int, number: int = number, gate: threading.Barrier = together
            ) -> Grants:
                gate.wait()
                return queue.take(f"worker-{number}-{worker}")

            with ThreadPoolExecutor(WORKERS) as pool:
                granted += [
                    item for some in pool.map(take_at_once, range(WORKERS)) for item in some
                ]
        while rest := queue.take("worker-late"):  # concurrent workers may have skipped a tenant
            granted += rest
        assert sorted(map(str, granted)) == sorted(set(map(str, granted)))
        assert set(items) <= set(granted)

    def test_nobody_takes_over_a_lease_that_has_not_run_out(self, queue: LeasedQueue) -> None:
        item = queue.put()
        first = queue.take("worker-1")[item]
        queue.pass_time(queue.ttl - SOON)
        assert item not in queue.take("worker-2")
        assert queue.end(first)

    @pytest.mark.case("W11")
    def test_a_lease_that_ran_out_passes_on_under_a_higher_epoch(self, queue: LeasedQueue) -> None:
        item = queue.put()
        first = queue.take("worker-1")[item]
        assert taken_over(queue, item, "worker-2").epoch > first.epoch

    @pytest.mark.case("L31")
    @pytest.mark.case("W12")
    def test_who_was_overtaken_changes_nothing(self, queue: LeasedQueue) -> None:
        item = queue.put()
        first = queue.take("worker-1")[item]
        second = taken_over(queue, item, "worker-2")
        assert not queue.end(first)
        assert item not in queue.take("worker-3")
        assert queue.end(second)

    def test_a_lease_that_ran_out_counts_until_somebody_takes_over(
        self, queue: LeasedQueue
    ) -> None:
        item = queue.put()
        first = queue.take("worker-1")[item]
        queue.pass_time(queue.lasts)
        assert queue.end(first)


class RenewalDiscipline:
    """For queues with work that may last longer than a lease."""

    def test_a_renewed_lease_is_taken_from_nobody(self, queue: RenewedQueue) -> None:
        item = queue.put()
        first = queue.take("worker-1")[item]
        for _ in range(2):
            queue.pass_time(queue.ttl - SOON)
            assert queue.renew(first)
        assert item not in queue.take("worker-2")

    @pytest.mark.case("L31")
    def test_a_stale_epoch_renews_nothing(self, queue: RenewedQueue) -> None:
        item = queue.put()
        first = queue.take("worker-1")[item]
        second = taken_over(queue, item, "worker-2")
        assert not queue.renew(first)
        assert queue.renew(second)


class RetryDiscipline:
    """For queues with items that end."""

    def test_what_has_ended_is_offered_to_nobody(self, queue: RetriedQueue) -> None:
        item = queue.put()
        taken = queue.take("worker-1")[item]
        assert queue.end(taken)
        queue.pass_time(queue.lasts + queue.pause)
        assert item not in queue.take("worker-2")
        assert not queue.end(taken)
        assert not queue.is_set_aside(item)

    def test_a_failed_try_is_repeated_after_its_wait(self, queue: RetriedQueue) -> None:
        item = queue.put()
        first = queue.take("worker-1")[item]
        queue.fail(first)
        assert item not in queue.take("worker-2")
        queue.pass_time(queue.pause)
        second = queue.take("worker-2")[item]
        assert second.epoch > first.epoch
        assert second.attempt > first.attempt

    def test_the_last_try_sets_the_item_aside(self, queue: RetriedQueue) -> None:
        item = queue.put()
        for number in range(queue.tries):
            assert not queue.is_set_aside(item)
            queue.fail(offered(queue, item, f"worker-{number}"))
        assert queue.is_set_aside(item)
        queue.pass_time(queue.pause)
        assert item not in queue.take("worker-late")


class DrainDiscipline:
    """For queues where a stopping worker returns its leases instead of finishing the work."""

    def test_a_returned_item_is_offered_at_once_and_has_lost_no_try(
        self, queue: DrainedQueue
    ) -> None:
        item = queue.put()
        first = queue.take("worker-1")[item]
        queue.release(first)
        second = queue.take("worker-2")[item]
        assert (second.attempt, second.epoch > first.epoch) == (first.attempt, True)
        assert not queue.end(first)
        assert queue.end(second)


class FairnessDiscipline:
    """For queues with workers shared by tenants."""

    def test_a_long_queue_of_one_tenant_delays_only_itself(self, queue: LeasedQueue) -> None:
        for tenant in (A_TENANT, A_TENANT, A_TENANT, B_TENANT):
            queue.put(tenant)
            queue.pass_time(MOMENT)
        tenants = []
        for number in range(2):
            tenants += [one.tenant for one in queue.take(f"worker-{number}").values()]
            queue.pass_time(MOMENT)
        assert tenants == [A_TENANT, B_TENANT]
