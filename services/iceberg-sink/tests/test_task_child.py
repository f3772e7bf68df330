"""The process of a task: what it gets, what it reads and reports, and how it ends."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # publishes no types
import pytest

from datarecs_application.sinking.remote import CALL, FAILED, STOP, answer_call
from datarecs_application.sinking.task_session import BROKER_TIMEOUT_EXIT
from datarecs_core.errors.messaging import MessagingCode
from datarecs_core.hashing import canonical_json
from datarecs_iceberg_sink.settings import Settings
from datarecs_iceberg_sink.wiring import TASK, task_template
from datarecs_kafka.watchdog import EXIT_BROKER_TIMEOUT
from datarecs_runtime.child import PipedChild
from datarecs_runtime.child_surroundings import surroundings_frame
from datarecs_runtime.forked_child import ChildTemplate
from datarecs_runtime.sections import Database
from datarecs_testing.builders import A_TENANT
from datarecs_testing.clock import FixedIds
from datarecs_testing.sink_doubles import RecordedSinkMemory

SECRET = "canary-4711"
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChildTemplate]:
    template = task_template(tmp_path_factory.mktemp("template"))
    yield template
    template.close()


@pytest.fixture
def child(template: ChildTemplate) -> Iterator[PipedChild]:
    child = PipedChild(TASK, template.fork)
    yield child
    with suppress(Exception):
        child.kill()


def a_frame(folder: Path, **changes: object) -> bytes:
    settings = Settings(database=Database(url="postgresql://nobody@127.0.0.1/none"))  # type: ignore[arg-type]  # a secret
    config = {
        "brokers": ["127.0.0.1:1"],
        "security": "SASL_PLAINTEXT",
        "mechanism": "SCRAM-SHA-512",
        "user": "u",
    }
    catalog = {"type": "sql", "name": "lake", "sqlite": "catalog.db"}
    frame: dict[str, Any] = {
        **surroundings_frame(settings, folder),
        "tenant_id": str(A_TENANT),
        "sink_uid": str(FixedIds.nth(5)),
        "name": "landing",
        "number": 0,
        "directory": str(folder / "child-0"),
        "sink": {
            "connection": "events",
            "topics": ["orders"],
            "tables": [{"catalog": "lake", "namespace": "sales", "name": "orders"}],
        },
        "connections": {
            "events": {"type": "kafka", "config": {"$type": "KafkaConfig", **config}},
            "lake": {
                "type": "iceberg",
                "config": {
                    "$type": "IcebergConfig",
                    "catalog": {"$type": "SqlCatalog", **catalog},
                },
            },
        },
        "secrets": {"events/password": SECRET},
        "roots": [str(folder)],
        **changes,
    }
    return canonical_json(frame)


def next_frame(child: PipedChild, kind: str) -> Mapping[str, object]:
    ends = time.monotonic() + LIMIT_S
    while time.monotonic() < ends:
        frame = child.frames(timedelta(seconds=1))
        if frame is not None and frame["type"] == kind:
            return frame
        assert frame is not None or child.ended() is None, child.ended()
    raise AssertionError(f"no frame of type {kind}")


def test_it_reads_its_state_and_reports_what_hinders_it(child: PipedChild, tmp_path: Path) -> None:
    memory = RecordedSinkMemory()
    child.start(a_frame(tmp_path))
    while not memory.reports or not memory.reports[-1].error_code:
        answered = answer_call(memory, next_frame(child, CALL))
        child.send(canonical_json(answered.frame))
    assert memory.reports[-1].error_code == MessagingCode.LOG_UNAVAILABLE.name
    assert SECRET not in memory.reports[-1].error
    child.send(canonical_json({"type": STOP}))
    while child.ended() is None:
        frame = child.frames(timedelta(seconds=1))
        if frame is not None and frame["type"] == CALL:
            child.send(canonical_json(answer_call(memory, frame).frame))
    end = child.ended()
    assert end is not None
    assert end.exit_code == 0


def test_its_environment_has_nothing_of_the_platform(
    child: PipedChild, template: ChildTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATARECS_DATABASE__URL", "postgresql://secret")
    child.start(a_frame(tmp_path))
    next_frame(child, CALL)
    pid = template.pid()
    assert pid is not None
    (task,) = psutil.Process(pid).children()
    assert not [name for name in task.environ() if name.startswith("DATARECS_")]
    assert SECRET not in str(task.environ())


def test_a_declaration_that_cannot_be_read_is_a_reported_failure(
    child: PipedChild, tmp_path: Path
) -> None:
    child.start(a_frame(tmp_path, sink={"connection": "events"}))
    frame = next_frame(child, FAILED)
    assert frame["code"] == "INVALID_SPEC"


def test_the_service_knows_the_exit_code_of_a_silent_broker() -> None:
    assert BROKER_TIMEOUT_EXIT == EXIT_BROKER_TIMEOUT
