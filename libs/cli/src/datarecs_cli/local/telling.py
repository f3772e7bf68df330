"""What is told while a local comparison works: one moving line on a terminal, more under -v."""

from collections.abc import Mapping
from datetime import timedelta

from datarecs_cli.invocation import Invocation
from datarecs_cli.output import cell
from datarecs_cli.screen import Screen
from datarecs_core.comparison.payload import ComparisonPayload
from datarecs_core.comparison.plan import ComparisonPlan
from datarecs_core.comparison.scan import Pin
from datarecs_reports.figures import counted


class LocalTold:
    """The Told of `answer` over a terminal; keeps the columns that nobody compares."""

    def __init__(self, screen: Screen, invocation: Invocation) -> None:
        self._screen, self._verbose = screen, invocation.verbose > 0
        self._sources: tuple[str, ...] = ()
        self.not_compared: tuple[str, ...] = ()
        """Columns that some source has and no stage looks at."""

    def pinned(self, pins: Mapping[str, Pin], plan: ComparisonPlan) -> None:  # noqa: ARG002  the port's form
        self._sources = tuple(scan.source for scan in plan.scans)
        read = {column.physical for scan in plan.scans for column in scan.columns}
        there = {column.name: None for scan in plan.scans for column in scan.schema.columns}
        self.not_compared = tuple(name for name in there if name not in read)

    def stage_started(self, stage: str) -> None:
        self._tell(f"stage {stage}")

    def extraction_started(self, index: int, kind: str, stage: str | None = None) -> None:  # noqa: ARG002  the port's form
        self._tell(f"reading {self._sources[index]}{_again(stage)}")

    def extraction_completed(self, index: int, rows: int, stage: str | None = None) -> None:
        told = f"read {self._sources[index]}{_again(stage)}: {counted(rows, 'row')}"
        self._tell(told, stays=True)

    def extraction_errored(self, index: int, error: Exception, stage: str | None = None) -> None:
        """The error itself is shown when the command ends."""

    def comparison_started(self, stage: str, sources: int) -> None:
        self._tell(f"comparing {counted(sources, 'source')} in {stage}")

    def waiting(self, stage: str, groups: int, length: timedelta) -> None:
        seconds = f"{length.total_seconds():g} s"
        self._tell(f"{counted(groups, 'group')} of {stage} differ, looking again in {seconds}")

    def rows_processed(self, stage: str, rows: int, mismatches: int) -> None:  # noqa: ARG002  the port's form
        self._tell(f"{stage}: {counted(rows, 'row')} compared")

    def comparison_completed(self, payload: ComparisonPayload) -> None:
        self._tell(f"{payload['stage_name']}: {payload['result']}", stays=True)

    def comparison_errored(self, stage: str, error: Exception) -> None:
        """The error itself is shown when the command ends."""

    def stage_completed(self, payload: ComparisonPayload) -> None:
        """Told when its comparison was completed."""

    def stage_errored(self, stage: str, error: Exception) -> None:
        """The error itself is shown when the command ends."""

    def say(self, text: str) -> None:
        """A line that moves on a terminal and is not repeated elsewhere."""
        self._tell(text)

    def done(self) -> None:
        """Take the moving line away, before anything else is printed."""
        self._screen.clear()

    def _tell(self, text: str, *, stays: bool = False) -> None:
        if stays and self._verbose:
            self._screen.say(cell(text))
        else:
            self._screen.draw(cell(text))


def _again(stage: str | None) -> str:
    return "" if stage is None else f" again for {stage}"
