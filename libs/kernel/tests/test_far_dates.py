"""Dates that Python has no value for, in keys of rows that differ."""

import pyarrow as pa
import pytest

from datarecs_core.comparison.results.results import DifferenceClass, Outcome
from datarecs_kernel.stored import differences_of

FAR = -1_000_000
"""Days from 1970: in the year -768."""


@pytest.mark.case("P60")
def test_a_difference_under_a_date_before_the_year_1_can_be_read() -> None:
    texts = pa.map_(pa.string(), pa.string())
    row = {
        "break_id": "b",
        "stage": "rows",
        "measure": "v",
        "outcome": Outcome.BREAK.value,
        "class": DifferenceClass.OUTSIDE.value,
        "presence": 3,
        "odd_one_out": None,
        "key_text": ["-0768-02-04"],
        "key_encoded": b"k",
        "key_hash": "h",
        "values": [("one", "1")],
        "raw_values": [],
        "deltas": [("one", "1")],
        "delta_percent": [],
        "locator": [],
    }
    maps = ("values", "raw_values", "deltas", "delta_percent", "locator")
    columns = {
        name: pa.array([value], texts) if name in maps else pa.array([value])
        for name, value in row.items()
    }
    table = pa.table({**columns, "day": pa.array([FAR], pa.date32())})
    with pytest.raises(OverflowError):
        table.to_pylist()
    (only,) = differences_of(table)
    assert only.key == ("-0768-02-04",)
