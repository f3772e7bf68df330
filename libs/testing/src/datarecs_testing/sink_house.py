"""A sink in one process: cluster, memory, tables, and tasks that a test steps.

Time is that of the house: it passes where a loop waits, so a test needs no thread and no sleep.
"""

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from datarecs_application.sinking.task import SinkTask
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.definition import CommitPolicy, SinkTable, SinkTarget
from datarecs_memory.sink_cluster import MemoryCluster
from datarecs_memory.sink_log import MemoryMember, MemorySinkLog
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.sink_doubles import MemorySinkTables, RecordedSinkMemory, exactly_once

if TYPE_CHECKING:
    from datarecs_application.ports.sinking import SinkLog, SinkMemory, SinkTables

NAME = "datarecs.sink.1"
TOPIC = "orders"
ORDERS = SinkTarget(catalog="lake", namespace=("sales",), name="orders")
SECOND = SinkTarget(catalog="lake", namespace=("sales",), name="second")
INTERVAL = timedelta(seconds=10)
_STEP = timedelta(milliseconds=10)
"""Time passes even where no loop waits."""


class KilledError(BaseException):
    """The process died here. No handler of the product may see it."""


Hook = Callable[[str], None]
"""Called before and after each call of a port, with its name; may raise KilledError."""

_OPENED = frozenset({"member", "reader", "producer", "writer"})
"""Methods that return another port."""


class Watched:
    """A port with a hook around each call."""

    def __init__(self, port: object, hook: Hook) -> None:
        self._port, self._hook = port, hook
        self.opened: list[object] = []
        """Ports that this one has returned."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  a call, or a value
        method, hook = getattr(self._port, name), self._hook
        if not callable(method):
            return method

        def call(*args: object, **options: object) -> object:
            hook(f"before {name}")
            result = method(*args, **options)
            hook(f"after {name}")
            if name not in _OPENED:
                return result
            self.opened.append(result)
            return Watched(result, hook)

        return call


def a_sink(**changes: object) -> SinkTable:
    """Topic `orders` into the table `sales.orders`, a commit every 10 s."""
    facts: dict[str, Any] = {
        "connection": "kafka",
        "topics": (TOPIC,),
        "tables": (ORDERS,),
        "commit": CommitPolicy(interval=INTERVAL, timeout=timedelta(seconds=5)),
    }
    return SinkTable(**{**facts, **changes})


class SinkHouse:
    def __init__(self, sink: SinkTable | None = None, *, partitions: int = 2) -> None:
        self.sink = sink or a_sink()
        self.clock, self.ids = ManualClock(by_itself=True), FixedIds()
        self.cluster = MemoryCluster(self.clock)
        for topic in self.sink.topics:
            self.cluster.create_topic(topic, partitions=partitions)
        self.memory = RecordedSinkMemory()
        self.tables = MemorySinkTables(ids=self.ids)
        for target in self.sink.tables:
            self.tables.create(target)
        self.commits_at_once = 1
        """Of its tasks: commits in one thread come in the same order each time."""
        self._names = iter(range(1_000_000))
        self._logs: dict[str, Watched] = {}
        self._sent = 0

    def log(self) -> MemorySinkLog:
        return MemorySinkLog(cluster=self.cluster, ids=self.ids, name=NAME, topics=self.sink.topics)

    def task(self, hook: Hook = lambda _: None) -> SinkTask:
        """A process; with a hook it can die in any call of a port."""
        ports = (self.log(), self.memory, self.tables)
        log, memory, tables = (Watched(port, hook) for port in ports)
        task = SinkTask(
            log=cast("SinkLog", log),
            memory=cast("SinkMemory", memory),
            tables=cast("SinkTables", tables),
            sink=self.sink,
            clock=self.clock,
            ids=self.ids,
            name=f"t{next(self._names)}",
            commits_at_once=self.commits_at_once,
        )
        self._logs[task.name] = log
        return task

    def send(
        self, count: int = 1, *, partition: int = 0, time: datetime | None = None, **fields: object
    ) -> list[int]:
        """Records with numbered ids; returns their offsets."""
        return [self._send(partition, time, fields) for _ in range(count)]

    def _send(self, partition: int, time: datetime | None, fields: dict[str, object]) -> int:
        self._sent += 1
        value = json.dumps({"id": self._sent, **fields}).encode()
        return self.send_value(value, partition=partition, time=time)

    def send_value(
        self, value: bytes | None, *, partition: int = 0, time: datetime | None = None
    ) -> int:
        return self.cluster.append(TOPIC, value, partition=partition, time=time)

    def step(self, *tasks: SinkTask, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(_STEP)
            for task in tasks:
                task.step_worker()
                task.step_coordinator()

    def run_for(self, duration: timedelta, *tasks: SinkTask) -> None:
        end = self.clock.now() + duration
        while self.clock.now() < end:
            self.step(*tasks)

    def run_until(self, is_true: Callable[[], bool], *tasks: SinkTask) -> None:
        """Fails after ten minutes of the house."""
        end = self.clock.now() + timedelta(minutes=10)
        while not is_true():
            assert self.clock.now() < end, "nothing came of it in ten minutes"
            self.step(*tasks)

    def run_cycles(self, count: int, *tasks: SinkTask) -> None:
        wanted = len(self.memory.commits) + count
        self.run_until(lambda: len(self.memory.commits) >= wanted, *tasks)

    def kill(self, task: SinkTask) -> None:
        """Its session at the broker ends; the object may be stepped on, as a process that slept."""
        for port in self._logs[task.name].opened:
            if isinstance(port, MemoryMember):
                self.cluster.remove_member(NAME, port.stamp().member_id)

    def sent(self) -> dict[SourcePartition, set[int]]:
        """Offsets of everything in the topics."""
        partitions = self.cluster.partitions(*self.sink.topics)
        return {
            partition: {record.offset for record in self.cluster.read(partition, 0, 1_000_000)[0]}
            for partition in partitions
        }

    def mistakes(self, target: SinkTarget = ORDERS) -> str:
        """Records that are not exactly once in the table; empty: none."""
        return exactly_once(self.tables.counts(target), self.sent())

    def control(self) -> Iterable[object]:
        """Messages of the control topic, committed ones."""
        return [envelope.message for envelope in self.cluster.records(NAME)]  # type: ignore[union-attr]  # a control topic has envelopes alone
