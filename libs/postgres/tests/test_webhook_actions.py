"""Actions in PostgreSQL against the suite of their port, and through kills of the service."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from datarecs_application.loops.webhook_expanding import WebhookExpanding
from datarecs_application.stored_specs import StoredSpecs
from datarecs_application.webhook_actions import Expanding, request_action
from datarecs_core.values import EventId
from datarecs_core.webhooks.actions import ActionState, WebhookAction, Window
from datarecs_core.webhooks.delivery import Origin
from datarecs_events.endpoint_tests import make_test
from datarecs_postgres.database import Database
from datarecs_postgres.roles import API, WEBHOOK
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_testing.builders import A_TENANT
from datarecs_testing.conformance.webhook_actions import HOUR, WebhookActionsConformance
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.deliveries import a_message, an_endpoint, read_endpoint
from datarecs_testing.metrics import RecordedMetrics

pytestmark = pytest.mark.integration

EVENTS = 7
MESSAGES_A_CHUNK = 3


class TestWebhookActions(WebhookActionsConformance):
    pass


@pytest.fixture
def units(database: PreparedDatabase) -> Iterator[dict[str, PostgresUnitOfWork]]:
    opened = {role: Database(database.url(role)) for role in (API, WEBHOOK)}
    yield {role: PostgresUnitOfWork(one, UuidV7Ids()) for role, one in opened.items()}
    for one in opened.values():
        one.close()


@pytest.mark.case("W35")
@pytest.mark.crash
def test_a_replay_survives_kills_before_and_within_its_expansion(
    database: PreparedDatabase, units: dict[str, PostgresUnitOfWork]
) -> None:
    ids = UuidV7Ids()
    events = [EventId(ids.new()) for _ in range(EVENTS)]
    with units[API].begin(A_TENANT, feed=8) as tx:
        endpoint = an_endpoint(rv=tx.next_rv(), created_at=tx.now)
        tx.resources.add(endpoint)
    with units[WEBHOOK].begin(A_TENANT) as tx:
        for event in events:
            tx.deliveries.store_event(event, a_message(event))
    with units[API].begin(A_TENANT, feed=8) as tx:
        action = WebhookAction(
            tenant_id=A_TENANT,
            action_id=ids.new(),
            endpoint_uid=endpoint.uid,
            kind=Origin.REPLAY,
            requested_by="u-ana",
            created_at=tx.now,
            window=Window(since=tx.now - HOUR, until=tx.now, only_missing=False),
            expected=EVENTS,
        )
        request_action(tx, endpoint, action)
    # Killed with a chunk written and not committed; then between the commits of two chunks.
    kill_within_turn(database, commits=0)
    assert made_so_far(units, action.action_id) == 0
    kill_within_turn(database, commits=1)
    assert made_so_far(units, action.action_id) == MESSAGES_A_CHUNK
    service = Database(database.url(WEBHOOK))
    loop = a_loop(service)
    while loop.turn():
        pass
    service.close()
    with units[WEBHOOK].begin(A_TENANT) as tx:
        done = tx.webhook_actions.get(action.action_id)
        made = tx.deliveries.of_endpoint(endpoint.uid, 100)
    assert done is not None
    assert (done.state, done.made) == (ActionState.DONE, EVENTS)
    assert sorted(one.event_id for one in made) == sorted(events)
    replayed = "SELECT count(*) FROM datarecs.outbox WHERE type LIKE '%%delivery.replayed'"
    assert database.query(replayed) == [(1,)]


def made_so_far(units: dict[str, PostgresUnitOfWork], action_id: UUID) -> int:
    with units[WEBHOOK].begin(A_TENANT) as tx:
        action = tx.webhook_actions.read(action_id)
    assert action is not None
    return action.made


def a_loop(database: Database) -> WebhookExpanding:
    ids = UuidV7Ids()
    return WebhookExpanding(
        PostgresWorkFinder(database),
        PostgresUnitOfWork(database, ids),
        Expanding(specs=StoredSpecs(read_endpoint), ids=ids, make_test=make_test),
        metrics=RecordedMetrics(),
        clock=SystemClock(),
    )


def kill_within_turn(database: PreparedDatabase, *, commits: int) -> None:
    """Another process expands, and dies by SIGKILL in the chunk after so many committed ones."""
    program = Path(__file__).with_name("killed_expansion.py")
    ended = subprocess.run(
        [sys.executable, str(program), database.url(WEBHOOK), str(commits)],
        timeout=60,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
