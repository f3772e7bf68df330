"""Numbers of closed buckets, added to what the exact part counted; without Spark."""

from decimal import Decimal

import pytest

from datarecs_core.comparison.plan import StagePlan
from datarecs_spark.counted import Counted
from datarecs_spark.kernel import KernelAnswer
from datarecs_spark.narrowing import Narrowed
from datarecs_spark.native_errors import NotNativeError
from datarecs_spark.tally import SourceTally
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import a_job, a_table, plan_of


def a_plan() -> StagePlan:
    tables = [a_table(name, "k int, v int") for name in ("one", "two")]
    return plan_of(a_job(tables, rows_by("k", a_measure("v"))), tables).stages[0]


def narrowed(**fields: tuple[object, ...]) -> Narrowed:
    """Ten rows of twelve, and nine, of which two and one were kept; one closed key has two rows."""
    given: dict[str, tuple[object, ...]] = {
        "rows": (10, 9),
        "null_keys": (3, 2),
        "totals": (("55",), ("50",)),
        "kept": (2, 1),
        **fields,
    }
    answer = KernelAnswer(**given, closed_groups=7, closed_repeated=1, open_buckets=2)  # type: ignore[arg-type]  # fields of the test
    return Narrowed(plan=a_plan(), answer=answer, all_rows=(12, 9), measures=(0,))


def tallies() -> list[SourceTally]:
    """Of the kept rows, as Spark counts them."""
    return [
        SourceTally(extracted=2, passed=2, null_keys=1, totals={0: Decimal(7)}),
        SourceTally(extracted=1, passed=1, null_keys=0, totals={0: Decimal(2)}),
    ]


def test_closed_buckets_are_groups_that_every_source_has() -> None:
    counted, told = Counted(2, grouped=[2, 1]), tallies()
    narrowed().add_closed(counted, told)
    assert dict(counted.groups) == {(3, 0, False, None): 6, (3, 3, False, None): 1}
    assert counted.grouped == [10, 9]
    assert [(each.extracted, each.passed, each.null_keys) for each in told] == [
        (12, 10, 3),
        (9, 9, 2),
    ]
    assert [each.totals for each in told] == [{0: Decimal(55)}, {0: Decimal(50)}]


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("rows", (10, 10)),
        ("null_keys", (3, 3)),
        ("totals", (("55",), ("51",))),
    ],
)
def test_sources_that_disagree_on_closed_buckets_are_not_believed(
    field: str, told: tuple[object, ...]
) -> None:
    """No hash took part in these numbers: they would show a collision."""
    counted, before = Counted(2), tallies()
    with pytest.raises(NotNativeError, match="disagree"):
        narrowed(**{field: told}).add_closed(counted, before)
    assert (counted.groups, before) == ({}, tallies())


def test_kept_rows_that_were_not_read_again_are_missed() -> None:
    with pytest.raises(NotNativeError, match="not those that were read again"):
        narrowed(kept=(2, 2)).add_closed(Counted(2), tallies())
