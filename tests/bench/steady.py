"""Ten minutes of a steady day, on a real database and broker, fsync on: L48, which can be missed.

100 events a second, 50 runs closing a minute, 100 live streams. Run-controller, core-api and the
clients are separate processes; workers' transactions are made here. The exit code is 1 when a
target is missed.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from time import monotonic

import structlog

from datarecs_core.runs.events import RunRowsProcessed
from datarecs_core.values import RunId
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.roles import WORKER_RUN
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_testing.api_process import a_key, running_api
from datarecs_testing.builders import A_TENANT
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.figures import (
    Figure,
    machine,
    page,
    quantile,
    replace_part,
)
from datarecs_testing.live_clients import Client, followers
from datarecs_testing.load import (
    database_time,
    end_run,
    paced,
    running_runs,
    seconds_between,
    settled,
)
from datarecs_testing.measured_servers import commits_per_second, servers
from datarecs_testing.real_path import RealPath

MINUTES, EVENTS_PER_S, CLOSINGS_PER_MINUTE = 10.0, 100, 50
FOLLOWED, TENANT_WIDE, PER_PRINCIPAL, WRITERS = 90, 10, 20, 8
TARGETS = {"ack": 250.0, "finalised": 1000.0, "browser": 50.0}
SETTLE = timedelta(seconds=3)
MS = 1000


@dataclass(slots=True)
class Work:
    """What workers do to their runs, and when each of their events was committed."""

    unit: PostgresUnitOfWork
    pool: ThreadPoolExecutor
    followed: Sequence[RunId]
    closing: Sequence[RunId]
    committed: dict[str, float] = field(default_factory=dict)
    pending: list[Future[None]] = field(default_factory=list)

    def step(self, number: int) -> None:
        """One event; at the requested rate a run ends, which adds two events."""
        self.pending.append(self.pool.submit(self._report, number))
        ended = number * CLOSINGS_PER_MINUTE // (EVENTS_PER_S * 60)
        if ended > (number - 1) * CLOSINGS_PER_MINUTE // (EVENTS_PER_S * 60):
            self.pending.append(self.pool.submit(end_run, self.unit, self.closing[ended]))

    def _report(self, number: int) -> None:
        """Record progress as a supervisor does."""
        run_id = self.followed[number % len(self.followed)]
        with self.unit.begin(A_TENANT, feed=1) as tx:
            run = tx.runs.for_update(run_id)
            if run is None or not tx.leases.is_current(run_id, run.attempt):
                raise LookupError(f"run {run_id} is not under a lease")
            tx.runs.save(replace(run, last_progress_at=tx.now))
            progress = RunRowsProcessed(
                run_id=run_id,
                job_id=run.job_id,
                tenant_id=run.tenant_id,
                attempt=run.attempt,
                stage_name="steady",
                row_count=number,
                mismatch_count=0,
            )
            (event_id,) = tx.outbox.append(progress, traceparent=run.traceparent)
        self.committed[str(event_id)] = monotonic()


def clients_of(database: PreparedDatabase, runs: Sequence[RunId]) -> list[Client]:
    paths = [f"/api/v1/runs/{run_id}/events" for run_id in runs]
    paths += ["/api/v1/events/stream"] * TENANT_WIDE
    keys = [a_key(database, f"u-{number}") for number in range(-(-len(paths) // PER_PRINCIPAL))]
    return [Client(key=keys[number % len(keys)], path=path) for number, path in enumerate(paths)]


def measured(database: PreparedDatabase, port: int, minutes: float) -> dict[str, list[float]]:
    """Milliseconds of all reported events."""
    closings, begun = int(minutes * CLOSINGS_PER_MINUTE) + 1, database_time(database)
    followed, closing = running_runs(database, FOLLOWED), running_runs(database, closings + 1)
    login = Database(database.url(WORKER_RUN), limits=Limits(pool_size=WRITERS))
    unit = PostgresUnitOfWork(login, UuidV7Ids())
    end_run(unit, closing[closings])  # the controller has joined its group when this one is closed
    settled(database, "run.finalised", since=begun, count=1)
    since = database_time(database)
    with (
        followers(port, clients_of(database, followed)) as clients,
        ThreadPoolExecutor(WRITERS) as pool,
    ):
        work = Work(unit, pool, followed, closing)
        count = int(minutes * 60 * EVENTS_PER_S)
        paced(work.step, per_second=EVENTS_PER_S, count=count)
        for one in work.pending:
            one.result()
        SystemClock().wait(SETTLE)
        receipts = clients.receipts()
    login.close()
    browser = [
        max(at - work.committed[event_id], 0.0) * MS
        for event_id, at, _ in receipts
        if event_id in work.committed
    ]
    if len(browser) != count * (TENANT_WIDE + 1):
        raise RuntimeError(f"{count} events were told {len(browser)} times")
    ended = len(work.pending) - count
    settled(database, "run.finalised", since=since, count=ended)
    acks = database.query(
        "SELECT extract(epoch FROM sent_at - created_at)::float8 FROM datarecs.outbox"
        " WHERE created_at >= %s AND sent_at IS NOT NULL",
        (since,),
    )
    closed = seconds_between(database, "run.completed", "run.finalised", since=since, acked=True)
    return {
        "ack": [row[0] * MS for row in acks],
        "finalised": [one * MS for one in closed],
        "browser": browser,
    }


def figures(minutes: float) -> tuple[list[Figure], list[tuple[str, str]]]:
    """The 99th percentile of each, against its target."""
    load_before = os.getloadavg()[0]
    with servers(kafka=True) as running, ExitStack() as held:
        if running.broker is None:
            raise RuntimeError("no broker was asked for")
        database = running.database()
        database.query("UPDATE datarecs.tenant SET running_limit = 100000")
        path = RealPath(
            database=database,
            broker=running.broker,
            principals=running.broker.apply_catalogue(),
            folder=running.folder,
            open_things=held,
        )
        held.callback(path.stop.set)
        path.controller()
        api = held.enter_context(running_api(database, running.folder))
        samples = measured(database, api.port, minutes)
        path.stop.set()
        about = [
            *machine(load_before),
            ("commits of one client per second (fsync)", f"{commits_per_second(database):.0f}"),
            ("load", f"{EVENTS_PER_S} events/s and {CLOSINGS_PER_MINUTE} closings/min"),
            ("clients", f"{FOLLOWED} of one run each, {TENANT_WIDE} of the tenant"),
            ("length", f"{minutes:g} minutes"),
        ]
    titles = {
        "ack": "commit → ack, p99",
        "finalised": "run.completed acked → run.finalised acked, p99",
        "browser": "commit → client of a live stream, p99",
    }
    return [
        Figure(name=title, unit="ms", values=(quantile(samples[name], 0.99),), target=TARGETS[name])
        for name, title in titles.items()
    ], about


def main() -> int:
    """Print the figures as Markdown; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--write", type=Path, help="a page whose part on the steady day to replace")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    results, about = figures(options.minutes)
    text = page("A steady day (L48)", results, about)
    sys.stdout.write(text)
    if options.write:
        replace_part(options.write, text)
    return int(not all(one.met for one in results))


if __name__ == "__main__":
    raise SystemExit(main())
