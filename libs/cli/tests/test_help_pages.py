"""Every help page ends with examples that parse and with the exit codes of its command."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from datarecs_cli.exit_codes import ExitCode
from datarecs_cli.help_pages import HELP_PAGES
from datarecs_cli.invocation import take_globals
from datarecs_cli.main import COMMANDS, program_of, run

_REDIRECTED = re.compile(r"\s[<>].*$")


def leaves(program: Any, path: str) -> Iterator[str]:  # noqa: ANN401  typer ships its own click
    """Commands that do something, by what is typed."""
    inner = getattr(program, "commands", None)
    if inner is None:
        yield path
        return
    for name, one in inner.items():
        yield from leaves(one, f"{path} {name}")


PATHS = [path for command in COMMANDS for path in leaves(program_of(command), command.name)]


@pytest.mark.case("U07")
@pytest.mark.parametrize("path", PATHS)
def test_every_page_has_usage_two_examples_and_exit_codes(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*path.split(), "--help"]) == ExitCode.DONE
    page = capsys.readouterr().out
    assert page.startswith(f"Usage: datarecs {path}")
    _, _, end = page.partition("Examples:\n")
    examples, _, codes = end.partition("Exit codes:\n")
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    assert len(lines) >= 2
    assert len(set(lines)) == len(lines)
    assert all(parses(line, path) for line in lines)
    shown = [int(code) for code in re.findall(r"^ +(\d+) ", codes, re.MULTILINE)]
    assert {ExitCode.DONE, ExitCode.USAGE} <= set(shown)
    assert set(shown) <= set(ExitCode)


def parses(line: str, path: str) -> bool:
    """Whether the command line is understood; nothing is carried out."""
    words = shlex.split(_REDIRECTED.sub("", line))
    assert words[: len(path.split()) + 1] == ["datarecs", *path.split()]
    _, rest = take_globals(words[1:], environment={}, stdout_is_terminal=False)
    first, *more = rest
    program: Any = program_of(next(one for one in COMMANDS if one.name == first))
    for name in path.split()[1:]:
        program = program.commands[name]
        more = more[1:]
    program.make_context(path, list(more))
    return True


def test_no_page_is_of_a_command_that_does_not_exist() -> None:
    assert set(HELP_PAGES) == set(PATHS)
