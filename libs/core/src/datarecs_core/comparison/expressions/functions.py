"""The allow-list: every operator and function of job expressions, with its text per database.

An entry is here only if DuckDB and PostgreSQL answer the same for every value of its types; the
conformance table of `datarecs_testing.expressions` has rows for each. What is not here does not
exist. The page `docs/expressions.md` is printed from it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from datarecs_core.comparison.canonical import Tag, Value
from datarecs_core.comparison.expressions import signatures
from datarecs_core.comparison.expressions.signatures import Signature


class Dialect(StrEnum):
    """Of whom a text is understood."""

    DUCKDB = "duckdb"
    POSTGRES = "postgres"


Writer = Callable[[Sequence[str]], str]
"""From the texts of the arguments to the text of the call."""
Check = Callable[[Value | None], str | None]
"""What is wrong with a literal; it is given None where something else stands in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One operator or function."""

    name: str
    group: str
    syntax: str
    """As people write it."""
    meaning: str
    example: str
    count: tuple[int, int | None]
    """Least and most arguments."""
    result: Signature
    duckdb: Writer
    postgres: Writer
    meets: bool = False
    """Arguments are first brought to the one type that holds them all."""
    literals: Mapping[int, Check] = field(default_factory=dict)
    """Arguments that must be literals."""
    aliases: tuple[str, ...] = ()

    def written(self, dialect: Dialect, arguments: Sequence[str]) -> str:
        return (self.duckdb if dialect is Dialect.DUCKDB else self.postgres)(arguments)


MAX_LENGTH = 1_000
"""Letters that LPAD and RPAD fill up to."""
_MAX_PLACE = 1_000_000
_MAX_SCALE = 18
_UPPER, _LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"


def _whole(least: int, most: int) -> Check:
    def check(value: Value | None) -> str | None:
        content = value.content if value is not None and value.tag is Tag.NUMBER else None
        is_whole = isinstance(content, Decimal) and content == content.to_integral_value()
        if isinstance(content, Decimal) and is_whole and least <= content <= most:
            return None
        return f"it takes a whole number from {least} to {most}, written out"

    return check


def _some_text(value: Value | None) -> str | None:
    is_some = value is not None and value.tag is Tag.TEXT and value.content
    return None if is_some else "it takes a text that is not empty, written out"


def _any_text(value: Value | None) -> str | None:
    is_text = value is not None and value.tag is Tag.TEXT
    return None if is_text else "it takes a text, written out"


def _pattern(value: Value | None) -> str | None:
    if value is None or value.tag is not Tag.TEXT:
        return "it takes a pattern, written out"
    rest = str(value.content).replace("\\\\", "").replace("\\%", "").replace("\\_", "")
    return "a backslash stands before %, _ or another backslash" if "\\" in rest else None


def _infix(sign: str) -> Writer:
    return lambda texts: f"({f' {sign} '.join(texts)})"


def _form(template: str) -> Writer:
    return lambda texts: template.format(*texts)


def _call(name: str) -> Writer:
    return lambda texts: f"{name}({', '.join(texts)})"


def _case(texts: Sequence[str]) -> str:
    pairs = zip(texts[:-1:2], texts[1::2], strict=True)
    whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    return f"(CASE {whens} ELSE {texts[-1]} END)"


def _in(texts: Sequence[str]) -> str:
    return f"({texts[0]} IN ({', '.join(texts[1:])}))"


_EMPTY: Mapping[int, Check] = {}


def _entry(  # noqa: PLR0913, PLR0917  a row of the table
    name: str,
    syntax: str,
    meaning: str,
    example: str,
    count: tuple[int, int | None],
    result: Signature,
    writer: Writer,
    *,
    group: str,
    postgres: Writer | None = None,
    meets: bool = False,
    literals: Mapping[int, Check] = _EMPTY,
    aliases: tuple[str, ...] = (),
) -> Entry:
    return Entry(
        name=name,
        group=group,
        syntax=syntax,
        meaning=meaning,
        example=example,
        count=count,
        result=result,
        duckdb=writer,
        postgres=postgres or writer,
        meets=meets,
        literals=literals,
        aliases=aliases,
    )


def _comparison(sign: str, meaning: str) -> Entry:
    return _entry(
        sign,
        f"a {sign} b",
        meaning,
        f"amount {sign} 100",
        (2, 2),
        signatures.compared,
        _infix(sign),
        group=_CONDITIONS,
        meets=True,
    )


_CONDITIONS, _CHOICES, _NUMBERS, _TEXTS, _DATES = (
    "Conditions",
    "NULL, choices and casts",
    "Numbers",
    "Texts",
    "Dates",
)
_ALL: tuple[Entry, ...] = (
    _comparison("=", "Equal; NULL where one is NULL. `==` is the same."),
    _comparison("<>", "Not equal. `!=` is the same."),
    _comparison("<", "Less. Texts compare by their code points."),
    _comparison("<=", "Less or equal."),
    _comparison(">", "Greater."),
    _comparison(">=", "Greater or equal."),
    _entry(
        "and",
        "a AND b",
        "Both hold.",
        "amount > 0 AND status = 'PAID'",
        (2, None),
        signatures.truths,
        _infix("AND"),
        group=_CONDITIONS,
    ),
    _entry(
        "or",
        "a OR b",
        "One of them holds.",
        "status = 'PAID' OR status = 'SENT'",
        (2, None),
        signatures.truths,
        _infix("OR"),
        group=_CONDITIONS,
    ),
    _entry(
        "not",
        "NOT a",
        "It does not hold; NULL stays NULL.",
        "NOT cancelled",
        (1, 1),
        signatures.truths,
        _form("(NOT {0})"),
        group=_CONDITIONS,
    ),
    _entry(
        "in",
        "a IN (b, ...)",
        "Equal to one of them; `NOT IN` denies it.",
        "currency IN ('EUR', 'USD')",
        (2, None),
        signatures.compared,
        _in,
        group=_CONDITIONS,
        meets=True,
    ),
    _entry(
        "between",
        "a BETWEEN b AND c",
        "From b to c, both included; `NOT BETWEEN` denies it.",
        "amount BETWEEN 1 AND 10",
        (3, 3),
        signatures.compared,
        _form("({0} BETWEEN {1} AND {2})"),
        group=_CONDITIONS,
        meets=True,
    ),
    _entry(
        "is_null",
        "a IS NULL",
        "There is no value; `IS NOT NULL` denies it.",
        "cancelled_on IS NULL",
        (1, 1),
        signatures.anything,
        _form("({0} IS NULL)"),
        group=_CONDITIONS,
    ),
    _entry(
        "like",
        "a LIKE 'pattern'",
        "`%` stands for any letters, `_` for one; a backslash makes `%`, `_` and itself plain. "
        "`NOT LIKE` denies it.",
        "name LIKE 'AB%'",
        (2, 2),
        signatures.pattern,
        _form("({0} LIKE {1} ESCAPE '\\')"),
        postgres=_form("({0} LIKE {1} ESCAPE E'\\\\')"),
        group=_CONDITIONS,
        literals={1: _pattern},
    ),
    _entry(
        "case",
        "CASE WHEN a THEN b ELSE c END",
        "The value behind the first condition that holds, else c, or NULL without ELSE. "
        "`CASE x WHEN a THEN b END` compares x with a.",
        "CASE WHEN side = 'D' THEN -amount ELSE amount END",
        (3, None),
        signatures.cases,
        _case,
        group=_CHOICES,
    ),
    _entry(
        "coalesce",
        "COALESCE(a, b, ...)",
        "The first that is not NULL.",
        "COALESCE(fee, 0)",
        (1, None),
        signatures.met,
        _call("coalesce"),
        group=_CHOICES,
        meets=True,
        aliases=("ifnull",),
    ),
    _entry(
        "nullif",
        "NULLIF(a, b)",
        "NULL where a equals b, else a.",
        "NULLIF(code, '')",
        (2, 2),
        signatures.chosen,
        _call("nullif"),
        group=_CHOICES,
        meets=True,
    ),
    _entry(
        "greatest",
        "GREATEST(a, b, ...)",
        "The greatest; NULL is skipped.",
        "GREATEST(amount, 0)",
        (2, None),
        signatures.chosen,
        _call("greatest"),
        group=_CHOICES,
        meets=True,
    ),
    _entry(
        "least",
        "LEAST(a, b, ...)",
        "The least; NULL is skipped.",
        "LEAST(amount, 0)",
        (2, None),
        signatures.chosen,
        _call("least"),
        group=_CHOICES,
        meets=True,
    ),
    _entry(
        "cast",
        "CAST(a AS type)",
        "The value in a canonical type. Numbers round half away from zero; a text that is no "
        "number, truth or date ends the run.",
        "CAST(amount AS decimal(20,4))",
        (1, 1),
        signatures.cast,
        _form("{0}"),
        group=_CHOICES,
    ),
    _entry(
        "+",
        "a + b",
        "The exact sum, or a date so many days later.",
        "amount + fee",
        (2, 2),
        signatures.sums,
        _infix("+"),
        group=_NUMBERS,
    ),
    _entry(
        "-",
        "a - b",
        "The exact difference, a date so many days earlier, or the days between two dates.",
        "amount - fee",
        (2, 2),
        signatures.differences,
        _infix("-"),
        group=_NUMBERS,
    ),
    _entry(
        "*",
        "a * b",
        "The exact product. There is no `/`: multiply by the reciprocal.",
        "amount * 0.01",
        (2, 2),
        signatures.products,
        _infix("*"),
        group=_NUMBERS,
    ),
    _entry(
        "neg",
        "-a",
        "The number with the other sign.",
        "-amount",
        (1, 1),
        signatures.same_number,
        _form("(- {0})"),
        group=_NUMBERS,
    ),
    _entry(
        "abs",
        "ABS(a)",
        "The number without its sign.",
        "ABS(amount)",
        (1, 1),
        signatures.same_number,
        _call("abs"),
        group=_NUMBERS,
    ),
    _entry(
        "sign",
        "SIGN(a)",
        "-1, 0 or 1.",
        "SIGN(amount)",
        (1, 1),
        signatures.sign,
        _call("sign"),
        postgres=_form("sign(CAST({0} AS numeric))"),
        group=_NUMBERS,
    ),
    _entry(
        "round",
        "ROUND(a, n)",
        "n places, 0 to 18, half away from zero; without n none.",
        "ROUND(amount, 2)",
        (1, 2),
        signatures.rounded,
        _call("round"),
        group=_NUMBERS,
        literals={1: _whole(0, _MAX_SCALE)},
    ),
    _entry(
        "floor",
        "FLOOR(a)",
        "The next whole number below.",
        "FLOOR(amount)",
        (1, 1),
        signatures.whole,
        _call("floor"),
        group=_NUMBERS,
    ),
    _entry(
        "ceil",
        "CEIL(a)",
        "The next whole number above.",
        "CEIL(amount)",
        (1, 1),
        signatures.whole,
        _call("ceil"),
        group=_NUMBERS,
        aliases=("ceiling",),
    ),
    _entry(
        "||",
        "a || b",
        "Both texts, one behind the other; NULL where one is NULL.",
        "branch || '-' || account",
        (2, 2),
        signatures.texts,
        _infix("||"),
        group=_TEXTS,
    ),
    _entry(
        "concat",
        "CONCAT(a, b, ...)",
        "The texts, one behind the other; NULL where one is NULL.",
        "CONCAT(branch, '-', account)",
        (1, None),
        signatures.texts,
        _infix("||"),
        group=_TEXTS,
    ),
    _entry(
        "lower",
        "LOWER(a)",
        "With a-z for A-Z; other letters stay.",
        "LOWER(status)",
        (1, 1),
        signatures.texts,
        _form(f"translate({{0}}, '{_UPPER}', '{_LOWER}')"),
        group=_TEXTS,
        aliases=("lcase",),
    ),
    _entry(
        "upper",
        "UPPER(a)",
        "With A-Z for a-z; other letters stay.",
        "UPPER(status)",
        (1, 1),
        signatures.texts,
        _form(f"translate({{0}}, '{_LOWER}', '{_UPPER}')"),
        group=_TEXTS,
        aliases=("ucase",),
    ),
    _entry(
        "trim",
        "TRIM(a)",
        "Without blanks (U+0020) at both ends.",
        "TRIM(code)",
        (1, 1),
        signatures.texts,
        _form("trim({0}, ' ')"),
        postgres=_form("btrim({0}, ' ')"),
        group=_TEXTS,
        aliases=("btrim",),
    ),
    _entry(
        "ltrim",
        "LTRIM(a)",
        "Without blanks at the beginning.",
        "LTRIM(code)",
        (1, 1),
        signatures.texts,
        _form("ltrim({0}, ' ')"),
        group=_TEXTS,
    ),
    _entry(
        "rtrim",
        "RTRIM(a)",
        "Without blanks at the end.",
        "RTRIM(code)",
        (1, 1),
        signatures.texts,
        _form("rtrim({0}, ' ')"),
        group=_TEXTS,
    ),
    _entry(
        "left",
        "LEFT(a, n)",
        "The first n code points.",
        "LEFT(iban, 2)",
        (2, 2),
        signatures.texts,
        _call("left"),
        group=_TEXTS,
        literals={1: _whole(0, _MAX_PLACE)},
    ),
    _entry(
        "right",
        "RIGHT(a, n)",
        "The last n code points.",
        "RIGHT(iban, 4)",
        (2, 2),
        signatures.texts,
        _call("right"),
        group=_TEXTS,
        literals={1: _whole(0, _MAX_PLACE)},
    ),
    _entry(
        "substring",
        "SUBSTRING(a, from, n)",
        "n code points from a place on, which counts from 1; without n up to the end.",
        "SUBSTRING(iban, 5, 8)",
        (2, 3),
        signatures.texts,
        _call("substring"),
        group=_TEXTS,
        literals={1: _whole(1, _MAX_PLACE), 2: _whole(0, _MAX_PLACE)},
        aliases=("substr",),
    ),
    _entry(
        "length",
        "LENGTH(a)",
        "How many code points.",
        "LENGTH(code)",
        (1, 1),
        signatures.length,
        _call("length"),
        group=_TEXTS,
        aliases=("char_length", "character_length"),
    ),
    _entry(
        "replace",
        "REPLACE(a, 'old', 'new')",
        "Every `old` replaced by `new`, which is not longer.",
        "REPLACE(iban, ' ', '')",
        (3, 3),
        signatures.replaced,
        _call("replace"),
        group=_TEXTS,
        literals={1: _some_text, 2: _any_text},
    ),
    _entry(
        "lpad",
        "LPAD(a, n, 'fill')",
        "n code points: filled at the beginning, or cut at the end.",
        "LPAD(account, 10, '0')",
        (3, 3),
        signatures.texts,
        _call("lpad"),
        group=_TEXTS,
        literals={1: _whole(0, MAX_LENGTH), 2: _some_text},
    ),
    _entry(
        "rpad",
        "RPAD(a, n, 'fill')",
        "n code points: filled or cut at the end.",
        "RPAD(account, 10, ' ')",
        (3, 3),
        signatures.texts,
        _call("rpad"),
        group=_TEXTS,
        literals={1: _whole(0, MAX_LENGTH), 2: _some_text},
    ),
    _entry(
        "year",
        "YEAR(a)",
        "Of a date or timestamp; instants in UTC. `EXTRACT(YEAR FROM a)` too.",
        "YEAR(booked_on)",
        (1, 1),
        signatures.date_part,
        _form("year({0})"),
        postgres=_form(
            "(CASE WHEN extract(year FROM {0}) < 0 THEN extract(year FROM {0}) + 1"
            " ELSE extract(year FROM {0}) END)"
        ),
        group=_DATES,
    ),
    _entry(
        "month",
        "MONTH(a)",
        "1 to 12.",
        "MONTH(booked_on)",
        (1, 1),
        signatures.date_part,
        _form("month({0})"),
        postgres=_form("extract(month FROM {0})"),
        group=_DATES,
    ),
    _entry(
        "day",
        "DAY(a)",
        "1 to 31.",
        "DAY(booked_on)",
        (1, 1),
        signatures.date_part,
        _form("day({0})"),
        postgres=_form("extract(day FROM {0})"),
        group=_DATES,
    ),
)
ENTRIES: Mapping[str, Entry] = {entry.name: entry for entry in _ALL}
FUNCTIONS: Mapping[str, str] = {
    name: entry.name
    for entry in _ALL
    if entry.syntax.startswith(f"{entry.name.upper()}(")
    for name in (entry.name, *entry.aliases)
}
"""The entry by each name that stands before a bracket."""
