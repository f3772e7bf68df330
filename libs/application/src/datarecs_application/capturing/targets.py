"""Statistics of tables and columns, as records of a generation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from datarecs_core.captures.plan import SnapshotPlan
from datarecs_core.captures.request import Output
from datarecs_core.captures.targets import column_target, table_target
from datarecs_core.catalog.records import Completeness, Producer, ScalarStats, TargetStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """Where figures come from."""

    table_id: UUID
    snapshot_id: int
    producer: Producer
    completeness: Completeness
    captured_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFigures:
    """Of all rows of a snapshot."""

    rows: int
    size_bytes: int | None
    files: int | None = None
    columns: Sequence[ScalarStats]


def table_targets(
    plan: SnapshotPlan,
    produced: Produced,
    field_ids: Mapping[str, int],
    figures: TableFigures,
) -> list[TargetStats]:
    """The records that the outputs of a plan request.

    Args:
        plan: of the snapshot.
        produced: by whom and how completely.
        field_ids: of columns, by name.
        figures: to be recorded.
    """
    targets = []
    if Output.TABLE_STATS in plan.policy.outputs:
        targets.append(
            TargetStats(
                table_id=produced.table_id,
                snapshot_id=produced.snapshot_id,
                target_id=table_target(),
                producer=produced.producer,
                completeness=produced.completeness,
                captured_at=produced.captured_at,
                rows=figures.rows,
                size_bytes=figures.size_bytes,
                files=figures.files,
                properties={},
            )
        )
    if Output.COLUMN_STATS in plan.policy.outputs:
        targets += [
            TargetStats(
                table_id=produced.table_id,
                snapshot_id=produced.snapshot_id,
                target_id=column_target(field_ids[one.name]),
                producer=produced.producer,
                completeness=_completeness(one, produced.completeness),
                captured_at=produced.captured_at,
                rows=figures.rows,
                scalar=one,
                properties={},
            )
            for one in figures.columns
            if one.name in field_ids
        ]
    return targets


def _completeness(column: ScalarStats, of_all: Completeness) -> Completeness:
    """Of one column: where some figure of the snapshot is missing, it may be another column's."""
    if column.nulls is None and of_all is Completeness.COMPLETE:
        return Completeness.PARTIAL  # its files have no common figure
    figures = (column.nulls, column.min, column.max, column.ndv, column.average_width)
    is_whole = None not in figures or column.nulls == column.rows
    return Completeness.COMPLETE if is_whole else of_all
