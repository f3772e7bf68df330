"""What closed buckets add to the exact part's numbers, and which sources need not be read."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import Extract, FileList, PinnedFile
from datarecs_kernel.counted import Counted
from datarecs_kernel.tallies import SourceTally
from datarecs_spark.kernel_work import KernelAnswer, KernelSource
from datarecs_spark.narrowing import Narrowed, are_alike
from datarecs_spark.native_errors import NotNativeError
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.kernel import a_condition
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


SOURCE = KernelSource(files=(), rows=3, keys=(), values=())


def pinned(*hashes: tuple[str | None, ...]) -> StagePlan:
    """Sources with a file for each of these hashes."""
    plan = a_plan()
    scans = tuple(
        replace(
            scan,
            pin=FileList(root="/", files=files(own), taken_at=datetime(2026, 1, 31, tzinfo=UTC)),
        )
        for scan, own in zip(plan.scans, hashes, strict=True)
    )
    return replace(plan, scans=scans)


def files(hashes: tuple[str | None, ...]) -> tuple[PinnedFile, ...]:
    return tuple(
        PinnedFile(path=f"{at}", size_bytes=7, sha256=each) for at, each in enumerate(hashes)
    )


def test_the_same_files_in_any_order_are_alike_where_they_are_asked_the_same() -> None:
    same = pinned(("a", "b", "b"), ("b", "a", "b"))
    assert are_alike(same, (SOURCE, SOURCE))
    assert not are_alike(same, (SOURCE, replace(SOURCE, filter=a_condition("k > 1", k="int"))))
    extract = Extract(root="/", files=(), rows=0, decoded_bytes=0)
    scans = (same.scans[0], replace(same.scans[1], extract=extract))
    assert not are_alike(replace(same, scans=scans), (SOURCE, SOURCE))


@pytest.mark.parametrize("other", [("a", "b"), ("a", "b", "c"), ("a", "a", "b")])
def test_other_files_are_not_alike(other: tuple[str, ...]) -> None:
    assert not are_alike(pinned(("a", "b", "b"), other), (SOURCE, SOURCE))


def test_files_that_were_not_hashed_are_not_alike() -> None:
    assert not are_alike(pinned(("a", None), ("a", None)), (SOURCE, SOURCE))
