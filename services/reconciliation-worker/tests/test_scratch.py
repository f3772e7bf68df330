"""What a worker leaves in its scratch folder, and what the next one does with it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from datarecs_core.errors.process import ScratchInUseError, SettingsError
from datarecs_reconciliation_worker.settings import Settings
from datarecs_reconciliation_worker.wiring import warm_child
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.child_surroundings import child_environment
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.scratch import ScratchFolder
from datarecs_runtime.sections import Worker

WORKER = """
import sys
from pathlib import Path
from datarecs_runtime.scratch import ScratchFolder
ScratchFolder(Path(sys.argv[1])).claim()
print("claimed", flush=True)
sys.stdin.read()
"""


@contextmanager
def a_worker(root: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the folder; it is killed at the end."""
    command = [sys.executable, "-c", WORKER, str(root)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        try:
            yield process
        finally:
            process.kill()


def files_of_an_attempt(root: Path) -> tuple[Path, ...]:
    """Credentials of a run, and what its child spilled."""
    files = root / "runs/r-1-1/credentials.json", root / "child-0/spark-1/rows", root / "child-0/so"
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("secret")
    return files


def test_the_next_worker_removes_the_secrets_of_a_killed_one(tmp_path: Path) -> None:
    with a_worker(tmp_path):
        left = files_of_an_attempt(tmp_path)
    ScratchFolder(tmp_path).claim()
    assert [file for file in left if file.exists()] == []
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_second_worker_leaves_the_files_of_a_live_one(tmp_path: Path) -> None:
    with a_worker(tmp_path) as first:
        left = files_of_an_attempt(tmp_path)
        with pytest.raises(ScratchInUseError) as refused:
            ScratchFolder(tmp_path).claim()
        assert all(file.exists() for file in left)
        assert f"process {first.pid}" in str(refused.value)
        assert "DATARECS_WORKER__SCRATCH_DIR" in str(refused.value)
        with pytest.raises(ScratchInUseError, match="another DATARECS_SINK__SCRATCH_DIR for"):
            ScratchFolder(tmp_path, setting="DATARECS_SINK__SCRATCH_DIR").claim()


def test_a_worker_that_ends_leaves_nothing_and_frees_its_folder(tmp_path: Path) -> None:
    first, second = ScratchFolder(tmp_path), ScratchFolder(tmp_path)
    first.claim()
    left = files_of_an_attempt(tmp_path)
    first.release()
    assert not any(file.exists() for file in left)
    second.claim()


def test_files_of_others_stay(tmp_path: Path) -> None:
    others = tmp_path / "notes.txt", tmp_path / "data/rows.csv"
    for file in others:
        file.parent.mkdir(exist_ok=True)
        file.write_text("x")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/link").symlink_to(tmp_path / "data")
    ScratchFolder(tmp_path).claim()
    assert all(file.exists() for file in others)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_new_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        ScratchFolder(tmp_path / "captures").claim()
    finally:
        os.umask(mask)
    assert (tmp_path / "captures").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_used_is_named_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"DATARECS_WORKER__SCRATCH_DIR: .*/file/scratch"):
        ScratchFolder(tmp_path / "file/scratch").claim()


def test_a_child_of_a_user_without_a_name_has_a_home_and_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1_234_567)
    environment = child_environment(tmp_path)
    assert environment["HOME"] == environment["TMPDIR"] == str(tmp_path)
    assert environment["HADOOP_USER_NAME"] == environment["SPARK_USER"] == "datarecs"


def test_a_new_child_finds_its_folder_empty_and_stores_temporary_files_there(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "child-0"
    settings = Settings.model_construct(
        worker=Worker(scratch_dir=tmp_path), blob=Blob(url=(tmp_path / "blobs").as_uri())
    )
    child = warm_child(settings, SystemClock(), folder)
    (folder / "spark-1").mkdir(parents=True)
    (folder / "spark-1/rows").write_text("of the child before")
    child.make()
    assert list(folder.iterdir()) == []
    assert child_environment(folder)["TMPDIR"] == str(folder)
