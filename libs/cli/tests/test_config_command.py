"""`datarecs config`: what is set and by whom; secrets are named and never shown."""

import json
import tomllib
from pathlib import Path

import pytest

from datarecs_cli.main import run
from datarecs_runtime.settings import describe


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def test_the_file_of_defaults_names_every_setting_and_sets_none(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", "show", "--defaults"]) == 0
    text = capsys.readouterr().out
    assert all(one.name in text for one in describe())
    assert all(not line or line.startswith("#") for line in text.splitlines())
    (folder / "datarecs.toml").write_text(text, encoding="utf-8")
    assert run(["config", "show"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("folder")
def test_uncommented_it_is_toml(capsys: pytest.CaptureFixture[str]) -> None:
    run(["config", "show", "--defaults"])
    lines = capsys.readouterr().out.splitlines()
    bare = [line.removeprefix("# ") for line in lines if " = " in line or line.startswith("# [")]
    settings = tomllib.loads("\n".join(line for line in bare if not line.startswith("#")))
    assert settings["queue"]["lease_ttl"]
    assert settings["database"]["pool_size"] == 10
    assert settings["live"]["notify"] is True


def test_what_is_set_is_shown_with_where_it_was_set(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "datarecs.toml").write_text(
        '[mail]\nhost = "relay"\n[log]\nlevel = "debug"\n', encoding="utf-8"
    )
    monkeypatch.setenv("DATARECS_LOG__LEVEL", "error")
    monkeypatch.setenv("DATARECS_DATABASE__URL", "postgresql://u:hunter2@h/d")
    assert run(["config", "show"]) == 0
    shown = capsys.readouterr().out
    assert "DATARECS_LOG__LEVEL=error  # environment" in shown
    assert f"DATARECS_MAIL__HOST=relay  # {folder / 'datarecs.toml'}" in shown
    assert "DATARECS_DATABASE__URL=(set, not shown)" in shown
    assert "hunter2" not in shown


def test_a_secret_in_a_file_is_named_by_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATARECS_MAIL__PASSWORD_FILE", str(folder / "p"))
    run(["config", "show", "-o", "json"])
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["source"] == "file named by DATARECS_MAIL__PASSWORD_FILE"


def test_a_broken_settings_file_is_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "datarecs.toml").write_text("[", encoding="utf-8")
    assert run(["config", "show"]) == 3
    assert "datarecs.toml cannot be read" in capsys.readouterr().err


def test_the_files_that_count_are_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "datarecs.toml").touch()
    assert run(["config", "path"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(folder / "datarecs.toml")
    assert lines[1].endswith("home/.config/datarecs/config.toml  (not there)")
    assert len(lines) == 4
