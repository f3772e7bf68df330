"""`notify`: preview, mute, log and resend over the API."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.mail_reasons import mail_reason
from datarecs_cli.main import run
from datarecs_core.errors.api import ApiCode
from datarecs_core.notifications.evaluation import SkipReason
from datarecs_testing.scripted_api import RUN_ID, ScriptedApi, refuses, says, written_credentials

RULE = "/notification-rules/finance"
PREVIEW = {
    "recipients": [
        {"address": "ana@example.com", "kind": "OUTCOME", "skipped": None, "due_at": None},
        {"address": "bo@x.example", "kind": "OUTCOME", "skipped": "UNVERIFIED", "due_at": None},
    ],
    "held": [],
    "subject": "[datarecs] UNMATCHED trades",
    "text": "found differences",
    "html": "<h1>UNMATCHED</h1>",
}
MAIL = {
    "delivery_id": "m1",
    "recipient": "ana@example.com",
    "kind": "OUTCOME",
    "outcome": "UNMATCHED",
    "state": "FAILED",
    "reason": "PERMANENT",
    "last_reply": "550",
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    scripted = ScriptedApi()
    with scripted.in_place_of_the_network():
        yield scripted


def test_a_preview_names_who_is_mailed_and_prints_the_text(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("POST", f"{RULE}/preview", says(PREVIEW))
    assert run(["notify", "preview", "finance", "--run", RUN_ID]) == 0
    printed = capsys.readouterr()
    assert printed.out == "Subject: [datarecs] UNMATCHED trades\n\nfound differences\n"
    assert "ana@example.com  mail at once" in printed.err
    assert "bo@x.example  no mail: UNVERIFIED: the domain of the address is not" in printed.err
    assert "DATARECS_MAIL__RECIPIENT_DOMAINS" in printed.err
    assert json.loads(server.requests[0].content) == {"run_id": RUN_ID}
    run(["notify", "preview", "finance", "--run", RUN_ID, "--format", "html"])
    assert capsys.readouterr().out == "<h1>UNMATCHED</h1>\n"


def test_a_preview_can_be_sent_to_a_recipient(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("POST", f"{RULE}/preview", says({**PREVIEW, "subject": None, "recipients": []}))
    server.on("POST", f"{RULE}/test", says(MAIL))
    words = ["notify", "preview", "finance", "--run", RUN_ID, "--send-to", "ana@example.com"]
    assert run(words) == 0
    (sent,) = server.requests_to("POST", f"{RULE}/test")
    assert json.loads(sent.content) == {"run_id": RUN_ID, "address": "ana@example.com"}
    assert "test mail queued for ana@example.com" in capsys.readouterr().err


def test_a_mute_is_added_and_ended_ones_are_removed(server: ScriptedApi) -> None:
    old, later = {"until": "2020-01-01T00:00:00Z"}, {"until": "2999-01-01T00:00:00Z"}
    stored = {
        "apiVersion": "datarecs.io/v1",
        "kind": "NotificationRule",
        "metadata": {"name": "finance", "namespace": "default", "uid": "u", "labels": {}},
        "spec": {"to": [{"address": "ana@example.com"}], "mutes": [old, later]},
        "status": {},
    }
    server.on("GET", RULE, says(stored, ETag='"u:3"'))
    server.on("PUT", RULE, says(stored))
    words = ["notify", "mute", "finance", "--until", "2999-02-01T08:00:00+01:00"]
    assert run([*words, "--reason", "audit", "--job", "trades"]) == 0
    (put,) = server.requests_to("PUT", RULE)
    assert put.headers["If-Match"] == '"u:3"'
    sent = json.loads(put.content)
    assert set(sent) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(sent["metadata"]) == {"name", "namespace", "labels"}
    made = {"until": "2999-02-01T07:00:00+00:00", "reason": "audit", "jobs": ["trades"]}
    assert sent["spec"]["mutes"] == [later, made]


def test_a_mute_needs_a_moment(server: ScriptedApi) -> None:
    for until in ("tomorrow", "2999-01-01T00:00:00"):
        assert run(["notify", "mute", "finance", "--until", until]) == ExitCode.USAGE
    assert server.requests == []


def test_the_log_lists_mails_and_a_failed_one_is_sent_again(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    page = {"items": [MAIL], "next": None}
    server.on("GET", "/emails", says(page), says({"items": [], "next": None}))
    assert run(["notify", "log", "--run", RUN_ID, "--state", "failed"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == [
        "m1",
        "ana@example.com",
        "OUTCOME",
    ]
    assert dict(server.requests[0].url.params) == {
        "run_id": RUN_ID,
        "state": "FAILED",
        "limit": "20",
    }
    assert run(["notify", "log"]) == 0
    assert "no mails" in capsys.readouterr().err
    server.on("POST", "/emails/m1/resend", says({**MAIL, "delivery_id": "m2"}))
    assert run(["notify", "resend", "m1"]) == 0
    assert "mail m2 is queued for ana@example.com" in capsys.readouterr().err


@pytest.mark.parametrize("reason", SkipReason)
def test_every_reason_for_no_mail_has_words(reason: SkipReason) -> None:
    assert mail_reason(reason).startswith(f"{reason}: ")


def test_a_reason_of_a_newer_server_is_shown_as_it_is() -> None:
    assert mail_reason("ON_HOLIDAY") == "ON_HOLIDAY"


def test_a_mail_that_does_not_exist_names_the_command_that_lists_mails(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("POST", "/emails/m9/resend", refuses(404, ApiCode.NOT_FOUND))
    assert run(["notify", "resend", "m9"]) == 2
    assert "fix   List the mails with `datarecs notify log`." in capsys.readouterr().err
