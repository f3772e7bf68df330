"""Captures of PostgreSQL: what the catalog says, and figures of one snapshot."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from threading import Event, Thread
from typing import LiteralString

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from datarecs_application.ports.capturing import CaptureSource, FileRequest
from datarecs_connectors.capturing import postgres
from datarecs_connectors.capturing.opening import open_capture_source
from datarecs_connectors.capturing.postgres import PostgresCaptureSource
from datarecs_connectors.capturing.statistics import statistics_engine
from datarecs_connectors.errors import (
    PermissionDeniedError,
    QueryFailedError,
    SourceUnsupportedError,
    StatementTimeoutError,
)
from datarecs_connectors.postgres import PostgresConnector
from datarecs_connectors.registry import Surroundings
from datarecs_connectors.typed_text import TypedColumn, arrow_type
from datarecs_core.captures.request import (
    CapturePolicy,
    CaptureScope,
    ColumnChoice,
    ObjectName,
    Output,
)
from datarecs_core.captures.source_facts import CapturedTable, Completion
from datarecs_core.catalog.records import Constraint, ConstraintKind, ScalarStats
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.errors.run import RunDetail
from datarecs_core.jobs.definition import Limits
from datarecs_core.jobs.types import parse_type
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    PostgresConfig,
    SslMode,
)
from datarecs_testing.stack import PostgresServer

pytestmark = pytest.mark.integration
EVERYTHING = CaptureScope()
ALL = CapturePolicy(
    outputs=(Output.TABLE_STATS, Output.COLUMN_STATS), column_choice=ColumnChoice.ALL
)
ODD = 'od"d.T\u00e4ble \U0001f600'
"""A quote, a dot, a blank, upper case, an umlaut and an emoji."""


class LoopbackConnector(PostgresConnector):
    """Dials the test's server, which profile `server` never does."""

    def _address(self) -> str:
        return "127.0.0.1"


@dataclass
class Database:
    """A database of one test, and a login that may only read it."""

    admin: str
    config: PostgresConfig
    open: Callable[..., CaptureSource]

    def run(self, statement: LiteralString) -> None:
        with psycopg.connect(self.admin, autocommit=True) as session:
            session.execute(statement)
            session.execute(
                sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}").format(
                    sql.Identifier(self.config.user)
                )
            )

    @property
    def source(self) -> CaptureSource:
        return self.open()

    def capture(self, table: str, policy: CapturePolicy = ALL) -> CapturedTable:
        return self.source.capture_table(named(table), policy)

    def stats(self, definition: LiteralString) -> ScalarStats:
        """Of the first column of a table made by a statement."""
        self.run(definition)
        return self.capture("t").columns[0]


def named(table: str, schema: str = "public") -> ObjectName:
    return ObjectName(namespace=(schema,), name=table)


@pytest.fixture
def database(postgres_server: PostgresServer) -> Database:
    admin = postgres_server.fresh_database().replace("postgresql+psycopg", "postgresql")
    fields = psycopg.conninfo.conninfo_to_dict(admin)
    config = PostgresConfig(
        host="127.0.0.1",
        port=int(fields["port"] or 5432),
        database=str(fields["dbname"]),
        user=f"reader_{fields['dbname']}",
        sslmode=SslMode.DISABLE,
    )
    with psycopg.connect(admin, autocommit=True) as session:
        user = sql.Identifier(config.user)
        session.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret'").format(user))

    def opened(profile: Profile = Profile.LOCAL) -> CaptureSource:
        policy = Policy(purpose=Purpose.CONNECTION, profile=profile)
        if profile is Profile.LOCAL:
            return open_capture_source(
                "ledger",
                Connection(type=ConnectionType.POSTGRES, config=config),
                {"password": "secret"},
                Surroundings(roots=(), policy=policy, now=lambda: datetime(2026, 1, 1, tzinfo=UTC)),
            )
        connector = LoopbackConnector(
            source="ledger", config=config, password="secret", policy=policy
        )
        return PostgresCaptureSource(connector=connector)

    return Database(admin=admin, config=config, open=opened)


def test_relations_that_the_login_may_read_are_listed_once(database: Database) -> None:
    database.run("""
        CREATE TABLE plain (id int);
        CREATE TABLE parted (day date) PARTITION BY RANGE (day);
        CREATE TABLE parted_2026 PARTITION OF parted
          FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
        CREATE MATERIALIZED VIEW made AS SELECT 1 AS one;
        CREATE VIEW seen AS SELECT id FROM plain;
        CREATE SEQUENCE numbers;
        CREATE SCHEMA secret;
        CREATE TABLE secret.hidden (id int);
    """)
    listed = database.source.objects(EVERYTHING)
    assert listed.tables == (named("made"), named("parted"), named("plain"))
    assert listed.views == (named("seen"),)


@pytest.mark.parametrize(
    ("scope", "tables"),
    [
        (CaptureScope(namespaces=(("public",),)), ("a",)),
        (CaptureScope(namespaces=(("other",),)), ("b",)),
        (CaptureScope(tables=(named("b", "other"), named("absent"))), ("b",)),
        (CaptureScope(view=named("v")), ()),
    ],
)
def test_a_scope_selects_relations(
    database: Database, scope: CaptureScope, tables: tuple[str, ...]
) -> None:
    database.run("""
        CREATE SCHEMA other; GRANT USAGE ON SCHEMA other TO public;
        CREATE TABLE a (id int); CREATE TABLE other.b (id int);
        GRANT SELECT ON other.b TO public; CREATE VIEW v AS SELECT 1 AS one;
    """)
    listed = database.source.objects(scope)
    assert tuple(each.name for each in listed.tables) == tables
    assert listed.views == ((named("v"),) if scope.view or tables == ("a",) else ())


def test_a_named_relation_without_privilege_reports_the_missing_right(database: Database) -> None:
    database.run("CREATE SCHEMA secret; CREATE TABLE secret.hidden (id int)")
    hidden = named("hidden", "secret")
    source = database.source
    assert source.objects(EVERYTHING).tables == ()
    assert source.objects(CaptureScope(tables=(hidden,))).tables == (hidden,)
    for refused in (
        lambda: source.table(hidden, known=()),
        lambda: source.capture_table(hidden, ALL),
    ):
        with pytest.raises(PermissionDeniedError, match="grant") as caught:
            refused()
        assert caught.value.code is RunDetail.PERMISSION_DENIED


def test_a_table_has_the_columns_types_and_comments_of_the_server(database: Database) -> None:
    database.run("""
        CREATE DOMAIN money_amount AS numeric(12,2) NOT NULL;
        CREATE TYPE mood AS ENUM ('sad', 'happy');
        CREATE TABLE t (gone int, id bigint NOT NULL DEFAULT 7, amount money_amount,
          at timestamptz(3), tags text[], feels mood, twice int GENERATED ALWAYS AS (1 + 1) STORED);
        ALTER TABLE t DROP COLUMN gone;
        COMMENT ON TABLE t IS 'all of it'; COMMENT ON COLUMN t.id IS 'a number';
    """)
    table = database.source.table(named("t"), known=())
    assert [(one.field_id, one.name, one.type, one.nullable) for one in table.columns] == [
        (2, "id", "int", False),
        (3, "amount", "decimal(12,2)", True),
        (4, "at", "instant(3)", True),
        (5, "tags", "text[]", True),
        (6, "feels", "public.mood", True),
        (7, "twice", "int", True),
    ]
    assert [one.default for one in table.columns] == ["7", *[None] * 5]
    assert (table.columns[0].comment, table.comment) == ("a number", "all of it")
    assert (table.completion, table.format) == (Completion.DIRECT_STATS, "postgres")
    assert table.column_ids == "FIELD_ID"
    assert table.properties == {"kind": "table"}
    port, base = database.config.port, database.config.database
    assert table.uri == f"postgresql://127.0.0.1:{port}/{base}/public/t"


def test_constraints_have_their_columns_rules_and_actions(database: Database) -> None:
    database.run("""
        CREATE TABLE parent (a int, b int, PRIMARY KEY (b, a));
        CREATE TABLE child (id int PRIMARY KEY, a int, b int, c int NOT NULL,
          CONSTRAINT positive CHECK (c > 0), CONSTRAINT one_c UNIQUE (c, a),
          CONSTRAINT up FOREIGN KEY (b, a) REFERENCES parent (b, a)
            MATCH FULL ON UPDATE CASCADE ON DELETE SET NULL);
        ALTER TABLE child ADD CONSTRAINT later CHECK (a > 5) NOT VALID;
    """)
    constraints = database.source.table(named("child"), known=()).constraints
    by_name = {one.name: one for one in constraints if one.type is not ConstraintKind.NOT_NULL}
    assert by_name["child_pkey"].columns == ("id",)
    assert by_name["child_pkey"].type is ConstraintKind.PRIMARY_KEY
    assert by_name["one_c"].columns == ("c", "a")
    assert (by_name["positive"].expression, by_name["positive"].enforced) == ("(c > 0)", True)
    assert not by_name["later"].enforced
    assert by_name["up"] == Constraint(
        type=ConstraintKind.FOREIGN_KEY,
        name="up",
        columns=("b", "a"),
        enforced=True,
        referenced_table="public.parent",
        referenced_columns=("b", "a"),
        match="FULL",
        on_update="CASCADE",
        on_delete="SET NULL",
    )
    not_null = [one.columns for one in constraints if one.type is ConstraintKind.NOT_NULL]
    assert not_null == [("id",), ("c",)]


@pytest.mark.case("Q56")
def test_a_view_is_described_and_never_executed(database: Database) -> None:
    """A function of the view would write, and then fail; a new definition replaces the old one."""
    database.run("""
        CREATE TABLE "T.1" (id int); CREATE SCHEMA app;
        CREATE FUNCTION trap() RETURNS int LANGUAGE plpgsql IMMUTABLE AS
          'BEGIN RAISE EXCEPTION ''sprung''; END';
        CREATE VIEW v AS SELECT id, trap() AS t FROM "T.1";
        COMMENT ON VIEW v IS 'both';
    """)
    view = database.source.view(named("v"))
    assert view.base_relations == ('public."T.1"',)
    assert [(one.name, one.type) for one in view.columns] == [("id", "int"), ("t", "int")]
    (definition,) = view.definitions
    assert definition.dialect == "postgresql"
    assert "public.trap()" in definition.sql
    assert 'FROM public."T.1"' in definition.sql
    assert view.comment == "both"
    database.run('CREATE OR REPLACE VIEW v AS SELECT id, 2 AS t FROM "T.1" WHERE id > 1')
    changed = database.source.view(named("v"))
    assert changed.name == view.name
    assert changed.definitions != view.definitions


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
    database: Database, kind: str, values: tuple[str, str], expected: tuple[str | None, ...]
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
    database: Database, native: str, canonical: str, values: list[object]
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


def test_nans_are_counted_and_are_no_nulls(database: Database) -> None:
    stats = database.stats(
        "CREATE TABLE t (c float8); INSERT INTO t VALUES ('NaN'), ('NaN'), (NULL), (1)"
    )
    assert (stats.nans, stats.nulls, stats.max) == (2, 1, "NaN")
    assert database.stats("DROP TABLE t; CREATE TABLE t (c text)").nans is None


def test_settings_of_the_login_change_no_text(database: Database) -> None:
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
def test_figures_under_concurrent_writes_are_those_of_one_snapshot(database: Database) -> None:
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


def test_a_truncate_between_lock_and_count_is_impossible(database: Database) -> None:
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


def test_the_snapshot_names_system_timeline_position_and_transactions(database: Database) -> None:
    database.run("CREATE TABLE t (c int)")
    (snapshot,) = database.source.table(named("t"), known=("whatever",)).snapshots
    system, timeline, *position, transactions = snapshot.native_id.split("/")
    assert system.isdigit()
    assert timeline.isdigit()
    assert all(int(part, 16) >= 0 for part in position)
    assert transactions.count(":") == 2
    assert snapshot.committed_at.tzinfo is not None
    assert snapshot.committed_at > datetime(2026, 1, 1, tzinfo=UTC)


def test_the_time_of_a_snapshot_is_after_the_wait_for_the_lock(database: Database) -> None:
    database.run("CREATE TABLE t (c int)")
    results: list[CapturedTable] = []
    with psycopg.connect(database.admin) as session:
        session.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        waiting = Thread(target=lambda: results.append(database.capture("t")))
        waiting.start()
        blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        while session.execute(blocked).fetchone() == (0,):
            pass
        session.execute("INSERT INTO t VALUES (1)")
        row = session.execute("SELECT clock_timestamp()").fetchone()
    waiting.join()
    assert row is not None
    assert results[0].rows == 1
    assert results[0].snapshot.committed_at > row[0]


def test_a_partitioned_table_is_captured_as_a_whole(database: Database) -> None:
    database.run("""
        CREATE TABLE t (id int, day date, PRIMARY KEY (day)) PARTITION BY RANGE (day);
        CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
        CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
        INSERT INTO t VALUES (1, '2026-01-05'), (2, '2026-02-05');
    """)
    captured, table = database.capture("t"), database.source.table(named("t"), known=())
    assert (captured.rows, captured.columns[1].ndv) == (2, "2")
    assert captured.size_bytes is not None
    assert captured.size_bytes > 0
    assert table.partition_keys == ("day",)
    assert table.snapshots[0].partition_spec == "RANGE (day)"
    assert table.properties == {"kind": "partitioned table"}


def test_a_key_that_heirs_do_not_have_is_no_count_of_values(database: Database) -> None:
    database.run("""
        CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE heir () INHERITS (t);
        INSERT INTO t VALUES (1); INSERT INTO heir VALUES (1);
    """)
    captured = database.capture("t")
    assert (captured.rows, captured.columns[0].ndv) == (2, None)


def test_odd_names_are_captured(database: Database) -> None:
    with psycopg.connect(database.admin, autocommit=True) as session:
        session.execute(
            sql.SQL("CREATE SCHEMA {0}; CREATE TABLE {0}.{0} ({0} int, {1} text)").format(
                sql.Identifier(ODD), sql.Identifier("R")
            )
        )
        session.execute(
            sql.SQL(
                "INSERT INTO {0}.{0} VALUES (3, 'x'); GRANT USAGE ON SCHEMA {0} TO PUBLIC;"
                " GRANT SELECT ON {0}.{0} TO PUBLIC"
            ).format(sql.Identifier(ODD))
        )
    name = named(ODD, ODD)
    assert database.source.objects(EVERYTHING).tables == (name,)
    captured = database.source.capture_table(name, ALL)
    assert [(one.name, one.min) for one in captured.columns] == [(ODD, "3"), ("R", "x")]
    assert database.source.table(name, known=()).uri.endswith("%20%F0%9F%98%80")


def test_1600_columns_are_captured_in_one_statement(database: Database) -> None:
    columns = ", ".join(f"c{number} int" for number in range(1600))
    with psycopg.connect(database.admin, autocommit=True) as session:
        session.execute(f"CREATE TABLE t ({columns}); GRANT SELECT ON t TO PUBLIC")
        session.execute("INSERT INTO t (c1599) VALUES (7)")
    captured = database.capture("t")
    assert len(captured.columns) == 1600
    assert (captured.columns[0].nulls, captured.columns[-1].max) == (1, "7")


@pytest.mark.parametrize(("rows", "expected"), [("", 0), ("DEFAULT VALUES", 1)])
def test_a_table_without_columns_has_rows(
    database: Database, rows: LiteralString, expected: int
) -> None:
    database.run("CREATE TABLE t ()")
    if rows:
        database.run(f"INSERT INTO t {rows}")
    captured = database.capture("t")
    assert (captured.rows, captured.columns, captured.is_complete) == (expected, (), True)


def test_an_empty_table_has_no_bounds_and_is_complete(database: Database) -> None:
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
    database: Database, policy: CapturePolicy, names: list[str]
) -> None:
    database.run("CREATE TABLE t (a int, b int, c int); INSERT INTO t VALUES (1, 2, 3)")
    captured = database.capture("t", policy)
    assert [each.name for each in captured.columns] == names
    assert captured.rows == 1


def test_a_bound_that_is_too_long_is_absent_and_reported(database: Database) -> None:
    stats = database.stats(
        "CREATE TABLE t (c text, d int); INSERT INTO t VALUES (repeat('x', 1025), 1), ('a', 2)"
    )
    assert (stats.min, stats.max) == ("a", None)
    assert not database.capture("t").is_complete


@pytest.mark.parametrize("change", ["DROP TABLE t", "ALTER TABLE t RENAME TO other"])
def test_a_table_that_is_gone_is_reported(database: Database, change: LiteralString) -> None:
    database.run("CREATE TABLE t (c int)")
    source = database.source
    source.table(named("t"), known=())
    database.run(change)
    for gone in (
        lambda: source.table(named("t"), known=()),
        lambda: source.capture_table(named("t"), ALL),
        lambda: source.view(named("t")),
    ):
        with pytest.raises(QueryFailedError) as caught:
            gone()
        assert caught.value.code is RunDetail.QUERY_ERROR


def test_a_function_with_a_better_fitting_type_is_not_called(database: Database) -> None:
    """Every function that the statement names exists in `public` as well, for exact types."""
    database.run("""
        CREATE TABLE t (c varchar(5), b bytea); INSERT INTO t VALUES ('ab', '\\x01');
        CREATE FUNCTION octet_length(varchar) RETURNS int LANGUAGE plpgsql AS
          'BEGIN RAISE EXCEPTION ''sprung''; END';
        CREATE FUNCTION encode(bytea, unknown_text text) RETURNS text LANGUAGE plpgsql AS
          'BEGIN RAISE EXCEPTION ''sprung''; END';
    """)
    with psycopg.connect(database.admin, autocommit=True) as session:
        session.execute(
            sql.SQL("ALTER ROLE {} SET search_path = public, pg_catalog").format(
                sql.Identifier(database.config.user)
            )
        )
    assert [each.average_width for each in database.capture("t").columns] == ["2", "1"]


def test_rows_behind_a_policy_are_refused(database: Database) -> None:
    database.run("CREATE TABLE t (c int); ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    with pytest.raises(PermissionDeniedError, match="BYPASSRLS"):
        database.capture("t")


def test_a_login_that_may_write_is_refused_in_profile_server(database: Database) -> None:
    database.run("CREATE TABLE t (c int); GRANT INSERT ON t TO PUBLIC")
    source = database.open(Profile.SERVER)
    for refused in (
        lambda: source.objects(EVERYTHING),
        lambda: source.table(named("t"), known=()),
        lambda: source.capture_table(named("t"), ALL),
    ):
        with pytest.raises(PermissionDeniedError, match=r"may write public\.t"):
            refused()
    database.run("REVOKE INSERT ON t FROM PUBLIC")
    assert source.capture_table(named("t"), ALL).rows == 0


def test_a_table_that_another_session_locks_is_reported_after_five_seconds(
    database: Database,
) -> None:
    database.run("CREATE TABLE t (c int)")
    with psycopg.connect(database.admin) as session:
        session.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(QueryFailedError, match="locked"):
            database.capture("t")


def test_a_capture_that_takes_too_long_ends(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "DEFAULT_LIMITS", Limits(statement_timeout=timedelta(seconds=1)))
    database.run("CREATE TABLE t (c int)")
    with psycopg.connect(database.admin) as session:
        session.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StatementTimeoutError, match="capture fewer columns"):
            database.capture("t")


def test_a_foreign_table_is_captured_through_its_server(database: Database) -> None:
    config = database.config
    database.run("""
        CREATE TABLE t (c int); INSERT INTO t VALUES (4), (NULL);
        CREATE EXTENSION postgres_fdw;
    """)
    with psycopg.connect(database.admin, autocommit=True) as session:
        session.execute(
            sql.SQL(
                "CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw"
                " OPTIONS (host '127.0.0.1', port {}, dbname {});"
                " CREATE USER MAPPING FOR {} SERVER far OPTIONS (user {}, password 'secret');"
                " CREATE FOREIGN TABLE f (c int) SERVER far OPTIONS (table_name 't')"
            ).format(
                sql.Literal(str(config.port)),
                sql.Literal(config.database),
                sql.Identifier(config.user),
                sql.Literal(config.user),
            )
        )
    database.run("GRANT USAGE ON FOREIGN SERVER far TO PUBLIC")
    captured = database.capture("f")
    assert (captured.rows, captured.columns[0].nulls, captured.size_bytes) == (2, 1, None)
    assert database.source.table(named("f"), known=()).properties == {"kind": "foreign table"}


def test_a_table_has_no_files(database: Database) -> None:
    source = database.source
    with pytest.raises(SourceUnsupportedError, match="no data files"):
        source.files(named("t"), "1/1/0/1/1:1:")
    with pytest.raises(SourceUnsupportedError, match="no data files"):
        source.capture_files(named("t"), "1", (), FileRequest(policy=ALL, columns=(), directory=""))
    assert source.opened_files == 0


def test_a_materialized_view_is_captured_as_a_table(database: Database) -> None:
    database.run("CREATE MATERIALIZED VIEW m AS SELECT 4 AS four")
    assert database.source.table(named("m"), known=()).properties == {"kind": "materialized view"}
    assert database.capture("m").columns[0].max == "4"
