"""Numbers of tasks add up to those of a stage, also after they were written as text."""

import pytest

from datarecs_core.comparison.results.results import BucketSum
from datarecs_kernel.counted import Counted, read_counted


def of_bucket(source: int, bucket: int, rows: int, total: int) -> BucketSum:
    return BucketSum(source=source, bucket=bucket, rows=rows, total=total)


@pytest.mark.case("F17")
def test_fingerprints_of_one_bucket_in_two_tasks_add_up() -> None:
    one = Counted(2, sealed=(of_bucket(0, 7, 2, 2**128 - 1), of_bucket(1, 7, 1, 5)))
    other = Counted(2, sealed=(of_bucket(0, 3, 1, 9), of_bucket(0, 7, 1, 3)))
    total = read_counted(one.written(), 2)
    total.add(read_counted(other.written(), 2))
    assert total.sealed == (of_bucket(0, 3, 1, 9), of_bucket(0, 7, 3, 2), of_bucket(1, 7, 1, 5))
