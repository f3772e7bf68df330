"""Slots and upkeep over the queue in memory: planners first, silent workers, removal."""

from datetime import timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from datarecs_application.capturing.upkeep import Upkeep, UpkeepLoop
from datarecs_application.capturing.working import kinds_of_slots
from datarecs_application.catalogue.collecting import Collected, Collector
from datarecs_application.errors import StoreUnavailableError
from datarecs_application.loops.polling import Rhythm
from datarecs_core.captures.items import WorkKind, WorkState
from datarecs_core.catalog import layout
from datarecs_core.hashing import sha256_hex
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.clock import Latch
from datarecs_testing.builders import A_TENANT
from datarecs_testing.captures import CaptureQueue, a_request, a_snapshot, a_table, groups
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.conformance.stores import Actor, Stores
from datarecs_testing.metrics import RecordedMetrics

PLAN = b"{}"


class House:
    """One queue and the upkeep of a worker beside it."""

    def __init__(self) -> None:
        self.clock, self.metrics = ManualClock(), RecordedMetrics()
        store = MemoryStore(self.clock, FixedIds())
        everybody = Actor(unit=MemoryUnitOfWork(store), finder=MemoryWorkFinder(store))
        self.queue = CaptureQueue(cast("Stores", SimpleNamespace(api=everybody, capture=everybody)))
        self.blobs = MemoryBlobStores(self.clock)
        self.upkeep = Upkeep(
            unit=everybody.unit,
            finder=everybody.finder,
            blobs=self.blobs,
            rhythm=Rhythm(clock=self.clock, wake=Latch()),
            metrics=self.metrics,
        )

    def plans(self) -> int:
        return len(list(self.blobs.of(A_TENANT).list(layout.capture_jobs(A_TENANT))))


@pytest.fixture
def house() -> House:
    return House()


@pytest.mark.case("Q33")
def test_a_plan_begins_at_once_behind_a_thousand_groups(house: House) -> None:
    queue = house.queue
    _, (snapshot,) = queue.planned(a_snapshot(1))
    queue.succeed(queue.take(snapshot), *groups(1_000))
    house.clock.advance(timedelta(seconds=1))
    _, (table,) = queue.planned(a_table("late"))
    first, second = kinds_of_slots(tuple(WorkKind), slots=2)
    while house.queue.claim("worker-1/1", *(second - first), limit=1):
        if len(queue.claim("worker-1/0", *first, limit=1)) == 1:
            break
    assert queue.item(table).state is WorkState.RUNNING


@pytest.mark.case("Q21")
def test_a_silent_worker_does_not_hold_a_cancel(house: House) -> None:
    root = house.queue.put()
    house.queue.take(root)
    house.queue.cancel(root)
    assert house.upkeep.reclaim() == 0
    house.clock.advance(timedelta(seconds=66))
    assert house.upkeep.reclaim() == 1
    assert house.queue.item(root).state is WorkState.CANCELLED
    assert house.metrics.total("leases_expired_total", queue="capture") == 1


def test_what_is_below_a_cancelled_item_is_cancelled(house: House) -> None:
    root, tables = house.queue.planned(a_table("a"), a_table("b"))
    house.queue.cancel(root)
    while house.upkeep.follow_cancels():
        pass
    assert house.queue.states([root, *tables]) == {"CANCELLED"}


def test_an_ended_capture_is_removed_after_a_day_with_its_plans(house: House) -> None:
    queue = house.queue
    root, (snapshot,) = queue.planned(a_snapshot(1))
    live, (other,) = queue.planned(a_snapshot(2), request=a_request("other"))
    for item in (snapshot, other):
        key = layout.capture_plan(A_TENANT, item, sha256_hex(PLAN))
        house.blobs.of(A_TENANT).put(key, PLAN)
    queue.succeed(queue.take(snapshot))
    assert queue.item(root).state is WorkState.SUCCEEDED
    house.clock.advance(timedelta(hours=23))
    house.upkeep.remove_old()
    assert house.plans() == 2
    house.clock.advance(timedelta(hours=2))
    house.upkeep.remove_old()
    assert queue.stored(root) is None
    assert queue.stored(live) is not None
    assert house.plans() == 1
    assert house.metrics.total("catalog_gc_scanned_total") == 2
    assert house.metrics.total("catalog_gc_deleted_total") == 1


def test_a_collection_that_was_interrupted_is_repeated(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = house.queue
    _, (snapshot,) = queue.planned(a_snapshot(1))
    key = layout.capture_plan(A_TENANT, snapshot, sha256_hex(PLAN))
    house.blobs.of(A_TENANT).put(key, PLAN)
    queue.succeed(queue.take(snapshot))
    house.clock.advance(timedelta(hours=25))

    def unavailable(_tenant: object) -> object:
        raise StoreUnavailableError(cause="no route")

    with monkeypatch.context() as patched:
        patched.setattr(house.blobs, "of", unavailable)
        with pytest.raises(StoreUnavailableError):
            house.upkeep.remove_old()
    assert house.plans() == 1
    house.upkeep.remove_old()
    assert house.plans() == 0


def test_the_figures_of_a_collection_are_metrics(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected = Collected(
        scanned=9, deleted=4, rescued=2, generations=1, failed_owners=("a", "b", "c")
    )
    monkeypatch.setattr(Collector, "collect", lambda _: collected)
    root = house.queue.put()
    house.queue.cancel(root)
    house.clock.advance(timedelta(hours=25))
    house.upkeep.remove_old()
    figures = {
        "catalog_gc_scanned_total": 9,
        "catalog_gc_deleted_total": 4,
        "catalog_gc_rescued_total": 2,
        "catalog_gc_generations_total": 1,
        "catalog_gc_failed_owners_total": 3,
    }
    assert {name: house.metrics.total(name) for name in figures} == figures
    assert house.metrics.times("catalog_gc_seconds") == 1


def test_a_loop_repeats_its_step_until_it_stops() -> None:
    stop, steps = Latch(), list[int]()

    def step() -> int:
        steps.append(1)
        if len(steps) == 3:
            stop.set()
        return 1

    clock = ManualClock(by_itself=True)
    UpkeepLoop(name="reclaim", step=step, rhythm=Rhythm(clock=clock, wake=Latch())).run(stop)
    assert len(steps) == 3
