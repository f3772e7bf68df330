"""The kind SinkTable: faults with their places, and one canonical form that is read back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from datarecs_core.resources.resource import Kind
from datarecs_core.sink.definition import (
    MIB,
    CdcRule,
    CommitPolicy,
    DynamicTables,
    ErrorPolicy,
    Evolution,
    MetadataColumns,
    RouteRule,
    RowChange,
    SinkMode,
    SinkTable,
    SinkTarget,
    Tolerance,
    Tombstones,
)
from datarecs_specs.documents import decode_json, decode_stored, decode_yaml
from datarecs_specs.json_schema import json_schema
from datarecs_specs.kinds import canonical_spec

FULL = """\
apiVersion: datarecs.io/v1
kind: SinkTable
metadata: {name: payments-landing}
spec:
  connection: kafka
  topics: [payments, refunds.v1]
  tables:
    - {catalog: lake, namespace: sales.eu, name: paid, route: {equals: paid}}
    - {catalog: lake, namespace: sales.eu, name: open, route: {in: [open, due]}}
    - {catalog: lake, namespace: [sales, eu], name: other, route: {prefix: x-}}
  route: {field: state.name}
  decode: {value: json}
  mode: append
  id_columns: [id]
  auto_create: true
  partition_by: [day(created_at), 'bucket(16, id)', region]
  metadata_columns: all
  start: {timestamp: 2026-01-01T00:00:00Z}
  commit: {interval: PT1M, timeout: PT20S}
  tasks: 4
  files: {memory: 128MiB}
  errors: {tolerance: dead_letter, max_in_a_row: 3, max_per_thousand: 7}
  evolve: full
  case_insensitive: true
  verify: [payments-proof, refunds-proof]
"""
SHORT = """\
apiVersion: datarecs.io/v1
kind: SinkTable
metadata: {name: payments-landing}
spec:
  connection: kafka
  topics: [payments]
  table: {catalog: lake, namespace: sales, name: payments}
"""


def faults(text: str) -> list[tuple[str, int | None, int | None, str]]:
    (decoded,) = decode_yaml(text.encode())
    return [(one.code.docs_id, one.line, one.column, one.pointer) for one in decoded.faults]


def test_every_field_is_read_and_written_back() -> None:
    (decoded,) = decode_yaml(FULL.encode())
    declared, spec = decoded.require()
    eu = {"catalog": "lake", "namespace": ("sales", "eu")}
    assert spec == SinkTable(
        connection="kafka",
        topics=("payments", "refunds.v1"),
        tables=(
            SinkTarget(**eu, name="paid", route=RouteRule(equals="paid")),  # type: ignore[arg-type]  # shared parts
            SinkTarget(**eu, name="open", route=RouteRule(any_of=("open", "due"))),  # type: ignore[arg-type]  # as above
            SinkTarget(**eu, name="other", route=RouteRule(prefix="x-")),  # type: ignore[arg-type]  # as above
        ),
        route="state.name",
        id_columns=("id",),
        auto_create=True,
        partition_by=("day(created_at)", "bucket(16, id)", "region"),
        metadata_columns=MetadataColumns.ALL,
        start=datetime(2026, 1, 1, tzinfo=UTC),
        commit=CommitPolicy(interval=timedelta(minutes=1), timeout=timedelta(seconds=20)),
        tasks=4,
        memory=128 * MIB,
        errors=ErrorPolicy(tolerance=Tolerance.DEAD_LETTER, max_in_a_row=3, max_per_thousand=7),
        evolve=Evolution.FULL,
        case_insensitive=True,
        verify=("payments-proof", "refunds-proof"),
    )
    assert decode_stored(Kind.SINK_TABLE, "", declared.spec) == spec
    assert canonical_spec(Kind.SINK_TABLE, spec) == declared.spec


def test_the_short_form_of_one_table_is_the_same_declaration() -> None:
    (short,) = decode_yaml(SHORT.encode())
    long = SHORT.replace("  table: {", "  tables: [{").replace(
        "name: payments}", "name: payments}]"
    )
    (full,) = decode_yaml(long.encode())
    assert not short.faults
    assert short.require() == full.require()
    declared, _ = short.require()
    assert "table" not in declared.spec


def test_both_forms_at_once_are_refused() -> None:
    assert faults(SHORT + "  tables: []\n") == [("DR1005", 8, 3, "/spec/tables")]


@pytest.mark.parametrize("text", [FULL, SHORT])
def test_the_published_schema_accepts_it(text: str) -> None:
    (decoded,) = decode_yaml(text.encode())
    declared, _ = decoded.require()
    document = {"apiVersion": "datarecs.io/v1", "kind": "SinkTable", "metadata": {"name": "a"}}
    validator = Draft202012Validator(json_schema(Kind.SINK_TABLE))
    assert not list(validator.iter_errors({**document, "spec": dict(declared.spec)}))


@pytest.mark.parametrize(
    ("line", "other", "fault"),
    [
        ("mode: append", "mode: merge", ("DR1012", 13, 9, "/spec/mode")),
        ("mode: append", "mode: cdc", ("DR1010", 13, 9, "/spec/mode")),
        ("mode: append", "cdc: {field: op}", ("DR1009", 13, 8, "/spec/cdc")),
        ("mode: append", "tombstones: delete", ("DR1009", 13, 15, "/spec/tombstones")),
        ("mode: append", "mode: upsert", ("DR1009", 23, 11, "/spec/evolve")),
        ("mode: append", "mode: upsert", ("DR1009", 24, 21, "/spec/case_insensitive")),
        (
            "mode: append\n  id_columns: [id]",
            "mode: upsert",
            ("DR1010", 14, 16, "/spec/auto_create"),
        ),
        ("{value: json}", "{value: protobuf}", ("DR1012", 12, 19, "/spec/decode/value")),
        ("{value: json}", "{value: text}", ("DR1009", 11, 10, "/spec/route")),
        ("{value: json}", "{key: json}", ("DR1004", 12, 12, "/spec/decode/key")),
        ("mode: append", "reader: java", ("DR1004", 13, 3, "/spec/reader")),
        ("evolve: full", "evolve: all", ("DR1012", 23, 11, "/spec/evolve")),
        ("refunds.v1]", "payments]", ("DR1020", 6, 22, "/spec/topics/1")),
        ("refunds.v1]", "a b]", ("DR1013", 6, 22, "/spec/topics/1")),
        ("refunds.v1]", ".]", ("DR1013", 6, 22, "/spec/topics/1")),
        ("name: open,", "name: paid,", ("DR1020", 9, 7, "/spec/tables/1")),
        (", route: {prefix: x-}", "", ("DR1010", 10, 7, "/spec/tables/2")),
        ("{prefix: x-}", "{}", ("DR1010", 10, 60, "/spec/tables/2/route/equals")),
        (
            "{prefix: x-}",
            "{prefix: x-, equals: x}",
            ("DR1005", 10, 80, "/spec/tables/2/route/prefix"),
        ),
        ("  route: {field: state.name}\n", "", ("DR1009", 8, 63, "/spec/tables/0/route")),
        ("auto_create: true", "auto_create: false", ("DR1009", 14, 15, "/spec/id_columns")),
        ("auto_create: true", "auto_create: false", ("DR1009", 16, 17, "/spec/partition_by")),
        ("day(created_at)", "dya(created_at)", ("DR1015", 16, 18, "/spec/partition_by/0")),
        ("timestamp: 2026", "time: 2026", ("DR1004", 18, 11, "/spec/start/time")),
        ("timeout: PT20S", "timeout: PT61S", ("DR1046", 19, 37, "/spec/commit/timeout")),
        ("interval: PT1M", "interval: PT0.5S", ("DR1046", 19, 22, "/spec/commit/interval")),
        ("tasks: 4", "tasks: 33", ("DR1012", 20, 10, "/spec/tasks")),
        ("128MiB", "63MiB", ("DR1012", 21, 19, "/spec/files/memory")),
        ("dead_letter", "none", ("DR1009", 22, 43, "/spec/errors/max_in_a_row")),
        ("dead_letter", "none", ("DR1009", 22, 64, "/spec/errors/max_per_thousand")),
        (
            "max_per_thousand: 7",
            "max_per_thousand: 1001",
            ("DR1012", 22, 71, "/spec/errors/max_per_thousand"),
        ),
        ("dead_letter", "all", ("DR1012", 22, 23, "/spec/errors/tolerance")),
        ("refunds-proof]", "payments-proof]", ("DR1020", 25, 28, "/spec/verify/1")),
        ("refunds-proof]", "a b]", ("DR1013", 25, 28, "/spec/verify/1")),
    ],
)
def test_a_fault_has_its_place(line: str, other: str, fault: tuple[str, int, int, str]) -> None:
    assert line in FULL
    assert fault in faults(FULL.replace(line, other))


CHANGES = """\
  mode: cdc
  cdc:
    field: meta.op
    map: {c: insert, u: update, x: delete}
  tombstones: ignore
  id_columns: [id]
"""


def test_the_fields_of_row_changes_are_read_and_written_back() -> None:
    (decoded,) = decode_yaml((SHORT + CHANGES).encode())
    declared, spec = decoded.require()
    assert isinstance(spec, SinkTable)
    by_text = {"c": RowChange.INSERT, "u": RowChange.UPDATE, "x": RowChange.DELETE}
    assert (spec.mode, spec.cdc) == (SinkMode.CDC, CdcRule(path="meta.op", map=by_text))
    assert (spec.tombstones, spec.id_columns) == (Tombstones.IGNORE, ("id",))
    assert decode_stored(Kind.SINK_TABLE, "", declared.spec) == spec


def test_a_change_without_a_field_has_its_place() -> None:
    text = SHORT + CHANGES.replace("    field: meta.op\n", "")
    assert [pointer for *_, pointer in faults(text)] == ["/spec/cdc/field"]


def test_a_commit_waits_no_longer_than_its_interval_unless_it_says_so() -> None:
    (decoded,) = decode_yaml((SHORT + "  commit: {interval: PT10S}\n").encode())
    declared, spec = decoded.require()
    ten = timedelta(seconds=10)
    assert isinstance(spec, SinkTable)
    assert spec.commit == CommitPolicy(interval=ten, timeout=ten)
    assert decode_stored(Kind.SINK_TABLE, "", declared.spec) == spec
    assert not faults(SHORT + "  commit: {interval: PT10S, timeout: PT5S}\n")
    (longer,) = decode_yaml((SHORT + "  commit: {interval: PT10S, timeout: PT30S}\n").encode())
    (fault,) = longer.faults
    assert (fault.pointer, fault.message, fault.fix) == (
        "/spec/commit/timeout",
        "PT30S is longer than the interval, PT10S",
        "write PT10S or less, or leave it out",
    )


@pytest.mark.parametrize("topic", ["__consumer_offsets", "datarecs.sink.x"])
def test_internal_topics_are_refused(topic: str) -> None:
    text = SHORT.replace("[payments]", f"[{topic}]")
    assert faults(text) == [("DR1013", 6, 12, "/spec/topics/0")]


@pytest.mark.parametrize(
    ("old", "new", "pointer"),
    [
        ("namespace: sales", 'namespace: "../../etc"', "namespace"),
        ("namespace: sales", 'namespace: ["..", etc]', "namespace"),
        ("namespace: sales", "namespace: [sales/eu]", "namespace"),
        ("name: payments}\n", "name: ../payments}\n", "name"),
    ],
)
def test_a_place_of_a_table_is_no_path(old: str, new: str, pointer: str) -> None:
    (decoded,) = decode_yaml(SHORT.replace(old, new).encode())
    (fault,) = decoded.faults
    assert (fault.code.docs_id, fault.pointer) == ("DR1013", f"/spec/table/{pointer}")
    assert fault.fix.startswith("write plain names")


def test_the_namespace_of_dynamic_tables_is_no_path() -> None:
    text = DYNAMIC.replace("namespace: sales.eu", 'namespace: [".."]')
    assert [pointer for *_, pointer in faults(text)] == ["/spec/dynamic/namespace"]


@pytest.mark.parametrize(
    ("columns", "term", "hint"),
    [
        ("none", "day(_kafka_timestamp)", "write metadata_columns: offsets"),
        ("none", "'bucket(4, _kafka_key)'", "write metadata_columns: all"),
        ("offsets", "_kafka_key", "write metadata_columns: all"),
        ("offsets", "day(_kafka_timestamp)", None),
        ("all", "_kafka_key", None),
        ("none", "_kafka_cluster", None),
    ],
)
def test_a_partition_needs_its_metadata_column(columns: str, term: str, hint: str | None) -> None:
    text = f"  auto_create: true\n  metadata_columns: {columns}\n  partition_by: [{term}]\n"
    (decoded,) = decode_yaml((SHORT + text).encode())
    places = [(one.pointer, one.hint.partition(",")[0]) for one in decoded.faults]
    assert places == ([] if hint is None else [("/spec/partition_by/0", hint)])


def test_a_rule_about_the_short_form_names_its_place() -> None:
    assert faults(SHORT + "  route: {field: a}\n") == [("DR1010", 7, 10, "/spec/table")]


def test_a_broken_rule_is_not_reported_as_a_missing_one() -> None:
    broken = FULL.replace("{prefix: x-}", "{suffix: x}")
    assert {pointer for *_, pointer in faults(broken)} == {
        "/spec/tables/2/route/suffix",
        "/spec/tables/2/route/equals",
    }


def test_all_faults_of_shape_and_meaning_are_reported_at_once() -> None:
    text = FULL.replace("  connection: kafka\n", "").replace("refunds.v1", "payments")
    text = text.replace("{catalog: lake, namespace: sales.eu, name: open", "{namespace: a, name: b")
    assert {pointer for *_, pointer in faults(text)} == {
        "/spec/connection",
        "/spec/topics/1",
        "/spec/tables/1/catalog",
    }


@pytest.mark.parametrize("start", ["earliest", "latest", {"timestamp": "2026-01-01T00:00:00Z"}])
def test_a_start_is_read_back(start: Any) -> None:  # noqa: ANN401  a value of JSON
    spec = {
        "connection": "kafka",
        "topics": ["orders"],
        "tables": [{"catalog": "lake", "namespace": "sales", "name": "orders"}],
        "start": start,
    }
    document = {"apiVersion": "datarecs.io/v1", "kind": "SinkTable", "metadata": {"name": "a"}}
    declared, built = decode_json({**document, "spec": spec}).require()
    assert decode_stored(Kind.SINK_TABLE, "", declared.spec) == built


DYNAMIC = """\
apiVersion: datarecs.io/v1
kind: SinkTable
metadata: {name: payments-landing}
spec:
  connection: kafka
  topics: [payments, refunds]
  dynamic:
    catalog: lake
    namespace: sales.eu
    from: {field: meta.table}
    lower_case: false
    max_tables: 10
"""


def test_every_field_of_dynamic_tables_is_read_and_written_back() -> None:
    (decoded,) = decode_yaml(DYNAMIC.encode())
    declared, spec = decoded.require()
    assert spec == SinkTable(
        connection="kafka",
        topics=("payments", "refunds"),
        dynamic=DynamicTables(
            catalog="lake",
            namespace=("sales", "eu"),
            path="meta.table",
            lower_case=False,
            max_tables=10,
        ),
    )
    assert spec.catalogs == ("lake",)
    assert "tables" not in declared.spec
    assert decode_stored(Kind.SINK_TABLE, "", declared.spec) == spec
    validator = Draft202012Validator(json_schema(Kind.SINK_TABLE))
    document = {"apiVersion": "datarecs.io/v1", "kind": "SinkTable", "metadata": {"name": "a"}}
    assert not list(validator.iter_errors({**document, "spec": dict(declared.spec)}))


def test_tables_that_are_named_by_topics_are_read_back() -> None:
    text = DYNAMIC.replace("{field: meta.table}", "topic").replace("    max_tables: 10\n", "")
    (decoded,) = decode_yaml(text.encode())
    declared, spec = decoded.require()
    assert isinstance(spec, SinkTable)
    assert spec.dynamic == DynamicTables(
        catalog="lake", namespace=("sales", "eu"), lower_case=False
    )
    assert declared.spec["dynamic"]["from"] == "topic"  # type: ignore[index,call-overload]  # JSON
    assert decode_stored(Kind.SINK_TABLE, "", declared.spec) == spec


@pytest.mark.parametrize(
    ("line", "other", "fault"),
    [
        ("  dynamic:", "  tables: []\n  dynamic:", ("DR1005", 8, 3, "/spec/dynamic")),
        ("    catalog: lake\n", "", ("DR1010", 7, 3, "/spec/dynamic/catalog")),
        ("    from: {field: meta.table}\n", "", ("DR1010", 7, 3, "/spec/dynamic/from")),
        ("{field: meta.table}", "key", ("DR1012", 10, 11, "/spec/dynamic/from")),
        ("max_tables: 10", "max_tables: 201", ("DR1012", 12, 17, "/spec/dynamic/max_tables")),
        ("  dynamic:", "  route: {field: a}\n  dynamic:", ("DR1009", 7, 10, "/spec/route")),
    ],
)
def test_a_fault_of_dynamic_tables_has_its_place(
    line: str, other: str, fault: tuple[str, int, int, str]
) -> None:
    assert line in DYNAMIC
    assert fault in faults(DYNAMIC.replace(line, other))


def test_a_topic_that_can_name_no_table_is_refused() -> None:
    text = DYNAMIC.replace("{field: meta.table}", "topic").replace("refunds]", "hr.refunds]")
    assert faults(text) == [("DR1013", 6, 22, "/spec/topics/1")]


def test_a_sink_without_tables_is_refused() -> None:
    text = SHORT.replace("  table: {catalog: lake, namespace: sales, name: payments}\n", "")
    assert [fault[0] for fault in faults(text)] == ["DR1010"]
