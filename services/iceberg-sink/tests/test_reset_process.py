"""The service as a process: a reset to a position that the topic does not have, and a right one."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from datarecs_core.resources.resource import Kind
from datarecs_core.sink.accepting import held_positions
from datarecs_core.sink.checkpoint import TaskReport
from datarecs_core.sink.control import SourcePartition
from datarecs_core.values import ResourceUid
from datarecs_postgres.roles import API
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import running_service
from datarecs_testing.sink_process import MODULE, SinkHouse, wait_until
from datarecs_testing.stack import KafkaBroker

pytestmark = pytest.mark.integration


@pytest.fixture
def house(
    private_database: PreparedDatabase, kafka_broker: KafkaBroker, tmp_path: Path
) -> Iterator[SinkHouse]:
    with ExitStack() as stack:
        yield SinkHouse(
            database=private_database, broker=kafka_broker, folder=tmp_path, stack=stack
        )


def reset(house: SinkHouse, uid: ResourceUid, positions: Mapping[SourcePartition, int]) -> None:
    """As the API does, but without a check of the ends."""
    with house.transaction(API) as tx:
        commits = tx.sinks.newest_commits(uid)
        held = held_positions(tx.sinks.status(uid).state.checkpoint, commits, ())
        assert tx.sinks.reset(uid, positions or held, held)


def accepted_by(house: SinkHouse, uid: ResourceUid) -> Mapping[SourcePartition, int]:
    partitions = house.status(uid).state.checkpoint.partitions
    return {name: one.accepted for name, one in partitions.items()}


def report_of(house: SinkHouse, uid: ResourceUid) -> TaskReport:
    (task,) = house.status(uid).tasks
    return task.report or TaskReport()


def test_a_reset_without_positions_undoes_one_above_the_end_at_once(house: SinkHouse) -> None:
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec())
    first = SourcePartition(house.topic, 0)
    house.send(range(100))
    house.want(uid)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: house.rows()[0] == 100, service.text)
        wait_until(lambda: sum(accepted_by(house, uid).values()) == 100, service.text)
        wait_until(lambda: first in report_of(house, uid).ends, service.text)
        accepted = accepted_by(house, uid)
        reset(house, uid, {first: 5000})
        house.forget_members(uid)
        wait_until(lambda: report_of(house, uid).is_halted, service.text)
        report = report_of(house, uid)
        assert f"positions that it has are 0 to {report.ends[first]}" in report.error
        wait_until(lambda: house.status(uid).state.checkpoint.lineage is not None, service.text)
        reset(house, uid, {})
        assert report_of(house, uid) == TaskReport(ends=report.ends)
        assert accepted_by(house, uid) == accepted
        house.forget_members(uid)
        house.send(range(100, 200))
        seen = set[str]()

        def is_committed() -> bool:
            seen.add(report_of(house, uid).error)
            return house.rows()[0] >= 200

        wait_until(is_committed, service.text)
        assert service.stop() == 0, service.text()
    assert seen == {""}
    assert house.rows() == (200, 200)
