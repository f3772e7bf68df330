"""How commands reach a platform whose data are not in the folder where commands look."""

import subprocess
from pathlib import Path

import pytest

from datarecs_cli.commands import up as commands
from datarecs_cli.main import run
from datarecs_cli.stack.credentials import Credentials, write_credentials
from datarecs_cli.stack.layout import Layout
from datarecs_runtime.environment import process_environment

SERVER = "http://127.0.0.1:8123"


def a_platform(root: Path) -> None:
    Layout(root).create(as_root=False)
    write_credentials(
        root / "credentials.toml",
        Credentials(server=SERVER, tenant="t", tenant_id="019bc000", api_key="dr_key-1"),
    )


def started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path, *, says: bool = False
) -> None:
    """`up --detach`, with a supervisor whose lines are followed to the last one or not."""

    def start(_arguments: object, layout: object, **options: object) -> int:
        say = options["say"]
        assert callable(say)
        for line in commands.how_to_use(layout) if says else ():  # type: ignore[arg-type]  # theirs
            say(line)
        return 0

    monkeypatch.chdir(tmp_path)
    a_platform(root)
    monkeypatch.setattr(commands, "start_in_background", start)
    assert run(["up", "--detach", "--data-dir", str(root)]) == 0


@pytest.mark.parametrize("says", [False, True])
def test_the_lines_for_another_data_dir_name_the_key_and_the_server_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    says: bool,
) -> None:
    started(tmp_path, monkeypatch, tmp_path / "other place", says=says)
    first, second = capsys.readouterr().err.splitlines()
    assert second.strip() == f"datarecs get jobs --server {SERVER}"
    script = f'{first.removeprefix("use").strip()}; printf %s "$DATARECS_API_KEY"'
    path = process_environment()["PATH"]
    shown = subprocess.run(
        ["sh", "-c", script], env={"PATH": path}, capture_output=True, text=True, check=True
    )
    assert shown.stdout == "dr_key-1"
    assert "dr_key-1" not in first


def test_the_default_data_dir_needs_no_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started(tmp_path, monkeypatch, tmp_path / ".datarecs")
    assert capsys.readouterr().err == ""
