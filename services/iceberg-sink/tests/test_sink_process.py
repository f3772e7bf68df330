"""The service as a process: records of a topic become rows of a table, each once."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # publishes no types
import pytest

from datarecs_core.errors.sink import SinkCode
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.checkpoint import TaskWish
from datarecs_core.values import ResourceUid
from datarecs_postgres.roles import API
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import running_service
from datarecs_testing.sink_process import MODULE, SinkHouse, tasks_of, wait_until
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


def test_every_record_of_two_partitions_becomes_one_row(house: SinkHouse) -> None:
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec(tasks=2))
    house.send(range(1_500))
    house.want(uid, tasks=2)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: house.rows()[0] >= 1_500, service.text)
        house.send(range(1_500, 3_000))
        wait_until(lambda: house.rows()[0] >= 3_000, service.text)
        assert all(task.is_held for task in house.status(uid).tasks)
        assert service.stop() == 0, service.text()
    assert house.rows() == (3_000, 3_000)
    assert sum(one.records for one in house.commits(uid)) == 3_000


def begun(house: SinkHouse, uid: ResourceUid, *, tasks: int) -> bool:
    """Whether every task has reported."""
    reports = [one.report for one in house.status(uid).tasks]
    return len(reports) == tasks and None not in reports


@pytest.mark.case("I66")
def test_killed_tasks_and_services_lose_and_double_nothing(house: SinkHouse) -> None:
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec(tasks=2))
    house.want(uid, tasks=2)
    sent = 0
    log = house.folder / "log"
    with running_service(MODULE, house.settings, log=log) as service:
        wait_until(lambda: len(tasks_of(service)) >= 2, service.text)
        house.send(range(sent, sent := sent + 1_000))
        wait_until(lambda: house.rows()[0] >= sent - 700, service.text)
        killed = tasks_of(service)[0]
        os.kill(killed.pid, signal.SIGKILL)
        house.forget_members(uid)
        house.send(range(sent, sent := sent + 500))
        wait_until(lambda: house.rows()[0] >= sent, service.text, seconds=120)
        house.send(range(sent, sent := sent + 500))
        orphans = tasks_of(service)
        service.kill()
        _, alive = psutil.wait_procs(orphans, timeout=10)
        assert alive == []
        house.forget_members(uid)
    house.database.query("UPDATE datarecs.sink_task SET lease_until = now()")
    with running_service(MODULE, house.settings, log=log) as service:
        wait_until(lambda: house.rows()[0] >= sent, service.text, seconds=120)
        assert service.stop() == 0, service.text()
    assert house.rows() == (sent, sent)
    events = house.database.query(
        "SELECT type, count(*) FROM datarecs.outbox WHERE topic = 'datarecs.sink' GROUP BY type"
    )
    ((snapshots,),) = house.database.query("SELECT count(*) FROM datarecs.sink_table_commit")
    ((cycles,),) = house.database.query("SELECT count(*) FROM datarecs.sink_commit")
    assert dict(events) == {
        "io.datarecs.sink.table.committed": snapshots,
        "io.datarecs.sink.commit.completed": cycles,
    }


@pytest.mark.case("I69")
def test_a_task_has_no_login_of_the_platform_and_no_secret_in_its_environment(
    house: SinkHouse,
) -> None:
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec())
    house.want(uid)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: begun(house, uid, tasks=1), service.text)
        (task,) = tasks_of(service)
        environment = task.environ()
        assert not [name for name in environment if name.startswith("DATARECS_")]
        assert house.broker.password not in str(environment)
        assert house.broker.password not in " ".join(task.cmdline())
        assert house.broker.password not in service.text()


def test_tasks_of_a_paused_sink_end_and_go_on_later_and_a_drained_one_ends(
    house: SinkHouse,
) -> None:
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec(tasks=2))
    house.send(range(100))
    house.want(uid, tasks=2)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: house.rows()[0] == 100, service.text)
        house.want(uid, tasks=2, wish=TaskWish.PAUSE)
        wait_until(
            lambda: all(one.is_resting for one in house.status(uid).tasks), service.text, seconds=90
        )
        assert tasks_of(service) == []
        house.send(range(100, 200))
        house.want(uid, tasks=2)
        wait_until(lambda: house.rows()[0] == 200, service.text)
        house.want(uid, tasks=2, wish=TaskWish.DRAIN)
        wait_until(lambda: house.status(uid).state.is_drained, service.text)
        wait_until(lambda: not any(one.is_held for one in house.status(uid).tasks), service.text)
        assert service.stop() == 0, service.text()
    assert house.rows() == (200, 200)


def test_another_declaration_reaches_the_task(house: SinkHouse) -> None:
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec())
    house.send(range(100))
    house.want(uid)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: house.rows()[0] == 100, service.text)
        (before,) = tasks_of(service)
        house.want(uid, revision="2")
        wait_until(lambda: not before.is_running(), service.text)
        house.send(range(100, 200))
        wait_until(lambda: house.rows()[0] == 200, service.text)
        (after,) = tasks_of(service)
        assert after.pid != before.pid
        assert service.stop() == 0, service.text()
    assert house.rows() == (200, 200)


def halted(house: SinkHouse, uid: ResourceUid) -> bool:
    report = house.status(uid).tasks[0].report
    return report is not None and report.is_halted


def test_a_halted_task_goes_on_after_another_declaration(house: SinkHouse) -> None:
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec())
    house.send(range(100))
    house.want(uid)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: house.rows()[0] == 100, service.text)
        house.send_values([b"no JSON"])
        house.send(range(100, 200))
        wait_until(lambda: halted(house, uid), service.text)
        with house.transaction(API) as tx:
            assert tx.sinks.retry(uid)
        wait_until(lambda: not halted(house, uid), service.text)
        wait_until(lambda: halted(house, uid), service.text)
        report = house.status(uid).tasks[0].report
        assert report is not None
        assert report.error_code == SinkCode.BAD_RECORD.name
        house.declare_again(uid, house.sink_spec(errors={"tolerance": "dead_letter"}))
        house.want(uid, revision="2")
        wait_until(lambda: house.rows()[0] == 200, service.text)
        wait_until(lambda: house.status(uid).dead_letters == 1, service.text)
        assert service.stop() == 0, service.text()
    assert house.rows() == (200, 200)
