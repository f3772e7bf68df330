"""Texts of floats as exporters write them."""

from collections.abc import Iterable

import pyarrow as pa

from datarecs_core.comparison.results.results import Verdict
from datarecs_testing.odd_types.case import OddCase, parquet, text, unequal


def floats() -> Iterable[OddCase]:
    texts = ("1e10", "-1.5E-07", "NaN", "Infinity", "-Infinity", "0.1", "1.0E10", "1e+3", "-0.0")
    written = "\n".join(["id,v", *(f"{at},{one}" for at, one in enumerate(texts, 1)), ""])
    values = [1e10, -1.5e-07, float("nan"), float("inf"), float("-inf"), 0.1, 1e10, 1000.0, 0.0]
    numbers = {"id": range(1, 10), "v": pa.array(values, pa.float64())}
    cast = {"one": {"cast": {"v": "float64"}}}
    yield OddCase(
        name="floats-of-text-under-a-cast",
        kinds=("csv", "parquet"),
        sources=cast,
        files=(text(written), parquet(numbers)),
    )
    yield OddCase(
        name="floats-of-text-declared-in-a-schema",
        kinds=("csv", "parquet"),
        sources={"one": {"options": {"schema": {"v": "float64"}}}},
        files=(text(written), parquet(numbers)),
    )
    spelled = "id,v\n1,inf\n2,-inf\n3,nan\n4,Inf\n"
    yield OddCase(
        name="floats-as-python-duckdb-and-go-write-them",
        kinds=("csv", "parquet"),
        sources=cast,
        files=(
            text(spelled),
            parquet({"id": [1, 2, 3, 4], "v": [values[3], values[4], values[2], values[3]]}),
        ),
    )
    yield OddCase(
        name="what-is-no-double-is-invalid",
        kinds=("csv", "parquet"),
        sources=cast,
        files=(
            text("id,v\n1,1e400\n2,1e999999999999\n3, 7\n4,+7\n5,0.10000000000000000001\n6,1e\n"),
            parquet({"id": [1, 2, 3, 4, 5, 6], "v": [float("inf"), 0.0, 7.0, 7.0, 0.1, 1.0]}),
        ),
        verdict=Verdict.UNMATCHED,
        differences=frozenset(
            ("v", "INVALID", (key,), (f"INVALID(0x{raw.hex()})", shown))
            for key, raw, shown in (
                ("1", b"1e400", "Inf"),
                ("2", b"1e999999999999", "0"),
                ("3", b" 7", "7"),
                ("4", b"+7", "7"),
                ("5", b"0.10000000000000000001", "0.1"),
                ("6", b"1e", "1"),
            )
        ),
    )
    yield OddCase(
        name="exponents-stay-text-elsewhere",
        kinds=("csv", "parquet"),
        sources={"one": {"cast": {"v": "decimal(10,2)"}}},
        files=(text("id,v\n1,1e1\n"), parquet({"id": [1], "v": [10.0]})),
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "1", "INVALID(0x316531)", "10", kind="INVALID"),
    )
    yield OddCase(
        name="floats-of-text-in-a-sum",
        kinds=("csv", "parquet"),
        sources=cast,
        files=(text("id,v\n1,1e3\n1,2.5e-1\n"), parquet({"id": [1, 1], "v": [1000.0, 0.5]})),
        job={
            "stages": [
                {
                    "name": "sums",
                    "type": "aggregate",
                    "dimensions": ["id"],
                    "measures": [{"name": "v", "column": "v", "function": "sum"}],
                }
            ]
        },
        verdict=Verdict.UNMATCHED,
        differences=unequal("v", "1", "1000.25", "1000.5"),
    )
    yield OddCase(
        name="short-floats-of-text",
        kinds=("csv", "parquet"),
        sources={"one": {"cast": {"v": "float32"}}},
        files=(
            text("id,v\n1,NaN\n2,1.5e3\n3,-Infinity\n"),
            parquet({"id": [1, 2, 3], "v": pa.array([values[2], 1500.0, values[4]], pa.float32())}),
        ),
    )
