"""Rows for every entry of the allow-list: an expression, and what each database must answer.

One table of values for all: NULL, empty, negative and extreme ones, letters beyond ASCII. The
connectors' evaluator and a real PostgreSQL run the same rows, and a test demands one of each entry.
"""

# ruff: noqa: DTZ001 - some of them are local times

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType

_MOST, _LEAST = 2**63 - 1, -(2**63)
_WIDEST, _NARROWEST = Decimal("9" * 38), Decimal("-" + "9" * 38)
COLUMNS: Sequence[tuple[str, CanonicalType, Sequence[object]]] = (
    ("n", types.INT, (7, -7, 0, None, _MOST)),
    (
        "a",
        types.decimal(12, 2),
        (Decimal("1.25"), Decimal("-1.25"), Decimal("0.00"), None, Decimal("9999999999.99")),
    ),
    ("w", types.decimal(38, 0), (_WIDEST, _NARROWEST, Decimal(0), None, Decimal(5))),
    ("f", types.FLOAT64, (0.1, -2.5, 1e-7, None, 123456789.125)),
    ("g", types.FLOAT32, (0.5, -2.5, 0.0, None, 16777216.0)),
    ("s", types.TEXT, (" Ab ", "", "Éé日本🙂x", None, "o'x\\y%_z")),
    ("t", types.TEXT, ("12.50", "-3", "0", None, "7")),
    (
        "d",
        types.DATE,
        (date(2026, 2, 28), date(1969, 12, 31), date(1, 1, 1), None, date(9999, 12, 31)),
    ),
    (
        "e",
        types.DATE,
        (date(2024, 2, 29), date(1970, 1, 1), date(1, 1, 2), date(2026, 1, 1), date(9999, 1, 1)),
    ),
    (
        "i",
        types.INSTANT,
        (
            datetime(2026, 1, 1, 0, 30, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            datetime(2000, 2, 29, tzinfo=UTC),
            None,
            datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC),
        ),
    ),
    (
        "l",
        types.LOCAL_TIMESTAMP,
        (
            datetime(2026, 1, 1, 0, 30),
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            datetime(2000, 2, 29),
            None,
            datetime(2026, 12, 31, 23, 59, 59),
        ),
    ),
    ("b", types.BOOL, (True, False, True, None, False)),
    ("u", types.UUID, (UUID(int=1), UUID(int=2**128 - 1), UUID(int=0), None, UUID(int=255))),
)
"""Name, type and the values of five rows."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An expression and its value in each row."""

    expression: str
    type: CanonicalType
    values: tuple[object, ...]


def _decimals(*written: str | None) -> tuple[Decimal | None, ...]:
    return tuple(None if each is None else Decimal(each) for each in written)


_T, _F = True, False
ANSWERS: Sequence[Answer] = (
    Answer("n = 7", types.BOOL, (_T, _F, _F, None, _F)),
    Answer("n == -7", types.BOOL, (_F, _T, _F, None, _F)),
    Answer("s = ''", types.BOOL, (_F, _T, _F, None, _F)),
    Answer("s = 'o''x\\y%_z'", types.BOOL, (_F, _F, _F, None, _T)),
    Answer("b = TRUE", types.BOOL, (_T, _F, _T, None, _F)),
    Answer("f = 0.1", types.BOOL, (_T, _F, _F, None, _F)),
    Answer("n <> 0", types.BOOL, (_T, _T, _F, None, _T)),
    Answer("a != 1.25", types.BOOL, (_F, _T, _T, None, _T)),
    Answer("w < 6", types.BOOL, (_F, _T, _T, None, _T)),
    Answer("s < 'é'", types.BOOL, (_T, _T, _T, None, _T)),
    Answer("n <= a", types.BOOL, (_F, _T, _T, None, _F)),
    Answer("d > e", types.BOOL, (_T, _F, _F, None, _T)),
    Answer("i >= TIMESTAMP '2000-02-29T00:00:00Z'", types.BOOL, (_T, _F, _T, None, _T)),
    Answer("l >= TIMESTAMP '2000-02-29 00:00:00'", types.BOOL, (_T, _F, _T, None, _T)),
    Answer("n > 0 AND b", types.BOOL, (_T, _F, _F, None, _F)),
    Answer("n > 0 OR b", types.BOOL, (_T, _F, _T, None, _T)),
    Answer("NOT b", types.BOOL, (_F, _T, _F, None, _T)),
    Answer("t IN ('0', '7', NULL)", types.BOOL, (None, None, _T, None, _T)),
    Answer("n NOT IN (7, 0)", types.BOOL, (_F, _T, _F, None, _T)),
    Answer("a BETWEEN -1.25 AND 1", types.BOOL, (_F, _T, _T, None, _F)),
    Answer(
        "d NOT BETWEEN DATE '1969-12-31' AND DATE '2026-02-28'", types.BOOL, (_F, _F, _T, None, _T)
    ),
    Answer("n IS NULL", types.BOOL, (_F, _F, _F, _T, _F)),
    Answer("s IS NOT NULL", types.BOOL, (_T, _T, _T, _F, _T)),
    Answer("s LIKE '%b%'", types.BOOL, (_T, _F, _F, None, _F)),
    Answer("s LIKE '______'", types.BOOL, (_F, _F, _T, None, _F)),
    Answer("s LIKE '%\\\\y\\%\\_z'", types.BOOL, (_F, _F, _F, None, _T)),
    Answer("s NOT LIKE '%'", types.BOOL, (_F, _F, _F, None, _F)),
    Answer(
        "CASE WHEN n > 0 THEN 'plus' WHEN n < 0 THEN 'minus' END",
        types.TEXT,
        ("plus", "minus", None, None, "plus"),
    ),
    Answer(
        "CASE t WHEN '0' THEN 1 WHEN '7' THEN 2.5 ELSE n END",
        types.decimal(20, 1),
        _decimals("7", "-7", "1", None, "2.5"),
    ),
    Answer("COALESCE(n, 0)", types.INT, (7, -7, 0, 0, _MOST)),
    Answer(
        "COALESCE(d, e)",
        types.DATE,
        (
            date(2026, 2, 28),
            date(1969, 12, 31),
            date(1, 1, 1),
            date(2026, 1, 1),
            date(9999, 12, 31),
        ),
    ),
    Answer(
        "COALESCE(i, TIMESTAMP '2026-01-01 00:00:00Z')",
        types.INSTANT,
        (
            datetime(2026, 1, 1, 0, 30, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            datetime(2000, 2, 29, tzinfo=UTC),
            datetime(2026, 1, 1, tzinfo=UTC),
            datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC),
        ),
    ),
    Answer("NULLIF(t, '7')", types.TEXT, ("12.50", "-3", "0", None, None)),
    Answer("GREATEST(n, 0)", types.INT, (7, 0, 0, 0, _MOST)),
    Answer("GREATEST(s, 'Z')", types.TEXT, ("Z", "Z", "Éé日本🙂x", "Z", "o'x\\y%_z")),
    Answer("LEAST(a, 0.5)", types.decimal(12, 2), _decimals("0.5", "-1.25", "0", "0.5", "0.5")),
    Answer("CAST(a AS int)", types.INT, (1, -1, 0, None, 10000000000)),
    Answer("CAST(CAST(2.5 AS decimal(3,1)) AS int)", types.INT, (3,) * 5),
    Answer("CAST(-2.5 AS int)", types.INT, (-3,) * 5),
    Answer(
        "CAST(a AS decimal(12,1))",
        types.decimal(12, 1),
        _decimals("1.3", "-1.3", "0", None, "10000000000.0"),
    ),
    Answer(
        "CAST(n AS decimal(21,2))",
        types.decimal(21, 2),
        _decimals("7", "-7", "0", None, f"{_MOST}.00"),
    ),
    Answer(
        "CAST(f AS decimal(18,4))",
        types.decimal(18, 4),
        _decimals("0.1", "-2.5", "0", None, "123456789.125"),
    ),
    Answer(
        "CAST(g AS decimal(18,1))",
        types.decimal(18, 1),
        _decimals("0.5", "-2.5", "0", None, "16777216.0"),
    ),
    Answer(
        "CAST(t AS decimal(10,2))", types.decimal(10, 2), _decimals("12.5", "-3", "0", None, "7")
    ),
    Answer(
        "CAST(CASE WHEN b THEN 'true' ELSE 'false' END AS bool)", types.BOOL, (_T, _F, _T, _F, _F)
    ),
    Answer("CAST('2024-02-29' AS date)", types.DATE, (date(2024, 2, 29),) * 5),
    Answer("CAST(n AS text)", types.TEXT, ("7", "-7", "0", None, str(_MOST))),
    Answer("CAST(a AS text)", types.TEXT, ("1.25", "-1.25", "0.00", None, "9999999999.99")),
    Answer(
        "CAST(a * a AS text)",
        types.TEXT,
        ("1.5625", "1.5625", "0.0000", None, "99999999999800000000.0001"),
    ),
    Answer("CAST(b AS text)", types.TEXT, ("true", "false", "true", None, "false")),
    Answer(
        "CAST(u AS text)",
        types.TEXT,
        (str(UUID(int=1)), str(UUID(int=2**128 - 1)), str(UUID(int=0)), None, str(UUID(int=255))),
    ),
    Answer(
        "CAST(i AS date)",
        types.DATE,
        (date(2026, 1, 1), date(1969, 12, 31), date(2000, 2, 29), None, date(2026, 12, 31)),
    ),
    Answer(
        "CAST(l AS date)",
        types.DATE,
        (date(2026, 1, 1), date(1969, 12, 31), date(2000, 2, 29), None, date(2026, 12, 31)),
    ),
    Answer(
        "CAST(e AS local_timestamp)",
        types.LOCAL_TIMESTAMP,
        (
            datetime(2024, 2, 29),
            datetime(1970, 1, 1),
            datetime(1, 1, 2),
            datetime(2026, 1, 1),
            datetime(9999, 1, 1),
        ),
    ),
    Answer("n + -7", types.INT, (0, -14, -7, None, _MOST - 7)),
    Answer(
        "a + 0.005",
        types.decimal(14, 3),
        _decimals("1.255", "-1.245", "0.005", None, "9999999999.995"),
    ),
    Answer(
        "e + 1",
        types.DATE,
        (date(2024, 3, 1), date(1970, 1, 2), date(1, 1, 3), date(2026, 1, 2), date(9999, 1, 2)),
    ),
    Answer("n - n", types.INT, (0, 0, 0, None, 0)),
    Answer(
        "a - n",
        types.decimal(22, 2),
        _decimals("-5.75", "5.75", "0", None, "-9223372026854775807.01"),
    ),
    Answer(
        "e - 1",
        types.DATE,
        (
            date(2024, 2, 28),
            date(1969, 12, 31),
            date(1, 1, 1),
            date(2025, 12, 31),
            date(9998, 12, 31),
        ),
    ),
    Answer("d - e", types.INT, (730, -1, -1, None, 364)),
    Answer(
        "a * a * a",
        types.decimal(36, 6),
        _decimals("1.953125", "-1.953125", "0", None, "999999999997000000000002999999.999999"),
    ),
    Answer("a * 2", types.decimal(13, 2), _decimals("2.5", "-2.5", "0", None, "19999999999.98")),
    Answer(
        "a * 0.01", types.decimal(14, 4), _decimals("0.0125", "-0.0125", "0", None, "99999999.9999")
    ),
    Answer("COALESCE(n, 1) * 1", types.INT, (7, -7, 0, 1, _MOST)),
    Answer("-a", types.decimal(12, 2), _decimals("-1.25", "1.25", "0", None, "-9999999999.99")),
    Answer("ABS(w)", types.decimal(38, 0), (_WIDEST, _WIDEST, Decimal(0), None, Decimal(5))),
    Answer("SIGN(w)", types.INT, (1, -1, 0, None, 1)),
    Answer("SIGN(n)", types.INT, (1, -1, 0, None, 1)),
    Answer(
        "ROUND(a, 1)", types.decimal(12, 1), _decimals("1.3", "-1.3", "0", None, "10000000000.0")
    ),
    Answer("ROUND(a)", types.decimal(11, 0), _decimals("1", "-1", "0", None, "10000000000")),
    Answer("ROUND(n, 2)", types.INT, (7, -7, 0, None, _MOST)),
    Answer("FLOOR(a)", types.decimal(11, 0), _decimals("1", "-2", "0", None, "9999999999")),
    Answer("CEIL(a)", types.decimal(11, 0), _decimals("2", "-1", "0", None, "10000000000")),
    Answer("t || '-' || s", types.TEXT, ("12.50- Ab ", "-3-", "0-Éé日本🙂x", None, "7-o'x\\y%_z")),
    Answer("CONCAT(t, s)", types.TEXT, ("12.50 Ab ", "-3", "0Éé日本🙂x", None, "7o'x\\y%_z")),
    Answer("LOWER(s)", types.TEXT, (" ab ", "", "Éé日本🙂x", None, "o'x\\y%_z")),
    Answer("UPPER(s)", types.TEXT, (" AB ", "", "Éé日本🙂X", None, "O'X\\Y%_Z")),
    Answer("TRIM(s)", types.TEXT, ("Ab", "", "Éé日本🙂x", None, "o'x\\y%_z")),
    Answer("TRIM('\u00a0 x \t')", types.TEXT, ("\u00a0 x \t",) * 5),
    Answer("LTRIM(s)", types.TEXT, ("Ab ", "", "Éé日本🙂x", None, "o'x\\y%_z")),
    Answer("RTRIM(s)", types.TEXT, (" Ab", "", "Éé日本🙂x", None, "o'x\\y%_z")),
    Answer("LEFT(s, 5)", types.TEXT, (" Ab ", "", "Éé日本🙂", None, "o'x\\y")),
    Answer("LEFT('e\u0301x', 1)", types.TEXT, ("e",) * 5),
    Answer("LEFT(s, 0)", types.TEXT, ("", "", "", None, "")),
    Answer("RIGHT(s, 2)", types.TEXT, ("b ", "", "🙂x", None, "_z")),
    Answer("RIGHT(s, 0)", types.TEXT, ("", "", "", None, "")),
    Answer("SUBSTRING(s, 3)", types.TEXT, ("b ", "", "日本🙂x", None, "x\\y%_z")),
    Answer("SUBSTRING(s, 2, 3)", types.TEXT, ("Ab ", "", "é日本", None, "'x\\")),
    Answer("LENGTH(s)", types.INT, (4, 0, 6, None, 8)),
    Answer("LENGTH('e\u0301')", types.INT, (2,) * 5),
    Answer("REPLACE(s, 'x', '')", types.TEXT, (" Ab ", "", "Éé日本🙂", None, "o'\\y%_z")),
    Answer("LPAD(s, 5, '日0')", types.TEXT, ("日 Ab ", "日0日0日", "Éé日本🙂", None, "o'x\\y")),
    Answer("RPAD(s, 5, '-')", types.TEXT, (" Ab -", "-----", "Éé日本🙂", None, "o'x\\y")),
    Answer("YEAR(d)", types.INT, (2026, 1969, 1, None, 9999)),
    Answer("YEAR(e - 366)", types.INT, (2023, 1968, 0, 2024, 9997)),
    Answer("MONTH(i)", types.INT, (1, 12, 2, None, 12)),
    Answer("EXTRACT(DAY FROM l)", types.INT, (1, 31, 29, None, 31)),
    Answer("DAY(d)", types.INT, (28, 31, 1, None, 31)),
    Answer("CAST(NULL AS decimal(5,2))", types.decimal(5, 2), (None,) * 5),
)
FAILING: Sequence[str] = (
    "n + 1",
    "n * 2",
    "-(n + CAST(-9223372036854775807 AS int) - 2)",
    "w + 1",
    "w * 10",
    "CAST(w AS int)",
    "CAST(a AS decimal(3,2))",
    "CAST(t AS int)",
    "CAST(s AS decimal(10,2))",
    "CAST(s AS bool)",
    "CAST(t || '-01-01' AS date)",
    "CAST('2026-02-30' AS date)",
    "CAST(f AS decimal(3,2))",
    "e + n",
)
"""Expressions that have no value in some row: the run ends with one clear error."""
REFUSED: Sequence[str] = (
    "from_xml('<a/>', 'b STRING', map('rowValidationXSDPath', 'http://x')) IS NULL",
    "from_json(a, 'b INT') IS NULL",
    "from_csv(a, 'b INT') IS NULL",
    "schema_of_json('{}') = 'x'",
    "schema_of_xml('<a/>') = 'x'",
    "xpath(a, '/b') IS NULL",
    "xpath_string(a, '/b') = 'x'",
    "java_method('java.lang.System', 'getenv', 'HOME') = 'x'",
    "reflect('java.lang.System', 'getenv', 'HOME') = 'x'",
    "repeat('a', 1000000000) = 'x'",
    "sequence(1, 1000000000) IS NULL",
    "space(1000000000) = ''",
    "generate_series(1, 1000000000) IS NULL",
    "lpad(a, 1000000000, 'x') = 'x'",
    "replace(a, b, c) = 'x'",
    "read_csv('/etc/passwd') IS NULL",
    "read_text('/etc/passwd') IS NULL",
    "getenv('HOME') = 'x'",
    "current_setting('x') = 'x'",
    "set_config('a', 'b', false) = 'x'",
    "pg_read_file('/etc/passwd') = 'x'",
    "pg_sleep(10) IS NULL",
    "pg_terminate_backend(1)",
    "dblink('host=x', 'select 1') IS NULL",
    "lo_export(1, '/tmp/x') = 1",
    "nextval('s') = 1",
    "query_to_xml('select 1', true, true, '') IS NULL",
    "a IN (SELECT 1)",
    "(SELECT 1) = 1",
    "EXISTS (SELECT 1)",
    "row_number() OVER (ORDER BY a) = 1",
    "COALESCE(a) OVER () = 1",
    "SUM(a) = 1",
    "count(*) = 1",
    "transform(a, x -> x + 1) IS NULL",
    "map('a', 'b') IS NULL",
    "array[1, 2] IS NULL",
    "a[1] = 1",
    "{'a': 1} IS NULL",
    "a = ${env:HOME}",
    "a = @@version",
    "a / 2 = 1",
    "a % 2 = 1",
    "a::int = 1",
    "TRY_CAST(a AS int) = 1",
    "a ~ 'x+'",
    "a = E'x'",
    "a = $$x$$",
    "a = 1; DROP TABLE t",
    "1 = 1) OR (1 = 1",
    "a = 1 -- AND b = 2",
    "a = /* x */ 1",
    "a = 'x' 'y'",
    "t.a = 1",
    "INTERVAL '1' DAY IS NULL",
    "now() > DATE '2026-01-01'",
    "random() > 0.5",
    "a COLLATE \"x\" = 'y'",
    "a = 1 LIMIT 1",
    "a = 'open",
    "a = \u201ctyped\u201d",
    "(" * 500 + "a" + ")" * 500,
    "NOT " * 500 + "a",
    "- " * 500 + "a = 1",
    "a" + " + a" * 500 + " = 1",
    "a" + " || 'x'" * 500 + " = 'x'",
    "CASE WHEN a THEN " * 500 + "1" + " END" * 500,
    "a" + " IS NULL" * 500,
)
"""Texts that no engine may ever see; each has a position."""
