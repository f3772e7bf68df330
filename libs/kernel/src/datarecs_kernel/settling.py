"""The end of a stage's candidates: the choice over all tasks, then ids, digests and Parquet parts.

One call if one task had all groups. With several tasks, `stage_cut` decides once for all of them
which rows are stored, and `write_chosen` may run in one task per file.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from datarecs_core.comparison.results.differences import samples
from datarecs_core.documents import to_document
from datarecs_kernel import candidates
from datarecs_kernel.candidates import CANDIDATES, CandidateFiles, choices_of
from datarecs_kernel.choosing import (
    NO_CHOICES,
    Cut,
    candidate_cut,
    final_cut,
    joined,
    measure_names,
)
from datarecs_kernel.counted import Counted
from datarecs_kernel.database import Connection
from datarecs_kernel.hashing import Hasher, hashing_connection
from datarecs_kernel.layout import Layout
from datarecs_kernel.samples import BestRows
from datarecs_kernel.stored import Part, differences_of, schema_of
from datarecs_kernel.unidentified import chosen_rows
from datarecs_kernel.written import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlan:
    """The settings of a task."""

    layout: Layout
    key: bytes
    directory: str
    """Of the stage's parts; exists."""
    scope_directory: str | None
    """Folder for keys of groups that differ; None if no stage needs them."""


def settle(plan: SinkPlan, counted: Counted, connection: Connection | None = None) -> Counted:
    """Store the chosen candidates of all tasks and remove their files.

    No effect if the tasks have already done this.

    Args:
        plan: of the stage.
        counted: of all tasks.
        connection: for expressions over columns; created if None.
    """
    if not counted.candidates:
        return replace(counted, truncated=counted.stored < counted.differences)
    with ExitStack() as closing:
        known = connection or closing.enter_context(hashing_connection())
        cut = stage_cut(plan, counted, known)
        written = [write_chosen(plan, name, cut, known) for name in counted.candidates]
    return with_stored(counted, written)


def stage_cut(plan: SinkPlan, counted: Counted, connection: Connection) -> Cut | None:
    """Which candidates of all tasks are stored; None if all are."""
    layout, caps = plan.layout, plan.layout.stage.caps
    if counted.differences <= caps.max_rows:
        return None
    measures = len(measure_names(layout))
    rows, added = NO_CHOICES, []
    files = CandidateFiles(layout, Path(plan.directory), counted.candidates)
    for batches in files.read_choosing():
        added.append(choices_of(connection, layout, *batches))
        if sum(map(len, added)) > max(caps.max_rows, candidates.BATCH_ROWS):
            rows, added = joined([rows, *added]), []
            rows = rows.take(candidate_cut(rows, caps, measures).allows(rows))
    return final_cut(joined([rows, *added]), caps, measures)


def write_chosen(plan: SinkPlan, name: str, cut: Cut | None, connection: Connection) -> Counted:
    """Write a part from a file of candidates, and remove that file.

    Returns:
        Only the counts of stored rows: their number, digest, part and samples.
    """
    layout, caps = plan.layout, plan.layout.stage.caps
    directory = Path(plan.directory)
    files = CandidateFiles(layout, directory, [name])
    writer, best = Writer(layout, plan.key, Hasher(connection)), BestRows(caps.sample_per_class)
    part = Part(directory, name.removeprefix(CANDIDATES), schema_of(layout))
    counted = Counted(len(layout.sources))
    for keys, rows in files.read():
        allowed = None if cut is None else cut.allows(choices_of(connection, layout, keys, rows))
        groups, chosen = (keys, rows) if allowed is None else chosen_rows(keys, rows, allowed)
        if not chosen.num_rows:
            continue
        written = writer.written(writer.keys(groups), chosen)
        counted.stored += chosen.num_rows
        counted.digest = (counted.digest + written.digest) % 2**256
        best.see(written.rows)
        part.write(written.rows)
    counted.parts = part.close()
    shown = samples(list(differences_of(best.table())) if best else [], caps.sample_per_class)
    counted.samples = [to_document(row) for row in shown]
    files.remove()
    return counted


def with_stored(counted: Counted, written: Sequence[Counted]) -> Counted:
    """The numbers of all tasks, with their stored candidates."""
    stored = Counted(counted.sources)
    for each in written:
        stored.add(each)
    return replace(
        counted,
        candidates=[],
        truncated=stored.stored < counted.differences,
        stored=stored.stored,
        digest=stored.digest,
        parts=stored.parts,
        samples=stored.samples,
    )
