"""What is stored of a sink, over the pipe of a task: both ends of it.

The process of a task has no login of the database: it sends calls, and the service that started it
answers them under the lease of the task. Errors travel by their code.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TypeVar
from uuid import UUID

from datarecs_application.child_frames import BadFrameError, Reader
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.sinking import SinkMemory
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.captures import CaptureCode, LeaseLostError
from datarecs_core.errors.store import StoreCode
from datarecs_core.hashing import JsonValue
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    SinkCommit,
    SinkState,
    TableCommit,
    TaskReport,
)
from datarecs_core.sink.documents import from_sink_document, sink_document

Value = TypeVar("Value")
CALL, FAILED, LOG = "call", "failed", "log"
"""Types of the task's frames."""
ANSWER, STOP = "answer", "stop"
"""Types of the service's frames."""
ANSWER_LIMIT_S = 60.0
"""Longer than a statement of the service may take."""


class MemoryRefusedError(Exception):
    """The service refused a call for a reason that no task handles: a defect."""


@dataclass(slots=True, kw_only=True)
class Calls:
    """The task's end: one call at a time; answers are delivered by the thread that reads."""

    send: Callable[[Mapping[str, object]], None]
    """Raises OSError when the service has ended."""
    limit_s: float = ANSWER_LIMIT_S
    _answers: SimpleQueue[Mapping[str, object]] = field(default_factory=SimpleQueue, init=False)
    _number: int = field(default=0, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def deliver(self, frame: Mapping[str, object]) -> None:
        self._answers.put(frame)

    def call(self, name: str, argument: JsonValue = None) -> Mapping[str, object]:
        """The answer. Raises StoreUnavailableError without one."""
        with self._lock:
            self._number += 1
            frame = {"type": CALL, "id": self._number, "call": name, "argument": argument}
            try:
                self.send(frame)
                while (answer := self._answers.get(timeout=self.limit_s)).get("id") != frame["id"]:
                    pass  # late, of a call that was given up
            except (Empty, OSError) as cause:
                raise StoreUnavailableError(cause="the service did not answer") from cause
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteMemory:
    """Port SinkMemory in the process of a task."""

    calls: Calls
    sink_uid: UUID

    def state(self) -> SinkState:
        return from_sink_document(SinkState, self._value("state", kind=dict))

    def begin_epoch(self) -> int:
        return self._value("begin_epoch", kind=int)

    def begin_lineage(self, checkpoint: Checkpoint) -> None:
        self._answer("begin_lineage", sink_document(checkpoint))

    def committed_table(self, commit: TableCommit) -> None:
        self._answer("committed_table", sink_document(commit))

    def committed(self, commit: SinkCommit) -> None:
        self._answer("committed", sink_document(commit))

    def decided(self, epoch: int, checkpoint: Checkpoint) -> bool:
        state = sink_document(SinkState(epoch=epoch, checkpoint=checkpoint))
        return self._answer("decided", state).of("value", bool)

    def drained(self) -> None:
        self._answer("drained")

    def report(self, report: TaskReport) -> None:
        self._answer("report", sink_document(report))

    def _value(self, name: str, *, kind: type[Value]) -> Value:
        return self._answer(name).of("value", kind)

    def _answer(self, name: str, argument: JsonValue = None) -> Reader:
        answer = Reader(self.calls.call(name, argument))
        code = answer.maybe("error", str)
        if code is not None:
            raise self._error(code, answer.of("message", str))
        return answer

    def _error(self, code: str, message: str) -> Exception:
        if code == StoreCode.STORE_UNAVAILABLE.name:
            return StoreUnavailableError(cause=message)
        if code == StoreCode.STORE_BUSY.name:
            return StoreBusyError(cause=message)
        if code == CaptureCode.LEASE_LOST.name:
            return LeaseLostError(item_id=self.sink_uid, epoch=0)
        return MemoryRefusedError(f"{code}: {message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A call that was carried out, or refused."""

    frame: Mapping[str, JsonValue]
    """To be sent to the task."""
    report: TaskReport | None = None
    """Stored by this call."""
    commit: SinkCommit | None = None
    """Stored by this call, or by an earlier one."""
    state: SinkState | None = None
    """Read by this call."""
    is_drained: bool = False
    """The sink is drained: its tasks end."""
    is_lease_lost: bool = False


def answer_call(memory: SinkMemory, frame: Mapping[str, object]) -> Answered:
    """Carry out the call of a frame.

    Raises:
        BadFrameError: a correct task never sends it.
    """
    reader = Reader(frame)
    number, name = reader.of("id", int), reader.of("call", str)
    try:
        carry_out, argument = _CALLS[name], frame.get("argument")
    except KeyError as cause:
        raise BadFrameError("an unknown call") from cause
    try:
        value = carry_out(memory, argument)  # type: ignore[arg-type]  # parsed JSON
    except DatarecsError as error:
        failure = {"error": error.code.name, "message": _cause(error)}
        return Answered(
            frame={"type": ANSWER, "id": number, **failure},
            is_lease_lost=isinstance(error, LeaseLostError),
        )
    except ValueError as cause:
        raise BadFrameError(f"the argument of {name} is not its document") from cause
    done: dict[str, JsonValue] = {"type": ANSWER, "id": number, "value": value}
    return _answered(done, name, argument)  # type: ignore[arg-type]  # parsed JSON


def _answered(done: Mapping[str, JsonValue], name: str, argument: JsonValue) -> Answered:
    """With what the service follows of the task."""
    match name:
        case "report":
            return Answered(frame=done, report=_report(argument))
        case "committed":
            return Answered(frame=done, commit=from_sink_document(SinkCommit, argument))
        case "state":
            state = from_sink_document(SinkState, done["value"])
            return Answered(frame=done, state=state, is_drained=state.is_drained)
        case _:
            return Answered(frame=done, is_drained=name == "drained")


def _cause(error: DatarecsError) -> str:
    """The text that the same class says again in the task."""
    if isinstance(error, StoreUnavailableError | StoreBusyError):
        return error.cause
    return str(error)


def _report(document: JsonValue) -> TaskReport:
    return from_sink_document(TaskReport, document)


def _state(memory: SinkMemory, _: JsonValue) -> JsonValue:
    return sink_document(memory.state())


def _begin_epoch(memory: SinkMemory, _: JsonValue) -> JsonValue:
    return memory.begin_epoch()


def _begin_lineage(memory: SinkMemory, document: JsonValue) -> JsonValue:
    memory.begin_lineage(from_sink_document(Checkpoint, document))
    return None


def _committed_table(memory: SinkMemory, document: JsonValue) -> JsonValue:
    memory.committed_table(from_sink_document(TableCommit, document))
    return None


def _committed(memory: SinkMemory, document: JsonValue) -> JsonValue:
    memory.committed(from_sink_document(SinkCommit, document))
    return None


def _decided(memory: SinkMemory, document: JsonValue) -> JsonValue:
    state = from_sink_document(SinkState, document)
    return memory.decided(state.epoch, state.checkpoint)


def _drained(memory: SinkMemory, _: JsonValue) -> JsonValue:
    memory.drained()
    return None


def _store_report(memory: SinkMemory, document: JsonValue) -> JsonValue:
    memory.report(_report(document))
    return None


_CALLS: Mapping[str, Callable[[SinkMemory, JsonValue], JsonValue]] = {
    "state": _state,
    "begin_epoch": _begin_epoch,
    "begin_lineage": _begin_lineage,
    "committed_table": _committed_table,
    "committed": _committed,
    "decided": _decided,
    "drained": _drained,
    "report": _store_report,
}
