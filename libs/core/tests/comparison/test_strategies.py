from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import FileList, PinnedFile
from datarecs_core.comparison.planning.strategies import (
    FEWEST_ROWS,
    strategy_of,
    with_rows_read_again,
)
from datarecs_core.jobs.definition import (
    ALL_COLUMNS,
    Confirm,
    Execution,
    Normalize,
    NullRules,
    NumberRules,
    Scope,
    Stage,
    StringRules,
)
from datarecs_core.jobs.types import INT
from datarecs_core.jobs.vocabulary import (
    DuplicatePolicy,
    Function,
    NanRule,
    NullKeys,
    ProofMode,
    StageType,
    Strategy,
    Trim,
)
from datarecs_testing.comparisons import a_measure, aggregate_by, counting, digest_by, rows_by
from datarecs_testing.tables import NOON, a_job, a_table, plan_of

BY_VALUE = rows_by("k", a_measure("v"))
WHOLE_ROWS = Stage(name="stage", type=StageType.ROW, dimensions=(), measures=ALL_COLUMNS)
NARROW = Execution(strategy=Strategy.NARROW)
NOT_BY_ROW = "only row stages that compare row by row are narrowed"


def stage_of(
    columns: str = "k int, v int",
    other: str | None = None,
    *,
    stage: Stage = BY_VALUE,
    **fields: Any,  # noqa: ANN401 - any field of the job
) -> StagePlan:
    """The last stage over two sources of these columns, which have no rows."""
    tables = [a_table("one", columns), a_table("two", other or columns)]
    stages = fields.pop("stages", (stage,))
    return plan_of(a_job(tables, *stages, **fields), tables).stages[-1]


def reason(plan: StagePlan) -> str | None:
    """Why the stage is not narrowed."""
    assert (plan.strategy.chosen is Strategy.NARROW) == (
        Strategy.NARROW not in dict(plan.strategy.rejected)
    )
    return dict(plan.strategy.rejected).get(Strategy.NARROW)


def with_rows(plan: StagePlan, rows: Sequence[int | None], *, pinned: bool) -> StagePlan:
    """Each source with as many rows: in a pinned file, or by its statistics alone."""
    scans = tuple(
        replace(
            scan,
            pin=FileList(root="", files=files_of(count) if pinned else (), taken_at=NOON),
            schema=replace(scan.schema, estimated_rows=None if pinned else count),
        )
        for scan, count in zip(plan.scans, rows, strict=True)
    )
    return replace(plan, scans=scans)


def files_of(rows: int | None) -> tuple[PinnedFile, ...]:
    return (PinnedFile(path="part.parquet", size_bytes=1, rows=rows),)


@pytest.mark.parametrize(
    ("columns", "other", "fields"),
    [
        ("k int, v int", "k int, v decimal(10,2)", {}),
        ("k float32, v json", "k float64, v json", {}),
        ("k int, v instant(9)", "k int, v instant", {}),
        ("k array<int>, v interval", None, {}),
        ("k int, v int", "k int, v text", {"sources": {"two": {"cast": {"v": INT}}}}),
        ("k int, v decimal(38,0)", None, {"stage": replace(BY_VALUE, where="v = 0.5")}),
        ("k int, v decimal(38,0)", None, {"sources": {"two": {"filter": "v = 0.5"}}}),
        ("k text, v int", None, {"normalize": Normalize(strings=StringRules(trim=Trim.BOTH))}),
        ("k int, v float64", None, {"normalize": Normalize(numbers=NumberRules(round=0))}),
        (
            "k int, v float64",
            None,
            {"normalize": Normalize(numbers=NumberRules(nan=NanRule.UNEQUAL))},
        ),
        ("k int, v int", None, {"normalize": Normalize(nulls=NullRules(keys=NullKeys.EXCLUDE))}),
        ("k int, v int", None, {"normalize": Normalize(nulls=NullRules(keys=NullKeys.REJECT))}),
        ("k int, v int", None, {"duplicates": DuplicatePolicy.ERROR}),
        ("k int, v int", None, {"execution": replace(NARROW, proof=ProofMode.ROWS)}),
        ("k int, v int", None, {"stage": WHOLE_ROWS}),
        ("k int, v int", None, {"stage": replace(BY_VALUE, confirm=Confirm(after=timedelta()))}),
        (
            "k int, v int",
            None,
            {
                "stages": (
                    replace(BY_VALUE, name="first"),
                    rows_by("k", scope=Scope(from_stage="first")),
                )
            },
        ),
    ],
)
def test_no_type_rule_policy_or_condition_prevents_rows_from_being_narrowed(
    columns: str, other: str | None, fields: Mapping[str, Any]
) -> None:
    plan = stage_of(columns, other, **{"execution": NARROW, **fields})
    assert reason(plan) is None


@pytest.mark.parametrize(
    ("stage", "fields"),
    [
        (counting(), {}),
        (aggregate_by("k", a_measure("v", function=Function.SUM)), {}),
        (digest_by("k"), {}),
        (Stage(name="stage", type=StageType.SCHEMA), {}),
        (
            rows_by("k", a_measure("v", function=Function.SUM)),
            {"duplicates": DuplicatePolicy.AGGREGATE},
        ),
    ],
)
def test_stages_that_do_not_pair_rows_are_compared_in_full(
    stage: Stage, fields: Mapping[str, Any]
) -> None:
    plan = stage_of(stage=stage, execution=NARROW, **fields)
    assert (plan.strategy.chosen, plan.strategy.requested) == (Strategy.FULL, Strategy.NARROW)
    assert reason(plan) == NOT_BY_ROW


def test_a_column_that_makes_every_group_differ_leaves_nothing_to_narrow() -> None:
    stage = replace(rows_by("k"), measures=ALL_COLUMNS)
    plan = stage_of("k int, v int, w int", "k int, v int", stage=stage, execution=NARROW)
    assert reason(plan) == "w is not comparable, so every group differs"


@pytest.mark.parametrize("requested", [Strategy.FULL, Strategy.FINGERPRINT, Strategy.PUSHDOWN])
def test_another_requested_strategy_is_the_reason(requested: Strategy) -> None:
    plan = stage_of(execution=Execution(strategy=requested))
    assert (plan.strategy.chosen, plan.strategy.requested) == (Strategy.FULL, requested)
    assert reason(plan) == f"`execution.strategy` is {requested}"


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        ((FEWEST_ROWS // 2, FEWEST_ROWS // 2), Strategy.NARROW),
        ((FEWEST_ROWS // 2, FEWEST_ROWS // 2 - 1), Strategy.FULL),
        ((1, None), Strategy.NARROW),
        ((0, 0), Strategy.FULL),
    ],
)
def test_auto_narrows_unless_all_sources_together_are_known_to_be_small(
    rows: tuple[int | None, int | None], chosen: Strategy, *, pinned: bool
) -> None:
    choice = strategy_of(with_rows(stage_of(), rows, pinned=pinned), Strategy.AUTO)
    assert choice.chosen is chosen
    assert dict(choice.rejected).get(Strategy.NARROW) == (
        "fewer than 100,000 rows are expected" if chosen is Strategy.FULL else None
    )


def test_rows_that_were_read_again_are_compared_in_full() -> None:
    plan = stage_of(stage=replace(BY_VALUE, confirm=Confirm(after=timedelta())), execution=NARROW)
    again = with_rows_read_again(with_rows_read_again(plan, plan.scans), plan.scans)
    assert again.rechecks == (plan.scans, plan.scans)
    assert reason(again) == "after rows were read again, all rows are compared at once"
    others = {name: why for name, why in again.strategy.rejected if name is not Strategy.NARROW}
    assert others == dict(plan.strategy.rejected)
    full = stage_of()
    assert with_rows_read_again(full, full.scans).strategy == full.strategy
