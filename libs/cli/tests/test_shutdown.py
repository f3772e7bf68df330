from collections.abc import Iterator
from pathlib import Path

import pytest

from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.placement import spare_directory
from datarecs_cli.stack.process import Command, Identity, Running, start
from datarecs_cli.stack.shutdown import end_leftovers, stop_platform, wipe
from datarecs_cli.stack.state import Phase, State, load, save

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
    wipe(layout, spare_root=tmp_path / "spare")
    assert not layout.root.exists()
    assert not moved.parent.exists()


def test_root_lets_the_database_account_pass_but_not_into_the_secrets(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "data")
    layout.create(as_root=True)
    modes = [one.stat().st_mode & 0o777 for one in (layout.root, layout.postgres, layout.secrets)]
    assert modes == [0o711, 0o711, 0o700]
