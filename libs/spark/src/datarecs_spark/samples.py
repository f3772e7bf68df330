"""The rows of a stage that a report may show, kept small while batches pass.

Per measure and class as many of the largest and of the smallest break ids as the plan asks for; the
final choice among all tasks' candidates is core's.
"""

import pyarrow as pa
import pyarrow.compute as pc

_SIZE = "$size"
_BY_ID = [("break_id", "ascending")]
_BY_SIZE = [(_SIZE, "descending"), ("break_id", "ascending")]
_SLACK = 4
"""By how much candidates may outgrow their number before they are cut."""


class BestRows:
    """Candidates per measure and class."""

    def __init__(self, per_class: int) -> None:
        self._per_class = per_class
        self._found: dict[tuple[str, str], pa.Table] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def see(self, table: pa.Table, sizes: pa.Array) -> None:
        """Stored rows and the keys of their sizes, NULL where nothing was subtracted."""
        if not self._per_class:
            return
        rows = table.append_column(_SIZE, sizes)
        kinds = rows.group_by(["measure", "class"]).aggregate([])
        for kind in kinds.to_pylist():
            name = (kind["measure"], kind["class"])
            own = rows.filter(
                pc.and_(
                    pc.equal(rows.column("measure"), name[0]),
                    pc.equal(rows.column("class"), name[1]),
                )
            )
            before = self._found.get(name)
            known = own if before is None else pa.concat_tables([before, own])
            self._found[name] = self._cut(known)

    def table(self) -> pa.Table:
        """All candidates, as stored rows."""
        return pa.concat_tables(self._found.values()).drop_columns([_SIZE])

    def _cut(self, rows: pa.Table) -> pa.Table:
        if rows.num_rows <= _SLACK * self._per_class:
            return rows
        large = rows.filter(pc.is_valid(rows.column(_SIZE)))
        chosen = [
            rows.sort_by(_BY_ID).slice(0, self._per_class),
            large.sort_by(_BY_SIZE).slice(0, self._per_class),
        ]
        return _distinct(pa.concat_tables(chosen))


def _distinct(rows: pa.Table) -> pa.Table:
    """Each break once."""
    seen: set[str] = set()
    kept = []
    for at, name in enumerate(rows.column("break_id").to_pylist()):
        if name not in seen:
            seen.add(name)
            kept.append(at)
    return rows.take(kept)
