"""Relations of Parquet files: their rows are the rows that core itself prepares."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from datarecs_core.comparison.oracle.grouping import Outside, Rows
from datarecs_core.comparison.planning.faults import KeyTooLargeError, ValueTooLargeError
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.fingerprints import bucket_of
from datarecs_core.comparison.values.canonical import encode_tuple, number, text
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.definition import Limits, Normalize, StringRules
from datarecs_core.jobs.definition import Scope as OfStage
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import Case
from datarecs_kernel.database import Connection, Resources, connected
from datarecs_kernel.delivered import Delivered, delivered
from datarecs_kernel.layout import Layout, Role, keys_of, layout_of
from datarecs_kernel.reading_failures import has_invalid_text, reading_failure
from datarecs_kernel.relations import create_relation
from datarecs_kernel.scopes import Scope
from datarecs_testing.comparisons import a_measure, aggregate_by, digest_by, rows_by
from datarecs_testing.exact_conditions import EXACT, TABLE
from datarecs_testing.relations import relations_of
from datarecs_testing.stored_tables import stored_scan
from datarecs_testing.strategies import ComparisonCase, comparison_cases
from datarecs_testing.tables import Table, a_job, pair, plan_of

_folder_numbers = count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    (tmp_path / "spill").mkdir()
    with opened(tmp_path / "spill") as connection:
        yield connection


def opened(spill: Path) -> Any:  # noqa: ANN401 - of a context manager
    return connected(
        Resources(directory=str(spill), threads=2, memory_bytes=2**28, spill_bytes=2**30)
    )


def stored(stage: StagePlan, tables: Sequence[Table], folder: Path) -> StagePlan:
    """The stage over files of the tables."""
    run = folder / f"{next(_folder_numbers)}"
    scans = tuple(
        stored_scan(scan, tables[scan.index], run / f"{scan.index}") for scan in stage.scans
    )
    return replace(stage, scans=scans)


def sources_of(
    connection: Connection, stage: StagePlan, *, check_texts: bool = False
) -> tuple[Layout, list[Delivered]]:
    sources = [delivered(connection, scan, check_texts=check_texts) for scan in stage.scans]
    return layout_of(stage, sources), sources


def prepared_by_core(
    connection: Connection, layout: Layout, tables: Sequence[Table], outside: Outside | None = None
) -> list[str]:
    zones = {name: ZoneInfo(name) for name in layout.stage.zones}
    rows: list[Rows] = [
        tables[scan.index].delivered(replace(scan, extract=None)) for scan in layout.stage.scans
    ]
    return relations_of(connection, layout, rows, outside or Outside(key=COMPARE_KEY, zones=zones))


def rows_of(connection: Connection, layout: Layout, relation: str) -> Counter[object]:
    """Rows by their text; of values that meet within one source alone whether there are any."""
    alone = {each.name for each in layout.fields if each.role is Role.DISTINCT}
    table = connection.sql(f"FROM {relation}").to_arrow_table()
    assert table.column_names == [*(n for each in layout.fields for n, _ in each.columns), "dst"]
    columns = [
        [value is None for value in column.to_pylist()] if name in alone else column.to_pylist()
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    # Written, since two NaN are two values to Python.
    return Counter(map(repr, zip(*columns, strict=True)))


def kinds_of(connection: Connection, relation: str) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in connection.execute(f"DESCRIBE {relation}").fetchall()]


def check_agreement(
    connection: Connection, stage: StagePlan, tables: Sequence[Table], *, check_texts: bool = False
) -> Layout:
    """Relations of files and of rows that core prepares are equal, types included."""
    layout, sources = sources_of(connection, stage, check_texts=check_texts)
    expected = prepared_by_core(connection, layout.of_rows, tables)
    scope = stage.scope
    for source, its in zip(sources, expected, strict=True):
        where = (stage.where, scope.where if scope else None)
        mine = create_relation(connection, layout.of_rows, source, conditions=where)
        assert kinds_of(connection, mine) == kinds_of(connection, its)
        made, wanted = (rows_of(connection, layout.of_rows, each) for each in (mine, its))
        assert made == wanted
    return layout


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=comparison_cases(max_sources=3).filter(lambda case: bool(case.shape.columns)))
def test_rows_of_files_are_those_that_core_prepares(
    tmp_path: Path, folder: Path, case: ComparisonCase
) -> None:
    stage = plan_of(case.job, case.tables).stages[0]
    with opened(tmp_path) as connection:
        check_agreement(connection, stored(stage, case.tables, folder), case.tables)


COLUMNS = (
    "k text, u uuid, b binary, d date, t time, t9 time(9), i instant, i3 instant(3), i9 instant(9),"
    "l local_timestamp, l9 local_timestamp(9), flag bool, n int, m decimal(38,10),"
    "m2 decimal(4,4), f float64, s float32, loose decimal, j json"
)
FIRST = (
    "a",
    UUID(int=7),
    b"\0\xff",
    date(1, 1, 1),
    time(23, 59, 59, 999_999),
    Decimal("1.001"),
    datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=UTC),
    Decimal("-0.001"),
    datetime(9999, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001 - naive on purpose
    Decimal("1774747800000000.999"),
    True,
    2**63 - 1,
    Decimal("-9999999999999999999999999999.9999999999"),
    Decimal("0.5000"),
    -0.0,
    0.10000000149011612,
    Decimal("1.50"),
    '{"b": 1.0, "a": [2, 1]}',
)
SECOND = (
    *("é\0", UUID(int=2**128 - 1), b"", date(9999, 12, 31), time(), Decimal(0)),
    *(datetime(1, 1, 1, tzinfo=UTC), None, Decimal(0), None, None, False, -(2**63)),
    *(Decimal("1E-10"), Decimal("-0.0001"), float("nan"), float("-inf")),
    *(Decimal(1234567890123456789012345678901234567890), "[1,"),
)
NULLS = (None,) * len(FIRST)
ROWS = (FIRST, SECOND, NULLS)
PARTS = re.split(r", *(?![^(]*\))", COLUMNS)
NAMES = [part.split()[0] for part in PARTS]


@pytest.mark.parametrize("rules", [Normalize(), Normalize(strings=StringRules(case=Case.FOLD))])
def test_every_type_of_an_extract_is_read_as_core_reads_it(
    connection: Connection, tmp_path: Path, rules: Normalize
) -> None:
    tables = pair(COLUMNS, ROWS, ROWS)
    job = a_job(tables, rows_by("k", *map(a_measure, NAMES[1:])), normalize=rules)
    stage = stored(plan_of(job, tables).stages[0], tables, tmp_path)
    check_agreement(connection, stage, tables)


def test_every_type_of_a_source_file_is_read_as_core_reads_it(
    connection: Connection, tmp_path: Path
) -> None:
    at = [index for index, name in enumerate(NAMES) if name not in {"u", "loose", "j"}]
    columns = ", ".join(PARTS[index] for index in at)
    rows = [tuple(row[index] for index in at) for row in ROWS]
    tables = pair(columns, rows, rows)
    names = [NAMES[index] for index in at]
    job = a_job(tables, rows_by("k", *map(a_measure, names[1:])))
    stage = stored(plan_of(job, tables).stages[0], tables, tmp_path)
    assert stage.scans[0].extract is None
    check_agreement(connection, stage, tables)


@pytest.mark.parametrize("condition", EXACT)
def test_a_condition_selects_the_rows_that_core_selects(
    connection: Connection, tmp_path: Path, condition: str
) -> None:
    tables = [TABLE, replace(TABLE, name="other")]
    job = a_job(tables, rows_by("id", a_measure("t"), where=condition))
    stage = stored(plan_of(job, tables).stages[0], tables, tmp_path)
    check_agreement(connection, stage, tables)


@pytest.mark.parametrize(
    "condition",
    [
        *("f > 0.1", "f = 0.1", "NOT f <= n", "f = NULL OR n = 1", "loose = 1.5", "u IS NULL"),
        *("i9 > TIMESTAMP '1969-12-31T23:59:59.999999999Z'", "i9 < i", "s >= 0.1 AND k <> 'b'"),
        *("b IS NOT NULL", "t < t9", "1 = 1", "j IS NULL", "NOT (loose > 1)"),
    ],
)
def test_a_condition_that_sql_reads_otherwise_selects_the_rows_that_core_selects(
    connection: Connection, tmp_path: Path, condition: str
) -> None:
    tables = pair(COLUMNS, ROWS, ROWS)
    job = a_job(tables, rows_by("k", a_measure("n"), where=condition))
    stage = stored(plan_of(job, tables).stages[0], tables, tmp_path)
    check_agreement(connection, stage, tables)


def test_a_relation_reads_the_columns_that_it_needs(connection: Connection, tmp_path: Path) -> None:
    rows = [(1, "a", 2, 3)]
    tables = pair("key int, account text, value int, other int", rows, rows)
    job = a_job(tables, aggregate_by("account", a_measure("value")))
    stage = stored(plan_of(job, tables).stages[0], tables, tmp_path)
    layout, sources = sources_of(connection, stage)
    ((_, plan),) = connection.execute(
        f"EXPLAIN FROM {create_relation(connection, layout, sources[0])}"
    ).fetchall()
    # Files have their columns by place.
    assert set(re.findall(r"\bc\d\b", plan)) == {"c1", "c2"}


INVALID_ROWS = [("a", "x"), ("b", Invalid(b"\xff\xfe")), (Invalid(b"\xc3"), "y"), ("c", None)]


@pytest.mark.case("P32")
@pytest.mark.parametrize("condition", [None, "v = 'x'", "v IS NULL", "NOT v = 'x' AND k = 'b'"])
@pytest.mark.parametrize("fold", [Case.EXACT, Case.FOLD])
def test_texts_that_are_no_utf8_are_invalid_once_they_are_checked(
    connection: Connection, tmp_path: Path, condition: str | None, fold: Case
) -> None:
    tables = pair("k text, v text", INVALID_ROWS, INVALID_ROWS)
    job = a_job(
        tables,
        rows_by("k", a_measure("v"), where=condition),
        normalize=Normalize(strings=StringRules(case=fold)),
    )
    stage = stored(plan_of(job, tables).stages[0], tables, tmp_path)
    check_agreement(connection, stage, tables, check_texts=True)


PLAIN_UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
UUID_TEXTS = [PLAIN_UUID, PLAIN_UUID.upper(), f" {PLAIN_UUID}", PLAIN_UUID[1:], "", "\u0660", None]


@pytest.mark.case("P32")
@pytest.mark.parametrize("rules", [Normalize(), Normalize(strings=StringRules(case=Case.FOLD))])
def test_texts_that_are_cast_to_uuid_are_read_as_core_reads_them(
    connection: Connection, tmp_path: Path, rules: Normalize
) -> None:
    rows = [(each, each) for each in [*UUID_TEXTS, Invalid(b"\xff")]]
    tables = pair("k text, v text", rows, rows)
    job = a_job(tables, rows_by("k", a_measure("v")), normalize=rules)
    kind = CanonicalType(kind=TypeKind.UUID)
    sources = tuple(replace(each, cast={"k": kind, "v": kind}) for each in job.sources)
    stage = stored(plan_of(replace(job, sources=sources), tables).stages[0], tables, tmp_path)
    check_agreement(connection, stage, tables, check_texts=True)


def test_duckdb_says_when_a_text_has_to_be_checked(connection: Connection, tmp_path: Path) -> None:
    tables = pair("k text, v text", INVALID_ROWS, [])
    stage = stored(plan_of(a_job(tables, rows_by("k")), tables).stages[0], tables, tmp_path)
    layout, sources = sources_of(connection, stage)
    relation = create_relation(connection, layout, sources[0])
    with pytest.raises(duckdb.Error) as refused:
        connection.execute(f"FROM {relation}").fetchall()
    assert has_invalid_text(refused.value)


@pytest.mark.parametrize("column", ["v", "w"])
def test_a_value_above_its_limit_ends_the_reading_with_its_column(
    connection: Connection, tmp_path: Path, column: str
) -> None:
    small, large = ("x" * 100, b"y" * 100), ("x" * (101 if column == "v" else 1), b"y" * 101)
    tables = pair("k int, v text, w binary", [(1, *small), (2, *large)], [])
    stage = limited_stage(tables, tmp_path, Limits(max_value_bytes=100), column)
    assert isinstance(failure_of(connection, stage), ValueTooLargeError)
    allowed = limited_stage(tables, tmp_path, Limits(max_value_bytes=101), column)
    assert failure_of(connection, allowed) is None


def test_a_row_that_no_stage_reads_may_have_a_value_above_its_limit(
    connection: Connection, tmp_path: Path
) -> None:
    tables = pair("k int, v text", [(1, "x"), (2, "x" * 101)], [])
    stage = limited_stage(tables, tmp_path, Limits(max_value_bytes=100), "v")
    assert failure_of(connection, replace(stage, where="k = 1")) is None


def test_a_key_above_its_limit_ends_the_reading(connection: Connection, tmp_path: Path) -> None:
    tables = pair("k text, v text", [("x" * 60, "y" * 50)], [])
    job = a_job(tables, rows_by("k v"), sources={"one": {"limits": Limits(max_key_bytes=100)}})
    stage = stored(plan_of(job, tables).stages[0], tables, tmp_path)
    assert isinstance(failure_of(connection, stage), KeyTooLargeError)


def limited_stage(tables: Sequence[Table], folder: Path, limits: Limits, column: str) -> StagePlan:
    job = a_job(tables, rows_by("k", a_measure(column)), sources={"one": {"limits": limits}})
    return stored(plan_of(job, tables).stages[0], tables, folder / f"{limits.max_value_bytes}")


def failure_of(connection: Connection, stage: StagePlan) -> Exception | None:
    layout, sources = sources_of(connection, stage)
    relation = create_relation(connection, layout, sources[0], conditions=(stage.where,))
    try:
        connection.execute(f"FROM {relation}").fetchall()
    except duckdb.Error as failure:
        return reading_failure(connection, failure, layout, sources)
    return None


@pytest.mark.case("P56")
def test_a_scope_selects_the_rows_of_its_groups(connection: Connection, tmp_path: Path) -> None:
    rows = [(1, 10), (2, 20), (None, 30), (3, 40)]
    tables = pair("k int, v int", rows, rows)
    job = a_job(tables, aggregate_by("k", name="before"), rows_by("v"))
    before, stage = plan_of(job, tables).stages
    layout, sources = sources_of(connection, stored(stage, tables, tmp_path))
    table = pa.table({"k0": pa.array([2, None, 9], pa.int64())})
    connection.register("groups", table)
    place = str(tmp_path / "part-0.parquet")
    connection.execute(f"COPY groups TO '{place}' (FORMAT parquet)")

    def selected_rows(files: Sequence[str]) -> list[Any]:
        scope = Scope(fields=keys_of(before.dimensions, sources, "z"), files=files)
        relation = create_relation(connection, layout, sources[0], scopes=[scope])
        return sorted(connection.execute(f"FROM {relation} SELECT k0").fetchall())

    assert selected_rows([place]) == [(20,), (30,)]
    assert selected_rows([]) == []


def test_a_group_of_an_invalid_value_is_none_of_rows_without_one(
    connection: Connection, tmp_path: Path
) -> None:
    """The pass that wrote the groups met texts that are no text, and this one has not; and back."""
    rows = [("a", 1), (None, 2)]
    tables = pair("k text, v int", rows, rows)
    job = a_job(tables, aggregate_by("k", name="before"), rows_by("v"))
    before, stage = plan_of(job, tables).stages
    layout, sources = sources_of(connection, stored(stage, tables, tmp_path))
    groups = {"k0": pa.array(["a", None], pa.string()), "k0x": pa.array([None, b"1"], pa.binary())}
    fields = keys_of(before.dimensions, sources, "z")

    def selected_rows(names: Sequence[str], *, is_excluded: bool = False) -> list[Any]:
        place = str(tmp_path / f"part-{len(names)}.parquet")
        pq.write_table(pa.table({name: groups[name] for name in names}), place)
        scope = Scope(fields=fields, files=[place], is_excluded=is_excluded)
        relation = create_relation(connection, layout, sources[0], scopes=[scope])
        return sorted(connection.execute(f"FROM {relation} SELECT k0").fetchall())

    assert selected_rows(["k0", "k0x"]) == [(1,)]
    assert selected_rows(["k0", "k0x"], is_excluded=True) == [(2,)]
    assert selected_rows(["k0"]) == [(1,), (2,)]


def test_a_scope_of_buckets_selects_the_rows_whose_keys_are_in_them(
    connection: Connection, tmp_path: Path
) -> None:
    rows = [(n, f"t{n}" if n % 3 else None) for n in range(40)]
    tables = pair("n int, t text", rows, rows)
    job = a_job(tables, digest_by("n t"), rows_by("n t", scope=OfStage(from_stage="digests")))
    stage = stored(plan_of(job, tables).stages[1], tables, tmp_path)
    scope, source = stage.scope, delivered(connection, stage.scans[0])
    assert scope is not None
    bucket = bucket_of(COMPARE_KEY, encode_tuple([number(7), text("t7")]))
    connection.register("buckets", pa.table({"k0": pa.array([bucket], pa.int64())}))
    place = str(tmp_path / "part-0.parquet")
    connection.execute(f"COPY buckets TO '{place}' (FORMAT parquet)")
    layout, sources = sources_of(connection, stage)
    fields = keys_of(scope.dimensions, sources, "z", role=Role.HASHED)
    mine = create_relation(
        connection,
        layout,
        source,
        scopes=[Scope(fields=fields, files=[place], bucket_key=COMPARE_KEY)],
    )
    wanted = frozenset([encode_tuple([number(bucket)])])
    outside = Outside(key=COMPARE_KEY, scopes={"digests": wanted})
    its, _ = prepared_by_core(connection, layout, tables, outside)
    made = rows_of(connection, layout, mine)
    assert made == rows_of(connection, layout, its)
    assert made
