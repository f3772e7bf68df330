"""`describe`, `wait`, `reconcile`, `pause`, `resume`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from datarecs_cli.main import run
from datarecs_core.errors.api import ApiCode
from datarecs_testing.clock import ManualClock
from datarecs_testing.scripted_api import ScriptedApi, refuses, says, written_credentials

MISSING = "connection here does not exist in namespace default; apply it"
SINCE = "2026-03-29T01:00:00.000000Z"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    """Waits of the client pass at once."""
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    scripted, clock = ScriptedApi(), ManualClock(by_itself=True)
    with (
        scripted.in_place_of_the_network(),
        patch("datarecs_cli.client.SystemClock", lambda: clock),
    ):
        yield scripted


def a_job(
    ready: str = "False", *, observed: int = 2, connection: str = "here", name: str = "orders"
) -> dict[str, Any]:
    message = MISSING if ready == "False" else ""
    reason = "ConnectionMissing" if ready == "False" else "AllResolved"
    return {
        "apiVersion": "datarecs.io/v1",
        "kind": "ReconciliationJob",
        "metadata": {
            "name": name,
            "namespace": "default",
            "generation": 2,
            "creationTimestamp": SINCE,
            "labels": {"team": "finance"},
        },
        "spec": {"sources": [{"name": "a", "connection": connection}]},
        "status": {
            "phase": "Pending" if ready == "False" else "Ready",
            "observed_generation": observed,
            "conditions": [
                {
                    "type": "Ready",
                    "status": ready,
                    "reason": reason,
                    "message": message,
                    "last_transition_time": SINCE,
                }
            ],
        },
    }


def a_capture(*, connection: str = "here", name: str = "nightly") -> dict[str, Any]:
    return {
        **object_of("Capture", name),
        "spec": {"connection": connection, "mode": "METADATA_ONLY", "interval": "PT1H"},
        "status": {
            "phase": "Ready",
            "conditions": [],
            "last_capture": {
                "job_id": "0190-1",
                "state": "SUCCEEDED",
                "requested_at": SINCE,
                "started_at": SINCE,
                "finished_at": SINCE,
                "counters": {"tables_scanned": 3, "bytes_read": 0},
            },
            "next_due_at": SINCE,
        },
    }


def a_sink(
    name: str = "landing", *, connection: str = "here", catalog: str = "lake"
) -> dict[str, Any]:
    table = {"catalog": catalog, "namespace": "sales", "name": "orders"}
    spec = {"connection": connection, "topics": ["orders"], "tables": [table]}
    return {**object_of("SinkTable", name), "spec": spec}


def object_of(kind: str, name: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "default",
        "generation": 1,
        "creationTimestamp": SINCE,
    }
    return {"apiVersion": "datarecs.io/v1", "kind": kind, "metadata": metadata, "status": {}}


def test_a_job_is_described_with_its_conditions_in_words(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/jobs/orders", says(a_job(observed=1)))
    assert run(["describe", "job", "orders"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ReconciliationJob orders in namespace default",
        "  phase       Pending",
        "  generation  2; the status is about generation 1",
        "  created     2026-03-29 01:00:00 UTC",
        "  labels      team=finance",
        "conditions",
        "  Ready  False    ConnectionMissing, since 2026-03-29 01:00:00 UTC",
        f"         {MISSING}",
    ]


def test_a_connection_is_described_with_its_jobs(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/connections/here", says(object_of("Connection", "here")))
    jobs = [a_job(), a_job(connection="there", name="other")]
    server.on("GET", "/jobs", says({"items": jobs, "next": None}))
    captures = [a_capture(), a_capture(connection="there", name="other")]
    server.on("GET", "/captures", says({"items": captures, "next": None}))
    sinks = [
        a_sink(),
        a_sink("other", connection="there", catalog="here"),
        a_sink("third", connection="x"),
    ]
    server.on("GET", "/sink-tables", says({"items": sinks, "next": None}))
    assert run(["describe", "connection", "here"]) == 0
    assert capsys.readouterr().out.splitlines()[-7:] == [
        *("jobs that use it", "  orders"),
        *("captures that use it", "  nightly"),
        *("sinks that use it", "  landing", "  other"),
    ]
    assert server.requests[-1].url.params["namespace"] == "*"
    assert run(["describe", "connection", "here", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["jobs"], document["captures"]) == (["orders"], ["nightly"])
    assert document["sinks"] == ["landing", "other"]
    server.on("GET", "/jobs", says({"items": [], "next": None}))
    server.on("GET", "/captures", says({"items": [], "next": None}))
    server.on("GET", "/sink-tables", says({"items": [], "next": None}))
    assert run(["describe", "connection", "here"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no job uses it"


def test_a_capture_is_described_with_its_last_job(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/captures/nightly", says(a_capture()))
    assert run(["describe", "capture", "nightly"]) == 0
    shown = "2026-03-29 01:00:00 UTC"
    assert capsys.readouterr().out.splitlines()[-6:] == [
        "last capture  0190-1  SUCCEEDED",
        f"  requested  {shown}",
        f"  started    {shown}",
        f"  finished   {shown}",
        "  tables_scanned  3",
        f"next capture: {shown}",
    ]


def test_the_list_of_captures_has_their_last_state(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/captures", says({"items": [a_capture()], "next": None}))
    assert run(["get", "captures", "-o", "csv"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "NAME,NAMESPACE,CONNECTION,PHASE,LAST,FINISHED,NEXT",
        f"nightly,default,here,Ready,SUCCEEDED,{SINCE},{SINCE}",
    ]


def test_a_schedule_is_described_with_its_times(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/schedules/nightly", says(object_of("Schedule", "nightly")))
    tick = {"fire_time": SINCE, "outcome": "ERROR", "run_id": None, "reason": "no such job"}
    missed = {**tick, "first_fire_time": "2026-03-28T01:00:00Z", "missed": 2}
    history = {"next_start_at": None, "items": [tick, missed], "next": None}
    server.on("GET", "/schedules/nightly/history", says(history))
    assert run(["describe", "schedule", "nightly"]) == 0
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "no next run: suspended or ended",
        "newest times",
        "  2026-03-29 01:00:00 UTC  ERROR  no such job",
        "  2026-03-28 01:00:00 UTC to 2026-03-29 01:00:00 UTC (2)  ERROR  no such job",
    ]


def test_a_format_without_meaning_is_refused(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/jobs/orders", says(a_job()))
    assert run(["describe", "job", "orders", "-o", "csv"]) == 2
    assert "write json or yaml" in capsys.readouterr().err


def test_a_wait_ends_when_the_condition_holds_for_the_current_declaration(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = [a_job("True", observed=1), a_job("False"), a_job("True")]
    server.on("GET", "/jobs/orders", *(says(one) for one in answers))
    assert run(["wait", "job", "orders", "--for", "condition=ready"]) == 0
    assert len(server.requests) == 3
    assert "condition=ready holds" in capsys.readouterr().err


def test_a_wait_may_be_for_another_status(server: ScriptedApi) -> None:
    server.on("GET", "/jobs/orders", says(a_job("False")))
    assert run(["wait", "job", "orders", "--for", "condition=Ready=False"]) == 0


@pytest.mark.case("R67")
@pytest.mark.parametrize(
    ("job", "claim", "reason"),
    [
        (a_job("False"), "condition=Ready", f"Ready is False, ConnectionMissing: {MISSING}"),
        (a_job("True", observed=1), "condition=Ready", "not decided on the current declaration"),
        (a_job("True"), "condition=valid", "it has no condition valid"),
        (a_job("True"), "delete", "it still exists"),
    ],
)
def test_a_wait_that_times_out_says_what_holds_instead(
    server: ScriptedApi,
    capsys: pytest.CaptureFixture[str],
    job: dict[str, Any],
    claim: str,
    reason: str,
) -> None:
    server.on("GET", "/jobs/orders", says(job))
    assert run(["wait", "job", "orders", "--for", claim, "--timeout", "5"]) == 3
    assert len(server.requests) == 6
    error = capsys.readouterr().err
    assert "job/orders: not within 5 s" in error
    assert reason in error
    assert "datarecs describe job orders" in error


def test_a_wait_for_the_deletion_ends_with_the_object(server: ScriptedApi) -> None:
    server.on("GET", "/jobs/orders", says(a_job()), refuses(404, ApiCode.NOT_FOUND))
    assert run(["wait", "job", "orders", "--for", "delete"]) == 0
    assert run(["wait", "job", "orders", "--for", "condition=Ready"]) == 2


def test_what_is_no_name_is_not_awaited(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["wait", "job", "a/b", "--for", "delete"]) == 2
    assert "'a/b' is no name: write 1 to 63 small letters" in capsys.readouterr().err
    assert server.requests == []


def test_a_claim_of_another_form_is_refused(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["wait", "job", "orders", "--for", "phase=Ready"]) == 2
    assert "write condition=Ready" in capsys.readouterr().err
    assert server.requests == []


@pytest.mark.parametrize(
    ("kind", "claim", "reason"),
    [
        ("schedule", "Ready", "schedules have no conditions"),
        ("retention-policy", "Ready", "retention-policies have no conditions"),
        ("job", "Redy", "jobs have no condition Redy; they have Paused, Ready, "),
        ("job", "Reachable", "jobs have no condition Reachable"),
        ("connection", "ReferencesResolved", "they have CredentialsValid, "),
    ],
)
def test_a_condition_that_no_controller_writes_is_not_awaited(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str], kind: str, claim: str, reason: str
) -> None:
    assert run(["wait", kind, "orders", "--for", f"condition={claim}"]) == 2
    assert reason in capsys.readouterr().err
    assert server.requests == []


@pytest.mark.parametrize(
    ("action", "outcome"),
    [("reconcile", "reconcile requested"), ("pause", "paused"), ("resume", "resumed")],
)
def test_an_action_is_sent_once_with_its_key(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str], action: str, outcome: str
) -> None:
    def accepted(request: httpx.Request) -> httpx.Response:
        assert "Idempotency-Key" in request.headers
        return says(a_job())(request)

    server.on("POST", f"/jobs/orders/actions/{action}", accepted)
    assert run([action, "job", "orders"]) == 0
    assert capsys.readouterr().out == f"job/orders {outcome}\n"
    assert run([action, "job", "orders", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["object"]["kind"] == "ReconciliationJob"


def test_an_action_on_a_kind_without_controller_is_refused(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pause", "schedule", "nightly"]) == 2
    assert (
        "no controller acts on them; on: Capture, Connection, ReconciliationJob"
        in capsys.readouterr().err
    )
    assert server.requests == []


def test_the_list_of_jobs_has_their_phase(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/jobs", says({"items": [a_job("True")], "next": None}))
    assert run(["get", "jobs", "-o", "csv"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "NAME,NAMESPACE,PHASE,GENERATION,CREATED",
        f"orders,default,Ready,2,{SINCE}",
    ]
