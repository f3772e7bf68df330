"""Parameters: typed, never pasted."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import OptionValue, Parameter
from datarecs_core.jobs.parameters import (
    Value,
    literal_text,
    parameter_faults,
    parameters_document,
    parse_literal,
    resolve_parameters,
    typed_parameters,
)
from datarecs_core.jobs.vocabulary import ParameterType

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
CURRENCIES = Parameter(type=ParameterType.TEXT, many=True, default=("EUR",), allowed=("EUR", "USD"))


def codes(declared: Parameter, option_value: OptionValue) -> list[SpecCode]:
    _, faults = resolve_parameters({"p": declared}, {"p": option_value}, moment=NOON, zone=UTC)
    return [fault.code for fault in faults]


def one(declared: Parameter, option_value: OptionValue) -> Value | tuple[Value, ...]:
    values, faults = resolve_parameters({"p": declared}, {"p": option_value}, moment=NOON, zone=UTC)
    assert not faults
    return values["p"]


@pytest.mark.case("P55")
@pytest.mark.parametrize("text", ["x' OR '1'='1", "'; drop", "\\'", "{{ run.date }}", ""])
def test_a_hostile_text_is_that_text(text: str) -> None:
    assert one(Parameter(type=ParameterType.TEXT), text) == text


@pytest.mark.case("P55")
def test_a_list_of_1001_is_too_long() -> None:
    declared = Parameter(type=ParameterType.INT, many=True)
    assert (codes(declared, (1,) * 1_000), codes(declared, (1,) * 1_001)) == (
        [],
        [SpecCode.BAD_LENGTH],
    )


@pytest.mark.case("P55")
def test_a_date_that_does_not_exist_does_not_convert() -> None:
    assert codes(Parameter(type=ParameterType.DATE), "2026-02-30") == [
        SpecCode.VALUE_NOT_CONVERTIBLE
    ]


@pytest.mark.case("X42")
def test_a_text_of_10_megabytes_or_with_nul_is_refused() -> None:
    declared = Parameter(type=ParameterType.TEXT)
    assert codes(declared, "x" * 10_000_000) == codes(declared, "a\0") == codes(declared, "\ud800")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ParameterType.INT, "-9223372036854775808", -(2**63)),
        (ParameterType.DECIMAL, "-12.50", Decimal("-12.50")),
        (ParameterType.DATE, "2024-02-29", date(2024, 2, 29)),
        (
            ParameterType.TIMESTAMP,
            "2026-01-15T13:00:00.5+01:00",
            datetime(2026, 1, 15, 12, 0, 0, 500_000, UTC),
        ),
        (ParameterType.BOOL, "true", True),
    ],
)
def test_a_literal_reads_as_its_type_and_back(kind: ParameterType, text: str, value: Value) -> None:
    parsed = parse_literal(text, kind)
    assert parsed == value
    assert parsed is not None
    assert parse_literal(literal_text(parsed), kind) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ParameterType.INT, "9223372036854775808"),
        (ParameterType.INT, "1.0"),
        (ParameterType.DECIMAL, "1e3"),
        (ParameterType.DATE, "15.01.2026"),
        (ParameterType.TIMESTAMP, "2026-01-15T13:00:00"),
        (ParameterType.TIMESTAMP, "0001-01-01T00:00:00+23:59"),
        (ParameterType.BOOL, "yes"),
    ],
)
def test_a_literal_of_another_form_is_none(kind: ParameterType, text: str) -> None:
    assert parse_literal(text, kind) is None


@given(st.decimals(-(10**20), 10**20, allow_nan=False, places=4))
def test_no_decimal_loses_a_digit(number: Decimal) -> None:
    text = format(number, "f")
    parsed = parse_literal(text, ParameterType.DECIMAL)
    assert parsed is not None
    assert literal_text(parsed) == text


def test_a_value_outside_allowed_is_refused_at_its_place() -> None:
    _, faults = resolve_parameters({"p": CURRENCIES}, {"p": ("EUR", "XXX")}, moment=NOON, zone=UTC)
    assert [(fault.code, fault.path) for fault in faults] == [
        (SpecCode.VALUE_NOT_CONVERTIBLE, ("parameters", "p", 1))
    ]


def test_a_single_value_is_a_list_of_one() -> None:
    assert one(CURRENCIES, "USD") == ("USD",)


def test_a_number_is_no_text_and_a_text_may_be_a_number() -> None:
    assert codes(Parameter(type=ParameterType.TEXT), 5) == [SpecCode.VALUE_NOT_CONVERTIBLE]
    assert one(Parameter(type=ParameterType.INT), "5") == one(Parameter(type=ParameterType.INT), 5)


@pytest.mark.parametrize("value", [None, {"a": 1}, True])
def test_what_is_no_scalar_of_the_type_is_refused(value: OptionValue) -> None:
    assert codes(Parameter(type=ParameterType.INT), value) == [SpecCode.VALUE_NOT_CONVERTIBLE]


def resolve(
    declared: Mapping[str, Parameter], option_values: Mapping[str, OptionValue]
) -> tuple[Mapping[str, Value | tuple[Value, ...]], list[SpecCode]]:
    values, faults = resolve_parameters(declared, option_values, moment=NOON, zone=UTC)
    return values, [fault.code for fault in faults]


def test_a_default_is_used_where_nothing_is_set() -> None:
    declared = {
        "day": Parameter(type=ParameterType.DATE, default="{{ run.date - 1d }}"),
        "start": Parameter(type=ParameterType.TIMESTAMP, default="{{ run.date }}"),
        "named": Parameter(type=ParameterType.TEXT, default="{{ run.timestamp }}"),
        "of_time": Parameter(type=ParameterType.DATE, default="{{ run.timestamp }}"),
        "currencies": CURRENCIES,
    }
    assert resolve(declared, {}) == (
        {
            "day": date(2026, 1, 14),
            "start": datetime(2026, 1, 15, tzinfo=UTC),
            "named": "2026-01-15T12:00:00.000000Z",
            "of_time": date(2026, 1, 15),
            "currencies": ("EUR",),
        },
        [],
    )


def test_undeclared_and_missing_ones_are_reported_together() -> None:
    _, wrong = resolve({"day": Parameter(type=ParameterType.DATE)}, {"dax": "2026-01-01"})
    assert wrong == [SpecCode.UNDECLARED_PARAMETER, SpecCode.MISSING_FIELD]


def test_an_expression_that_leaves_all_years_is_reported() -> None:
    declared = {"day": Parameter(type=ParameterType.DATE, default="{{ run.date - 999999d }}")}
    assert resolve(declared, {})[1] == [SpecCode.BAD_DATE_EXPRESSION]


@pytest.mark.parametrize(
    ("declared", "wrong"),
    [
        (Parameter(type=ParameterType.DATE, default="{{ run.day }}"), "BAD_DATE_EXPRESSION"),
        (Parameter(type=ParameterType.INT, default="{{ run.date }}"), "VALUE_NOT_CONVERTIBLE"),
        (Parameter(type=ParameterType.INT, default="1.5"), "VALUE_NOT_CONVERTIBLE"),
        (Parameter(type=ParameterType.INT, allowed=("x",), default="1"), "VALUE_NOT_CONVERTIBLE"),
        (Parameter(type=ParameterType.INT, allowed=("1",), default="2"), "VALUE_NOT_CONVERTIBLE"),
        (Parameter(type=ParameterType.TEXT, many=True, default=()), "BAD_LENGTH"),
    ],
)
def test_a_bad_declaration_is_reported_before_any_run(declared: Parameter, wrong: str) -> None:
    faults = parameter_faults(declared, ("spec", "parameters", "p"))
    assert [fault.code.name for fault in faults] == [wrong]


def test_a_good_declaration_has_no_fault() -> None:
    good = Parameter(type=ParameterType.DATE, default="{{ run.date }}")
    assert parameter_faults(good, ()) == parameter_faults(CURRENCIES, ()) == ()


def test_a_run_stores_texts_and_reads_the_same_values_back() -> None:
    declared = {
        "rate": Parameter(type=ParameterType.DECIMAL),
        "currencies": CURRENCIES,
        "day": Parameter(type=ParameterType.DATE),
    }
    values, _ = resolve(declared, {"rate": Decimal("0.10"), "day": "2026-01-02"})
    stored = parameters_document(values)
    assert stored == {"rate": "0.10", "currencies": ["EUR"], "day": "2026-01-02"}
    assert typed_parameters(declared, stored) == values


def test_a_stored_value_of_another_type_is_a_defect() -> None:
    with pytest.raises(ValueError, match="declared type"):
        typed_parameters({"n": Parameter(type=ParameterType.INT)}, {"n": "x"})
