"""Parameters as literals: they mean their value, whatever their text."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from datarecs_core.jobs.literals import postgres_literal, spark_literal, written_in
from datarecs_core.jobs.vocabulary import SourceKind


@pytest.mark.case("X42")
def test_a_hostile_text_stays_one_literal_in_both_dialects() -> None:
    assert postgres_literal("x' OR '1'='1") == "'x'' OR ''1''=''1'"
    assert postgres_literal("\\'") == "'\\'''"
    assert spark_literal("x' OR \\'1") == "'x\\' OR \\\\\\'1'"


def test_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        postgres_literal("a\0b")


def test_each_type_is_written_in_its_own_form() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    written = [spark_literal(one) for one in (7, Decimal("1.50"), True, date(2026, 1, 31), noon)]
    assert written == [
        "7",
        "1.50",
        "TRUE",
        "DATE '2026-01-31'",
        "TIMESTAMP '2026-01-31T12:00:00.000000Z'",
    ]


@pytest.mark.case("P55")
def test_only_names_outside_of_literals_comments_and_casts_are_replaced() -> None:
    sql = "a = :x AND b = ':x' AND \":x\" = 1 AND c::text = :x -- :x\n AND d IN (:many) /* :x */"
    values: dict[str, str | tuple[int, ...]] = {"x": "v", "many": (1, 2)}
    assert written_in(sql, values, kind=SourceKind.POSTGRES) == (
        "a = 'v' AND b = ':x' AND \":x\" = 1 AND c::text = 'v' -- :x\n AND d IN (1, 2) /* :x */"
    )


def test_an_escaped_quote_does_not_end_a_literal_of_spark() -> None:
    assert written_in(r"a = 'it\'s :x' AND b = :x", {"x": 1}, kind=None) == (
        r"a = 'it\'s :x' AND b = 1"
    )


def test_an_escape_literal_of_postgres_is_one_literal() -> None:
    sql = r"a = E'it\' :x' AND b = :x"
    assert written_in(sql, {"x": 1}, kind=SourceKind.POSTGRES) == r"a = E'it\' :x' AND b = 1"
