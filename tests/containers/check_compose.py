"""docker-compose.yml as it stands, on stand-ins for the images of others, with podman-compose.

Run by `make containers`. Only the images of PostgreSQL, Kafka and the mail catcher are others, and
the published ports are free ones; all containers start at once.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from datarecs_cli.demo import entries
from datarecs_cli.demo.books import write_csv, write_exports
from datarecs_runtime.clock import SystemClock
from datarecs_testing.plugin import lacking
from datarecs_testing.stack import free_test_port
from tests.containers.check_images import SERVICES
from tests.containers.engine import Engine

pytestmark = pytest.mark.e2e
CLOCK = SystemClock()
PROJECT = "datarecs-test"
READY_LIMIT_S = 240
READY = "import urllib.request as r; r.urlopen('http://127.0.0.1:9090/readyz', timeout=5)"
JOB = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: books}}
spec: {{type: files, config: {{root: /sources/{tenant}}}}}
---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: ledger-vs-exports}}
spec:
  sources:
    - {{name: ledger, kind: csv, connection: books, path: ledger.csv}}
    - {{name: exports, kind: parquet, connection: books, path: exports.parquet}}
  reference: ledger
  stages:
    - name: balance-check
      type: aggregate
      dimensions: [account]
      measures:
        - name: total_amount
          function: sum
          column: amount
          tolerances: [{{type: ABSOLUTE, value: "0.01"}}]
---
apiVersion: datarecs.io/v1
kind: NotificationRule
metadata: {{name: finance}}
spec:
  match: {{jobs: [ledger-vs-exports]}}
  notify: every_run
  to: [{{address: finance@books.example}}]
"""
DENIED = """\
import os
from pathlib import Path
from datarecs_core.errors.messaging import LogAccessDeniedError
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import KafkaLogClient
access = BrokerAccess(
    bootstrap=os.environ["DATARECS_KAFKA__BOOTSTRAP"],
    username=os.environ["DATARECS_KAFKA__USERNAME"],
    password=Path(os.environ["DATARECS_KAFKA__PASSWORD_FILE"]).read_text(),
    security="SASL_SSL",
    ca_file=os.environ["DATARECS_KAFKA__CA_FILE"],
)
try:
    KafkaLogClient(access).consumer(group="email-notifier", topics=["datarecs.run.infra"])
except LogAccessDeniedError as denied:
    print(denied)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The running project."""

    engine: Engine
    folder: Path
    tool: str
    variables: Mapping[str, str]

    def compose(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        files = ("-f", "docker-compose.yml", "-f", "stand-ins.yml", "-p", PROJECT)
        engine = Engine(environment={**self.engine.environment, **self.variables})
        return engine.call([self.tool, *files, *words], cwd=self.folder, check=check)

    def execute(self, service: str, *words: str, check: bool = True) -> str:
        """Run a command in the container of a service; return its output."""
        return self.engine.run("exec", f"{PROJECT}_{service}_1", *words, check=check).stdout

    def is_ready(self, service: str) -> bool:
        words = ("exec", f"{PROJECT}_{service}_1", "python", "-c", READY)
        return self.engine.run(*words, check=False).returncode == 0

    def wait_until_ready(self) -> float:
        """Seconds until every service answers /readyz with 200."""
        began, waiting = CLOCK.monotonic(), list(SERVICES)
        while waiting and CLOCK.monotonic() - began < READY_LIMIT_S:
            waiting = [service for service in waiting if not self.is_ready(service)]
            CLOCK.wait(timedelta(seconds=0.5))
        if waiting:
            pytest.fail(f"not ready: {waiting}\n{self.logs(waiting[0])}")
        return CLOCK.monotonic() - began

    def logs(self, service: str) -> str:
        ended = self.engine.run("logs", "--tail=30", f"{PROJECT}_{service}_1", check=False)
        return ended.stdout + ended.stderr

    def cli(self, key: str, *words: str) -> subprocess.CompletedProcess[str]:
        """The command of this checkout against the published port."""
        authority = self.folder / ".secrets/ca.crt"
        environment = {
            name: value
            for name, value in self.engine.environment.items()
            if not name.startswith("DATARECS_")
        }
        return subprocess.run(
            [str(Path(sys.executable).with_name("datarecs")), "--server", self.server, *words],
            cwd=self.folder,
            env={**environment, "DATARECS_API_KEY": key, "SSL_CERT_FILE": str(authority)},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    @property
    def server(self) -> str:
        return f"https://localhost:{self.variables['API_PORT']}"


@pytest.fixture(scope="module")
def stack(
    request: pytest.FixtureRequest,
    engine: Engine,
    images: tuple[str, str],
    stand_ins: None,
    project: Path,
) -> Iterator[Stack]:
    assert images
    assert stand_ins is None
    tool = shutil.which("podman-compose")
    if tool is None:
        lacking(request.config, "containers", "podman-compose is not installed")
    ports = {"API_PORT": str(free_test_port()), "MAIL_PORT": str(free_test_port())}
    # podman-compose replaces no variables in what a file overrides.
    overlay = (project / "stand-ins.yml").read_text()
    for name, port in ports.items():
        overlay = overlay.replace(name, port)
    (project / "stand-ins.yml").write_text(overlay)
    running = Stack(engine=engine, folder=project, tool=tool, variables=ports)
    try:
        # Without --no-deps, Podman 4.3 refuses dependencies of dependencies.
        running.compose("up", "--detach", "--no-deps")
        yield running
    finally:
        running.compose("down", "--volumes", "--timeout", "20", check=False)


@pytest.mark.case("K27")
def test_the_demo_job_matches_and_access_rules_hold(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    ready_s = stack.wait_until_ready()
    made = stack.compose(
        *("run", "--rm", "--no-deps", "-T", "migrate"),
        *("datarecs", "admin", "tenant", "create", "acme"),
    )
    key = made.stdout.split()[-1]
    tenant = json.loads(stack.cli(key, "whoami", "-o", "json").stdout)["tenant_id"]
    folder = stack.folder / "sources" / tenant
    folder.mkdir()
    write_csv(folder / "ledger.csv", entries.ledger())
    write_exports(folder / "exports.parquet", entries.exports(corrected=True))
    for path in folder.iterdir():
        path.chmod(0o644)
    (stack.folder / "books.yaml").write_text(JOB.format(tenant=tenant))
    applied = stack.cli(key, "apply", "-f", "books.yaml")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    ended = stack.cli(key, "run", "ledger-vs-exports")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "MATCHED" in ended.stdout
    assert "985 of 985" in ended.stdout
    denied = stack.execute("email-notifier", "python", "-c", DENIED)
    assert "email-notifier" in denied
    assert "datarecs.run.infra" in denied
    with capsys.disabled():
        print(f"\nall services ready after {ready_s:.1f} s")  # noqa: T201  a figure


@pytest.mark.case("K27")
def test_a_service_waits_for_a_database_that_stops(stack: Stack) -> None:
    stack.wait_until_ready()
    stack.engine.run("stop", "--time=20", f"{PROJECT}_postgres_1")
    stack.engine.run("restart", "--time=20", f"{PROJECT}_email-notifier_1")
    CLOCK.wait(timedelta(seconds=3))
    assert not stack.is_ready("email-notifier")
    assert "start_waits" in stack.logs("email-notifier")
    stack.engine.run("start", f"{PROJECT}_postgres_1")
    stack.wait_until_ready()
