"""The command line against the started platform: interrupts, repeated triggers, receivers."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from datarecs_cli.client import Api
from datarecs_cli.config import Access
from datarecs_cli.refusals import RefusedError
from datarecs_cli.stack.credentials import read_credentials
from datarecs_cli.stack.layout import layout_of
from datarecs_cli.triggering import trigger
from datarecs_core.errors.api import ApiCode
from datarecs_runtime.clock import UuidV7Ids
from datarecs_runtime.environment import process_environment

pytestmark = pytest.mark.e2e
JOB = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {name: project}
spec: {type: files, config: {root: .}}
---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: patient}
spec:
  parameters: {note: {type: text, default: none}}
  sources:
    - {name: one, kind: csv, connection: project, path: one.csv}
    - {name: two, kind: csv, connection: project, path: one.csv}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: [{name: amount}]}
"""


@pytest.fixture
def queued(platform: Any) -> Iterator[Any]:  # noqa: ANN401  the platform of this folder's conftest
    """The platform with a job, its worker held: whatever is triggered waits in the queue."""
    platform.write("one.csv", "id,amount\n1,2.50\n")
    platform.apply("patient.yaml", JOB)
    held = platform.pids("datarecs_reconciliation_worker")
    for pid in held:
        os.kill(pid, signal.SIGSTOP)
    yield platform
    for pid in held:
        os.kill(pid, signal.SIGCONT)


class Watching:
    """`datarecs run patient` as a process that can be interrupted."""

    def __init__(self, platform: Any) -> None:  # noqa: ANN401  as above
        self._process = subprocess.Popen(
            [sys.executable, "-m", "datarecs_cli", "run", "patient"],
            cwd=platform.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._until("run.queued")

    def _until(self, words: str) -> str:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if words in line:
                return line
        raise AssertionError(f"it ended without {words!r}")

    def interrupt(self) -> str:
        """One Ctrl-C; the line that answers it."""
        self._process.send_signal(signal.SIGINT)
        return self._until("run continues")

    def interrupt_again(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def ended(self) -> tuple[int, str]:
        out, _ = self._process.communicate(timeout=60)
        return self._process.returncode, out


@pytest.mark.case("U11")
def test_one_ctrl_c_leaves_the_run_and_a_second_one_cancels_it(queued: Any) -> None:  # noqa: ANN401  as above
    left = Watching(queued)
    run_id = left.interrupt().partition("datarecs watch ")[2].split()[0]
    assert left.ended()[0] == 130
    assert queued.run(run_id)["status"] == "QUEUED"
    assert queued.datarecs("cancel", run_id, "--wait").returncode == 4
    cancelled = Watching(queued)
    cancelled.interrupt()
    cancelled.interrupt_again()
    code, out = cancelled.ended()
    assert code == 4
    assert "CANCELLED" in out


def api_of(platform: Any) -> Api:  # noqa: ANN401  as above
    known = read_credentials(layout_of(platform.folder / ".datarecs").credentials_file)
    assert known is not None
    return Api(Access(server=known.server, api_key=known.api_key))


@pytest.mark.case("U25")
def test_fifty_triggers_with_one_key_are_one_run(queued: Any) -> None:  # noqa: ANN401  as above
    key, job = str(UuidV7Ids().new()), ("default", "patient")
    with api_of(queued) as api, ThreadPoolExecutor(50) as pool:
        triggers = [pool.submit(trigger, api, job, {}, key=key) for _ in range(50)]
        ids = {str(one.result()["run_id"]) for one in triggers}
        (run_id,) = ids
        with pytest.raises(RefusedError) as refused:
            trigger(api, job, {"parameters": {"note": "other"}}, key=key)
        with pytest.raises(RefusedError) as too_long:
            trigger(api, job, {}, key="k" * 256)
    assert queued.event_names(run_id).count("run.triggered") == 1
    assert refused.value.code is ApiCode.IDEMPOTENCY_KEY_REUSED
    assert too_long.value.status == 400
    assert queued.datarecs("cancel", run_id, "--wait").returncode == 4


@pytest.mark.case("U12")
@pytest.mark.parametrize("variable", ["NO_COLOR=1", "TERM=dumb", "LC_ALL=C"])
def test_piped_output_is_plain(queued: Any, variable: str) -> None:  # noqa: ANN401  as above
    name, _, value = variable.partition("=")
    command = [sys.executable, "-m", "datarecs_cli", "get", "runs", "--job", "patient"]
    done = subprocess.run(
        command,
        cwd=queued.folder,
        env=process_environment() | {name: value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\x1b" not in done.stdout + done.stderr
