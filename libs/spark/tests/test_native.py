"""When the kernel may scan: every refusal with the file that shows why it is one."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import Extract, FileList, PinnedFile, ScanColumn
from datarecs_core.jobs.types import INT
from datarecs_spark.native import native_sources
from datarecs_spark.native_errors import NotNativeError
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import NOON, a_job, a_table, plan_of

MOMENT = datetime(2026, 1, 31, 12, tzinfo=UTC)


def stage_over(folder: Path, columns: str, *files: pa.Table) -> StagePlan:
    """Source one reads these files of the folder, source two the first of them."""
    folder.mkdir(parents=True, exist_ok=True)
    pinned = []
    for at, rows in enumerate(files):
        path = folder / f"part-{at}.parquet"
        pq.write_table(rows, path)
        pinned.append(
            PinnedFile(path=path.name, size_bytes=path.stat().st_size, rows=rows.num_rows)
        )
    tables = [a_table("one", columns), a_table("two", columns)]
    plan = plan_of(a_job(tables, rows_by("k", a_measure("v"))), tables)
    pins = [
        FileList(root=str(folder), files=tuple(each), taken_at=NOON)
        for each in (pinned, pinned[:1])
    ]
    scans = tuple(replace(scan, pin=pin) for scan, pin in zip(plan.scans, pins, strict=True))
    return plan.with_scans(scans).stages[0]


def rows(kind: pa.DataType, value: object, name: str = "v") -> pa.Table:
    return pa.table({"k": [1], name: pa.array([value], kind)})


def refusal(stage: StagePlan) -> str:
    with pytest.raises(NotNativeError) as found:
        native_sources(stage, salt="s")
    return str(found.value)


@pytest.mark.parametrize(
    ("declared", "kind", "value"),
    [
        ("int", pa.int8(), 1),
        ("int", pa.uint32(), 1),
        ("decimal(7,2)", pa.decimal128(7, 2), Decimal("1.00")),
        ("decimal(38,2)", pa.decimal128(38, 2), Decimal("1.00")),
        ("float64", pa.float64(), 1.5),
        ("float32", pa.float32(), 1.5),
        ("text", pa.string(), "a"),
        ("binary", pa.binary(), b"a"),
        ("bool", pa.bool_(), True),
        ("date", pa.date32(), date(2026, 1, 31)),
        ("instant", pa.timestamp("us", tz="UTC"), MOMENT),
        ("local_timestamp", pa.timestamp("us"), MOMENT.replace(tzinfo=None)),
    ],
)
def test_plain_scalars_may_be_scanned(
    tmp_path: Path, declared: str, kind: pa.DataType, value: object
) -> None:
    one, two = native_sources(
        stage_over(tmp_path, f"k int, v {declared}", rows(kind, value)), salt="s"
    )
    assert [column.meeting for column in one.columns] == [column.meeting for column in two.columns]
    assert one.rows == 1


@pytest.mark.parametrize(
    ("declared", "kind", "value"),
    [
        ("int", pa.uint64(), 1),
        ("instant", pa.timestamp("ns", tz="UTC"), MOMENT),
        ("instant", pa.timestamp("ms", tz="UTC"), MOMENT),
        ("local_timestamp", pa.timestamp("us", tz="UTC"), MOMENT),
        ("decimal(10,2)", pa.decimal128(12, 2), Decimal("1.00")),
        ("text", pa.binary(), b"\xff"),
        ("binary", pa.binary(2), b"ab"),
        ("int", pa.list_(pa.int64()), [None]),
    ],
)
def test_what_both_readers_may_see_differently_is_refused(
    tmp_path: Path, declared: str, kind: pa.DataType, value: object
) -> None:
    told = refusal(stage_over(tmp_path, f"k int, v {declared}", rows(kind, value)))
    assert told.startswith("one: v is ")


def test_int96_is_refused(tmp_path: Path) -> None:
    stage = stage_over(tmp_path, "k int, v instant", rows(pa.timestamp("us", tz="UTC"), MOMENT))
    table = rows(pa.timestamp("us"), MOMENT.replace(tzinfo=None))
    _rewrite(tmp_path, table, use_deprecated_int96_timestamps=True)
    assert "v is stored as INT96" in refusal(_pinned_again(stage, tmp_path))


@pytest.mark.parametrize(
    "told", [{"org.apache.spark.legacyDateTime": ""}, {"org.apache.spark.version": "2.4.8"}]
)
def test_a_legacy_calendar_is_refused(tmp_path: Path, told: dict[str, str]) -> None:
    table = rows(pa.date32(), date(1500, 1, 1)).replace_schema_metadata(told)
    assert "legacy calendar" in refusal(stage_over(tmp_path, "k int, v date", table))


def test_names_that_differ_in_case_alone_are_refused(tmp_path: Path) -> None:
    table = rows(pa.int64(), 1).append_column("V", pa.array([2]))
    assert "differ in case alone" in refusal(stage_over(tmp_path, "k int, v int", table))


def test_files_with_different_schemas_are_refused(tmp_path: Path) -> None:
    stage = stage_over(tmp_path, "k int, v int", rows(pa.int64(), 1), rows(pa.int32(), 1))
    assert refusal(stage) == "the files of one have different schemas"


def test_a_column_of_a_folder_is_refused(tmp_path: Path) -> None:
    stage = stage_over(tmp_path, "k int, v int", pa.table({"k": [1]}))
    assert "v is no plain column" in refusal(stage)


def test_a_path_that_would_be_a_pattern_is_refused(tmp_path: Path) -> None:
    stage = stage_over(tmp_path / "day=[1-3]", "k int, v int", rows(pa.int64(), 1))
    assert refusal(stage) == "a path of one would be a pattern"


def test_a_broken_footer_is_refused(tmp_path: Path) -> None:
    stage = stage_over(tmp_path, "k int, v int", rows(pa.int64(), 1))
    path = tmp_path / "part-0.parquet"
    path.write_bytes(b"x" * path.stat().st_size)
    assert refusal(stage) == "a footer cannot be read"


def test_numbers_that_meet_beyond_38_digits_are_refused(tmp_path: Path) -> None:
    stage = stage_over(tmp_path, "k int, v decimal(38,20)", rows(pa.decimal128(38, 20), Decimal(1)))
    (measure,) = stage.measures
    first = measure.inputs[0]
    assert first is not None
    inputs = (first, replace(first, type=INT))
    told = refusal(replace(stage, measures=(replace(measure, inputs=inputs),)))
    assert "no form within 38 digits" in told


def test_a_filter_of_pinned_files_is_refused_unless_it_is_exact(tmp_path: Path) -> None:
    stage = stage_over(tmp_path, "k int, v int", rows(pa.int64(), 1))
    scans = tuple(replace(scan, filter="v = '1'") for scan in stage.scans)
    refused = "a condition over one is Spark's SQL: values of two types are compared"
    assert refusal(replace(stage, scans=scans)) == refused
    scans = tuple(replace(scan, filter="v > 0") for scan in stage.scans)
    assert native_sources(replace(stage, scans=scans), salt="s")[0].filter is not None


def test_an_expression_of_a_source_is_refused(tmp_path: Path) -> None:
    stage = stage_over(tmp_path, "k int, v int", rows(pa.int64(), 1))
    made = ScanColumn(name="v", expression="v + 1", type=INT)
    scans = tuple(replace(scan, columns=(scan.column("k"), made)) for scan in stage.scans)
    assert refusal(replace(stage, scans=scans)) == "v of one is an expression"


def test_an_extract_is_scanned_by_logical_names_unless_values_are_invalid(tmp_path: Path) -> None:
    stage = stage_over(tmp_path, "k int, v int", rows(pa.int64(), 1))
    pin = stage.scans[0].pin
    assert isinstance(pin, FileList)
    extract = Extract(root=str(tmp_path), files=pin.files, rows=1, decoded_bytes=1)
    scans = tuple(replace(scan, extract=extract, filter="SELECT") for scan in stage.scans)
    assert native_sources(replace(stage, scans=scans), salt="s")[0].values[0].physical == "v"
    invalid = replace(extract, invalid_columns=("v",))
    scans = tuple(replace(scan, extract=invalid) for scan in stage.scans)
    told = refusal(replace(stage, scans=scans))
    assert told == "one holds values without a canonical form"


@pytest.mark.parametrize(
    ("files", "numbers", "ascends"),
    [
        ([[1, 2], [3]], True, True),
        ([[2, 1], [3]], True, True),
        ([[1, 2], [2, 3]], True, False),
        ([[3], [1, 2]], True, False),
        ([[1, 2], [None, 3]], False, False),
        ([[]], False, False),
    ],
    ids=["ascend", "within a group rows tell", "meet", "descend", "one is NULL", "none is known"],
)
def test_footers_tell_whether_keys_are_numbers_that_ascend(
    tmp_path: Path, files: list[list[int | None]], *, numbers: bool, ascends: bool
) -> None:
    tables = [
        pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(keys, pa.int64())})
        for keys in files
    ]
    source, _ = native_sources(stage_over(tmp_path, "k int, v int", *tables), salt="s")
    assert (source.has_numbers, source.ascends) == (numbers, ascends)


def test_a_key_that_is_no_number_does_not_ascend(tmp_path: Path) -> None:
    table = pa.table({"k": ["a", "b"], "v": [1, 2]})
    source, _ = native_sources(stage_over(tmp_path, "k text, v int", table), salt="s")
    assert not source.has_numbers
    assert not source.ascends


def _rewrite(folder: Path, table: pa.Table, **options: bool) -> None:
    pq.write_table(table, folder / "part-0.parquet", **options)


def _pinned_again(stage: StagePlan, folder: Path) -> StagePlan:
    size = (folder / "part-0.parquet").stat().st_size
    file = PinnedFile(path="part-0.parquet", size_bytes=size, rows=1)
    pin = FileList(root=str(folder), files=(file,), taken_at=NOON)
    return replace(stage, scans=tuple(replace(scan, pin=pin) for scan in stage.scans))
