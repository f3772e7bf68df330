"""The service as a process: a table is rolled back or created again, and a person decides."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyiceberg.table.update import SetSnapshotRefUpdate

from datarecs_core.errors.sink import SinkCode
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.accepting import requested
from datarecs_core.sink.decisions import DecisionState, WaitingRecords
from datarecs_core.values import ResourceUid
from datarecs_postgres.roles import API
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.lake import NAMESPACE
from datarecs_testing.service_process import running_service
from datarecs_testing.sink_process import MODULE, TABLE, SinkHouse, wait_until
from datarecs_testing.stack import KafkaBroker

pytestmark = pytest.mark.integration
SECOND = "second"


@pytest.fixture
def house(
    private_database: PreparedDatabase, kafka_broker: KafkaBroker, tmp_path: Path
) -> Iterator[SinkHouse]:
    with ExitStack() as stack:
        yield SinkHouse(
            database=private_database, broker=kafka_broker, folder=tmp_path, stack=stack
        )


def declared(house: SinkHouse) -> ResourceUid:
    """Every record goes to both tables."""
    tables = [{"catalog": "lake", "namespace": NAMESPACE, "name": one} for one in (TABLE, SECOND)]
    spec = {name: one for name, one in house.sink_spec(tables=tables).items() if name != "table"}
    return house.declare(Kind.SINK_TABLE, "orders", spec)


def ids_of(house: SinkHouse, name: str) -> Counter[int]:
    table = house.lake.catalog.load_table(f"{NAMESPACE}.{name}")
    return Counter(table.scan().to_arrow().column("id").to_pylist())


def once(*ranges: range) -> Counter[int]:
    return Counter(number for one in ranges for number in one)


def has_fault(house: SinkHouse, uid: ResourceUid, code: SinkCode) -> bool:
    reports = [one.report for one in house.status(uid).tasks]
    return any(one is not None and one.error_code == code.name for one in reports)


def decide(house: SinkHouse, uid: ResourceUid, records: WaitingRecords) -> None:
    """As the API does."""
    with house.transaction(API) as tx:
        commits = tx.sinks.newest_commits(uid)
        checkpoint = tx.sinks.status(uid).state.checkpoint
        place = ("lake", (NAMESPACE,), TABLE)
        assert tx.sinks.decide(uid, requested(checkpoint, place, records, commits))


def is_done(house: SinkHouse, uid: ResourceUid) -> bool:
    decision = house.status(uid).state.checkpoint.decision
    assert decision is None or decision.state is not DecisionState.REFUSED, decision
    return decision is not None and decision.state is DecisionState.DONE


@pytest.mark.case("I56")
def test_records_of_a_table_that_was_rolled_back_are_committed_again_once(
    house: SinkHouse,
) -> None:
    uid = declared(house)
    house.send(range(100))
    house.want(uid)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: house.rows()[0] == 100, service.text)
        first = house.lake.catalog.load_table(f"{NAMESPACE}.{TABLE}")
        house.send(range(100, 200))
        wait_until(lambda: house.rows()[0] == 200, service.text)
        rolled_to = SetSnapshotRefUpdate.model_validate(
            {
                "ref-name": "main",
                "type": "branch",
                "snapshot-id": first.metadata.current_snapshot_id,
            }
        )
        present = house.lake.catalog.load_table(f"{NAMESPACE}.{TABLE}")
        house.lake.catalog.commit_table(present, (), (rolled_to,))
        house.send(range(200, 300))
        wait_until(lambda: has_fault(house, uid, SinkCode.TABLE_ROLLED_BACK), service.text)
        decide(house, uid, WaitingRecords.COMMIT)
        house.forget_members(uid)
        wait_until(lambda: is_done(house, uid), service.text)
        house.send(range(300, 400))
        wait_until(lambda: house.rows()[0] >= 400, service.text)
        wait_until(lambda: len(ids_of(house, SECOND)) == 400, service.text)
        assert service.stop() == 0, service.text()
    assert ids_of(house, TABLE) == once(range(400))
    assert ids_of(house, SECOND) == once(range(400))


@pytest.mark.case("I55")
def test_files_of_a_table_that_was_created_again_go_into_the_new_one_once(
    house: SinkHouse,
) -> None:
    uid = declared(house)
    house.send(range(100))
    house.want(uid)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: house.rows()[0] == 100, service.text)
        wait_until(lambda: len(ids_of(house, SECOND)) == 100, service.text)
        name = f"{NAMESPACE}.{TABLE}"
        lost = house.lake.catalog.load_table(name)
        house.lake.catalog.drop_table(name)
        house.send(range(100, 200))
        wait_until(lambda: has_fault(house, uid, SinkCode.TABLE_LOST), service.text)
        # A task that read its state before the first commit has created it.
        house.lake.catalog.create_table_if_not_exists(name, lost.schema())
        decide(house, uid, WaitingRecords.COMMIT)
        house.forget_members(uid)
        wait_until(lambda: is_done(house, uid), service.text)
        house.send(range(200, 300))
        wait_until(lambda: house.rows()[0] >= 200, service.text)
        wait_until(lambda: len(ids_of(house, SECOND)) == 300, service.text)
        assert service.stop() == 0, service.text()
    assert ids_of(house, TABLE) == once(range(100, 300))
    assert ids_of(house, SECOND) == once(range(300))
