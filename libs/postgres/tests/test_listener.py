"""Wake-ups over a session connection, and coming back when it breaks."""

import queue
import threading
from collections.abc import Iterator

import pytest

from datarecs_postgres.listener import Listener
from datarecs_postgres.roles import API
from datarecs_runtime.clock import Latch
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration

Notifications = queue.Queue[tuple[str, str]]
SOON = 10.0


@pytest.fixture
def notifications(database: PreparedDatabase) -> Iterator[Notifications]:
    """The notifications of a running listener; the first two lines show that it listens."""
    lines: Notifications = queue.Queue()
    stop = Latch()
    listener = Listener(database.url(API), lambda channel, payload: lines.put((channel, payload)))
    thread = threading.Thread(target=listener.run, args=(stop,))
    thread.start()
    yield lines
    stop.set()
    thread.join(SOON)
    assert not thread.is_alive()


def test_a_commit_is_announced_with_the_run(notifications: Notifications, stores: Stores) -> None:
    opening = [notifications.get(timeout=SOON), notifications.get(timeout=SOON)]
    run = stores.triggered()
    received = [notifications.get(timeout=SOON), notifications.get(timeout=SOON)]
    assert opening == [("datarecs_wake", ""), ("datarecs_run", "")]
    assert received == [("datarecs_run", str(run.run_id)), ("datarecs_wake", "outbox work")]


def test_a_lease_is_announced_though_it_has_no_event(
    notifications: Notifications, stores: Stores
) -> None:
    run = stores.queued()
    stores.worker.finder.lease_run("worker-1")
    received = [notifications.get(timeout=SOON) for _ in range(7)]
    assert received[-1] == ("datarecs_run", str(run.run_id))


@pytest.mark.case("L42")
def test_a_broken_connection_is_made_again_and_says_so(
    notifications: Notifications, database: PreparedDatabase, stores: Stores
) -> None:
    for _ in range(2):
        notifications.get(timeout=SOON)
    database.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE usename = %s AND query LIKE 'LISTEN%%'",
        (API,),
    )
    again = [notifications.get(timeout=SOON), notifications.get(timeout=SOON)]
    run = stores.triggered()
    assert again == [("datarecs_wake", ""), ("datarecs_run", "")]
    assert notifications.get(timeout=SOON) == ("datarecs_run", str(run.run_id))


def test_it_is_a_loop_with_a_name() -> None:
    assert Listener("postgresql://u:p@127.0.0.1:1/d", print).name == "listener"
