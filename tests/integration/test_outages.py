"""A broker outage and a stop of all services under load: nothing lost or doubled."""

import json
import re
import signal
from collections.abc import Iterator
from time import monotonic

import httpx
import psutil  # type: ignore[import-untyped]  # publishes no types
import pytest
from kafka.admin import KafkaAdminClient

from datarecs_testing.crashes.house import House, crash_house
from datarecs_testing.crashes.ledger import settle
from datarecs_testing.crashes.processes import CONTROLLER, GROUPS, ROLES
from datarecs_testing.crashes.wire import header
from datarecs_testing.database import PreparedDatabase, copied
from datarecs_testing.stack import KafkaBroker, topics_of

pytestmark = [pytest.mark.integration, pytest.mark.slow]

GRACE_S = 25
"""What the local stack and the chart wait after SIGTERM."""


@pytest.fixture(scope="module")
def house(
    migrated_template: PreparedDatabase,
    kafka_broker: KafkaBroker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[House]:
    """All services as processes, and the outside world."""
    folder = tmp_path_factory.mktemp("outages") / "house"
    with (
        copied(migrated_template) as database,
        crash_house(folder, database, kafka_broker) as started,
    ):
        yield started


@pytest.mark.case("L12")
def test_runs_are_taken_while_the_broker_is_away_and_reported_when_it_is_back(
    house: House, kafka_broker: KafkaBroker
) -> None:
    """Callers see no error, readiness reports it, each run is announced once and in order."""
    if kafka_broker.jvm is None:
        pytest.skip("the broker is not ours to kill")
    for _ in range(5):
        house.trigger()
    kafka_broker.jvm.kill()
    try:
        for _ in range(15):
            answered(house)
        house.until(lambda: unsent(house) >= 15)
        house.database.query(
            "UPDATE datarecs.outbox SET created_at = created_at - interval '2 minutes'"
            " WHERE sent_at IS NULL"
        )
        house.until(lambda: "the oldest event waits" in readiness(house))
        assert all(death.process != CONTROLLER for death in house.deaths), "an outage is no defect"
    finally:
        kafka_broker.jvm.restart()
    assert faults(house) == ()
    assert unsent(house) == 0
    house.until(lambda: "the oldest event waits" not in readiness(house))


def faults(house: House) -> tuple[str, ...]:
    """What the ledger finds once everything is at rest; real time passes until then."""

    def at_rest() -> bool:
        return not house.observer.waiting() and not house.wire.catch_up()

    house.until(at_rest, patience_s=120)
    return settle(house.expected(), house.observer.seen()).faults


def answered(house: House) -> None:
    """A trigger that is answered at the first try, as if nothing were wrong."""
    answer = house.client.post("/api/v1/jobs/same/runs", json={})
    assert answer.status_code == httpx.codes.ACCEPTED, answer.text
    house.runs[answer.json()["run_id"]] = frozenset({"COMPLETED"})


def unsent(house: House) -> int:
    ((count,),) = house.database.query(
        "SELECT count(*) FROM datarecs.outbox WHERE sent_at IS NULL AND tenant_id = %s",
        (house.tenant,),
    )
    return int(count)


def readiness(house: House) -> str:
    """The readiness report of the controller, over its side port."""
    log = (house.folder / f"{CONTROLLER}.log").read_text(errors="replace")
    ports = re.findall(r'"port": ?(\d+)', "\n".join(_lines(log, "side_port_open")))
    return httpx.get(f"http://127.0.0.1:{ports[-1]}/readyz", timeout=10).text


def _lines(log: str, event: str) -> list[str]:
    return [line for line in log.splitlines() if f'"{event}"' in line]


@pytest.mark.case("L45")
def test_every_service_ends_in_its_grace_under_load_with_its_offsets_committed(
    house: House,
) -> None:
    """Nothing that took effect is read again, and no attempt is used up by the end."""
    before = marks(house)
    for _ in range(12):
        house.trigger()
    house.until(lambda: marks(house) > before)
    services = {name: psutil.Process(house.pid(name)) for name in ROLES}
    began = monotonic()
    for service in services.values():
        service.send_signal(signal.SIGTERM)
    gone, alive = psutil.wait_procs(services.values(), timeout=GRACE_S)
    assert alive == [], f"still there after {GRACE_S} s"
    assert {one.returncode for one in gone} == {0}, f"after {monotonic() - began:.1f} s: {gone}"
    assert received_beyond_the_offsets(house) == []
    assert faults(house) == ()
    assert house.database.query("SELECT max(attempt) FROM datarecs.run") == [(1,)]


def marks(house: House) -> int:
    ((count,),) = house.database.query(
        "SELECT count(*) FROM datarecs.inbox WHERE tenant_id = %s", (house.tenant,)
    )
    return int(count)


def received_beyond_the_offsets(house: House) -> list[str]:
    """Events that took effect at a group although its offset is before them."""
    house.wire.catch_up()
    with KafkaAdminClient(**house.broker.access.settings()) as admin:
        offsets = admin.list_group_offsets(list(GROUPS.values()))
    pairs = {
        (str(group), str(event_id))
        for group, event_id in house.database.query(
            "SELECT consumer, event_id FROM datarecs.inbox WHERE tenant_id = %s", (house.tenant,)
        )
    }
    committed = {
        (group, where.topic, where.partition): offset_state.offset
        for group, of_group in offsets.items()
        for where, offset_state in of_group.items()
    }
    return [
        json.dumps([group, record.topic, record.offset])
        for record in house.wire.events()
        for group in GROUPS.values()
        if record.topic in topics_of(group)
        and (group, header(record, "ce_id")) in pairs
        and record.offset >= committed.get((group, record.topic, record.partition), 0)
    ]
