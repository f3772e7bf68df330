import errno
from pathlib import Path

import pytest

from datarecs_cli.stack.failures import LockUnavailableError, StateUnreadableError
from datarecs_cli.stack.process import Identity
from datarecs_cli.stack.state import DirectoryLock, Phase, State, load, save

FULL = State(
    release="0.1.0",
    phase=Phase.READY,
    supervisor=Identity(pid=12, started="345"),
    ports={"api": 8080},
    expected=("postgres", "kafka", "core-api"),
    parts={"postgres": Identity(pid=13, started="346"), "kafka": Identity(pid=14, started="347")},
    cluster_id="abc",
    java={"home": "/java"},
    postgres={"version": "18.6"},
)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    save(tmp_path / "state.json", FULL)
    assert load(tmp_path / "state.json") == FULL


def test_there_is_a_state_before_the_first_start(tmp_path: Path) -> None:
    assert load(tmp_path / "state.json") == State()


@pytest.mark.parametrize(
    "written",
    [b"", b"{", b"[]", b'{"phase": "ASLEEP"}', b'{"parts": {"kafka": {"pid": 1}}}', b"\xff"],
)
def test_a_damaged_state_is_an_error_with_its_path(tmp_path: Path, written: bytes) -> None:
    (tmp_path / "state.json").write_bytes(written)
    with pytest.raises(StateUnreadableError, match=r"state\.json cannot be used: ."):
        load(tmp_path / "state.json")


def test_the_state_is_private_and_no_draft_is_left(tmp_path: Path) -> None:
    save(tmp_path / "state.json", FULL)
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]
    assert (tmp_path / "state.json").stat().st_mode & 0o077 == 0


def test_the_lock_has_one_holder_at_a_time(tmp_path: Path) -> None:
    first, second = DirectoryLock(tmp_path / "lock"), DirectoryLock(tmp_path / "lock")
    assert first.take()
    assert not second.take()
    first.release()
    assert second.take()
    second.release()


@pytest.mark.case("K50")
def test_a_file_system_without_locks_is_an_error(tmp_path: Path) -> None:
    def no_locks(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with pytest.raises(LockUnavailableError, match="No locks available"):
        DirectoryLock(tmp_path / "lock").take(no_locks)
