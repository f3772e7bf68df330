"""Hints of a stage from its stored differences, in the form of run.json.

Core has the rules; this module reads the files. `compare`, the worker and `explain` share it, so
that they read the same rows.
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
    """The hints from the stored differences of a stage, best first.

    Args:
        run: the run of the stage.
        stage: an executed stage.
        parts: Parquet files of its differences.

    Raises:
        DifferencesUnreadableError: a file is damaged or not a difference file.
    """
    return hints(smallest_breaks(parts, stage, most=MAX_BREAKS), hint_stage(run, stage))


def hints_document(
    run: SealedRun, parts_of: Callable[[SealedStage], Iterable[Path]]
) -> dict[str, JsonValue]:
    """The hints of every executed stage with any, by the stage's name."""
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
