"""Files of one source that differ from each other, and lines around rows."""

from collections.abc import Iterable

import pyarrow as pa

from datarecs_core.comparison.results.results import Verdict
from datarecs_testing.odd_types.case import BOM, OddCase, by, parquet, partitions, text, unequal


def files() -> Iterable[OddCase]:
    whole = {"id": [1, 2, 3, 4], "a": [1, 2, 3, 4], "b": ["1", "2", "3", "5"]}
    first, turned = {"id": [1, 2], "a": [1, 2], "b": ["1", "2"]}, {"b": ["3", "4"], "id": [3, 4]}
    yield OddCase(
        name="columns-in-another-order-in-a-later-file",
        files=(parquet(first, {**turned, "a": [3, 4]}), parquet(whole)),
        verdict=Verdict.UNMATCHED,
        differences=unequal("b", "4", "4", "5"),
    )
    yield OddCase(
        name="columns-in-another-order-in-a-later-csv",
        kinds=("csv", "parquet"),
        files=(
            text("id,a,b\n1,1,x1\n2,2,x2\n", "b,id,a\nx3,3,3\nx4,4,4\n"),
            parquet({**whole, "b": ["x1", "x2", "x3", "x5"]}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=unequal("b", "4", "x4", "x5"),
    )
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a", pa.int64())])
    yield OddCase(
        name="required-in-a-later-file-alone",
        files=(
            parquet({"id": [1], "a": [1]}, pa.table({"id": [2], "a": [2]}, schema=schema)),
            parquet({"id": [1, 2], "a": [1, 2]}),
        ),
    )
    days = {
        "day=2026-01-31": {"id": [1], "v": [1]},
        "day=__HIVE_DEFAULT_PARTITION__": {"id": [2], "v": [2]},
    }
    flat = {
        "id": [1, 2],
        "v": [1, 3],
        "day": pa.array([20_484, None], pa.int32()).cast(pa.date32()),
    }
    yield OddCase(
        name="default-partition-is-null",
        files=(partitions(days), parquet(flat)),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "2", "2", "3"),
    )
    yield OddCase(
        name="default-partition-in-a-key-and-a-filter",
        files=(partitions(days), parquet(flat)),
        sources={name: {"filter": "day IS NULL"} for name in ("one", "two")},
        job=by("day", "id"),
        verdict=Verdict.UNMATCHED,
        differences=frozenset({("v", "OUTSIDE", (None, "2"), ("2", "3"))}),
    )
    yield OddCase(
        name="no-partition-but-the-default-one",
        files=(
            partitions({"day=__HIVE_DEFAULT_PARTITION__": {"id": [1, 2], "v": [1, 2]}}),
            parquet({**flat, "v": [1, 2]}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=unequal("day", "1", None, "2026-01-31", kind="NULL_MISMATCH"),
    )
    numbered = {"one": {"options": {"header": False}}}
    yield OddCase(
        name="byte-order-mark-without-a-header",
        kinds=("csv", "parquet"),
        sources=numbered,
        files=(text(BOM + b"1,\xc3\xa9\n2,b\n"), parquet({"c1": [1, 2], "c2": ["é", "b"]})),
        job=by("c1"),
    )
    yield OddCase(
        name="byte-order-mark-before-a-quote",
        kinds=("csv", "parquet"),
        sources=numbered,
        files=(text(BOM + b'"a,1",x\nb,y\n'), parquet({"c1": ["a,1", "b"], "c2": ["x", "z"]})),
        job=by("c1"),
        verdict=Verdict.UNMATCHED,
        differences=unequal("c2", "b", "y", "z"),
    )
    yield OddCase(
        name="byte-order-mark-before-a-quoted-header",
        kinds=("csv", "parquet"),
        files=(
            text(BOM + b'"id","a,b"\n1,x\n', BOM + b'"a,b",id\ny,2\n'),
            parquet({"id": [1, 2], "a,b": ["x", "y"]}),
        ),
    )
