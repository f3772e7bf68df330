"""What a task keeps of judged groups: counts, differences in its own files, samples, scope keys.

Every file carries its task's attempt in its name, so a retried task leaves nothing that counts
twice; what counts goes to the driver as one row of JSON.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from datarecs_core.comparison.results.differences import samples
from datarecs_core.documents import to_document
from datarecs_core.jobs.vocabulary import DuplicatePolicy
from datarecs_core.values import EXACT
from datarecs_kernel.counted import Counted
from datarecs_kernel.differing import Differences
from datarecs_kernel.judging import JudgedGroups, repeated_in
from datarecs_kernel.layout import Layout
from datarecs_kernel.samples import BestRows
from datarecs_kernel.stored import REPEATED, differences_of, native_of, schema_of
from datarecs_kernel.written import GroupKeys, Writer

SHOWN_KEYS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlan:
    """What a task needs to know."""

    layout: Layout
    key: bytes
    directory: str
    """Of the stage's parts; exists."""
    scope_directory: str | None
    """Where keys of differing groups go; None when no stage asks for them."""


class Stores:
    """Of one task's attempt."""

    def __init__(self, plan: SinkPlan, attempt: str) -> None:
        self.plan, self.layout = plan, plan.layout
        self.counted = Counted(len(plan.layout.sources))
        self._writer = Writer(plan.layout, plan.key)
        self._best = BestRows(plan.layout.stage.caps.sample_per_class)
        self._parts = Part(Path(plan.directory), attempt, schema_of(plan.layout))
        names = [(label, native_of(plan.layout, label)) for label in plan.layout.key_names]
        scope = None if plan.scope_directory is None else Path(plan.scope_directory)
        self._scope = None if scope is None else Part(scope, attempt, pa.schema(names))

    def finish(self) -> Counted:
        """Close the files."""
        self.counted.parts = self._parts.close()
        if self._scope is not None:
            self.counted.scope_parts = self._scope.close()
        rows = list(differences_of(self._best.table())) if self._best else []
        per_class = self.layout.stage.caps.sample_per_class
        self.counted.samples = [to_document(row) for row in samples(rows, per_class)]
        return self.counted

    def add_values(self, rows: pa.RecordBatch) -> None:
        """Totals (`v`), overflows and rounded floats of aggregated groups."""
        names = set(rows.schema.names)
        for measure in self.layout.compared if rows.num_rows else ():
            for index in self.layout.sources:
                place, at = (measure.index, index), f"{measure.index}_{index}"
                if measure.plan.has_total and f"v{at}" in names:
                    self._add_total(place, rows.column(f"v{at}"))
                if f"o{at}" in names and pc.any(rows.column(f"o{at}")).as_py():
                    self.counted.overflows.add(place)
                if f"w{at}" in names:
                    self.counted.rounded[index] += pc.sum(rows.column(f"w{at}")).as_py() or 0

    def _add_total(self, place: tuple[int, int], values: pa.Array) -> None:
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

    def add_equal(self, sizes: Sequence[int], groups: int) -> None:
        """Count groups that are equal everywhere, each with so many rows per source."""
        stage = self.layout.stage
        repeated = int(repeated_in(stage, np.array(sizes)))
        self.counted.groups[stage.everywhere, repeated, False, None] += groups
        for index, size in enumerate(sizes):
            self.counted.grouped[index] += size * groups

    def add(self, groups: JudgedGroups) -> None:
        """Keep what is stored of open groups."""
        if self.layout.stage.duplicates is DuplicatePolicy.ERROR:
            repeated = self._writer.keys(groups.keys.filter(pa.array(groups.repeated)))
            hashes = {each.hex() for each in repeated.hashes.to_pylist()}
            # The smallest few, whatever the partitioning.
            self.counted.repeated_keys = sorted({*self.counted.repeated_keys, *hashes})[:SHOWN_KEYS]
        if self._scope is not None:
            self._scope.write(groups.keys.filter(pa.array(groups.differs)))
        if not any(map(len, groups.found)):
            return
        written = self._writer.written(*self._stored(groups))
        self.counted.stored += written.rows.num_rows
        self.counted.digest = (self.counted.digest + written.digest) % 2**256
        self._best.see(written.rows, written.sizes)
        self._parts.write(written.rows)

    def _stored(self, groups: JudgedGroups) -> tuple[GroupKeys, Sequence[Differences]]:
        """Keys of the groups of which something is stored, which may be few, and what."""
        stored = np.zeros(groups.keys.num_rows, np.bool_)
        for each in groups.found:
            stored[each.groups] = True
        places = np.cumsum(stored) - 1
        found = [replace(each, groups=places[each.groups]) for each in groups.found]
        return self._writer.keys(groups.keys.filter(pa.array(stored))), found


class Part:
    """A Parquet file that exists once something is written to it."""

    def __init__(self, directory: Path, attempt: str, schema: pa.Schema) -> None:
        self.path, self.schema = directory / f"part-{attempt}.parquet", schema
        self._writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self.path, self.schema, compression="zstd", use_dictionary=REPEATED
            )
        self._writer.write(rows)

    def close(self) -> list[str]:
        """Names of the files that were written: one or none."""
        if self._writer is None:
            return []
        self._writer.close()
        return [self.path.name]
