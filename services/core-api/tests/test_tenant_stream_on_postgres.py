"""The stream of a tenant over a real database: writers that commit out of order (L42)."""

import random
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from datarecs_application.ports.state import HistoryEntry
from datarecs_core.values import RunId, TenantId
from datarecs_core_api.following import Pace
from datarecs_postgres.change_feed import PostgresChangeFeed, PostgresResourceFeed
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.listener import Listener
from datarecs_postgres.queries import PostgresQueries
from datarecs_postgres.roles import API, CONTROLLER
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids
from datarecs_storage.opening import open_blob_stores
from datarecs_testing.api import PLACES, ApiHouse
from datarecs_testing.builders import A_TENANT, B_TENANT, a_run
from datarecs_testing.conformance.runs import a_fact
from datarecs_testing.conformance.stores import triggered
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.live_views import Frame, frames

pytestmark = pytest.mark.integration
PATH = "/api/v1/events/stream"
NEVER = timedelta(minutes=10)
WRITERS = 8
TRANSACTIONS = 40
LAST = "the_last_one"


@dataclass(frozen=True)
class Place:
    database: PreparedDatabase
    house: ApiHouse
    controller: PostgresUnitOfWork


@pytest.fixture
def place(database: PreparedDatabase, tmp_path: Path) -> Iterator[Place]:
    """core-api with its reader of the feed and its listener; followers themselves never poll."""
    ids, stop = UuidV7Ids(), Latch()
    with ExitStack() as stack:
        api = stack.enter_context(closing(Database(database.url(API))))
        limits = Limits(pool_size=WRITERS)
        controller = stack.enter_context(closing(Database(database.url(CONTROLLER), limits=limits)))
        house = ApiHouse(
            unit=PostgresUnitOfWork(api, ids),
            queries=PostgresQueries(api),
            changes=PostgresChangeFeed(api),
            resource_changes=PostgresResourceFeed(api),
            finder=PostgresWorkFinder(api),
            clock=SystemClock(),
            ids=ids,
            blobs=open_blob_stores(f"file://{tmp_path}"),
            pace=Pace(poll=NEVER, ping=NEVER),
        )

        def notify(_channel: str, run_id: str) -> None:
            house.following.wake_followers(run_id)
            house.feed.hint()

        loops = (house.feed, Listener(database.url(API), notify, channels=("datarecs_run",)))
        threads = [threading.Thread(target=loop.run, args=(stop,)) for loop in loops]
        for thread in threads:
            thread.start()
        yield Place(database, house, PostgresUnitOfWork(controller, ids))
        stop.set()
        house.feed.wake.set()
        for thread in threads:
            thread.join(timeout=10)
            assert not thread.is_alive()


def new_run(place: Place, tenant: TenantId = A_TENANT) -> RunId:
    run = a_run(tenant_id=tenant)
    with place.house.unit.begin(run.tenant_id, feed=8) as tx:
        tx.runs.add(run)
        tx.outbox.append(triggered(run))
    return run.run_id


def a_fact_of_now(name: str = "attempt_lost") -> HistoryEntry:
    return a_fact(type=name, time=SystemClock().now())


def finish(place: Place, tenant: TenantId, run_id: RunId) -> None:
    """The event behind which readers read no further, so that a skipped one fails a test."""
    with place.controller.begin(tenant, feed=1) as tx:
        tx.runs.record(run_id, a_fact_of_now(LAST))


def read_to_the_end(frames_read: Iterable[Frame]) -> list[Frame]:
    result: list[Frame] = []
    for frame in frames_read:
        result.append(frame)
        if frame.data["type"] == LAST:
            break
    return result


def read(caller: TestClient, *, after: str, limit: int | None = None) -> list[Frame]:
    with caller.stream("GET", f"{PATH}?after={after}") as answer:
        return read_to_the_end(islice(frames(answer.iter_lines()), limit))


def read_cut(caller: TestClient) -> list[Frame]:
    """The same in pieces, each resumed behind the one before."""
    frames_read = read(caller, after="0", limit=37)
    while frames_read[-1].data["type"] != LAST:
        frames_read += read(caller, after=str(frames_read[-1].id), limit=37)
    return frames_read


def rvs(place: Place, tenant: TenantId = A_TENANT) -> list[str]:
    rows = place.database.query(
        "SELECT rv FROM datarecs.run_event WHERE tenant_id = %s ORDER BY rv", [tenant]
    )
    return [PLACES.write(tenant, rv) for (rv,) in rows]


@pytest.mark.case("L42")
def test_the_later_number_waits_for_the_slower_writer(place: Place) -> None:
    """Two writers commit out of order: the one with the higher number first."""
    slow, fast = new_run(place), new_run(place)
    with place.house.caller().stream("GET", f"{PATH}?after=0") as answer:
        events = frames(answer.iter_lines())
        for _ in range(2):
            next(events)
        with place.controller.begin(A_TENANT, feed=1) as slower:
            slower.runs.record(slow, a_fact_of_now())
            with place.controller.begin(A_TENANT, feed=1) as faster:
                faster.runs.record(fast, a_fact_of_now())
            withheld = place.house.feed.read()
        finish(place, A_TENANT, fast)
        rest = read_to_the_end(events)
    assert withheld == 0
    assert [frame.data["subject"] for frame in rest] == [f"run/{run}" for run in (slow, fast, fast)]


@pytest.mark.case("L42")
def test_a_silent_older_transaction_holds_an_event_no_longer_than_it_lasts(place: Place) -> None:
    """Its end is not announced, and no follower polls: the feed checks again by itself."""
    run = new_run(place)
    with place.house.caller().stream("GET", PATH) as answer:
        lines = answer.iter_lines()
        for _ in range(4):
            next(lines)
        with place.database.connect() as other, other.transaction():
            other.execute("SELECT pg_current_xact_id()")
            with place.controller.begin(A_TENANT, feed=1) as tx:
                tx.runs.record(run, a_fact_of_now())
            assert place.house.feed.read() == 0
        assert next(frames(lines)).data["subject"] == f"run/{run}"


def write(place: Place, run: tuple[TenantId, RunId]) -> None:
    """Two events a transaction, with waits in between, so that others overtake."""
    tenant, run_id = run
    chance = random.Random(run_id.int)  # noqa: S311  waits, no secrets
    for _ in range(TRANSACTIONS):
        with place.controller.begin(tenant, feed=2) as tx:
            tx.runs.for_update(run_id)
            for _ in range(2):
                tx.runs.record(run_id, a_fact_of_now())
                threading.Event().wait(chance.random() / 500)


@pytest.mark.slow
@pytest.mark.case("L42")
@pytest.mark.case("X04")
def test_eight_writers_are_read_completely_and_in_order(place: Place) -> None:
    """Of two tenants; one client is there all the time, one is cut and resumes again and again."""
    tenants = (A_TENANT, B_TENANT) * (WRITERS // 2)
    runs = [(tenant, new_run(place, tenant)) for tenant in tenants]
    caller, other = place.house.caller(), place.house.caller(B_TENANT)
    with ThreadPoolExecutor(WRITERS + 3) as pool:
        readers = [
            pool.submit(read, caller, after="0"),
            pool.submit(read_cut, caller),
            pool.submit(read, other, after="0"),
        ]
        writing = [pool.submit(write, place, run) for run in runs]
        wait(writing)
        for tenant, run_id in runs[:2]:
            finish(place, tenant, run_id)
        whole, pieces, theirs = ([frame.id for frame in one.result(60)] for one in readers)
    assert [one.result() for one in writing] == [None] * WRITERS
    assert whole == pieces == rvs(place)
    assert theirs == rvs(place, B_TENANT)
