"""Reading what differed again: which rows count, and what a second read has to deliver.

A confirmed stage is the same stage over other rows: groups that differed have the rows of the last
recheck, all others those of the first read. So all its numbers use the same arithmetic. Engines
replace the rows, the application waits and reads; their common rules are here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from datarecs_core.comparison.oracle.grouping import KeyReader, Outside, Rows, deliveries
from datarecs_core.comparison.planning.computing import computes_alike
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.pushdown import finds_groups
from datarecs_core.comparison.planning.scan import (
    ExportedSnapshot,
    FileList,
    Keys,
    Only,
    Pin,
    Scan,
    SourceSchema,
    TableSnapshot,
    TopicOffsets,
)
from datarecs_core.comparison.results.fingerprints import bucket_key
from datarecs_core.comparison.values.canonical import encode_tuple
from datarecs_core.comparison.values.casting import Zones


def counted_rechecks(stage: StagePlan) -> tuple[tuple[Scan, ...], ...]:
    """The first scans and those of every recheck, as far as rows of them count.

    A stage with only one group has all its rows from its last recheck.
    """
    if stage.rechecks and not stage.row_dimensions:
        return (stage.rechecks[-1],)
    return (stage.scans, *stage.rechecks)


def rows_that_count(
    stage: StagePlan,
    rechecks: Sequence[Sequence[Rows]],
    differing: Sequence[frozenset[bytes]],
    outside: Outside,
) -> list[list[tuple[object, ...]]]:
    """The rows of each source for the oracle: of every group those of its last recheck.

    Args:
        stage: with rechecks.
        rechecks: rows by source, of `counted_rechecks`.
        differing: encoded keys of the groups that differed before each recheck, the first first;
            every set is part of the one before.
        outside: key and zones.
    """
    scans = counted_rechecks(stage)
    if len(scans) == 1:
        return [list(rows) for rows in rechecks[0]]
    counted_rows: list[list[tuple[object, ...]]] = [[] for _ in stage.scans]
    for at, (recheck_scans, rows_by_source) in enumerate(zip(scans, rechecks, strict=True)):
        wanted = differing[at - 1] if at else None
        replaced = differing[at] if at < len(differing) else frozenset[bytes]()
        for scan, rows in zip(recheck_scans, rows_by_source, strict=True):
            for key, row in _keyed(stage, scan, rows, outside):
                if key not in replaced and (wanted is None or key in wanted):
                    counted_rows[scan.index].append(row)
    return counted_rows


def _keyed(
    stage: StagePlan, scan: Scan, rows: Rows, outside: Outside
) -> Iterator[tuple[bytes, tuple[object, ...]]]:
    """Rows with the group they are in, or the bucket of a digest stage."""
    delivered = deliveries(scan)
    keys = KeyReader(stage.row_dimensions, scan, Zones(known=outside.zones))
    for row in rows:
        key = encode_tuple(keys.of(delivered(row)))
        yield (key if stage.hashed is None else bucket_key(outside.key, key)), row


def is_same_read(before: Pin, now: Pin) -> bool:
    """Whether both pins hold the same rows, so that nothing has to be read again."""
    match before:
        case FileList():
            return isinstance(now, FileList) and before.files == now.files
        case TableSnapshot():
            if not isinstance(now, TableSnapshot):
                return False
            # What the catalogue knows of them may have changed meanwhile.
            return before == replace(now, taken_at=before.taken_at, catalogued=before.catalogued)
        case TopicOffsets():
            return isinstance(now, TopicOffsets) and before == replace(
                now, taken_at=before.taken_at
            )
        case ExportedSnapshot():
            return False  # its transaction does not identify the content of the tables
    assert_never(before)


def delivers_alike(schema: SourceSchema, scan: Scan) -> bool:
    """Whether a source still has the columns of a scan, with their types."""
    physical = [(column.name, column.type) for column in schema.columns]
    return all(
        computes_alike(column, schema)
        if column.physical is None
        else physical.count((column.physical, column.type)) == 1
        for column in scan.columns
    )


def only_groups(stage: StagePlan, scan: Scan, keys: Sequence[Sequence[str | None]]) -> Only | None:
    """What is read from a source in a recheck; None where it cannot select these groups."""
    dimensions = stage.row_dimensions
    if not dimensions or stage.hashed is not None or not finds_groups(dimensions, scan):
        return None
    columns = tuple(each.inputs[scan.index].column for each in dimensions)
    return Only(keys=Keys(columns=columns, values=tuple(map(tuple, keys))))
