"""Parameters as literals: they mean their value, for any text."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from datarecs_core.jobs.literals import literal, written_in


@pytest.mark.case("X42")
def test_a_hostile_text_stays_one_literal() -> None:
    assert literal("x' OR '1'='1") == "'x'' OR ''1''=''1'"
    assert literal("\\'") == "'\\'''"


def test_a_negative_number_behind_a_minus_begins_no_comment() -> None:
    assert written_in("a -:x - :y", {"x": -5, "y": Decimal("-1.50")}) == "a - -5 -  -1.50"


def test_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        literal("a\0b")


def test_each_type_is_written_in_its_form() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    written = [literal(one) for one in (7, Decimal("1.50"), True, date(2026, 1, 31), noon)]
    assert written == [
        "7",
        "1.50",
        "TRUE",
        "DATE '2026-01-31'",
        "TIMESTAMPTZ '2026-01-31T12:00:00.000000Z'",
    ]


@pytest.mark.case("P55")
def test_only_names_outside_of_literals_comments_and_casts_are_replaced() -> None:
    sql = "a = :x AND b = ':x' AND \":x\" = 1 AND c::text = :x -- :x\n AND d IN (:many) /* :x */"
    values: dict[str, str | tuple[int, ...]] = {"x": "v", "many": (1, 2)}
    assert written_in(sql, values) == (
        "a = 'v' AND b = ':x' AND \":x\" = 1 AND c::text = 'v' -- :x\n AND d IN (1, 2) /* :x */"
    )


def test_a_backslash_is_a_plain_character() -> None:
    assert written_in(r"a = 'it\' AND b = :x", {"x": 1}) == r"a = 'it\' AND b = 1"


def test_an_escape_literal_of_postgres_is_one_literal() -> None:
    sql = r"a = E'it\' :x' AND b = :x"
    assert written_in(sql, {"x": 1}) == r"a = E'it\' :x' AND b = 1"
