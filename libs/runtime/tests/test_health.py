import http.client
import json
import os
import signal
from dataclasses import dataclass

import pytest

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.outside import Wake
from datarecs_runtime.health import Health, SideServer
from datarecs_runtime.process import Process
from datarecs_runtime.sections import Side


def answer_of(health: Health, path: str) -> tuple[int, dict[str, str]]:
    answer = health.answer(path)
    return answer.status, json.loads(answer.body).get("reasons", {})


def unreachable() -> str | None:
    raise ConnectionError("password=s3cr3t")


def test_a_process_is_ready_once_started_and_every_check_is_content() -> None:
    health = Health(ready_when={"database": lambda: None})
    assert answer_of(health, "/startupz") == (503, {"process": "is starting"})
    assert answer_of(health, "/readyz") == (503, {"process": "is starting"})
    health.started = True
    assert answer_of(health, "/startupz") == answer_of(health, "/readyz") == (200, {})


def test_readiness_lists_every_reason_by_name() -> None:
    checks = {"database": lambda: None, "migrations": lambda: "at 3, need 4", "broker": unreachable}
    health = Health(ready_when=checks, started=True)
    assert answer_of(health, "/readyz?verbose") == (
        503,
        {"migrations": "at 3, need 4", "broker": "cannot be checked (ConnectionError)"},
    )


def test_a_draining_process_is_not_ready_and_calls_nobody() -> None:
    health = Health(ready_when={"broker": unreachable}, started=True, draining=True)
    assert answer_of(health, "/readyz") == (503, {"process": "is draining"})


def test_liveness_checks_loops_and_never_a_dependency() -> None:
    health = Health(ready_when={"database": unreachable}, started=True)
    assert answer_of(health, "/livez") == (200, {})
    health.dead_loops = lambda: ("relay",)
    assert answer_of(health, "/livez") == (503, {"loop relay": "has ended"})


def test_metrics_are_served_as_they_are_and_other_paths_do_not_exist() -> None:
    health = Health(exposition=lambda: b"datarecs_x 1\n")
    assert health.answer("/metrics").body == b"datarecs_x 1\n"
    assert health.answer("/metrics").content_type.startswith("text/plain")
    assert health.answer("/secrets").status == 404


def get(port: int, path: str) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.getheader("Content-Type", ""), body


@pytest.mark.integration
def test_the_side_port_carries_the_answers_until_it_is_closed() -> None:
    health = Health(started=True)
    side = SideServer("127.0.0.1", 0, health.answer)
    side.start()
    assert get(side.port, "/readyz") == (200, "application/json", b'{"status": "ok"}')
    health.draining = True
    assert get(side.port, "/readyz")[0] == 503
    assert get(side.port, "/nope")[0] == 404
    side.close()
    with pytest.raises(ConnectionError):
        get(side.port, "/readyz")


@pytest.mark.integration
def test_a_running_process_answers_and_stops_answering_when_it_is_over() -> None:
    port = free_port()

    @dataclass
    class Endless:
        name: str = "asking"
        status: int = 0

        def run(self, stop: Wake) -> None:
            while self.status != 200:
                self.status = get(port, "/readyz")[0]
            os.kill(os.getpid(), signal.SIGTERM)
            stop.wait(10)

    loop = Endless()
    side = Side(port=port)
    assert Process(name="x", loops=(loop,), side=side).run() == 0
    assert loop.status == 200
    with pytest.raises(ConnectionError):
        get(port, "/livez")


@pytest.mark.integration
def test_a_process_that_waits_for_its_database_is_alive_and_names_the_reason() -> None:
    port, answers = free_port(), list[tuple[int, str, bytes]]()

    def unreachable() -> None:
        answers.extend(get(port, path) for path in ("/livez", "/readyz"))
        if len(answers) > 2:
            os.kill(os.getpid(), signal.SIGTERM)
        raise StoreUnavailableError(cause="connection refused")

    process = Process(name="x", loops=(), start_checks=(unreachable,), side=Side(port=port))
    assert process.run() == 0
    assert [status for status, _, _ in answers] == [200, 503, 200, 503]
    reasons = json.loads(answers[-1][2])["reasons"]
    assert reasons["process"].endswith("database is not available: connection refused")


def free_port() -> int:
    side = SideServer("127.0.0.1", 0, Health().answer)
    side.start()
    side.close()
    return side.port
