"""Temporary files of comparisons: no error of their disk is a defect, and none stay."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from errno import EDQUOT, ENOSPC, EROFS
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_cli.local.faults import ScratchNotWritableError
from datarecs_cli.local.scratch import LOCK, PREFIX, scratch_folder
from datarecs_cli.main import run
from datarecs_kernel import candidates, stage_tasks
from datarecs_runtime.environment import process_environment

Shown = pytest.CaptureFixture[str]
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: patient}
spec:
  sources:
    - {name: one, kind: csv, path: one.csv}
    - {name: two, kind: csv, path: two.csv}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: "*", confirm: {after: PT1H}}
"""
COMPARE = ["compare", "one.csv", "two.csv", "--key", "id", "--engine", "kernel", "--out", "out"]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    Path("one.csv").write_text("id,amount\n1,1.10\n")
    Path("two.csv").write_text("id,amount\n1,1.20\n")
    Path("job.yaml").write_text(JOB)
    return scratch


def fails(number: int) -> Callable[..., object]:
    """As Arrow reports an error of the disk."""

    def fail(*_arguments: object, **_options: object) -> object:
        detail = f"Error writing bytes to file. Detail: [errno {number}] {os.strerror(number)}"
        raise OSError(number, detail)

    return fail


SEAMS: dict[str, Callable[[pytest.MonkeyPatch, Callable[..., object]], None]] = {
    "folder of a comparison": lambda patch, fail: patch.setattr(tempfile, "mkdtemp", fail),
    "folder of a task": lambda patch, fail: patch.setattr(stage_tasks, "open_database", fail),
    "candidates": lambda patch, fail: patch.setattr(candidates.CandidateFiles, "_flush", fail),
    "files of candidates": lambda patch, fail: patch.setattr(pa.ipc, "new_stream", fail),
    "stored differences": lambda patch, fail: patch.setattr(pq, "ParquetWriter", fail),
}


@pytest.mark.parametrize("number", [ENOSPC, EDQUOT, EROFS])
@pytest.mark.parametrize("seam", SEAMS.values(), ids=SEAMS)
def test_an_error_of_the_disk_names_the_folder_and_the_cause(
    scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Shown,
    seam: Callable[[pytest.MonkeyPatch, Callable[..., object]], None],
    number: int,
) -> None:
    with monkeypatch.context() as patch:
        seam(patch, fails(number))
        assert run(COMPARE) == 3
    shown = " ".join(capsys.readouterr().err.split())
    cause = f"DR3030 {scratch}: temporary files cannot be written: {os.strerror(number)}"
    assert cause in shown
    assert "fix free space in this folder, or set TMPDIR" in shown
    assert list(scratch.iterdir()) == []


def test_a_comparison_without_any_folder_of_temporary_files_says_so(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", fails(ENOSPC))
    monkeypatch.setenv("TMPDIR", str(scratch))
    assert run(COMPARE) == 3
    assert f"DR3030 {scratch}: temporary files cannot be written" in capsys.readouterr().err


def comparing(scratch: Path, *, before: str = "pass") -> "subprocess.Popen[str]":
    """A comparison that waits for an hour with its temporary files."""
    code = f"import signal; {before}; from datarecs_cli.main import main; main()"
    command = [sys.executable, "-c", code, "compare", "job.yaml", "-v", "--out", "out"]
    environment = {**process_environment(), "TMPDIR": str(scratch)}
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert child.stderr is not None
    assert "read two: 1 row\n" in child.stderr
    assert any((folder / LOCK).exists() for folder in scratch.iterdir())
    return child


def test_the_folder_of_a_killed_comparison_is_removed_by_the_next_one(scratch: Path) -> None:
    with comparing(scratch) as living, comparing(scratch) as killed:
        killed.kill()
        killed.wait(10)
        before = set(scratch.iterdir())
        assert len(before) == 2
        assert run([*COMPARE[:-1], "another"]) == 1
        (left,) = scratch.iterdir()  # that of the living one
        assert left in before
        living.send_signal(signal.SIGTERM)
        assert living.wait(10) == 143
    assert list(scratch.iterdir()) == []


def test_nohup_protects_a_comparison_from_a_closed_terminal(scratch: Path) -> None:
    ignored = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    with comparing(scratch, before=ignored) as child:
        child.send_signal(signal.SIGHUP)
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == 143


def test_only_folders_whose_process_has_ended_are_removed(scratch: Path) -> None:
    """A lock that another open file holds, no lock at all, a link, a file, another name."""
    locked, unlocked = scratch / f"{PREFIX}locked", scratch / f"{PREFIX}unlocked"
    for folder in (locked, unlocked, scratch / "other", scratch / "target"):
        folder.mkdir()
    for folder in (locked, scratch / "other", scratch / "target"):
        (folder / LOCK).touch()
    (scratch / f"{PREFIX}link").symlink_to(scratch / "target")
    (scratch / f"{PREFIX}file").touch()
    abandoned = scratch / f"{PREFIX}abandoned"
    abandoned.mkdir()
    (abandoned / LOCK).touch()
    before = set(scratch.iterdir())
    with (locked / LOCK).open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with scratch_folder():
            pass
    assert before - set(scratch.iterdir()) == {abandoned}
    assert (scratch / "target" / LOCK).exists()


def test_a_file_system_without_locks_still_has_a_folder(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", fails(EROFS))
    with scratch_folder() as folder:
        assert folder.is_dir()
    assert list(scratch.iterdir()) == []
    monkeypatch.setattr(tempfile, "mkdtemp", fails(EROFS))
    with pytest.raises(ScratchNotWritableError, match=os.strerror(EROFS)), scratch_folder():
        pass
