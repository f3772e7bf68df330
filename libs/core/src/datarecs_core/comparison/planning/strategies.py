"""Which strategy a stage gets: every engine returns the same numbers with each of them.

`narrow` reads a row stage once before it is compared, so that rows which are equal everywhere are
not joined; whether that pays is decided here by the kind of stage and by its expected size. `full`
compares every row at once. `pushdown` has separate rules, in the module of that name.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from datarecs_core.comparison.planning.plan import StagePlan, StrategyChoice
from datarecs_core.comparison.planning.pushdown import Pushing, pushing_of
from datarecs_core.comparison.planning.scan import FileList, Scan
from datarecs_core.jobs.vocabulary import Strategy

FEWEST_ROWS = 100_000
"""Of all sources together; below it a first reading takes longer than it saves."""
_NOT_BY_ROW = "only row stages that compare row by row are narrowed"
_GROUPS = "a database returns groups already"
_NOT_YET = ((Strategy.FINGERPRINT, "no stored fingerprints exist in this release"),)


def with_strategies(stages: Sequence[StagePlan], requested: Strategy) -> tuple[StagePlan, ...]:
    """Every stage with what is read from its sources, and how it is compared.

    A forced strategy that is impossible becomes `full`, never an error.
    """
    return tuple(
        _with_strategy(stage, pushing, requested)
        for stage, pushing in zip(stages, pushing_of(stages, requested), strict=True)
    )


def with_rows_read_again(stage: StagePlan, scans: tuple[Scan, ...]) -> StagePlan:
    """The stage with the rows of one more recheck, all of which are compared at once."""
    stage = replace(stage, rechecks=(*stage.rechecks, scans))
    if stage.strategy.chosen is not Strategy.NARROW:
        return stage
    choice = strategy_of(stage, stage.strategy.requested)
    pushdown = [each for each in stage.strategy.rejected if each[0] is Strategy.PUSHDOWN]
    return replace(stage, strategy=replace(choice, rejected=(*choice.rejected, *pushdown)))


def strategy_of(stage: StagePlan, requested: Strategy) -> StrategyChoice:
    """`narrow` or `full` for a stage with known scans; `pushdown` is decided elsewhere."""
    obstacle = next(_obstacles(stage, requested), None)
    if obstacle is None:
        return StrategyChoice(chosen=Strategy.NARROW, requested=requested, rejected=_NOT_YET)
    rejected = ((Strategy.NARROW, obstacle), *_NOT_YET)
    return StrategyChoice(chosen=Strategy.FULL, requested=requested, rejected=rejected)


def _with_strategy(stage: StagePlan, pushing: Pushing, requested: Strategy) -> StagePlan:
    stage = replace(stage, groups=pushing.groups, by_keys=pushing.by_keys)
    if pushing.groups:
        reasons = () if pushing.reason is None else ((Strategy.PUSHDOWN, pushing.reason),)
        rejected = ((Strategy.NARROW, _GROUPS), *_NOT_YET, *reasons)
        choice = StrategyChoice(chosen=Strategy.PUSHDOWN, requested=requested, rejected=rejected)
        return replace(stage, strategy=choice)
    choice = strategy_of(stage, requested)
    reason = (Strategy.PUSHDOWN, pushing.reason or "")
    return replace(stage, strategy=replace(choice, rejected=(*choice.rejected, reason)))


def _obstacles(stage: StagePlan, requested: Strategy) -> Iterator[str]:
    if not stage.compares_multisets:
        yield _NOT_BY_ROW
    if requested not in {Strategy.AUTO, Strategy.NARROW}:
        yield f"`execution.strategy` is {requested}"
    for measure in stage.measures:
        if not measure.comparable:
            yield f"{measure.name} is not comparable, so every group differs"
    if stage.rechecks:
        yield "after rows were read again, all rows are compared at once"
    if requested is Strategy.AUTO and _is_small(stage):
        yield f"fewer than {FEWEST_ROWS:,} rows are expected"


def _is_small(stage: StagePlan) -> bool:
    """Known in advance; where a source has no row count, the kernel counts first."""
    rows = [_expected_rows(scan) for scan in stage.scans]
    known = [each for each in rows if each is not None]
    return len(known) == len(rows) and sum(known) < FEWEST_ROWS


def _expected_rows(scan: Scan) -> int | None:
    """From its pinned files or its statistics."""
    files = scan.pin.files if isinstance(scan.pin, FileList) else ()
    counted = [file.rows for file in files if file.rows is not None]
    if files and len(counted) == len(files):
        return sum(counted)
    return scan.schema.estimated_rows
