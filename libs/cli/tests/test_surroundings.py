"""Time zone and language of the machine change no result."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from datarecs_runtime.environment import process_environment

ONE = (
    "id,at,amount,name\n1,2026-03-29 02:30:00,1.10,\u0130stanbul\n2,2026-06-30 10:00:00,5,\u0131i\n"
)
TWO = ONE.replace("1.10", "1.1").replace("\u0131i", "ii")
SURROUNDINGS: list[dict[str, str]] = [
    {"TZ": "Asia/Kathmandu"},
    {"TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8"},
    {"LC_ALL": "C", "PYTHONUTF8": "0"},
]


def proof_of(folder: Path, engine: str, surroundings: dict[str, str]) -> str:
    command = [sys.executable, "-m", "datarecs_cli", "compare", "one.csv", "two.csv"]
    command += ["--key", "id", "--engine", engine, "--out", "out"]
    environment = {**process_environment(), **surroundings}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    assert done.returncode == 1, done.stderr
    return str(json.loads((folder / "out" / "run.json").read_bytes())["proof_hash"])


@pytest.mark.slow
def test_no_time_zone_and_no_language_changes_a_result(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(ONE, encoding="utf-8")
    (tmp_path / "two.csv").write_text(TWO, encoding="utf-8")
    proof = proof_of(tmp_path, "reference", {"TZ": "UTC"})
    assert [proof_of(tmp_path, "kernel", each) for each in SURROUNDINGS] == [proof] * 3
