"""`doctor --mail`: settings, relay and the headers of a received mail; no secret shows."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from datarecs_cli.main import run
from datarecs_testing.certificates import Authority, an_authority
from datarecs_testing.smtp_server import Script, TestRelay, free_port, smtp_relay

Shown = pytest.CaptureFixture[str]
SECRET = "hunter2-secret"
RECEIVED = """\
DKIM-Signature: v=1; a=rsa-sha256; d=mail.example.com; s=k1;
 h=from:to:subject:list-unsubscribe:list-unsubscribe-post; bh=x; b=y
From: datarecs@mail.example.com
To: ana@example.com
Subject: [datarecs] MATCHED
Message-ID: <run.1.a@mail.example.com>
Auto-Submitted: auto-generated
List-Unsubscribe: <https://recs.example.com/api/v1/public/unsubscribe/x>
List-Unsubscribe-Post: List-Unsubscribe=One-Click

text
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("received.eml").write_text(RECEIVED)


def settings(monkeypatch: pytest.MonkeyPatch, **changes: str) -> None:
    values = {
        "DATARECS_BASE_URL": "https://recs.example.com",
        "DATARECS_LINKS__KEY": "k" * 32,
        "DATARECS_MAIL__FROM": "datarecs@mail.example.com",
        "DATARECS_MAIL__HOST": "127.0.0.1",
        "DATARECS_MAIL__SECURITY": "none",
        "DATARECS_MAIL__RECIPIENT_DOMAINS": json.dumps(
            {"01900000-0000-7000-8000-00000000000a": ["example.com"]}
        ),
    }
    for name, value in (values | changes).items():
        monkeypatch.setenv(name, value)


def steps(capsys: Shown) -> dict[str, dict[str, str]]:
    rows = json.loads(capsys.readouterr().out)["items"]
    return {f"{row['source']}/{row['step']}": row for row in rows}


def states(capsys: Shown) -> dict[str, str]:
    return {name: row["state"] for name, row in steps(capsys).items()}


def test_a_received_mail_is_checked_without_any_settings(capsys: Shown) -> None:
    assert run(["doctor", "--mail", "received.eml", "-o", "json"]) == 0
    assert states(capsys) == {
        "List-Unsubscribe/header": "ok",
        "DKIM-Signature/header": "ok",
        "Message-ID/header": "ok",
    }


@pytest.mark.parametrize(
    ("before", "after", "broken", "seen"),
    [
        (":list-unsubscribe-post;", ";", "DKIM-Signature", "does not cover list-unsubscribe-post"),
        ("DKIM-Signature: v=1", "X-Was: v=1", "DKIM-Signature", "no DKIM signature"),
        ("<https://recs", "<mailto:a@b>, <https://recs", "List-Unsubscribe", "exactly one https"),
        ("List-Unsubscribe: <", "X-Was: <", "List-Unsubscribe", "no List-Unsubscribe"),
        ("=One-Click", "=Two", "List-Unsubscribe", "List-Unsubscribe-Post is not"),
        ("Message-ID:", "X-Was:", "Message-ID", "0 Message-IDs"),
    ],
)
def test_what_a_relay_has_broken_is_named_with_a_fix(
    capsys: Shown, before: str, after: str, broken: str, seen: str
) -> None:
    Path("received.eml").write_text(RECEIVED.replace(before, after, 1))
    assert run(["doctor", "--mail", "received.eml", "-o", "json"]) == 3
    shown = steps(capsys)
    assert [name for name, row in shown.items() if row["state"] == "fail"] == [f"{broken}/header"]
    assert seen in shown[f"{broken}/header"]["seen"]
    assert shown[f"{broken}/header"]["fix"]


def test_a_changed_auto_submitted_is_a_warning(capsys: Shown) -> None:
    Path("received.eml").write_text(RECEIVED.replace("auto-generated", "no"))
    assert run(["doctor", "--mail", "received.eml", "-o", "json"]) == 0
    assert states(capsys)["Message-ID/header"] == "warn"


@pytest.mark.parametrize(
    "header",
    [
        "Message-ID: <",
        "Message-ID: <a@[",
        "Message-ID: [",
        "DKIM-Signature: =;;h",
        'To: "a',
        "Subject: =?utf-8?q?=ZZ?=",
        "Content-Type: text/plain; charset*=",
        "Auto-Submitted: \udcff\udcfe",
    ],
)
def test_a_malformed_header_is_a_result_and_never_a_stack_trace(header: str, capsys: Shown) -> None:
    content = f"{header}\r\nSubject: a\r\n\r\n".encode(errors="surrogateescape")
    Path("received.eml").write_bytes(content)
    assert run(["doctor", "--mail", "received.eml", "-o", "json"]) == 3
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    rows = json.loads(shown.out)["items"]
    assert len(rows) == 3
    assert not any("internal error" in row["seen"] for row in rows)


def test_a_folded_header_is_read_as_one_line(capsys: Shown) -> None:
    folded = RECEIVED.replace("List-Unsubscribe: <", "List-Unsubscribe:\n <")
    assert folded != RECEIVED
    Path("received.eml").write_text(folded)
    assert run(["doctor", "--mail", "received.eml", "-o", "json"]) == 0
    assert states(capsys)["List-Unsubscribe/header"] == "ok"


def test_a_file_that_is_no_mail_and_one_that_is_missing_are_said(capsys: Shown) -> None:
    Path("received.eml").write_text("")
    assert run(["doctor", "--mail", "received.eml", "-o", "json"]) == 3
    assert "is not a mail" in steps(capsys)["List-Unsubscribe/header"]["seen"]
    assert run(["doctor", "--mail", "none.eml"]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_without_settings_and_without_a_mail_the_missing_settings_are_named(
    capsys: Shown,
) -> None:
    assert run(["doctor", "--mail"]) != 0
    said = capsys.readouterr().err
    assert "needs DATARECS_MAIL__HOST and DATARECS_MAIL__FROM" in said
    assert "`datarecs up` has its own" in said


def test_a_maildir_needs_no_relay(monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    monkeypatch.setenv("DATARECS_MAIL__TRANSPORT", "file")
    monkeypatch.setenv("DATARECS_MAIL__DIRECTORY", "mails")
    monkeypatch.setenv("DATARECS_BASE_URL", "http://localhost:8080")
    assert run(["doctor", "--mail", "-o", "json"]) == 0
    assert states(capsys) == {
        "settings/recipients": "warn",
        "settings/links": "warn",
        "relay/transport": "ok",
        "received mail/headers": "skipped",
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["doctor"], "name a job file, or --platform, --mail or --security SERVICE"),
        (["doctor", "--platform", "--mail"], "choose one of"),
        (["doctor", "job.yaml", "--platform"], "--platform takes no file"),
    ],
)
def test_what_is_not_allowed_together_is_said(
    capsys: Shown, arguments: list[str], said: str
) -> None:
    assert run(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.integration
class TestARelay:
    @pytest.fixture
    def authority(self) -> Authority:
        return an_authority()

    @pytest.fixture
    def relay(self) -> Iterator[TestRelay]:
        with smtp_relay() as running:
            yield running

    def test_that_works_is_checked_as_far_as_the_sender(
        self, relay: TestRelay, monkeypatch: pytest.MonkeyPatch, capsys: Shown
    ) -> None:
        settings(monkeypatch, DATARECS_MAIL__PORT=str(relay.port))
        assert run(["doctor", "--mail", "-o", "json"]) == 0
        shown = states(capsys)
        assert shown["relay/sender"] == "ok"
        assert shown["relay/login"] == "skipped"
        assert relay.script.commands == ["MAIL"]
        assert relay.script.stored == []

    def test_that_refuses_the_sender_is_named(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Shown
    ) -> None:
        with smtp_relay(Script(mail=["550 5.7.1 not yours"])) as relay:
            settings(monkeypatch, DATARECS_MAIL__PORT=str(relay.port))
            assert run(["doctor", "--mail", "-o", "json"]) == 3
        row = steps(capsys)["relay/sender"]
        assert row["state"] == "fail"
        assert "550" in row["seen"]
        assert "ENVELOPE_FROM" in row["fix"]

    def test_that_nobody_serves_ends_its_steps(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Shown
    ) -> None:
        settings(monkeypatch, DATARECS_MAIL__PORT=str(free_port()))
        assert run(["doctor", "--mail", "-o", "json"]) == 3
        shown = states(capsys)
        assert shown["relay/connection"] == "fail"
        assert (shown["relay/login"], shown["relay/sender"]) == ("skipped", "skipped")

    def test_without_starttls_gets_no_login(
        self, relay: TestRelay, monkeypatch: pytest.MonkeyPatch, capsys: Shown
    ) -> None:
        settings(
            monkeypatch,
            DATARECS_MAIL__PORT=str(relay.port),
            DATARECS_MAIL__SECURITY="starttls",
            DATARECS_MAIL__USERNAME="recs",
            DATARECS_MAIL__PASSWORD=SECRET,
        )
        assert run(["doctor", "--mail", "-o", "json"]) == 3
        row = steps(capsys)["relay/connection"]
        assert "does not offer STARTTLS" in row["seen"]

    @pytest.mark.parametrize("password", [SECRET, "another"])
    def test_a_login_is_checked_over_tls_and_never_shown(
        self,
        authority: Authority,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: Shown,
        password: str,
    ) -> None:
        state = "ok" if password == SECRET else "fail"
        Path("ca.pem").write_text(authority.pem)
        with smtp_relay(
            Script(password=password), tls=authority.server(tmp_path, host="localhost")
        ) as relay:
            settings(
                monkeypatch,
                DATARECS_MAIL__HOST="localhost",
                DATARECS_MAIL__PORT=str(relay.port),
                DATARECS_MAIL__SECURITY="starttls",
                DATARECS_MAIL__CA_FILE="ca.pem",
                DATARECS_MAIL__USERNAME="recs",
                DATARECS_MAIL__PASSWORD=SECRET,
            )
            assert run(["doctor", "--mail", "-o", "json"]) == (0 if state == "ok" else 3)
        output = capsys.readouterr()
        assert SECRET not in output.out + output.err
        rows = {f"{row['step']}": row for row in json.loads(output.out)["items"]}
        assert rows["login"]["state"] == state
        assert rows["connection"]["state"] in {"ok", "warn"}

    def test_a_certificate_of_nobody_known_is_refused(
        self,
        authority: Authority,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: Shown,
    ) -> None:
        with smtp_relay(tls=authority.server(tmp_path, host="localhost")) as relay:
            settings(
                monkeypatch,
                DATARECS_MAIL__HOST="localhost",
                DATARECS_MAIL__PORT=str(relay.port),
                DATARECS_MAIL__SECURITY="starttls",
            )
            assert run(["doctor", "--mail", "-o", "json"]) == 3
        assert "CA_FILE" in steps(capsys)["relay/connection"]["fix"]
