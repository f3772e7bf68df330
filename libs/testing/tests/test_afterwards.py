import os
import subprocess
import sys
from pathlib import Path

import pytest

from datarecs_testing.afterwards import afterwards

ENDINGS = {
    "by itself": "pass",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "killed with its group": "os.killpg(0, signal.SIGKILL)",
}


def test_a_command_runs_behind_its_block_and_not_before(tmp_path: Path) -> None:
    with afterwards(["touch", "gone"], cwd=tmp_path):
        assert list(tmp_path.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["gone"]


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_a_command_runs_however_the_process_ends(tmp_path: Path, ending: str) -> None:
    os.mkfifo(tmp_path / "told")
    program = (
        "import os, pathlib, signal\n"
        "from datarecs_testing.afterwards import afterwards\n"
        f"with afterwards(['sh', '-c', 'echo down > told'], cwd=pathlib.Path({str(tmp_path)!r})):\n"
        f"    {ending}\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True):
        output = subprocess.check_output(["cat", "told"], cwd=tmp_path, timeout=60)
    assert output == b"down\n"
