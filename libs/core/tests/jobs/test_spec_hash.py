from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_core.jobs.definition import (
    Breaks,
    Execution,
    ReconciliationJob,
    Results,
)
from datarecs_core.jobs.spec_hash import spec_hash
from datarecs_core.jobs.vocabulary import DuplicatePolicy, ReportFormat, Strategy
from datarecs_testing.comparisons import a_measure, absolute, rows_by
from datarecs_testing.tables import a_job, pair

TABLES = pair("k int, v int", [], [])
JOB = a_job(TABLES, rows_by("k", a_measure("v", absolute("0.01"))))


@pytest.mark.parametrize(
    "same",
    [
        replace(JOB, name="other", description="words", owner="team-b"),
        replace(JOB, execution=Execution(strategy=Strategy.FULL, deadline=timedelta(minutes=5))),
        replace(JOB, results=Results(reports=(ReportFormat.JUNIT,))),
        replace(JOB, duplicates=DuplicatePolicy.MULTISET),
        a_job(TABLES, rows_by("k", a_measure("v", absolute("0.010")))),
    ],
)
def test_what_changes_no_number_changes_no_hash(same: ReconciliationJob) -> None:
    assert spec_hash(same) == spec_hash(JOB)


@pytest.mark.parametrize(
    "other",
    [
        replace(JOB, timezone="Europe/Paris"),
        replace(JOB, reference="two"),
        replace(JOB, results=Results(breaks=Breaks(max_rows=1))),
        replace(JOB, sources=JOB.sources[::-1]),
        a_job(TABLES, rows_by("k", a_measure("v", absolute("0.02")))),
    ],
)
def test_what_changes_the_question_changes_the_hash(other: ReconciliationJob) -> None:
    assert spec_hash(other) != spec_hash(JOB)


def test_a_hash_has_its_algorithm_in_front() -> None:
    assert spec_hash(JOB).startswith("sha256:")
    assert len(spec_hash(JOB)) == 71
