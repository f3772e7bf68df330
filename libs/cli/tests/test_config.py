"""Which server, which key: a key never goes where its owner did not send it."""

from pathlib import Path

import pytest

from datarecs_cli.config import (
    Access,
    CredentialsUnreadableError,
    NoServerKnownError,
    ServerNotTrustedError,
    access_of,
)
from datarecs_cli.exit_codes import ExitCode, exit_code_of
from datarecs_cli.invocation import Invocation

LOCAL = '[local]\nserver = "http://127.0.0.1:8080"\napi_key = "drk_local"\n'
REMOTE = '[prod]\nserver = "https://recon.example.com"\napi_key = "drk_prod"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project below which the user stands; no home file, no project file."""
    deep = tmp_path / "project" / "jobs"
    deep.mkdir(parents=True)
    return deep


def in_project(folder: Path, text: str) -> None:
    path = folder.parent / ".datarecs" / "credentials.toml"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")


def in_home(folder: Path, text: str) -> None:
    path = folder / "home" / ".config" / "datarecs" / "credentials.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")


def resolve(folder: Path, *, key: str = "", **named: str) -> Access:
    environment = {"DATARECS_API_KEY": key} if key else {}
    return access_of(
        Invocation(server=named.get("server"), context=named.get("context")),
        environment,
        folder=folder,
        home=folder / "home",
    )


def test_the_projects_file_is_located_from_a_folder_below(folder: Path) -> None:
    in_project(folder, LOCAL)
    assert resolve(folder) == Access(server="http://127.0.0.1:8080", api_key="drk_local")


def test_without_any_file_the_way_to_one_is_shown(folder: Path) -> None:
    with pytest.raises(NoServerKnownError) as refused:
        resolve(folder)
    assert "datarecs up" in refused.value.code.entry.remedy
    assert exit_code_of(refused.value) is ExitCode.SERVER


def test_a_context_is_chosen_by_name(folder: Path) -> None:
    in_project(folder, LOCAL)
    in_home(folder, REMOTE)
    assert resolve(folder, context="prod").api_key == "drk_prod"
    assert resolve(folder).api_key == "drk_local"
    with pytest.raises(NoServerKnownError, match="known: local, prod"):
        resolve(folder, context="porod")


def test_the_key_of_the_environment_wins_on_this_machine(folder: Path) -> None:
    in_project(folder, LOCAL)
    assert resolve(folder, key="drk_own").api_key == "drk_own"


def test_a_key_of_the_environment_never_follows_a_file_that_came_with_the_project(
    folder: Path,
) -> None:
    in_project(folder, '[local]\nserver = "https://evil.example"\napi_key = "x"\n')
    with pytest.raises(ServerNotTrustedError, match="name the server with --server"):
        resolve(folder, key="drk_own")


def test_it_follows_the_users_file(folder: Path) -> None:
    in_home(folder, REMOTE)
    assert resolve(folder, key="drk_own").server == "https://recon.example.com"


def test_the_key_of_a_file_goes_to_no_other_server(folder: Path) -> None:
    in_project(folder, LOCAL)
    with pytest.raises(NoServerKnownError, match="set DATARECS_API_KEY"):
        resolve(folder, server="https://other.example")
    assert resolve(folder, server="127.0.0.1:8080/").api_key == "drk_local"


@pytest.mark.parametrize("server", ["http://recon.example.com", "http://10.0.0.7:8080"])
def test_a_key_leaves_this_machine_over_https_alone(folder: Path, server: str) -> None:
    with pytest.raises(ServerNotTrustedError, match="only over https"):
        resolve(folder, key="drk_own", server=server)


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("recon.example.com", "https://recon.example.com"),
        ("https://Recon.example.com:443/", "https://recon.example.com"),
        ("localhost:8081", "http://localhost:8081"),
        ("http://[::1]:8081", "http://[::1]:8081"),
    ],
)
def test_one_server_has_one_spelling(folder: Path, text: str, server: str) -> None:
    assert resolve(folder, key="drk_own", server=text).server == server


@pytest.mark.parametrize(
    "text",
    ["ftp://x", "https://", "https://u:p@x", "https://x/path", "https://x:99999", "http://["],
)
def test_what_is_no_address_is_refused(folder: Path, text: str) -> None:
    with pytest.raises(NoServerKnownError):
        resolve(folder, key="drk_own", server=text)


@pytest.mark.parametrize("text", ["no toml", "[local]\nserver = 1\n", 'server = "http://x"\n'])
def test_a_broken_file_is_named_without_its_content(folder: Path, text: str) -> None:
    in_project(folder, text)
    with pytest.raises(CredentialsUnreadableError) as refused:
        resolve(folder)
    assert "credentials.toml" in str(refused.value)
    assert "no toml" not in str(refused.value)


def test_a_key_with_line_ends_is_never_sent(folder: Path) -> None:
    with pytest.raises(NoServerKnownError, match="not plain text"):
        resolve(folder, key="drk\nX-Evil: 1", server="localhost")


def test_a_key_is_not_in_the_text_of_the_value() -> None:
    assert "drk_own" not in repr(Access(server="https://x", api_key="drk_own"))
