import pytest

from datarecs_core.comparison.planning.plan import StrategyChoice
from datarecs_core.comparison.planning.strategies import FEWEST_ROWS
from datarecs_core.jobs.vocabulary import Strategy
from datarecs_kernel.stages import saving_of


@pytest.mark.parametrize(
    ("chosen", "requested", "fewest_rows"),
    [
        (Strategy.NARROW, Strategy.AUTO, FEWEST_ROWS),
        (Strategy.NARROW, Strategy.NARROW, 0),
        (Strategy.FULL, Strategy.AUTO, None),
        (Strategy.FULL, Strategy.NARROW, None),
    ],
)
def test_a_job_that_forces_narrow_has_a_first_reading_of_few_rows_too(
    chosen: Strategy, requested: Strategy, fewest_rows: int | None
) -> None:
    saving = saving_of(StrategyChoice(chosen=chosen, requested=requested), ())
    assert (None if saving is None else saving.fewest_rows) == fewest_rows
