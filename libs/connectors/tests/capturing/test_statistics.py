"""Figures of columns: exactly those of a plain loop over the rows, however they are stored."""

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datarecs_connectors.arrow_types import canonical_type
from datarecs_connectors.capturing.statistics import FileFigures, statistics_engine
from datarecs_connectors.typed_columns import stored_column
from datarecs_core.captures.request import CapturePolicy, ColumnChoice, Output
from datarecs_core.captures.sketches import SKETCH_HASHES
from datarecs_core.catalog.records import Completeness, FileStats, Producer, ScalarStats
from datarecs_core.jobs import types
from datarecs_testing.captured_files import merged_columns

Folder = Any
POLICY = CapturePolicy(outputs=(Output.COLUMN_STATS,), column_choice=ColumnChoice.ALL)
SCHEMA = pa.schema(
    {
        "flag": pa.bool_(),
        "int": pa.int64(),
        "short": pa.int16(),
        "unsigned": pa.uint64(),
        "double": pa.float64(),
        "single": pa.float32(),
        "money": pa.decimal128(38, 9),
        "text": pa.string(),
        "bytes": pa.binary(),
        "day": pa.date32(),
        "instant": pa.timestamp("ms", tz="UTC"),
        "local": pa.timestamp("us"),
        "clock": pa.time64("us"),
        "list": pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])),
    }
)
_MICROS = 2**62


def _amounts() -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**20), 10**20).map(lambda number: Decimal(number).scaleb(-9))


def _floats(width: Literal[32, 64]) -> st.SearchStrategy[float]:
    return st.floats(width=width) | st.sampled_from([math.nan, -0.0, 0.0, math.inf, -math.inf])


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "flag": st.booleans(),
    "int": st.integers(-(2**63), 2**63 - 1),
    "short": st.integers(-(2**15), 2**15 - 1),
    "unsigned": st.integers(0, 2**64 - 1),
    "double": _floats(64),
    "single": _floats(32),
    "money": _amounts(),
    "text": st.text(max_size=6),
    "bytes": st.binary(max_size=6),
    "day": st.integers(-(2**31), 2**31 - 1),
    "instant": st.integers(-_MICROS, _MICROS),
    "local": st.integers(-_MICROS, _MICROS),
    "clock": st.integers(0, 86_399_999_999),
    "list": st.lists(
        st.none()
        | st.fixed_dictionaries({"a": st.none() | st.integers(0, 3), "b": st.text(max_size=1)}),
        max_size=3,
    ),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | one for name, one in VALUES.items()}), max_size=12
)


def _array(name: str, rows: Sequence[dict[str, Any]]) -> pa.Array:
    kind, values = SCHEMA.field(name).type, [row[name] for row in rows]
    if name == "day":
        return pa.array(values, pa.int32()).view(kind)
    if name in {"instant", "local", "clock"}:
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def table_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.table([_array(name, rows) for name in SCHEMA.names], schema=SCHEMA)


def figures(table: pa.Table, batch_rows: int = 1000) -> FileFigures:
    columns = [(field.name, canonical_type(field.type)) for field in table.schema]
    batches = (
        (
            batch.num_rows,
            [
                stored_column(column, kind)
                for column, (_, kind) in zip(batch.columns, columns, strict=True)
                if kind is not None
            ],
        )
        for batch in table.to_batches(batch_rows)
    )
    with statistics_engine() as engine:
        return engine.of_file(columns, batches)


@dataclass(frozen=True)
class Oracle:
    """The figures of one column by a plain loop."""

    name: str
    values: Sequence[Any]

    def row(self) -> tuple[object, ...]:
        known = [value for value in self.values if value is not None]
        is_float = self.name in {"double", "single"}
        nans = sum(math.isnan(value) for value in known) if is_float else None
        bounds: tuple[str | None, str | None] = (None, None)
        if known and self.name != "list":
            order = _float_order if is_float else _plain_order
            bounds = (self._text(min(known, key=order)), self._text(max(known, key=order)))
        return (
            len(self.values),
            len(self.values) - len(known),
            nans,
            str(len({self._text(value) for value in known})),
            *bounds,
        )

    def _text(self, value: Any) -> str:  # noqa: ANN401, C901, PLR0911 - one line per type
        match self.name:
            case "flag":
                return "true" if value else "false"
            case "double" | "single":
                return _float_text(value, self.name)
            case "money":
                text = format(value, "f")
                return (
                    text.rstrip("0").rstrip(".")
                    if "." in text and value
                    else text
                    if value
                    else "0"
                )
            case "bytes":
                return base64.b64encode(value).decode()
            case "day":
                return _day_text(value)
            case "instant":
                days, rest = divmod(value, 86_400_000)
                return f"{_day_text(days)}T{_clock_text(rest * 1000, 3)}Z"
            case "local":
                days, rest = divmod(value, 86_400_000_000)
                return f"{_day_text(days)}T{_clock_text(rest, 6)}"
            case "clock":
                return _clock_text(value, 6)
            case "list":
                return repr([one and (one["a"], one["b"]) for one in value])
            case _:
                return str(value)


def _plain_order(value: Any) -> Any:  # noqa: ANN401 - of one type
    return value.encode() if isinstance(value, str) else value


def _float_order(value: float) -> tuple[bool, float]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)


def _float_text(value: float, name: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0.0"
    return repr(float(str(np.float32(value)) if name == "single" else repr(value)))


def _day_text(days: int) -> str:
    text = str(np.datetime64(days, "D"))
    year, month, day = text.rsplit("-", 2)
    number = int(year)
    return f"{number:04}-{month}-{day}" if 1 <= number <= 9999 else f"{number:+05}-{month}-{day}"


def _clock_text(micros: int, digits: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{clock}.{f'{rest:06}'[:digits]}"


def _row(column: ScalarStats) -> tuple[object, ...]:
    return (column.rows, column.nulls, column.nans, column.ndv, column.min, column.max)


def file_stats(number: int, result: FileFigures) -> FileStats:
    return FileStats(
        table_id=UUID(int=1),
        snapshot_id=1,
        path=f"{number}.parquet",
        format="parquet",
        producer=Producer.ENGINE_COMPUTED,
        completeness=Completeness.COMPLETE,
        captured_at=datetime(2026, 1, 31, tzinfo=UTC),
        rows=result.rows,
        size_bytes=1,
        columns=result.columns,
        etag="e",
        stored_rows=result.rows,
        deletes=(),
    )


@pytest.mark.case("Q46")
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    rows=ROWS,
    cuts=st.sets(st.integers(0, 12), max_size=3),
    batch_rows=st.integers(1, 5),
    data=st.data(),
)
def test_figures_are_those_of_a_plain_loop_in_any_order_and_cut(
    rows: list[dict[str, Any]], cuts: set[int], batch_rows: int, data: st.DataObject
) -> None:
    whole = figures(table_of(rows))
    assert whole.is_complete
    for column in whole.columns:
        assert _row(column) == Oracle(column.name, [row[column.name] for row in rows]).row(), (
            column.name
        )
    shuffled = data.draw(st.permutations(rows))
    assert figures(table_of(shuffled), batch_rows) == whole
    edges = [0, *sorted(cuts), len(rows)]
    parts = [
        figures(table_of(shuffled[min(begin, len(rows)) : min(end, len(rows))]), batch_rows)
        for begin, end in pairwise(edges)
    ]
    merged = merged_columns([file_stats(number, part) for number, part in enumerate(parts)])
    assert merged == whole.columns


@pytest.mark.case("Q46")
@pytest.mark.parametrize("group_rows", [1, 7, 1000])
def test_row_groups_files_and_dictionaries_do_not_matter(folder: Folder, group_rows: int) -> None:
    rows = 500
    table = pa.table(
        {
            "n": pa.array([None if one % 5 == 0 else one for one in range(rows)], pa.int32()),
            "f": pa.array([math.nan if one % 3 == 0 else -one / 7 for one in range(rows)]),
            "s": [f"value {one % 11}" for one in range(rows)],
            "l": [[None, one % 3] if one % 2 else None for one in range(rows)],
            "d": pa.array([Decimal(one).scaleb(-2) for one in range(rows)], pa.decimal128(9, 2)),
        }
    )
    order = pa.array(np.random.default_rng(group_rows).permutation(rows))
    (folder.root / "t").mkdir()
    for number, part in enumerate((table.take(order)[:123], table.take(order)[123:], table[:0])):
        path = folder.root / f"t/{number}.parquet"
        pq.write_table(part, path, row_group_size=group_rows, use_dictionary=number == 0)
    captured = folder.capture("t", POLICY)
    assert [file.rows for file in captured] == [123, 377, 0]
    merged = merged_columns(
        [
            file_stats(number, FileFigures(rows=file.rows, columns=file.columns, is_complete=True))
            for number, file in enumerate(captured)
        ]
    )
    assert merged == figures(table).columns


def test_numbers_of_different_values_are_exact_up_to_the_size_of_a_sketch() -> None:
    exact = figures(pa.table({"n": list(range(SKETCH_HASHES)) * 3}), 999).columns[0]
    assert (exact.ndv, exact.ndv_method) == (str(SKETCH_HASHES), "exact")
    many = 200_000
    result = figures(pa.table({"n": pa.array(np.arange(many) * 7)}), 9_999).columns[0]
    assert result.ndv_method is not None
    assert result.ndv_method.startswith(f"kmv-{SKETCH_HASHES} duckdb-")
    assert float(result.ndv or 0) == pytest.approx(many, rel=0.08)
    one = figures(pa.table({"n": pa.array(np.arange(0, 150_000) * 7)}))
    other = figures(pa.table({"n": pa.array(np.arange(100_000, many) * 7)}))
    merged = merged_columns([file_stats(1, one), file_stats(2, other)])[0]
    assert (merged.ndv, merged.sketch) == (result.ndv, result.sketch)


def test_equal_numbers_of_all_widths_are_one_value() -> None:
    small = figures(pa.table({"n": pa.array([5, 6], pa.int8())}))
    wide = figures(pa.table({"n": pa.array([5, 2**64 - 1], pa.uint64())}))
    merged = merged_columns([file_stats(1, small), file_stats(2, wide)])[0]
    assert (merged.ndv, merged.min, merged.max) == ("3", "5", "18446744073709551615")


def test_a_table_without_columns_or_rows_has_figures() -> None:
    assert figures(pa.table({})) == FileFigures(rows=0, columns=(), is_complete=True)
    empty = figures(table_of([])).columns
    assert {_row(column)[:2] + _row(column)[3:] for column in empty} == {(0, 0, "0", None, None)}


def test_a_value_that_no_type_holds_leaves_its_figures_out() -> None:
    broken = pa.array([b"\xff", b"a", None], pa.binary()).view(pa.string())
    result = figures(pa.table({"s": broken}))
    assert not result.is_complete
    assert result.columns[0] == ScalarStats(name="s", type="text", rows=3, nulls=1)
    whole = figures(pa.table({"s": ["a"]}))
    merged = merged_columns([file_stats(1, result), file_stats(2, whole)])[0]
    assert merged == ScalarStats(name="s", type="text", rows=4, nulls=1)


def test_uuids_and_json_are_compared_by_value() -> None:
    uuids = pa.array([UUID(int=1).bytes, UUID(int=255).bytes], pa.binary(16))
    column = pa.ExtensionArray.from_storage(pa.uuid(), uuids)
    result = figures(pa.table({"u": column})).columns[0]
    assert (result.min, result.max, result.average_width) == (
        "00000000-0000-0000-0000-000000000001",
        "00000000-0000-0000-0000-0000000000ff",
        "16",
    )
    texts = pa.array(['{"a": 1, "b": 2}', '{"b":2,"a":1}', "[1]"], pa.string())
    result = figures(pa.table({"j": pa.ExtensionArray.from_storage(pa.json_(), texts)})).columns[0]
    assert (result.ndv, result.min) == ("2", None)


@pytest.mark.parametrize("count", range(2_500, 6_000, 500))
def test_an_estimate_is_never_above_the_range_of_whole_numbers(count: int) -> None:
    """Every number twice: an estimate is limited by the bounds, and not only by the rows."""
    values = pa.array([*range(count), *range(count)], pa.int64())
    kind = types.INT
    with statistics_engine() as engine:
        stored = stored_column(values, kind)
        (column,) = engine.of_file([("n", kind)], [(len(values), [stored])]).columns
    assert column.ndv_method != "exact"
    assert 0.8 * count < int(column.ndv or 0) <= count
