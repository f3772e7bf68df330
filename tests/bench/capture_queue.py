"""Figures of the queue of captures beside procrastinate and pgqueuer: claim an item, end it.

One client each on one server with fsync on, contestants in turn within each round. Ours fences the
end by the epoch of the lease, reads under row-level security, and appends an event per end. Once
more with parked and ended rows in the table, which no claim may notice.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import LiteralString

from datarecs_application.capturing import queue
from datarecs_application.ports.capturing import ClaimRequest
from datarecs_core.captures.items import WorkKind, WorkToken
from datarecs_core.captures.tree import new_root
from datarecs_postgres.database import Database
from datarecs_postgres.roles import CAPTURE
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.urls import conninfo
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import UuidV7Ids
from datarecs_testing.builders import A_TENANT
from datarecs_testing.captures import a_request
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.figures import Figure, machine, page, replace_part
from datarecs_testing.measured_servers import commits_per_second, servers
from tests.bench.queues import Peers, measured

BATCH = 20
SHA = "0" * 64
FILL: LiteralString = """
INSERT INTO datarecs.capture_work (tenant_id, id, kind, root_id, ancestors, task, connection_uid,
    dedupe, execution_class, lane, claim_key, pinned_executor, requested_by, state, gate, due_at,
    created_at, finished_at, counters)
SELECT %s, n.id, 'PLAN_CONNECTOR', n.id, '{}', '{}', n.id, n.id::text, 'DEFAULT', '', 'parked',
    '', 'u', %s, %s, now(), now(), CASE WHEN %s THEN now() END, '{}'
FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, %s)) n
"""


@dataclass(kw_only=True)
class OurCaptures:
    """Claims of `batch` items, ended together in one transaction."""

    database: PreparedDatabase
    held: ExitStack
    batch: int
    ids: UuidV7Ids = field(default_factory=UuidV7Ids)

    def __post_init__(self) -> None:
        worker = Database(self.database.url(CAPTURE))
        self.held.callback(worker.close)
        self.unit, self.finder = PostgresUnitOfWork(worker, self.ids), PostgresWorkFinder(worker)

    def __call__(self, items: int) -> float:
        self._seed(items)
        kinds = (WorkKind.PLAN_CONNECTOR,)
        request = ClaimRequest(executor="bench", kinds=kinds, limit=self.batch)
        began = perf_counter()
        for _ in range(0, items, self.batch):
            tokens = self.finder.claim_work(request).tokens
            if len(tokens) != self.batch:
                raise RuntimeError("the queue is empty too early")
            self._end(tokens)
        return perf_counter() - began

    def _end(self, tokens: Sequence[WorkToken]) -> None:
        with self.unit.begin(A_TENANT) as tx:
            for token in tokens:
                queue.end_succeeded(tx, self.ids, token, outcome_sha256=SHA, counters={})

    def _seed(self, items: int) -> None:
        with self.unit.begin(A_TENANT) as tx:
            tx.capture_work.add(
                [
                    new_root(
                        A_TENANT,
                        a_request(),
                        item_id=self.ids.new(),
                        requested_by="bench",
                        now=tx.now,
                    )
                    for _ in range(items)
                ]
            )
        self.database.query("ANALYZE datarecs.capture_work")


def figures(
    rounds: int, items: int, *, parked: int, ended: int
) -> tuple[list[Figure], list[tuple[str, str]]]:
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
        single = OurCaptures(database=database, held=held, batch=1)
        many = OurCaptures(database=database, held=held, batch=BATCH)
        rates = measured(
            {
                "datarecs captures, one by one": (single, items),
                "procrastinate, one by one": (peers.procrastinate, items),
                "pgqueuer, one by one": (peers.pgqueuer(1), items),
                f"datarecs captures, by {BATCH}": (many, items * 5),
                f"pgqueuer, by {BATCH}": (peers.pgqueuer(BATCH), items * 5),
            },
            rounds,
        )
        database.query(FILL, (A_TENANT, "QUEUED", "LANE", False, parked))
        database.query(FILL, (A_TENANT, "SUCCEEDED", "OPEN", True, ended))
        database.query("VACUUM ANALYZE datarecs.capture_work")
        full = f"beside {parked:,} parked and {ended:,} ended"
        rates |= measured({f"datarecs captures, one by one, {full}": (single, items)}, rounds)
        about = [
            *machine(load_before),
            ("commits of one client per second (fsync)", f"{commits_per_second(database):.0f}"),
            ("versions", ", ".join(f"{n} {version(n)}" for n in ("procrastinate", "pgqueuer"))),
        ]
    targets = {"datarecs captures, one by one": 500.0, f"datarecs captures, by {BATCH}": 3000.0}
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
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--items", type=int, default=500, help="of each round, one by one")
    parser.add_argument("--parked", type=int, default=100_000)
    parser.add_argument("--ended", type=int, default=1_000_000)
    parser.add_argument("--write", type=Path, help="a page of which the part is replaced")
    options = parser.parse_args()
    results, about = figures(
        options.rounds, options.items, parked=options.parked, ended=options.ended
    )
    text = page("Queue of captures", results, about)
    sys.stdout.write(text)
    if options.write:
        replace_part(options.write, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
