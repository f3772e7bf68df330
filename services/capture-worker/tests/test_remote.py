"""A worker without database and store: over the control API of a core-api, with real tokens."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import httpx2
import pytest

from datarecs_core.captures.items import WorkKind, WorkState
from datarecs_core.crashing import CrashPoint
from datarecs_postgres.roles import CAPTURE
from datarecs_testing.api_process import Running, running_api
from datarecs_testing.builders import A_TENANT, B_TENANT
from datarecs_testing.capture_process import MODULE, House, wait_until
from datarecs_testing.crashes import killing
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.issuer import CLIENT, PASSWORD, TestIssuer, running_issuer
from datarecs_testing.service_process import running_service

pytestmark = pytest.mark.integration

LAUNCHER = "datarecs_testing.crashes.launcher"
_LEASES_END: LiteralString = """
UPDATE datarecs.capture_work SET lease_until = now() - interval '1 h'
WHERE lease_until IS NOT NULL
"""


@pytest.fixture
def house(private_database: PreparedDatabase, tmp_path: Path) -> House:
    return House(private_database, tmp_path)


@pytest.fixture
def issuer() -> Iterator[TestIssuer]:
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture
def api(house: House, issuer: TestIssuer) -> Iterator[Running]:
    settings = {
        "DATARECS_BLOB__URL": house.settings["DATARECS_BLOB__URL"],
        "DATARECS_WORKER__API__ENABLED": "true",
        "DATARECS_WORKER__API__ISSUER": issuer.url,
        "DATARECS_WORKER__SESSION_HEADER": "x-datarecs-session",
        "DATARECS_DATABASE__CAPTURE__URL": house.database.url(CAPTURE),
    }
    with running_api(house.database, house.folder, port=None, **settings) as api:
        yield api


@pytest.fixture
def remote(house: House, issuer: TestIssuer, api: Running) -> dict[str, str]:
    """Settings of a remote worker."""
    settings = {
        name: value
        for name, value in house.settings.items()
        if not name.startswith(("DATARECS_DATABASE", "DATARECS_BLOB"))
    }
    return settings | {
        "DATARECS_WORKER__MODE": "remote",
        "DATARECS_WORKER__API_URL": f"http://127.0.0.1:{api.port}",
        "DATARECS_WORKER__SESSION_HEADER": "x-datarecs-session",
        "DATARECS_WORKER__SCRATCH_DIR": str(house.folder / "remote"),
        "DATARECS_WORKER__OIDC__ISSUER": issuer.url,
        "DATARECS_WORKER__OIDC__CLIENT_ID": CLIENT,
        "DATARECS_WORKER__OIDC__CLIENT_SECRET": PASSWORD,
    }


@pytest.fixture
def finalizer(house: House) -> Iterator[None]:
    """The worker beside the database: upkeep, and the end of snapshots alone."""
    kinds = ("PLANNER", "DEFAULT", "SNAPSHOT_PLANNER", "FILE_GROUP")
    toggles = {f"DATARECS_EXECUTOR__{kind}__ENABLED": "false" for kind in kinds}
    with running_service(MODULE, house.settings | toggles, log=house.folder / "local"):
        yield


@pytest.mark.usefixtures("finalizer")
def test_a_folder_is_captured_by_a_remote_worker(house: House, remote: dict[str, str]) -> None:
    house.fill("orders", 5)
    root = house.enqueue(house.connection())
    with running_service(MODULE, remote, log=house.folder / "log") as worker:
        wait_until(lambda: house.root(root).has_ended, worker.text)
        assert house.root(root).state is WorkState.SUCCEEDED, (house.items(), worker.text())
        assert worker.stop() == 0
    assert len(house.recorded()) == 5
    assert house.totals(root)["indexes_written"] == 5
    local = (house.folder / "local").read_text()
    ended = re.findall(r"capture_work_ended.*?kind[=\": ]+(\w+)", local)
    assert set(ended) <= {WorkKind.FINALIZE_SNAPSHOT_CAPTURE.value}


@pytest.mark.usefixtures("finalizer")
def test_a_remote_worker_that_is_killed_records_every_file_once(
    house: House, remote: dict[str, str]
) -> None:
    house.fill("orders", 3)
    root = house.enqueue(house.connection())
    (house.folder / killing.FOLDER).mkdir()
    orders = killing.Orders(house.folder / killing.FOLDER)
    for point in (CrashPoint.CAPTURE_BEFORE_END, CrashPoint.CAPTURE_AFTER_END):
        token = orders.place(MODULE, point, hit=2)
        with running_service(
            LAUNCHER,
            remote,
            log=house.folder / "log",
            arguments=(MODULE,),
            folder=house.folder,
        ) as worker:
            worker.process.wait(60)
        assert orders.obeyed(token), worker.text()
        with house.database.connect() as admin:
            admin.execute(_LEASES_END)
    with running_service(MODULE, remote, log=house.folder / "log") as worker:
        wait_until(lambda: house.root(root).has_ended, worker.text)
    assert house.root(root).state is WorkState.SUCCEEDED, house.items()
    paths = [one.path for one in house.recorded()]
    assert paths == [f"orders/{one:03}.parquet" for one in range(3)]


@pytest.mark.case("Q32")
@pytest.mark.usefixtures("finalizer")
def test_a_worker_of_another_tenant_gets_nothing(
    house: House, remote: dict[str, str], issuer: TestIssuer
) -> None:
    issuer.tenant = str(B_TENANT)
    house.fill("orders", 1)
    root = house.enqueue(house.connection())
    with running_service(MODULE, remote, log=house.folder / "log") as worker:
        wait_until(lambda: issuer.granted > 0, worker.text)
        time.sleep(3)  # noqa: TID251  longer than a slot is idle
        assert house.root(root).state is WorkState.QUEUED
        assert worker.stop() == 0
    issuer.tenant = str(A_TENANT)
    with running_service(MODULE, remote, log=house.folder / "log") as worker:
        wait_until(lambda: house.root(root).has_ended, worker.text)
    assert house.root(root).state is WorkState.SUCCEEDED


@pytest.mark.case("Q32")
def test_a_worker_with_refused_tokens_claims_nothing_and_is_not_ready(
    house: House, remote: dict[str, str], issuer: TestIssuer, api: Running
) -> None:
    issuer.changes = {"aud": "another-api"}
    house.fill("orders", 1)
    root = house.enqueue(house.connection())
    with running_service(MODULE, remote, log=house.folder / "log") as worker:
        wait_until(lambda: "side_port" in worker.text() or issuer.granted >= 2, worker.text)
        wait_until(lambda: "loop_waits" in worker.text(), worker.text)
        granted = issuer.granted
        time.sleep(3)  # noqa: TID251  several tries of a slot
        assert issuer.granted <= granted + 2
        assert worker.process.poll() is None
    assert house.root(root).state is WorkState.QUEUED
    assert "worker_token_refused" in api.service.text()


def test_without_the_setting_there_is_no_control_api(house: House, issuer: TestIssuer) -> None:
    with running_api(house.database, house.folder) as api:
        token = {"Authorization": f"Bearer {issuer.token()}"}
        answer = httpx2.post(
            f"http://127.0.0.1:{api.port}/api/v1/worker/claims", headers=token, trust_env=False
        )
        assert answer.status_code == 404
