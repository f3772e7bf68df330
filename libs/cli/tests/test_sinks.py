"""`datarecs sink`: what is shown of a sink, and what is sent to steer it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datarecs_cli.main import run
from datarecs_core.errors.sink import SinkCode
from datarecs_testing.scripted_api import ScriptedApi, refuses, says, written_credentials

AT = "2026-11-27T12:00:00.000000Z"
COMMIT = "01890a5d-ac96-774b-bcce-b302099a8101"
PLACE = "/sink-tables/landing"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    scripted = ScriptedApi()
    scripted.on("GET", PLACE, says(a_sink()))
    with scripted.in_place_of_the_network():
        yield scripted


def a_sink(**status: object) -> dict[str, Any]:
    return {
        "apiVersion": "datarecs.io/v1",
        "kind": "SinkTable",
        "metadata": {
            "name": "landing",
            "namespace": "default",
            "generation": 1,
            "creationTimestamp": AT,
        },
        "spec": {"connection": "kafka", "topics": ["orders", "refunds"], "tables": []},
        "status": {
            "phase": "Committing",
            "conditions": [],
            "lag": 12,
            "epoch": 2,
            "dead_letters": 1,
            "workers": 1,
            "tasks": 2,
            "last_commit_id": COMMIT,
            "last_commit_at": AT,
            "valid_through_ts": AT,
            **status,
        },
    }


def a_partition(number: int, **changes: object) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": number,
        "committed": 5,
        "largest_ts": AT,
        "position": 7,
        "end": 9,
        **changes,
    }


def test_sinks_are_listed_with_their_state(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/sink-tables", says({"items": [a_sink()], "next": None}))
    assert run(["sink", "ls"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        *("NAME", "NAMESPACE", "TOPICS", "PHASE", "TASKS", "LAG", "LAST", "COMMIT")
    ]
    assert lines[1].split() == [
        *("landing", "default", "orders,", "refunds", "Committing", "1/2", "12", AT)
    ]


def test_no_sinks_say_how_to_declare_one(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/sink-tables", says({"items": [], "next": None}))
    assert run(["sink", "ls", "--namespace", "*"]) == 0
    assert "datarecs apply -f FILE" in capsys.readouterr().err
    assert server.requests[-1].url.params["namespace"] == "*"


def test_the_status_shows_figures_and_partitions(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"code": "COMMIT_FAILED", "message": "409"}
    server.on("GET", PLACE, says(a_sink(last_error=error)))
    items = [a_partition(0), a_partition(1, committed=None, largest_ts=None)]
    server.on("GET", f"{PLACE}/partitions", says({"items": items, "next": None}))
    assert run(["sink", "status", "landing"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "SinkTable landing in namespace default",
        "  phase       Committing",
        "  generation  1",
        "  created     2026-11-27 12:00:00 UTC",
        "tasks            1 of 2 run",
        "records waiting  12",
        "dead letters     1",
        "last commit      2026-11-27 12:00:00 UTC",
        "valid through    2026-11-27 12:00:00 UTC",
        "last error       COMMIT_FAILED: 409",
        "partitions",
        "  TOPIC   PARTITION  COMMITTED  READ  END  NEWEST",
        "  orders          0          5     7    9  2026-11-27 12:00:00 UTC",
        "  orders          1                7    9  -",
    ]
    assert run(["sink", "status", "landing", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["partitions"] == items
    assert run(["sink", "status", "landing", "-o", "csv"]) == 2


def test_commits_are_listed(server: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
    commit = {
        "commit_id": COMMIT,
        "completed_at": AT,
        "epoch": 2,
        "partial": True,
        "control_offset": 40,
        "valid_through_ts": None,
        "records": 12,
        "snapshots": [{"table": "orders"}],
    }
    server.on("GET", f"{PLACE}/commits", says({"items": [commit], "next": None}))
    assert run(["sink", "commits", "landing", "--limit", "5"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [COMMIT, AT, "partial", "12", "1"]
    assert run(["sink", "commits", "landing", "-o", "name"]) == 0
    assert capsys.readouterr().out == f"{COMMIT}\n"
    assert run(["sink", "commits", "landing", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == [commit]


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("pause", "pauses after its next commit"),
        ("resume", "resumed"),
        ("commit-now", "commit requested"),
        ("retry", "stopped tasks begin again"),
    ],
)
def test_a_verb_is_sent_once_with_a_key(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str], verb: str, words: str
) -> None:
    server.on("POST", f"{PLACE}/actions/{verb}", says(a_sink(), 202))
    assert run(["sink", verb, "landing"]) == 0
    assert capsys.readouterr().out == f"sink-table/landing {words}\n"
    (request,) = server.requests_to("POST", f"{PLACE}/actions/{verb}")
    assert request.headers["Idempotency-Key"]
    assert json.loads(request.content) == {}


def test_a_reset_sends_its_positions(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("POST", f"{PLACE}/actions/reset", says(a_sink(), 202))
    line = "sink reset landing --position orders/0=5 --position orders/1=7 --position a.b/00=9"
    assert run([*line.split(), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["object"]["kind"] == "SinkTable"
    (request,) = server.requests_to("POST", f"{PLACE}/actions/reset")
    assert json.loads(request.content) == {
        "positions": {"orders": {"0": 5, "1": 7}, "a.b": {"0": 9}}
    }


@pytest.mark.parametrize("positions", [["orders=5"], ["orders/0"], ["o/0=1", "o/00=2"], ["/0=1"]])
def test_a_position_of_another_form_is_refused(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str], positions: list[str]
) -> None:
    flags = [word for one in positions for word in ("--position", one)]
    assert run(["sink", "reset", "landing", *flags]) == 2
    assert "--position" in capsys.readouterr().err
    assert not server.requests


def test_a_refused_verb_names_the_code(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("POST", f"{PLACE}/actions/retry", refuses(409, SinkCode.SINK_NOT_STARTED))
    assert run(["sink", "retry", "landing"]) == 5
    assert "DR7024" in capsys.readouterr().err
