"""The commands of a workflow's pods, as processes over a real database and with real Spark."""

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from uuid import UUID

import pytest
import structlog

from datarecs_application.launching import Backends, launch_run, settle_call
from datarecs_application.ports.execution import Accepted
from datarecs_application.runs import request_cancel, trigger_run
from datarecs_cli.stack import classes
from datarecs_cli.stack.java import Java
from datarecs_core.errors.process import SettingsError
from datarecs_core.runs.model import Backend, Run
from datarecs_core.runs.start import TriggerRun
from datarecs_core.values import EventId, JobId, RunId
from datarecs_postgres.database import Database
from datarecs_postgres.roles import API, CONTROLLER, WORKER_RUN
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_reconciliation_worker.workflow_wiring import Exit, read_options
from datarecs_runtime.clock import UuidV7Ids
from datarecs_runtime.environment import process_environment
from datarecs_testing.builders import A_TENANT, a_resource
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.stack import SHORT_LIVED

OPTIONS = {
    "--run-id": str(UUID(int=1)),
    "--job-id": str(UUID(int=1)),
    "--tenant-id": str(UUID(int=1)),
    "--attempt": "1",
    "--lease-epoch": "1",
}
SPEC: Mapping[str, object] = {
    "sources": [
        {"name": name, "kind": "csv", "connection": "here", "path": f"{name}.csv"}
        for name in ("ledger", "exports")
    ],
    "stages": [{"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}],
}
BY_EXIT_CODE = [
    {
        "displayName": "recon",
        "templateName": "reconcile",
        "message": "main: Error (exit code 1)",
        "phase": "Failed",
        "podName": "recon",
        "finishedAt": "2026-01-15T12:00:00Z",
    }
]


def words(options: Mapping[str, str]) -> list[str]:
    return [word for pair in options.items() for word in pair]


def test_the_options_name_one_attempt_of_one_run() -> None:
    assignment = read_options("execute", words(OPTIONS))
    assert structlog.contextvars.get_contextvars() == {}
    assert str(assignment.run_id) == OPTIONS["--run-id"]
    assert (assignment.attempt, assignment.lease_epoch) == (1, 1)


@pytest.mark.parametrize("name", list(OPTIONS))
@pytest.mark.parametrize("value", [None, "", "{{workflow.parameters.run_id}}", "0", "-1"])
def test_a_missing_or_wrong_option_is_named(name: str, value: str | None) -> None:
    options = {**OPTIONS, name: value or ""}
    if value is None:
        del options[name]
    with pytest.raises(SettingsError, match=name) as refusal:
        read_options("finish", words(options))
    assert "datarecs-reconciliation-worker finish" in str(refusal.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """A platform without its loops: a test submits runs and starts the pods."""

    database: PreparedDatabase
    api: PostgresUnitOfWork
    controller: PostgresUnitOfWork
    settings: Mapping[str, str]
    pods: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def submitted(self) -> Run:
        """A run with the lease that its workflow will claim."""
        ids = UuidV7Ids()
        command = TriggerRun(
            tenant_id=A_TENANT,
            run_id=RunId(ids.new()),
            job_id=JobId(ids.new()),
            job_name="ledger-vs-exports",
            job_generation=1,
            spec_hash="sha256:" + 64 * "0",
            spec=SPEC,
            triggered_by="test",
            backend=Backend.ARGO,
        )
        with self.api.begin(A_TENANT, feed=8) as tx:
            run = trigger_run(tx, command)
        backends = Backends(queue=QueueLauncher())
        with self.controller.begin(A_TENANT, feed=8) as tx:
            call = launch_run(tx, run.run_id, backends, ids, jitter=0.5)
        assert call is not None
        with self.controller.begin(A_TENANT, feed=8) as tx:
            settle_call(tx, call, Accepted(), ids, jitter=0.5)
        return run

    def pod(self, command: str, run: Run, **variables: str) -> "subprocess.Popen[bytes]":
        options = {
            "--run-id": str(run.run_id),
            "--job-id": str(run.job_id),
            "--tenant-id": str(run.tenant_id),
            "--attempt": "1",
            "--lease-epoch": "1",
        }
        argv = [sys.executable, "-m", "datarecs_reconciliation_worker", command, *words(options)]
        path = {name: process_environment()[name] for name in ("PATH", "HOME")}
        self.pods.append(subprocess.Popen(argv, env={**path, **self.settings, **variables}))
        return self.pods[-1]

    def execute(self, run: Run) -> int:
        return self.pod("execute", run).wait(120)

    def finish(self, run: Run, status: str, failures: object = None) -> int:
        text = json.dumps(json.dumps(failures))
        pod = self.pod("finish", run, WORKFLOW_STATUS=status, WORKFLOW_FAILURES=text)
        return pod.wait(60)

    def history(self, run: Run) -> list[tuple[str, dict[str, object]]]:
        rows = self.database.query(
            "SELECT type, data FROM datarecs.run_event WHERE run_id = %s ORDER BY sequence",
            (run.run_id,),
        )
        return [(str(name).rsplit("reconciliation.", 1)[-1], data) for name, data in rows]

    def leases(self) -> int:
        return len(self.database.query("SELECT 1 FROM datarecs.run_lease"))


@pytest.fixture
def house(database: PreparedDatabase, tmp_path: Path, java_runtime: Java) -> Iterator[House]:
    for name in ("ledger", "exports"):
        (tmp_path / f"{name}.csv").write_text("id,amount\n1,1.10\n2,2.20\n")
    api, controller = Database(database.url(API)), Database(database.url(CONTROLLER))
    house = House(
        database=database,
        api=PostgresUnitOfWork(api, UuidV7Ids()),
        controller=PostgresUnitOfWork(controller, UuidV7Ids()),
        settings={
            "DATARECS_PROFILE": "local",
            "DATARECS_DATABASE__URL": database.url(WORKER_RUN),
            "DATARECS_BLOB__URL": (tmp_path / "blobs").as_uri(),
            "DATARECS_FILES__ROOTS": str(tmp_path),
            "DATARECS_FILES__OWNER": str(A_TENANT),
            "DATARECS_SECRETS__KEK": base64.b64encode(bytes(range(32))).decode(),
            "DATARECS_WORKER__SCRATCH_DIR": str(tmp_path / "scratch"),
            "DATARECS_SPARK__MASTER": "local[1]",
            "DATARECS_SPARK__DRIVER_MEMORY": "512m",
            "DATARECS_JAVA__HOME": str(java_runtime.home),
            "DATARECS_JAVA__OPTIONS": classes.of_spark(java_runtime, SHORT_LIVED),
        },
    )
    here = a_resource(name="here", spec={"type": "files", "config": {"root": str(tmp_path)}})
    with house.api.begin(A_TENANT, feed=8) as tx:
        tx.resources.add(here)
    yield house
    for pod in house.pods:
        pod.kill()
        pod.wait()
    api.close()
    controller.close()


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.case("K40")
def test_two_pods_take_a_run_from_its_files_to_its_raw_outcome(
    house: House, tmp_path: Path
) -> None:
    run = house.submitted()
    assert house.execute(run) == Exit.COMPLETED
    assert house.leases() == 1
    assert house.finish(run, "Succeeded") == 0
    assert house.leases() == 0
    names = [name for name, _ in house.history(run)]
    assert names[:2] == ["run.triggered", "run.queued"]
    assert names.index("run.stage.started") < names.index("run.comparison.completed")
    assert names[-1] == "run.completed"
    _, data = house.history(run)[-1]
    assert (data["result"], data["workflow_name"]) == ("MATCHED", run.execution_name)
    assert isinstance(data["summary"], dict)
    assert data["summary"]["rows_compared"] == 2
    assert data["summary"]["duration_ms"] > 0
    assert list(tmp_path.glob("blobs/accounts/*/runs/*/run.json"))


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.case("K40")
def test_a_source_that_cannot_be_read_is_a_query_error_by_the_result_file(
    house: House, tmp_path: Path
) -> None:
    (tmp_path / "exports.csv").unlink()
    run = house.submitted()
    assert house.execute(run) == Exit.ERRORED
    assert [house.finish(run, "Failed", BY_EXIT_CODE) for _ in range(2)] == [0, 0]
    names = [name for name, _ in house.history(run)]
    assert names.count("run.errored") == 1
    _, data = house.history(run)[-1]
    error = data["error"]
    assert isinstance(error, dict)
    assert (error["code"], error["detail_code"]) == ("QUERY_FAILED", "NO_FILES")


@pytest.mark.integration
@pytest.mark.spark
def test_a_pod_that_is_stopped_reports_nothing_and_leaves_the_lease_to_the_exit_handler(
    house: House, tmp_path: Path, waiting: Callable[[Callable[[], bool]], None]
) -> None:
    rows = "".join(f"{number},{number}.10\n" for number in range(2_000_000))
    for name in ("ledger", "exports"):
        (tmp_path / f"{name}.csv").write_text(f"id,amount\n{rows}")
    run = house.submitted()
    pod = house.pod("execute", run)
    waiting(lambda: any(name == "run.extraction.started" for name, _ in house.history(run)))
    pod.terminate()
    assert pod.wait(30) == Exit.REFUSED
    stopped = [{**BY_EXIT_CODE[0], "message": "workflow shutdown with strategy:  Stop"}]
    assert house.finish(run, "Failed", stopped) == 0
    _, data = house.history(run)[-1]
    error = data["error"]
    assert isinstance(error, dict)
    assert (error["code"], error["detail_code"]) == ("UNKNOWN", "STOPPED_EXTERNALLY")


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.case("L25")
def test_a_run_that_was_cancelled_before_its_pod_started_is_not_executed(house: House) -> None:
    run = house.submitted()
    with house.api.begin(A_TENANT, feed=8) as tx:
        fact = EventId(UuidV7Ids().new())
        request_cancel(tx, run.run_id, by="u-1", reason=None, fact_id=fact)
    assert house.execute(run) == Exit.REFUSED
    assert not any("stage" in name for name, _ in house.history(run))


@pytest.fixture
def waiting() -> Callable[[Callable[[], bool]], None]:
    """Waits for what another process does, at most a minute."""

    def until(is_so: Callable[[], bool]) -> None:
        pause = Event()
        for _ in range(600):
            if is_so():
                return
            pause.wait(0.1)
        raise AssertionError("it did not happen within a minute")

    return until
