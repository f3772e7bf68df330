"""The language of job expressions: its grammar, its types, and the text that databases run."""

import re
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.expressions.condition import is_plain, named_columns
from datarecs_core.comparison.expressions.entry import Dialect
from datarecs_core.comparison.expressions.functions import ENTRIES, FUNCTIONS
from datarecs_core.comparison.expressions.sql import expression_sql, sql_type
from datarecs_core.comparison.expressions.syntax import parse_expression
from datarecs_core.comparison.expressions.tree import ExpressionError, Literal
from datarecs_core.comparison.expressions.typing import typed_expression
from datarecs_core.comparison.planning.computing import (
    computed_column,
    computes_alike,
    typed_condition,
)
from datarecs_core.comparison.planning.scan import ScanColumn, SourceColumn, SourceSchema
from datarecs_core.comparison.values.canonical import Tag
from datarecs_core.jobs import types
from datarecs_core.jobs.types import parse_type
from datarecs_testing.expressions import ANSWERS, COLUMNS, REFUSED, Answer

KINDS = {name: kind for name, kind, _ in COLUMNS} | {
    "loose": types.NUMERIC,
    "fine": parse_type("instant(9)"),
    "doc": types.JSON,
}
SCHEMA = SourceSchema(
    columns=tuple(SourceColumn(name=name, type=kind) for name, kind in KINDS.items())
)


def text(expression: str, dialect: Dialect = Dialect.DUCKDB) -> str:
    typed = typed_expression(parse_expression(expression), KINDS)
    return expression_sql(typed, dialect, lambda name: f"<{name}>")


def refusal(expression: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        typed_expression(parse_expression(expression), KINDS)
    return caught.value


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda each: each.expression)
def test_types_are_known_before_anything_is_read(answer: Answer) -> None:
    typed = typed_expression(parse_expression(answer.expression), KINDS)
    assert typed.type == answer.type
    for dialect in Dialect:
        assert text(answer.expression, dialect).count("(") == text(
            answer.expression, dialect
        ).count(")")


@pytest.mark.parametrize("expression", REFUSED)
def test_what_is_not_in_the_table_has_no_tree(expression: str) -> None:
    with pytest.raises(ExpressionError, match=r"\(character \d+\)$"):
        parse_expression(expression)
    assert not is_plain(expression)
    assert named_columns(expression) == frozenset()


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_is_refused_with_its_position(written: str) -> None:
    with suppress(ExpressionError):
        parse_expression(written)
        return
    with pytest.raises(ExpressionError) as caught:
        parse_expression(written)
    assert 0 <= caught.value.at <= len(written)


@given(st.text(alphabet=st.characters(exclude_characters="\0"), max_size=30))
def test_any_text_is_one_literal_for_each_database(written: str) -> None:
    doubled = written.replace("'", "''")
    node = parse_expression(f"'{doubled}'")
    assert isinstance(node, Literal)
    assert (node.value.tag, node.value.content) == (Tag.TEXT, written)
    typed = typed_expression(node, {})
    assert expression_sql(typed, Dialect.DUCKDB, str) == f"'{doubled}'"
    sent = expression_sql(typed, Dialect.POSTGRES, str)
    assert sent.endswith('::text COLLATE "C"')
    assert re.fullmatch(r"E?'(?:[^'\\]|''|\\\\)*'", sent.removesuffix('::text COLLATE "C"'))


@pytest.mark.parametrize(
    ("expression", "at", "message"),
    [
        ("a = ", 4, "ends too early"),
        ("a b", 2, "'b' does not belong here"),
        ("'a' 'b'", 4, "a text does not belong here"),
        ("a IS 1", 5, "NULL is missing"),
        ("a IS", 4, "NULL is missing"),
        ("a NOT 1", 2, "IN, BETWEEN or LIKE is missing after NOT"),
        ("CASE a END", 0, "WHEN is missing"),
        ("a = THEN", 4, "'THEN' does not belong here"),
        ("LEFT(s)", 0, "LEFT takes 2 arguments"),
        ("COALESCE()", 0, "COALESCE takes 1 or more arguments"),
        ("SUBSTRING(s)", 0, "SUBSTRING takes 2 or 3 arguments"),
        ("LEFT(s, n)", 8, "whole number from 0 to 1000000"),
        ("LEFT(s, 1.5)", 8, "whole number from 0 to 1000000"),
        ("LPAD(s, 1001, 'x')", 8, "whole number from 0 to 1000"),
        ("LPAD(s, 5, '')", 11, "a text that is not empty"),
        ("REPLACE(s, 'a', t)", 16, "a text, as a literal"),
        ("s LIKE t", 7, "a pattern, as a literal"),
        (r"s LIKE 'a\b'", 7, "a backslash must precede"),
        ("CAST(s AS money)", 10, "no canonical type 'money'"),
        ("CAST(s AS decimal(39,1))", 10, "1 to 38 digits"),
        ("EXTRACT(HOUR FROM i)", 8, "EXTRACT of 'HOUR' is not in the language"),
        ("DATE '2026-02-30'", 0, "DATE needs a text of the form YYYY-MM-DD"),
        ("TIMESTAMPTZ '2026-01-01 00:00:00'", 0, "TIMESTAMPTZ needs"),
        ("9" * 39, 0, "more than 38 digits"),
        ("lenght(s)", 0, "the function lenght is not in the language"),
    ],
)
def test_a_fault_has_its_position(expression: str, at: int, message: str) -> None:
    with pytest.raises(ExpressionError, match=re.escape(message)) as caught:
        parse_expression(expression)
    assert caught.value.at == at


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("absent = 1", "there is no column 'absent'"),
        ("NULL", "NULL has no type here"),
        ("n + NULL", "NULL has no type here"),
        (":p = 1", "the parameter p has no value"),
        ("s = 5", "text and int cannot be combined"),
        ("d = '2026-01-01'", "date and text cannot be combined; write DATE"),
        ("i = '2026-01-01'", "write TIMESTAMP"),
        ("f = n", "float64 and int cannot be combined"),
        ("f * 2 = 1", "a float has no exact arithmetic"),
        ("w + 0.5 = 1", "need 39 digits"),
        ("CAST(a AS decimal(38,20)) * CAST(a AS decimal(38,20))", "40 digits after the point"),
        ("u = u", "comparable values, not uuid"),
        ("fine = fine", "comparable values, not instant(9)"),
        ("COALESCE(doc, doc)", "json can only be used as a whole column"),
        ("n AND b", "it takes conditions, not int"),
        ("CASE WHEN n THEN 1 END", "conditions after WHEN, not int"),
        ("LENGTH(n)", "it takes texts, not int"),
        ("YEAR(s)", "dates and timestamps, not text"),
        ("REPLACE(s, 'a', 'aa')", "the new text is longer"),
        ("CAST(i AS int)", "instant is not cast to int here"),
        ("CAST(d AS text)", "date is not cast to text here"),
        ("CAST(n AS decimal)", "int is not cast to decimal here"),
        ("i = TIMESTAMP '2026-01-01T00:00:00.000000001Z'", "at most 6 digits of a second"),
    ],
)
def test_types_that_do_not_fit_are_named(expression: str, message: str) -> None:
    assert message in str(refusal(expression))


def test_precedence_is_that_of_sql() -> None:
    bare = "n > 0 OR b AND NOT n = 1 + 2 * -n - 3"
    assert text(bare) == text("(n > 0) OR (b AND (NOT (n = ((1 + (2 * (-n))) - 3))))")
    assert text(bare) != text("(n > 0 OR b) AND NOT n = 1 + 2 * -n - 3")
    assert text("+5 = n") == text("5 = n")


def test_names_are_bare_or_quoted_and_preserve_their_case() -> None:
    assert named_columns('"Booked ""on""" = `a``b` AND Straße = month') == {
        'Booked "on"',
        "a`b",
        "Straße",
        "month",
    }


def test_the_text_of_a_database_is_written_from_the_tree() -> None:
    assert text("n + 1") == "CAST((<n> + CAST('1' AS BIGINT)) AS BIGINT)"
    assert text("a * 0.5", Dialect.POSTGRES) == (
        "CAST((CAST(<a> AS numeric(13,2)) * CAST('0.5' AS numeric(13,1))) AS numeric(13,3))"
    )
    assert text("loose + 1", Dialect.POSTGRES) == "CAST((<loose> + CAST('1' AS bigint)) AS numeric)"
    assert text("f > 1") == "(<f> > CAST('1' AS DOUBLE))"
    assert text("s LIKE 'a' AND b") == "((<s> LIKE 'a' ESCAPE '\\') AND <b>)"
    assert text("COALESCE(NULL, n)") == "coalesce(CAST(NULL AS BIGINT), <n>)"
    assert text("loose IS NULL AND NULL IS NULL") == "((<loose> IS NULL) AND (NULL IS NULL))"
    assert text("ROUND(loose, 2)", Dialect.POSTGRES) == "CAST(round(<loose>, 2) AS numeric)"
    assert text("CAST(loose AS int)").startswith("CAST(CAST(<loose> AS DECIMAL(38,0)) AS")
    assert sql_type(types.NUMERIC, Dialect.DUCKDB) == "DECIMAL"


def test_a_text_that_grows_without_bound_is_refused() -> None:
    grown = "n"
    for _ in range(20):
        grown = f"YEAR(e + {grown})"
    assert "is too long" in str(_grown(grown))


def _grown(expression: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        text(expression, Dialect.POSTGRES)
    return caught.value


def test_every_function_is_known_by_its_names() -> None:
    assert FUNCTIONS["substr"] == FUNCTIONS["substring"] == "substring"
    assert "cast" in FUNCTIONS
    assert {"+", "and", "like", "case"} <= ENTRIES.keys() - set(FUNCTIONS.values())


def test_a_computed_column_is_described_like_its_columns() -> None:
    exact = replace(SCHEMA.columns[0], groups_exactly=True)
    schema = replace(SCHEMA, columns=(exact, *SCHEMA.columns[1:]))
    made = computed_column("x", "n * 2", schema)
    assert (made.name, made.type, made.groups_exactly) == ("x", types.INT, True)
    assert not computed_column("x", "n = 1 AND s = 'x'", schema).groups_exactly
    assert not computed_column("x", "1", schema).groups_exactly
    column = ScanColumn(name="x", expression="n * 2", type=types.INT)
    assert computes_alike(column, schema)
    assert not computes_alike(replace(column, expression="gone * 2"), schema)
    assert not computes_alike(replace(column, type=types.TEXT), schema)
    unsigned = SourceColumn(name="n", type=types.INT, native_type="uint64")
    widened = computed_column("x", "n + 1", SourceSchema(columns=(unsigned,)))
    assert widened.type == types.decimal(21, 0)
    assert typed_condition("n = 1", schema).type == types.BOOL
    assert computed_column("x", "loose", schema).type == types.TEXT  # as files hold it
    bare = SourceColumn(name="loose", type=types.NUMERIC, native_type="numeric")
    doubled = computed_column("x", "loose * 2", SourceSchema(columns=(bare,)))
    assert doubled.type == types.NUMERIC
    with pytest.raises(ExpressionError, match="it is int and not bool"):
        typed_condition("n", schema)


def test_decimals_are_read_digit_for_digit() -> None:
    node = parse_expression("-0.10")
    assert isinstance(node, Literal)
    assert node.value.content == Decimal("-0.10")
