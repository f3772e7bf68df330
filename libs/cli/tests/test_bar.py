"""The bar of a local comparison: what stands in its line, and when there is one at all."""

import re
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from datarecs_cli.invocation import Invocation, Output
from datarecs_cli.local.bar import Bar, Shown
from datarecs_cli.local.terminal_reporter import TerminalReporter
from datarecs_cli.screen import Screen
from datarecs_testing.clock import ManualClock
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import a_job, pair, plan_of

PLAIN = Bar(encoding="utf-8", color=False)
HALF = Shown(what="rows", rows=2_097_151, total=4_194_304, rate=1_234_567.8, then="comparing")
TABLES = pair("k int, v int", [(1, 1)], [(1, 1)])
PLAN = plan_of(a_job(TABLES, rows_by("k", a_measure("v"))), TABLES)
(STAGE,) = (stage.name for stage in PLAN.stages)
Shell = pytest.CaptureFixture[str]


def test_a_bar_says_what_share_how_many_rows_and_how_fast() -> None:
    line = PLAIN.line(HALF, 79)
    assert len(line) == 79
    assert line.startswith("rows  ━━━")
    assert line.endswith("49 %  2,097,151 of 4,194,304 rows  1,234,568 rows/s")


def test_all_rows_are_read_before_the_stage_is_done() -> None:
    done = Shown(what="rows", rows=4000, total=4000, rate=9.0, then="comparing")
    assert PLAIN.line(done, 79).endswith("━  100 %  4,000 rows read  comparing")


def test_without_a_total_there_is_no_share() -> None:
    line = PLAIN.line(Shown(what="reading a", rows=1000, total=None, rate=500.0), 60)
    assert line.endswith("  1,000 rows  500 rows/s")
    assert "%" not in line


@pytest.mark.parametrize("width", [10, 30, 50, 200])
def test_a_line_never_breaks(width: int) -> None:
    long = Shown(what="[red]stage " * 9, rows=1, total=10**12, rate=0.0)
    assert len(PLAIN.line(long, width)) <= width


def test_colours_and_signs_are_those_of_the_terminal() -> None:
    coloured = Bar(encoding="utf-8", color=True).line(HALF, 79)
    assert "\x1b[36m━" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).split()[-2:] == ["1,234,568", "rows/s"]
    assert Bar(encoding="ascii", color=False).line(HALF, 79).isascii()


@dataclass
class Terminal:
    """Where a comparison is reported, with a clock in hand."""

    bar: Bar | None = PLAIN
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        screen = Screen(quiet=False, moves=True)
        self.reporter = TerminalReporter(screen, self.bar, self.clock, verbose=False)
        self.reporter.pinned({}, PLAN)

    def after(self, seconds: float) -> TerminalReporter:
        self.clock.advance(timedelta(seconds=seconds))
        return self.reporter


def drawn(shell: Shell) -> list[str]:
    return [line.strip() for line in shell.readouterr().err.split("\r\x1b[K") if line]


def test_a_stage_moves_as_a_bar_that_is_gone_at_its_end(
    capsys: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    terminal = Terminal()
    for index in range(2):
        terminal.reporter.extraction_completed(index, 5000)
    terminal.reporter.comparison_started(STAGE, 2)
    terminal.after(0.5).rows_processed(STAGE, 1000, 0)
    terminal.after(1).rows_processed(STAGE, 3000, 0)
    terminal.after(2).rows_processed(STAGE, 10_000, 0)
    terminal.reporter.done()
    shown = drawn(capsys)
    assert shown[-3] == f"{STAGE}: 1,000 rows compared"  # too soon for a bar
    assert shown[-2].endswith("30 %  3,000 of 10,000 rows  2,000 rows/s")
    assert shown[-1].endswith("100 %  10,000 rows read  comparing")


def test_reading_a_source_moves_as_well(capsys: Shell) -> None:
    terminal = Terminal()
    terminal.reporter.extraction_started(0, "csv")
    terminal.after(4).extraction_progressed(0, 2000)
    assert drawn(capsys)[-1].endswith("2,000 rows  500 rows/s")


def test_without_a_bar_words_move(capsys: Shell) -> None:
    terminal = Terminal(bar=None)
    terminal.reporter.comparison_started(STAGE, 2)
    terminal.after(4).rows_processed(STAGE, 2000, 0)
    terminal.after(4).extraction_progressed(1, 2000, STAGE)
    *_, compared, read = drawn(capsys)
    assert compared == f"{STAGE}: 2,000 rows compared"
    assert read == f"reading {PLAN.scans[1].source} again for {STAGE}: 2,000 rows"


@pytest.mark.case("U12")
@pytest.mark.parametrize(
    ("invocation", "environment", "is_terminal", "bar"),
    [
        (Invocation(), {}, True, True),
        (Invocation(), {}, False, False),
        (Invocation(quiet=True), {}, True, False),
        (Invocation(output=Output.JSON), {}, True, False),
        (Invocation(), {"NO_COLOR": "1"}, True, False),
        (Invocation(), {"TERM": "dumb"}, True, False),
    ],
)
def test_a_bar_is_for_people_at_a_terminal_alone(
    capsys: Shell,
    monkeypatch: pytest.MonkeyPatch,
    invocation: Invocation,
    environment: dict[str, str],
    *,
    is_terminal: bool,
    bar: bool,
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    clock = ManualClock()
    reporter = TerminalReporter.of(invocation, environment, clock)
    reporter.pinned({}, PLAN)
    reporter.extraction_started(0, "csv")
    clock.advance(timedelta(seconds=2))
    reporter.extraction_progressed(0, 1000)
    assert ("rows/s" in capsys.readouterr().err) is bar


def in_plain(capsys: Shell, *, quiet: bool = False) -> str:
    """Progress where nothing moves: reading twice for 12 s, then comparing."""
    clock = ManualClock()
    reporter = TerminalReporter(Screen(quiet=quiet, moves=False), None, clock, verbose=False)
    reporter.pinned({}, PLAN)
    reporter.extraction_started(0, "parquet")
    for rows in (100, 200):
        clock.advance(timedelta(seconds=6))
        reporter.extraction_progressed(0, rows)
    reporter.extraction_completed(0, 300)
    reporter.stage_started(STAGE)
    reporter.comparison_started(STAGE, 2)
    return capsys.readouterr().err


@pytest.mark.case("U12")
def test_without_a_terminal_every_step_is_a_line_and_rows_come_now_and_then(capsys: Shell) -> None:
    assert in_plain(capsys).splitlines() == [
        "reading one",
        "reading one: 200 rows",
        "read one: 300 rows",
        f"stage {STAGE}",
        f"comparing 2 sources in {STAGE}",
    ]


def test_quiet_is_without_progress(capsys: Shell) -> None:
    assert in_plain(capsys, quiet=True) == ""
