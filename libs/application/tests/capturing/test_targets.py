from dataclasses import replace
from uuid import UUID

import pytest

from datarecs_application.capturing.targets import Produced, TableFigures, table_targets
from datarecs_core.captures.plan import SnapshotPlan
from datarecs_core.captures.request import CapturePolicy, ObjectName, Output
from datarecs_core.captures.source_facts import Completion
from datarecs_core.catalog.records import Completeness, Producer, ScalarStats
from datarecs_testing.captured_files import CAPTURED_AT

PLAN = SnapshotPlan(
    table_id=UUID(int=1),
    snapshot_id=1,
    native_id="n",
    object=ObjectName(namespace=("default",), name="orders"),
    generation="g",
    completion=Completion.FILE_GROUPS,
    policy=CapturePolicy(outputs=(Output.COLUMN_STATS,)),
    columns=("id",),
    files=(),
    reused=(),
    groups=(),
)
WHOLE = ScalarStats(
    name="id", type="int", rows=2, nulls=0, ndv="1", min="1", max="1", average_width="8"
)


@pytest.mark.parametrize(
    ("column", "of_all", "expected"),
    [
        (WHOLE, Completeness.COMPLETE, Completeness.COMPLETE),
        (WHOLE, Completeness.PARTIAL, Completeness.COMPLETE),
        (replace(WHOLE, min=None), Completeness.PARTIAL, Completeness.PARTIAL),
        (ScalarStats(name="id", type="int", rows=2), Completeness.COMPLETE, Completeness.PARTIAL),
    ],
    ids=["complete", "beside another one", "without a bound", "without a common figure"],
)
def test_a_column_is_complete_with_all_its_figures(
    column: ScalarStats, of_all: Completeness, expected: Completeness
) -> None:
    produced = Produced(
        table_id=PLAN.table_id,
        snapshot_id=1,
        producer=Producer.ENGINE_COMPUTED,
        completeness=of_all,
        captured_at=CAPTURED_AT,
    )
    figures = TableFigures(rows=2, size_bytes=1, files=1, columns=[column])
    (target,) = table_targets(PLAN, produced, {"id": 1}, figures)
    assert target.completeness is expected
