"""Captures of PostgreSQL: figures of one snapshot, with the texts that files have."""

from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from threading import Event, Thread
from typing import LiteralString

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from datarecs_connectors.capturing.statistics import statistics_engine
from datarecs_connectors.typed_text import TypedColumn, arrow_type
from datarecs_core.captures.request import (
    CapturePolicy,
    ColumnChoice,
    Output,
)
from datarecs_core.jobs.types import parse_type
from datarecs_testing.captured_database import ALL, CapturedDatabase

pytestmark = pytest.mark.integration
FIGURES: list[tuple[str, tuple[str, str], tuple[str | None, ...]]] = [
    ("bigint", ("9007199254740993", "-2"), ("-2", "9007199254740993", "8")),
    ("numeric(12,2)", ("1.10", "1.20"), ("1.1", "1.2", "8")),
    ("numeric", ("1e20", "0.500"), ("0.5", "100000000000000000000", "12")),
    ("numeric", ("NaN", "7"), ("7", "NaN", "2")),
    ("float8", ("0.1", "1e300"), ("0.1", "1e+300", "8")),
    ("float8", ("-0", "-0"), ("0.0", "0.0", "8")),
    ("float8", ("-Infinity", "NaN"), ("-Infinity", "NaN", "8")),
    ("float4", ("0.1", "2.5"), ("0.1", "2.5", "4")),
    ("text", ("Zug", "\u00e4rger"), ("Zug", "\u00e4rger", "4.5")),
    ("char(5)", ("ab", "b"), ("ab", "b", "1.5")),
    ("boolean", ("true", "false"), ("false", "true", "1")),
    ("bytea", (r"\x00ff", r"\x"), ("", "AP8=", "1")),
    (
        "uuid",
        ("6F9619FF-8B86-D011-B42D-00C04FC964FF", "00000000-0000-0000-0000-000000000001"),
        ("00000000-0000-0000-0000-000000000001", "6f9619ff-8b86-d011-b42d-00c04fc964ff", "16"),
    ),
    ("date", ("0044-03-15 BC", "2026-01-31"), ("-0043-03-15", "2026-01-31", "4")),
    ("date", ("infinity", "12026-01-31"), ("+12026-01-31", "Infinity", "4")),
    (
        "timestamptz",
        ("2026-01-31 12:00+02", "2026-01-31 12:00:00.5Z"),
        ("2026-01-31T10:00:00.000000Z", "2026-01-31T12:00:00.500000Z", "8"),
    ),
    (
        "timestamp(3)",
        ("1969-12-31 23:59:59.123", "-infinity"),
        ("-Infinity", "1969-12-31T23:59:59.123", "8"),
    ),
    ("time", ("00:00", "23:59:59.25"), ("00:00:00.000000", "23:59:59.250000", "8")),
    ("jsonb", ("{}", "[1, 2]"), (None, None, "4")),
    ("interval", ("1 day", "2 days"), (None, None, None)),
]


@pytest.mark.parametrize(("kind", "values", "expected"), FIGURES)
def test_figures_have_canonical_texts(
    database: CapturedDatabase, kind: str, values: tuple[str, str], expected: tuple[str | None, ...]
) -> None:
    with psycopg.connect(database.admin, autocommit=True) as session:
        session.execute(f"CREATE TABLE t (c {kind}); GRANT SELECT ON t TO PUBLIC")
        first, second = (sql.Literal(value) for value in values)
        session.execute(sql.SQL("INSERT INTO t VALUES ({}), ({}), (NULL)").format(first, second))
    captured = database.capture("t")
    (stats,) = captured.columns
    assert (stats.min, stats.max, stats.average_width) == expected
    assert (captured.rows, stats.rows, stats.nulls) == (3, 3, 1)
    assert captured.is_complete is (kind != "interval")


SAME: list[tuple[str, str, list[object]]] = [
    ("bigint", "int", [2**63 - 1, -(2**63), None]),
    ("numeric(38,10)", "decimal(38,10)", [Decimal("-0.1"), Decimal(12345678901234567890), None]),
    ("numeric(5,2)", "decimal(5,2)", [Decimal("0.10"), Decimal("999.99")]),
    ("float8", "float64", [0.1, -0.0, 5e-324, float("nan")]),
    ("float8", "float64", [float("-inf"), 1.7976931348623157e308]),
    ("float4", "float32", [3.4028234663852886e38, 1.401298464324817e-45]),
    ("text", "text", ["\U0001f600", "\uffff", "", "Z", "a"]),
    ("boolean", "bool", [True, None, True]),
    ("bytea", "binary", [b"\x00", b"\x00\x00", b"\xff"]),
    ("date", "date", [date(1, 1, 1), date(9999, 12, 31)]),
    ("time", "time", [time(23, 59, 59, 999999), time(0)]),
    ("timestamp", "local_timestamp", [datetime(1, 1, 1), datetime(2026, 1, 31, 12, 0, 0, 1)]),  # noqa: DTZ001  without a zone, as the type
    ("timestamptz", "instant", [datetime(2026, 1, 31, 12, tzinfo=UTC), None]),
]


@pytest.mark.parametrize(("native", "canonical", "values"), SAME)
def test_figures_are_the_same_as_of_a_file_with_the_same_values(
    database: CapturedDatabase, native: str, canonical: str, values: list[object]
) -> None:
    with psycopg.connect(database.admin, autocommit=True) as session:
        session.execute(f"CREATE TABLE t (c {native}); GRANT SELECT ON t TO PUBLIC")
        for value in values:
            session.execute("INSERT INTO t VALUES (%s)", (value,))
    kind = parse_type(canonical)
    column = TypedColumn(pa.array(values, arrow_type(kind)), None)
    with statistics_engine() as engine:
        (expected,) = engine.of_file([("c", kind)], [(len(values), [column])]).columns
    (stats,) = database.capture("t").columns
    without_sketch = replace(expected, ndv=None, ndv_method=None, sketch=None)
    # A number of PostgreSQL may be NaN, and one of a file may not.
    nans = 0 if canonical.startswith("decimal") else expected.nans
    assert stats == replace(without_sketch, nans=nans)


def test_nans_are_counted_and_are_no_nulls(database: CapturedDatabase) -> None:
    stats = database.stats(
        "CREATE TABLE t (c float8); INSERT INTO t VALUES ('NaN'), ('NaN'), (NULL), (1)"
    )
    assert (stats.nans, stats.nulls, stats.max) == (2, 1, "NaN")
    assert database.stats("DROP TABLE t; CREATE TABLE t (c text)").nans is None


def test_settings_of_the_login_change_no_text(database: CapturedDatabase) -> None:
    database.run("""
        CREATE TABLE t (at timestamptz, day date, ratio float8);
        INSERT INTO t VALUES ('2026-07-01 00:00Z', '2026-07-01', 0.1);
    """)
    before = database.capture("t").columns
    with psycopg.connect(database.admin, autocommit=True) as session:
        for setting in (
            "timezone = 'Asia/Tokyo'",
            "datestyle = 'SQL, DMY'",
            "extra_float_digits = -15",
            "default_transaction_read_only = off",
        ):
            session.execute(
                sql.SQL("ALTER ROLE {} SET {}").format(
                    sql.Identifier(database.config.user),
                    sql.SQL(setting),
                )
            )
    assert database.capture("t").columns == before


@pytest.mark.case("Q47")
def test_figures_under_concurrent_writes_are_those_of_one_snapshot(
    database: CapturedDatabase,
) -> None:
    """Each transaction adds a row with 1 and a row with NULL, and doubles the table's only pair."""
    database.run("""
        CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, c int);
        INSERT INTO t (c) VALUES (1), (NULL);
    """)
    stop, written = Event(), Event()

    def write() -> None:
        with psycopg.connect(database.admin) as session:
            while not stop.is_set():
                with session.transaction():
                    session.execute("INSERT INTO t (c) VALUES (1)")
                    session.execute("INSERT INTO t (c) VALUES (NULL)")
                    session.execute("UPDATE t SET c = c WHERE id <= 2")
                written.set()

    with ExitStack() as closing:
        for _ in range(2):
            writer = Thread(target=write)
            writer.start()
            closing.callback(writer.join)
        closing.callback(stop.set)
        assert written.wait(10)
        captured = [database.capture("t") for _ in range(10)]
    for one in captured:
        identity, value = one.columns
        assert value.nulls == one.rows - (value.nulls or 0)
        assert (identity.ndv, identity.ndv_method) == (str(one.rows), "exact")
    assert captured[-1].rows > captured[0].rows
    assert captured[-1].snapshot.committed_at > captured[0].snapshot.committed_at
    assert len({one.snapshot.native_id for one in captured}) == len(captured)


def test_a_truncate_between_lock_and_count_is_impossible(database: CapturedDatabase) -> None:
    """Another session truncates and inserts; a capture has the old rows or the new one."""
    database.run("CREATE TABLE t (c int); INSERT INTO t SELECT 1 FROM generate_series(1, 50)")
    stop = Event()

    def truncate() -> None:
        with psycopg.connect(database.admin) as session:
            while not stop.is_set():
                with session.transaction():
                    session.execute("TRUNCATE t")
                    session.execute("INSERT INTO t SELECT 1 FROM generate_series(1, 50)")

    writer = Thread(target=truncate)
    writer.start()
    try:
        rows = {database.capture("t").rows for _ in range(20)}
    finally:
        stop.set()
        writer.join()
    assert rows == {50}


def test_a_key_that_heirs_do_not_have_is_no_count_of_values(database: CapturedDatabase) -> None:
    database.run("""
        CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE heir () INHERITS (t);
        INSERT INTO t VALUES (1); INSERT INTO heir VALUES (1);
    """)
    captured = database.capture("t")
    assert (captured.rows, captured.columns[0].ndv) == (2, None)


def test_1600_columns_are_captured_in_one_statement(database: CapturedDatabase) -> None:
    columns = ", ".join(f"c{number} int" for number in range(1600))
    with psycopg.connect(database.admin, autocommit=True) as session:
        session.execute(f"CREATE TABLE t ({columns}); GRANT SELECT ON t TO PUBLIC")
        session.execute("INSERT INTO t (c1599) VALUES (7)")
    captured = database.capture("t")
    assert len(captured.columns) == 1600
    assert (captured.columns[0].nulls, captured.columns[-1].max) == (1, "7")


@pytest.mark.parametrize(("rows", "expected"), [("", 0), ("DEFAULT VALUES", 1)])
def test_a_table_without_columns_has_rows(
    database: CapturedDatabase, rows: LiteralString, expected: int
) -> None:
    database.run("CREATE TABLE t ()")
    if rows:
        database.run(f"INSERT INTO t {rows}")
    captured = database.capture("t")
    assert (captured.rows, captured.columns, captured.is_complete) == (expected, (), True)


def test_an_empty_table_has_no_bounds_and_is_complete(database: CapturedDatabase) -> None:
    stats = database.stats("CREATE TABLE t (c int PRIMARY KEY)")
    assert (stats.rows, stats.nulls, stats.min, stats.max, stats.ndv) == (0, 0, None, None, "0")
    assert database.capture("t").is_complete


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        (replace(ALL, column_choice=ColumnChoice.FIRST_N, first_columns=2), ["a", "b"]),
        (replace(ALL, column_choice=ColumnChoice.EXPLICIT_ONLY, columns=("c", "x")), ["c"]),
        (replace(ALL, outputs=(Output.TABLE_STATS,)), []),
        (ALL, ["a", "b", "c"]),
    ],
)
def test_only_columns_of_the_policy_are_captured(
    database: CapturedDatabase, policy: CapturePolicy, names: list[str]
) -> None:
    database.run("CREATE TABLE t (a int, b int, c int); INSERT INTO t VALUES (1, 2, 3)")
    captured = database.capture("t", policy)
    assert [each.name for each in captured.columns] == names
    assert captured.rows == 1


def test_a_bound_that_is_too_long_is_absent_and_reported(database: CapturedDatabase) -> None:
    stats = database.stats(
        "CREATE TABLE t (c text, d int); INSERT INTO t VALUES (repeat('x', 1025), 1), ('a', 2)"
    )
    assert (stats.min, stats.max) == ("a", None)
    assert not database.capture("t").is_complete
