"""The tutorial's commands, run unchanged, print the output shown below them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_HERE = ("make setup", "export PATH", "cd ")
"""Of a reader's shell: the tests have done so."""
FOLDER = "/tmp/bank"  # noqa: S108 - as the page names it


def words_of(line: str) -> list[str]:
    return line.split()


def lines_in_order(shown: str, output: str) -> list[str]:
    """Lines of a page that the output does not have, each behind the one before; blanks aside."""
    rest = [words_of(line) for line in output.splitlines()]
    missing = []
    for line in filter(None, map(words_of, shown.splitlines())):
        at = next((place for place, each in enumerate(rest) if each[: len(line)] == line), None)
        if at is None:
            missing.append(" ".join(line))
        else:
            rest = rest[at + 1 :]
    return missing


def test_every_command_of_the_tutorial_prints_what_the_page_shows(tmp_path: Path) -> None:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
    output, folder = "", tmp_path / "bank"
    for kind, block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "text":
            assert lines_in_order(block, output) == []
            continue
        output = ""
        for line in block.splitlines():
            if line.startswith(NOT_HERE):
                continue
            words = [word.replace(FOLDER, str(folder)) for word in shlex.split(line)]
            words = [str(ROOT / word) if word.startswith("docs/") else word for word in words]
            done = subprocess.run(
                words,
                cwd=folder if folder.exists() else tmp_path,
                env={"PATH": programs, "HOME": str(tmp_path)},
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            assert done.returncode in {0, 1}, done.stderr
            output += done.stdout + done.stderr


@pytest.mark.parametrize(
    ("shown", "missing"), [("a b", []), ("a  b\nd", []), ("d\na b", ["a b"]), ("b", ["b"])]
)
def test_a_line_that_the_output_lacks_is_noticed(shown: str, missing: list[str]) -> None:
    assert lines_in_order(shown, "a b c\nd\n") == missing
