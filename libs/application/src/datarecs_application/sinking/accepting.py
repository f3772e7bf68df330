"""Carry out what a person has decided about a table of a sink.

A coordinator does it before it reads on. It may die at any line: the decision stays open until
everything is done, and the next coordinator sees in the table and in the checkpoint how far the
one before it came.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog

from datarecs_application.ports.sinking import (
    SinkLog,
    SinkMemory,
    SinkTables,
    TableAcceptance,
    TableStanding,
)
from datarecs_core.sink.accepting import (
    WaitingFiles,
    by_table,
    closed,
    place_of,
    rewound,
    with_table,
)
from datarecs_core.sink.admission import ControlFold, Part
from datarecs_core.sink.checkpoint import Checkpoint, Lineage
from datarecs_core.sink.control import TableReference
from datarecs_core.sink.decisions import DecisionState, TableDecision, WaitingRecords
from datarecs_core.sink.definition import SinkMode, SinkTable, SinkTarget

log = structlog.get_logger()

_POLL = timedelta(milliseconds=200)
_FIX = "decide leave_out to go on without them"


class _RefusedError(Exception):
    """A decision that cannot be carried out, with the words for people."""


class _SupersededError(Exception):
    """A newer coordinator has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deciding:
    """What a decision needs of the coordinator that carries it out."""

    log: SinkLog
    memory: SinkMemory
    tables: SinkTables
    sink: SinkTable
    lineage: Lineage
    epoch: int

    def store(self, checkpoint: Checkpoint) -> None:
        if not self.memory.decided(self.epoch, checkpoint):
            raise _SupersededError

    def read_ahead(self, checkpoint: Checkpoint) -> ControlFold:
        """Everything that is in the control topic now, from the checkpoint on."""
        reader = self.log.reader(checkpoint.control_offset)
        try:
            begin = reader.begin()
            if begin > checkpoint.control_offset:
                raise _RefusedError(
                    f"the control topic begins at offset {begin}, and messages from "
                    f"{checkpoint.control_offset} on are needed; {_FIX}"
                )
            fold, end = ControlFold.at(checkpoint), reader.end()
            while reader.position() < end:
                for envelope in reader.poll(_POLL):
                    fold.apply(envelope)
        finally:
            reader.close()
        return fold


def carry_out(deciding: Deciding, checkpoint: Checkpoint) -> Checkpoint | None:
    """The checkpoint to go on from; None: a newer coordinator has begun.

    Raises errors of the ports; the decision is still open then.
    """
    decision = checkpoint.decision
    if decision is None or decision.state is not DecisionState.OPEN:
        return checkpoint
    try:
        try:
            decided, message = _decided(deciding, checkpoint, decision)
            state = DecisionState.DONE
        except _RefusedError as refusal:
            decided, message, state = checkpoint, str(refusal), DecisionState.REFUSED
        ended = closed(decided, state, message)
        deciding.store(ended)
    except _SupersededError:
        return None
    log.warning(
        "sink_table_decided",
        table=str(decision),
        records=decision.records.value,
        state=state.value,
        reason=message,
    )
    return ended


def _decided(
    deciding: Deciding, checkpoint: Checkpoint, decision: TableDecision
) -> tuple[Checkpoint, str]:
    """The checkpoint with the decision, and what was done."""
    standing = deciding.tables.standing(_target(deciding.sink, decision), deciding.lineage)
    pending = deciding.read_ahead(checkpoint).pending()
    uuid = None if standing is None else standing.uuid
    known = checkpoint.known_tables().get(decision.place)
    present = {table.uuid for table in pending if place_of(table) == decision.place}
    lost = {*present, *({known} if known is not None else ())}
    lost -= {uuid, *(one.uuid for one in checkpoint.replaced)}
    if standing is not None and not lost and standing.is_rolled_back:
        if decision.records is WaitingRecords.COMMIT:
            return _recommitted(deciding, checkpoint, decision, standing)
        return _left_out(deciding, checkpoint, decision, standing)
    _check_replaced(deciding.sink, decision, is_there=standing is not None, is_lost=bool(lost))
    after = with_table(checkpoint, decision, uuid, lost)
    return after, _words(pending, checkpoint, after, decision)


def _target(sink: SinkTable, decision: TableDecision) -> SinkTarget:
    """As declared, or as it was once."""
    return _declared(sink, decision) or SinkTarget(
        catalog=decision.catalog, namespace=decision.namespace, name=decision.name
    )


def _declared(sink: SinkTable, decision: TableDecision) -> SinkTarget | None:
    targets = {(one.catalog, one.namespace, one.name): one for one in sink.tables}
    return targets.get(decision.place)


# --- a table that was rolled back


def _left_out(
    deciding: Deciding, checkpoint: Checkpoint, decision: TableDecision, standing: TableStanding
) -> tuple[Checkpoint, str]:
    """The table states what it stated, at its present head."""
    deciding.tables.accept(
        _target(deciding.sink, decision), _acceptance(deciding, standing, standing.offset)
    )
    return checkpoint, (
        f"records of the snapshots from which table {decision} was rolled back are left out; "
        "later ones are committed"
    )


def _recommitted(
    deciding: Deciding, checkpoint: Checkpoint, decision: TableDecision, standing: TableStanding
) -> tuple[Checkpoint, str]:
    """The control topic is read again from where the table was rolled back to.

    The checkpoint goes back before the table does: a table that states less than the checkpoint
    would never get what is between. Other tables skip what they state.
    """
    if deciding.sink.mode is not SinkMode.APPEND:
        raise _RefusedError(
            f"in the mode {deciding.sink.mode} records of table {decision} cannot be committed "
            f"again, because the files with their keys are removed with each commit; {_FIX}"
        )
    if standing.remaining is None or standing.ends is None:
        raise _RefusedError(
            f"no snapshot that is left in the history of table {decision} states up to where the "
            f"sink has written it; {_FIX}"
        )
    if standing.remaining < checkpoint.first_offset:
        raise _RefusedError(
            f"table {decision} was rolled back to a snapshot from before the last reset of the "
            f"sink; {_FIX}"
        )
    back = rewound(checkpoint, standing.remaining, standing.ends)
    tables = by_table(deciding.read_ahead(back).pending(), back.replaced)
    parts = [
        part
        for table, parts in tables.items()
        if table.uuid == standing.uuid
        for part in parts
        if part.offset >= standing.remaining
    ]
    target = _target(deciding.sink, decision)
    missing = deciding.tables.missing_file(
        target, [entry for part in parts for entry in part.message.data_files]
    )
    if missing is not None:
        raise _RefusedError(f"the file {missing} of table {decision} does not exist; {_FIX}")
    deciding.store(back)
    deciding.tables.accept(target, _acceptance(deciding, standing, standing.remaining))
    return back, f"committed again to table {decision}: {WaitingFiles.of(parts)}"


def _acceptance(deciding: Deciding, standing: TableStanding, offset: int) -> TableAcceptance:
    return TableAcceptance(
        uuid=standing.uuid,
        head=standing.head,
        lineage=deciding.lineage,
        offset=offset,
        epoch=deciding.epoch,
    )


# --- a table that was dropped or created again


def _check_replaced(
    sink: SinkTable, decision: TableDecision, *, is_there: bool, is_lost: bool
) -> None:
    """Raises _RefusedError."""
    if is_there:
        if (
            is_lost
            and decision.records is WaitingRecords.COMMIT
            and sink.mode is not SinkMode.APPEND
        ):
            raise _RefusedError(
                f"in the mode {sink.mode} records for the table that {decision} was cannot go into "
                f"another one, because they replace rows of it; {_FIX}"
            )
        return
    if decision.records is WaitingRecords.COMMIT:
        raise _RefusedError(f"table {decision} does not exist; create it first, or {_FIX}")
    if _declared(sink, decision) is not None and not sink.auto_create:
        raise _RefusedError(
            f"table {decision} is declared and does not exist; create it first, or remove it from "
            "the declaration"
        )


def _words(
    pending: Mapping[TableReference, Sequence[Part]],
    before: Checkpoint,
    after: Checkpoint,
    decision: TableDecision,
) -> str:
    """How much of what waits for the place is left out, and how much goes into another table."""
    waits = _at_place(by_table(pending, before.replaced), decision)
    stays = _at_place(by_table(pending, after.replaced), decision)
    offsets = {part.offset for part in stays}
    out = WaitingFiles.of([part for part in waits if part.offset not in offsets])
    known = after.known_tables().get(decision.place)
    moved = WaitingFiles.of([part for part in stays if part.message.table.uuid != known])
    return f"left out for table {decision}: {out}; for the present table, if they fit: {moved}"


def _at_place(
    tables: Mapping[TableReference, Sequence[Part]], decision: TableDecision
) -> list[Part]:
    return [
        part
        for table, parts in tables.items()
        if place_of(table) == decision.place
        for part in parts
    ]
