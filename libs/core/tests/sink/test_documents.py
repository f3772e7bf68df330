"""Documents of sinks come back equal, and refuse what is none."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.hashing import JsonValue, canonical_json
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    Lineage,
    PartitionState,
    SinkState,
    TableCommit,
    TaskReport,
)
from datarecs_core.sink.control import SourcePartition, TableReference
from datarecs_core.sink.documents import (
    from_positions,
    from_sink_document,
    positions_document,
    sink_document,
)

OFFSETS = st.integers(min_value=0, max_value=2**63 - 1)
PARTITIONS = st.builds(
    SourcePartition,
    st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True),
    st.integers(min_value=0, max_value=100_000),
)
INSTANTS = st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  bounds are naive there
STATES = st.builds(PartitionState, accepted=OFFSETS, largest=st.none() | INSTANTS)
LINEAGE = Lineage(cluster_id="c", topic_id="t", group="g")
CHECKPOINTS = st.builds(
    Checkpoint,
    lineage=st.none() | st.just(LINEAGE),
    control_offset=OFFSETS,
    partitions=st.dictionaries(PARTITIONS, STATES, max_size=5),
    valid_through=st.none() | INSTANTS,
    topics=st.dictionaries(st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True), st.text()),
    tables=st.lists(
        st.builds(
            TableReference,
            catalog=st.text(),
            namespace=st.tuples(st.text()),
            name=st.text(),
            uuid=st.uuids(),
        ),
        max_size=3,
    ).map(tuple),
)


@given(st.builds(SinkState, checkpoint=CHECKPOINTS, epoch=OFFSETS))
def test_a_state_comes_back_equal(state: SinkState) -> None:
    document = sink_document(state)
    canonical_json(document)
    assert from_sink_document(SinkState, document) == state


@given(st.dictionaries(PARTITIONS, OFFSETS, max_size=5))
def test_reports_and_positions_come_back_equal(positions: dict[SourcePartition, int]) -> None:
    report = TaskReport(positions=positions, ends=positions, error="größe")
    assert from_sink_document(TaskReport, sink_document(report)) == report
    assert from_positions(positions_document(positions)) == positions  # type: ignore[arg-type]  # its own


def test_a_checkpoint_from_before_topics_and_tables_is_read() -> None:
    document: JsonValue = {
        "lineage": {"cluster_id": "c", "topic_id": "t", "group": "g"},
        "control_offset": 7,
        "partitions": {"orders/0": {"accepted": 3}},
    }
    checkpoint = from_sink_document(Checkpoint, document)
    assert (checkpoint.control_offset, checkpoint.topics, checkpoint.tables) == (7, {}, ())


def test_after_a_reset_no_topic_and_no_table_is_known() -> None:
    table = TableReference(catalog="lake", namespace=("a",), name="t", uuid=UUID(int=2))
    checkpoint = Checkpoint(lineage=LINEAGE, topics={"orders": "1"}, tables=(table,))
    assert checkpoint.known_topics() == {"orders": "1"}
    assert checkpoint.known_tables() == {("lake", ("a",), "t"): UUID(int=2)}
    reset = replace(checkpoint, lineage=None)
    assert (reset.known_topics(), reset.known_tables()) == ({}, {})


def test_a_snapshot_id_beyond_2_to_the_53_comes_back_equal() -> None:
    commit = TableCommit(
        commit_id=UUID(int=1),
        table=TableReference(catalog="lake", namespace=("a", "b"), name="t", uuid=UUID(int=2)),
        snapshot_id=-(2**62),
        control_offset=3,
        valid_through=None,
        records=4,
        files=5,
        source_ends={},
    )
    assert from_sink_document(TableCommit, sink_document(commit)) == commit


@pytest.mark.parametrize(
    "document",
    [{"positions": {"orders": 1}}, {"positions": {"orders/x": 1}}, {"other": 1}, None, []],
)
def test_what_is_no_document_is_a_value_error(document: object) -> None:
    with pytest.raises(ValueError, match=r".*"):
        from_sink_document(TaskReport, document)  # type: ignore[arg-type]  # on purpose
