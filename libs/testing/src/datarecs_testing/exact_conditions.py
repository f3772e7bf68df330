"""Conditions with the same meaning in every dialect, others, and rows to distinguish them.

The scan kernel and the databases evaluate the first over these rows and must keep exactly those
that the oracle keeps; the others are never translated, each for the reason beside it.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

from datarecs_core.comparison.expressions.condition import parse_condition
from datarecs_core.comparison.values.translating import canonical
from datarecs_testing.tables import Row, Table, a_table

COLUMNS = "id int, n int, m decimal(12,2), t text, b bool, d date, i instant, l local_timestamp"
_NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ROWS: tuple[Row, ...] = (
    (1, 0, Decimal("0.00"), "a", True, date(2026, 1, 31), _NOON, _NOON.replace(tzinfo=None)),
    (2, 2**62, Decimal("9999999999.99"), "A", False, date(1, 1, 1), _NOON, None),
    (3, -(2**62), Decimal("-0.01"), "a ", None, date(9999, 12, 31), None, None),
    (4, 2, Decimal("1.00"), "é", True, date(1969, 12, 31), _NOON.replace(microsecond=1), None),
    (5, 3, Decimal("1.01"), 'it\'s \\ "x"', False, None, _NOON.replace(year=1500), None),
    (6, 10, None, "", True, date(2026, 2, 1), None, _NOON.replace(tzinfo=None, microsecond=1)),
    (7, None, Decimal("2.50"), None, None, None, None, None),
    (8, 4, Decimal("4.00"), "e\u0301", None, None, None, None),
    (9, 9, Decimal("10.00"), "z", None, None, None, None),
)
TABLE: Table = a_table("rows", COLUMNS, *ROWS)
EXACT = (
    "n > 2",
    "n = 2.0 OR n = 10",
    "n IN (2, 3, 4611686018427387904)",
    "n >= m",
    "m = 1",
    "m > 1.005",
    "m <> 1.01 AND NOT m < 0",
    "m BETWEEN -0.01 AND 1",
    "NOT (m > 1)",
    "NOT m IN (1, 2.5) OR t IS NULL",
    "t = 'a'",
    "t <> 'a'",
    "t < 'a'",
    "t >= 'e' AND t < 'f'",
    "t > 'z'",
    "t = 'it''s \\ \"x\"'",
    "t = ''",
    "t IS NOT NULL AND m IS NULL",
    "b",
    "NOT b",
    "b = FALSE OR d = DATE '2026-01-31'",
    "d > DATE '2026-01-01'",
    "d <= DATE '1969-12-31'",
    "i = TIMESTAMP '2026-01-31T12:00:00Z'",
    "i > TIMESTAMP '2026-01-31T13:00:00+01:00'",
    "i < TIMESTAMP '1582-10-04T00:00:00Z'",
    "l > TIMESTAMP '2026-01-31T12:00:00'",
    "l = TIMESTAMP '2026-01-31T12:00:00.000001'",
)
DOUBTFUL = (
    ("t LIKE 'a%'", "LIKE is more"),
    ("lower(t) = 'a'", "LOWER is more"),
    ("n / 2 = 1", "the sign /"),
    ("f > 0.1", "f is float64"),
    ("loose = 1", "without declared digits"),
    ("u = 'x'", "u is uuid"),
    ("n = '1'", "two types"),
    ("d = TIMESTAMP '2026-01-31T00:00:00'", "two types"),
    ("i = TIMESTAMP '2026-01-31T00:00:00'", "two types"),
    ("n = NULL", "compares with NULL"),
    ("n", "boolean"),
    ("w = 0.000000000001", "more than 38 digits"),
    ("absent = 1", "not read as a column"),
    ("i = TIMESTAMP '2026-01-31T12:00:00.000000001Z'", "finer than a microsecond"),
)
"""Condition, and part of the reason; over `COLUMNS` and `OTHERS`."""
OTHERS = "f float64, loose decimal, u uuid, w decimal(38,0)"


def matching_ids(condition: str, rows: Sequence[Row] = ROWS) -> list[object]:
    """The ids of the rows that match, by the oracle."""
    parsed = parse_condition(condition)
    ids = []
    for row in rows:
        values = {
            name: canonical(value, kind, "rows")
            for (name, kind), value in zip(TABLE.columns, row, strict=True)
        }
        if parsed.admits(values):
            ids.append(row[0])
    return ids
