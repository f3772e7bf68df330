"""The whole platform, started as a user starts it, for all tests of this folder."""

import json
import secrets
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]  # publishes no types
import pytest

from datarecs_testing.afterwards import afterwards
from datarecs_testing.stack import SHORT_LIVED

TERMINAL = {"COMPLETED", "ERRORED", "CANCELLED", "QUEUE_ERRORED"}
CHILD = "datarecs_reconciliation_worker.child"
WORKER = "datarecs_reconciliation_worker"


@dataclass(kw_only=True)
class LivePlatform:
    """A started platform and a way to talk to it."""

    folder: Path
    client: httpx.Client

    def datarecs(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command in the platform's folder; its answer, whatever the exit code."""
        return _datarecs(self.folder, *arguments)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def apply(self, name: str, text: str) -> None:
        applied = self.datarecs("apply", "-f", str(self.write(name, text)))
        assert applied.returncode == 0, applied.stdout + applied.stderr

    def trigger(self, job: str) -> str:
        answer = self.client.post(f"/api/v1/jobs/{job}/runs", json={})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["run_id"])

    def run(self, run_id: str) -> dict[str, Any]:
        answer = self.client.get(f"/api/v1/runs/{run_id}")
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    def ended(self, run_id: str, *, within_s: float = 120) -> dict[str, Any]:
        """The run once it is terminal."""
        return self.until(run_id, TERMINAL, within_s=within_s)

    def until(self, run_id: str, statuses: set[str], *, within_s: float = 120) -> dict[str, Any]:
        ends = time.monotonic() + within_s
        while True:
            run = self.run(run_id)
            if run["status"] in statuses:
                return run
            assert time.monotonic() < ends, f"still {run['status']} after {within_s} s"
            time.sleep(0.2)  # noqa: TID251  another process's state has no signal here

    def event_names(self, run_id: str) -> list[str]:
        """Names of the run's history."""
        items = self.client.get(f"/api/v1/runs/{run_id}/events").json()["items"]
        return [item["type"].rsplit("reconciliation.", 1)[-1] for item in items]

    def pids(self, module: str) -> list[int]:
        """Processes of this platform that run the module."""
        pids = []
        for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
            words = process.info["cmdline"] or []
            if module in words and str(process.info["cwd"]).startswith(str(self.folder)):
                pids.append(int(process.info["pid"]))
        return pids

    def mails(self, run_id: str, *, within_s: float = 60) -> list[Path]:
        """Mails about the run, once the first is there; it is sent after the run has ended."""
        ends = time.monotonic() + within_s
        while time.monotonic() < ends:
            mails = (self.folder / ".datarecs/mail").rglob("new/*")
            mails_of_run = [
                mail for mail in mails if f"X-Datarecs-Run: {run_id}" in mail.read_text()
            ]
            if mails_of_run:
                return mails_of_run
            time.sleep(0.2)  # noqa: TID251  another process's state has no signal here
        return []


def _datarecs(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "datarecs_cli", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session", autouse=True)
def quick_java() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATARECS_JAVA__OPTIONS", SHORT_LIVED)
        yield


@pytest.fixture(scope="session")
def canaries() -> Iterator[Mapping[str, str]]:
    """Secrets by the variable that holds each: a source's password, a webhook's header, a shell's.

    The header's is bound, so that it reaches the webhook-service alone.
    """
    secrets_by_name = {
        name: f"canary-{secrets.token_urlsafe(24)}"
        for name in (
            "DATARECS_CONN_DEFAULT_CANARY",
            "DATARECS_CONN_DEFAULT_HEADER",
            "CANARY_OF_THE_SHELL",
        )
    }
    uses = {"env:DATARECS_CONN_DEFAULT_HEADER": ["webhook:127.0.0.1"]}
    with pytest.MonkeyPatch.context() as patch:
        for name, secret in secrets_by_name.items():
            patch.setenv(name, secret)
        patch.setenv("DATARECS_SECRETS__USES", json.dumps(uses))
        yield secrets_by_name


@pytest.fixture(scope="session")
def platform(
    tmp_path_factory: pytest.TempPathFactory,
    canaries: Mapping[str, str],  # noqa: ARG001  they stand in its environment
) -> Iterator[LivePlatform]:
    folder = tmp_path_factory.mktemp("platform")
    with started(folder) as live:
        yield live
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def started(folder: Path) -> Iterator[LivePlatform]:
    """A platform with the settings of the environment, until the block ends."""
    down = [sys.executable, "-m", "datarecs_cli", "down", "--reset", "--yes"]
    with afterwards(down, cwd=folder):
        up = _datarecs(folder, "up", "--detach")
        assert up.returncode == 0, up.stdout + up.stderr
        known: Mapping[str, str] = tomllib.loads(
            (folder / ".datarecs/credentials.toml").read_text(encoding="utf-8")
        )["local"]
        headers = {"Authorization": f"Bearer {known['api_key']}"}
        with httpx.Client(base_url=known["server"], headers=headers, timeout=60) as client:
            yield LivePlatform(folder=folder, client=client)


@pytest.fixture
def start_platform(tmp_path: Path) -> Callable[[], AbstractContextManager[LivePlatform]]:
    """Start another platform, once the test has set its environment."""
    return lambda: started(tmp_path)
