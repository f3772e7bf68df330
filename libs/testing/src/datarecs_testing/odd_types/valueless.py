"""Columns without any value: they have every type."""

from collections.abc import Iterable

import pyarrow as pa

from datarecs_core.comparison.results.results import Verdict
from datarecs_testing.odd_types.case import PLAIN, OddCase, by, missing, parquet, text, unequal
from datarecs_testing.odd_types.nested import LISTS


def valueless() -> Iterable[OddCase]:
    amounts = {**PLAIN, "v": pa.array([1, 2, None], pa.int64())}
    yield OddCase(
        name="header-alone-against-typed-columns",
        kinds=("csv", "parquet"),
        files=(text("id,v,day\n"), parquet({**amounts, "day": pa.nulls(3, pa.date32())})),
        verdict=Verdict.UNMATCHED,
        differences=frozenset(missing((key,)) for key in "123"),
    )
    yield OddCase(
        name="csv-column-without-a-value",
        kinds=("csv", "csv"),
        files=(text("id,v\n1,\n2,\n"), text("id,v\n1,\n2,2.50\n")),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "2", None, "2.5", kind="NULL_MISMATCH"),
    )
    yield OddCase(
        name="csv-column-without-a-value-in-any-source",
        kinds=("csv", "csv"),
        files=(text("id,v\n1,\n2,\n"),) * 2,
    )
    yield OddCase(
        name="json-column-always-null-against-times",
        kinds=("json", "parquet"),
        files=(
            text('{"id": 1, "v": null}\n{"id": 2, "v": null}\n', ending="jsonl"),
            parquet({"id": [1, 2], "v": pa.array([None, 0], pa.timestamp("us", "UTC"))}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "2", None, "1970-01-01T00:00:00Z", kind="NULL_MISMATCH"),
    )
    yield OddCase(
        name="local-times-with-a-zone-against-no-value",
        kinds=("csv", "parquet"),
        files=(
            text("id,v\n1,\n2,\n"),
            parquet({"id": [1, 2], "v": pa.array([None, 0], pa.timestamp("us"))}),
        ),
        sources={"two": {"timezone": "Europe/Paris"}},
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "2", None, "1969-12-31T23:00:00Z", kind="NULL_MISMATCH"),
    )
    yield OddCase(
        name="parquet-null-type-against-int-and-in-a-key",
        files=(
            parquet({**PLAIN, "part": pa.nulls(3), "v": pa.nulls(3)}),
            parquet({**amounts, "part": pa.nulls(3, pa.string())}),
        ),
        job=by("id", "part"),
        verdict=Verdict.UNMATCHED,
        differences=frozenset(("v", "NULL_MISMATCH", (key, None), (None, key)) for key in "12"),
    )
    yield OddCase(
        name="parquet-null-type-against-lists",
        files=(
            parquet({**PLAIN, "v": pa.nulls(3)}),
            parquet({**PLAIN, "v": pa.array([[1], None, None], LISTS)}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "1", None, "[1]", kind="NULL_MISMATCH"),
    )
    yield OddCase(
        name="parquet-lists-without-an-element",
        files=(
            parquet({**PLAIN, "v": pa.array([[], [None], None])}),
            parquet({**PLAIN, "v": pa.array([[], [2], None], LISTS)}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "2", "[NULL]", "[2]"),
    )
    yield OddCase(
        name="parquet-null-type-in-the-first-file-alone",
        files=(
            parquet({**PLAIN, "v": pa.nulls(3)}, {"id": [4], "v": pa.array([7], pa.int64())}),
            parquet({"id": [1, 2, 3, 4], "v": pa.array([None, None, None, 8], pa.int64())}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "4", "7", "8"),
    )
    yield OddCase(
        name="parquet-without-a-row-or-a-type",
        files=(
            parquet(pa.table({"id": pa.nulls(0), "v": pa.nulls(0), "w": pa.nulls(0)})),
            parquet({"id": [1], "v": pa.array([[1]], LISTS), "w": [b"w"]}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=frozenset({missing(("1",))}),
    )
    shape = {"name": "shape", "type": "schema"}
    yield OddCase(
        name="no-value-in-a-schema-stage",
        kinds=("csv", "csv"),
        files=(text("id,v\n1,\n"), text("id,v\n1,2026-01-31\n")),
        job={"stages": [shape]},
    )
    yield OddCase(
        name="no-value-under-a-sum-and-a-cast",
        kinds=("csv", "csv"),
        files=(text("id,v,w\n1,,\n"), text("id,v,w\n1,0.5,007\n")),
        sources={"one": {"cast": {"w": "text"}}},
        job={
            "stages": [
                {
                    "name": "sums",
                    "type": "aggregate",
                    "dimensions": ["id"],
                    "measures": [
                        {"name": "v", "column": "v", "function": "sum"},
                        {"name": "w", "column": "w", "function": "count"},
                    ],
                }
            ]
        },
        verdict=Verdict.UNMATCHED,
        differences=frozenset(
            {
                ("v", "NULL_MISMATCH", ("1",), (None, "0.5")),
                ("w", "OUTSIDE", ("1",), ("0", "1")),
            }
        ),
    )
