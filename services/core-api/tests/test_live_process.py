"""Live views of the process over sockets: cut, killed, restarted, deaf, drained (L42)."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from uuid import UUID

import httpx2
import pytest
from pydantic import SecretStr
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from datarecs_application.ports.state import HistoryEntry
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import Disposition, RunResult, RunStatus
from datarecs_core.values import EventId, RunId
from datarecs_core_api.places import Places
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_runtime.clock import UuidV7Ids
from datarecs_runtime.derived_keys import derived_key
from datarecs_runtime.sections import Secrets
from datarecs_testing.api import change_run
from datarecs_testing.api_process import KEK, Running, running_api
from datarecs_testing.builders import A_TENANT
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.live_views import Frame, frames

pytestmark = pytest.mark.integration
STREAM = {"Accept": "text/event-stream"}
TENANT_WIDE = "/api/v1/events/stream"
LATE_S = 3.0
"""A poll of one second on a machine that does other things too."""


@pytest.fixture
def running(database: PreparedDatabase, tmp_path: Path) -> Iterator[Running]:
    with running_api(database, tmp_path) as api:
        yield api


def triggered(api: Running) -> str:
    api.client.post("/api/v1/jobs", json=EXAMPLES[Kind.RECONCILIATION_JOB])
    return str(api.client.post("/api/v1/jobs/ledger-vs-exports/runs").headers["Location"])


def record(api: Running, run: str, count: int = 1) -> None:
    """Facts of a run, one commit each, of another process than core-api."""
    ids = UuidV7Ids()
    for _ in range(count):
        with api.controller.begin(A_TENANT, feed=1) as tx:
            entry = HistoryEntry(
                sequence=0,
                event_id=EventId(ids.new()),
                type="attempt_lost",
                source="/datarecs/core-api",
                time=tx.now,
                data={"attempt": 1},
                disposition=Disposition.SYNTHESISED,
            )
            run_id = RunId(UUID(run.rpartition("/")[2]))
            tx.runs.for_update(run_id)
            tx.runs.record(run_id, entry)


def end(api: Running, run: str) -> None:
    change_run(
        api.controller,
        run.rpartition("/")[2],
        status=RunStatus.COMPLETED,
        result=RunResult.MATCHED,
    )


@contextmanager
def following(api: Running, path: str, seen: str | None = None) -> Iterator[Iterator[Frame]]:
    headers = STREAM if seen is None else {**STREAM, "Last-Event-ID": seen}
    with api.client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        next(lines)  # the stream has begun
        yield frames(lines)


def opened(api: Running, origin: str | None = None) -> ClientConnection:
    ticket = api.client.post("/api/v1/ws-tickets").json()["ticket"]
    url = f"ws://127.0.0.1:{api.port}/api/v1/ws?ticket={ticket}"
    return connect(url, proxy=None, origin=None if origin is None else Origin(origin))


def listening(database: PreparedDatabase) -> list[str]:
    """Logins of the connections that wait for notifications."""
    rows = database.query(
        "SELECT usename FROM pg_stat_activity"
        " WHERE datname = current_database() AND query LIKE 'LISTEN%%'"
    )
    return [name for (name,) in rows]


def all_places(database: PreparedDatabase) -> list[str]:
    """Of tenant A's events, as the process makes them of its key-encryption key."""
    key = derived_key(Secrets(kek=SecretStr(KEK)), tenant=None, purpose="places")
    rows = database.query("SELECT rv FROM datarecs.run_event ORDER BY rv")
    return [Places(key).write(A_TENANT, rv) for (rv,) in rows]


@pytest.mark.case("L42")
def test_a_stream_that_is_cut_goes_on_where_it_was(
    running: Running, database: PreparedDatabase
) -> None:
    run = triggered(running)
    record(running, run, 20)
    wide, narrow = [], []
    with following(running, f"{TENANT_WIDE}?after=0") as stream:
        wide += [next(stream).id for _ in range(8)]
    with following(running, f"{run}/events") as stream:
        narrow += [next(stream).id for _ in range(8)]
    record(running, run, 20)
    end(running, run)
    with following(running, TENANT_WIDE, wide[-1]) as stream:
        wide += [next(stream).id for _ in range(33)]
    with following(running, f"{run}/events", narrow[-1]) as stream:
        rest = list(stream)
    narrow += [one.id for one in rest if one.id]
    assert wide == all_places(database)
    assert narrow == [str(number) for number in range(1, 42)]
    assert rest[-1].event == "end"


@pytest.mark.case("L42")
def test_a_restart_of_the_process_loses_nothing(database: PreparedDatabase, tmp_path: Path) -> None:
    with running_api(database, tmp_path) as api:
        run = triggered(api)
        with (
            following(api, TENANT_WIDE, "0") as wide,
            following(api, f"{run}/events") as narrow,
        ):
            record(api, run, 5)
            seen = [[next(stream).id for _ in range(4)] for stream in (wide, narrow)]
            before = [[one for one in ids if one] for ids in seen]
            api.service.kill()
            record(api, run, 5)
    with running_api(database, tmp_path, port=api.port) as api:
        after = []
        with following(api, TENANT_WIDE, before[0][-1]) as wide:
            record(api, run, 5)
            after.append([next(wide).id for _ in range(16 - len(before[0]))])
        end(api, run)
        with following(api, f"{run}/events", before[1][-1]) as narrow:
            after.append([one.id for one in narrow if one.id])
    assert before[0] + after[0] == all_places(database)
    assert before[1] + after[1] == [str(number) for number in range(1, 17)]


@pytest.mark.case("L42")
def test_without_notifications_everything_comes_a_second_later(
    database: PreparedDatabase, tmp_path: Path
) -> None:
    with running_api(database, tmp_path, DATARECS_LIVE__NOTIFY="off") as api:
        run = triggered(api)
        assert listening(database) == []
        with (
            following(api, TENANT_WIDE) as wide,
            following(api, f"{run}/events?after=1") as narrow,
        ):
            assert next(narrow).event == "run"
            for stream in (wide, narrow):
                record(api, run)
                began = monotonic()
                assert next(stream).event == "event"
                assert monotonic() - began < LATE_S


def test_one_connection_listens(running: Running, database: PreparedDatabase) -> None:
    run = triggered(running)
    with following(running, TENANT_WIDE), following(running, f"{run}/events"):
        assert listening(database) == ["datarecs_api"]


@pytest.mark.case("R13", "R16")
def test_a_watch_gets_each_write_and_continues_where_it_was(running: Running) -> None:
    path, names = "/api/v1/jobs", ("one", "two", "three")

    def create(name: str) -> None:
        body = {**EXAMPLES[Kind.RECONCILIATION_JOB], "metadata": {"name": name}}
        assert running.client.post(path, json=body).status_code == 201

    since, seen = running.client.get(path).json()["watch_since"], list[Frame]()
    for name in names:
        with running.client.stream("GET", f"{path}?watch=1&since={since}") as answer:
            create(name)
            seen.append(next(frames(answer.iter_lines())))
        since = seen[-1].id
    assert [one.data["metadata"]["name"] for one in seen] == list(names)  # type: ignore[index]  # JSON


def test_a_drain_lets_everybody_go(running: Running) -> None:
    run = triggered(running)
    with following(running, TENANT_WIDE) as wide, opened(running) as socket:
        socket.send(json.dumps({"subscribe": {"run_id": run.rpartition("/")[2]}}))
        socket.recv(timeout=10)
        stopping: list[int] = []
        ending = threading.Thread(target=lambda: stopping.append(running.service.stop()))
        ending.start()
        assert list(wide) == []
        assert json.loads(socket.recv(timeout=10))["event"] == "run"
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=10)
        assert socket.close_code == 1012
    ending.join(timeout=40)
    assert stopping == [0], running.service.text()


@pytest.mark.case("L42")
def test_a_socket_sends_the_events_of_a_run_to_its_end(running: Running) -> None:
    run = triggered(running)
    run_id = run.rpartition("/")[2]
    record(running, run, 3)
    with opened(running, origin=f"http://127.0.0.1:{running.port}") as socket:
        socket.send(json.dumps({"subscribe": {"run_id": run_id, "after": 2}}))
        messages = [json.loads(socket.recv(timeout=10)) for _ in range(3)]
        end(running, run)
        messages += [json.loads(socket.recv(timeout=10)) for _ in range(2)]
    assert [(one["event"], one.get("id")) for one in messages] == [
        ("event", 3),
        ("event", 4),
        ("run", None),
        ("run", None),
        ("end", None),
    ]
    assert {one["run_id"] for one in messages} == {run_id}


@pytest.mark.case("X19")
def test_a_socket_of_a_foreign_page_is_refused(running: Running) -> None:
    with pytest.raises(InvalidStatus) as refused, opened(running, origin="http://evil.example"):
        pass
    answer = refused.value.response
    assert answer.status_code == 403
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert json.loads(answer.body)["code"] == "DR6012"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert running.service.stop() == 0
    assert "uvicorn.error" not in running.service.text()


def test_a_message_that_is_too_long_ends_a_socket(running: Running) -> None:
    with opened(running) as socket:
        socket.send(5000 * " ")
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=10)
        assert socket.close_code == 1009


def test_no_ticket_is_in_the_log(running: Running) -> None:
    with opened(running) as socket:
        ticket = str(socket.request and socket.request.path).rpartition("=")[2]
    assert len(ticket) == 43
    assert httpx2.get(f"http://127.0.0.1:{running.port}/livez").status_code == 200
    assert ticket not in running.service.text()
