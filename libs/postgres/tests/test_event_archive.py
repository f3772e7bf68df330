"""What the archive has beyond its port: who may read what, and a schema that is not there yet."""

from contextlib import closing

import pytest

from datarecs_application.errors import StoreUnavailableError
from datarecs_core.runs.events import RunFinalised
from datarecs_core.runs.model import RunResult
from datarecs_events.catalogue import Topic
from datarecs_postgres.database import Database
from datarecs_postgres.event_archive import PostgresEventArchive
from datarecs_postgres.migrate import downgrade, upgrade
from datarecs_postgres.roles import API, CONTROLLER, MAIL, MIGRATE, WEBHOOK
from datarecs_testing.builders import A_TENANT
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration

TRIGGERED = "io.datarecs.reconciliation.run.triggered"
FINALISED = "io.datarecs.reconciliation.run.finalised"


@pytest.mark.case("L02")
def test_the_notifier_reads_the_ends_of_runs_alone_whatever_it_requests(
    stores: Stores, database: PreparedDatabase
) -> None:
    run = stores.triggered()
    finalised = RunFinalised(
        run_id=run.run_id, job_id=run.job_id, tenant_id=A_TENANT, result=RunResult.MATCHED
    )
    with stores.controller.unit.begin(A_TENANT, feed=8) as tx:
        tx.outbox.append(finalised)
    stores.relay.mark_sent([row.event_id for row in stores.unsent()])
    both = (TRIGGERED, FINALISED)
    read = {role: types_read(database, role, both) for role in (MAIL, CONTROLLER, WEBHOOK)}
    assert read == {MAIL: [FINALISED], CONTROLLER: [TRIGGERED], WEBHOOK: [TRIGGERED, FINALISED]}


def types_read(database: PreparedDatabase, role: str, types: tuple[str, ...]) -> list[str]:
    with closing(Database(database.url(role))) as pool:
        events = list(PostgresEventArchive(pool).unheard("", Topic.RUN_PLATFORM, types))
    return [dict(record.headers)["ce_type"].decode() for record in events if record.headers]  # type: ignore[union-attr]  # no header of ours is null


def test_others_have_no_archive(database: PreparedDatabase) -> None:
    with closing(Database(database.url(API))) as pool, pytest.raises(StoreUnavailableError):
        PostgresEventArchive(pool).memory("core-api")


def test_an_older_schema_is_reported_as_what_it_is(private_database: PreparedDatabase) -> None:
    url = private_database.url(MIGRATE)
    downgrade(url, "0002")
    with closing(Database(private_database.url(CONTROLLER))) as pool:
        with pytest.raises(StoreUnavailableError, match="admin migrate"):
            PostgresEventArchive(pool).memory("run-controller")
        upgrade(url)
        assert not PostgresEventArchive(pool).memory("run-controller").has_marks
