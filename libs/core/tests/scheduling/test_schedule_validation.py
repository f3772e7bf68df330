"""Rules between the fields of a schedule."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from datarecs_core.errors.faults import pointer
from datarecs_core.scheduling.schedule import Catchup, ConcurrencyPolicy, Schedule
from datarecs_core.scheduling.validation import schedule_faults

NIGHTLY = Schedule(job="orders", cron="30 2 * * *", timezone="Europe/Berlin")
QUARTERLY = Schedule(job="orders", interval=timedelta(minutes=15))
NOON = datetime(2027, 1, 1, 12, tzinfo=UTC)


def faults_of(schedule: Schedule) -> list[str]:
    return [f"{one.code.docs_id} {pointer(one.path)}" for one in schedule_faults(schedule)]


@pytest.mark.parametrize(
    "schedule",
    [
        NIGHTLY,
        QUARTERLY,
        replace(
            NIGHTLY,
            catchup=Catchup.ALL,
            concurrency_policy=ConcurrencyPolicy.ALLOW,
            max_catchup=10,
            catchup_window=timedelta(days=7),
        ),
        replace(NIGHTLY, catchup=Catchup.LATEST, catchup_window=timedelta(hours=1)),
        replace(NIGHTLY, start_at=NOON, end_at=NOON + timedelta(seconds=1)),
        replace(NIGHTLY, end_at=NOON),
    ],
)
def test_a_sound_schedule_has_no_fault(schedule: Schedule) -> None:
    assert faults_of(schedule) == []


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (replace(NIGHTLY, start_at=NOON, end_at=NOON), "DR1012 /spec/end_at"),
        (replace(NIGHTLY, max_catchup=6), "DR1009 /spec/max_catchup"),
        (
            replace(NIGHTLY, catchup=Catchup.NONE, catchup_window=timedelta(hours=1)),
            "DR1009 /spec/catchup_window",
        ),
        (replace(QUARTERLY, timezone="Europe/Berlin"), "DR1009 /spec/timezone"),
        (replace(NIGHTLY, catchup=Catchup.ALL), "DR1009 /spec/catchup"),
        (
            replace(NIGHTLY, catchup=Catchup.ALL, concurrency_policy=ConcurrencyPolicy.REPLACE),
            "DR1009 /spec/catchup",
        ),
    ],
)
def test_a_value_without_effect_and_a_wrong_order_are_refused(
    schedule: Schedule, expected: str
) -> None:
    assert faults_of(schedule) == [expected]
