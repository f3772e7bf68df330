"""Waiting for the end of a run: what is shown meanwhile, and what Ctrl-C means."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import httpx
import pytest

from datarecs_application.ports.outside import Wake
from datarecs_cli.client import Api, Json
from datarecs_cli.config import Access
from datarecs_cli.output import ASCII
from datarecs_cli.refusals import WaitedTooLongError
from datarecs_cli.screen import Screen
from datarecs_cli.watching import ProgressView, cancel, wait_for_end
from datarecs_core.errors.api import ApiCode
from datarecs_runtime.clock import SystemClock
from datarecs_testing.clock import ManualClock
from datarecs_testing.scripted_api import (
    API_KEY,
    RUN_ID,
    SERVER,
    Reply,
    ScriptedApi,
    a_run_view,
    a_whole_stream,
    an_entry,
    frame,
    refuses,
    says,
)

EVENTS, RUN, CANCEL = f"/runs/{RUN_ID}/events", f"/runs/{RUN_ID}", f"/runs/{RUN_ID}/cancel"
MATCHED = a_run_view(status="COMPLETED", result="MATCHED", last_sequence=1)
CANCELLED = a_run_view(status="CANCELLED", last_sequence=1)
WHOLE = a_whole_stream(an_entry(1, "run.triggered", triggered_by="admin"), run=MATCHED)
LOG = ProgressView(screen=Screen(quiet=False, moves=False), words=ASCII)


class Impatient(SystemClock):
    """The user's second Ctrl-C comes while the three seconds pass, or does not."""

    def __init__(self, *, interrupts: bool) -> None:
        self.interrupts, self.waited = interrupts, timedelta()

    def wait(self, duration: timedelta, *, until: Wake | None = None) -> bool:
        assert until is None
        self.waited += duration
        if self.interrupts:
            raise KeyboardInterrupt
        return False

    def now(self) -> datetime:
        return ManualClock().now()


def api_of(server: ScriptedApi, clock: SystemClock | None = None) -> Api:
    access = Access(server=SERVER, api_key=API_KEY)
    return Api(access, clock=clock, transport=server.transport)


def interrupted_until(opened: threading.Event, requested: threading.Event) -> Reply:
    """A stream that sends one event, then Ctrl-C comes; it goes on when opened."""

    def content() -> Iterator[bytes]:
        yield frame("event", an_entry(1, "run.triggered"))
        assert requested.wait(10)
        os.kill(os.getpid(), signal.SIGINT)
        assert opened.wait(10)
        yield frame("run", CANCELLED)
        yield frame("end", CANCELLED)

    headers = {"content-type": "text/event-stream"}
    return lambda _request: httpx.Response(200, content=content(), headers=headers)


def test_each_event_is_a_plain_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    server = ScriptedApi()
    server.on("GET", EVENTS, WHOLE)
    server.on("GET", RUN, says(MATCHED))
    with api_of(server) as api:
        assert wait_for_end(api, RUN_ID, LOG) == MATCHED
    shown = capsys.readouterr()
    assert shown.err == "12:00:01 run.triggered            by admin\n"
    assert shown.out == ""


@pytest.mark.case("U11")
def test_one_ctrl_c_leaves_the_run_alone(capsys: pytest.CaptureFixture[str]) -> None:
    opened, requested = threading.Event(), threading.Event()
    server, clock = ScriptedApi(), Impatient(interrupts=False)
    server.on("GET", EVENTS, interrupted_until(opened, requested))
    view = replace(LOG, happened=lambda _entry: requested.set())
    with api_of(server, clock) as api, pytest.raises(KeyboardInterrupt):
        wait_for_end(api, RUN_ID, view)
    opened.set()
    assert f"the run continues; follow it with: datarecs watch {RUN_ID}" in capsys.readouterr().err
    assert clock.waited == timedelta(seconds=3)
    assert server.requests_to("POST") == []


@pytest.mark.case("U11")
def test_a_second_ctrl_c_cancels_the_run_and_waits_for_its_end() -> None:
    opened, requested = threading.Event(), threading.Event()

    def stopping(request: httpx.Request) -> httpx.Response:
        opened.set()
        return says(a_run_view(cancel_requested=True), 202)(request)

    server = ScriptedApi()
    server.on("GET", EVENTS, interrupted_until(opened, requested))
    server.on("POST", CANCEL, stopping)
    server.on("GET", RUN, says(CANCELLED))
    view = replace(LOG, happened=lambda _entry: requested.set())
    with api_of(server, Impatient(interrupts=True)) as api:
        assert wait_for_end(api, RUN_ID, view)["status"] == "CANCELLED"
    assert len(server.requests_to("POST", CANCEL)) == 1


def silent(opened: threading.Event) -> Reply:
    def content() -> Iterator[bytes]:
        yield frame("run", a_run_view(status="RUNNING"))
        opened.wait(10)
        yield frame("end", MATCHED)

    headers = {"content-type": "text/event-stream"}
    return lambda _request: httpx.Response(200, content=content(), headers=headers)


def test_a_limit_ends_the_waiting_and_not_the_run() -> None:
    opened = threading.Event()
    server = ScriptedApi()
    server.on("GET", EVENTS, silent(opened))
    with api_of(server) as api, pytest.raises(WaitedTooLongError, match="not ended after"):
        wait_for_end(api, RUN_ID, LOG, limit_s=0.2)
    opened.set()
    assert server.requests_to("POST") == []


def test_a_log_shows_a_sign_of_life_every_ten_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datarecs_cli.watching.HEARTBEAT", timedelta(seconds=0.05))
    opened = threading.Event()
    server = ScriptedApi()
    server.on("GET", EVENTS, silent(opened))
    with api_of(server) as api, pytest.raises(WaitedTooLongError):
        wait_for_end(api, RUN_ID, LOG, limit_s=0.3)
    opened.set()
    assert "RUN RUNNING 0:00:00" in capsys.readouterr().err.splitlines()


def test_events_can_be_taken_instead_of_lines(capsys: pytest.CaptureFixture[str]) -> None:
    server = ScriptedApi()
    server.on("GET", EVENTS, WHOLE)
    server.on("GET", RUN, says(MATCHED))
    taken: list[Json] = []
    view = ProgressView(screen=LOG.screen, words=ASCII, happened=taken.append)
    with api_of(server) as api:
        wait_for_end(api, RUN_ID, view)
    assert [one["type"] for one in taken] == ["io.datarecs.reconciliation.run.triggered"]
    assert capsys.readouterr().err == ""


def test_a_finished_run_stays_finished() -> None:
    server = ScriptedApi()
    server.on("POST", CANCEL, refuses(409, ApiCode.RUN_ALREADY_TERMINAL))
    with api_of(server) as api:
        assert cancel(api, RUN_ID) is None
