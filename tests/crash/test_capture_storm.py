"""A short storm over a capture; `make crash` runs the long one."""

import pytest

from datarecs_testing.builders import A_TENANT
from datarecs_testing.crashes.capture_storm import CaptureStorm, StormPlan, shown, write_line
from datarecs_testing.crashes.serving import temporary_database

pytestmark = [pytest.mark.integration, pytest.mark.crash, pytest.mark.slow]


def test_every_file_is_recorded_once_while_everything_is_killed() -> None:
    plan = StormPlan(tables=3, groups_by_table=12, seed=1, limit_s=240)
    with temporary_database() as (folder, server, database):
        database.add_tenant("a", A_TENANT)
        assert server.process is not None
        house = folder / "captures"
        house.mkdir()
        report = CaptureStorm(house, database, server.process, plan, write_line).run()
    assert report.is_clean, shown(report)
    assert report.kills.total() >= 3
    assert report.ledger.counts["file groups"] == 36
