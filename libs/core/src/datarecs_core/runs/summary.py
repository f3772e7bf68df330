"""The few numbers of a finished run: what lists, mails and `run.finalised` show of its outcome."""

from datetime import timedelta

from datarecs_core.comparison.results.results import Verdict
from datarecs_core.comparison.results.verdict import Acceptance, RunOutcome
from datarecs_core.runs.model import RunSummary

_MILLISECOND = timedelta(milliseconds=1)


def summary_of(outcome: RunOutcome, *, duration: timedelta, report_path: str | None) -> RunSummary:
    """Row numbers are those of the executed stage that compared the most groups.

    Adding the stages up would count one key once per stage; the widest one says how much of the
    data agrees. Ties go to the later stage.
    """
    executed = [stage.results for stage in outcome.stages if stage.results is not None]
    widest = max(enumerate(executed), key=lambda pair: (pair[1].counts.rows_compared, pair[0]))[
        1
    ].counts
    matched = [stage for stage in outcome.stages if stage.verdict is Verdict.MATCHED]
    return RunSummary(
        stages_total=len(outcome.stages),
        stages_matched=len(matched),
        rows_compared=widest.rows_compared,
        rows_matched=widest.rows_matched,
        rows_unmatched=widest.rows_unmatched,
        duration_ms=duration // _MILLISECOND,
        empty=not any(any(one.counts.source_row_counts) for one in executed),
        acceptance=None
        if outcome.acceptance is Acceptance.NOT_CONFIGURED
        else outcome.acceptance.value,
        report_path=report_path,
    )
