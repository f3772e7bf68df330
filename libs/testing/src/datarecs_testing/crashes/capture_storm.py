"""A capture of many groups while workers, finaliser and database are killed at random.

The course follows from a seed, as far as times of processes allow. The ledger comes from
`capture_ledger`.
"""

import random
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic
from typing import LiteralString

import psutil  # type: ignore[import-untyped]  # publishes no types
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_core.captures.items import CaptureJobId
from datarecs_core.crashing import CrashPoint
from datarecs_testing.capture_process import House
from datarecs_testing.crashes import killing
from datarecs_testing.crashes.capture_launcher import GROUP_FILES, PROCESS
from datarecs_testing.crashes.capture_ledger import CaptureLedger, balanced, published
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.stack import MortalServer

LAUNCHER = "datarecs_testing.crashes.capture_launcher"
WORKERS = ("worker 1", "worker 2")
FINALISER, TEMPLATE, CHILD, DATABASE = "finaliser", "template", "child", "database"
WEIGHTS = {"worker 1": 2, "worker 2": 2, FINALISER: 2, TEMPLATE: 1, CHILD: 3, DATABASE: 2}
"""Relative frequency of kills from outside."""
BETWEEN_KILLS_S = (1.0, 4.0)
DOWN_S = (0.0, 3.0)
"""Time before a killed database is started again."""
PLACES = tuple(point for point in CrashPoint if point.startswith("capture."))
TARGETS = 3
"""Figures of a snapshot: the table and its two columns."""
MOST_HITS = 12
"""Passes of a place by a worker until it is killed there."""
_OF_FINALISER = "SNAPSHOT_FINALIZE"
_OTHERS = ("PLANNER", "DEFAULT", "SNAPSHOT_PLANNER", "FILE_GROUP")
_LEASES_END: LiteralString = """
UPDATE datarecs.capture_work SET lease_until = now() - interval '1 h'
WHERE lease_until IS NOT NULL AND split_part(executor, '/', 2) = %s
"""
_DUE: LiteralString = """
UPDATE datarecs.capture_work SET due_at = now() WHERE state = 'QUEUED' AND due_at > now()
"""
_STATE: LiteralString = "SELECT state FROM datarecs.capture_work WHERE id = %s"
_DONE: LiteralString = """
SELECT count(*) FROM datarecs.capture_work WHERE kind = 'EXEC_FILE_GROUP' AND state = 'SUCCEEDED'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StormPlan:
    tables: int
    groups_by_table: int
    seed: int
    limit_s: float
    """The storm fails if the capture has not ended by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StormReport:
    plan: StormPlan
    ledger: CaptureLedger
    kills: Counter[str]
    halves: int
    """Moments in which a reader saw a published snapshot without all of its files."""
    moments: int
    """How often it was read while processes were killed."""
    seconds: float

    @property
    def is_clean(self) -> bool:
        return not self.ledger.faults and self.halves == 0


@dataclass(slots=True, kw_only=True)
class _Running:
    """A worker of the storm: its settings, its orders, and its present process."""

    name: str
    folder: Path
    settings: dict[str, str]
    orders: killing.Orders
    service: ServiceProcess | None = None
    starts: int = 0
    token: str = ""
    point: str = ""
    """Where the order kills."""


@dataclass(slots=True)
class CaptureStorm:
    """One storm over its own database."""

    folder: Path
    database: PreparedDatabase
    server: MortalServer
    plan: StormPlan
    report_progress: Callable[[str], None]
    kills: Counter[str] = field(default_factory=Counter)
    _chance: random.Random = field(init=False)
    _workers: dict[str, _Running] = field(default_factory=dict)
    _processes: ExitStack = field(default_factory=ExitStack)
    _halves: int = 0
    _moments: int = 0
    _up_at: float | None = None
    """When the killed database is started again."""

    def __post_init__(self) -> None:
        self._chance = random.Random(self.plan.seed)  # noqa: S311  the course can be repeated

    def run(self) -> StormReport:
        """Fill the source, capture it under kills, and count."""
        house = House(self.database, self.folder)
        rows = self._fill(house.files)
        for name in (*WORKERS, FINALISER):
            self._workers[name] = self._prepared(name, house)
        root = house.enqueue(house.connection())
        began = monotonic()
        with self._processes:
            self._rage(root, began)
            seconds = monotonic() - began
        blobs = self.folder / "blobs"
        return StormReport(
            plan=self.plan,
            ledger=balanced(self.database, blobs, rows, tables=self.plan.tables),
            kills=self.kills,
            halves=self._halves,
            moments=self._moments,
            seconds=seconds,
        )

    def _fill(self, folder: Path) -> dict[str, int]:
        """Rows of each file that was written."""
        rows = {}
        for table in range(self.plan.tables):
            (folder / f"t{table:03}").mkdir()
            for number in range(self.plan.groups_by_table * GROUP_FILES):
                path = f"t{table:03}/{number:04}.parquet"
                rows[path] = 1 + self._chance.randrange(20)
                pq.write_table(
                    pa.table({"id": list(range(rows[path])), "name": [path] * rows[path]}),
                    folder / path,
                )
        return rows

    def _prepared(self, name: str, house: House) -> _Running:
        folder = self.folder / name.replace(" ", "-")
        (folder / killing.FOLDER).mkdir(parents=True)
        disabled = _OTHERS if name == FINALISER else (_OF_FINALISER,)
        settings = house.settings | {
            f"DATARECS_EXECUTOR__{kind}__ENABLED": "false" for kind in disabled
        }
        settings |= {
            "DATARECS_WORKER__SCRATCH_DIR": str(folder / "scratch"),
            "DATARECS_WORKER__MAX_PARALLELISM": "1" if name == FINALISER else "3",
        }
        orders = killing.Orders(folder / killing.FOLDER)
        return _Running(name=name, folder=folder, settings=settings, orders=orders)

    def _rage(self, root: CaptureJobId, began: float) -> None:
        next_kill, next_report = began + 3, began + 10
        while True:
            now = monotonic()
            if self._is_up(now):
                with suppress(psycopg.OperationalError):
                    self._tend()
                    if self._has_ended(root):
                        return
                    self._read()
            if now >= next_kill:
                self._kill()
                next_kill = monotonic() + self._chance.uniform(*BETWEEN_KILLS_S)
            if now >= next_report and self._up_at is None:
                ((groups,),) = self.database.query(_DONE)
                self.report_progress(f"{groups} groups, {self.kills.total()} kills")
                next_report = now + 10
            if now > began + self.plan.limit_s:
                raise TimeoutError(f"no end after {self.plan.limit_s:.0f} s; {dict(self.kills)}")
            Event().wait(0.1)

    def _is_up(self, now: float) -> bool:
        if self._up_at is not None and now >= self._up_at:
            self.server.restart()
            self._up_at = None
        return self._up_at is None

    def _tend(self) -> None:
        """Start what has died, after the leases of the dead have ended as time does it."""
        for worker in self._workers.values():
            service = worker.service
            if service is not None and service.process.poll() is None:
                continue
            if service is not None:
                self.database.query(_LEASES_END, (str(service.process.pid),))
                self._check_end(worker, service)
            worker.starts += 1
            self._order(worker)
            worker.service = self._processes.enter_context(
                running_service(
                    LAUNCHER,
                    worker.settings,
                    log=self.folder / f"{worker.folder.name}.log",
                    folder=worker.folder,
                )
            )
        self.database.query(_DUE)

    def _check_end(self, worker: _Running, service: ServiceProcess) -> None:
        code = service.process.returncode
        if worker.token and worker.orders.obeyed(worker.token):
            kind = FINALISER if worker.name == FINALISER else "worker"
            self.kills[f"{kind} at {worker.point}"] += 1
        elif code != -signal.SIGKILL:
            raise AssertionError(f"{worker.name} ended with {code}: {service.text()[-3000:]}")
        worker.token = ""

    def _order(self, worker: _Running) -> None:
        """Every second process is killed at a place of its code."""
        worker.orders.withdraw(PROCESS)  # the last process was killed before it got there
        if worker.starts % 2 == 0:
            return
        point = self._chance.choice(PLACES)
        hit = 1 if worker.name == FINALISER else 1 + self._chance.randrange(MOST_HITS)
        worker.token, worker.point = worker.orders.place(PROCESS, point, hit=hit), point

    def _has_ended(self, root: CaptureJobId) -> bool:
        ((state,),) = self.database.query(_STATE, (root,))
        return state in {"SUCCEEDED", "FAILED", "CANCELLED"}

    def _read(self) -> None:
        files = self.plan.groups_by_table * GROUP_FILES
        self._moments += 1
        for one in published(self.database):
            if (one.files, one.targets) != (files, TARGETS):
                self._halves += 1
                self.report_progress(f"half published: {one}")

    def _kill(self) -> None:
        (victim,) = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
        if victim == DATABASE:
            if self._up_at is not None:
                return
            self.server.kill()
            self._up_at = monotonic() + self._chance.uniform(*DOWN_S)
        elif victim in {TEMPLATE, CHILD}:
            if not self._kill_below(victim):
                return
        elif not self._kill_worker(self._workers[victim]):
            return
        self.kills["worker" if victim in WORKERS else victim] += 1

    def _kill_worker(self, worker: _Running) -> bool:
        service = worker.service
        if service is None or service.process.poll() is not None:
            return False
        service.kill()
        return True

    def _kill_below(self, victim: str) -> bool:
        """A template, or the newest child of one."""
        worker = self._workers[self._chance.choice(WORKERS)]
        if worker.service is None:
            return False
        with suppress(psutil.Error):
            for template in psutil.Process(worker.service.process.pid).children():
                processes = [template] if victim == TEMPLATE else template.children()
                for process in processes[-1:]:
                    process.kill()
                    return True
        return False


def shown(report: StormReport) -> str:
    """The ledger as a table."""
    rows = {
        **report.ledger.counts,
        "moments in which readers looked": report.moments,
        "snapshots seen half published": report.halves,
        **{f"kills: {name}": count for name, count in sorted(report.kills.items())},
        "kills in all": report.kills.total(),
    }
    lines = [f"{name:<45}{count:>8,}" for name, count in rows.items()]
    state = "clean" if report.is_clean else "NOT CLEAN"
    head = f"seed {report.plan.seed}, {report.seconds:.0f} s: the ledger is {state}"
    return "\n".join([head, *lines, *(f"fault: {fault}" for fault in report.ledger.faults)]) + "\n"


def write_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
