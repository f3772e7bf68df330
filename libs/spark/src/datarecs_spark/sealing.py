"""`proof: rows` in Spark: sums of fingerprints per source and bucket, beside the comparison.

Rows of row and digest stages are hashed in SQL, as digest stages do it; groups of aggregates, which
are few, by core's own functions. Its own module because it costs a second pass and only who asks
for it pays.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from datarecs_core.comparison.oracle.grouping import Cell
from datarecs_core.comparison.results.fingerprints import (
    COUNT_BYTES,
    FINGERPRINT_BYTES,
    bucket_of,
    fingerprint_of,
)
from datarecs_core.comparison.results.results import BucketSum
from datarecs_core.comparison.results.row_digests import row_values
from datarecs_core.comparison.values.canonical import NULL, Value, encode_tuple
from datarecs_kernel.decoding import cell
from datarecs_kernel.forms import Form
from datarecs_kernel.layout import Layout
from datarecs_spark.fingerprints import bucket_totals
from datarecs_spark.prepare import SOURCE

SEALED = "sealed"
"""`what` of the rows: one per source and bucket, or a list of them per task."""
_MODULUS = 2 ** (8 * FINGERPRINT_BYTES)


def sealed_rows(layout: Layout, rows: DataFrame, key: bytes) -> DataFrame:
    """`what` and `body` over prepared and united rows; the layout is one of hashed rows."""
    told = f"named_struct('source', {SOURCE}, 'bucket', k0, 'total', hex(total))"
    totals = bucket_totals(layout, rows, key)
    return totals.selectExpr(f"'{SEALED}' AS what", f"to_json({told}) AS body")


def sealed_groups(layout: Layout, groups: DataFrame, key: bytes) -> DataFrame:
    """The same over groups as `grouping.aggregated` makes them: one row per task."""
    return groups.mapInArrow(_step(layout, groups.columns, key), "what STRING, body STRING")


def read_sealed(answers: Iterable[tuple[str, str]]) -> tuple[BucketSum, ...]:
    """What all tasks sealed, added up, by source and bucket."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for what, body in answers:
        for source, bucket, rows, total in _told(body) if what == SEALED else ():
            before = found.get((source, bucket), (0, 0))
            found[source, bucket] = (before[0] + rows, (before[1] + total) % _MODULUS)
    return tuple(
        BucketSum(source=source, bucket=bucket, rows=rows, total=total)
        for (source, bucket), (rows, total) in sorted(found.items())
    )


def _told(body: str) -> Iterator[tuple[int, int, int, int]]:
    found = json.loads(body)
    if isinstance(found, list):
        yield from ((source, bucket, rows, int(total)) for source, bucket, rows, total in found)
        return
    whole = bytes.fromhex(found["total"])
    rows, total = int.from_bytes(whole[:COUNT_BYTES]), int.from_bytes(whole[COUNT_BYTES:])
    yield found["source"], found["bucket"], rows, total


def _step(
    layout: Layout, columns: Sequence[str], key: bytes
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups = _Groups(layout, columns, key)
        for batch in batches:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                groups.take(row)
        yield pa.RecordBatch.from_pydict({"what": [SEALED], "body": [groups.told()]})

    return step


class _Groups:
    """The groups of one task: every source's result of each is one row that is sealed."""

    def __init__(self, layout: Layout, columns: Sequence[str], key: bytes) -> None:
        self.layout, self.key = layout, key
        self.at = {label: at for at, label in enumerate(columns)}
        self.measures = sorted(layout.compared, key=lambda each: each.plan.name)
        self.plans = [each.plan for each in self.measures]
        self.found: dict[tuple[int, int], list[int]] = {}

    def take(self, row: tuple[Any, ...]) -> None:
        parts = [self._value(each.form, row, each.name, each.payload) for each in self.layout.keys]
        encoded = encode_tuple(parts)
        bucket = bucket_of(self.key, encoded)
        for index in self.layout.sources:
            if self.layout.always_present or row[self.at[f"n{index}"]]:
                own = self.found.setdefault((index, bucket), [0, 0])
                own[0] += 1
                own[1] += fingerprint_of(self.key, encoded, self._values(row, index))

    def _values(self, row: tuple[Any, ...], index: int) -> bytes:
        """In the order of names, as `row_values` takes cells by the measures' indices."""
        cells = [Cell(NULL, NULL)] * len(self.layout.measures)
        for each in self.measures:
            place = f"{each.index}_{index}"
            value = self._value(each.result, row, f"v{place}", f"x{place}")
            cells[each.plan.index] = Cell(value, value)
        return row_values(cells, self.plans, self.layout.stage.sources[index])

    def _value(self, form: Form, row: tuple[Any, ...], label: str, payload: str) -> Value:
        at = self.at.get(payload)
        return cell(form, row[self.at[label]], None if at is None else row[at])

    def told(self) -> str:
        return json.dumps(
            [
                [index, bucket, rows, str(total % _MODULUS)]
                for (index, bucket), (rows, total) in self.found.items()
            ]
        )
