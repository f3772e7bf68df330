"""Ctrl-C while Spark starts: the user's shell gets 130, and nothing is left on the machine."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from datarecs_runtime.environment import process_environment

pytestmark = pytest.mark.e2e
COMMAND = ("compare", "one.csv", "two.csv", "--key", "id", "--engine", "spark", "-v")


def test_an_interrupted_comparison_leaves_no_java_and_no_scratch(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("id,amount\n1,1.10\n")
    with subprocess.Popen(
        [sys.executable, "-m", "datarecs_cli", *COMMAND],
        cwd=tmp_path,
        env={**process_environment(), "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as comparing:
        assert comparing.stderr is not None
        next(line for line in comparing.stderr if line.startswith("read two"))
        comparing.send_signal(signal.SIGINT)
        _, output = comparing.communicate()
    assert comparing.returncode == 130
    assert "Traceback" not in output
    assert list(scratch.iterdir()) == []
    assert [each for each in Path("/proc").glob("[0-9]*/cmdline") if names(each, scratch)] == []


def names(command: Path, folder: Path) -> bool:
    """Whether a running process has the folder in its arguments."""
    try:
        return str(folder).encode() in command.read_bytes()
    except OSError:  # it has ended
        return False
