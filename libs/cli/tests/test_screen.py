"""What may move on a terminal, and that nothing else writes an escape byte."""

import pytest

from datarecs_cli.invocation import Invocation
from datarecs_cli.screen import Screen


def test_without_a_terminal_nothing_moves(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen.of(Invocation(), {"TERM": "xterm"})
    screen.draw("running")
    screen.say("done")
    screen.clear()
    assert capsys.readouterr().err == "done\n"


@pytest.mark.case("U12")
@pytest.mark.parametrize(
    ("environment", "quiet", "moves"),
    [
        ({"TERM": "xterm"}, False, True),
        ({"TERM": "dumb"}, False, False),
        ({"NO_COLOR": "1"}, False, False),
        ({}, True, False),
    ],
)
def test_a_terminal_that_wants_no_escapes_gets_none(
    environment: dict[str, str],
    quiet: bool,
    moves: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    screen = Screen.of(Invocation(quiet=quiet), environment)
    screen.draw("running")
    screen.say("done")
    assert screen.moves is moves
    assert ("\x1b" in capsys.readouterr().err) is moves


def test_a_line_that_stays_takes_the_place_of_the_moving_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Screen(quiet=False, moves=True)
    screen.draw("running")
    screen.say("done")
    assert capsys.readouterr().err == "\r\x1b[Krunning\r\x1b[Kdone\n"
