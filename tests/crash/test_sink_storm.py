"""A short storm over a sink; `make soak` runs the long one."""

import pytest

from datarecs_testing.crashes.sink_storm import StormPlan, shown
from tests.crash.sinks import storm

pytestmark = [pytest.mark.integration, pytest.mark.crash, pytest.mark.slow]


@pytest.mark.case("I03", "I05", "I73")
def test_no_record_is_lost_or_doubled_while_everything_is_killed() -> None:
    report, _ = storm(StormPlan(kills=20, records=10_000, seed=1))
    assert report.is_clean, shown(report)
    assert report.kills.total() == 20
