"""What one side did: processes while it runs, then its snapshots and its control topic.

A module of its own, because both sides are measured from outside by the same code: the consumer
group says when reading began, the table when it ended, and messages of both have the same bytes.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from time import monotonic
from typing import NamedTuple, Self
from uuid import UUID

import psutil  # type: ignore[import-untyped]  # publishes no types
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from datarecs_core.sink.control import CommitToTable, StartCommit
from datarecs_kafka.access import connecting
from datarecs_kafka.control_codec import decode_event
from datarecs_testing.figures import quantile
from datarecs_testing.stack import KafkaBroker
from tests.bench.memory import tree_bytes
from tests.bench.sink_load import TASKS, Load

SAMPLE_S, POLL_S = 0.2, 0.5
SAMPLES_PER_SUM = 5
"""Summing the pages of all processes costs milliseconds."""
FEWEST_SAMPLES = 10
"""Of a worker; a process between fork and exec looks like its parent for a moment."""
START_LIMIT_S, PATIENCE_S = 120.0, 900.0
ANNOUNCED_WITHIN_S = 10.0
MIB = 2**20


class SideFailedError(Exception):
    """One side has ended or made no progress; the message says which and where its log is."""


@dataclass(slots=True)
class ProcessSample:
    """Of one process: its last processor seconds, its largest resident memory, how many samples."""

    name: str
    cpu_s: float = 0.0
    peak_bytes: int = 0
    count: int = 0


@dataclass(slots=True)
class Processes:
    """Samples of all processes of a side; a process that ends counts with its last sample."""

    roots: Callable[[], Sequence[int]]
    samples: dict[tuple[int, float], ProcessSample] = field(default_factory=dict)
    """By pid and start."""
    peak_together: int = 0
    """Bytes of all of them at one moment; shared pages count once."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def cpu_s(self) -> float:
        """Processor seconds of all of them until now."""
        self.sample()
        return sum(one.cpu_s for one in self.samples.values())

    def sample(self) -> None:
        for root in self.roots():
            try:
                process = psutil.Process(root)
                for one in (process, *process.children(recursive=True)):
                    self._sample_one(one)
            except psutil.Error:
                continue

    def _sample_one(self, process: psutil.Process) -> None:
        try:
            with process.oneshot():
                identity = (process.pid, process.create_time())
                times, memory = process.cpu_times(), process.memory_info().rss
                name = " ".join(process.cmdline())
        except psutil.Error:
            return
        sample = self.samples.setdefault(identity, ProcessSample(name=name))
        sample.cpu_s = times.user + times.system
        sample.peak_bytes = max(sample.peak_bytes, memory)
        sample.count += 1

    def _run(self) -> None:
        for number in count():
            if self._stop.wait(SAMPLE_S):
                return
            self.sample()
            if number % SAMPLES_PER_SUM == 0:
                together = sum(tree_bytes(root) for root in self.roots())
                self.peak_together = max(self.peak_together, together)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One sink at work on its table."""

    name: str
    group: str
    control_topic: str
    roots: Callable[[], Sequence[int]]
    """Process ids; processes below them count too."""
    failure: Callable[[], str | None]
    """Why it cannot go on; None while it runs."""
    is_worker: Callable[[str], bool]
    """By the command line of a process: whether it reads and writes records."""


class Span(NamedTuple):
    """From the first poll to the snapshot that completes the count, in seconds of the epoch."""

    began: float
    ended: float
    cpu_s: float
    broker_cpu_s: float


def observe(side: Side, load: Load, table: Table) -> Mapping[str, object]:
    """Wait until the table has every record; the figures of this side.

    Raises:
        SideFailedError: it ended, or the table does not grow to the count in time.
    """
    broker = Processes(roots=lambda: _broker_pids(load.broker))
    with Processes(roots=side.roots) as processes:
        began = _first_poll(side, load.broker)
        cpu_before, broker_before = processes.cpu_s(), broker.cpu_s()
        ended = _completed(side, load, table)
        span = Span(
            began=began,
            ended=ended,
            cpu_s=processes.cpu_s() - cpu_before,
            broker_cpu_s=broker.cpu_s() - broker_before,
        )
    commits = _control_commits(side, load, snapshots=len(table.snapshots()))
    return (
        figures(side, load, table, span, processes)
        | _commit_figures(commits)
        | {"reading": _reading(table, commits, span)}
    )


def _broker_pids(broker: KafkaBroker) -> list[int]:
    pid = getattr(broker.jvm, "pid", None)
    return [] if pid is None else [pid]


def _first_poll(side: Side, broker: KafkaBroker) -> float:
    """When every task has its partitions; the first poll follows at once."""
    access, deadline = broker.access, monotonic() + START_LIMIT_S
    pause, members = threading.Event(), []
    with connecting(access), KafkaAdminClient(**access.settings()) as admin:
        while monotonic() < deadline:
            group = admin.describe_groups([side.group])[side.group]
            members = group.get("members", [])
            state = group.get("group_state", group.get("state", ""))
            if state == "Stable" and len(members) >= TASKS:
                return datetime.now(UTC).timestamp()  # noqa: TID251 - a clock of a script
            _raise_failure(side)
            pause.wait(POLL_S / 5)
    raise SideFailedError(f"{side.name}: {len(members)} of {TASKS} tasks joined {side.group}")


def _completed(side: Side, load: Load, table: Table) -> float:
    """When the snapshot was made with which the table has every record."""
    pause, deadline = threading.Event(), monotonic() + PATIENCE_S
    while monotonic() < deadline:
        table.refresh()
        snapshot = table.current_snapshot()
        if snapshot is not None and _total(snapshot) >= load.records:
            return _first_complete(table, load.records)
        _raise_failure(side)
        pause.wait(POLL_S)
    rows = 0 if (last := table.current_snapshot()) is None else _total(last)
    raise SideFailedError(f"{side.name}: {rows} of {load.records} rows after {PATIENCE_S:.0f} s")


def _raise_failure(side: Side) -> None:
    reason = side.failure()
    if reason is not None:
        raise SideFailedError(f"{side.name}: {reason}")


def _first_complete(table: Table, records: int) -> float:
    ordered = sorted(table.snapshots(), key=lambda one: one.sequence_number or 0)
    return next(one.timestamp_ms for one in ordered if _total(one) >= records) / 1000


def _total(snapshot: Snapshot) -> int:
    return _summary(snapshot, "total-records")


def _summary(snapshot: Snapshot, key: str) -> int:
    summary = snapshot.summary
    return int(summary[key] or 0) if summary is not None and key in summary else 0


def figures(
    side: Side, load: Load, table: Table, span: Span, processes: Processes
) -> dict[str, object]:
    """Rates, memory and files of one side."""
    seconds = span.ended - span.began
    workers = [
        round(one.peak_bytes / MIB)
        for one in processes.samples.values()
        if side.is_worker(one.name) and one.count >= FEWEST_SAMPLES
    ]
    files = [task.file for task in table.scan().plan_files()]
    rows = table.scan(selected_fields=("id",)).to_arrow()
    return {
        "rows": rows.num_rows,
        "distinct_ids": len(rows["id"].unique()),
        "is_exact": rows.num_rows == load.records == len(rows["id"].unique()),
        "seconds": round(seconds, 2),
        "records_per_s": round(load.records / seconds),
        "cpu_s": round(span.cpu_s, 2),
        "records_per_core_s": round(load.records / span.cpu_s),
        "cpu_s_since_start": round(processes.cpu_s(), 2),
        "broker_cpu_s": round(span.broker_cpu_s, 2),
        "peak_mib_per_worker": sorted(workers, reverse=True)[:TASKS],
        "peak_mib_all": round(processes.peak_together / MIB),
        "snapshots": len(table.snapshots()),
        "files": len(files),
        "file_mib": round(sum(one.file_size_in_bytes for one in files) / MIB, 1),
    }


# --- the control topic, whose messages have one form on both sides


class Commit(NamedTuple):
    """Seconds of the epoch of one commit's messages; None: not sent."""

    started: float
    to_table: float | None


def _control_commits(side: Side, load: Load, *, snapshots: int) -> tuple[Commit, ...]:
    """After the last snapshot was announced, which follows its commit."""
    pause, deadline = threading.Event(), monotonic() + ANNOUNCED_WITHIN_S
    while True:
        commits = commits_of(_values(load.broker, side.control_topic))
        announced = sum(one.to_table is not None for one in commits)
        if announced >= snapshots or monotonic() > deadline:
            return commits
        pause.wait(POLL_S)


def commits_of(values: Iterable[bytes]) -> tuple[Commit, ...]:
    """All commits that the messages of a control topic name, in order."""
    started, to_table = dict[UUID, float](), dict[UUID, float]()
    for value in values:
        event = decode_event(value)
        at = event.time.timestamp()
        match event.message:
            case StartCommit(commit_id=commit_id):
                started[commit_id] = at
            case CommitToTable(commit_id=commit_id):
                to_table[commit_id] = at
    return tuple(Commit(at, to_table.get(one)) for one, at in started.items())


def _values(broker: KafkaBroker, topic: str) -> list[bytes]:
    settings = broker.access.settings() | {
        "isolation_level": "read_committed",
        "enable_auto_commit": False,
        "group_id": None,
    }
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(**settings)
    try:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        values: list[bytes] = []
        while consumer.position(partition) < end:
            for batch in consumer.poll(timeout_ms=500).values():
                values += [one.value for one in batch if one.value is not None]
        return values
    finally:
        consumer.close()


def _commit_figures(commits: Sequence[Commit]) -> dict[str, object]:
    took = [one.to_table - one.started for one in commits if one.to_table is not None]
    return {
        "commits": len(took),
        "commit_p50_ms": round(quantile(took, 0.5) * 1000) if took else None,
        "commit_p99_ms": round(quantile(took, 0.99) * 1000) if took else None,
    }


def _reading(table: Table, commits: Sequence[Commit], span: Span) -> Mapping[str, object]:
    """The rate without the wait for the last commit: records of all cycles that were full of work.

    A snapshot has the records that were read before its StartCommit reached the workers. The last
    snapshot is left out, because its workers may have had nothing to read for a part of it.
    """
    ordered = sorted(table.snapshots(), key=lambda one: one.sequence_number or 0)
    starts = [one.started for one in commits if one.to_table is not None]
    if len(ordered) < 2 or len(starts) < len(ordered):
        return {"cycles": 0, "records_per_s": None}
    records = sum(_summary(one, "added-records") for one in ordered[:-1])
    seconds = starts[len(ordered) - 2] - span.began
    return {"cycles": len(ordered) - 1, "records_per_s": round(records / seconds)}


def ratios(ours: Mapping[str, object], java: Mapping[str, object]) -> Mapping[str, object]:
    """Ours over the Java connector's; above 1 is better for rates, below 1 for the rest."""
    names = (
        "records_per_s",
        "records_per_core_s",
        "commit_p50_ms",
        "commit_p99_ms",
        "peak_mib_all",
        "files",
    )
    return {name: _ratio(ours[name], java[name]) for name in names}


def _ratio(one: object, other: object) -> float | None:
    if not isinstance(one, int | float) or not isinstance(other, int | float) or not other:
        return None
    return round(one / other, 3)
