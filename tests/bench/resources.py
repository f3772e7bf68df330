"""Figures of resource-controller on a real database, fsync on: declarations that stay true.

Controllers are separate processes, declarations are written here as core-api writes them. A
process notes by the machine's one monotonic clock when the reconcile of an object began and when
its result was committed; the places are those of the crash tests.
"""

import argparse
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import LiteralString

import psutil  # type: ignore[import-untyped]  # publishes no types
import structlog

from datarecs_application.resources import ANY, Making, replace_resource
from datarecs_core import crashing
from datarecs_core.access.principal import Principal
from datarecs_core.crashing import CrashPoint
from datarecs_core.hashing import JsonValue
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.resource import Kind
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.roles import API, RESOURCES
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_resource_controller.__main__ import main as controller
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets
from datarecs_testing.builders import A_TENANT
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.figures import Figure, machine, page, quantile, replace_part
from datarecs_testing.load import paced
from datarecs_testing.measured_servers import Servers, commits_per_second, servers
from datarecs_testing.service_process import ServiceProcess, running_service

MODULE, SERVE = "tests.bench.resources", "--serve"
OBJECTS, SCHEDULES, JOBS, STARTS = 50_000, 10_000, 1_000, 2_000
WRITES_PER_S, WRITERS = 100, 8
MS, PATIENCE_S = 1000, 300.0
DIE_AT = "die-at"
"""A file with a place: the process ends there."""
NOTED = {CrashPoint.RECONCILE_AFTER_CLAIM: "began", CrashPoint.RECONCILE_AFTER_COMMIT: "ended"}
JOB: Mapping[str, JsonValue] = {
    "sources": [
        {"name": "a", "kind": "csv", "connection": "here1", "path": "a.csv"},
        {"name": "b", "kind": "csv", "connection": "here1", "path": "b.csv"},
    ],
    "stages": [{"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}],
}
FILES = {"type": "files", "config": {"root": "."}}
SCHEDULE = {
    "job": "job-1",
    "cron": "0 * * * *",
    "catchup": "latest",
    "concurrency_policy": "Allow",
}
_OBJECTS: LiteralString = """
INSERT INTO datarecs.resource (tenant_id, uid, kind, namespace, name, api_version, generation, rv,
                               spec, spec_hash, created_at)
SELECT %(tenant)s, gen_random_uuid(), %(kind)s, 'default', %(prefix)s || n, 'datarecs.io/v1', 1, 0,
       %(spec)s::jsonb, '', date_trunc('hour', now()) - interval '30 min'
FROM generate_series(1, %(count)s) n
"""
_WORK: LiteralString = """
INSERT INTO datarecs.resource_work (tenant_id, uid, kind, due_at)
SELECT tenant_id, uid, kind, now() FROM datarecs.resource WHERE kind = 'ReconciliationJob'
"""
_STATES: LiteralString = """
INSERT INTO datarecs.schedule_state (tenant_id, schedule_uid, due_at)
SELECT tenant_id, uid, now() + interval '1 day' FROM datarecs.resource WHERE kind = 'Schedule'
"""
_UNDECIDED: LiteralString = """
SELECT count(*) FROM datarecs.resource_work
WHERE due_at <= now() OR lease_until IS NOT NULL
"""
_FIRED: LiteralString = "SELECT count(*) FROM datarecs.schedule_tick WHERE outcome = 'FIRED'"
_NOTHING_FIRED: tuple[LiteralString, ...] = (
    "DELETE FROM datarecs.schedule_tick",
    "TRUNCATE datarecs.run CASCADE",
)


# --- the measured process


@dataclass(slots=True)
class Notes:
    """`datarecs_core.crashing.hook` of a controller: what happened to which object, and when."""

    folder: Path
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, point: CrashPoint) -> None:
        what = NOTED.get(point)
        if what is not None:
            uid = structlog.contextvars.get_contextvars().get("resource_uid", "")
            with self.lock, (self.folder / "notes").open("a", encoding="utf-8") as out:
                out.write(f"{what} {uid} {monotonic()}\n")
        order = self.folder / DIE_AT
        if order.exists() and order.read_text(encoding="utf-8") == point:
            order.unlink()
            os._exit(137)


@dataclass(slots=True)
class House:
    """One database and the controllers on it."""

    database: PreparedDatabase
    folder: Path
    _names: int = 0

    @contextmanager
    def controllers(self, count: int, *, noted: bool = True) -> Iterator[list["Controller"]]:
        with ExitStack() as held:
            yield [held.enter_context(self._controller(noted=noted)) for _ in range(count)]

    @contextmanager
    def _controller(self, *, noted: bool) -> Iterator["Controller"]:
        self._names += 1
        folder = self.folder / f"controller-{self._names}"
        folder.mkdir()
        settings = {
            "DATARECS_PROFILE": "local",
            "DATARECS_DATABASE__URL": self.database.url(RESOURCES),
            "DATARECS_BLOB__URL": (folder / "blobs").as_uri(),
            "DATARECS_LIMITS__WAITING_RUNS_PER_JOB": "1000000",
            "DATARECS_LIMITS__WAITING_RUNS_PER_TENANT": "1000000",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        with running_service(
            MODULE if noted else "datarecs_resource_controller",
            settings,
            log=folder / "log",
            arguments=(SERVE,) if noted else (),
            folder=folder,
        ) as service:
            until(lambda: folder.joinpath("log").stat().st_size > 0)
            yield Controller(service=service, folder=folder)

    def write(self, *statements: LiteralString, **values: object) -> None:
        with self.database.connect() as connection:
            for statement in statements:
                connection.execute(statement, values)

    def count(self, query: LiteralString) -> int:
        ((count,),) = self.database.query(query)
        return int(str(count))

    def add(self, kind: Kind, prefix: str, spec: Mapping[str, object], count: int) -> None:
        self.write(
            _OBJECTS,
            tenant=A_TENANT,
            kind=kind.value,
            prefix=prefix,
            spec=json.dumps(spec),
            count=count,
        )

    def jobs(self, count: int) -> None:
        self.add(Kind.CONNECTION, "here", FILES, 1)
        self.add(Kind.RECONCILIATION_JOB, "job-", JOB, count)
        self.write(_WORK, "ANALYZE datarecs.resource, datarecs.resource_work")

    def until_decided(self) -> None:
        until(lambda: not self.count(_UNDECIDED))
        SystemClock().wait(timedelta(seconds=1))  # notes follow their commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    service: ServiceProcess
    folder: Path

    def notes(self, what: str) -> dict[str, float]:
        """The newest moment of each object."""
        path = self.folder / "notes"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        words = [line.split(" ") for line in lines]
        return {uid: float(at) for one, uid, at in words if one == what}

    def die_at(self, point: CrashPoint) -> None:
        (self.folder / DIE_AT).write_text(point, encoding="utf-8")
        until(lambda: self.service.process.poll() is not None)


def until(holds: Callable[[], bool]) -> None:
    ends = monotonic() + PATIENCE_S
    while not holds():
        if monotonic() > ends:
            raise TimeoutError(f"not within {PATIENCE_S} s")
        SystemClock().wait(timedelta(milliseconds=50))


# --- what is measured


def idle_share(running: Servers, seconds: int) -> float:
    """Per cent of one core while 50,000 objects are due later."""
    house = House(running.database(), running.folder / "idle")
    house.folder.mkdir()
    house.add(Kind.SCHEDULE, "schedule-", SCHEDULE, SCHEDULES)
    house.jobs(OBJECTS - SCHEDULES)
    later: LiteralString = "UPDATE datarecs.resource_work SET due_at = now() + interval '1 day'"
    house.write(_STATES, later, "ANALYZE")
    with house.controllers(1, noted=False) as (one,):
        SystemClock().wait(timedelta(seconds=10))
        process = psutil.Process(one.service.process.pid)
        before, began = process.cpu_times(), monotonic()
        SystemClock().wait(timedelta(seconds=seconds))
        after, took = process.cpu_times(), monotonic() - began
    used = after.user + after.system - before.user - before.system
    return float(used / took * 100)


def edited(house: House, names: Sequence[str]) -> dict[str, float]:
    """Edits at 100 per second, as `apply` makes them: when each was committed, by uid."""
    actor, committed = Principal(tenant_id=A_TENANT, subject="bench"), {}
    ids, stamp = UuidV7Ids(), f"edited {monotonic()}"
    secrets = TenantSecrets(
        Secrets(), keyring=Keyring({"k1": bytes(32)}, current="k1"), environment={}
    )
    making = Making(ids=ids, secrets=secrets, random_bytes=bytes)
    login = Database(house.database.url(API), limits=Limits(pool_size=WRITERS))
    with closing(login), ThreadPoolExecutor(WRITERS) as pool:
        unit = PostgresUnitOfWork(login, ids)

        def edit(name: str) -> None:
            declared = Declared(
                kind=Kind.RECONCILIATION_JOB,
                name=name,
                spec={**JOB, "description": stamp},
                spec_hash="sha256:" + 64 * "0",
            )
            with unit.begin(A_TENANT, feed=1) as tx:
                done = replace_resource(tx, actor, declared, match=ANY, making=making)
            committed[str(done.resource.uid)] = monotonic()

        pending = []
        paced(
            lambda number: pending.append(pool.submit(edit, names[number])),
            per_second=WRITES_PER_S,
            count=len(names),
        )
        for one in pending:
            one.result()
    return committed


def waits(committed: Mapping[str, float], controllers: Sequence[Controller]) -> list[float]:
    """Seconds from each commit to the start of the newest reconcile of its object."""
    began: dict[str, float] = {}
    for one in controllers:
        for uid, at in one.notes("began").items():
            began[uid] = max(at, began.get(uid, 0.0))
    return [max(began[uid] - at, 0.0) for uid, at in committed.items()]


def to_reconcile(house: House, rounds: int, seconds: int) -> dict[str, tuple[float, ...]]:
    """Milliseconds from commit to the start of the reconcile, by quantile."""
    names = [f"job-{number + 1}" for number in range(seconds * WRITES_PER_S)]
    result: dict[str, list[float]] = {"p50": [], "p99": []}
    with house.controllers(1) as controllers:
        house.until_decided()
        for _ in range(rounds):
            committed = edited(house, names)
            house.until_decided()
            late = waits(committed, controllers)
            result["p50"].append(quantile(late, 0.5) * MS)
            result["p99"].append(quantile(late, 0.99) * MS)
    return {name: tuple(values) for name, values in result.items()}


def no_ops(house: House, rounds: int) -> tuple[float, ...]:
    """Reconciles per second of one process that find everything as it shall be."""
    rates = []
    due: LiteralString = """
        UPDATE datarecs.resource_work w SET due_at = now(), window_count = 0
        WHERE uid IN (SELECT uid FROM datarecs.resource_work LIMIT %(count)s)"""
    with house.controllers(1) as (one,):
        house.until_decided()
        for _ in range(rounds):
            began = monotonic()
            house.write(due, count=JOBS)
            house.until_decided()
            begins, ends = (
                [at for at in one.notes(what).values() if at > began] for what in ("began", "ended")
            )
            if len(ends) != JOBS:
                raise RuntimeError(f"{len(ends)} of {JOBS} objects were reconciled")
            rates.append(JOBS / (max(ends) - min(begins)))
    return tuple(rates)


def fired(house: House, rounds: int) -> tuple[float, ...]:
    """Schedules per second that two processes start when all are due at one moment."""
    rates = []
    again: LiteralString = """
        UPDATE datarecs.schedule_state SET due_at = now() + interval '2 s', last_fire_time = NULL,
            times = ''"""
    with house.controllers(2):
        for _ in range(rounds):
            house.write(*_NOTHING_FIRED, again)
            ((due,),) = house.database.query("SELECT max(due_at) FROM datarecs.schedule_state")
            until(lambda: house.count(_FIRED) >= STARTS)
            ((seconds,),) = house.database.query(
                "SELECT extract(epoch FROM max(at) - %s)::float8 FROM datarecs.schedule_tick"
                " WHERE outcome = 'FIRED'",
                (due,),
            )
            rates.append(STARTS / float(str(seconds)))
    return tuple(rates)


def longest_wait(house: House, act: Callable[[Controller], object]) -> float:
    """Seconds that an edit waits at most while one of two processes goes."""
    names = [f"job-{number + 1}" for number in range(10 * WRITES_PER_S)]
    with house.controllers(2) as controllers, ThreadPoolExecutor(1) as pool:
        house.until_decided()
        going = pool.submit(lambda: (SystemClock().wait(timedelta(seconds=3)), act(controllers[0])))
        committed = edited(house, names)
        going.result()
        house.until_decided()
        ends = {uid: at for one in controllers for uid, at in one.notes("ended").items()}
        return max(ends[uid] - at for uid, at in committed.items())


def schedule_failover(house: House) -> float:
    """Seconds from the death of a process with claimed schedules to the last of their starts."""
    soon: LiteralString = """
        UPDATE datarecs.schedule_state SET due_at = now(), last_fire_time = NULL, times = ''
        WHERE schedule_uid IN (SELECT schedule_uid FROM datarecs.schedule_state LIMIT 1000)"""
    with house.controllers(2) as (first, _):
        house.write(*_NOTHING_FIRED)
        (first.folder / DIE_AT).write_text(CrashPoint.FIRE_AFTER_CLAIM, encoding="utf-8")
        house.write(soon)
        until(lambda: first.service.process.poll() is not None)
        died = monotonic()
        until(lambda: house.count(_FIRED) >= 1000)
        return monotonic() - died


# --- the page


def figures(
    running: Servers, house: House, *, rounds: int, seconds: int, idle_s: int
) -> Iterator[Figure]:
    """One after the other; what takes longest comes last."""
    yield _figure("idle with 50,000 objects, of one core", "%", [idle_share(running, idle_s)], 1)
    house.jobs(JOBS)
    house.add(Kind.SCHEDULE, "hourly-", SCHEDULE, STARTS)
    house.write(_STATES, "ANALYZE")
    late = to_reconcile(house, rounds, seconds)
    yield _figure("commit → start of the reconcile, p50", "ms", late["p50"])
    yield _figure("commit → start of the reconcile, p99", "ms", late["p99"], 50)
    rates = no_ops(house, rounds)
    yield _figure("reconciles that change nothing, one process", "/s", rates, 1000, more=True)
    stop = [longest_wait(house, lambda one: one.service.stop()) for _ in range(rounds)]
    yield _figure("longest wait of an edit, one of two processes stops", "s", stop, 3)
    claims = schedule_failover(house)
    yield _figure("claimed schedules, their process killed", "s", [claims], 18)
    kill = longest_wait(house, lambda one: one.die_at(CrashPoint.RECONCILE_AFTER_CLAIM))
    yield _figure("objects under a lease, their process killed", "s", [kill], 18)
    starts = fired(house, rounds)
    yield _figure(
        f"starts of {STARTS:,} schedules due at once, two processes", "/s", starts, 1000, more=True
    )


def reported(rounds: int, seconds: int, idle_s: int) -> Iterator[str]:
    """The part of the page, again after each figure: one that fails costs no other."""
    load_before, result = os.getloadavg()[0], list[Figure]()
    with servers(kafka=False) as running:
        house = House(running.database(), running.folder / "busy")
        house.folder.mkdir()
        commits = commits_per_second(house.database)
        for one in figures(running, house, rounds=rounds, seconds=seconds, idle_s=idle_s):
            result.append(one)
            about = [
                *machine(load_before),
                ("commits of one client per second (fsync)", f"{commits:.0f}"),
                ("writes", f"{WRITES_PER_S}/s for {seconds} s, one edit of a job each"),
                ("rounds", f"{rounds}; the idle process {idle_s} s, both kills once"),
            ]
            yield page("Controllers and schedules", result, about)


def _figure(
    name: str,
    unit: str,
    values: Sequence[float],
    target: float | None = None,
    *,
    more: bool = False,
) -> Figure:
    return Figure(name=name, unit=unit, values=tuple(values), target=target, more_is_better=more)


def main() -> int:
    """Print the figures as Markdown; with `--serve`, be a measured controller."""
    if sys.argv[1:] == [SERVE]:
        crashing.hook = Notes(Path.cwd())
        return controller()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10, help="of each round of edits")
    parser.add_argument("--idle", type=int, default=60, help="seconds of the idle process")
    parser.add_argument("--write", type=Path, help="a page whose part on controllers to replace")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    for text in reported(options.rounds, options.seconds, options.idle):
        if options.write:
            replace_part(options.write, text)
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
