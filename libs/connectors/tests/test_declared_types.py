"""Columns of text cast at once say what a cast of each value says."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datarecs_connectors.declared_types import text_column, text_value, typed_values
from datarecs_core.jobs.types import parse_type

KINDS = [
    *("int", "decimal(5,2)", "decimal(2,2)", "decimal(38,0)", "decimal", "float64", "float32"),
    *("bool", "uuid", "date", "time", "instant", "local_timestamp", "json", "text"),
    *("time(9)", "instant(9)", "local_timestamp(9)", "instant(3)"),
]
VALID = [
    *("0", "-0", "7", "-12", "007", "1.5", "0.25", "-.5", "1e0", "9" * 18, "9" * 19, "9" * 39),
    *("1e10", "-1.5E-07", "1e400", "1e", "NaN", "-Infinity", "Infinity", "-inf", "infinity"),
    *("true", "false", "TRUE", "nan", "inf", "0x1f", "", " 7", "1_0", "\u0663"),
    *("2026-01-31", "2026-02-30", "0001-01-01", "9999-12-31", "10000-01-01"),
    *("12:00:00", "23:59:59.999999", "24:00:00", "12:00:00.1234567", "12:00:60"),
    *("2026-01-31T12:00:00Z", "2026-01-31 12:00:00.5+02:00", "2026-01-31T12:00:00-23:59"),
    *("2026-01-31T12:00:00", "2026-01-31 12:00:00.000001", "2026-01-31T12:00"),
    *("23:59:59.999999999", "12:00:00.123456000", "12:00:00.1234567891"),
    *("2026-01-31T12:00:00.123456789Z", "1969-12-31 23:59:59.999999999+14:00"),
    *("1677-09-21T00:12:43.145224192Z", "1677-09-21T00:12:43.145224191Z", "1677-09-20T00:00:00"),
    *("2262-04-11T23:47:16.854775807Z", "2262-04-11T23:47:16.854775808Z", "2262-04-12T00:00:00"),
    *("1969-12-31T23:59:59.5Z", "1500-02-28T00:00:00Z", "9999-12-31T23:59:59.999999-12:00"),
    *("0188f0c8-0000-7000-8000-00000000000A", '{"a": 1}', "[1.0]", '"x"'),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)  # the first cast of a process loads Arrow's kernels
@given(
    texts=st.lists(
        st.one_of(st.none(), st.sampled_from(VALID), st.text("0123456789-+.:TZ eE", max_size=12)),
        max_size=3,
    )
)
def test_a_whole_column_is_cast_as_each_of_its_values(kind: str, texts: list[str | None]) -> None:
    target = parse_type(kind)
    whole = text_column(pa.array(texts, pa.string()), target)
    each = typed_values([None if one is None else text_value(one, target) for one in texts], target)
    assert whole.values.type == each.values.type
    # As texts, since NaN is not equal to itself.
    assert str(_lower(whole.values, kind)) == str(_lower(each.values, kind))
    assert (whole.invalid is None) == (each.invalid is None)
    assert whole.invalid is None or whole.invalid.equals(each.invalid)


@pytest.mark.parametrize(
    ("text", "number"),
    [(f"1.{'0' * 42}", "1"), (f"-12.5{'0' * 40}", "-12.5"), ("0e300", "0"), ("12500e-3", "12.5")],
)
def test_a_decimal_with_more_digits_than_arrow_reads_is_the_same_number(
    text: str, number: str
) -> None:
    target = parse_type("decimal(12,3)")
    column = typed_values([Decimal(text)], target)
    assert (column.values.to_pylist(), column.invalid) == ([Decimal(number)], None)


def _lower(values: pa.Array, kind: str) -> pa.Array:
    """Digits of a uuid may stand in either case: they become bytes."""
    return pc.utf8_lower(values) if kind == "uuid" else values
