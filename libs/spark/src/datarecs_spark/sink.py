"""The last step of a stage, inside its tasks: count groups, store differences, keep samples.

Judged rows arrive as Arrow batches and are handled whole columns at a time; one row of JSON per
task goes to the driver. Every file carries its task's attempt in its name, so a retried task
leaves nothing that counts twice. Groups of the residue are judged on the way.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame

from datarecs_core.comparison.canonical import encode_tuple
from datarecs_core.comparison.differences import difference_bytes, key_hash, samples
from datarecs_core.comparison.judging import MeasureJudgement
from datarecs_core.comparison.results import Difference, DifferenceClass, Outcome
from datarecs_core.documents import to_document
from datarecs_core.jobs.vocabulary import DuplicatePolicy
from datarecs_core.values import EXACT
from datarecs_spark.counted import Counted
from datarecs_spark.decoding import native
from datarecs_spark.elements import DIFFERENCE, MARKER, RESIDUE
from datarecs_spark.layout import Layout
from datarecs_spark.residue import JudgedGroup, Residue
from datarecs_spark.samples import BestRows
from datarecs_spark.sort_keys import size_key_of
from datarecs_spark.stored import differences_of, from_differences, from_stream, schema_of

SUMMARY = "summary"
"""`what` of the row a task gives."""
SHOWN_KEYS = 3
_BATCH = 10_000
_VALUE = re.compile(r"[tow]\d+_\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlan:
    """What a task needs to know."""

    layout: Layout
    key: bytes
    directory: str
    """Of the stage's parts; exists."""
    scope_directory: str | None
    """Where keys of differing groups go; None when no stage asks for them."""


def sunk(rows: DataFrame, plan: SinkPlan) -> DataFrame:
    """One row per task: `what`, and its numbers in `body`."""
    return rows.mapInArrow(_step(plan), "what STRING, body STRING")


def _step(plan: SinkPlan) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = _Task(plan, attempt_name())
        for batch in batches:
            task.take(batch)
        counted = task.finish()
        yield pa.RecordBatch.from_pydict({"what": [SUMMARY], "body": [counted.written()]})

    return step


def attempt_name() -> str:
    """Names this attempt of this task: no other has the same."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("the sink runs inside a task")
    return f"{context.partitionId():05d}-{context.taskAttemptId()}"


class _Task:
    """One partition of judged rows; rows of a group come next to each other."""

    def __init__(self, plan: SinkPlan, attempt: str) -> None:
        self.plan, self.layout = plan, plan.layout
        self.counted = Counted(len(plan.layout.sources))
        self.residue = Residue(plan.layout, plan.key)
        self.best = BestRows(plan.layout.stage.caps.sample_per_class)
        self.parts = Part(Path(plan.directory), attempt, schema_of(plan.layout))
        names = [(label, _native(plan.layout, label)) for label in plan.layout.key_names]
        scope = None if plan.scope_directory is None else Path(plan.scope_directory)
        self.scope = None if scope is None else Part(scope, attempt, pa.schema(names))
        self.judged: list[tuple[Difference, Mapping[str, Any]]] = []

    def take(self, batch: pa.RecordBatch) -> None:
        kinds = batch.column("kind")
        markers = batch.filter(pc.equal(kinds, MARKER))
        self._count_groups(markers)
        self._store(batch.filter(pc.equal(kinds, DIFFERENCE)))
        for row in batch.filter(pc.equal(kinds, RESIDUE)).to_pylist():
            for group in self.residue.add(row):
                self._judged_group(group)

    def finish(self) -> Counted:
        for group in self.residue.finish():
            self._judged_group(group)
        self._flush()
        self.counted.parts = self.parts.close()
        if self.scope is not None:
            self.counted.scope_parts = self.scope.close()
        rows = list(differences_of(self.best.table())) if self.best else []
        per_class = self.layout.stage.caps.sample_per_class
        self.counted.samples = [to_document(row) for row in samples(rows, per_class)]
        return self.counted

    # Groups that SQL judged

    def _count_groups(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        kinds = ["mask", "repeated", "differs", "common_odd"]
        counts = pa.Table.from_batches([rows]).group_by(kinds).aggregate([([], "count_all")])
        for mask, repeated, differs, odd, times in zip(
            *(counts.column(label).to_pylist() for label in (*kinds, "count_all")), strict=True
        ):
            self.counted.groups[mask, repeated, bool(differs), odd] += times
        for index in self.layout.sources:
            self.counted.grouped[index] += pc.sum(rows.column(f"n{index}")).as_py()
        self._count_values(rows)
        if self.layout.stage.duplicates is DuplicatePolicy.ERROR:
            repeated = rows.filter(pc.greater(rows.column("repeated"), 0))
            self._show_keys(repeated.column("key_hash").to_pylist())
        if self.scope is not None:
            self.scope.write(_only(rows.filter(rows.column("differs")), self.layout.key_names))

    def _count_values(self, rows: pa.RecordBatch) -> None:
        """Totals, overflows and rounded floats of aggregates."""
        names = set(rows.schema.names)
        for measure in self.layout.compared:
            for index in self.layout.sources:
                place, at = (measure.index, index), f"{measure.index}_{index}"
                if f"t{at}" in names:
                    self._total(place, rows.column(f"t{at}"))
                if f"o{at}" in names and pc.any(rows.column(f"o{at}")).as_py():
                    self.counted.overflows.add(place)
                if f"w{at}" in names:
                    self.counted.rounded[index] += pc.sum(rows.column(f"w{at}")).as_py() or 0

    def _total(self, place: tuple[int, int], values: pa.Array) -> None:
        if pa.types.is_string(values.type):
            amounts = [Decimal(text) for text in values.to_pylist() if text is not None]
            finite = [amount for amount in amounts if amount.is_finite()]
        else:
            # Wide enough for any number of decimals of 38 digits.
            scale = getattr(values.type, "scale", 0)
            total = pc.sum(values.cast(pa.decimal256(76, scale))).as_py()
            finite = [] if total is None else [total]
        for amount in finite:
            before = self.counted.totals.get(place, Decimal(0))
            self.counted.totals[place] = EXACT.add(before, amount)

    def _show_keys(self, hashes: list[bytes]) -> None:
        """The smallest few, whatever the partitioning."""
        known = {*self.counted.repeated_keys, *(each.hex() for each in hashes)}
        self.counted.repeated_keys = sorted(known)[:SHOWN_KEYS]

    # Differences that SQL made

    def _store(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        kinds = ["measure", "own", "within", "found_class"]
        table = pa.Table.from_batches([rows])
        counts = table.group_by(kinds).aggregate([("largest", "max"), ([], "count_all")])
        for measure, own, within, kind, largest, times in zip(
            *(counts.column(label).to_pylist() for label in (*kinds, "largest_max", "count_all")),
            strict=True,
        ):
            if measure >= 0:
                tally = self.counted.tally(measure)
                tolerances = self._tolerances(measure)
                tally.see(own=own, tolerances=tolerances, within=within, kind=kind, groups=times)
                tally.reach(largest)
        if not self.layout.stage.caps.deltas:
            rows = rows.filter(pc.invert(rows.column("within")))
        hashes = rows.column("row_hash").to_pylist()
        self._keep(from_stream(self.layout, rows), rows.column("size"), hashes)

    def _tolerances(self, measure: int) -> int:
        if measure >= len(self.layout.measures):
            return 1
        return len(self.layout.measures[measure].plan.tolerances)

    def _keep(self, table: pa.Table, sizes: pa.Array, hashes: list[bytes]) -> None:
        self.counted.stored += table.num_rows
        self.counted.digest = (
            self.counted.digest + sum(int.from_bytes(each) for each in hashes)
        ) % 2**256
        self.best.see(table, sizes)
        self.parts.write(table)

    # Groups of the residue

    def _judged_group(self, group: JudgedGroup) -> None:
        row, judgement = group.row, group.judgement
        self.counted.residue += 1
        odd = group.common_odd
        odd_at = None if odd is None else self.layout.stage.sources.index(odd)
        self.counted.groups[row["mask"], row["repeated"], judgement.differs, odd_at] += 1
        for index in self.layout.sources:
            self.counted.grouped[index] += row[f"n{index}"]
        self._count_values(pa.RecordBatch.from_pylist([_values(row)]))
        for at, each in enumerate(judgement.all_measures):
            self._see(at, each)
        if row["repeated"] and self.layout.stage.duplicates is DuplicatePolicy.ERROR:
            key = encode_tuple(self.residue.key_of(row))
            self._show_keys([key_hash(self.plan.key, key)])
        if self.scope is not None and judgement.differs:
            self.scope.write(_typed([row], self.scope.schema))
        wanted = self.layout.stage.caps.deltas
        self.judged += [
            (each, row) for each in group.differences if wanted or each.outcome is Outcome.BREAK
        ]
        if len(self.judged) >= _BATCH:
            self._flush()

    def _see(self, at: int, each: MeasureJudgement) -> None:
        tally = self.counted.tally(at)
        if each.largest_delta is not None:
            tally.reach(size_key_of(each.largest_delta))
        if not each.equal:
            own = sum(1 << place for place, holds in enumerate(each.own_within) if holds)
            kind = (each.difference_class or DifferenceClass.OUTSIDE).value
            tally.see(own=own, tolerances=len(each.own_within), within=each.within, kind=kind)

    def _flush(self) -> None:
        if not self.judged:
            return
        rows = [row for row, _ in self.judged]
        sizes = [
            None if row.max_abs_delta is None else size_key_of(row.max_abs_delta) for row in rows
        ]
        hashes = [sha256(difference_bytes(row)).digest() for row in rows]
        table = from_differences(self.layout, rows, [key for _, key in self.judged])
        self._keep(table, pa.array(sizes, pa.string()), hashes)
        self.judged = []


class Part:
    """A Parquet file that exists once something is written to it."""

    def __init__(self, directory: Path, attempt: str, schema: pa.Schema) -> None:
        self.path, self.schema = directory / f"part-{attempt}.parquet", schema
        self._writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.path, self.schema, compression="zstd")
        self._writer.write(rows)

    def close(self) -> list[str]:
        """Names of the files that were written: one or none."""
        if self._writer is None:
            return []
        self._writer.close()
        return [self.path.name]


def _only(rows: pa.RecordBatch, columns: tuple[str, ...]) -> pa.RecordBatch:
    return rows.select(list(columns))


def _native(layout: Layout, label: str) -> pa.DataType:
    forms = {field.name: native(field.form) for field in layout.keys}
    return forms.get(label, pa.binary())


def _typed(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(
        [{each: row[each] for each in schema.names} for row in rows], schema
    )


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    """Totals, overflows and rounded floats of one row, where it has any."""
    return {
        label: value
        for label, value in row.items()
        if value is not None and _VALUE.fullmatch(label)
    }
