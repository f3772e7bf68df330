"""Captures of PostgreSQL: its relations and their snapshots, and what is refused."""

from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from datarecs_application.ports.capturing import FileRequest
from datarecs_connectors.capturing import postgres
from datarecs_connectors.errors import (
    PermissionDeniedError,
    QueryFailedError,
    SourceUnsupportedError,
    StatementTimeoutError,
)
from datarecs_core.captures.request import (
    CaptureScope,
)
from datarecs_core.captures.source_facts import CapturedTable, Completion
from datarecs_core.catalog.records import Constraint, ConstraintKind
from datarecs_core.egress.addresses import Profile
from datarecs_core.errors.run import RunDetail
from datarecs_core.jobs.definition import Limits
from datarecs_testing.captured_database import ALL, CapturedDatabase, named

pytestmark = pytest.mark.integration
EVERYTHING = CaptureScope()
ODD = 'od"d.T\u00e4ble \U0001f600'
"""A quote, a dot, a blank, upper case, an umlaut and an emoji."""


def test_relations_that_the_login_may_read_are_listed_once(database: CapturedDatabase) -> None:
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
    database: CapturedDatabase, scope: CaptureScope, tables: tuple[str, ...]
) -> None:
    database.run("""
        CREATE SCHEMA other; GRANT USAGE ON SCHEMA other TO public;
        CREATE TABLE a (id int); CREATE TABLE other.b (id int);
        GRANT SELECT ON other.b TO public; CREATE VIEW v AS SELECT 1 AS one;
    """)
    listed = database.source.objects(scope)
    assert tuple(each.name for each in listed.tables) == tables
    assert listed.views == ((named("v"),) if scope.view or tables == ("a",) else ())


def test_a_named_relation_without_privilege_reports_the_missing_right(
    database: CapturedDatabase,
) -> None:
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


def test_a_table_has_the_columns_types_and_comments_of_the_server(
    database: CapturedDatabase,
) -> None:
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


def test_constraints_have_their_columns_rules_and_actions(database: CapturedDatabase) -> None:
    database.run("""
        CREATE TABLE parent (a int, b int, PRIMARY KEY (b, a));
        CREATE TABLE child (id int PRIMARY KEY, a int, b int, c int NOT NULL,
          CONSTRAINT positive CHECK (c > 0), CONSTRAINT one_c UNIQUE (c, a),
          CONSTRAINT up FOREIGN KEY (b, a) REFERENCES parent (b, a)
            MATCH FULL ON UPDATE CASCADE ON DELETE SET NULL);
        ALTER TABLE child ADD CONSTRAINT later CHECK (a > 5) NOT VALID;
    """)
    constraints = database.source.table(named("child"), known=()).constraints
    assert database.source.capture_table(named("child"), ALL).constraints == constraints
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
def test_a_view_is_described_and_never_executed(database: CapturedDatabase) -> None:
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


def test_the_snapshot_names_system_timeline_position_and_transactions(
    database: CapturedDatabase,
) -> None:
    database.run("CREATE TABLE t (c int)")
    (snapshot,) = database.source.table(named("t"), known=("whatever",)).snapshots
    system, timeline, *position, transactions = snapshot.native_id.split("/")
    assert system.isdigit()
    assert timeline.isdigit()
    assert all(int(part, 16) >= 0 for part in position)
    assert transactions.count(":") == 2
    assert snapshot.committed_at.tzinfo is not None
    assert snapshot.committed_at > datetime(2026, 1, 1, tzinfo=UTC)


def test_the_time_of_a_snapshot_is_after_the_wait_for_the_lock(database: CapturedDatabase) -> None:
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


def test_a_partitioned_table_is_captured_as_a_whole(database: CapturedDatabase) -> None:
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


def test_a_partition_that_is_named_is_refused_with_its_table(database: CapturedDatabase) -> None:
    database.run("""
        CREATE TABLE t (id int, day date) PARTITION BY RANGE (day);
        CREATE TABLE "T 1" PARTITION OF t FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')
          PARTITION BY LIST (id);
        CREATE TABLE t_1_2 PARTITION OF "T 1" FOR VALUES IN (2);
    """)
    assert database.source.objects(EVERYTHING).tables == (named("t"),)
    part = CaptureScope(tables=(named("t_1_2"),))
    assert database.source.objects(part).tables == (named("t_1_2"),)
    for refused in (
        lambda: database.source.table(named("t_1_2"), known=()),
        lambda: database.source.capture_table(named("t_1_2"), ALL),
    ):
        with pytest.raises(SourceUnsupportedError, match=r"t_1_2.* is a partition.*public\.t$"):
            refused()


def test_odd_names_are_captured(database: CapturedDatabase) -> None:
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


@pytest.mark.parametrize("change", ["DROP TABLE t", "ALTER TABLE t RENAME TO other"])
def test_a_table_that_is_gone_is_reported(
    database: CapturedDatabase, change: LiteralString
) -> None:
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


def test_a_function_with_a_better_fitting_type_is_not_called(database: CapturedDatabase) -> None:
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


def test_rows_behind_a_policy_are_refused(database: CapturedDatabase) -> None:
    database.run("CREATE TABLE t (c int); ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    with pytest.raises(PermissionDeniedError, match="BYPASSRLS"):
        database.capture("t")


def test_a_login_that_may_write_is_refused_in_profile_server(database: CapturedDatabase) -> None:
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
    database: CapturedDatabase,
) -> None:
    database.run("CREATE TABLE t (c int)")
    with psycopg.connect(database.admin) as session:
        session.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(QueryFailedError, match="locked"):
            database.capture("t")


def test_a_capture_that_takes_too_long_ends(
    database: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "DEFAULT_LIMITS", Limits(statement_timeout=timedelta(seconds=1)))
    database.run("CREATE TABLE t (c int)")
    with psycopg.connect(database.admin) as session:
        session.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StatementTimeoutError, match="capture fewer columns"):
            database.capture("t")


def test_a_foreign_table_is_captured_through_its_server(database: CapturedDatabase) -> None:
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


def test_a_table_has_no_files(database: CapturedDatabase) -> None:
    source = database.source
    with pytest.raises(SourceUnsupportedError, match="no data files"):
        source.files(named("t"), "1/1/0/1/1:1:")
    with pytest.raises(SourceUnsupportedError, match="no data files"):
        source.capture_files(named("t"), "1", (), FileRequest(policy=ALL, columns=(), directory=""))
    assert source.opened_files == 0


def test_a_materialized_view_is_captured_as_a_table(database: CapturedDatabase) -> None:
    database.run("CREATE MATERIALIZED VIEW m AS SELECT 4 AS four")
    assert database.source.table(named("m"), known=()).properties == {"kind": "materialized view"}
    assert database.capture("m").columns[0].max == "4"
