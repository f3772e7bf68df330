"""What a plan says of readers: how many, over what, and why no more."""

from uuid import UUID

import pytest

from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.planning.scan import Ranges, Scan, SourceSchema
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_reports.plan_words import source_parts
from datarecs_testing.tables import a_table


@pytest.mark.parametrize(
    ("ranges", "sentence"),
    [
        (Ranges(reason="a query"), "one reader: a query"),
        (Ranges(count=3, at_once=3), "3 readers at once, 3 ranges of blocks (ctid)"),
        (
            Ranges(count=8, at_once=2, by="id", reason="2 usable cores"),
            "2 readers at once, 8 ranges of column id; no more at once: 2 usable cores",
        ),
    ],
)
def test_a_plan_says_how_many_readers_there_are_and_why_no_more(
    ranges: Ranges, sentence: str
) -> None:
    scan = Scan(
        source="ledger",
        index=0,
        kind=SourceKind.POSTGRES,
        columns=(),
        schema=SourceSchema(columns=(), ranges=ranges),
        pin=a_table("ledger", "v text").pin,
    )
    plan = ComparisonPlan(
        job="job", job_uid=UUID(int=1), spec_hash="sha256:" + 64 * "0", scans=(scan,), stages=()
    )
    (part,) = source_parts(plan, ["SELECT 1"])
    assert dict(part.lines)["parallel"] == sentence
