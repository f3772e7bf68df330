"""The service as a process: real sockets, its settings, its drain."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import RunResult, RunStatus
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_core_api.sign_in import FAILURES
from datarecs_postgres.roles import MIGRATE
from datarecs_testing.api import change_run
from datarecs_testing.api_process import Running, running_api, settings_for
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import running_service
from datarecs_testing.stack import free_test_port

pytestmark = pytest.mark.integration
STREAM = {"Accept": "text/event-stream"}


@pytest.fixture
def running(database: PreparedDatabase, tmp_path: Path) -> Iterator[Running]:
    with running_api(database, tmp_path) as api:
        yield api


def triggered(client: httpx2.Client) -> str:
    client.post("/api/v1/jobs", json=EXAMPLES[Kind.RECONCILIATION_JOB])
    return str(client.post("/api/v1/jobs/ledger-vs-exports/runs").headers["Location"])


def test_a_run_is_followed_to_its_end_over_a_socket(running: Running) -> None:
    run = triggered(running.client)
    waited: list[httpx2.Response] = []

    def wait() -> None:
        key = {"Prefer": "wait=20", "Idempotency-Key": "w"}
        waited.append(running.client.post(f"{run}/cancel", headers=key))

    waiting = threading.Thread(target=wait)
    with running.client.stream("GET", f"{run}/events", headers=STREAM) as answer:
        lines = answer.iter_lines()
        assert any(line == "id: 1" for line in lines)
        waiting.start()
        assert any(line == "id: 2" for line in lines)
        change_run(running.controller, run.rpartition("/")[2], status=RunStatus.CANCELLED)
        assert any(line == "event: end" for line in lines)
    waiting.join(timeout=20)
    (cancelled,) = waited
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "CANCELLED")


def test_a_drain_lets_followers_go_and_ends_well(running: Running) -> None:
    run = triggered(running.client)
    with running.client.stream("GET", f"{run}/events", headers=STREAM) as answer:
        lines = answer.iter_lines()
        next(lines)
        stopping: list[int] = []
        ending = threading.Thread(target=lambda: stopping.append(running.service.stop()))
        ending.start()
        assert "event: end" not in list(lines)
    ending.join(timeout=40)
    assert stopping == [0], running.service.text()


@pytest.mark.case("X88")
def test_head_and_odd_methods_over_a_socket(running: Running) -> None:
    head = running.client.head("/api/v1/jobs")
    assert (head.status_code, head.content) == (200, b"")
    run = triggered(running.client)
    stream = running.client.head(f"{run}/events", headers=STREAM)
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert running.client.request("TRACE", "/api/v1/jobs").status_code == 405
    assert running.client.options("/api/v1/jobs").headers["Allow"] == "GET, HEAD, POST"
    assert "server" not in running.client.get("/livez").headers


@pytest.mark.case("X22")
def test_a_body_without_end_is_cut(running: Running) -> None:
    triggered(running.client)

    def endless() -> Iterator[bytes]:
        for _ in range(1600):
            yield 64 * 1024 * b" "

    try:
        status = running.client.post(
            "/api/v1/jobs/ledger-vs-exports/runs",
            content=endless(),
            headers={"Content-Type": "application/json"},
        ).status_code
    except httpx2.WriteError:  # the server has hung up while we were still sending
        status = 413
    assert status == 413
    assert running.client.get("/livez").status_code == 200


@pytest.mark.case("X85", "X13")
def test_a_peer_cannot_hide_behind_a_forwarding_header(running: Running) -> None:
    nobody = {"Authorization": "Bearer drk_x"}
    statuses = [
        running.client.get(
            "/api/v1/whoami", headers={**nobody, "X-Forwarded-For": f"198.51.100.{number}"}
        ).status_code
        for number in range(FAILURES.quota + 1)
    ]
    assert statuses == [401] * FAILURES.quota + [429]


def test_the_result_of_a_run_is_seen_at_once(running: Running) -> None:
    run = triggered(running.client)
    change_run(
        running.controller,
        run.rpartition("/")[2],
        status=RunStatus.COMPLETED,
        result=RunResult.MATCHED,
    )
    assert running.client.get(run).json()["result"] == "MATCHED"


def test_a_login_that_sees_past_row_security_is_refused(
    database: PreparedDatabase, tmp_path: Path
) -> None:
    settings = settings_for(database, tmp_path, free_test_port())
    settings["DATARECS_DATABASE__URL"] = database.url(MIGRATE)
    with running_service("datarecs_core_api", settings, log=tmp_path / "x.log") as service:
        assert service.process.wait(timeout=30) == 70
        assert "UnsafeLoginError" in service.text()


def test_a_local_profile_stays_on_the_loopback(database: PreparedDatabase, tmp_path: Path) -> None:
    settings = settings_for(database, tmp_path, free_test_port())
    settings["DATARECS_API__HOST"] = "0.0.0.0"  # noqa: S104  what must be refused
    with running_service("datarecs_core_api", settings, log=tmp_path / "x.log") as service:
        assert service.process.wait(timeout=30) == 78
        assert "DATARECS_PROFILE=server" in service.text()
