"""`datarecs webhook test`, `resend`, `recover`, `cancel`, `enable`, `disable`, `rotate-secret`."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from datarecs_cli.main import run
from datarecs_core.errors.api import ApiCode
from datarecs_testing.scripted_api import ScriptedApi, refuses, says, written_credentials

ACTION = {
    "action_id": "a1",
    "state": "OPEN",
    "expected": 2,
    "made": 0,
    "first_delivery": None,
}
DONE = {**ACTION, "state": "DONE", "made": 1, "first_delivery": "d1"}
SENT = {
    "delivery_id": "d1",
    "state": "SUCCEEDED",
    "attempts": [{"status": 204, "outcome": "OK", "phases": {"total": 31}, "response_body": "ok"}],
}
HOOK = "/webhook-endpoints/erp"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    monkeypatch.setattr("datarecs_cli.endpoint_actions.POLL", timedelta())
    api = ScriptedApi()
    with api.in_place_of_the_network():
        yield api


def body_of(server: ScriptedApi, number: int = 0) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(server.requests[number].content)
    return body


def test_a_test_waits_for_the_answer_of_the_receiver(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("POST", f"{HOOK}/test", says(ACTION, 202))
    server.on("GET", "/webhook-actions/a1", says(ACTION), says(DONE))
    server.on("GET", "/webhook-deliveries/d1", says({**SENT, "state": "LEASED"}), says(SENT))
    shown = ["webhook", "test", "--endpoint", "erp", "--type", "reconciliation.run.finalised"]
    assert run(shown) == 0
    assert body_of(server) == {"example": "io.datarecs.reconciliation.run.finalised"}
    assert "idempotency-key" in server.requests[0].headers
    assert capsys.readouterr().out.splitlines() == ["SUCCEEDED  204", "total 31 ms", "ok"]


def test_a_test_that_fails_exits_with_3(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = {"delivery_id": "d1", "state": "DEAD_LETTERED", "attempts": [{"outcome": "TIMEOUT"}]}
    server.on("POST", f"{HOOK}/test", says(DONE, 202))
    server.on("GET", "/webhook-deliveries/d1", says(failed))
    assert run(["webhook", "test", "--endpoint", "erp"]) == 3
    assert capsys.readouterr().out == "DEAD_LETTERED  TIMEOUT\n"


def test_a_resend_names_its_deliveries(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("POST", "/webhook-resends", says({"count": 2}), says(ACTION, 202))
    assert run(["webhook", "resend", "d1", "d2", "--dry-run"]) == 0
    assert run(["webhook", "resend", "d1", "d2"]) == 0
    assert server.requests[0].url.params["dry_run"] == "true"
    assert body_of(server, 1) == {"ids": ["d1", "d2"]}
    assert capsys.readouterr().out.splitlines() == [
        "deliveries to create: 2",
        "a1  OPEN  0 of 2 deliveries created",
    ]


def test_recover_takes_times_and_durations(server: ScriptedApi) -> None:
    server.on("POST", f"{HOOK}/recover", says(ACTION, 202))
    server.on("POST", f"{HOOK}/replay", says(ACTION, 202))
    window = ["--since", "2026-01-15T12:00:00+01:00", "--until", "PT0S"]
    assert run(["webhook", "recover", "--endpoint", "erp", *window]) == 0
    assert body_of(server)["since"] == "2026-01-15T11:00:00.000000Z"
    assert run(["webhook", "recover", "--endpoint", "erp", *window, "--all", "--type", "a.*"]) == 0
    assert body_of(server, 1)["types"] == ["a.*"]


@pytest.mark.parametrize(
    "options", [["--since", "yesterday"], ["--since", "PT1H", "--type", "a.b"]]
)
def test_a_wrong_window_is_a_usage_error(
    server: ScriptedApi, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["webhook", "recover", "--endpoint", "erp", *options]) == 2
    assert options[-2] in capsys.readouterr().err
    assert server.requests == []


def test_an_open_window_is_named(server: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
    server.on("POST", f"{HOOK}/recover", refuses(409, ApiCode.ACTION_OPEN, detail="cancel it"))
    server.on("DELETE", "/webhook-actions/a1", says({**ACTION, "state": "CANCELLED"}))
    assert run(["webhook", "recover", "--endpoint", "erp", "--since", "PT1H"]) == 5
    assert "cancel it" in capsys.readouterr().err
    assert run(["webhook", "cancel", "a1"]) == 0
    assert "CANCELLED" in capsys.readouterr().out


def test_enable_prints_what_was_missed_and_how_to_recover_it(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = {"recoverable": 40, "missed_since": "2026-01-15T12:00:00.000000Z", "endpoint": {}}
    server.on("POST", f"{HOOK}/enable", says(answer))
    server.on("POST", f"{HOOK}/disable", says({}))
    assert run(["webhook", "enable", "--endpoint", "erp"]) == 0
    printed = capsys.readouterr()
    assert "missed 40 events" in printed.out
    assert "webhook recover --endpoint erp --since 2026-01-15T12:00:00" in printed.err
    assert run(["webhook", "disable", "--endpoint", "erp"]) == 0
    assert capsys.readouterr().out == "erp is disabled\n"


def test_a_new_secret_goes_into_a_private_file(
    server: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    previous = [{"key_id": "k1", "expires_at": "2026-01-16T12:00:00.000000Z"}]
    answer = {"key_id": "k2", "previous": previous, "generated_secret": "whsec_x"}
    server.on("POST", f"{HOOK}/secret/rotate", says(answer))
    target = tmp_path / "new.secret"
    rotate = ["webhook", "rotate-secret", "--endpoint", "erp", "--grace", "PT1H"]
    assert run([*rotate, "--secret-out", str(target)]) == 0
    printed = capsys.readouterr()
    assert target.read_text() == "whsec_x\n"
    assert target.stat().st_mode & 0o077 == 0
    assert "whsec_x" not in printed.out + printed.err
    assert "k1 also signs until 2026-01-16" in printed.err
    assert body_of(server) == {"grace_period": "PT1H"}
    assert run([*rotate, "-o", "json"]) == 0
    assert "whsec_x" not in capsys.readouterr().out
