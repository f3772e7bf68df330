"""One task of a sink: a worker, and the coordinator while the worker reads the first partition.

The two loops share nothing but the state that was read last and the assignment of the worker.
Faults end here in a decision: repeat after a pause, halt and report, or end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event, Thread
from uuid import UUID

import structlog

from datarecs_application.ports.outside import Clock, Ids, Wake
from datarecs_application.ports.sinking import (
    SinkLog,
    SinkMemory,
    SinkTables,
    ValueDecoder,
    VoteRefusedError,
)
from datarecs_application.sinking.committing import COMMITS_AT_ONCE
from datarecs_application.sinking.coordinating import (
    SinkCoordinator,
    SupersededError,
    begin_coordinator,
    check_control,
    check_lineage,
    check_topics,
)
from datarecs_application.sinking.decoding import decode_object
from datarecs_application.sinking.defects import DefectError, defect_words
from datarecs_application.sinking.intake import TableIntake
from datarecs_application.sinking.working import SinkWorker
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.captures import LeaseLostError
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.changes import RecordChanges
from datarecs_core.sink.checkpoint import (
    Lineage,
    SinkState,
    TablePlace,
    TaskReport,
    TaskWish,
)
from datarecs_core.sink.definition import SinkTable
from datarecs_core.sink.dynamic import NamedTables
from datarecs_core.sink.routing import router

log = structlog.get_logger()

STATE_EVERY = timedelta(seconds=2)
REPORT_EVERY = timedelta(seconds=10)
LAST_VOTE_WITHIN = timedelta(seconds=20)
"""After the stop signal, with the end of the coordinator; the service waits a little longer."""
_FENCED_PAUSE = timedelta(seconds=5)
"""Before a coordinator that was replaced begins again, if the partition is still its own."""
_FAULT_PAUSE = timedelta(seconds=5)
_HEALED_AFTER = 3 * _FAULT_PAUSE
"""Without a fault: the first steps after one read nothing that could fail again."""
_HALTING = frozenset(
    {
        SinkCode.LINEAGE_MISMATCH,
        SinkCode.CONTROL_GAP,
        SinkCode.CONTROL_DAMAGED,
        SinkCode.RECORD_TOO_LARGE,
    }
)
"""Faults that only a person can mend; the task reads nothing until it begins anew."""


@dataclass(slots=True, kw_only=True)
class SinkTask:
    """`run` it in a process; tests call `step_worker` and `step_coordinator` themselves."""

    log: SinkLog
    memory: SinkMemory
    tables: SinkTables
    sink: SinkTable
    clock: Clock
    ids: Ids
    name: str
    """Of the task, within the sink."""
    decode: ValueDecoder = decode_object
    end_limit: timedelta = LAST_VOTE_WITHIN
    commits_at_once: int = COMMITS_AT_ONCE
    """Tables of one cycle."""
    worker: SinkWorker | None = None
    coordinator: SinkCoordinator | None = None
    is_ended: bool = False
    """The sink is drained, or another process has the task."""
    halt: SinkError | None = None
    _state: SinkState = field(default_factory=SinkState)
    _lineage: Lineage | None = None
    _topics: Mapping[str, str] = field(default_factory=dict)
    """Ids of the source topics before a record was read."""
    _has_state: bool = False
    """The state was read."""
    _failed_commits: int = 0
    """Of earlier coordinators of this task."""
    _state_at: float | None = None
    _report_at: float | None = None
    _reported: TaskReport | None = None
    _worker_fault: Exception | None = None
    _fault_at: float = 0
    """Of the last fault of the worker, monotonic seconds."""
    _coordinator_fault: Exception | None = None
    _resume_worker: float = 0
    """Monotonic seconds."""
    _resume_coordinator: float = 0

    def run(self, stop: Wake) -> None:
        """Until the stop signal, the drain, or the loss of the task.

        A last vote that does not end in time is given up: threads may still run, and the process
        ends with them. Its transaction is then taken as a whole or not at all.
        """
        ended = Event()
        coordinator = _started(self._coordinate, stop, ended, name="sink-coordinator")
        end_at = float("inf")
        try:
            while not (stop.is_set() or self.is_ended):
                self.step_worker()
                if self.halt is not None:
                    self.clock.wait(STATE_EVERY, until=stop)
                self._wait_for_resume(self._resume_worker, stop)
            end_at = self.clock.monotonic() + self.end_limit.total_seconds()
            self._wait_for_end(_started(self.finish, name="sink-last-vote"), end_at)
        finally:
            ended.set()
            self._wait_for_end(coordinator, end_at)

    def _wait_for_end(self, thread: Thread, end_at: float) -> None:
        """At most until then, monotonic seconds."""
        seconds = min(end_at - self.clock.monotonic(), self.end_limit.total_seconds())
        thread.join(max(seconds, 0))
        if thread.is_alive():
            log.warning("sink_end_given_up", task=self.name, what=thread.name)

    def _coordinate(self, stop: Wake, ended: Event) -> None:
        while not (stop.is_set() or ended.is_set() or self.is_ended):
            if not self.step_coordinator():
                self.clock.wait(timedelta(milliseconds=200), until=stop)
            self._wait_for_resume(self._resume_coordinator, stop)
        self._step_down()

    def _wait_for_resume(self, moment: float, stop: Wake) -> None:
        seconds = moment - self.clock.monotonic()
        if seconds > 0:
            self.clock.wait(min(timedelta(seconds=seconds), STATE_EVERY), until=stop)

    # --- the worker

    def step_worker(self) -> None:
        """Read the state and report where it is time, then let the worker step."""
        self._guarded(self._refresh)
        if self.is_ended:
            return
        if not self._has_state:
            self._resume_worker = self.clock.monotonic() + STATE_EVERY.total_seconds()
            return
        if self.halt is not None:
            self._guarded(self._stand_still)
        elif self.clock.monotonic() >= self._resume_worker:
            self._note_fault(self._guarded(self._work))
        self._guarded(self._report)

    def _note_fault(self, fault: Exception | None) -> None:
        now = self.clock.monotonic()
        if fault is not None:
            self._worker_fault, self._fault_at = fault, now
            self._resume_worker = now + _FAULT_PAUSE.total_seconds()
        elif now - self._fault_at > _HEALED_AFTER.total_seconds():
            self._worker_fault = None

    def _stand_still(self) -> None:
        """Leave the group; a sink that ends for good is not held up by its fault."""
        self.finish()
        if self._state.wish is TaskWish.DRAIN:
            self._end_for_good()

    def _work(self) -> None:
        if self.worker is None:
            self._open()
        if self.worker is None:
            return
        self.worker.state = self._state
        self.worker.is_holding = self._state.wish is not TaskWish.RUN
        self.worker.step()

    def _open(self) -> None:
        """Check that the checkpoint is of this cluster and its topics, before a record is read."""
        lineage = self.log.prepare()
        checkpoint = self._state.checkpoint
        try:
            check_lineage(checkpoint, lineage)
        except SinkError:
            if self._state.wish is not TaskWish.DRAIN:
                raise
            # An earlier drain removed the topic and could not say so.
            self._end_for_good()
            return
        topics = check_topics(checkpoint, self.log.topic_ids())
        reader = self.log.reader(checkpoint.control_offset)
        try:
            check_control(checkpoint, reader)
        finally:
            reader.close()
        self._lineage, self._topics = lineage, topics
        named = None if self.sink.dynamic is None else NamedTables(self.sink.dynamic)
        self.worker = SinkWorker(
            log=self.log,
            sink=self.sink,
            intake=TableIntake(
                tables=self.tables,
                targets=dict(enumerate(self.sink.tables)) if named is None else named.targets,
                named=named,
                route=router(self.sink.route, self.sink.tables),
                policy=self.sink.errors,
                decode=self.decode,
                changes=RecordChanges.of(self.sink),
                known_tables=self._known_tables,
            ),
            clock=self.clock,
            ids=self.ids,
            name=self.name,
            state=self._state,
        )

    def _known_tables(self) -> Mapping[TablePlace, UUID]:
        """As of the state that was read last."""
        return self._state.checkpoint.known_tables()

    def finish(self) -> None:
        """Vote what was read and leave the group."""
        worker, self.worker = self.worker, None
        if worker is None:
            return
        if not self.is_ended and self.halt is None:
            self._guarded(worker.last_vote)
        self._guarded(worker.close)

    # --- the coordinator

    def step_coordinator(self) -> bool:
        """False: there is nothing to do."""
        worker, now = self.worker, self.clock.monotonic()
        is_wanted = worker is not None and worker.is_first and self.halt is None
        if not is_wanted or self.is_ended:
            self._step_down()
            return False
        if now < self._resume_coordinator:
            return False
        try:
            fault = self._guarded(self._lead)
        except (VoteRefusedError, SupersededError) as cause:
            log.warning("sink_coordinator_replaced", reason=str(cause))
            self._step_down()
            self._resume_coordinator = now + _FENCED_PAUSE.total_seconds()
            return False
        if fault is not None:
            # What became of a transaction is unknown: a new producer ends what is open.
            self._step_down()
            self._resume_coordinator = now + _FAULT_PAUSE.total_seconds()
        self._coordinator_fault = fault
        return fault is None

    def _lead(self) -> None:
        if self._lineage is None:
            return
        if self.coordinator is None:
            self.coordinator = begin_coordinator(
                log=self.log,
                memory=self.memory,
                tables=self.tables,
                sink=self.sink,
                clock=self.clock,
                ids=self.ids,
                lineage=self._lineage,
                topics=self._topics,
                commits_at_once=self.commits_at_once,
            )
        self.coordinator.step(self._state)
        if self._state.wish is TaskWish.DRAIN and self.coordinator.is_held:
            self._end_for_good()

    def _end_for_good(self) -> None:
        self.log.remove_topics()
        self.memory.drained()
        self.is_ended = True

    def _step_down(self) -> None:
        coordinator, self.coordinator = self.coordinator, None
        self._coordinator_fault = None
        if coordinator is not None:
            self._failed_commits += coordinator.failed_commits
            self._guarded(coordinator.close)

    # --- state, faults, reports

    def _refresh(self) -> None:
        now = self.clock.monotonic()
        if self._state_at is not None and now - self._state_at < STATE_EVERY.total_seconds():
            return
        self._state_at = now
        self._state = self.memory.state()
        self._has_state = True
        self.is_ended = self.is_ended or self._state.is_drained

    def _guarded(self, action: Callable[[], None]) -> Exception | None:
        """Run it; a fault that hinders it, None without one."""
        try:
            action()
        except LeaseLostError:
            log.warning("sink_task_lost", task=self.name)
            self.is_ended = True
        except (VoteRefusedError, SupersededError):
            raise
        except SinkError as fault:
            if fault.code in _HALTING:
                self.halt = fault
            log.warning("sink_hindered", code=fault.code.name, reason=str(fault))
            return fault
        except DatarecsError as fault:
            log.warning("sink_hindered", code=fault.code.name, reason=str(fault))
            return fault
        except Exception as fault:
            log.exception("sink_step_failed", task=self.name)
            return fault
        return None

    def _report(self) -> None:
        """At once when what hinders it changes, else every few seconds."""
        now = self.clock.monotonic()
        fault = self._hindrance()
        is_halted = self._halted() is not None
        code, text = _described(fault)
        before = self._reported
        is_new = before is None or (before.error_code, before.error) != (code, text)
        is_due = self._report_at is None or now - self._report_at >= REPORT_EVERY.total_seconds()
        if not (is_new or is_due):
            return
        self._report_at = now
        worker, coordinator = self.worker, self.coordinator
        report = TaskReport(
            positions=worker.positions() if worker else {},
            ends=worker.log_ends() if worker and not self._worker_fault else {},
            is_coordinator=coordinator is not None,
            is_paused=bool(worker and worker.is_paused),
            dead_letters=worker.intake.dead_letters if worker else 0,
            fenced=worker.fenced if worker else 0,
            unrouted=worker.intake.unrouted if worker else 0,
            tombstones=worker.intake.tombstones if worker else 0,
            dropped_fields=worker.intake.dropped_fields if worker else 0,
            failed_commits=self._failed_commits
            + (coordinator.failed_commits if coordinator else 0),
            error_code=code,
            error=text,
            is_halted=is_halted,
        )
        self.memory.report(report)
        self._reported = report

    def _halted(self) -> SinkError | None:
        return self.halt or (self.worker.halt if self.worker else None)

    def _hindrance(self) -> Exception | None:
        coordinator = self.coordinator
        return (
            self._halted()
            or self._worker_fault
            or (coordinator.fault if coordinator else None)
            or self._coordinator_fault
        )


def _started(target: Callable[..., None], *arguments: object, name: str) -> Thread:
    """A thread that holds no process up."""
    thread = Thread(target=target, args=arguments, name=name, daemon=True)
    thread.start()
    return thread


def _described(fault: Exception | None) -> tuple[str, str]:
    match fault:
        case None:
            return "", ""
        case DatarecsError():
            return fault.code.name, str(fault)
        case DefectError():
            return "UNKNOWN", str(fault)
        case _:
            return "UNKNOWN", defect_words(fault)
