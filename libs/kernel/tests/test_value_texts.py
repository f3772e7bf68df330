"""Texts made by column are the canonical texts of single values."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.values.canonical import canonical_text
from datarecs_kernel.decoding import cell, native
from datarecs_kernel.forms import BOOL, DOUBLE, INTEGER, NUMBER, TEXT, Form, FormKind, decimal
from datarecs_kernel.value_texts import valid_texts

FAR = 10**18
DAY = 86_400_000_000
MICROS = st.integers(-FAR, FAR) | st.sampled_from([0, -1, 1, DAY - 1, DAY, 10 * DAY + 500_000])
NANOS = (st.integers(-(10**21), 10**21) | MICROS).map(lambda each: Decimal(each).scaleb(-3))
VALUES: dict[Form, st.SearchStrategy[Any]] = {
    INTEGER: st.integers(-(2**63), 2**63 - 1),
    decimal(38, 5): st.integers(-(10**38) + 1, 10**38 - 1).map(lambda each: Decimal(f"{each}E-5")),
    DOUBLE: st.floats() | st.sampled_from([0.1, -2.5, 1e22, 5e-324, 0.0, -0.0]),
    NUMBER: st.sampled_from(["0", "-1.5", "NaN", "-Inf"]),
    TEXT: st.text(),
    BOOL: st.booleans(),
    Form(kind=FormKind.JSON): st.sampled_from(["{}", "[1]"]),
    Form(kind=FormKind.BINARY): st.binary(),
    Form(kind=FormKind.UUID): st.binary(min_size=16, max_size=16),
    Form(kind=FormKind.DATE): st.integers(-5_000_000, 5_000_000),
    Form(kind=FormKind.TIME): st.integers(0, DAY),
    Form(kind=FormKind.INSTANT): MICROS,
    Form(kind=FormKind.LOCAL): MICROS,
    Form(kind=FormKind.TIME, precision=22, scale=3): st.integers(0, DAY * 1000).map(
        lambda each: Decimal(each).scaleb(-3)
    ),
    Form(kind=FormKind.INSTANT, precision=22, scale=3): NANOS,
}


@pytest.mark.parametrize("form", VALUES, ids=lambda form: f"{form.kind}-{form.scale}")
@given(data=st.data())
def test_a_column_of_texts_is_made_of_its_values(form: Form, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[form], max_size=5))
    column = pa.array([None, *values], native(form)).slice(1)
    assert valid_texts(form, column).to_pylist() == [
        canonical_text(cell(form, each, None)) for each in values
    ]
