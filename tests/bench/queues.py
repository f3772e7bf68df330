"""Figures of the durable queue beside procrastinate and pgqueuer: claim an item, end it, durably.

One client each on one server with fsync on, contestants in turn within each round. All claim by
SKIP LOCKED and commit claim and end apart, as a worker must, whose work lies between. Ours alone
fences the end by the epoch of the lease, and reads under row-level security of a tenant.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import psycopg
from pgqueuer.adapters.drivers.psycopg import PsycopgDriver
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.domain.types import QueueEntrypoint, QueueManagerId
from pgqueuer.ports.repository import EntrypointExecutionParameter
from procrastinate import PsycopgConnector
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from procrastinate.schema import SchemaManager

from datarecs_application.ports.delivery import DeliveryKey
from datarecs_core.values import ResourceUid
from datarecs_core.webhooks.delivery import Ended, decide_delivery, lease
from datarecs_core.webhooks.endpoint import Retry
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome
from datarecs_postgres.database import Database
from datarecs_postgres.roles import WEBHOOK, WORKER_RUN
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.urls import conninfo
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.deliveries import a_delivery
from datarecs_testing.figures import (
    Figure,
    machine,
    page,
    replace_part,
)
from datarecs_testing.load import queue_runs
from datarecs_testing.measured_servers import commits_per_second, servers

BATCH = 50
"""Items per transaction where a batch is taken: what webhook-service leases of an endpoint."""
OK = AttemptEnd(outcome=Outcome.OK, status=200)
Contestant = Callable[[int], float]
"""Works through so many items and says how many seconds it took; seeding is not counted."""


@dataclass(kw_only=True)
class OurRuns:
    """The queue of runs, one by one: `lease_run`, then the fenced end."""

    database: PreparedDatabase
    held: ExitStack
    ids: UuidV7Ids = field(default_factory=UuidV7Ids)

    def __post_init__(self) -> None:
        worker = Database(self.database.url(WORKER_RUN))
        self.held.callback(worker.close)
        self.unit, self.finder = PostgresUnitOfWork(worker, self.ids), PostgresWorkFinder(worker)

    def __call__(self, items: int) -> float:
        queue_runs(self.database, items)
        began = perf_counter()
        for _ in range(items):
            leased = self.finder.lease_run("bench/0")
            if leased is None:
                raise RuntimeError("the queue is empty too early")
            with self.unit.begin(A_TENANT) as tx:
                if not tx.leases.end_current(leased.run_id, leased.lease_epoch):
                    raise RuntimeError("somebody else works here")
        return perf_counter() - began


@dataclass(kw_only=True)
class OurDeliveries:
    """The queue of deliveries, in batches: leased together, then ended together under epochs."""

    database: PreparedDatabase
    held: ExitStack

    def __post_init__(self) -> None:
        webhook = Database(self.database.url(WEBHOOK))
        self.held.callback(webhook.close)
        self.unit = PostgresUnitOfWork(webhook, UuidV7Ids())

    def __call__(self, items: int) -> float:
        endpoint = ResourceUid(an_id())
        self._seed(endpoint, items)
        began = perf_counter()
        for _ in range(0, items, BATCH):
            with self.unit.begin(A_TENANT) as tx:
                leased = [
                    lease(one, owner="bench", now=tx.now)
                    for one in tx.deliveries.due(endpoint, BATCH)
                ]
                tx.deliveries.save(leased)
            with self.unit.begin(A_TENANT) as tx:
                keys = {DeliveryKey(one.received_on, one.delivery_id): one for one in leased}
                ended = [
                    decide_delivery(
                        one,
                        Ended(lease_epoch=keys[key].lease_epoch, end=OK, u=0.5),
                        retry=Retry(),
                        now=tx.now,
                    ).state
                    for key, one in tx.deliveries.get(keys).items()
                ]
                tx.deliveries.save(ended)
            if sum(one.state.is_terminal for one in ended) != BATCH:
                raise RuntimeError("not all of a batch were still ours")
        return perf_counter() - began

    def _seed(self, endpoint: ResourceUid, items: int) -> None:
        now = SystemClock().now()
        for _ in range(0, items, 500):
            with self.unit.begin(A_TENANT) as tx:
                tx.deliveries.add(
                    a_delivery(
                        endpoint_uid=endpoint,
                        received_on=now.date(),
                        due_at=now,
                        created_at=now,
                        expires_at=now + timedelta(days=7),
                    )
                    for _ in range(500)
                )
        self.database.query("ANALYZE datarecs.webhook_delivery")


@dataclass(kw_only=True)
class Peers:
    """The two libraries on separate databases, on one event loop."""

    procrastinate_url: str
    pgqueuer_url: str
    loop: asyncio.AbstractEventLoop

    def prepare(self) -> None:
        self._run(self._prepare())

    async def _prepare(self) -> None:
        connector = PsycopgConnector(conninfo=self.procrastinate_url, min_size=1, max_size=1)
        await connector.open_async()
        await SchemaManager(connector).apply_schema_async()
        self.connector, self.jobs = connector, JobManager(connector)
        self.worker = await self.jobs.register_worker()
        self.connection = await psycopg.AsyncConnection.connect(self.pgqueuer_url, autocommit=True)
        self.queries = Queries(PsycopgDriver(self.connection))
        await self.queries.install()

    def close(self) -> None:
        self._run(self.connector.close_async())
        self._run(self.connection.close())

    def procrastinate(self, items: int) -> float:
        return self._run(self._procrastinate(items))

    async def _procrastinate(self, items: int) -> float:
        job = Job(
            id=None,
            queue="bench",
            lock=None,
            queueing_lock=None,
            task_name="work",
            task_kwargs={"n": 1},
        )
        await self.jobs.batch_defer_jobs_async([job] * items)
        began = perf_counter()
        for _ in range(items):
            taken = await self.jobs.fetch_job(["bench"], self.worker)
            if taken is None:
                raise RuntimeError("procrastinate's queue is empty too early")
            await self.jobs.finish_job(taken, Status.SUCCEEDED, delete_job=True)
        return perf_counter() - began

    def pgqueuer(self, batch: int) -> Contestant:
        return lambda items: self._run(self._pgqueuer(items, batch))

    async def _pgqueuer(self, items: int, batch: int) -> float:
        await self.queries.enqueue(["work"] * items, [b"1"] * items, [0] * items)
        owner, done = QueueManagerId(UuidV7Ids().new()), 0
        began = perf_counter()
        while done < items:
            taken = await self.queries.dequeue(
                batch_size=batch,
                entrypoints={
                    QueueEntrypoint("work"): EntrypointExecutionParameter(concurrency_limit=0)
                },
                queue_manager_id=owner,
                global_concurrency_limit=None,
                heartbeat_timeout=timedelta(minutes=5),
            )
            await self.queries.log_jobs([(job, "successful", None) for job in taken])
            done += len(taken)
        return perf_counter() - began

    def _run(self, work: Coroutine[object, object, float | None]) -> float:
        return self.loop.run_until_complete(work) or 0.0


def measured(
    contestants: Mapping[str, tuple[Contestant, int]], rounds: int
) -> dict[str, list[float]]:
    """Items per second of each, contestants in turn; the first round warms up."""
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, (contestant, items) in contestants.items():
            rate = items / contestant(items)
            if turn:
                rates[name].append(rate)
    return rates


def figures(rounds: int, items: int) -> tuple[list[Figure], list[tuple[str, str]]]:
    """All contestants on one server."""
    load_before = os.getloadavg()[0]
    with servers(kafka=False) as running, ExitStack() as held:
        database = running.database()
        runner = held.enter_context(asyncio.Runner())
        peers = Peers(
            procrastinate_url=conninfo(running.postgres.fresh_database()),
            pgqueuer_url=conninfo(running.postgres.fresh_database()),
            loop=runner.get_loop(),
        )
        peers.prepare()
        held.callback(peers.close)
        rates = measured(
            {
                "datarecs runs, one by one": (OurRuns(database=database, held=held), items),
                "procrastinate, one by one": (peers.procrastinate, items),
                "pgqueuer, one by one": (peers.pgqueuer(1), items),
                f"datarecs deliveries, by {BATCH}": (
                    OurDeliveries(database=database, held=held),
                    items * 5,
                ),
                f"pgqueuer, by {BATCH}": (peers.pgqueuer(BATCH), items * 5),
            },
            rounds,
        )
        about = [
            *machine(load_before),
            ("commits of one client per second (fsync)", f"{commits_per_second(database):.0f}"),
            ("versions", ", ".join(f"{n} {version(n)}" for n in ("procrastinate", "pgqueuer"))),
        ]
    targets = {"datarecs runs, one by one": 500.0, f"datarecs deliveries, by {BATCH}": 3000.0}
    figure_list = [
        Figure(
            name=name,
            unit="items/s",
            values=tuple(each),
            target=targets.get(name),
            more_is_better=True,
        )
        for name, each in rates.items()
    ]
    return figure_list, about


def main() -> int:
    """Print the figures as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--items", type=int, default=1000, help="of each round, one by one")
    parser.add_argument("--write", type=Path, help="a page whose part on the queue to replace")
    options = parser.parse_args()
    results, about = figures(options.rounds, options.items)
    text = page("Durable queue", results, about)
    sys.stdout.write(text)
    if options.write:
        replace_part(options.write, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
