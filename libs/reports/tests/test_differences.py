"""Difference files: every column of the specification, read back digit for digit."""

import io
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.proof.reading import DocumentUnreadableError
from datarecs_core.comparison.results.results import Difference, DifferenceClass, Outcome
from datarecs_memory.engine import MemoryEngine
from datarecs_reports.difference_file import difference_schema, stored_below, write_differences
from datarecs_reports.differences import DifferenceFilter, UnknownFilterError, read_differences
from datarecs_testing.comparisons import a_measure, absolute, aggregate_by, counting, rows_by
from datarecs_testing.tables import Row, Table, a_job, a_table, plan_of

ALL = DifferenceFilter()
DIGITS_38 = "12345678901234567890123456789012345.678"
COLUMNS = [
    "break_id", "stage", "measure", "outcome", "class", "presence", "odd_one_out", "key",
    "key_hash", "values", "raw_values", "deltas", "delta_percent", "locator", "sort_delta",
]  # fmt: skip


def stored(tables: Sequence[Table], stage: StagePlan, folder: Path) -> list[bytes]:
    """What the memory engine leaves for a stage."""
    engine = MemoryEngine(
        lambda scan: tables[scan.index].delivered(scan), write=stored_below(folder)
    )
    location = engine.compare(stage, lambda _: None).differences.location
    return [part.read_bytes() for part in sorted(Path(location or "").glob("*.parquet"))]


def of_rows(tables: Sequence[Table], folder: Path, *measures: str) -> list[bytes]:
    stage = rows_by("id", *[a_measure(name) for name in measures])
    return stored(tables, plan_of(a_job(tables, stage), tables).stages[0], folder)


def two(columns: str, first: Sequence[Row], second: Sequence[Row]) -> list[Table]:
    return [a_table("ledger", columns, *first), a_table("exports", columns, *second)]


def a_stage() -> StagePlan:
    tables = two("id int", [], [])
    return plan_of(a_job(tables, rows_by("id")), tables).stages[0]


def a_difference(**fields: object) -> Difference:
    all_fields: dict[str, object] = {
        "break_id": "a" * 26,
        "stage": "rows",
        "measure": "amount",
        "outcome": Outcome.BREAK,
        "difference_class": DifferenceClass.OUTSIDE,
        "presence": 3,
        "odd_one_out": None,
        "key": ("1",),
        "key_encoded": b"",
        "key_hash": bytes(16),
        "values": (("ledger", "1"), ("exports", "2")),
        **fields,
    }
    return Difference(**all_fields)  # type: ignore[arg-type]  # fields of Difference by name


def part_of(folder: Path, *rows: Difference) -> bytes:
    path = folder / "part.parquet"
    write_differences(path, a_stage(), rows)
    return path.read_bytes()


def test_a_file_has_the_columns_of_the_specification(tmp_path: Path) -> None:
    table = pq.read_table(io.BytesIO(part_of(tmp_path, a_difference())))
    assert table.column_names == COLUMNS
    assert table.schema.field("key").type == pa.struct([("id", pa.string())])
    for name in ("values", "raw_values", "deltas", "delta_percent", "locator"):
        assert table.schema.field(name).type == pa.map_(pa.string(), pa.string())
    assert table.schema.field("sort_delta").type == pa.float64()
    assert len(table["key_hash"][0].as_py()) == 16


def test_a_stage_without_dimensions_has_no_key(tmp_path: Path) -> None:
    tables = two("id int", [(1,), (2,)], [(1,)])
    parts = stored(tables, plan_of(a_job(tables, counting()), tables).stages[0], tmp_path)
    assert "key" not in difference_schema([]).names
    (row,) = read_differences(parts, ALL, limit=10)
    assert row["key"] == {}
    assert row["values"] == {"ledger": "2", "exports": "1"}


@pytest.mark.case("U50")
def test_38_digits_come_back_as_they_were(tmp_path: Path) -> None:
    less = "12345678901234567890123456789012345.677"
    tables = two("id int, amount decimal(38,3)", [(1, Decimal(DIGITS_38))], [(1, Decimal(less))])
    (row,) = read_differences(of_rows(tables, tmp_path, "amount"), ALL, limit=10)
    assert row["values"] == {"ledger": DIGITS_38, "exports": less}
    assert row["deltas"] == {"exports": "-0.001"}
    assert row["key"] == {"id": "1"}
    assert row["class"] == "OUTSIDE"


@pytest.mark.case("U50")
@given(st.decimals(allow_nan=False, allow_infinity=False, places=18, min_value=0, max_value=10**18))
def test_every_amount_survives_the_file(
    tmp_path_factory: pytest.TempPathFactory, amount: Decimal
) -> None:
    folder = tmp_path_factory.mktemp("amount")
    part = part_of(folder, a_difference(deltas=(("exports", amount),)))
    (row,) = read_differences([part], ALL, limit=1)
    deltas = row["deltas"]
    assert isinstance(deltas, dict)
    assert Decimal(deltas["exports"]) == amount


def test_the_largest_difference_comes_first_whatever_its_sign(tmp_path: Path) -> None:
    rows = [(n, Decimal(n)) for n in range(50)]
    changed = [(n, Decimal(n) + (n if n % 2 else -n) * Decimal("0.01")) for n in range(50)]
    tables = two("id int, amount decimal(10,2)", rows, changed)
    differences = read_differences(of_rows(tables, tmp_path, "amount"), ALL, limit=3)
    assert [row["key"] for row in differences] == [{"id": "49"}, {"id": "48"}, {"id": "47"}]


def test_amounts_that_share_a_double_are_ranked_exactly(tmp_path: Path) -> None:
    near = [Decimal(2**60) + n for n in range(40)]
    rows = [
        a_difference(break_id=f"{n:026}", deltas=(("exports", delta),))
        for n, delta in enumerate(near)
    ]
    differences = read_differences([part_of(tmp_path, *rows)], ALL, limit=5)
    assert [row["break_id"] for row in differences] == [f"{n:026}" for n in (39, 38, 37, 36, 35)]


@given(
    st.lists(st.one_of(st.none(), st.integers(-5, 5)), min_size=1, max_size=12),
    st.integers(1, 12),
    st.integers(1, 3),
)
def test_the_order_does_not_depend_on_the_parts(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int | None], limit: int, parts: int
) -> None:
    rows = [
        a_difference(
            break_id=f"{n:026}",
            deltas=() if each is None else (("exports", Decimal(each)),),
        )
        for n, each in enumerate(sizes)
    ]
    files = [
        part_of(tmp_path_factory.mktemp("parts"), *rows[number::parts]) for number in range(parts)
    ]
    ids = [row["break_id"] for row in read_differences(files, ALL, limit=limit)]
    ordered = sorted(
        rows,
        key=lambda row: (1 if row.max_abs_delta is None else -row.max_abs_delta, row.break_id),
    )
    assert ids == [row.break_id for row in ordered][:limit]


def test_differences_within_tolerance_are_no_mismatches(tmp_path: Path) -> None:
    tables = two(
        "id int, amount decimal(10,2)",
        [(1, Decimal(1)), (2, Decimal(1))],
        [(1, Decimal("1.01")), (2, Decimal(9))],
    )
    stage = aggregate_by("id", a_measure("amount", absolute("0.01")))
    parts = stored(tables, plan_of(a_job(tables, stage), tables).stages[0], tmp_path)
    assert [row["key"] for row in read_differences(parts, ALL, limit=10)] == [{"id": "2"}]


def mixed(folder: Path) -> list[bytes]:
    """One group missing in each source, an amount outside, a NULL, two columns outside."""
    columns = "id int, amount decimal(10,2), status text"
    tables = two(
        columns,
        [(1, Decimal(1), "A"), (2, Decimal(2), "A"), (3, None, "A"), (4, Decimal(4), "A")],
        [(2, Decimal(3), "B"), (3, Decimal(3), "A"), (4, Decimal(4), "A"), (5, Decimal(5), "A")],
    )
    return of_rows(tables, folder, "amount", "status")


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        (DifferenceFilter(), ["1", "2", "2", "3", "5"]),
        (DifferenceFilter(only="missing:exports"), ["1"]),
        (DifferenceFilter(only="missing:ledger"), ["5"]),
        (DifferenceFilter(only="outside:status"), ["2"]),
        (DifferenceFilter(only="null"), ["3"]),
        (DifferenceFilter(only="type"), []),
        (DifferenceFilter(measure="amount"), ["2", "3"]),
        (DifferenceFilter(measure="$presence"), ["1", "5"]),
        (DifferenceFilter(measure="status", only="null"), []),
    ],
)
def test_filters_choose_rows(tmp_path: Path, where: DifferenceFilter, keys: list[str]) -> None:
    rows = read_differences(mixed(tmp_path), where, limit=100)
    shown = [row["key"] for row in rows]
    assert sorted(key["id"] for key in shown if isinstance(key, dict)) == keys


@pytest.mark.parametrize("only", ["missing", "missing:", "outside", "null:x", "everything", "a:b"])
def test_an_unknown_filter_is_refused_with_those_there_are(only: str) -> None:
    with pytest.raises(UnknownFilterError, match="missing:SOURCE, outside:MEASURE, null"):
        DifferenceFilter(only=only)


def test_values_of_another_type_are_selected_by_type(tmp_path: Path) -> None:
    rows = (
        a_difference(difference_class=DifferenceClass.INVALID),
        a_difference(break_id="b" * 26, difference_class=DifferenceClass.NOT_COMPARABLE),
        a_difference(break_id="c" * 26),
    )
    differences = read_differences(
        [part_of(tmp_path, *rows)], DifferenceFilter(only="type"), limit=9
    )
    assert [row["class"] for row in differences] == ["INVALID", "NOT_COMPARABLE"]


def test_an_empty_stage_leaves_an_empty_file(tmp_path: Path) -> None:
    assert read_differences([part_of(tmp_path)], ALL, limit=1) == []


def test_bytes_that_are_no_difference_file_are_refused() -> None:
    with pytest.raises(DocumentUnreadableError):
        read_differences([b"nothing"], ALL, limit=1)


def test_a_name_of_a_stage_becomes_one_folder(tmp_path: Path) -> None:
    stage = replace(a_stage(), name="a/b ..")
    location = Path(stored_below(tmp_path)(stage, [a_difference()]))
    assert location.parent == tmp_path
