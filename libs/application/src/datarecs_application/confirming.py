"""Recheck differing groups after a wait: rows in flight have arrived, breaks remain.

Every recheck pins all sources again, so that it is one cut, and reads the groups that still
differ. A separate module because only stages with `confirm` wait; the caller passes the
functions that read and compare.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from datarecs_core.comparison.planning.plan import StagePlan, Warn
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.comparison.planning.strategies import with_rows_read_again
from datarecs_core.comparison.results.results import Confirmed, Recheck, StageResults
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail


class StoppedWhileWaitingError(DatarecsError):
    """A stop of the run was requested before it rechecked."""

    code = RunDetail.STOPPED

    def __init__(self) -> None:
        super().__init__("the comparison was stopped on request before it read groups again")


@dataclass(frozen=True, slots=True)
class RecheckRefused:
    """A source cannot be read again as it was read before."""

    reason: str


class Again(Protocol):
    """What a recheck takes."""

    def wait(self, stage: StagePlan, groups: int, length: timedelta) -> bool:
        """Wait for rows in flight, while so many groups differ.

        True when the run is to stop instead.
        """

    def recheck(self, stage: StagePlan) -> tuple[Scan, ...] | RecheckRefused:
        """Pin every source again and read the groups that differed in the stage's latest pass.

        The scan of a source that has not changed stays.
        """


def confirmed(
    stage: StagePlan,
    first: StageResults,
    *,
    compare: Callable[[StagePlan], StageResults],
    again: Again,
) -> StageResults:
    """The results once differing groups were read again, up to the attempts of `confirm`.

    Args:
        stage: without rechecks.
        first: its results.
        compare: another pass of the stage, with its rechecks.
        again: waits and reads.

    Raises:
        StoppedWhileWaitingError: the run is stopped while it waits.
    """
    limits = stage.confirm
    if limits is None or not first.counts.rows_unmatched:
        return first
    if first.counts.rows_unmatched > limits.max_keys:
        differ = f"{first.counts.rows_unmatched} groups differ, confirm.max_keys is"
        return _skipped(stage, first, f"{differ} {limits.max_keys}: none was read again")
    results, rechecks = first, list[Recheck]()
    while results.counts.rows_unmatched and len(rechecks) < limits.attempts:
        if again.wait(stage, results.counts.rows_unmatched, limits.after):
            raise StoppedWhileWaitingError
        scans = again.recheck(stage)
        if isinstance(scans, RecheckRefused):
            results = _skipped(stage, results, scans.reason)
            break
        moved = scans != (stage.rechecks[-1] if stage.rechecks else stage.scans)
        if moved:
            stage = with_rows_read_again(stage, scans)
            results = compare(stage)
        rechecks.append(Recheck(pins=tuple(scan.pin for scan in scans), counts=results.counts))
    if not rechecks:
        return results
    return replace(results, confirmed=Confirmed(first=first.counts, rechecks=tuple(rechecks)))


def _skipped(stage: StagePlan, results: StageResults, reason: str) -> StageResults:
    warning = Warn(code="CONFIRM_SKIPPED", message=reason, stage=stage.name)
    return replace(results, warnings=(*results.warnings, warning))
