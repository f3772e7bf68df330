"""What leaves SQL as text or Arrow comes back as the canonical value it was."""

from decimal import Decimal

import pytest

from datarecs_core.comparison.values.canonical import Tag, Value, encode, invalid, number, text
from datarecs_kernel.decoding import decoded, from_text, invalid_of, native, represented
from datarecs_kernel.forms import (
    BOOL,
    DOUBLE,
    INTEGER,
    NUMBER,
    TEXT,
    Form,
    FormKind,
    decimal,
)

INSTANT = Form(kind=FormKind.INSTANT)
FINER = Form(kind=FormKind.INSTANT, precision=22, scale=3)


@pytest.mark.parametrize(
    ("form", "written", "value"),
    [
        (INTEGER, "-7", number(-7)),
        (decimal(10, 2), "1.10", number(Decimal("1.1"))),
        (DOUBLE, "1.0E-5", number(Decimal("0.00001"))),
        (DOUBLE, "4.9E-324", number(Decimal("5e-324"))),
        (NUMBER, "Inf", number(Decimal("Infinity"))),
        (TEXT, "NULL", text("NULL")),
        (BOOL, "true", Value(Tag.BOOL, content=True)),
        (INSTANT, "-500", Value(Tag.INSTANT, Decimal(-500))),
        (Form(kind=FormKind.BINARY), "00FF", Value(Tag.BINARY, b"\x00\xff")),
    ],
)
def test_a_text_is_its_value(form: Form, written: str, value: Value) -> None:
    assert encode(from_text(form, written)) == encode(value)


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (INTEGER, number(2**63 - 1)),
        (decimal(38, 2), number(Decimal("9" * 36 + ".99"))),
        (DOUBLE, number(Decimal("0.1"))),
        (NUMBER, number(Decimal("1" * 60))),
        (TEXT, text("é")),
        (INSTANT, Value(Tag.INSTANT, Decimal(10**15))),
        (FINER, Value(Tag.INSTANT, Decimal("-1.001"))),
    ],
)
def test_what_arrow_holds_is_the_value(form: Form, value: Value) -> None:
    assert encode(decoded(form, represented(value, form))) == encode(value)
    assert native(form) is not None


@pytest.mark.parametrize("content", [Decimal("0.5"), Decimal("Infinity")])
def test_a_time_that_no_column_holds_is_an_error_and_not_rounded(content: Decimal) -> None:
    with pytest.raises(ArithmeticError, match="finer than its column"):
        represented(Value(Tag.INSTANT, content), INSTANT)


def test_an_invalid_cell_preserves_its_source_and_bytes() -> None:
    value = invalid("ledger", b"\xff\x00")
    assert encode(invalid_of(encode(value)[5:])) == encode(value)
