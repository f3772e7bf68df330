"""A sink while its processes, its catalog, the database and the broker are killed at random.

Records are sent all the time. The ledger is counted on the table by pyiceberg and DuckDB, never by
the sink. The course follows from a seed, as far as times of processes allow.
"""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic

import psutil  # type: ignore[import-untyped]  # publishes no types
from kafka.errors import KafkaError
from sqlalchemy.exc import SQLAlchemyError

from datarecs_core.errors.base import DatarecsError
from datarecs_core.values import ResourceUid
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.sink_process import MODULE, SinkHouse
from datarecs_testing.stack import MortalServer

SERVICES = ("service 1", "service 2")
TASK, DATABASE, CATALOG, BROKER = "task", "database", "catalog", "broker"
WEIGHTS = {TASK: 6, "service 1": 2, "service 2": 2, DATABASE: 1, CATALOG: 1}
"""Relative frequency of kills; a task is worker, and one of them also coordinator."""
BROKER_WEIGHT = 1
AFTER_PROGRESS_S = (0.0, 2.5)
"""From the first snapshot after a kill to the next kill: the sink is at work then."""
DOUBLE_FAULT_S = (0.2, 5.0)
DOUBLE_FAULTS = 0.25
"""Part of the kills that do not wait for a snapshot after the kill before."""
PATIENCE_S = 180.0
"""Without a snapshot for so long the storm fails."""
DOWN_S = (0.0, 3.0)
"""Time before a killed server is started again."""
BATCH = 50
"""Records that are sent at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StormPlan:
    kills: int
    records: int
    seed: int
    tasks: int = 2
    partitions: int = 4
    with_broker: bool = False
    settle_s: float = 240
    """Time after the last kill until every record must be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StormReport:
    plan: StormPlan
    kills: Counter[str]
    rows: int
    distinct: int
    added: int
    """Sum of `added-records` of the snapshots."""
    snapshots: int
    orphans: int
    """Data files in the folder of the table that no snapshot has."""
    recoveries: tuple[float, ...]
    """Seconds from each kill to the next snapshot."""
    seconds: float

    @property
    def lost(self) -> int:
        return self.plan.records - self.distinct

    @property
    def doubled(self) -> int:
        return self.rows - self.distinct

    @property
    def is_clean(self) -> bool:
        return (self.rows, self.distinct, self.added) == (self.plan.records,) * 3


@dataclass(slots=True)
class SinkStorm:
    """One storm over its own servers."""

    house: SinkHouse
    uid: ResourceUid
    servers: dict[str, MortalServer]
    """`database`, `catalog`, and `broker` if it is to be killed."""
    plan: StormPlan
    report_progress: Callable[[str], None]
    kills: Counter[str] = field(default_factory=Counter)
    _chance: random.Random = field(init=False)
    _services: dict[str, ServiceProcess] = field(default_factory=dict)
    _processes: ExitStack = field(default_factory=ExitStack)
    _up_at: dict[str, float] = field(default_factory=dict)
    """When a killed server is started again."""
    _sent: int = 0
    _waiting: list[float] = field(default_factory=list)
    """Times of kills after which no snapshot came yet."""
    _recoveries: list[float] = field(default_factory=list)
    _snapshots: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.plan.seed)  # noqa: S311  the course can be repeated

    def run(self) -> StormReport:
        """Send, kill, wait until everything is there or the time is up, and count."""
        began = monotonic()
        with self._processes:
            self._rage(began)
            self._settle()
        return self._counted(monotonic() - began)

    def _rage(self, began: float) -> None:
        next_kill: float | None = None
        next_report, progress = began + 30, began
        while self.kills.total() < self.plan.kills:
            self._tend()
            share = self.plan.records * (self.kills.total() + 1) // self.plan.kills
            self._send(min(share, self._sent + BATCH))
            now = monotonic()
            if self._watch():
                progress = now
                if next_kill is None:
                    next_kill = now + self._chance.uniform(*AFTER_PROGRESS_S)
            if now - progress > PATIENCE_S:
                raise TimeoutError(self._standstill())
            if next_kill is not None and now >= next_kill:
                self._kill(now)
                is_double = self._chance.random() < DOUBLE_FAULTS
                next_kill = now + self._chance.uniform(*DOUBLE_FAULT_S) if is_double else None
            if now >= next_report:
                self.report_progress(f"{self.kills.total()} kills, {self._snapshots} snapshots")
                next_report = now + 30
            Event().wait(0.2)

    def _standstill(self) -> str:
        """What could be the cause."""
        ended = [name for name, one in self.servers.items() if not one.is_running()]
        tasks: object = "unknown"
        with suppress(SQLAlchemyError, DatarecsError):
            tasks = self.house.status(self.uid).tasks
        return (
            f"no snapshot for {PATIENCE_S:.0f} s; kills: {dict(self.kills)}; servers that have"
            f" ended: {ended}; records sent: {self._sent:,}; tasks: {tasks}"
        )

    def _settle(self) -> None:
        ends = monotonic() + self.plan.settle_s
        while monotonic() < ends:
            self._tend()
            self._send(self.plan.records)
            self._watch()
            with suppress(SQLAlchemyError):
                if self._sent >= self.plan.records and self._rows() >= self.plan.records:
                    break
            Event().wait(0.5)
        # Whatever could still come twice comes within two more cycles.
        for _ in range(20):
            self._tend()
            Event().wait(0.2)

    def _rows(self) -> int:
        return self.house.rows()[0]

    def _tend(self) -> None:
        """Start again what has died."""
        now = monotonic()
        for name, moment in list(self._up_at.items()):
            if now >= moment:
                self.servers[name].restart()
                del self._up_at[name]
        for name in SERVICES:
            service = self._services.get(name)
            if service is None or service.process.poll() is not None:
                self._services[name] = self._processes.enter_context(
                    running_service(
                        MODULE,
                        self.house.settings,
                        log=self.house.folder / f"{name.replace(' ', '-')}.log",
                        folder=self.house.folder,
                    )
                )

    def _send(self, until: int) -> None:
        """Up to this many records in all; a refused batch is sent again later.

        The producer is idempotent and waits for every record, so none is in the topic twice.
        """
        if BROKER in self._up_at:
            return
        last = min(until, self.plan.records)
        while self._sent < last:
            batch = range(self._sent, min(self._sent + BATCH, last))
            try:
                self.house.send(batch)
            except KafkaError as cause:
                raise AssertionError(f"the test's own records were refused: {cause}") from cause
            self._sent = batch.stop

    def _watch(self) -> bool:
        """Note how long it takes from a kill to the next snapshot; whether there is a new one."""
        if CATALOG in self._up_at:
            return False
        with suppress(SQLAlchemyError):
            table = self.house.table()
            count = 0 if table is None else len(table.metadata.snapshots)
            if count > self._snapshots:
                now = monotonic()
                self._recoveries += [now - moment for moment in self._waiting]
                self._waiting.clear()
                self._snapshots = count
                return True
        return False

    def _kill(self, now: float) -> None:
        weights = {**WEIGHTS, **({BROKER: BROKER_WEIGHT} if self.plan.with_broker else {})}
        (victim,) = self._chance.choices(list(weights), list(weights.values()))
        if victim in self.servers:
            if victim in self._up_at:
                return
            self.servers[victim].kill()
            self._up_at[victim] = now + self._chance.uniform(*DOWN_S)
        elif victim == TASK:
            if not self._kill_task():
                return
        else:
            self._services[victim].kill()
        self.kills["service" if victim in SERVICES else victim] += 1
        self._waiting.append(now)

    def _kill_task(self) -> bool:
        """One process below a service that has no child: a task, not the template of tasks."""
        tasks: list[psutil.Process] = []
        for service in self._services.values():
            with suppress(psutil.Error):
                below = psutil.Process(service.process.pid).children(recursive=True)
                tasks += [one for one in below if not one.children() and one.parent() is not None]
        if not tasks:
            return False
        with suppress(psutil.Error):
            self._chance.choice(sorted(tasks, key=lambda one: one.pid)).kill()
            return True
        return False

    def _counted(self, seconds: float) -> StormReport:
        rows, distinct = self.house.rows()
        table = self.house.table()
        if table is None:
            raise AssertionError("the table was never created")
        summaries = [one.summary for one in table.metadata.snapshots if one.summary is not None]
        used = {task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()}
        folder = Path(table.location().removeprefix("file://"))
        return StormReport(
            plan=self.plan,
            kills=self.kills,
            rows=rows,
            distinct=distinct,
            added=sum(int(one.get("added-records") or 0) for one in summaries),
            snapshots=len(summaries),
            orphans=sum(str(path) not in used for path in folder.rglob("*.parquet")),
            recoveries=tuple(sorted(self._recoveries)),
            seconds=seconds,
        )


def shown(report: StormReport) -> str:
    """The ledger as a table."""
    recoveries = report.recoveries
    middle = recoveries[len(recoveries) // 2] if recoveries else 0.0
    rows = {
        "records sent": report.plan.records,
        "rows in the table": report.rows,
        "distinct ids": report.distinct,
        "lost": report.lost,
        "doubled": report.doubled,
        "sum of added-records of snapshots": report.added,
        "snapshots": report.snapshots,
        "files that no snapshot has": report.orphans,
        **{f"kills: {name}": count for name, count in sorted(report.kills.items())},
        "kills in all": report.kills.total(),
    }
    state = "clean" if report.is_clean else "NOT CLEAN"
    head = f"seed {report.plan.seed}, {report.seconds:.0f} s: the ledger is {state}"
    longest = max(recoveries, default=0.0)
    tail = f"from a kill to the next snapshot: p50 {middle:.1f} s, longest {longest:.1f} s"
    return "\n".join([head, *(f"{name:<40}{count:>9,}" for name, count in rows.items()), tail, ""])
