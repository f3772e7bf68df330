"""`diff`, `report`, `events`, `key`, `webhook deliveries`: for people and for machines."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from datarecs_cli.main import run
from datarecs_testing.scripted_api import (
    RUN_ID,
    ScriptedApi,
    a_run_view,
    a_whole_stream,
    an_entry,
    says,
    written_credentials,
)

RUN = f"/runs/{RUN_ID}"
OUTSIDE = {
    "break_id": "b1",
    "stage": "balance-check",
    "measure": "total_amount",
    "class": "OUTSIDE",
    "key": {"account": "4711", "label": "=cmd|' /C calc'!A0"},
    "values": {"ledger": "1500", "exports": "500"},
    "deltas": {"exports": "-1000"},
    "delta_percent": {"exports": "-66.666666"},
}
MISSING = {
    "break_id": "b2",
    "stage": "balance-check",
    "measure": "$presence",
    "class": "MISSING",
    "key": {"account": "12", "label": "\x1b[2J[red]x|y"},
    "values": {"ledger": "2"},
    "deltas": {},
    "delta_percent": {},
}
NULL = {**OUTSIDE, "break_id": "b3", "class": "NULL_MISMATCH", "deltas": {}, "delta_percent": {}}
NULL["values"] = {"ledger": None, "exports": "0.5"}
JOB = {"spec": {"sources": [{"name": "ledger"}, {"name": "exports"}]}}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    api = ScriptedApi()
    api.on("GET", RUN, says(a_run_view(status="COMPLETED", result="UNMATCHED")))
    api.on("GET", "/jobs/orders", says(JOB))
    api.on("GET", f"{RUN}/mismatches", says({"items": [OUTSIDE, MISSING, NULL], "next": None}))
    with api.in_place_of_the_network():
        yield api


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    assert run(["diff", RUN_ID, *arguments]) == code
    return capsys.readouterr().out


@pytest.mark.usefixtures("server")
def test_every_source_stands_beside_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    head, first, second, third = shown(capsys).splitlines()
    assert head.split() == [
        *("account", "label", "MEASURE", "CLASS", "ledger", "exports"),
        *("DELTA", "DELTA", "%"),
    ]
    assert first.split()[-6:] == ["OUTSIDE", "1,500.0", "500.0", "-1,000.0", "-66.666", "%"]
    assert second.rstrip().endswith("presence      MISSING         2 rows  missing")
    assert third.split()[-3:] == ["NULL_MISMATCH", "NULL", "0.5"]


@pytest.mark.usefixtures("server")
@pytest.mark.case("U14")
@pytest.mark.case("X81")
def test_values_of_a_source_do_nothing_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table = shown(capsys)
    assert "\x1b" not in table
    assert "\\x1b[2J[red]x|y" in table


@pytest.mark.case("X80")
@pytest.mark.usefixtures("server")
def test_csv_is_exact_and_no_text_of_it_is_a_formula(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(shown(capsys, "-o", "csv"))))
    assert rows[0]["label"] == "'=cmd|' /C calc'!A0"
    assert (rows[0]["ledger"], rows[0]["DELTA"]) == ("1500", "-1000")
    assert (rows[1]["ledger"], rows[1]["exports"], rows[1]["MEASURE"]) == ("2", "", "$presence")


@pytest.mark.usefixtures("server")
def test_jsonl_is_what_the_server_said(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "-o", "jsonl").splitlines()
    assert [json.loads(line) for line in lines] == [OUTSIDE, MISSING, NULL]


@pytest.mark.usefixtures("server")
@pytest.mark.case("U13")
def test_json_has_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(shown(capsys, "-o", "json"))
    assert (document["schema"], len(document["items"])) == ("datarecs.cli.diff/1", 3)


@pytest.mark.usefixtures("server")
def test_markdown_puts_every_value_in_its_cell(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "-o", "md").splitlines()
    assert "`\\x1b[2J[red]x\\|y`" in lines[3]


@pytest.mark.usefixtures("server")
def test_rows_can_be_sorted_by_key(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "--sort", "key", "-o", "jsonl").splitlines()
    assert [json.loads(line)["break_id"] for line in lines] == ["b2", "b1", "b3"]


def test_filters_are_the_servers(server: ScriptedApi) -> None:
    run(["diff", RUN_ID, "--only", "missing:exports", "--measure", "m", "--limit", "7"])
    (request,) = server.requests_to("GET", f"{RUN}/mismatches")
    assert dict(request.url.params) == {"limit": "7", "only": "missing:exports", "measure": "m"}


@pytest.mark.usefixtures("server")
def test_a_full_page_says_how_to_see_more(capsys: pytest.CaptureFixture[str]) -> None:
    run(["diff", RUN_ID, "--limit", "3"])
    assert f"datarecs diff {RUN_ID} --limit 30" in capsys.readouterr().err


def test_without_differences_the_exit_code_is_0(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", f"{RUN}/mismatches", says({"items": [], "next": None}))
    assert shown(capsys, code=0) == ""


def test_a_run_without_a_verdict_has_compared_nothing(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", RUN, says(a_run_view(status="RUNNING")))
    assert run(["diff", RUN_ID]) == 2
    assert "RUNNING and has no result" in capsys.readouterr().err


def test_stages_are_named_when_there_are_many(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [OUTSIDE, {**OUTSIDE, "stage": "rows", "key": {"id": "1"}}]
    server.on("GET", f"{RUN}/mismatches", says({"items": items, "next": None}))
    assert shown(capsys).splitlines()[0].startswith("STAGE")


def test_the_report_is_saved_under_the_runs_name(
    server: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = httpx.Response(200, content=b"<html>")
    server.on("GET", f"{RUN}/report", lambda _request: page)
    assert run(["report", RUN_ID]) == 0
    assert capsys.readouterr().out == f"report-{RUN_ID}.html\n"
    assert (tmp_path / f"report-{RUN_ID}.html").read_bytes() == b"<html>"
    assert run(["report", RUN_ID, "--format", "json", "--out", "x.json"]) == 0
    assert server.requests[-1].url.params["format"] == "json"


def test_events_are_lines_until_the_run_ends(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = a_run_view(status="COMPLETED", result="MATCHED", last_sequence=3)
    late = {**an_entry(3, "run.stage.completed"), "disposition": "LATE"}
    entries = (an_entry(1, "run.triggered"), an_entry(2, "run.queued"), late)
    server.on("GET", f"{RUN}/events", a_whole_stream(*entries, run=ended))
    assert run(["events", "tail", "--run", RUN_ID]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "   1  2026-01-15T12:00:01.000000Z  io.datarecs.reconciliation.run.triggered"
    )
    assert lines[2].endswith("run.stage.completed  LATE")
    run(["events", "tail", "--run", RUN_ID, "--type", "run.stage.*"])
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_one_event_is_shown_by_its_number_or_id(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = an_entry(2, "run.queued")
    first = says({"items": [an_entry(1, "run.triggered")], "next": 1})
    server.on("GET", f"{RUN}/events", first, says({"items": [entry], "next": None}))
    assert run(["events", "show", "2", "--run", RUN_ID, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == entry
    assert run(["events", "show", str(entry["id"]), "--run", RUN_ID]) == 0
    assert "type: io.datarecs.reconciliation.run.queued" in capsys.readouterr().out
    assert run(["events", "show", "9", "--run", RUN_ID]) == 2


def test_a_new_key_stands_alone_on_stdout(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {"key_id": "k1", "expires_at": "2026-02-01T00:00:00.000000Z", "key": "drk_k1_secret"}
    server.on("POST", "/keys", says(made, 201))
    assert run(["key", "create", "--name", "ci", "--scope", "read", "--expires", "30d"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "drk_k1_secret\n"
    assert "drk_k1_secret" not in shown.err
    assert json.loads(server.requests[0].content) == {
        "name": "ci",
        "expires_days": 30,
        "scopes": ["read"],
    }


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("days", ["0d", "367d", "soon", "1.5d"])
def test_a_key_lives_between_a_day_and_a_year(days: str) -> None:
    assert run(["key", "create", "--name", "ci", "--expires", days]) == 2


def test_keys_are_listed_and_revoked(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    key = {"key_id": "k1", "name": "ci", "owner": "admin", "revoked_at": None}
    server.on("GET", "/keys", says({"items": [key], "next": None}))
    server.on("DELETE", "/keys/k1", says({"key_id": "k1", "revoked": True}))
    assert run(["key", "list", "--all"]) == run(["key", "revoke", "k1"]) == 0
    assert server.requests[0].url.params["all"] == "true"
    assert capsys.readouterr().out.splitlines()[1].split() == ["k1", "ci", "admin"]


def test_deliveries_show_their_attempts_and_what_is_next(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    delivery = {
        "delivery_id": "d1",
        "event_type": "io.datarecs.reconciliation.run.finalised",
        "state": "PENDING",
        "attempts": [{"status": 503, "outcome": "FAILED"}, {"status": None, "outcome": "TIMEOUT"}],
        "due_at": "2026-01-15T12:05:00.000000Z",
    }
    done = {**delivery, "delivery_id": "d2", "state": "SUCCEEDED", "attempts": [{"status": 204}]}
    place = "/webhook-endpoints/erp/deliveries"
    server.on(
        "GET",
        place,
        says({"items": [delivery], "next": "c1"}),
        says({"items": [done], "next": None}),
        says({"items": [done], "next": None}),
    )
    assert run(["webhook", "deliveries", "--endpoint", "erp"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1][2:] == ["PENDING", "2", "TIMEOUT", "2026-01-15T12:05:00.000000Z"]
    assert lines[2][2:] == ["SUCCEEDED", "1", "204"]
    assert server.requests[1].url.params["cursor"] == "c1"
    run(["webhook", "deliveries", "--endpoint", "erp", "--state", "succeeded", "-o", "name"])
    assert capsys.readouterr().out == "d2\n"
    assert server.requests[2].url.params["state"] == "SUCCEEDED"
