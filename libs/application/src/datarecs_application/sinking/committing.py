"""Commit the admitted files of a cycle to every table, so that one fault holds no other table back.

Separate from the coordinator, which decides when; here is what each table gets.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import structlog

from datarecs_application.ports.sinking import CommitRequest, PendingFiles, SinkTables
from datarecs_application.sinking.defects import defect_words
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.accepting import by_table, place_of
from datarecs_core.sink.admission import Part
from datarecs_core.sink.checkpoint import Lineage, TableCommit, TablePlace, replaced_table
from datarecs_core.sink.control import SourcePartition, TableReference
from datarecs_core.sink.decisions import ReplacedTable
from datarecs_core.sink.definition import SinkTarget

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What all tables shall hold after a cycle."""

    commit_id: UUID
    control_offset: int
    valid_through: datetime | None
    source_ends: Mapping[SourcePartition, int]
    lineage: Lineage
    epoch: int
    pending: Mapping[TableReference, Sequence[Part]]
    """Every admitted file since the checkpoint, of messages below `control_offset`."""
    known: Mapping[TablePlace, UUID] = field(default_factory=dict)
    """Tables that hold a commit of the lineage; another one at the same place gets nothing."""
    replaced: Sequence[ReplacedTable] = ()
    """Lost tables of the lineage, and what becomes of their files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutResult:
    commits: tuple[TableCommit, ...]
    """The newest snapshot of each table that holds the cut."""
    failures: Mapping[TableReference, SinkError]


def commit_tables(
    cut: Cut,
    tables: SinkTables,
    targets: Sequence[SinkTarget],
    *,
    committed: Callable[[TableCommit], None],
) -> CutResult:
    """Commit table after table.

    Args:
        cut: the same cut may be committed again; tables that hold it add nothing.
        tables: of the sink.
        targets: as declared; files of a table that is declared no more are committed too.
        committed: called for each table as soon as it holds the cut; its errors are raised.
    """
    declared = {(target.catalog, target.namespace, target.name): target for target in targets}
    commits: list[TableCommit] = []
    failures: dict[TableReference, SinkError] = {}
    first = dict(cut.known)
    for table, parts in by_table(cut.pending, cut.replaced).items():
        place = place_of(table)
        if first.setdefault(place, table.uuid) != table.uuid:
            failures[table] = replaced_table(str(table))
            log.warning("sink_table_replaced", table=str(table))
            continue
        target = declared.get(place) or SinkTarget(
            catalog=table.catalog, namespace=table.namespace, name=table.name
        )
        outcome = _commit(cut, tables, target, _request(cut, table, parts))
        if isinstance(outcome, SinkError):
            failures[table] = outcome
        elif outcome is not None:
            committed(outcome)
            commits.append(outcome)
    return CutResult(commits=tuple(commits), failures=failures)


def _request(cut: Cut, table: TableReference, parts: Sequence[Part]) -> CommitRequest:
    return CommitRequest(
        commit_id=cut.commit_id,
        table=table,
        control_offset=cut.control_offset,
        valid_through=cut.valid_through,
        source_ends=cut.source_ends,
        lineage=cut.lineage,
        epoch=cut.epoch,
        pending=tuple(
            PendingFiles(
                offset=part.offset,
                data_files=part.message.data_files,
                delete_files=part.message.delete_files,
                keys=part.keys,
                is_moved=part.message.table.uuid != table.uuid,
            )
            for part in parts
        ),
    )


def _commit(
    cut: Cut, tables: SinkTables, target: SinkTarget, request: CommitRequest
) -> TableCommit | SinkError | None:
    try:
        return tables.commit(target, request)
    except SinkError as error:
        failure = error
    except DatarecsError as error:
        failure = SinkError(SinkCode.COMMIT_FAILED, f"{target}: {error}")
    except Exception as error:
        # An unknown fault of one table waits like a known one: the others must go on.
        log.exception("sink_table_commit_failed", commit_id=str(cut.commit_id))
        failure = SinkError(SinkCode.COMMIT_FAILED, f"{target}: {defect_words(error)}")
    log.warning("sink_table_not_committed", code=failure.code.name, table=str(target))
    return failure
