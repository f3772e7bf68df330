"""What a decision about a table, or a reset, makes of the checkpoint.

Pure. The verbs are stored by the API; a coordinator carries a decision out (see
`application/sinking/accepting`), because only the table and the control topic say what is there.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.admission import Part
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    PartitionState,
    TableCommit,
    TablePlace,
)
from datarecs_core.sink.control import SourcePartition, TableReference
from datarecs_core.sink.decisions import (
    DecisionState,
    ReplacedTable,
    TableDecision,
    WaitingRecords,
)


def place_of(table: TableReference) -> TablePlace:
    return (table.catalog, table.namespace, table.name)


# --- decisions about a table


def requested(
    checkpoint: Checkpoint,
    place: TablePlace,
    records: WaitingRecords,
    commits: Iterable[TableCommit],
) -> Checkpoint:
    """With a decision that the next coordinator carries out.

    Args:
        checkpoint: as stored.
        place: of the table.
        records: what a person has decided.
        commits: the newest stored snapshot of each table since the last reset.

    Raises:
        SinkError: DECISION_OPEN, one about another table is not carried out yet.
    """
    before = checkpoint.decision
    if before is not None and before.state is DecisionState.OPEN and before.place != place:
        raise SinkError(
            SinkCode.DECISION_OPEN,
            f"the decision about table {before} is not carried out yet; repeat this one when "
            "`datarecs sink status` shows what came of it",
        )
    known = checkpoint.known_tables().get(place)
    stored = [one.control_offset for one in commits if one.table.uuid == known]
    catalog, namespace, name = place
    decision = TableDecision(
        catalog=catalog,
        namespace=namespace,
        name=name,
        records=records,
        since=max(checkpoint.control_offset, *stored) if stored else checkpoint.control_offset,
    )
    return replace(checkpoint, decision=decision)


def closed(checkpoint: Checkpoint, state: DecisionState, message: str) -> Checkpoint:
    """With the end of its decision."""
    if checkpoint.decision is None:
        return checkpoint
    ended = replace(checkpoint.decision, state=state, message=message)
    return replace(checkpoint, decision=ended)


def rewound(checkpoint: Checkpoint, offset: int, ends: Mapping[SourcePartition, int]) -> Checkpoint:
    """Back to a control offset at which these positions were accepted; never forward.

    Partitions that have no position there had no vote then, and begin with their first one again.
    What was ever seen of a partition, and what is valid through when, stays.
    """
    if offset >= checkpoint.control_offset:
        return checkpoint
    before = checkpoint.partitions
    partitions = {
        partition: _back_at(before.get(partition, PartitionState(accepted=end)), end)
        for partition, end in ends.items()
    }
    return replace(
        checkpoint,
        control_offset=offset,
        partitions=partitions,
        rewound_from=max(checkpoint.control_offset, checkpoint.rewound_from),
    )


def _back_at(state: PartitionState, end: int) -> PartitionState:
    return state if state.accepted == end else state.moved(end)


def with_table(
    checkpoint: Checkpoint,
    decision: TableDecision,
    uuid: UUID | None,
    lost: Collection[UUID],
) -> Checkpoint:
    """Go on with the table that is at the place now.

    Args:
        checkpoint: before.
        decision: about the place.
        uuid: of the table that is there; None: there is none.
        lost: tables that were there, with files that may wait.
    """
    into = uuid if decision.records is WaitingRecords.COMMIT else None
    known = checkpoint.known_tables().get(decision.place)
    # Files on their way to a table that is lost now go where its own files go.
    moving = {*lost, uuid} if into is None else {*lost}
    rules = {
        one.uuid: replace(one, into=into) if one.into is not None and one.into in moving else one
        for one in checkpoint.replaced
        if one.uuid != uuid
    }
    for one in lost:
        since = decision.since if one == known else checkpoint.control_offset
        rules.setdefault(one, ReplacedTable(uuid=one, into=into, since=since))
    return replace(
        checkpoint,
        tables=_tables_with(checkpoint, decision, uuid),
        replaced=tuple(rules.values()),
    )


def _tables_with(
    checkpoint: Checkpoint, decision: TableDecision, uuid: UUID | None
) -> tuple[TableReference, ...]:
    others = tuple(one for one in checkpoint.tables if place_of(one) != decision.place)
    if uuid is None:
        return others
    present = TableReference(
        catalog=decision.catalog, namespace=decision.namespace, name=decision.name, uuid=uuid
    )
    return tuple(sorted((*others, present), key=place_of))


def by_table(
    pending: Mapping[TableReference, Iterable[Part]], replaced: Iterable[ReplacedTable]
) -> Mapping[TableReference, tuple[Part, ...]]:
    """Waiting files by the table that takes them, in offset order; those left out are not there."""
    rules = {one.uuid: one for one in replaced}
    tables: dict[TableReference, list[Part]] = {}
    for table, parts in pending.items():
        rule = rules.get(table.uuid)
        if rule is None:
            tables.setdefault(table, []).extend(parts)
        elif rule.into is not None:
            moved = [part for part in parts if part.offset >= rule.since]
            if moved:
                tables.setdefault(replace(table, uuid=rule.into), []).extend(moved)
    return {
        table: tuple(sorted(parts, key=lambda part: part.offset)) for table, parts in tables.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFiles:
    """How much waits, for messages."""

    records: int
    files: int
    begin: int
    end: int
    """Control offsets of its messages, [begin, end)."""

    @classmethod
    def of(cls, parts: Collection[Part]) -> "WaitingFiles":
        files = [entry for part in parts for entry in part.message.data_files]
        return cls(
            records=sum(entry.record_count for entry in files),
            files=len(files),
            begin=min((part.offset for part in parts), default=0),
            end=max((part.offset + 1 for part in parts), default=0),
        )

    def __str__(self) -> str:
        if not self.files:
            return "no records"
        return (
            f"{self.records} records in {self.files} files, of the control offsets {self.begin} "
            f"to {self.end - 1}"
        )


# --- reset


def reset_positions(
    checkpoint: Checkpoint, commits: Collection[TableCommit], declared: Iterable[TablePlace]
) -> Mapping[SourcePartition, int]:
    """Where a reset with positions goes on in other partitions: at what the tables hold.

    A position of an earlier reset stays, so that each of two resets in a row has an effect.

    Args:
        checkpoint: as stored.
        commits: the newest stored snapshot of each table since the last reset.
        declared: tables of the declaration.

    Raises:
        SinkError: TABLES_DIFFER, no position fits all tables.
    """
    accepted = {partition: state.accepted for partition, state in checkpoint.partitions.items()}
    if checkpoint.lineage is None:
        return accepted
    if checkpoint.control_offset < checkpoint.rewound_from:
        raise SinkError(
            SinkCode.TABLES_DIFFER,
            "records of a table that was rolled back are being committed again, and other tables "
            "hold them: wait for the next commit, or name the position of every partition",
        )
    ahead = [one for one in commits if one.control_offset > checkpoint.control_offset]
    if not ahead:
        return accepted
    newest = max(ahead, key=lambda one: one.control_offset)
    level = {place_of(one.table) for one in ahead if one.control_offset == newest.control_offset}
    behind = sorted({*checkpoint.known_tables(), *declared, *map(_place, commits)} - level)
    if behind:
        _, namespace, name = behind[0]
        raise SinkError(
            SinkCode.TABLES_DIFFER,
            f"table {newest.table} holds records that table {'.'.join((*namespace, name))} does "
            "not hold: without positions a reset would write them twice or not at all. If a table "
            "was rolled back, dropped or created again, use `accept-table` first; else name the "
            "position of every partition",
        )
    return {**accepted, **newest.source_ends}


def held_positions(
    checkpoint: Checkpoint, commits: Collection[TableCommit], declared: Iterable[TablePlace]
) -> Mapping[SourcePartition, int]:
    """What the tables hold, also where an earlier reset has set a position and read nothing.

    Where tables held different records at that reset, its position counts. Arguments and errors
    are those of `reset_positions`.
    """
    positions = dict(reset_positions(checkpoint, commits, declared))
    for partition, state in checkpoint.partitions.items():
        if state.held is not None and positions[partition] == state.accepted:
            positions[partition] = state.held
    return positions


def _place(commit: TableCommit) -> TablePlace:
    return place_of(commit.table)


def reset_checkpoint(
    checkpoint: Checkpoint,
    positions: Mapping[SourcePartition, int],
    held: Mapping[SourcePartition, int],
    *,
    now: datetime,
) -> Checkpoint:
    """Without a control topic and without decisions, and with other accepted positions.

    `held` are those from `held_positions`; a later reset without positions goes on there.
    """
    nothing = PartitionState(accepted=0)
    moved = {
        partition: checkpoint.partitions.get(partition, nothing).moved(
            offset, held=held.get(partition)
        )
        for partition, offset in positions.items()
    }
    return replace(
        checkpoint,
        lineage=None,
        control_offset=0,
        partitions={**checkpoint.partitions, **moved},
        rewound_from=0,
        replaced=(),
        decision=None,
        reset_at=now,
    )
