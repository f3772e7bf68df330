"""Figures of the live feed on a real database, fsync on: from a commit to the client's read.

core-api and the clients are separate processes; writers are here. Of each event the moment at
which its COMMIT returned is saved, and each client notes when it has read it, by the machine's one
monotonic clock.
"""

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from time import monotonic

import structlog

from datarecs_core.values import RunId
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.roles import API, CONTROLLER
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_testing.api_process import Running, a_key, running_api
from datarecs_testing.builders import A_TENANT, a_run
from datarecs_testing.conformance.runs import a_fact
from datarecs_testing.conformance.stores import triggered
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.figures import (
    Figure,
    machine,
    page,
    quantile,
    replace_part,
)
from datarecs_testing.live_clients import Client, followers
from datarecs_testing.load import paced
from datarecs_testing.measured_servers import commits_per_second, servers

WRITES_PER_S, WRITERS = 100, 8
PER_RUN, TENANT_WIDE, PER_PRINCIPAL = 90, 10, 20
SETTLE = timedelta(seconds=3)
"""After the last write, for what is still on its way; what comes later counts as lost."""
MS = 1000


Round = tuple[dict[str, list[float]], float]
"""Milliseconds from commit to client, of clients of one run and of the tenant; milliseconds of
core-api's processor time for one event."""


def clients_of(database: PreparedDatabase, runs: Sequence[RunId]) -> list[Client]:
    """90 on a run each, 10 on the tenant, no more than 20 of a principal."""
    paths = [f"/api/v1/runs/{run_id}/events?after=1" for run_id in runs]
    paths += ["/api/v1/events/stream"] * TENANT_WIDE
    keys = [a_key(database, f"u-{number}") for number in range(-(-len(paths) // PER_PRINCIPAL))]
    return [Client(key=keys[number % len(keys)], path=path) for number, path in enumerate(paths)]


def new_runs(database: PreparedDatabase) -> list[RunId]:
    """Runs without a worker."""
    with closing(Database(database.url(API))) as api:
        unit, runs = PostgresUnitOfWork(api, UuidV7Ids()), [a_run() for _ in range(PER_RUN)]
        for run in runs:
            with unit.begin(A_TENANT, feed=1) as tx:
                tx.runs.add(run)
                tx.outbox.append(triggered(run))
    return [run.run_id for run in runs]


def written(database: PreparedDatabase, runs: Sequence[RunId], seconds: int) -> Mapping[str, float]:
    """100 events a second over all runs: when each was committed, by its id."""
    limits = Limits(pool_size=WRITERS)
    committed: dict[str, float] = {}
    pending: list[Future[None]] = []
    with (
        closing(Database(database.url(CONTROLLER), limits=limits)) as login,
        ThreadPoolExecutor(WRITERS) as pool,
    ):
        unit, ids = PostgresUnitOfWork(login, UuidV7Ids()), UuidV7Ids()

        def write(number: int) -> None:
            fact = a_fact(event_id=ids.new())
            with unit.begin(A_TENANT, feed=1) as tx:
                tx.runs.record(runs[number % len(runs)], fact)
            committed[str(fact.event_id)] = monotonic()

        paced(
            lambda number: pending.append(pool.submit(write, number)),
            per_second=WRITES_PER_S,
            count=seconds * WRITES_PER_S,
        )
        for one in pending:
            one.result()
    return committed


def cpu_s(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def one_round(database: PreparedDatabase, api: Running, seconds: int) -> Round:
    """The writes, and what came of them."""
    runs = new_runs(database)
    with followers(api.port, clients_of(database, runs)) as clients:
        before = cpu_s(api.service.process.pid)
        committed = written(database, runs, seconds)
        used = cpu_s(api.service.process.pid) - before
        SystemClock().wait(SETTLE)
        receipts = clients.receipts()
    late: dict[str, list[float]] = {"run": [], "tenant": []}
    for event_id, at, wide in receipts:
        if event_id in committed:
            late["tenant" if wide else "run"].append(max(at - committed[event_id], 0.0) * MS)
    wanted = (len(committed), len(committed) * TENANT_WIDE)
    if (len(late["run"]), len(late["tenant"])) != wanted:
        raise RuntimeError(f"{wanted} were to be told, {[len(one) for one in late.values()]} were")
    return late, used / len(committed) * MS


def figures(rounds: int, seconds: int) -> tuple[list[Figure], list[tuple[str, str]]]:
    """Everything, on one database server and one core-api."""
    load_before = os.getloadavg()[0]
    samples: dict[str, list[float]] = {}
    with servers(kafka=False) as running:
        database = running.database()
        with running_api(database, running.folder) as api:
            for _ in range(rounds):
                late, used = one_round(database, api, seconds)
                samples.setdefault("cpu", []).append(used)
                every = [one for values in late.values() for one in values]
                for name, values in {**late, "all": every}.items():
                    samples.setdefault(f"{name} p50", []).append(quantile(values, 0.5))
                    samples.setdefault(f"{name} p99", []).append(quantile(values, 0.99))
        about = [
            *machine(load_before),
            ("commits of one client per second (fsync)", f"{commits_per_second(database):.0f}"),
            ("writes", f"{WRITES_PER_S}/s, one event each, over {PER_RUN} runs"),
            ("clients", f"{PER_RUN} of one run each, {TENANT_WIDE} of the tenant"),
            ("rounds", f"{rounds}, each {seconds} s"),
        ]
    return [
        Figure(name=title, unit="ms", values=tuple(samples[name]), target=target)
        for name, (title, target) in REPORTED.items()
    ], about


REPORTED: Mapping[str, tuple[str, float | None]] = {
    "run p50": ("commit → client of one run, p50", None),
    "run p99": ("commit → client of one run, p99", None),
    "tenant p50": ("commit → client of the tenant, p50", None),
    "tenant p99": ("commit → client of the tenant, p99", None),
    "all p50": ("commit → client, p50", None),
    "all p99": ("commit → client, p99", 50),
    "cpu": ("processor time of core-api for one event and all its clients", None),
}
"""Title and target, by figure."""


def main() -> int:
    """Print the figures as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10, help="of each round")
    parser.add_argument("--write", type=Path, help="a page whose part on the live feed to replace")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    results, about = figures(options.rounds, options.seconds)
    text = page("Live feed", results, about)
    sys.stdout.write(text)
    if options.write:
        replace_part(options.write, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
