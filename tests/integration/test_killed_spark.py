"""Spark killed in each part of a run, on real processes: the same death, the same answer."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # publishes no types
import pytest

from datarecs_application.assignments import Prepared
from datarecs_application.ports.state import LeasedRun
from datarecs_application.warm_child import WarmChild
from datarecs_cli.stack import classes
from datarecs_cli.stack.java import Java
from datarecs_core.comparison.planning.scan import Pin
from datarecs_core.documents import to_document
from datarecs_core.hashing import JsonValue, canonical_json
from datarecs_core.resources.connection import Connection, ConnectionType, FilesConfig
from datarecs_core.runs.model import Run, RunStatus
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_runtime.child import SpawnedChild
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.environment import process_environment
from datarecs_testing.platform import RunPlatform, ScriptedPreparing
from datarecs_testing.stack import SHORT_LIVED

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CHILD = "datarecs_reconciliation_worker.child"
WRITING = "datarecs_testing.crashes.writing_child"
SPEC: Mapping[str, Any] = {
    "sources": [
        {"name": name, "kind": "csv", "connection": "here", "path": f"{name}.csv"}
        for name in ("ledger", "exports")
    ],
    "stages": [{"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}],
    "execution": {"strategy": "full"},
}
ATTEMPT_PAUSE = timedelta(minutes=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Books(ScriptedPreparing):
    """Every run compares the two files of a folder."""

    root: Path

    def frame(
        self, prepared: Prepared, leased: LeasedRun, pins: Mapping[str, Pin], *, folder: str
    ) -> dict[str, JsonValue]:
        here = Connection(type=ConnectionType.FILES, config=FilesConfig(root=str(self.root)))
        # slots make a new class, which `super()` does not know.
        frame = ScriptedPreparing.frame(self, prepared, leased, pins, folder=folder)
        return {**frame, "spec": SPEC, "connections": {"here": to_document(here)}}


class WatchedChild(SpawnedChild):
    """The real child; a test acts when it reports a certain event."""

    def __init__(self, module: str, event: str, act: Callable[[int], None]) -> None:
        inherited = {"PATH", "HOME", "LANG", "TZ", "TMPDIR"}
        environment = {k: v for k, v in process_environment().items() if k in inherited}
        super().__init__([sys.executable, "-m", module], environment)
        self._event, self._act = event, act

    def start(self, plan: bytes) -> None:
        super().start(plan)
        if self._event == "session":
            threading.Thread(target=self._when_java_starts, daemon=True).start()

    def frames(self, timeout: timedelta) -> Mapping[str, object] | None:
        frame = super().frames(timeout)
        if frame is not None and frame.get("event") == self._event:
            self._act(self.pid)
        return frame

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _when_java_starts(self) -> None:
        started = threading.Event()
        while self.ended() is None and not java_of(self.pid):
            started.wait(0.02)
        self._act(self.pid)


def java_of(child: int) -> list[int]:
    with contextlib.suppress(psutil.NoSuchProcess):
        started = psutil.Process(child).children(recursive=True)
        return [one.pid for one in started if one.name() == "java"]
    return []


def kill_java(child: int) -> None:
    for pid in java_of(child):
        _kill(pid)


def kill_child(child: int) -> None:
    _kill(child)


def _kill(pid: int) -> None:
    """The event may come twice, once for each source, and be read after the first kill."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_both(child: int) -> None:
    kill_java(child)
    kill_child(child)


def leave_alone(_child: int) -> None:
    pass


@pytest.fixture
def ended(tmp_path: Path, java_runtime: Java) -> Callable[..., Run]:
    for name in ("ledger", "exports"):
        rows = (f"{number},{number}.10\n" for number in range(2000))
        (tmp_path / f"{name}.csv").write_text("id,amount\n" + "".join(rows))

    def end(event: str, act: Callable[[int], None], module: str = CHILD) -> Run:
        """A run with an action on its first child when it reports the event."""
        acts = iter([act])
        here = RunPlatform(
            folder=tmp_path / f"runs-{len(list(tmp_path.iterdir()))}",
            launcher=QueueLauncher(),
            script=lambda _hello, _side: 1,
        )
        slot = here.supervisor()
        slot.limits = replace(slot.limits, memory_bytes=2**40)
        slot.preparing = Books(
            decode=slot.preparing.decode,
            secrets=slot.preparing.secrets,
            connect=slot.preparing.connect,
            break_key=slot.preparing.break_key,
            root=tmp_path,
        )
        slot.child = WarmChild(
            make=lambda: WatchedChild(module, event, next(acts, leave_alone)),
            hello=canonical_json(hello(tmp_path, java_runtime, owner=str(here.tenant))),
            clock=SystemClock(),
        )
        run = here.trigger()
        here.launching.step()
        while here.now(run).status in {RunStatus.QUEUED, RunStatus.RUNNING}:
            assert slot.step(here.stop)
            slot.child.kill()
            here.close_ended(run)
            here.clock.advance(ATTEMPT_PAUSE)
        return here.now(run)

    return end


def hello(place: Path, java: Java, *, owner: str) -> dict[str, JsonValue]:
    return {
        "master": "local[1]",
        "driver_memory": "512m",
        "java_home": str(java.home),
        "java_options": classes.of_spark(java, SHORT_LIVED),
        "scratch": str(place / "scratch"),
        "max_spill_bytes": 2**30,
        "roots": [str(place)],
        "files_owner": owner,
        "profile": "local",
        "allowed_cidrs": [],
        "denied_cidrs": [],
        "excluded": [],
        "blob_url": (place / "blobs").as_uri(),
    }


def the_end(run: Run) -> str | None:
    if run.error is None:
        return run.result
    return f"{run.error.code}/{run.error.detail_code}"


Ended = Callable[..., Run]
LOST, KILLED = "CRASHED/DRIVER_LOST", "CRASHED/KILLED"


@pytest.mark.case("L29")
@pytest.mark.parametrize("event", ["extraction_started", "comparison_started"])
@pytest.mark.parametrize(
    ("act", "answers"), [(kill_java, [LOST, LOST]), (kill_child, [KILLED]), (kill_both, [KILLED])]
)
def test_a_killed_spark_has_the_same_answer_every_time(
    ended: Ended, event: str, act: Callable[[int], None], answers: list[str]
) -> None:
    assert [the_end(ended(event, act)) for _ in answers] == answers


def test_a_java_killed_before_its_session_answers_costs_one_attempt(ended: Ended) -> None:
    run = ended("session", kill_java)
    assert (the_end(run), run.attempt) == ("MATCHED", 2)


def test_a_java_killed_while_the_result_is_written_changes_nothing(ended: Ended) -> None:
    run = ended("none", leave_alone, WRITING)
    assert (the_end(run), run.attempt) == ("MATCHED", 1)
