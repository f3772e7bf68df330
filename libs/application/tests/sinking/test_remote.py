"""The memory of a sink over a pipe: every call arrives, and every error keeps its meaning."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import UUID

import pytest

from datarecs_application.child_frames import BadFrameError
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.sinking import SinkMemory
from datarecs_application.sinking.remote import (
    Calls,
    MemoryRefusedError,
    RemoteMemory,
    answer_call,
)
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.captures import LeaseLostError
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.hashing import canonical_json
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    Lineage,
    PartitionState,
    SinkCommit,
    SinkState,
    TableCommit,
    TaskReport,
    TaskWish,
)
from datarecs_core.sink.control import SourcePartition, TableReference
from datarecs_runtime.frames import parse
from datarecs_testing.conformance.sink_memory import SinkMemoryConformance
from datarecs_testing.sink_doubles import RecordedSinkMemory

UID = UUID(int=5)
ORDERS = SourcePartition("orders.v1-x_y", 12)
NOON = datetime(2026, 11, 20, 12, 0, 0, 123_456, tzinfo=UTC)
CHECKPOINT = Checkpoint(
    lineage=Lineage(cluster_id="c", topic_id="t", group="g"),
    control_offset=2**53 - 1,
    partitions={ORDERS: PartitionState(accepted=2**53 - 2, largest=NOON)},
    valid_through=NOON,
)
STATE = SinkState(
    epoch=7, checkpoint=CHECKPOINT, wish=TaskWish.PAUSE, commit_requests=2, is_drained=False
)
TABLE_COMMIT = TableCommit(
    commit_id=UUID(int=1),
    table=TableReference(catalog="lake", namespace=("a", "b"), name="t", uuid=UUID(int=2)),
    snapshot_id=-(2**62),
    control_offset=3,
    valid_through=None,
    records=4,
    files=5,
    source_ends={ORDERS: 6},
)
COMMIT = SinkCommit(
    commit_id=UUID(int=1),
    epoch=7,
    checkpoint=CHECKPOINT,
    is_partial=True,
    tables=1,
    records=4,
)
REPORT = TaskReport(
    positions={ORDERS: 1},
    ends={ORDERS: 2},
    is_coordinator=True,
    error_code="BAD_RECORD",
    error="größe",
    is_halted=True,
)


def remote(memory: SinkMemory) -> RemoteMemory:
    """Both ends, with bytes between them."""

    def send(frame: Mapping[str, object]) -> None:
        arrived = parse(canonical_json(frame))  # type: ignore[arg-type]  # JSON
        answered = answer_call(memory, arrived)
        calls.deliver(parse(canonical_json(answered.frame)))

    calls = Calls(send=send, limit_s=5)
    return RemoteMemory(calls=calls, sink_uid=UID)


class TestRemoteMemory(SinkMemoryConformance):
    @pytest.fixture
    def memory(self) -> RemoteMemory:
        return remote(RecordedSinkMemory())


def test_every_call_arrives_whole() -> None:
    memory = RecordedSinkMemory(stored=STATE)
    near = remote(memory)
    assert near.state() == STATE
    assert near.begin_epoch() == 8
    near.committed_table(TABLE_COMMIT)
    near.committed(COMMIT)
    near.report(REPORT)
    near.drained()
    assert memory.table_commits == [TABLE_COMMIT]
    assert memory.commits == [COMMIT]
    assert memory.reports == [REPORT]
    assert near.state().is_drained


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailableError(cause="it restarts"),
        StoreBusyError(cause="deadlock"),
        LeaseLostError(item_id=UID, epoch=0),
    ],
)
def test_an_error_arrives_as_the_same_error(error: DatarecsError) -> None:
    near = remote(RecordedSinkMemory(faults=[error]))
    with pytest.raises(type(error)) as raised:
        near.begin_epoch()
    assert str(raised.value) == str(error)
    assert near.begin_epoch() == 1


def test_another_error_is_a_defect_with_its_code() -> None:
    near = remote(RecordedSinkMemory(faults=[SinkError(SinkCode.COMMIT_FAILED, "no")]))
    with pytest.raises(MemoryRefusedError, match="COMMIT_FAILED: no"):
        near.state()


def test_without_an_answer_the_store_is_unavailable() -> None:
    near = RemoteMemory(calls=Calls(send=lambda _: None, limit_s=0.01), sink_uid=UID)
    with pytest.raises(StoreUnavailableError):
        near.state()


def test_an_ended_service_is_an_unavailable_store() -> None:
    def broken(_: Mapping[str, object]) -> None:
        raise BrokenPipeError

    near = RemoteMemory(calls=Calls(send=broken), sink_uid=UID)
    with pytest.raises(StoreUnavailableError):
        near.drained()


def test_a_late_answer_is_not_that_of_the_next_call() -> None:
    memory, late = RecordedSinkMemory(), list[Mapping[str, object]]()

    def send(frame: Mapping[str, object]) -> None:
        answered = answer_call(memory, frame)
        if not late:
            late.append(answered.frame)
            return
        calls.deliver(late[0])
        calls.deliver(answered.frame)

    calls = Calls(send=send, limit_s=0.01)
    near = RemoteMemory(calls=calls, sink_uid=UID)
    with pytest.raises(StoreUnavailableError):
        near.begin_epoch()
    assert near.begin_epoch() == 2


def test_two_threads_get_each_its_answer() -> None:
    near = remote(RecordedSinkMemory())
    epochs: list[int] = []
    threads = [threading.Thread(target=lambda: epochs.append(near.begin_epoch())) for _ in range(8)]
    with started(threads):
        pass
    assert sorted(epochs) == list(range(1, 9))


@contextmanager
def started(threads: list[threading.Thread]) -> Iterator[None]:
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(10)


@pytest.mark.parametrize(
    "frame",
    [
        {"id": 1, "call": "__class__"},
        {"id": "1", "call": "state"},
        {"id": 1, "call": "report", "argument": None},
        {"id": 1, "call": "report", "argument": {"positions": {"orders": 1}}},
        {"id": 1, "call": "committed", "argument": {"commit_id": "x"}},
    ],
)
def test_a_frame_of_no_correct_task_is_refused(frame: Mapping[str, object]) -> None:
    with pytest.raises(BadFrameError):
        answer_call(RecordedSinkMemory(), frame)
