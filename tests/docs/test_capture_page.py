"""The page about captures: its commands, its body and its flags are those of the product."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from datarecs_cli.commands import captures
from datarecs_core.captures.items import WorkKind
from datarecs_core.errors.captures import CaptureCode
from datarecs_specs.capture_shape import capture_of

PAGE = (Path(__file__).parents[2] / "docs/howto/capture.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^datarecs capture (start|now) (.*)$", PAGE, re.MULTILINE)
FLAGS = set(re.findall(r"`(--[a-z-]+)", PAGE))


def test_the_body_of_the_page_is_accepted() -> None:
    body: Any = json.loads(PAGE.split("POST /api/v1/capture-jobs\n")[1].split("```")[0])
    capture, findings = capture_of(body)
    assert capture is not None
    assert findings == ()


@pytest.mark.parametrize(("command", "arguments"), COMMANDS)
def test_a_command_of_the_page_has_flags_of_the_product(command: str, arguments: str) -> None:
    shown = CliRunner().invoke(captures.app, [command, "--help"], env={"COLUMNS": "200"}).output
    flags = [word for word in shlex.split(arguments) if word.startswith("--")]
    assert flags
    assert [flag for flag in flags if flag not in shown] == []


def test_every_flag_of_the_page_exists() -> None:
    runner, env = CliRunner(), {"COLUMNS": "200"}
    shown = "".join(
        runner.invoke(captures.app, [command, "--help"], env=env).output
        for command in ("start", "now")
    )
    assert len(FLAGS) > 10
    assert {flag for flag in FLAGS if flag not in shown} == set()


def test_the_parts_and_errors_of_the_page_are_those_of_the_product() -> None:
    assert {kind for kind in WorkKind if kind not in PAGE} == set()
    table = PAGE.split("## When it fails")[1]
    named = set(re.findall(r"^\| ([A-Z_]{8,}) \|", table, re.MULTILINE))
    assert named
    assert named <= {code.name for code in CaptureCode}
