"""Types and files that are rarely alike: Spark returns the declared answer of each case."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from datarecs_application.comparison import Answer
from datarecs_application.ports.comparing import Connector
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.faults import PlanRefusedError
from datarecs_core.comparison.results.results import Difference
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import Strategy
from datarecs_kernel.stored import read_differences
from datarecs_testing.odd_types.case import OddCase, differences_of, job_of_case, write_files
from datarecs_testing.odd_types.table import cases
from datarecs_testing.tables import NOON

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_spark_answers_what_a_case_says(
    by: Callable[..., Answer], tmp_path: Path, case: OddCase
) -> None:
    write_files(case, tmp_path)

    def opened(source: Source) -> Connector:
        policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
        around = Surroundings(roots=(tmp_path,), policy=policy, now=lambda: NOON, any_path=True)
        return open_connector(source, None, {}, surroundings=around)

    if case.refused is not None:
        with pytest.raises(PlanRefusedError, match=case.refused):
            by(Strategy.AUTO, job_of_case(case), opened)
        return
    result = by(Strategy.AUTO, job_of_case(case), opened)

    def stored(stage: str) -> Sequence[Difference]:
        (only,) = (each for each in result.outcome.stages if each.plan.name == stage)
        assert only.results is not None
        return list(read_differences(Path(only.results.differences.location or "")))

    assert differences_of(result, stored) == case.differences
    assert result.outcome.verdict is case.verdict
