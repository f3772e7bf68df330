"""Compare one stage, or a part of its groups, from relations to numbers; called by all feeders."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from datarecs_core.comparison.planning.plan import StrategyChoice
from datarecs_core.comparison.planning.strategies import FEWEST_ROWS
from datarecs_core.comparison.values.unreadable import MeasureFaults
from datarecs_core.jobs.vocabulary import Strategy
from datarecs_core.values import EXACT
from datarecs_kernel.counted import Counted, read_counted
from datarecs_kernel.database import Connection
from datarecs_kernel.first_reading import Saving
from datarecs_kernel.groups import compare_groups
from datarecs_kernel.rows import compare_rows
from datarecs_kernel.settling import SinkPlan, settle
from datarecs_kernel.tallies import SourceTally, tally


def _ignore(_rows: int) -> None:
    """Default without progress reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try at the groups of some relations."""

    name: str
    """Part of the names of the written files."""
    is_whole: bool = True
    """Whether these are all groups of the stage; else `settle` chooses the stored rows after all
    groups are counted."""
    on_rows: Callable[[int], None] = _ignore
    """Called with numbers of rows read; each row is reported twice in total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageAnswer:
    """The counts of the kernel; differences wait for `settle` in the files that `counted` names."""

    counted: Counted
    tallies: tuple[SourceTally, ...]
    """Per source."""

    def add(self, other: "StageAnswer") -> None:
        """Add the numbers of other groups of the same stage."""
        self.counted.add(other.counted)
        for mine, its in zip(self.tallies, other.tallies, strict=True):
            _add_tally(mine, its)

    def written(self) -> str:
        """The answer as JSON, without the number of rows before conditions."""
        return json.dumps([self.counted.written(), [_tally_values(each) for each in self.tallies]])


def compare_stage(
    connection: Connection,
    plan: SinkPlan,
    relations: Sequence[str],
    attempt: Attempt,
) -> StageAnswer:
    """Compare the groups of these relations; strategy `narrow` has an additional first reading.

    Args:
        connection: with the relations.
        plan: of the stage.
        relations: one per source, in the columns of the layout's rows; with complete groups.
        attempt: the settings of this attempt.

    Raises:
        duckdb.Error: a relation cannot be read, or memory or disk is full.
    """
    layout = plan.layout
    tallies = []
    for index, relation in enumerate(relations):
        tallies.append(tally(connection, layout, index, relation))
        attempt.on_rows(tallies[-1].passed)
    if layout.pairs_rows:
        saving = saving_of(layout.stage.strategy, tallies)
        counted = compare_rows(connection, plan, relations, attempt.name, saving)
    else:
        counted = compare_groups(connection, plan, relations, attempt.name)
    attempt.on_rows(sum(each.passed for each in tallies))
    if attempt.is_whole:
        counted = settle(plan, counted, connection)
    return StageAnswer(counted=counted, tallies=tuple(tallies))


def saving_of(strategy: StrategyChoice, tallies: Sequence[SourceTally]) -> Saving | None:
    """None if every row is compared at once; a job that declares `narrow` uses it for any size."""
    if strategy.chosen is not Strategy.NARROW:
        return None
    is_forced = strategy.requested is Strategy.NARROW
    return Saving(tallies=tallies, fewest_rows=0 if is_forced else FEWEST_ROWS)


def read_answer(written: str) -> StageAnswer:
    """Read the output of `StageAnswer.written`."""
    counted, tallies = json.loads(written)
    return StageAnswer(
        counted=read_counted(counted, len(tallies)),
        tallies=tuple(_tally_of(*each) for each in tallies),
    )


def _tally_values(tally: SourceTally) -> list[object]:
    totals = [[at, str(total)] for at, total in tally.totals.items()]
    faults = [
        [
            at,
            each.unreadable,
            each.not_finite,
            None if each.smallest is None else each.smallest.hex(),
        ]
        for at, each in tally.faults.items()
    ]
    return [tally.passed, tally.null_keys, tally.invalid, tally.ambiguous, totals, faults]


def _tally_of(
    passed: int,
    null_keys: int,
    invalid: int,
    ambiguous: int,
    *measures: Sequence[Sequence[object]],
) -> SourceTally:
    totals, faults = measures
    return SourceTally(
        extracted=passed,
        passed=passed,
        null_keys=null_keys,
        invalid=invalid,
        ambiguous=ambiguous,
        totals={int(str(at)): Decimal(str(total)) for at, total in totals},
        faults={
            int(str(at)): MeasureFaults(
                unreadable=int(str(unreadable)),
                not_finite=int(str(not_finite)),
                smallest=None if smallest is None else bytes.fromhex(str(smallest)),
            )
            for at, unreadable, not_finite, smallest in faults
        },
    )


def _add_tally(mine: SourceTally, its: SourceTally) -> None:
    mine.extracted += its.extracted
    mine.passed += its.passed
    mine.null_keys += its.null_keys
    mine.invalid += its.invalid
    mine.ambiguous += its.ambiguous
    for measure, total in its.totals.items():
        mine.totals[measure] = EXACT.add(mine.totals.get(measure, Decimal(0)), total)
    for measure, faults in its.faults.items():
        mine.faults.setdefault(measure, MeasureFaults()).add(faults)
