"""The columns of the matrix: SQL that generates values, and SQL of their canonical values.

Generation and truth are two statements about the same columns, so they are in one module. Values
are SQL over `k` (the number of the key), `n` (which of its rows), and for values over `draw` (a
random number of the row) and `changed` (how much the row differs: 0, 1 or 5).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import assert_never

from datarecs_core.jobs.definition import EXACTLY, Tolerance
from datarecs_core.jobs.vocabulary import ToleranceType
from datarecs_testing.row_matrix.combinations import Key, Rule, Values

ABSOLUTE_LIMIT, PERCENT_LIMIT = 2, 1
SECONDS_LIMIT, DAYS_LIMIT = 2, 2
"""A change of 1 is within these limits, one of 5 is outside."""


class Meaning(StrEnum):
    """What values of a column are compared as."""

    NUMBER = "number"
    FLOAT = "float"
    TEXT = "text"
    DATE = "date"
    LOCAL = "local"
    INSTANT = "instant"
    UUID = "uuid"
    BOOL = "bool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of every source."""

    name: str
    meaning: Meaning
    sql: str
    odd_sql: str | None = None
    """In every second source; None = the same."""
    places: int | None = None
    """The coarsest scale of the sources, where they declare different ones."""

    @property
    def is_exact_number(self) -> bool:
        """It has totals."""
        return self.meaning is Meaning.NUMBER

    def stored(self, source: int, rule: Rule, number: str) -> str:
        """SQL of the stored value; under `fold` every third number is written otherwise."""
        odd = source % 2 == 1
        sql = self.odd_sql if self.odd_sql is not None and odd else self.sql
        if self.meaning is Meaning.TEXT and rule is Rule.FOLD and odd:
            return (
                f"CASE WHEN {number} % 3 = 0 THEN '  ' || upper(replace({sql}, 'ß', 'SS')) || ' '"
                f" ELSE {sql} END"
            )
        return sql


_MICROS = "1767225600000000"
KEYS: Mapping[Key, Sequence[Column]] = {
    Key.BIGINT: (Column(name="id", meaning=Meaning.NUMBER, sql="(k * 7919 - 5000)::BIGINT"),),
    Key.TEXT: (
        Column(
            name="id",
            meaning=Meaning.TEXT,
            sql="CASE k % 4 WHEN 0 THEN 'a|' || k WHEN 1 THEN 'ключ ' || k"
            " WHEN 2 THEN k || chr(0) || 'Z' ELSE repeat('x', 40) || k END",
        ),
    ),
    Key.UUID: (
        Column(
            name="id",
            meaning=Meaning.UUID,
            sql="md5('uuid' || k)::UUID::VARCHAR",
            odd_sql="upper(md5('uuid' || k)::UUID::VARCHAR)",
        ),
    ),
    Key.DECIMAL: (
        Column(
            name="id",
            meaning=Meaning.NUMBER,
            sql="(k::DECIMAL(15,0) * 0.25)::DECIMAL(18,2)",
            odd_sql="(k::DECIMAL(15,0) * 0.25)::DECIMAL(20,4)",
        ),
    ),
    Key.DATE_TEXT: (
        Column(name="day", meaning=Meaning.DATE, sql="DATE '2020-01-01' + (k % 1000)::INTEGER"),
        Column(name="code", meaning=Meaning.TEXT, sql="'c' || (k // 1000)"),
    ),
    Key.DOUBLE: (
        Column(
            name="id",
            meaning=Meaning.FLOAT,
            sql="CASE WHEN k = 1 THEN 'NaN'::DOUBLE ELSE k / 8 END",
            odd_sql="CASE WHEN k = 1 THEN 'NaN'::DOUBLE WHEN k = 0 THEN -0.0::DOUBLE"
            " ELSE k / 8 END",
        ),
    ),
    Key.TIMESTAMP: (
        Column(
            name="id",
            meaning=Meaning.INSTANT,
            sql=f"make_timestamp({_MICROS} + k * 1234567)::TIMESTAMPTZ",
        ),
    ),
    Key.BOOL_INT: (
        Column(name="flag", meaning=Meaning.BOOL, sql="k % 2 = 0"),
        Column(name="id", meaning=Meaning.NUMBER, sql="(k // 2)::INTEGER"),
    ),
    Key.NULLABLE: (
        Column(name="id", meaning=Meaning.NUMBER, sql="CASE WHEN k % 10 > 0 THEN k END"),
        Column(
            name="code",
            meaning=Meaning.TEXT,
            sql="CASE WHEN k > 0 AND k % 1000 <> 5 THEN 'b' || k END",
        ),
    ),
}
"""Different numbers have different keys."""

_BRANCH = Column(
    name="branch",
    meaning=Meaning.NUMBER,
    sql="CASE WHEN draw % 10 > 0 THEN (draw % 500)::BIGINT END",
)
_CENTS = "(draw % 100000000)::DECIMAL(14,0) * 0.01 + changed"
VALUES: Mapping[Values, Sequence[Column]] = {
    Values.PLAIN: (
        Column(name="amount", meaning=Meaning.NUMBER, sql=f"({_CENTS})::DECIMAL(14,2)"),
        Column(name="quantity", meaning=Meaning.NUMBER, sql="(draw % 1000)::BIGINT + changed"),
        Column(
            name="booked",
            meaning=Meaning.DATE,
            sql="DATE '2026-01-01' + (draw % 365)::INTEGER",
        ),
        _BRANCH,
        Column(name="note", meaning=Meaning.TEXT, sql="'Note ' || (draw % 10000000)"),
    ),
    Values.SCALES: (
        Column(
            name="amount",
            meaning=Meaning.NUMBER,
            sql=f"({_CENTS})::DECIMAL(14,2)",
            odd_sql=f"({_CENTS} + CASE WHEN changed > 0 AND draw % 8 = 3 THEN 0.0049 - changed"
            " ELSE 0 END)::DECIMAL(16,4)",
            places=2,
        ),
        Column(
            name="fee",
            meaning=Meaning.NUMBER,
            sql="((draw % 1000000)::DECIMAL(12,0) * 0.001 + changed)::DECIMAL(12,4)",
            odd_sql="((draw % 1000000)::DECIMAL(12,0) * 0.001 + changed)::DECIMAL(14,6)",
            places=4,
        ),
        Column(
            name="quantity",
            meaning=Meaning.NUMBER,
            sql="(draw % 1000)::BIGINT",
            odd_sql="(draw % 1000)::DECIMAL(18,0)",
        ),
        _BRANCH,
    ),
    Values.DOUBLES: (
        Column(
            name="amount",
            meaning=Meaning.FLOAT,
            sql="CASE WHEN draw % 11 = 0 THEN NULL WHEN draw % 13 = 0 THEN 'NaN'::DOUBLE"
            " WHEN draw % 17 = 0 THEN 'Infinity'::DOUBLE WHEN draw % 19 = 0 THEN 0.0::DOUBLE"
            " ELSE (1 + draw % 1000000)::DOUBLE / 7 + changed END",
            odd_sql="CASE WHEN draw % 11 = 0 THEN NULL WHEN draw % 13 = 0 THEN 'NaN'::DOUBLE"
            " WHEN draw % 17 = 0 THEN 'Infinity'::DOUBLE WHEN draw % 19 = 0 THEN -0.0::DOUBLE"
            " ELSE (1 + draw % 1000000)::DOUBLE / 7 + changed END",
        ),
        Column(
            name="ratio",
            meaning=Meaning.FLOAT,
            sql="CASE WHEN changed = 0 OR draw % 5 > 0"
            " THEN (draw % 4000)::DOUBLE / 4 + changed END",
        ),
        Column(name="single", meaning=Meaning.FLOAT, sql="((draw % 4000)::DOUBLE / 4)::FLOAT"),
    ),
    Values.TEXTS: (
        Column(
            name="note",
            meaning=Meaning.TEXT,
            sql="CASE WHEN draw % 100 = 0 THEN repeat('lang ', 400) WHEN draw % 7 = 0 THEN"
            " 'a' || chr(0) || 'b' WHEN draw % 5 = 0 THEN 'Größe ' ELSE 'note ' END"
            " || (draw % 10000000) || repeat('!', changed::INTEGER)",
        ),
        Column(
            name="code",
            meaning=Meaning.TEXT,
            sql="CASE WHEN draw % 9 > 0 THEN ['EUR', 'USD', 'GBP', ''][1 + (draw % 4)::INTEGER]"
            " || repeat('?', changed::INTEGER) END",
        ),
        Column(name="city", meaning=Meaning.TEXT, sql="'東京 ' || (draw % 50)"),
    ),
    Values.TIMES: (
        Column(
            name="moment",
            meaning=Meaning.INSTANT,
            sql=f"make_timestamp(({_MICROS} + draw % 31536000000000 + changed * 1000000)::BIGINT)"
            "::TIMESTAMPTZ",
        ),
        Column(
            name="booked",
            meaning=Meaning.DATE,
            sql="DATE '2026-01-01' + (draw % 365 + changed)::INTEGER",
        ),
        Column(
            name="local",
            meaning=Meaning.LOCAL,
            sql=f"CASE WHEN draw % 10 > 0 THEN make_timestamp(({_MICROS}"
            " + draw % 86400000 * 1000)::BIGINT) END",
        ),
    ),
}
"""The first column is the one that differs in every row of `one-column`, and the second as well in
`two-columns`."""

_NUMBER, _FLOAT = "DECIMAL(24,6)", "DECIMAL(30,18)"


def canonical(column: Column, name: str, rule: Rule) -> str:
    """SQL of the value as it is compared: of one type in all sources, after the rule."""
    match column.meaning:
        case Meaning.NUMBER:
            return f"{name}::{_NUMBER}"
        case Meaning.FLOAT:
            return f"{name}::DOUBLE + 0.0"
        case Meaning.TEXT if rule is Rule.FOLD:
            return f"replace(lower(trim({name})), 'ß', 'ss')"
        case Meaning.INSTANT:
            return f"{name}::TIMESTAMP"
        case Meaning.UUID:
            return f"{name}::UUID"
        case _:
            return name


def written(meaning: Meaning, value: str) -> str:
    """SQL of the canonical text of a canonical value."""
    match meaning:
        case Meaning.NUMBER:
            return f"rtrim(rtrim(({value})::VARCHAR, '0'), '.')"
        case Meaning.FLOAT:
            return (
                f"CASE WHEN isnan({value}) THEN 'NaN' WHEN isinf({value}) THEN 'Inf'"
                f" ELSE regexp_replace(({value})::VARCHAR, '\\.0$', '') END"
            )
        case Meaning.LOCAL | Meaning.INSTANT:
            zone = "Z" if meaning is Meaning.INSTANT else ""
            fraction = f"rtrim(rtrim(strftime({value}, '%Y-%m-%dT%H:%M:%S.%f'), '0'), '.')"
            return f"{fraction} || '{zone}'"
        case Meaning.TEXT | Meaning.DATE | Meaning.UUID | Meaning.BOOL:
            return f"({value})::VARCHAR"
        case _:
            assert_never(meaning)


def amount(meaning: Meaning, value: str) -> str | None:
    """SQL of what can be subtracted, microseconds of times; None for what cannot be."""
    match meaning:
        case Meaning.NUMBER:
            return value
        case Meaning.FLOAT:
            return f"CASE WHEN isfinite({value}) THEN ({value})::VARCHAR::{_FLOAT} END"
        case Meaning.DATE | Meaning.LOCAL | Meaning.INSTANT:
            return f"epoch_us({value})"
        case _:
            return None


def tolerances(meaning: Meaning, rule: Rule) -> tuple[Tolerance, ...]:
    """As a job declares them for a column."""
    numeric = meaning in {Meaning.NUMBER, Meaning.FLOAT}
    if rule is Rule.ABSOLUTE and numeric:
        return (Tolerance(type=ToleranceType.ABSOLUTE, value=Decimal(ABSOLUTE_LIMIT)),)
    if rule is Rule.PERCENTAGE and numeric:
        return (Tolerance(type=ToleranceType.PERCENTAGE, value=Decimal(PERCENT_LIMIT)),)
    if rule is Rule.DURATION and meaning is Meaning.DATE:
        return (Tolerance(type=ToleranceType.DURATION, value=timedelta(days=DAYS_LIMIT)),)
    if rule is Rule.DURATION and meaning in {Meaning.LOCAL, Meaning.INSTANT}:
        return (Tolerance(type=ToleranceType.DURATION, value=timedelta(seconds=SECONDS_LIMIT)),)
    return EXACTLY


def agrees(meaning: Meaning, rule: Rule, values: Sequence[str], reference: str) -> str:
    """SQL: whether two canonical values are within the rule, relative to the reference's value."""
    one, other = values
    same = f"{one} IS NOT DISTINCT FROM {other}"
    (tolerance,) = tolerances(meaning, rule)
    distance = [amount(meaning, each) for each in (one, other, reference)]
    gap = f"abs({distance[0]} - {distance[1]})"
    match tolerance.type:
        case ToleranceType.EXACT:
            return f"({same})"
        case ToleranceType.ABSOLUTE:
            within = f"{gap} <= {ABSOLUTE_LIMIT}"
        case ToleranceType.PERCENTAGE:
            within = f"100 * {gap} <= {PERCENT_LIMIT} * abs({distance[2]})"
        case ToleranceType.DURATION:
            seconds = DAYS_LIMIT * 86_400 if meaning is Meaning.DATE else SECONDS_LIMIT
            within = f"{gap} <= {seconds * 1_000_000}"
        case _:
            assert_never(tolerance.type)
    return f"({same} OR coalesce({within}, FALSE))"
