"""What a running platform holds and writes: secrets where they belong, JSON logs, little work idle.

The last test stops the platform and starts it again, because only a stop shows what parts print
when they end.
"""

import base64
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psutil  # type: ignore[import-untyped]  # publishes no types
import pytest

pytestmark = pytest.mark.e2e

MAX_WAKE_UPS = 800
"""Of all threads in a second; 530 to 570 on an idle machine as on a busy one."""
MAX_IDLE_PERCENT = 100
"""Of one core: a loop that spins takes more. The goal is 5, but the cost of a wake-up differs: the
same ones took 27 to 71 on one machine."""
SETTLING_S, MEASURED_S = 20, 30
OTHER_FORM = frozenset({"postgres.log", "kafka.log"})
"""Servers that are not ours keep their own form in their own file."""
CONNECTION = """apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: guarded}}
spec:
  type: postgres
  config: {{host: 127.0.0.1, port: {port}, database: datarecs, user: nobody, sslmode: prefer}}
  auth: {{password: "env:{name}"}}
---
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: here}}
spec: {{type: files, config: {{root: .}}}}
---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: guarded}}
spec:
  sources:
    - {{name: ledger, kind: postgres, connection: guarded, relation: public.t}}
    - {{name: file, kind: csv, connection: here, path: guarded.csv}}
  stages: [{{name: counts, type: counts}}]
---
apiVersion: datarecs.io/v1
kind: WebhookEndpoint
metadata: {{name: guarded}}
spec:
  url: http://127.0.0.1:9
  headers: {{X-Key: {{secret_ref: "env:{header}"}}}}
"""
MANY = """apiVersion: datarecs.io/v1
kind: Connection
metadata: {name: here}
spec: {type: files, config: {root: .}}
---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: many}
spec:
  sources:
    - {name: one, kind: csv, connection: here, path: many.csv}
    - {name: other, kind: csv, connection: here, path: many.csv}
  stages: [{name: rows, type: row, dimensions: [id]}]
"""


def processes(platform: Any) -> list[psutil.Process]:  # noqa: ANN401  the platform
    """The supervisor and everything below it."""
    state = json.loads((platform.folder / ".datarecs/state.json").read_text(encoding="utf-8"))
    supervisor = psutil.Process(state["supervisor"]["pid"])
    return [supervisor, *supervisor.children(recursive=True)]


def read_quietly(path: Path) -> bytes:
    """The content of a file; empty if its process has just ended or has another owner."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def open_files(process: psutil.Process) -> list[str]:
    paths = []
    with suppress(OSError):
        for entry in Path(f"/proc/{process.pid}/fd").iterdir():
            with suppress(OSError):
                paths.append(str(entry.readlink()))
    return paths


def name_of(process: psutil.Process) -> str:
    """Empty for a process that has just ended."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return ""
    modules = [word for word in words if word.startswith("datarecs_") or "kafka.Kafka" in word]
    return modules[0] if modules else Path(words[0] if words else "?").name


def forms_of(secret: str) -> tuple[bytes, ...]:
    """A secret as it is, reversed, in base64 and in a URL."""
    plain = secret.encode()
    coded = base64.b64encode(plain).rstrip(b"=")[:-1]
    return plain, plain[::-1], coded, quote(secret, safe="").encode()


@pytest.mark.case("X64", "X68")
def test_secrets_stand_in_the_processes_that_use_them_alone(
    platform: Any,  # noqa: ANN401  the platform
    canaries: Mapping[str, str],
) -> None:
    ours = {
        f"secrets/{file.name}": file.read_text(encoding="utf-8")
        for file in (platform.folder / ".datarecs/secrets").iterdir()
        if file.is_file()
    }
    seen: dict[str, set[str]] = {}
    for process in processes(platform):
        name = name_of(process)
        environment = read_quietly(Path(f"/proc/{process.pid}/environ"))
        words = read_quietly(Path(f"/proc/{process.pid}/cmdline"))
        for label, secret in {**canaries, **ours}.items():
            assert secret.encode() not in words, f"{label} in the arguments of {name}"
            if secret.encode() in environment:
                seen.setdefault(label, set()).add(name)
    workers = {"datarecs_reconciliation_worker", "datarecs_capture_worker", "datarecs_iceberg_sink"}
    supervisor = "datarecs_cli.stack.background"
    assert seen == {
        "DATARECS_CONN_DEFAULT_CANARY": {supervisor, *workers},
        "DATARECS_CONN_DEFAULT_HEADER": {supervisor, "datarecs_webhook_service"},
        "CANARY_OF_THE_SHELL": {supervisor},
    }


@pytest.mark.case("X64", "X68")
def test_the_spark_child_and_what_it_starts_hold_nothing_of_the_platform(
    platform: Any,  # noqa: ANN401  the platform
) -> None:
    (child,) = (
        psutil.Process(pid) for pid in platform.pids("datarecs_reconciliation_worker.child")
    )
    platform.write("many.csv", "id\n" + "\n".join(map(str, range(300_000))) + "\n")
    platform.apply("many.yaml", MANY)
    run_id = platform.trigger("many")
    platform.until(run_id, {"RUNNING"})
    family = [child, *child.children(recursive=True)]
    assert any(name_of(one) == "java" for one in family)
    check_family(family, platform)
    assert platform.ended(run_id)["result"] == "MATCHED"
    check_family([child, *child.children(recursive=True)], platform)


def check_family(family: list[psutil.Process], platform: Any) -> None:  # noqa: ANN401  the platform
    secrets = str(platform.folder / ".datarecs/secrets")
    for process in family:
        environment = read_quietly(Path(f"/proc/{process.pid}/environ"))
        names = {pair.partition(b"=")[0].decode() for pair in environment.split(b"\0")}
        assert not any(name.startswith("DATARECS_") for name in names)
        assert not any(path.startswith(secrets) for path in open_files(process))


@pytest.mark.case("X64")
def test_a_secret_stands_in_no_answer_and_no_file_after_every_error(
    platform: Any,  # noqa: ANN401  the platform
    canaries: Mapping[str, str],
) -> None:
    state = json.loads((platform.folder / ".datarecs/state.json").read_text(encoding="utf-8"))
    platform.write("guarded.csv", "id\n1\n")
    names = {"name": "DATARECS_CONN_DEFAULT_CANARY", "header": "DATARECS_CONN_DEFAULT_HEADER"}
    platform.apply("guarded.yaml", CONNECTION.format(port=state["ports"]["postgres"], **names))
    run_id = platform.trigger("guarded")
    run = platform.ended(run_id)
    assert (run["status"], run["error"]["detail_code"]) == ("ERRORED", "CONNECTION_FAILED")
    places = [f"runs/{run_id}/{part}" for part in ("events", "stages", "timeline", "report")]
    places += ["connections", "webhook-endpoints"]
    answers = [
        json.dumps(run),
        *(answer.text for answer in refusals(platform, canaries)),
        *(platform.client.get(f"/api/v1/{place}").text for place in places),
        failed_delivery(platform),
        *metrics(state["ports"]),
        *(
            shown.stdout + shown.stderr
            for shown in (
                platform.datarecs("plan", "guarded.yaml", "--check-connections"),
                platform.datarecs("get", "connections", "-o", "yaml"),
            )
        ),
    ]
    for secret in canaries.values():
        for form in forms_of(secret):
            assert [answer for answer in answers if form in answer.encode()] == []
            for file in written_files(platform.folder):
                assert form not in read_quietly(file), file


def failed_delivery(platform: Any) -> str:  # noqa: ANN401  the platform
    """The displayed data of a webhook with a secret that was not delivered."""
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        answer = platform.client.get("/api/v1/webhook-endpoints/guarded/deliveries")
        deliveries = answer.json()["items"]
        if any(attempt.get("outcome") for item in deliveries for attempt in item["attempts"]):
            assert "X-Key" in answer.text
            return str(answer.text)
        wait(0.2)
    raise AssertionError("no attempt was made")


def metrics(ports: Mapping[str, int]) -> Iterator[str]:
    for name, port in ports.items():
        if name.endswith(" side"):
            answer = httpx.get(f"http://127.0.0.1:{port}/metrics")
            assert answer.status_code == 200
            yield answer.text


def refusals(platform: Any, canaries: Mapping[str, str]) -> Iterator[Any]:  # noqa: ANN401  responses
    """Answers to requests that hold a secret where it must not stand."""
    api = platform.client
    secret = canaries["DATARECS_CONN_DEFAULT_CANARY"]
    head = {"apiVersion": "datarecs.io/v1", "kind": "Connection", "metadata": {"name": "inline"}}
    config = {"host": "127.0.0.1", "database": "d", "user": "u"}
    for spec in (
        {"type": "postgres", "config": config, "auth": {"password": secret}},
        {"type": "postgres", "config": {**config, "password": secret}},
        {"type": "postgres", "config": {**config, "ca": secret}},
        {"type": "postgres", "config": {**config, "port": secret}},
        {"type": "postgres", "config": {"url": f"postgresql://u:{secret}@127.0.0.1/d"}},
    ):
        answer = api.post("/api/v1/connections", json={**head, "spec": spec})
        assert answer.status_code == 422
        yield answer
    yield api.get("/api/v1/runs", headers={"Authorization": f"Bearer {secret}"})
    yield api.get("/api/v1/runs", params={"api_key": secret})


def written_files(folder: Path) -> list[Path]:
    """Everything the platform wrote, with the data of PostgreSQL and Kafka."""
    data = folder / ".datarecs"
    secrets = data / "secrets"
    return [file for file in data.rglob("*") if file.is_file() and not file.is_relative_to(secrets)]


@pytest.mark.case("K22")
def test_an_idle_platform_rests(platform: Any) -> None:  # noqa: ANN401  the platform
    wait(SETTLING_S)
    before, wakes_before = cpu_seconds(platform), wake_ups(platform)
    wait(MEASURED_S)
    after, wakes_after = cpu_seconds(platform), wake_ups(platform)
    percent = {name: 100 * rate for name, rate in rates(before, after).items()}
    assert sum(percent.values()) <= MAX_IDLE_PERCENT, percent
    wakes = rates(wakes_before, wakes_after)
    assert 0 < sum(wakes.values()) <= MAX_WAKE_UPS, wakes


def rates(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Per second, of the processes that lived all the time."""
    return {name: (after[name] - before[name]) / MEASURED_S for name in before if name in after}


def wait(seconds: float) -> None:
    """Idle time has no signal."""
    time.sleep(seconds)  # noqa: TID251  as said


def cpu_seconds(platform: Any) -> dict[str, float]:  # noqa: ANN401  the platform
    seconds = {}
    for process in processes(platform):
        try:
            times = process.cpu_times()
            seconds[f"{name_of(process)} {process.pid}"] = times.user + times.system
        except psutil.Error:
            continue
    return seconds


def wake_ups(platform: Any) -> dict[str, float]:  # noqa: ANN401  the platform
    """How often the threads of each process have gone to sleep."""
    counts = {}
    for process in processes(platform):
        states = Path("/proc").glob(f"{process.pid}/task/*/status")
        with suppress(OSError, psutil.Error):
            text = "".join(state.read_text() for state in states)
            counts[f"{name_of(process)} {process.pid}"] = float(
                sum(map(int, re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.MULTILINE)))
            )
    return counts


def test_every_line_of_every_log_is_an_object_also_after_the_stop(
    platform: Any,  # noqa: ANN401  the platform
) -> None:
    (child,) = platform.pids("datarecs_reconciliation_worker.child")
    java = next(
        one for one in psutil.Process(child).children(recursive=True) if name_of(one) == "java"
    )
    os.kill(java.pid, 3)  # SIGQUIT: Java prints all its threads, as it does when it breaks
    assert platform.datarecs("down").returncode == 0
    logs = sorted((platform.folder / ".datarecs/logs").glob("*.log"))
    events = {}
    for log in logs:
        lines = log.read_text(encoding="utf-8").splitlines()
        if log.name not in OTHER_FORM:
            records = [json.loads(line) for line in lines]
            assert all(isinstance(record, dict) for record in records), log
            assert max(map(len, lines)) <= 8192
            events[log.stem] = records
        text = "\n".join(lines)
        assert "nanobind" not in text, log
        assert "credentials in the clear" not in text, log
    assert {"supervisor", "core-api", "reconciliation-worker"} <= events.keys()
    printed = [one for one in events["reconciliation-worker"] if one["event"] == "child_output"]
    assert any("Full thread dump" in one["message"] for one in printed)
    again = platform.datarecs("up", "--detach")
    assert again.returncode == 0, again.stdout + again.stderr
