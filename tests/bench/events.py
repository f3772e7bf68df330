"""Figures of the event path on a real database and broker, fsync on: commit, ack, queue, close.

The run-controller is a separate process, as in production; worker slots run here, with children
that follow a script. Times are the database's: from the row of one event to the mark that the
broker has acknowledged another, so that they end a little late rather than early.
"""

import argparse
import logging
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from time import perf_counter

import structlog

from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_core.runs.model import RunStatus
from datarecs_kafka.client import KafkaLogClient
from datarecs_kafka.relay import Relay
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.outbox_reader import PostgresOutboxReader
from datarecs_postgres.roles import RELAY, WORKER_RUN
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import Latch, SystemClock
from datarecs_testing.builders import A_TENANT
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.figures import (
    Figure,
    machine,
    page,
    quantile,
    replace_part,
)
from datarecs_testing.load import (
    database_time,
    end_run,
    fill_outbox,
    paced,
    running_runs,
    seconds_between,
    settled,
)
from datarecs_testing.measured_servers import Servers, commits_per_second, servers
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.real_path import RealPath
from datarecs_testing.stack import KafkaBroker

RELAYED, KEYS = 20_000, 2_000
EVENTS_PER_S, CLOSINGS_PER_S, RUNS_PER_S = 100, 100, 25
DEAD_WORKERS = 5
MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The running platform and how long each figure is measured."""

    path: RealPath
    database: PreparedDatabase
    seconds: int
    measured: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.measured.setdefault(name, []).append(value)


def relay_rate(running: Servers, broker: KafkaBroker) -> float:
    """Events per second from a full outbox to marked rows, one relay over all shards."""
    database = running.database()
    fill_outbox(database, RELAYED, keys=KEYS)
    login = Database(database.url(RELAY), limits=Limits(pool_size=2))
    relay = Relay(
        KafkaLogClient(broker.access),
        PostgresOutboxReader(login),
        owner="bench",
        metrics=RecordedMetrics(),
        clock=SystemClock(),
        wake=Latch(),
    )
    began = perf_counter()
    try:
        while _turned(relay):
            pass
        rate = RELAYED / (perf_counter() - began)
        left = PostgresOutboxReader(login).backlog().unsent
    finally:
        login.close()
    if left:
        raise RuntimeError(f"{left} events were not sent")
    return rate


def _turned(relay: Relay) -> bool:
    """One round; after a pause of seconds of the machine the relay takes its leases again."""
    try:
        return relay.turn()
    except LogUnavailableError:
        return True


def announcing(stage: Stage) -> None:
    """50 triggers a second are 100 events: each run is triggered and queued."""
    since, count = database_time(stage.database), stage.seconds * EVENTS_PER_S // 2
    with ThreadPoolExecutor(8) as pool:
        paced(
            lambda _: pool.submit(stage.path.trigger_one).add_done_callback(_raise),
            per_second=EVENTS_PER_S / 2,
            count=count,
        )
    settled(stage.database, "run.queued", since=since, count=count)
    acks = [
        each
        for kind in ("run.triggered", "run.queued")
        for each in seconds_between(stage.database, kind, kind, since=since, acked=False)
    ]
    queued = seconds_between(
        stage.database, "run.triggered", "run.queued", since=since, acked=False
    )
    stage.add("ack p50", quantile(acks, 0.5) * MS)
    stage.add("ack p99", quantile(acks, 0.99) * MS)
    stage.add("queued p50", quantile(queued, 0.5) * MS)
    stage.add("queued p99", quantile(queued, 0.99) * MS)


def closing(stage: Stage) -> None:
    """100 ends a second over rows that run already."""
    count = stage.seconds * CLOSINGS_PER_S
    runs = running_runs(stage.database, count)
    login = Database(stage.database.url(WORKER_RUN))
    unit = PostgresUnitOfWork(login, stage.path.ids)
    since = database_time(stage.database)
    with ThreadPoolExecutor(8) as pool:
        paced(
            lambda number: pool.submit(end_run, unit, runs[number]).add_done_callback(_raise),
            per_second=CLOSINGS_PER_S,
            count=count,
        )
    login.close()
    settled(stage.database, "run.finalised", since=since, count=count)
    closed = seconds_between(
        stage.database, "run.completed", "run.finalised", since=since, acked=True
    )
    stage.add("closed p50", quantile(closed, 0.5) * MS)
    stage.add("closed p99", quantile(closed, 0.99) * MS)


def whole_runs(stage: Stage) -> None:
    """Runs from trigger to finalised, with slots that work at once: asked for more than the goal.

    Counted from end to end, since the first one's way and the last one's are no part of a rate.
    """
    since, count = database_time(stage.database), stage.seconds * RUNS_PER_S
    with ThreadPoolExecutor(8) as pool:
        paced(
            lambda _: pool.submit(stage.path.trigger_one).add_done_callback(_raise),
            per_second=RUNS_PER_S,
            count=count,
        )
    settled(stage.database, "run.finalised", since=since, count=count)
    ((seconds,),) = stage.database.query(
        "SELECT extract(epoch FROM max(created_at) - min(created_at))::float8 FROM datarecs.outbox"
        " WHERE type LIKE '%%.run.finalised' AND created_at >= %s",
        (since,),
    )
    stage.add("runs", (count - 1) / seconds)
    took = seconds_between(
        stage.database, "run.triggered", "run.finalised", since=since, acked=False
    )
    stage.add("run p99", quantile(took, 0.99) * MS)


def _raise(done: object) -> None:
    done.result()  # type: ignore[attr-defined]  # a Future, whose failure must not stay unheard


@dataclass(frozen=True, slots=True)
class DeadWorkers:
    """Workers that take a lease and then send no heartbeat: the slowest case to detect."""

    stage: Stage
    since: datetime

    @classmethod
    def die(cls, stage: Stage) -> "DeadWorkers":
        since = database_time(stage.database)
        runs = [stage.path.trigger_one() for _ in range(DEAD_WORKERS)]
        login = Database(stage.database.url(WORKER_RUN))
        finder, clock, held = PostgresWorkFinder(login), SystemClock(), 0
        while held < len(runs):
            held += finder.lease_run(f"bench/dead/{held}") is not None
            clock.wait(timedelta(milliseconds=20))
        login.close()
        for run in runs:
            row = stage.path.queries.run(A_TENANT, run.run_id)
            if row is None or row.status is not RunStatus.RUNNING:
                raise RuntimeError("another worker was faster")
        return cls(stage, since)

    def noticed(self) -> list[float]:
        """Seconds from each lease to the record that its attempt was lost."""
        clock = SystemClock()
        deadline = clock.monotonic() + 120
        while True:
            rows = self.stage.database.query(
                "SELECT extract(epoch FROM e.time - r.started_at)::float8"
                " FROM datarecs.run_event e JOIN datarecs.run r USING (tenant_id, run_id)"
                " WHERE e.type = 'attempt_lost' AND r.created_at >= %s",
                (self.since,),
            )
            if len(rows) >= DEAD_WORKERS or clock.monotonic() > deadline:
                return [row[0] for row in rows]
            clock.wait(timedelta(milliseconds=500))


REPORTED: Mapping[str, tuple[str, str, float | None, bool]] = {
    "relay": ("relay, 20,000 events over 16 shards", "events/s", 2000, True),
    "ack p50": ("commit → ack at 100 events/s, p50", "ms", None, False),
    "ack p99": ("commit → ack at 100 events/s, p99", "ms", 250, False),
    "queued p50": ("run.triggered committed → run.queued acked, p50", "ms", None, False),
    "queued p99": ("run.triggered committed → run.queued acked, p99", "ms", None, False),
    "closed p50": ("run.completed acked → run.finalised acked, 100/s, p50", "ms", None, False),
    "closed p99": ("run.completed acked → run.finalised acked, 100/s, p99", "ms", 1000, False),
    "runs": ("whole runs with a scripted child, 25/s asked", "runs/s", 20, True),
    "run p99": ("run.triggered committed → run.finalised acked, p99", "ms", None, False),
    "dead": ("dead worker noticed", "s", 70, False),
}
"""Title, unit, target and whether more is better, by figure."""


def figures(rounds: int, seconds: int) -> tuple[list[Figure], list[tuple[str, str]]]:
    """Everything, on one database server and one broker."""
    load_before = os.getloadavg()[0]
    with servers(kafka=True) as running, ExitStack() as held:
        if running.broker is None:
            raise RuntimeError("no broker was asked for")
        passwords = running.broker.apply_catalogue()
        relayed = [relay_rate(running, running.broker) for _ in range(rounds)]
        database = running.database()
        database.query("UPDATE datarecs.tenant SET running_limit = 100000")
        path = RealPath(
            database=database,
            broker=running.broker,
            principals=passwords,
            folder=running.folder,
            open_things=held,
        )
        held.callback(path.stop.set)
        path.controller()
        stage = Stage(path=path, database=database, seconds=seconds)
        stage.measured["relay"] = relayed
        dead = DeadWorkers.die(stage)
        for _ in range(rounds):
            announcing(stage)
        for _ in range(rounds):
            closing(stage)
        stage.measured["dead"] = dead.noticed()
        database.query("DELETE FROM datarecs.run_lease")
        path.work(slots=4)
        for _ in range(rounds):
            whole_runs(stage)
        path.stop.set()
        about = [
            *machine(load_before),
            ("commits of one client per second (fsync)", f"{commits_per_second(database):.0f}"),
            ("rounds", f"{rounds}, each {seconds} s"),
        ]
    figure_list = [
        Figure(
            name=title,
            unit=unit,
            values=tuple(stage.measured[name]),
            target=target,
            more_is_better=more,
        )
        for name, (title, unit, target, more) in REPORTED.items()
        if stage.measured.get(name)
    ]
    return figure_list, about


def main() -> int:
    """Print the figures as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10, help="of each round")
    parser.add_argument("--write", type=Path, help="a page whose part on events to replace")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    results, about = figures(options.rounds, options.seconds)
    text = page("Event path", results, about)
    sys.stdout.write(text)
    if options.write:
        replace_part(options.write, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
