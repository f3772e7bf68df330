"""Values at the ends of their types as partitions: each lands, or is a bad record at once."""

import os
from decimal import Decimal
from typing import Any, cast
from urllib.parse import unquote_plus

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from datarecs_connectors.sinking.partitions import Partitioner, PartitionValues
from datarecs_core.errors.sink import BadRecordError
from datarecs_core.sink.definition import SinkMode
from datarecs_testing.lake import path_at

from .sink_house import TARGET, House, records_of

SMALL = "the number is too small for the partition of the table that rounds it"
FIRST, LAST = "0001-01-01", "9999-12-31"
Values = tuple[Any, ...]
ENDS: list[tuple[IcebergType, Values]] = [
    (BooleanType(), (True, False)),
    (IntegerType(), (-(2**31), 2**31 - 1, 0)),
    (LongType(), (-(2**63), 2**63 - 1, 0)),
    (FloatType(), (Decimal("-3.4028235e38"), 0)),
    (DoubleType(), (Decimal("-1.7976931348623157e308"), Decimal("5e-324"))),
    (DecimalType(9, 2), (Decimal("-9999999.99"), Decimal("9999999.99"))),
    (DecimalType(38, 0), (-(10**38) + 1, 10**38 - 1)),
    (DecimalType(38, 38), (Decimal("-0." + "9" * 38), Decimal("0." + "9" * 38))),
    (DateType(), (FIRST, LAST)),
    (TimeType(), ("00:00:00", "23:59:59.999999")),
    (TimestampType(), (f"{FIRST}T00:00:00", f"{LAST}T23:59:59.999999")),
    (TimestamptzType(), (f"{FIRST}T00:00:00Z", f"{LAST}T23:59:59.999999Z")),
    (StringType(), ("", "\0", "/..%\n", "é" * 300, "..", "\x7f")),
    (BinaryType(), ("", "AAAA" * 100)),
    (UUIDType(), ("00000000-0000-0000-0000-000000000000",)),
]
TRANSFORMS: list[Transform[Any, Any]] = [
    IdentityTransform(),
    YearTransform(),
    MonthTransform(),
    DayTransform(),
    HourTransform(),
    BucketTransform(2**31 - 1),
    TruncateTransform(1),
    TruncateTransform(7),
    TruncateTransform(2**31 - 1),
]
PAIRS = [
    pytest.param(transform, kind, values, id=f"{transform} of {kind}")
    for transform in TRANSFORMS
    for kind, values in ENDS
    if transform.can_transform(kind)
]


def create(house: House, kind: IcebergType, transform: Transform[Any, Any]) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "value", kind, required=False),
        identifier_field_ids=[1],
    )
    spec = PartitionSpec(PartitionField(2, 1000, transform, "value_part"))
    house.lake.table("orders", schema, spec=spec)


@pytest.mark.parametrize(("transform", "kind", "values"), PAIRS)
def test_a_value_at_the_end_of_its_type_lands_or_is_bad(
    house: House, transform: Transform[Any, Any], kind: IcebergType, values: Values
) -> None:
    create(house, kind, transform)
    writer = house.tables().writer(TARGET)
    landed, bad = 0, []
    for number, value in enumerate((*values, None)):
        try:
            writer.add(records_of({"id": number, "value": value}))
            landed += 1
        except BadRecordError as error:
            bad.append((error.path, error.reason))
    house.commit(house.request(*writer.finish()))
    assert len(house.rows()) == landed
    assert set(bad) <= {("value", SMALL)}
    assert len(bad) <= isinstance(transform, TruncateTransform)


@pytest.mark.parametrize("mode", [SinkMode.APPEND, SinkMode.UPSERT])
@pytest.mark.parametrize(
    ("width", "kind", "ends"),
    [
        (10, LongType(), (-(2**63) + 8, -(2**63))),
        (7, IntegerType(), (-(2**31) + 2, -(2**31))),
        (50, DecimalType(9, 2), (Decimal("-9999999.50"), Decimal("-9999999.99"))),
    ],
)
def test_a_number_too_small_for_its_partition_is_bad_and_its_index_is_named(
    house: House, mode: SinkMode, width: int, kind: IcebergType, ends: Values
) -> None:
    least, below = ends
    inner = StructType(NestedField(3, "value", kind))
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "nested", inner),
        identifier_field_ids=[1],
    )
    spec = PartitionSpec(PartitionField(3, 1000, TruncateTransform(width), "part"))
    house.lake.table("orders", schema, spec=spec)
    writer = house.tables(mode=mode).writer(TARGET)
    good: list[dict[str, Any]] = [
        {"id": 1, "nested": {"value": least}},
        {"id": 2},
        {"id": 3, "nested": {"value": 1}},
    ]
    writer.add(records_of(*good))
    with pytest.raises(BadRecordError) as bad:
        writer.add(records_of(*good, {"id": 4, "nested": {"value": below}}))
    assert (bad.value.path, bad.value.reason, bad.value.at) == ("nested.value", SMALL, 3)
    assert sum(entry.record_count for entry in writer.finish()) == 3


LONG = {"plain": "x" * 300, "escaped": "é" * 300, "begin": "x" * 70 + "é" * 40}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_long_value_has_a_short_folder(house: House, text: str) -> None:
    create(house, StringType(), IdentityTransform())
    other = f"{text[:-1]}!"
    files = house.write(records_of({"id": 1, "value": text}, {"id": 2, "value": other}))
    folders = {os.path.basename(os.path.dirname(path_at(file.path))) for file in files}  # noqa: PTH119, PTH120  names as they are on disk
    assert len(folders) == 2
    for folder in folders:
        assert len(folder.encode()) <= 100
        readable = unquote_plus(folder[:-17], errors="strict")
        assert text.startswith(readable.removeprefix("value_part="))
    house.commit(house.request(*files))
    assert {row["value"] for row in house.rows()} == {text, other}


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("a/b", "value_part=a%2Fb"),
        ("..", "value_part=.."),
        ("../../x", "value_part=..%2F..%2Fx"),
        ("\0\n", "value_part=%00%0A"),
        ("50%", "value_part=50%25"),
        ("x" * 89, f"value_part={'x' * 89}"),
    ],
)
def test_special_characters_of_a_folder_are_escaped(text: str, folder: str) -> None:
    schema = Schema(NestedField(1, "value", StringType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "value_part"))
    assert PartitionValues(spec, (text,)).path(schema) == folder


class CountedTakes:
    """A table that counts how often its rows are put into another order."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows, self.takes = rows, 0

    def take(self, order: object) -> pa.Table:
        self.takes += 1
        return self._rows.take(order)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  of the table
        return getattr(self._rows, name)


def test_rows_of_many_small_batches_are_divided_by_one_sort() -> None:
    """A take reads every batch again, so one for each partition takes minutes for thousands."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", StringType()))
    spec = PartitionSpec(PartitionField(2, 1_000, IdentityTransform(), "day"))
    batches = [pa.table({"id": [at], "day": [f"day {at % 50}"]}) for at in range(200)]
    rows = CountedTakes(pa.concat_tables(batches))
    parts = list(Partitioner(spec, schema).split(cast("pa.Table", rows)))
    assert rows.takes == 1
    assert {values.values[0]: part.column("id").to_pylist() for values, part in parts} == {
        f"day {day}": list(range(day, 200, 50)) for day in range(50)
    }
