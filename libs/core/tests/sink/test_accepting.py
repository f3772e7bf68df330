"""What decisions about tables and resets make of the checkpoint, and of files that wait."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.accepting import (
    WaitingFiles,
    by_table,
    closed,
    held_positions,
    place_of,
    requested,
    reset_checkpoint,
    reset_positions,
    rewound,
    with_table,
)
from datarecs_core.sink.admission import ControlFold, Part
from datarecs_core.sink.checkpoint import Checkpoint, Lineage, PartitionState, TableCommit
from datarecs_core.sink.control import (
    ControlHeaders,
    DataComplete,
    DataWritten,
    Envelope,
    FileEntry,
    Message,
    SourcePartition,
    SourceRange,
    TableReference,
)
from datarecs_core.sink.decisions import (
    DecisionState,
    ReplacedTable,
    TableDecision,
    WaitingRecords,
)
from datarecs_core.sink.documents import from_sink_document, sink_document

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
P0, P1 = SourcePartition("orders", 0), SourcePartition("orders", 1)
LINEAGE = Lineage(cluster_id="c", topic_id="t", group="g")
OLD, NEW, NEWER = UUID(int=1), UUID(int=2), UUID(int=3)
COMMIT, LEAVE_OUT = WaitingRecords.COMMIT, WaitingRecords.LEAVE_OUT


def a_table(uuid: UUID, name: str = "orders") -> TableReference:
    return TableReference(catalog="lake", namespace=("sales",), name=name, uuid=uuid)


def a_commit(table: TableReference, offset: int, **ends: int) -> TableCommit:
    return TableCommit(
        commit_id=UUID(int=9),
        table=table,
        snapshot_id=1,
        control_offset=offset,
        valid_through=None,
        records=1,
        files=1,
        source_ends={SourcePartition("orders", int(name[1:])): end for name, end in ends.items()},
    )


def a_part(offset: int, table: TableReference) -> Part:
    file = FileEntry(path=f"{offset}.parquet", spec_id=0, record_count=5, size=1)
    message = DataWritten(commit_id=UUID(int=9), table=table, data_files=(file,))
    return Part(offset=offset, message=message)


def a_decision(records: WaitingRecords, since: int = 0) -> TableDecision:
    return TableDecision(
        catalog="lake", namespace=("sales",), name="orders", records=records, since=since
    )


CHECKPOINT = Checkpoint(
    lineage=LINEAGE,
    control_offset=20,
    partitions={P0: PartitionState(accepted=10, largest=NOON), P1: PartitionState(accepted=7)},
    valid_through=NOON,
    tables=(a_table(OLD), a_table(UUID(int=8), "second")),
)
PLACE = place_of(a_table(OLD))


# --- a decision


@pytest.mark.parametrize(
    ("commits", "since"),
    [
        ((), 20),
        ((a_commit(a_table(OLD), 25),), 25),
        ((a_commit(a_table(OLD), 15),), 20),
        ((a_commit(a_table(UUID(int=8), "second"), 25),), 20),
    ],
)
def test_a_decision_states_up_to_where_the_lost_table_had_everything(
    commits: tuple[TableCommit, ...], since: int
) -> None:
    decided = requested(CHECKPOINT, PLACE, COMMIT, commits)
    assert decided == replace(CHECKPOINT, decision=a_decision(COMMIT, since))
    assert from_sink_document(Checkpoint, sink_document(decided)) == decided


def test_an_open_decision_is_replaced_only_by_one_about_the_same_table() -> None:
    decided = requested(CHECKPOINT, PLACE, COMMIT, ())
    other = (PLACE[0], PLACE[1], "second")
    with pytest.raises(SinkError, match=r"about table sales\.orders") as refused:
        requested(decided, other, COMMIT, ())
    assert refused.value.code is SinkCode.DECISION_OPEN
    again = requested(decided, PLACE, WaitingRecords.LEAVE_OUT, ())
    assert again.decision == a_decision(WaitingRecords.LEAVE_OUT, 20)
    ended = closed(decided, DecisionState.DONE, "")
    assert requested(ended, other, COMMIT, ()).decision is not None


def test_a_decision_ends_with_words() -> None:
    decided = requested(CHECKPOINT, PLACE, COMMIT, ())
    ended = closed(decided, DecisionState.REFUSED, "no").decision
    assert ended == replace(a_decision(COMMIT, 20), state=DecisionState.REFUSED, message="no")
    assert str(ended) == "sales.orders"
    assert closed(CHECKPOINT, DecisionState.DONE, "") is CHECKPOINT


def test_an_older_document_has_no_decision() -> None:
    document = {"lineage": None, "control_offset": 3}
    older = from_sink_document(Checkpoint, document)
    assert (older.decision, older.replaced, older.first_offset, older.reset_at) == (
        None,
        (),
        0,
        None,
    )


# --- rewinding


def test_a_checkpoint_goes_back_to_what_was_accepted_then() -> None:
    back = rewound(CHECKPOINT, 12, {P0: 4})
    assert back.control_offset == 12
    assert back.partitions == {P0: PartitionState(accepted=4, largest=NOON)}
    assert (back.valid_through, back.rewound_from) == (NOON, 20)
    assert rewound(back, 8, {P0: 2}).rewound_from == 20


@pytest.mark.parametrize("offset", [20, 30])
def test_a_checkpoint_never_goes_forward(offset: int) -> None:
    assert rewound(CHECKPOINT, offset, {P0: 99}) is CHECKPOINT


Vote = tuple[SourcePartition, int, int]
VOTES = st.lists(
    st.tuples(st.sampled_from([P0, P1]), st.integers(0, 12), st.integers(0, 4)), max_size=12
)


def an_envelope(offset: int, message: Message, headers: ControlHeaders) -> Envelope:
    return Envelope(
        offset=offset, sender=UUID(int=4), sent_at=NOON, headers=headers, message=message
    )


def envelopes(votes: list[Vote]) -> list[Envelope]:
    """A file and a vote for each range; some fit, others overlap or leave a gap."""
    written = a_part(0, a_table(OLD)).message
    done = DataComplete(commit_id=UUID(int=9), positions=())
    messages = []
    for number, (partition, start, length) in enumerate(votes):
        span = SourceRange(partition=partition, start=start, end=start + length)
        vote = ControlHeaders(epoch=1, ranges=(span,), parts=1)
        messages.append(an_envelope(2 * number, written, ControlHeaders(epoch=1)))
        messages.append(an_envelope(2 * number + 1, done, vote))
    return messages


def fold_from(checkpoint: Checkpoint, read: list[Envelope]) -> ControlFold:
    fold = ControlFold.at(checkpoint)
    for envelope in read:
        fold.apply(envelope)
    return fold


@given(VOTES, st.data())
def test_a_rewound_checkpoint_comes_to_the_same_decisions(
    votes: list[Vote], data: st.DataObject
) -> None:
    """From any cut, with the positions that were accepted there."""
    read = envelopes(votes)
    cut = 2 * data.draw(st.integers(0, len(votes)))
    start = Checkpoint(lineage=LINEAGE)
    whole, half = fold_from(start, read), fold_from(start, read[:cut])
    later = replace(start, control_offset=len(read), partitions=dict(whole.partitions))
    again = fold_from(rewound(later, cut, half.accepted()), read)
    assert again.accepted() == whole.accepted()
    expected = [part for parts in whole.pending().values() for part in parts if part.offset >= cut]
    assert [part for parts in again.pending().values() for part in parts] == expected


# --- a table that was created again


PENDING: Mapping[TableReference, tuple[Part, ...]] = {
    a_table(OLD): (a_part(21, a_table(OLD)), a_part(27, a_table(OLD))),
    a_table(NEW): (a_part(24, a_table(NEW)),),
}


def offsets(checkpoint: Checkpoint) -> dict[UUID, list[int]]:
    tables = by_table(PENDING, checkpoint.replaced)
    return {table.uuid: [part.offset for part in parts] for table, parts in tables.items()}


def test_files_of_a_lost_table_go_into_the_new_one_in_their_order() -> None:
    after = with_table(CHECKPOINT, a_decision(COMMIT, 20), NEW, {OLD})
    assert after.known_tables()[PLACE] == NEW
    assert offsets(after) == {NEW: [21, 24, 27]}
    assert from_sink_document(Checkpoint, sink_document(after)) == after


def test_what_the_lost_table_had_is_left_out() -> None:
    after = with_table(CHECKPOINT, a_decision(COMMIT, 25), NEW, {OLD})
    assert offsets(after) == {NEW: [24, 27]}
    nothing = with_table(CHECKPOINT, a_decision(COMMIT, 99), NEW, {OLD})
    assert offsets(nothing) == {NEW: [24]}


def test_files_of_a_lost_table_are_left_out_for_good() -> None:
    after = with_table(CHECKPOINT, a_decision(LEAVE_OUT), NEW, {OLD})
    assert offsets(after) == {NEW: [24]}
    again = with_table(after, a_decision(COMMIT, 20), NEWER, {NEW})
    assert offsets(again) == {NEWER: [24]}


def test_a_table_that_is_lost_after_a_decision_passes_its_files_on() -> None:
    first = with_table(CHECKPOINT, a_decision(COMMIT, 20), NEW, {OLD})
    assert offsets(with_table(first, a_decision(COMMIT, 20), NEWER, {NEW})) == {NEWER: [21, 24, 27]}
    assert offsets(with_table(first, a_decision(LEAVE_OUT), NEWER, {NEW})) == {}
    assert offsets(with_table(first, a_decision(LEAVE_OUT), NEW, ())) == {NEW: [24]}


def test_a_table_that_is_restored_gets_its_files() -> None:
    first = with_table(CHECKPOINT, a_decision(COMMIT, 20), NEW, {OLD})
    restored = with_table(first, a_decision(COMMIT, 20), OLD, {NEW})
    assert restored.known_tables()[PLACE] == OLD
    assert offsets(restored) == {OLD: [21, 24, 27]}


def test_a_table_that_is_dropped_is_known_no_more() -> None:
    after = with_table(CHECKPOINT, a_decision(LEAVE_OUT), None, {OLD, NEW})
    assert PLACE not in after.known_tables()
    assert len(after.tables) == 1
    assert offsets(after) == {}


def test_waiting_files_are_counted_in_words() -> None:
    parts = [part for parts in PENDING.values() for part in parts]
    assert str(WaitingFiles.of(parts)) == ("15 records in 3 files, of the control offsets 21 to 27")
    assert str(WaitingFiles.of([])) == "no records"


# --- reset


ORDERS, SECOND = a_table(OLD), a_table(UUID(int=8), "second")


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        ((), {P0: 10, P1: 7}),
        ((a_commit(ORDERS, 20, p0=10), a_commit(SECOND, 10, p0=5)), {P0: 10, P1: 7}),
        ((a_commit(ORDERS, 30, p0=15), a_commit(SECOND, 30, p0=15)), {P0: 15, P1: 7}),
    ],
)
def test_a_reset_goes_on_at_what_every_table_holds(
    commits: tuple[TableCommit, ...], expected: Mapping[SourcePartition, int]
) -> None:
    assert reset_positions(CHECKPOINT, commits, ()) == expected


@pytest.mark.parametrize(
    "commits", [(a_commit(ORDERS, 30),), (a_commit(SECOND, 40), a_commit(ORDERS, 30))]
)
def test_a_reset_is_refused_where_one_table_is_ahead(commits: tuple[TableCommit, ...]) -> None:
    with pytest.raises(SinkError, match="use `accept-table` first") as refused:
        reset_positions(CHECKPOINT, commits, ())
    assert refused.value.code is SinkCode.TABLES_DIFFER
    assert "sales.orders" in str(refused.value)
    assert "sales.second" in str(refused.value)


def test_a_declared_table_without_a_commit_is_behind() -> None:
    alone = replace(CHECKPOINT, tables=(ORDERS,))
    commits = (a_commit(ORDERS, 30, p0=15),)
    assert reset_positions(alone, commits, [PLACE]) == {P0: 15, P1: 7}
    with pytest.raises(SinkError, match="second does not hold"):
        reset_positions(alone, commits, [place_of(SECOND)])


def test_a_reset_is_refused_while_records_are_committed_again() -> None:
    with pytest.raises(SinkError, match="wait for the next commit"):
        reset_positions(rewound(CHECKPOINT, 12, {P0: 4}), (), ())


def test_a_second_reset_before_a_coordinator_goes_on_at_the_first() -> None:
    first = reset_checkpoint(CHECKPOINT, {P0: 2}, {}, now=NOON)
    assert first.reset_at == NOON
    assert (first.lineage, first.control_offset, first.replaced) == (None, 0, ())
    assert first.partitions[P0] == PartitionState(accepted=2, largest=NOON)
    assert reset_positions(first, [a_commit(ORDERS, 30, p0=15)], ()) == {P0: 2, P1: 7}


def test_a_reset_without_positions_goes_on_at_what_the_tables_hold_after_another_one() -> None:
    held = held_positions(CHECKPOINT, (), ())
    first = reset_checkpoint(CHECKPOINT, {P0: 1200}, held, now=NOON)
    assert first.partitions[P0] == PartitionState(accepted=1200, largest=NOON, held=10)
    second = reset_checkpoint(first, {P1: 3}, held_positions(first, (), ()), now=NOON)
    assert reset_positions(second, (), ()) == {P0: 1200, P1: 3}
    assert held_positions(second, (), ()) == {P0: 10, P1: 7}


def test_a_table_that_states_the_position_of_a_reset_holds_no_more_than_before() -> None:
    begun = replace(
        reset_checkpoint(CHECKPOINT, {P0: 1200}, {P0: 10}, now=NOON),
        lineage=CHECKPOINT.lineage,
        control_offset=CHECKPOINT.control_offset,
        tables=(ORDERS,),
    )
    commits = [a_commit(ORDERS, 30, p0=1200)]
    assert held_positions(begun, commits, ()) == {P0: 10, P1: 7}
    assert held_positions(begun, [a_commit(ORDERS, 30, p0=1300)], ()) == {P0: 1300, P1: 7}


def test_a_reset_to_what_the_tables_hold_remembers_nothing_else() -> None:
    moved = reset_checkpoint(CHECKPOINT, {P0: 1200}, {P0: 10}, now=NOON)
    back = reset_checkpoint(moved, {P0: 10}, {P0: 10, P1: 7}, now=NOON)
    assert back.partitions == CHECKPOINT.partitions


def test_a_reset_forgets_decisions() -> None:
    decided = requested(
        replace(CHECKPOINT, replaced=(ReplacedTable(uuid=OLD),)), PLACE, LEAVE_OUT, ()
    )
    after = reset_checkpoint(decided, {}, {}, now=NOON)
    assert (after.decision, after.replaced, after.known_tables()) == (None, (), {})
