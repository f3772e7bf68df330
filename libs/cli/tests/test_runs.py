"""`run`, `watch`, `cancel`: how each ends, and what is requested of the server."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from datarecs_cli.main import run
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.security import SecurityCode
from datarecs_testing.scripted_api import (
    RUN_ID,
    Reply,
    ScriptedApi,
    a_run_view,
    a_whole_stream,
    an_entry,
    hangs_up,
    refuses,
    says,
    written_credentials,
)

EVENTS, RUN, CANCEL = f"/runs/{RUN_ID}/events", f"/runs/{RUN_ID}", f"/runs/{RUN_ID}/cancel"
ERROR = {"code": "UNKNOWN", "message": "no place", "detail_code": None}
FILE = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: orders}
spec:
  sources:
    - {name: ledger, kind: csv, connection: files, path: a.csv}
    - {name: exports, kind: csv, connection: files, path: b.csv}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: [{name: amount}]}
---
apiVersion: datarecs.io/v1
kind: Connection
metadata: {name: files}
spec: {type: files, config: {root: data}}
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    """The API behind the credentials of the folder where the user stands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("LC_ALL", "C")
    written_credentials(tmp_path)
    api = ScriptedApi()
    api.on("POST", "/jobs/orders/runs", says(a_run_view(status="TRIGGERED"), 202))
    api.on("GET", "/jobs/orders", refuses(404, ApiCode.NOT_FOUND))
    with api.in_place_of_the_network():
        yield api


def ends(server: ScriptedApi, status: str, result: str | None = None, **more: object) -> None:
    """The run ends so; its result is not to be had any more."""
    ended = a_run_view(status=status, result=result, last_sequence=1, **more)
    server.on("GET", EVENTS, a_whole_stream(an_entry(1, "run.triggered"), run=ended))
    server.on("GET", RUN, says(a_run_view()), says(ended))
    server.on("GET", f"{RUN}/report", refuses(404, ApiCode.NOT_FOUND))
    server.on("GET", f"{RUN}/mismatches", refuses(403, SecurityCode.FORBIDDEN))


@pytest.mark.case("U08")
@pytest.mark.parametrize("command", [["run", "orders"], ["watch", RUN_ID]])
@pytest.mark.parametrize(
    ("status", "result", "code"),
    [
        ("COMPLETED", "MATCHED", 0),
        ("COMPLETED", "UNMATCHED", 1),
        ("ERRORED", None, 3),
        ("QUEUE_ERRORED", None, 3),
        ("CANCELLED", None, 4),
    ],
)
def test_the_exit_code_says_how_the_run_ended(
    server: ScriptedApi, command: list[str], status: str, result: str | None, code: int
) -> None:
    ends(server, status, result, error=None if result or status == "CANCELLED" else ERROR)
    assert run(command) == code


@pytest.mark.parametrize(("acceptance", "code"), [("ACCEPTED", 0), ("REJECTED", 1), (None, 1)])
def test_under_the_gate_of_acceptance_only_an_accepted_run_passes(
    server: ScriptedApi, acceptance: str | None, code: int
) -> None:
    ends(server, "COMPLETED", "UNMATCHED", summary={"acceptance": acceptance})
    assert run(["run", "orders", "--gate", "acceptance"]) == code
    assert run(["watch", RUN_ID]) == 1


def test_progress_goes_to_stderr_and_the_outcome_to_stdout(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    ends(server, "ERRORED", error=ERROR)
    run(["run", "orders"])
    shown = capsys.readouterr()
    assert shown.out == "ERR ERRORED     UNKNOWN  no place\n"
    assert "run.triggered" in shown.err


@pytest.mark.case("U12")
@pytest.mark.parametrize("variable", [("NO_COLOR", "1"), ("TERM", "dumb"), ("LC_ALL", "C")])
def test_into_a_pipe_there_is_no_escape_byte_and_no_other_sign(
    server: ScriptedApi,
    variable: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(*variable)
    ends(server, "ERRORED", error=ERROR)
    run(["run", "orders"])
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert (shown.out + shown.err).isascii()


@pytest.mark.case("U13")
def test_json_is_one_document_and_messages_stay_on_stderr(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    ends(server, "ERRORED", error=ERROR)
    assert run(["run", "orders", "-o", "json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "datarecs.cli.run/1"
    assert document["run"]["error"] == ERROR


def test_what_is_typed_reaches_the_trigger(server: ScriptedApi) -> None:
    ends(server, "COMPLETED", "MATCHED")
    typed = ["--param", "day=2026-01-31", "--param", "ccy=EUR", "--param", "ccy=USD"]
    run(["run", "orders", *typed, "--reason", "closing"])
    (request,) = server.requests_to("POST")
    assert json.loads(request.content) == {
        "parameters": {"day": "2026-01-31", "ccy": ["EUR", "USD"]},
        "reason": "closing",
    }
    assert request.url.params["namespace"] == "default"


def test_each_trigger_has_a_separate_key_unless_one_is_set(server: ScriptedApi) -> None:
    for key in ([], [], ["--idempotency-key", "night-7"]):
        run(["run", "orders", "--detach", *key])
    keys = [one.headers["idempotency-key"] for one in server.requests_to("POST")]
    assert len(set(keys)) == 3
    assert keys[2] == "night-7"


def test_detached_the_id_alone_is_printed(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", "orders", "--detach"]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"{RUN_ID}\n"
    assert f"datarecs watch {RUN_ID}" in shown.err
    assert server.requests_to("GET") == []


def stored(outcome: str) -> Reply:
    return says({"outcome": outcome}, 200)


def test_a_file_is_applied_first_in_the_order_of_references(
    server: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "orders.yaml").write_text(FILE, encoding="utf-8")
    server.on("PUT", "/connections/files", stored("created"))
    server.on("PUT", "/jobs/orders", stored("unchanged"))
    assert run(["run", "orders.yaml", "--detach"]) == 0
    order = [(one.method, one.url.path) for one in server.requests]
    assert order == [
        ("PUT", "/api/v1/connections/files"),
        ("PUT", "/api/v1/jobs/orders"),
        ("POST", "/api/v1/jobs/orders/runs"),
    ]
    assert "connection/files created" in capsys.readouterr().err


def test_a_file_with_a_fault_sends_nothing(
    server: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "orders.yaml").write_text(FILE.replace("dimensions", "dims"), encoding="utf-8")
    assert run(["run", "orders.yaml"]) == 2
    assert "orders.yaml:9" in capsys.readouterr().out
    assert server.requests == []


def test_a_file_may_be_left_unapplied(server: ScriptedApi, tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(FILE, encoding="utf-8")
    assert run(["run", "orders.yaml", "--no-apply", "--detach"]) == 0
    assert server.requests_to("PUT") == []


def test_a_file_of_two_jobs_names_none(server: ScriptedApi, tmp_path: Path) -> None:
    job, _, _ = FILE.partition("---\n")
    both = FILE + "---\n" + job.replace("name: orders", "name: others")
    (tmp_path / "orders.yaml").write_text(both, encoding="utf-8")
    assert run(["run", "orders.yaml"]) == 2
    assert server.requests == []


@pytest.mark.parametrize("pair", ["day", "=x"])
def test_a_parameter_has_a_name_and_a_value(server: ScriptedApi, pair: str) -> None:
    assert run(["run", "orders", "--param", pair]) == 2
    assert server.requests == []


def test_an_unknown_job_is_wrong_usage(server: ScriptedApi) -> None:
    server.on("POST", "/jobs/orders/runs", refuses(404, ApiCode.NOT_FOUND))
    assert run(["run", "orders"]) == 2


@pytest.mark.case("U10")
@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (hangs_up, "datarecs up"),
        (refuses(401, SecurityCode.UNAUTHENTICATED), "datarecs key create"),
        (refuses(429, ApiCode.TOO_MANY_REQUESTS, retry_after_s=0), "Retry-After"),
    ],
)
def test_without_a_working_server_the_exit_code_is_5_and_the_next_step_is_shown(
    server: ScriptedApi, reply: Reply, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("POST", "/jobs/orders/runs", reply)
    assert run(["run", "orders"]) == 5
    assert said in capsys.readouterr().err
    assert 1 <= len(server.requests_to("POST")) <= 4


@pytest.mark.case("U14")
def test_no_text_of_the_run_reaches_the_terminal_as_a_command(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    ends(server, "CANCELLED", cancelled_by="\x1b[2J[red]", cancel_reason="\x9b2J\r")
    run(["watch", RUN_ID])
    shown = capsys.readouterr()
    assert not {"\x1b", "\x9b", "\r"} & set(shown.out + shown.err)
    assert "[red]" in shown.out


def test_events_are_cloud_events_digit_for_digit(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = a_run_view(status="COMPLETED", result="MATCHED", last_sequence=1)
    entry = an_entry(1, "run.triggered", tolerance_value=0.01)
    server.on("GET", EVENTS, a_whole_stream(entry, run=ended))
    server.on("GET", RUN, says(ended))
    assert run(["watch", RUN_ID, "--events"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == entry
    assert '"tolerance_value": 0.01' in line


def test_a_cancel_that_was_accepted_is_reported(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("POST", CANCEL, says(a_run_view(cancel_requested=True), 202))
    assert run(["cancel", RUN_ID, "--reason", "wrong month"]) == 0
    assert capsys.readouterr().out == f"{RUN_ID} cancel requested\n"
    assert json.loads(server.requests_to("POST")[0].content) == {"reason": "wrong month"}


@pytest.mark.case("U08")
@pytest.mark.parametrize(
    ("status", "result", "code"),
    [("CANCELLED", None, 4), ("COMPLETED", "MATCHED", 0), ("COMPLETED", "UNMATCHED", 1)],
)
def test_cancel_waits_for_whatever_the_run_becomes(
    server: ScriptedApi, status: str, result: str | None, code: int
) -> None:
    server.on("POST", CANCEL, says(a_run_view(cancel_requested=True), 202))
    ends(server, status, result)
    assert run(["cancel", RUN_ID, "--wait"]) == code


@pytest.mark.case("U09")
def test_a_cancel_that_came_too_late_shows_the_outcome(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("POST", CANCEL, refuses(409, ApiCode.RUN_ALREADY_TERMINAL))
    ends(server, "COMPLETED", "MATCHED")
    assert run(["cancel", RUN_ID, "--wait"]) == 0
    assert run(["cancel", RUN_ID]) == 5
    assert f"{RUN_ID} had already ended: MATCHED" in capsys.readouterr().out


def listed(*runs: str) -> Reply:
    return says({"items": [a_run_view(run_id=one) for one in runs], "next": None})


def test_a_run_is_named_by_its_beginning_or_its_place(server: ScriptedApi) -> None:
    ends(server, "COMPLETED", "MATCHED")
    for name, query in (
        (RUN_ID[:8], {"id_prefix": RUN_ID[:8]}),
        (f"run/{RUN_ID[:13].upper()}", {"id_prefix": RUN_ID[:13]}),
        ("@latest:orders", {"job": "orders", "limit": "1"}),
    ):
        server.on("GET", "/runs", listed(RUN_ID))
        assert run(["watch", name]) == 0
        assert dict(server.requests_to("GET", "/runs")[-1].url.params) == query


def test_the_run_before_the_newest_has_a_name_too(server: ScriptedApi) -> None:
    ends(server, "COMPLETED", "MATCHED")
    server.on("GET", "/runs", listed("01890a5d-ac96-774b-bcce-000000000000", RUN_ID))
    assert run(["watch", "@previous:orders"]) == 0


@pytest.mark.parametrize(
    ("name", "runs", "said"),
    [
        (RUN_ID[:8], (), "no run's id starts"),
        (RUN_ID[:8], (RUN_ID, RUN_ID), "several"),
        ("@previous:orders", (RUN_ID,), "has only 1 run"),
        ("abc", (), "8 or more characters"),
        ("@first:orders", (), "@latest:JOB"),
    ],
)
def test_a_name_that_means_no_run_is_wrong_usage(
    server: ScriptedApi,
    name: str,
    runs: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.on("GET", "/runs", listed(*runs))
    assert run(["watch", name]) == 2
    assert said in capsys.readouterr().err


def test_under_a_code_hosts_runner_the_outcome_is_an_annotation(
    server: ScriptedApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    ends(server, "CANCELLED", cancelled_by="x", cancel_reason="%0A::set-output::\n")
    run(["watch", RUN_ID])
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("::error title=orders CANCELLED::")
    assert "%250A" in line


def test_the_report_is_saved_beside_the_verdict(server: ScriptedApi, tmp_path: Path) -> None:
    ends(server, "COMPLETED", "MATCHED")
    page = httpx.Response(200, content=b"<html>")
    server.on("GET", f"{RUN}/report", refuses(404, ApiCode.NOT_FOUND), lambda _request: page)
    assert run(["run", "orders", "--report", str(tmp_path / "a" / "r.html")]) == 0
    assert (tmp_path / "a" / "r.html").read_bytes() == b"<html>"


def test_retry_runs_an_ended_run_again_and_ends_as_run(server: ScriptedApi) -> None:
    ends(server, "COMPLETED", "UNMATCHED")
    made = a_run_view(status="TRIGGERED", retry_of=RUN_ID)
    server.on("POST", f"/runs/{RUN_ID}/retry", says(made, 202))
    assert run(["retry", RUN_ID, "--reason", "export complete"]) == 1
    (request,) = server.requests_to("POST", f"/runs/{RUN_ID}/retry")
    assert json.loads(request.content) == {"reason": "export complete"}


def test_retry_detached_prints_the_new_run(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", RUN, says(a_run_view(status="COMPLETED")))
    server.on("POST", f"/runs/{RUN_ID}/retry", says(a_run_view(status="TRIGGERED"), 202))
    assert run(["retry", RUN_ID, "--detach"]) == 0
    assert capsys.readouterr().out.strip() == RUN_ID


def test_retry_of_a_run_that_still_runs_is_a_conflict(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", RUN, says(a_run_view(status="RUNNING")))
    refusal = refuses(409, ApiCode.RUN_NOT_TERMINAL, detail="run is RUNNING; wait for it")
    server.on("POST", f"/runs/{RUN_ID}/retry", refusal)
    assert run(["retry", RUN_ID]) == 5
    assert "wait for it" in capsys.readouterr().err
