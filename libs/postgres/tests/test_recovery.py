"""A restored database: leases of the lost future are refused, the last events are sent again."""

from datetime import timedelta

import pytest

from datarecs_application.ports.state import HeldLease
from datarecs_core.runs.model import RunStatus
from datarecs_core.values import EventId
from datarecs_postgres.recovery import EPOCHS, FEED_NUMBERS, RestoredDatabase
from datarecs_postgres.roles import MIGRATE
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.database import PreparedDatabase

pytestmark = [pytest.mark.integration, pytest.mark.case("K47")]


@pytest.fixture
def restored(database: PreparedDatabase) -> RestoredDatabase:
    return RestoredDatabase(database.url(MIGRATE))


def recover(restored: RestoredDatabase, *, ended: tuple[object, ...] = ()) -> tuple[int, int]:
    """(leases, events) up to the present."""
    now = restored.state(()).now
    done = restored.recover(until=now, ended=ended, dry_run=False)  # type: ignore[arg-type]  # ids
    return done.leases, done.events


def lease(database: PreparedDatabase, run_id: object) -> tuple[object, ...]:
    (row,) = database.query(
        "SELECT lease_epoch, lease_owner, attempt, releases, due_at <= now(),"
        " due_at > now() + interval '50 minutes' FROM datarecs.run_lease WHERE run_id = %s",
        (run_id,),
    )
    return row


def test_no_epoch_of_the_lost_future_is_accepted_again(
    stores: Stores, restored: RestoredDatabase
) -> None:
    """The held lease, and the leases that later workers can have had after the restored time."""
    run, leased = stores.leased()
    recover(restored)
    for later in range(3):
        epoch = leased.lease_epoch + later
        held = HeldLease(tenant_id=A_TENANT, run_id=run.run_id, lease_epoch=epoch)
        assert not stores.worker.finder.renew([held])[run.run_id].current
    again = stores.worker.finder.lease_run("worker-2")
    assert again is not None
    assert again.lease_epoch == leased.lease_epoch + EPOCHS + 1


def test_a_held_run_returns_to_the_queue_without_use_of_an_attempt(
    stores: Stores, database: PreparedDatabase, restored: RestoredDatabase
) -> None:
    run, leased = stores.leased()
    recover(restored)
    assert lease(database, run.run_id) == (1 + EPOCHS, None, 0, 1, True, False)
    again = stores.worker.finder.lease_run("worker-2")
    assert again is not None
    assert (again.run_id, again.attempt) == (run.run_id, leased.attempt)
    assert stores.stored(run.run_id).status is RunStatus.RUNNING


def test_a_run_whose_end_is_in_the_topics_is_not_started_again_first(
    stores: Stores, database: PreparedDatabase, restored: RestoredDatabase
) -> None:
    run, _ = stores.leased()
    waiting = stores.queued()
    recover(restored, ended=(run.run_id, waiting.run_id))
    assert lease(database, run.run_id)[4:] == (False, True)
    assert lease(database, waiting.run_id)[4:] == (False, True)
    assert stores.worker.finder.lease_run("worker-2") is None


def test_a_run_that_no_worker_may_take_stays_so(stores: Stores, restored: RestoredDatabase) -> None:
    run, _ = stores.leased()
    with stores.controller.unit.begin(A_TENANT, feed=8) as tx:
        tx.leases.fence(run.run_id)
    recover(restored)
    assert stores.worker.finder.lease_run("worker-2") is None


def test_only_the_last_events_are_sent_again_and_with_the_same_ids(
    stores: Stores, database: PreparedDatabase, restored: RestoredDatabase
) -> None:
    stores.triggered()
    (old,) = stores.unsent()
    stores.relay.mark_sent([old.event_id])
    database.query("UPDATE datarecs.outbox SET created_at = created_at - interval '16 minutes'")
    stores.triggered()
    stores.triggered()
    sent, waiting = stores.unsent()
    stores.relay.mark_sent([sent.event_id])
    assert recover(restored)[1] == 1
    again = stores.unsent()
    assert [row.event_id for row in again] == [sent.event_id, waiting.event_id]
    assert [row.data for row in again] == [sent.data, waiting.data]


def test_it_may_be_repeated(
    stores: Stores, database: PreparedDatabase, restored: RestoredDatabase
) -> None:
    run, _ = stores.leased()
    recover(restored)
    first = [row.event_id for row in stores.unsent()]
    recover(restored)
    assert [row.event_id for row in stores.unsent()] == first
    assert lease(database, run.run_id) == (1 + 2 * EPOCHS, None, 0, 1, True, False)


def test_a_dry_run_counts_the_same_and_changes_nothing(
    stores: Stores, database: PreparedDatabase, restored: RestoredDatabase
) -> None:
    run, _ = stores.leased()
    stores.relay.mark_sent([row.event_id for row in stores.unsent()])
    before = lease(database, run.run_id), feed_number(database)
    now = restored.state(()).now
    would = restored.recover(until=now, ended=(), dry_run=True)
    assert (lease(database, run.run_id), feed_number(database)) == before
    assert stores.unsent() == []
    assert (would.leases, would.events) == recover(restored)


def feed_number(database: PreparedDatabase) -> int:
    ((number,),) = database.query("SELECT last_value FROM datarecs.feed_rv")
    return int(number)


def test_numbers_of_the_lost_future_are_not_drawn_again(
    stores: Stores, database: PreparedDatabase, restored: RestoredDatabase
) -> None:
    stores.triggered()
    before = feed_number(database)
    recover(restored)
    run = stores.triggered()
    assert stores.stored(run.run_id).feed_rv > before + FEED_NUMBERS


def test_deliveries_mails_and_shards_get_new_epochs(
    database: PreparedDatabase, restored: RestoredDatabase
) -> None:
    """A shard's owner of the lost future sends nothing more, and shards are free at once."""
    database.query(
        "UPDATE datarecs.relay_shard SET owner = 'gone', epoch = 7,"
        " lease_until = now() + interval '1 minute'"
    )
    database.query("INSERT INTO datarecs.relay_owner VALUES ('gone', now() + interval '1 minute')")
    ((shards,),) = database.query("SELECT count(*) FROM datarecs.relay_shard")
    assert recover(restored)[0] == shards
    rows = database.query("SELECT DISTINCT owner, epoch, lease_until FROM datarecs.relay_shard")
    assert rows == [(None, 7 + EPOCHS, None)]
    assert database.query("SELECT * FROM datarecs.relay_owner") == []


def test_the_state_names_the_newest_event_and_what_a_group_handled_last(
    stores: Stores, restored: RestoredDatabase
) -> None:
    assert restored.state(["run-controller"]).newest is None
    stores.triggered()
    (row,) = stores.unsent()
    with stores.controller.unit.begin(A_TENANT, feed=8) as tx:
        assert tx.inbox.first_time("run-controller", "/test", row.event_id)
    stores.triggered()
    newest = stores.unsent()[-1].created_at
    state = restored.state(["run-controller", "email-notifier"])
    assert state.newest == newest
    assert state.handled == {"run-controller": row.created_at}
    assert timedelta(0) <= state.now - newest < timedelta(minutes=1)


def test_known_events_and_runs_are_those_with_a_row(
    stores: Stores, restored: RestoredDatabase
) -> None:
    run = stores.triggered()
    (row,) = stores.unsent()
    unknown = EventId(an_id())
    pairs = [(A_TENANT, row.event_id), (A_TENANT, unknown)]
    assert restored.known_events(pairs) == {row.event_id}
    assert restored.known_runs({run.run_id, an_id()}) == {run.run_id}  # type: ignore[arg-type]  # ids
    assert restored.completed_runs() == []
