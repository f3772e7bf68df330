"""`login`, `logout`, `whoami`: a key is checked, stored for its user alone, and never shown."""

import io
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from datarecs_cli.main import run
from datarecs_core.errors.security import SecurityCode
from datarecs_testing.scripted_api import API_KEY, TENANT_ID, ScriptedApi, refuses, says

SERVER = "https://datarecs.example.com"
STORED = Path(".config/datarecs/credentials.toml")
WHO = {
    "tenant_id": TENANT_ID,
    "subject": "key:ci",
    "owner": "ana",
    "key_id": "drk_aaaaaaaaaaaa",
    "permissions": ["run.read", "run.trigger"],
}
Shown = pytest.CaptureFixture[str]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    """A server that knows the key; a separate home; the key on stdin."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{API_KEY}\n"))
    api = ScriptedApi()
    api.on("GET", "/whoami", says(WHO))
    with api.in_place_of_the_network():
        yield api


def test_a_key_is_checked_and_stored_for_its_user_alone(server: ScriptedApi, capsys: Shown) -> None:
    assert run(["login", "--server", SERVER, "--context", "prod"]) == 0
    assert server.requests[0].headers["Authorization"] == f"Bearer {API_KEY}"
    assert STORED.stat().st_mode & 0o777 == 0o600
    assert tomllib.loads(STORED.read_text())["prod"] == {"server": SERVER, "api_key": API_KEY}
    shown = "".join(capsys.readouterr())
    assert "key:ci" in shown
    assert API_KEY not in shown


@pytest.mark.usefixtures("server")
def test_other_contexts_stay_and_a_readable_file_is_closed() -> None:
    STORED.parent.mkdir(parents=True)
    STORED.write_text('[old]\nserver = "https://old.example.com"\napi_key = "k"\n')
    STORED.chmod(0o644)
    assert run(["login", "--server", SERVER]) == 0
    assert set(tomllib.loads(STORED.read_text())) == {"old", "datarecs.example.com"}
    assert STORED.stat().st_mode & 0o777 == 0o600


@pytest.mark.case("U10")
def test_a_key_that_the_server_refuses_is_not_stored(server: ScriptedApi, capsys: Shown) -> None:
    server.on("GET", "/whoami", refuses(401, SecurityCode.UNAUTHENTICATED))
    assert run(["login", "--server", SERVER]) == 5
    assert not STORED.exists()
    assert API_KEY not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("words", "stdin", "code", "said"),
    [
        ([], API_KEY, 2, "login: name the server"),
        (["--server", SERVER], "", 2, "reads the key from stdin"),
        (["--server", "http://datarecs.example.com"], API_KEY, 5, "https"),
    ],
)
def test_what_is_missing_or_unsafe_is_refused_before_anything_is_sent(
    server: ScriptedApi,
    capsys: Shown,
    monkeypatch: pytest.MonkeyPatch,
    *,
    words: list[str],
    stdin: str,
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
    assert run(["login", *words]) == code
    assert said in capsys.readouterr().err
    assert not server.requests


@pytest.mark.usefixtures("server")
def test_a_stored_key_is_used_until_it_is_removed(capsys: Shown) -> None:
    run(["login", "--server", SERVER, "--context", "prod"])
    capsys.readouterr()
    assert run(["whoami", "--context", "prod", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["schema"], shown["subject"]) == ("datarecs.cli.whoami/1", "key:ci")
    assert run(["whoami", "-o", "csv"]) == 0
    assert "run.read run.trigger" in capsys.readouterr().out
    assert run(["logout", "--context", "prod"]) == 0
    assert run(["whoami", "--context", "prod"]) == 5
    assert run(["logout", "--context", "prod"]) == 2
