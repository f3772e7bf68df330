"""What the relay's adapter has beyond its port: the backlog, and parked rows handed back."""

from datetime import timedelta

import pytest
from sqlalchemy.exc import ProgrammingError

from datarecs_postgres.outbox_reader import PostgresOutboxReader
from datarecs_postgres.parking import parked, unpark
from datarecs_postgres.roles import API, RELAY
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration


@pytest.fixture
def relay(stores: Stores) -> PostgresOutboxReader:
    assert isinstance(stores.relay, PostgresOutboxReader)
    return stores.relay


def test_an_empty_outbox_has_no_backlog(relay: PostgresOutboxReader) -> None:
    backlog = relay.backlog()
    assert (backlog.unsent, backlog.oldest_unsent, backlog.parked) == (0, timedelta(0), 0)


def test_the_backlog_counts_what_waits_and_what_is_parked(
    stores: Stores, relay: PostgresOutboxReader
) -> None:
    for _ in range(3):
        stores.triggered()
    sent, parked, waiting = stores.unsent()
    relay.mark_sent([sent.event_id])
    relay.mark_failed(parked.event_id, "too large", park=True)
    backlog = relay.backlog()
    assert (backlog.unsent, backlog.parked) == (1, 1)
    assert timedelta(0) < backlog.oldest_unsent < timedelta(minutes=1)
    assert stores.unsent() == [waiting]


def test_a_parked_event_is_sent_after_it_was_handed_back(
    stores: Stores, relay: PostgresOutboxReader
) -> None:
    for _ in range(2):
        stores.triggered()
    rows = stores.unsent()
    for row in rows:
        relay.mark_failed(row.event_id, "too large", park=True)
    assert stores.unsent() == []
    assert relay.unpark(rows[0].event_id) == 1
    assert stores.unsent() == rows[:1]
    assert relay.unpark() == 1
    assert stores.unsent() == rows


def test_attempts_and_the_last_error_are_stored(
    stores: Stores, relay: PostgresOutboxReader, database: PreparedDatabase
) -> None:
    stores.triggered()
    (row,) = stores.unsent()
    relay.mark_failed(row.event_id, 3000 * "x", park=False)
    relay.mark_sent([row.event_id])
    stored = database.query(
        "SELECT attempts, length(last_error), sent_at IS NOT NULL, service FROM datarecs.outbox"
    )
    assert stored == [(2, 2000, True, "core-api")]


def test_an_operator_sees_what_is_parked_and_hands_back_what_is_named(
    stores: Stores, relay: PostgresOutboxReader, database: PreparedDatabase
) -> None:
    for _ in range(3):
        stores.triggered()
    first, second, waiting = stores.unsent()
    for row in (first, second):
        relay.mark_failed(row.event_id, "too large", park=True)
    url = database.url(RELAY)
    assert [(one.event_id, one.last_error) for one in parked(url)] == [
        (first.event_id, "too large"),
        (second.event_id, "too large"),
    ]
    assert unpark(url, [first.event_id]) == 1
    assert unpark(url, [first.event_id, waiting.event_id]) == 0
    assert [one.event_id for one in parked(url)] == [second.event_id]
    assert stores.unsent() == [first, waiting]
    assert unpark(url) == 1
    assert (parked(url), stores.unsent()) == ([], [first, second, waiting])


def test_nobody_but_the_relay_hands_events_back(database: PreparedDatabase) -> None:
    with pytest.raises(ProgrammingError, match="permission denied"):
        unpark(database.url(API))
