from collections.abc import Iterator
from pathlib import Path

import pytest

from datarecs_cli.main import run
from datarecs_cli.stack.failures import NotAPlatformError
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.placement import spare_directory
from datarecs_cli.stack.process import Command, Identity, Running, start
from datarecs_cli.stack.runner import prepare_folders
from datarecs_cli.stack.shutdown import end_leftovers, stop_platform, wipe
from datarecs_cli.stack.state import DirectoryLock, Phase, State, load, save

GONE = Identity(pid=1, started="never")


@pytest.fixture
def orphan(tmp_path: Path) -> Iterator[Running]:
    """A part whose supervisor is gone."""
    running = start(Command(argv=("/bin/sleep", "60"), environment={}, log=tmp_path / "orphan.log"))
    yield running
    running.kill_group()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "data")
    layout.create(as_root=False)
    return layout


@pytest.mark.case("K17")
def test_parts_that_outlived_their_supervisor_are_ended_by_the_next_start(orphan: Running) -> None:
    state = State(parts={"dead": GONE, "kafka": orphan.identity})
    assert end_leftovers(state) == ("kafka",)
    assert not orphan.identity.is_alive()


def test_down_without_a_supervisor_ends_what_is_left_and_says_so(
    layout: Layout, orphan: Running
) -> None:
    parts = {"kafka": orphan.identity}
    save(layout.state_file, State(phase=Phase.READY, supervisor=GONE, parts=parts))
    said: list[str] = []
    assert stop_platform(layout, said.append)
    assert "kafka" in said[0]
    assert load(layout.state_file).phase is Phase.STOPPED
    assert not stop_platform(layout, said.append)


def test_down_stops_a_living_supervisor(layout: Layout, orphan: Running) -> None:
    save(layout.state_file, State(phase=Phase.READY, supervisor=orphan.identity))
    said: list[str] = []
    assert stop_platform(layout, said.append)
    assert said == [f"stopping (pid {orphan.pid})"]
    assert not orphan.identity.is_alive()


def test_wiping_takes_a_moved_database_along(layout: Layout, tmp_path: Path) -> None:
    moved = spare_directory(layout.root, tmp_path / "spare")
    moved.mkdir(parents=True)
    assert wipe(layout, spare_root=tmp_path / "spare") == []
    assert not layout.root.exists()
    assert not moved.parent.exists()


def test_wiping_leaves_files_that_the_platform_did_not_create(layout: Layout) -> None:
    save(layout.state_file, State())
    for written in ("notes.txt", "mine/logs/a.csv", ".state.json.draft", "sinks/a", "demo/b.html"):
        file = layout.root / written
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert wipe(layout) == ["mine", "notes.txt"]
    assert sorted(one.name for one in layout.root.rglob("*")) == [
        *("a.csv", "logs", "mine", "notes.txt")
    ]


def test_wiping_follows_no_link(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    layout.mail.rmdir()
    layout.mail.symlink_to(tmp_path / "mine")
    assert wipe(layout) == []
    assert (tmp_path / "mine").is_dir()


@pytest.mark.parametrize("name", ["state.json", "logs/core-api.log", "pg/18/data/PG_VERSION"])
def test_a_folder_that_no_platform_used_is_not_deleted(tmp_path: Path, name: str) -> None:
    file = tmp_path / "mine" / name
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    with pytest.raises(NotAPlatformError, match="mine is not deleted: no platform has used"):
        wipe(Layout(tmp_path / "mine"))
    assert file.exists()


def test_the_commands_refuse_a_folder_of_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("id\n1\n")
    Path("logs").mkdir()
    for arguments in (["up"], ["up", "--detach"], ["demo"], ["down", "--reset", "--yes"]):
        assert run([*arguments, "--data-dir", "."]) == 2
        assert "--data-dir" in capsys.readouterr().err
    assert run(["down", "--data-dir", "."]) == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.csv", "logs"]


def test_a_link_with_the_name_of_our_folder_makes_no_foreign_folder_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "work" / "logs" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.touch()
    (tmp_path / ".datarecs").symlink_to("work")
    for arguments in (["up"], ["demo"], ["down", "--reset", "--yes"]):
        assert run(arguments) == 2
    assert mine.exists()


def test_a_link_to_an_empty_folder_holds_a_platform(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / ".datarecs").symlink_to("disk")
    layout = Layout(tmp_path / ".datarecs")
    prepare_folders(layout)
    assert layout.is_used
    assert wipe(layout) == []
    assert list((tmp_path / "disk").iterdir()) == []


def test_a_mounted_volume_is_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    layout = Layout(tmp_path)
    prepare_folders(layout)
    assert layout.is_used
    assert wipe(layout) == ["lost+found"]


def test_a_reset_says_which_files_stay(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    (layout.root / "notes.txt").touch()
    assert run(["down", "--reset", "--yes", "--data-dir", str(layout.root)]) == 0
    assert "other files stay: notes.txt" in capsys.readouterr().err
    assert run(["down", "--reset", "--yes", "--data-dir", str(layout.root)]) == 2
    assert (layout.root / "notes.txt").exists()


def test_a_damaged_state_does_not_prevent_the_stop(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    layout.state_file.write_text("{")
    place = ["--data-dir", str(layout.root)]
    assert run(["status", *place]) == 3
    shown = capsys.readouterr().err
    assert f"state in {layout.state_file} cannot be used: " in shown
    assert "datarecs up" in shown
    assert run(["down", *place]) == 0
    assert run(["down", "--reset", "--yes", *place]) == 0
    assert not layout.root.exists()


@pytest.mark.parametrize("written", ["{", "{}"])
def test_nothing_is_deleted_under_a_platform_that_the_state_does_not_name(
    layout: Layout, written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    layout.state_file.write_text(written)
    lock = DirectoryLock(layout.lock_file)
    assert lock.take()
    assert run(["down", "--reset", "--yes", "--data-dir", str(layout.root)]) == 3
    lock.release()
    assert "DR5016" in capsys.readouterr().err
    assert layout.state_file.exists()


def test_root_lets_the_database_account_pass_but_not_into_the_secrets(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "data")
    layout.create(as_root=True)
    modes = [one.stat().st_mode & 0o777 for one in (layout.root, layout.postgres, layout.secrets)]
    assert modes == [0o711, 0o711, 0o700]
