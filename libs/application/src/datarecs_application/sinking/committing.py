"""Commit the admitted files of a cycle to every table, so that one fault holds no other table back.

Separate from the coordinator, which decides when; here is what each table gets. Most of a commit is
waiting for the catalog, so some tables are committed at the same time.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from uuid import UUID

import structlog

from datarecs_application.ports.sinking import (
    CommitRequest,
    PendingFiles,
    SinkMemory,
    SinkTables,
)
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

COMMITS_AT_ONCE = 8
"""Tables of one sink; each has a request to the catalog and its metadata in memory."""
Outcome = Sequence[TableCommit] | SinkError
"""Of one table; empty: it has no snapshot of the lineage, and nothing was to be added."""


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
    stored_offset: int = 0
    """The memory has every snapshot that states at most this control offset."""
    stored: Mapping[UUID, int] = field(default_factory=dict)
    """The same for single tables, where it is a greater one."""


@dataclass(slots=True, kw_only=True)
class StoredSnapshots:
    """What the snapshots since the checkpoint added, and which of them the memory has.

    A snapshot that was added and not stored states more than the checkpoint, because no cycle
    completes before all are stored. So the next coordinator reads it from the table.
    """

    memory: SinkMemory
    stored_offset: int
    """Every snapshot that states at most this control offset was stored before."""
    records: int = 0
    offsets: dict[UUID, int] = field(default_factory=dict)
    """Control offset of the newest one, of each table that got one."""

    def store(self, commit: TableCommit) -> None:
        """Those of one table in the order of its history; a repetition is nothing."""
        self.memory.committed_table(commit)
        if commit.control_offset > self.offsets.get(commit.table.uuid, self.stored_offset):
            self.offsets[commit.table.uuid] = commit.control_offset
            self.records += commit.records


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
    at_once: int = COMMITS_AT_ONCE,
) -> CutResult:
    """Commit to every table; when it returns or raises, no commit is in flight.

    Args:
        cut: the same cut may be committed again; tables that hold it add nothing.
        tables: of the sink; used by several threads.
        targets: as declared; files of a table that is declared no more are committed too.
        committed: called in the thread of the caller for the snapshots of each table, oldest
            first, as soon as the table holds the cut. Its errors are raised, and tables that have
            not begun are left to the next commit.
        at_once: most tables at the same time; 1: one after another, in the thread of the caller.
    """
    waiting = by_table(cut.pending, cut.replaced)
    refused = _refused(cut, waiting)
    newest: dict[TableReference, TableCommit] = {}
    failures = dict(refused)
    declared = {(target.catalog, target.namespace, target.name): target for target in targets}
    jobs = [
        partial(_commit_names, cut, tables, declared, requests)
        for requests in _requests(cut, waiting, refused)
    ]
    with closing(_results(jobs, at_once)) as results:
        for result in results:
            for table, outcome in result.items():
                if isinstance(outcome, SinkError):
                    failures[table] = outcome
                    continue
                for commit in outcome:
                    committed(commit)
                    newest[table] = commit
    return CutResult(
        commits=tuple(newest[table] for table in waiting if table in newest),
        failures={table: failures[table] for table in waiting if table in failures},
    )


def _results(
    jobs: Sequence[Callable[[], dict[TableReference, Outcome]]], at_once: int
) -> Generator[dict[TableReference, Outcome], None, None]:
    """As they come. Once it is closed no job runs, and those that had not begun never will."""
    at_once = min(at_once, len(jobs))
    if at_once <= 1:
        yield from (job() for job in jobs)
        return
    pool = ThreadPoolExecutor(at_once, thread_name_prefix="sink-commit")
    try:
        for future in as_completed([pool.submit(job) for job in jobs]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _refused(cut: Cut, waiting: Mapping[TableReference, object]) -> dict[TableReference, SinkError]:
    """Tables at a place that belongs to another one."""
    first = dict(cut.known)
    refused: dict[TableReference, SinkError] = {}
    for table in waiting:
        if first.setdefault(place_of(table), table.uuid) != table.uuid:
            refused[table] = replaced_table(str(table))
            log.warning("sink_table_replaced", table=str(table))
    return refused


def _requests(
    cut: Cut,
    waiting: Mapping[TableReference, Sequence[Part]],
    refused: Mapping[TableReference, object],
) -> list[list[CommitRequest]]:
    """Of each table, by the names that it has.

    A catalog that ignores case has a table at several names. It states one control offset, so a
    commit to it must add the files of all of them.
    """
    parts: dict[UUID, list[Part]] = {}
    names: dict[UUID, list[TableReference]] = {}
    for table, of_name in waiting.items():
        parts.setdefault(table.uuid, []).extend(of_name)
        if table not in refused:
            names.setdefault(table.uuid, []).append(table)
    return [
        [_request(cut, table, sorted(parts[uuid], key=lambda part: part.offset)) for table in same]
        for uuid, same in names.items()
    ]


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
        stored_offset=cut.stored.get(table.uuid, cut.stored_offset),
    )


def _commit_names(
    cut: Cut,
    tables: SinkTables,
    declared: Mapping[TablePlace, SinkTarget],
    requests: Sequence[CommitRequest],
) -> dict[TableReference, Outcome]:
    outcomes: dict[TableReference, Outcome] = {}
    for request in requests:
        table = request.table
        target = declared.get(place_of(table)) or SinkTarget(
            catalog=table.catalog, namespace=table.namespace, name=table.name
        )
        outcomes[table] = _commit(cut, tables, target, request)
    return outcomes


def _commit(cut: Cut, tables: SinkTables, target: SinkTarget, request: CommitRequest) -> Outcome:
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
