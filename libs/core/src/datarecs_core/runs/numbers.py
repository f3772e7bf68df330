"""Whether the counts of a comparison or stage agree with each other; a verdict depends on them.

The rules are guaranteed to readers of the events, so a payload that breaks one is never written:
the run ends UNKNOWN / INCONSISTENT_COUNTS instead. Separate from the engines, whose counts it
checks.
"""

from collections.abc import Iterator, Sequence

from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.events import RunComparisonCompleted, RunStageCompleted, ToleranceCount
from datarecs_core.runs.model import RunResult


class InconsistentCountsError(DatarecsError):
    """The numbers of a stage contradict each other; the run must end without a verdict."""

    code = RunDetail.INCONSISTENT_COUNTS

    def __init__(self, *, stage: str | None, broken: Sequence[str]) -> None:
        super().__init__(f"counts of stage {stage or '?'} contradict each other: {broken[0]}")
        self.stage, self.broken = stage, tuple(broken)


def check_numbers(event: RunComparisonCompleted | RunStageCompleted) -> None:
    """Return if every rule holds.

    Raises:
        InconsistentCountsError: names the broken rules.
    """
    broken = inconsistencies(event)
    if broken:
        raise InconsistentCountsError(stage=event.stage_name, broken=broken)


def inconsistencies(event: RunComparisonCompleted | RunStageCompleted) -> tuple[str, ...]:
    """The rules that the numbers break, in words; empty when they agree."""
    if isinstance(event, RunStageCompleted):
        return (*_of_tolerances(event.tolerances, None), *_of_stage_result(event))
    matched = event.join_stats.matched_groups
    return (
        *_of_union(event),
        *_of_sources(event),
        *_of_tolerances(event.tolerances, matched),
        *_of_rows_matched(event),
        *_of_result(event),
    )


def _of_union(event: RunComparisonCompleted) -> Iterator[str]:
    union, matched = event.rows_compared, event.join_stats.matched_groups
    unmatched, counts = union - matched, event.join_stats.unmatched_by_source.values()
    if union != event.rows_matched + event.rows_unmatched:
        yield "rows_compared is not rows_matched + rows_unmatched"
    if not max(counts, default=0) <= unmatched <= sum(counts):
        yield "rows_compared - matched_groups is not between unmatched_by_source and its sum"
    if len(counts) == 2 and unmatched != sum(counts):  # noqa: PLR2004 - the case of two sources
        yield "with two sources, unmatched_by_source does not add up to the unmatched groups"
    if event.unmatched_groups not in {None, unmatched}:
        yield "unmatched_groups is not rows_compared - matched_groups"


def _of_sources(event: RunComparisonCompleted) -> Iterator[str]:
    rows, stats = event.source_row_counts, event.join_stats
    missing = event.missing_by_source
    if set(rows) != set(stats.unmatched_by_source):
        yield "source_row_counts and unmatched_by_source name different sources"
        return
    for source, unmatched in stats.unmatched_by_source.items():
        held = stats.matched_groups + unmatched
        # A grand total is one group that no row makes up, so a lone group needs no row.
        if held > max(rows[source], int(event.rows_compared == 1)):
            yield f"{source} has more groups than rows"
        if missing is not None and held + missing.get(source, 0) != event.rows_compared:
            yield f"groups present and missing in {source} do not add up to rows_compared"


def _of_tolerances(items: Sequence[ToleranceCount], matched: int | None) -> Iterator[str]:
    for item in items:
        total = item.within_tolerance_count + item.outside_tolerance_count
        matched = total if matched is None else matched
        if total != matched:
            yield f"within and outside of {item.measure_name} are not the matched groups"
        if item.passed is not (item.outside_tolerance_count == 0):
            yield f"passed of {item.measure_name} contradicts the count of groups outside"


def _of_rows_matched(event: RunComparisonCompleted) -> Iterator[str]:
    outside = {item.measure_name: item.outside_tolerance_count for item in event.tolerances}
    matched = event.join_stats.matched_groups
    if event.rows_matched > matched - max(outside.values(), default=0):
        yield "rows_matched counts groups with a measure outside its tolerance"
    cut = event.tolerances_truncated is True
    if not cut and event.rows_matched < matched - sum(outside.values()):
        yield "rows_matched leaves out groups with every measure within its tolerance"


def _of_result(event: RunComparisonCompleted) -> Iterator[str]:
    agrees = not any(event.join_stats.unmatched_by_source.values()) and all(
        item.passed for item in event.tolerances
    )
    if agrees is not (event.result is RunResult.MATCHED):
        yield "result does not follow from unmatched groups and tolerances"


def _of_stage_result(event: RunStageCompleted) -> Iterator[str]:
    if event.result is RunResult.MATCHED and not all(item.passed for item in event.tolerances):
        yield "result is MATCHED although a tolerance did not pass"
