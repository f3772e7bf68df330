import io
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import structlog

from datarecs_core.errors.process import SettingsError
from datarecs_core.errors.storage import BlobStoreUnavailableError
from datarecs_runtime.process import Process
from datarecs_runtime.sections import Queue
from datarecs_runtime.service import run_service
from datarecs_runtime.settings import ServiceSettings


class Settings(ServiceSettings):
    queue: Queue = Queue()
    """How long leases last."""


@pytest.fixture(autouse=True)
def _isolate_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("DATARECS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    yield
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)


def never(_settings: Settings) -> Process:
    raise AssertionError("nothing is built")


def test_help_prints_every_setting_with_its_default_and_meaning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_service("x", Settings, never, arguments=["--help"]) == 0
    printed = capsys.readouterr().out
    assert "DATARECS_QUEUE__LEASE_TTL [0:01:00]\n    Time until a lease expires" in printed
    assert "DATARECS_DATABASE__URL" not in printed


def test_wrong_settings_are_reported_and_nothing_is_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATARECS_QUEUE__LEASE_TTL", "1s")
    assert run_service("worker", Settings, never, arguments=[]) == 78
    (line,) = capsys.readouterr().out.splitlines()
    record = json.loads(line)
    assert (record["event"], record["code"]) == ("settings_refused", "DR5841")
    assert "DATARECS_QUEUE__LEASE_TTL" in record["message"]


def test_a_refusal_while_wiring_is_one_log_line_with_its_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_settings: Settings) -> Process:
        raise BlobStoreUnavailableError(where="/blobs", cause="read-only")

    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    assert run_service("worker", Settings, refuse, arguments=[]) == 70
    line = json.loads(out.getvalue())
    assert (line["event"], line["code"], line["service"]) == ("start_refused", "DR5825", "worker")


def test_settings_that_the_wiring_refuses_are_one_log_line_without_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(_settings: Settings) -> Process:
        raise SettingsError(("DATARECS_API__HOST is not a loopback address",))

    assert run_service("core-api", Settings, refuse, arguments=[]) == 78
    record = json.loads(capsys.readouterr().out)
    assert (record["event"], record["code"]) == ("start_refused", "DR5841")
    assert "DATARECS_API__HOST is not a loopback address" in record["message"]
    assert "exception" not in record


def test_unsafe_settings_are_one_log_line_and_nothing_is_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATARECS_SIDE__HOST", "8.8.8.8")
    assert run_service("worker", Settings, never, arguments=[]) == 78
    (line,) = capsys.readouterr().out.splitlines()
    record = json.loads(line)
    assert (record["event"], record["code"]) == ("start_refused", "DR5843")
    assert "S12: DATARECS_SIDE__HOST is the public address 8.8.8.8" in record["message"]


def test_a_command_is_done_in_place_of_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    received: list[Sequence[str]] = []

    def mend(_settings: Settings, arguments: Sequence[str]) -> int:
        received.append(arguments)
        return 3

    code = run_service(
        "x", Settings, never, arguments=["mend", "--all", "--help"], commands={"mend": mend}
    )
    assert (code, received) == (3, [["--all", "--help"]])
