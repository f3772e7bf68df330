"""Watches over a real database: writers that commit out of order, and two readers (R14)."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from datarecs_core.resources.resource import Kind
from datarecs_core.values import TenantId
from datarecs_core_api.following import Pace
from datarecs_postgres.change_feed import PostgresChangeFeed, PostgresResourceFeed
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.listener import Listener
from datarecs_postgres.queries import PostgresQueries
from datarecs_postgres.roles import API
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids
from datarecs_storage.opening import open_blob_stores
from datarecs_testing.api import WATCH_PLACES, ApiHouse
from datarecs_testing.builders import A_TENANT, B_TENANT, a_resource
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.live_views import Frame, frames

pytestmark = pytest.mark.integration
PATH = "/api/v1/connections"
NEVER = timedelta(minutes=10)
WRITERS, TRANSACTIONS, LAST = 8, 40, "the-last-one"


@dataclass(frozen=True)
class Place:
    database: PreparedDatabase
    house: ApiHouse
    writers: PostgresUnitOfWork


@pytest.fixture
def place(database: PreparedDatabase, tmp_path: Path) -> Iterator[Place]:
    """core-api with its reader of the feed; watchers themselves never poll."""
    ids, stop = UuidV7Ids(), Latch()
    with ExitStack() as stack:
        api = stack.enter_context(closing(Database(database.url(API))))
        limits = Limits(pool_size=WRITERS)
        writers = stack.enter_context(closing(Database(database.url(API), limits=limits)))
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

        def on_notice(channel: str, payload: str) -> None:
            if channel == "datarecs_wake" and (not payload or "changes" in payload.split()):
                house.watch_feed.hint()

        loops = (house.watch_feed, Listener(database.url(API), on_notice))
        threads = [threading.Thread(target=loop.run, args=(stop,)) for loop in loops]
        for thread in threads:
            thread.start()
        yield Place(database, house, PostgresUnitOfWork(writers, ids))
        stop.set()
        house.watch_feed.wake.set()
        for thread in threads:
            thread.join(timeout=10)
            assert not thread.is_alive()


def change(place: Place, tenant: TenantId, name: str, *, pause_s: float = 0) -> None:
    """One transaction with two changes and a wait between them, so that others overtake it."""
    with place.writers.begin(tenant, feed=2) as tx:
        for _ in range(2):
            resource = a_resource(tenant_id=tenant, name=name, rv=tx.next_rv())
            tx.resources.record_change(resource, op="CREATED", changed=(), actor="u-1")
            threading.Event().wait(pause_s)


def write(place: Place, number: int) -> None:
    chance = random.Random(number)  # noqa: S311  waits, no secrets
    tenant = (A_TENANT, B_TENANT)[number % 2]
    for _ in range(TRANSACTIONS):
        change(place, tenant, f"w{number}", pause_s=chance.random() / 500)


def name_of(frame: Frame) -> object:
    metadata = frame.data["metadata"]
    assert isinstance(metadata, dict)
    return metadata["name"]


def read(caller: TestClient, *, since: str, limit: int | None = None) -> list[Frame]:
    seen: list[Frame] = []
    with caller.stream("GET", f"{PATH}?watch=1&since={since}") as answer:
        for frame in islice(frames(answer.iter_lines()), limit):
            seen.append(frame)
            if name_of(frame) == LAST:
                break
    return seen


def read_in_pieces(caller: TestClient, *, since: str) -> list[Frame]:
    """The same, each piece resumed behind the one before."""
    seen = read(caller, since=since, limit=37)
    while name_of(seen[-1]) != LAST:
        seen += read(caller, since=str(seen[-1].id), limit=37)
    return seen


def numbers(seen: list[Frame], tenant: TenantId = A_TENANT) -> list[int]:
    places = [WATCH_PLACES.read(tenant, one.id or "") for one in seen]
    return [known[0] for known in places if known is not None]


@pytest.mark.slow
@pytest.mark.case("R14")
@pytest.mark.case("R71")
def test_eight_writers_are_watched_completely_and_in_order(place: Place) -> None:
    """Of two tenants; one client is there all the time, one is cut and resumes again and again."""
    caller, other = place.house.caller(), place.house.caller(B_TENANT)
    ours, theirs = (one.get(PATH).json()["watch_since"] for one in (caller, other))
    with ThreadPoolExecutor(WRITERS + 3) as pool:
        readers = [
            pool.submit(read, caller, since=ours),
            pool.submit(read_in_pieces, caller, since=ours),
            pool.submit(read, other, since=theirs),
        ]
        list(pool.map(lambda number: write(place, number), range(WRITERS)))
        for tenant in (A_TENANT, B_TENANT):
            change(place, tenant, LAST)
        whole, pieces, others = (one.result(60) for one in readers)
    stored = {
        tenant: [
            rv
            for (rv,) in place.database.query(
                "SELECT rv FROM datarecs.resource_change WHERE tenant_id = %s ORDER BY rv", [tenant]
            )
        ]
        for tenant in (A_TENANT, B_TENANT)
    }
    assert len(stored[A_TENANT]) == WRITERS * TRANSACTIONS + 2
    assert numbers(whole) == numbers(pieces) == stored[A_TENANT][:-1]
    assert numbers(others, B_TENANT) == stored[B_TENANT][:-1]


@pytest.mark.case("R13")
def test_a_list_does_not_run_ahead_of_a_slower_writer(place: Place) -> None:
    """A place after a change that is not committed yet would lose it."""
    caller = place.house.caller()
    with place.writers.begin(A_TENANT, feed=1) as slow:
        late = a_resource(name="late", rv=slow.next_rv())
        slow.resources.record_change(late, op="CREATED", changed=(), actor="u-1")
        change(place, A_TENANT, "early")
        since = caller.get(PATH).json()["watch_since"]
    change(place, A_TENANT, LAST)
    assert [name_of(one) for one in read(caller, since=since)] == ["late", "early", "early", LAST]


def test_changes_of_an_earlier_release_request_a_new_list(place: Place) -> None:
    """It stores the object only for DELETED, and without its version."""
    caller = place.house.caller()
    since = caller.get(PATH).json()["watch_since"]
    change(place, A_TENANT, "x")
    assert read_one(caller, since) == "x"
    for body in (None, '{"name": "x"}'):
        with place.database.connect() as connection:
            connection.execute("UPDATE datarecs.resource_change SET body = %s", [body])
        assert caller.get(f"{PATH}?watch=1&since={since}").status_code == 410
        items = caller.get(f"{PATH}/x/changes").json()["items"]
        assert [one["op"] for one in items] == ["CREATED", "CREATED"]


def read_one(caller: TestClient, since: str) -> object:
    return name_of(read(caller, since=since, limit=1)[0])


def test_a_change_of_a_kind_is_read_with_its_labels(place: Place) -> None:
    caller = place.house.caller()
    with place.writers.begin(A_TENANT, feed=1) as tx:
        resource = a_resource(kind=Kind.SCHEDULE, name="s", labels={"a": "b"}, rv=tx.next_rv())
        tx.resources.record_change(
            resource, op="UPDATED", changed=("labels",), actor="u-1", old_labels={}
        )
    entries = place.house.resource_changes.entries(
        A_TENANT, None, after=0, upto=resource.rv, limit=9
    )
    assert [(one.resource, one.old_labels) for one in entries] == [(resource, {})]
    assert caller.get(f"{PATH}/s/changes").status_code == 404
