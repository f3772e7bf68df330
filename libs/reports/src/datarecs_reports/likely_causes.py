"""Hints of a stage from its stored differences, as they stand in a run.json.

Apart from the rules, which are core's, because here files are read; `compare`, the worker and
`explain` look at the same rows by this one way.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

from datarecs_core.comparison.insight.hint_stage import hint_stage
from datarecs_core.comparison.insight.hints import MAX_BREAKS, Hint, hints
from datarecs_core.comparison.proof.sealed import SealedRun, SealedStage
from datarecs_core.documents import to_document
from datarecs_core.hashing import JsonValue
from datarecs_reports.stored_rows import smallest_breaks


def stage_hints(run: SealedRun, stage: SealedStage, parts: Iterable[Path]) -> tuple[Hint, ...]:
    """What the stored differences of a stage suggest, the most telling first.

    Args:
        run: that has the stage.
        stage: executed.
        parts: Parquet files of its differences.

    Raises:
        DifferencesUnreadableError: a file that is damaged or none of ours.
    """
    return hints(smallest_breaks(parts, stage, most=MAX_BREAKS), hint_stage(run, stage))


def hints_document(
    run: SealedRun, parts_of: Callable[[SealedStage], Iterable[Path]]
) -> dict[str, JsonValue]:
    """The hints of every executed stage that has any, by the stage's name."""
    hints_by_stage = {
        stage.name: stage_hints(run, stage, parts_of(stage))
        for stage in run.stages
        if stage.results is not None and stage.results.differences.rows
    }
    return {
        name: cast("JsonValue", [to_document(each) for each in stage_causes])
        for name, stage_causes in hints_by_stage.items()
        if stage_causes
    }
