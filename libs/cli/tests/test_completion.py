"""`completion SHELL`: a script per shell, and the words that may follow."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from datarecs_cli.commands.completion import SCRIPTS, Shell, next_words
from datarecs_cli.main import COMMANDS, run


@pytest.mark.parametrize("shell", Shell)
def test_every_shell_has_its_script(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert capsys.readouterr().out == SCRIPTS[shell]


def test_commands_then_subcommands_then_flags_are_offered() -> None:
    assert [one.name for one in COMMANDS] == list(next_words([]))[: len(COMMANDS)]
    assert list(next_words(["admin"]))[:2] == ["bootstrap-db", "migrate"]
    assert "--topics" in list(next_words(["admin", "consumer", "create"]))
    assert {"--key", "--measure", "--output"} <= set(next_words(["compare", "a.csv"]))
    assert "--words" not in list(next_words(["completion"]))


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_a_flag(tmp_path: Path) -> None:
    """With the script as it is printed, and this command on the path."""
    command = tmp_path / "datarecs"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m datarecs_cli "$@"\n')
    command.chmod(0o755)
    (tmp_path / "script").write_text(SCRIPTS[Shell.BASH])
    request = (
        f"PATH={tmp_path}:$PATH; . {tmp_path}/script; COMP_WORDS=(datarecs compare --mea);"
        ' COMP_CWORD=2; _datarecs; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", request], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "--measure"
