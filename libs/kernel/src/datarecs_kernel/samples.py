"""The rows of a stage that a report may show, limited while batches stream.

Per measure and class the number of largest rows and smallest break ids that the plan declares; core
makes the final choice among the candidates of all tasks.
"""

from itertools import product

import pyarrow as pa
import pyarrow.compute as pc

_SIZE = "sort_delta"
_RANKED = ["break_id", _SIZE]
_BY_ID = [("break_id", "ascending")]
_BY_SIZE = [(_SIZE, "descending"), ("break_id", "ascending")]
_SLACK = 4
"""Factor by which candidates may exceed their number before they are reduced."""


class BestRows:
    """Candidates per measure and class."""

    def __init__(self, per_class: int) -> None:
        self._per_class = per_class
        self._best_by_class: dict[tuple[str, str], pa.Table] = {}

    def __bool__(self) -> bool:
        return bool(self._best_by_class)

    def see(self, rows: pa.RecordBatch) -> None:
        """Add stored rows."""
        if not self._per_class:
            return
        measures, classes = rows.column("measure"), rows.column("class")
        for name in product(measures.unique().to_pylist(), classes.unique().to_pylist()):
            is_match = pc.and_(pc.equal(measures, name[0]), pc.equal(classes, name[1]))
            self._add(name, rows, pc.indices_nonzero(is_match))

    def _add(self, name: tuple[str, str], rows: pa.RecordBatch, at: pa.Array) -> None:
        """Reduce to the chosen rows; only these are copied with all columns."""
        best_rows = rows.take(at.take(self._best(rows.select(_RANKED).take(at))))
        known = pa.Table.from_batches([best_rows])
        if name in self._best_by_class:
            known = pa.concat_tables([self._best_by_class[name], known]).combine_chunks()
        if known.num_rows > _SLACK * self._per_class:
            known = known.take(self._best(known.select(_RANKED)))
        if known.num_rows:
            self._best_by_class[name] = known

    def table(self) -> pa.Table:
        """All candidates, as stored rows."""
        return pa.concat_tables(self._best_by_class.values())

    def _best(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """Positions of the smallest ids and of the largest sizes."""
        large = pc.indices_nonzero(pc.is_valid(rows.column(_SIZE)))
        by_size = pc.select_k_unstable(rows.take(large), self._per_class, _BY_SIZE)
        by_id = pc.select_k_unstable(rows, self._per_class, _BY_ID)
        return pa.concat_arrays([by_id, large.take(by_size)]).unique()
