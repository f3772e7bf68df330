"""Progress of a local comparison: one moving line on a terminal, more with -v, else plain lines.

Longer reads and stages have a bar. Without a terminal every start and end of a step is a line, and
the number of rows is a line every ten seconds. Reports may come from a thread of the engine, which
stops reporting before the next step begins.
"""

import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Self

from datarecs_application.ports.outside import Clock
from datarecs_cli.invocation import Invocation
from datarecs_cli.local.bar import Bar, Shown
from datarecs_cli.local.engines import rows_of
from datarecs_cli.output import cell
from datarecs_cli.screen import Screen
from datarecs_core.comparison.planning.computing import columns_in
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.planning.scan import Pin
from datarecs_core.comparison.results.payload import ComparisonPayload
from datarecs_reports.figures import counted

PROGRESS_EVERY = timedelta(seconds=0.5)
"""Least time between two updates of a bar."""
BAR_AFTER_S = 1.0
"""Shorter steps have no bar."""
LINE_EVERY_S = 10.0
"""Time between two lines with the number of rows, if no line may move."""
_NARROWEST = 40
"""Least width of a terminal for a bar, in columns."""


class TerminalReporter:
    """Reports progress of `answer` on a terminal; stores the columns that are not compared.

    Args:
        screen: receives the lines.
        bar: draws the bar; None without a bar.
        clock: for rows per second.
        verbose: lines of finished steps stay.
    """

    def __init__(self, screen: Screen, bar: Bar | None, clock: Clock, *, verbose: bool) -> None:
        self._screen, self._bar, self._verbose = screen, bar, verbose
        self._pace = _Pace(clock)
        self._clock, self._line_at = clock, clock.monotonic()
        self._sources: tuple[str, ...] = ()
        self._promised: tuple[int | None, ...] = ()
        """Rows of sources, from file footers."""
        self._read: dict[int, int] = {}
        """Rows of sources that are read."""
        self._stages_with_queries: frozenset[str] = frozenset()
        """Stages that read other rows."""
        self.not_compared: tuple[str, ...] = ()
        """Columns of a source that no stage reads."""

    @classmethod
    def of(
        cls,
        invocation: Invocation,
        environment: Mapping[str, str],
        clock: Clock,
        screen: Screen | None = None,
    ) -> Self:
        """The reporter for this command line; `screen` if it has already shown a line."""
        screen = screen or Screen.of(invocation, environment)
        wants = screen.moves and not invocation.is_json
        bar = Bar.of(invocation, environment, encoding=sys.stderr.encoding) if wants else None
        return cls(screen, bar, clock, verbose=invocation.verbose > 0)

    def pinned(self, pins: Mapping[str, Pin], plan: ComparisonPlan) -> None:  # noqa: ARG002  the signature of the port
        self._sources = tuple(scan.source for scan in plan.scans)
        self._promised = tuple(map(rows_of, plan.scans))
        self._stages_with_queries = frozenset(stage.name for stage in plan.stages if stage.queries)
        read = {name for scan in plan.scans for each in scan.columns for name in columns_in(each)}
        # A column that cannot be compared counts as a difference in every group.
        read |= {
            each.name for stage in plan.stages for each in stage.measures if not each.comparable
        }
        there = {column.name: None for scan in plan.scans for column in scan.schema.columns}
        self.not_compared = tuple(name for name in there if name not in read)

    def stage_started(self, stage: str) -> None:
        self._report(f"stage {stage}")

    def extraction_started(self, index: int, kind: str, stage: str | None = None) -> None:  # noqa: ARG002  the signature of the port
        self._pace.begin()
        self._report(f"reading {self._sources[index]}{_again(stage)}")

    def extraction_progressed(self, index: int, rows: int, stage: str | None = None) -> None:
        what = f"reading {self._sources[index]}{_again(stage)}"
        total = None if stage is not None else self._promised[index]
        if not self._drawn(what, rows, total):
            self._report_rows(f"{what}: {counted(rows, 'row')}")

    def extraction_completed(self, index: int, rows: int, stage: str | None = None) -> None:
        if stage is None:
            self._read[index] = rows
        text = f"read {self._sources[index]}{_again(stage)}: {counted(rows, 'row')}"
        self._report(text, stays=True)

    def extraction_errored(self, index: int, error: Exception, stage: str | None = None) -> None:
        """Show nothing, because the error is printed when the command ends."""

    def comparison_started(self, stage: str, sources: int) -> None:
        self._pace.begin()
        self._report(f"comparing {counted(sources, 'source')} in {stage}")

    def waiting(self, stage: str, groups: int, length: timedelta) -> None:
        seconds = f"{length.total_seconds():g} s"
        self._report(f"{counted(groups, 'group')} of {stage} differ, rechecking in {seconds}")

    def rows_processed(self, stage: str, rows: int, mismatches: int) -> None:  # noqa: ARG002  the signature of the port
        total = None if stage in self._stages_with_queries else sum(self._read.values())
        if not self._drawn(stage, rows, total, then="comparing"):
            self._report_rows(f"{stage}: {counted(rows, 'row')} compared")

    def comparison_completed(self, payload: ComparisonPayload) -> None:
        self._report(f"{payload['stage_name']}: {payload['result']}", stays=True)

    def comparison_errored(self, stage: str, error: Exception) -> None:
        """Show nothing, because the error is printed when the command ends."""

    def stage_completed(self, payload: ComparisonPayload) -> None:
        """Show nothing, because the stage was reported with its comparison."""

    def stage_errored(self, stage: str, error: Exception) -> None:
        """Show nothing, because the error is printed when the command ends."""

    def say(self, text: str) -> None:
        """Show the start of a step."""
        self._report(text)

    def print_line(self, text: str) -> None:
        """Print a line that stays."""
        self._screen.say(cell(text))

    def done(self) -> None:
        """Clear the moving line before other output."""
        self._screen.clear()

    def _report(self, text: str, *, stays: bool = False) -> None:
        self._line_at = self._clock.monotonic()
        if (stays and self._verbose) or not self._screen.moves:
            self._screen.say(cell(text))
        else:
            self._screen.draw(cell(text))

    def _report_rows(self, text: str) -> None:
        """Show the number of rows: often in a moving line, else every ten seconds."""
        if self._screen.moves or self._clock.monotonic() - self._line_at >= LINE_EVERY_S:
            self._report(text)

    def _drawn(self, what: str, rows: int, total: int | None, *, then: str = "") -> bool:
        """Whether the moving line is a bar."""
        rate, width = self._pace.rate(rows), self._screen.width
        if self._bar is None or self._pace.lasts_s < BAR_AFTER_S or width < _NARROWEST:
            return False
        shown = Shown(what=what, rows=rows, total=total or None, rate=rate, then=then)
        self._screen.move(self._bar.line(shown, width))
        return True


class _Pace:
    """Measures the speed of one read or stage."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        self._began = self._at = self._clock.monotonic()
        self._rows = 0

    @property
    def lasts_s(self) -> float:
        return self._at - self._began

    def rate(self, rows: int) -> float:
        """Rows per second since the previous call."""
        now = self._clock.monotonic()
        took, more = now - self._at, rows - self._rows
        self._at, self._rows = now, rows
        return more / took if took > 0 else 0.0


def _again(stage: str | None) -> str:
    return "" if stage is None else f" again for {stage}"
