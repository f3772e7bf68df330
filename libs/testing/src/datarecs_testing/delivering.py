"""Relay and consumers of the run-controller in process, over the real database and broker.

Separate from the platform as processes, because a test of redelivery stops single members in single
steps; handlers, roles and principals are those of production.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from datarecs_application.launching import Backends, launch_run
from datarecs_application.loops import Loop, Silent, StepSignals
from datarecs_application.ports.messaging import Partition
from datarecs_application.runs import trigger_run
from datarecs_core.runs.model import Run, RunStatus
from datarecs_core.runs.start import TriggerRun
from datarecs_core.values import JobId, RunId
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import KafkaLogClient
from datarecs_kafka.consumer import Consumer
from datarecs_kafka.handling import Subscription
from datarecs_kafka.relay import Relay
from datarecs_kafka.session import ConsumerLimits
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.event_archive import PostgresEventArchive
from datarecs_postgres.outbox_reader import PostgresOutboxReader
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_testing.builders import A_TENANT
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.run_facts import a_completion
from datarecs_testing.stack import KafkaBroker

GROUP = "run-controller"
POLL_S = 0.05


@dataclass(kw_only=True)
class Delivery:
    """Runs that ended, and the consumers of their ends."""

    database: PreparedDatabase
    broker: KafkaBroker
    principals: Mapping[str, str]
    subscriptions: tuple[Subscription, ...]
    open_things: ExitStack
    ids: UuidV7Ids = field(default_factory=UuidV7Ids)
    clock: SystemClock = field(default_factory=SystemClock)
    relayed: RecordedMetrics = field(default_factory=RecordedMetrics)

    def __post_init__(self) -> None:
        self.api = PostgresUnitOfWork(self.opened("datarecs_api"), self.ids)
        self.controller = PostgresUnitOfWork(self.opened("datarecs_controller"), self.ids)
        worker = self.opened("datarecs_worker_run")
        self.worker, self.finder = PostgresUnitOfWork(worker, self.ids), PostgresWorkFinder(worker)

    def opened(self, role: str) -> Database:
        made = Database(self.database.url(role), limits=Limits(pool_size=3))
        self.open_things.callback(made.close)
        return made

    def client(self, principal: str, **settings: timedelta) -> KafkaLogClient:
        access = BrokerAccess(
            bootstrap=self.broker.bootstrap,
            username=principal,
            password=self.principals[principal],
        )
        return KafkaLogClient(access, **settings)

    def relay(self, owner: str = "test") -> Relay:
        return Relay(
            self.client("relay"),
            PostgresOutboxReader(self.opened("datarecs_relay")),
            owner=owner,
            metrics=self.relayed,
            clock=self.clock,
            wake=threading.Event(),
        )

    def consumer(
        self,
        *,
        signals: StepSignals | None = None,
        poll_interval: timedelta = timedelta(minutes=5),
        limits: ConsumerLimits | None = None,
    ) -> Consumer:
        """Each has separate metrics: `metrics_of`."""
        database = self.opened("datarecs_controller")
        return Consumer(
            self.client(GROUP, poll_interval=poll_interval),
            PostgresUnitOfWork(database, self.ids),
            group=GROUP,
            subscriptions=self.subscriptions,
            metrics=RecordedMetrics(),
            clock=self.clock,
            signals=signals or Silent(),
            archive=PostgresEventArchive(database),
            limits=limits or ConsumerLimits(),
        )

    # --- runs

    def ended(self, count: int) -> list[Run]:
        """Runs with an end that the worker has written and no consumer has read."""
        return [self._ended() for _ in range(count)]

    def _ended(self) -> Run:
        command = TriggerRun(
            tenant_id=A_TENANT,
            run_id=RunId(self.ids.new()),
            job_id=JobId(self.ids.new()),
            job_name="delivered",
            job_generation=1,
            spec_hash="sha256:" + 64 * "0",
            spec={},
            triggered_by="test",
        )
        with self.api.begin(A_TENANT, feed=8) as tx:
            run = trigger_run(tx, command)
        with self.controller.begin(A_TENANT, feed=8) as tx:
            launch_run(tx, run.run_id, Backends(queue=QueueLauncher()), self.ids, jitter=0.5)
        leased = self.finder.lease_run("test/0")
        assert leased is not None
        with self.worker.begin(A_TENANT, feed=8) as tx:
            running = tx.runs.for_update(leased.run_id)
            assert running is not None
            tx.leases.end(running.run_id)
            tx.outbox.append(a_completion(running))
        return running

    def closed(self) -> int:
        ((count,),) = self.database.query(
            "SELECT count(*) FROM datarecs.run WHERE status = %s", (RunStatus.COMPLETED,)
        )
        return int(count)

    def finals(self) -> dict[UUID, int]:
        """Number of final events by run, in the outbox."""
        rows = self.database.query(
            "SELECT partition_key, count(*) FROM datarecs.outbox"
            " WHERE type LIKE '%%run.finalised' OR type LIKE '%%run.cancelled' GROUP BY 1"
        )
        return {UUID(key): count for key, count in rows}

    def unsent(self) -> int:
        ((count,),) = self.database.query(
            "SELECT count(*) FROM datarecs.outbox WHERE sent_at IS NULL"
        )
        return int(count)

    # --- waiting

    def until(self, holds: Callable[[], bool], *, seconds: float = 60, condition: str = "") -> None:
        pause, ends = threading.Event(), self.clock.monotonic() + seconds
        while not holds():
            assert self.clock.monotonic() < ends, f"not within {seconds} s: {condition}"
            pause.wait(POLL_S)

    @contextmanager
    def running(self, *loops: Loop) -> Iterator[None]:
        """Each on its own thread, stopped and joined at the end."""
        stop = threading.Event()
        threads = [threading.Thread(target=loop.run, args=(stop,)) for loop in loops]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(40)
                assert not thread.is_alive(), "a loop did not stop"

    # --- the broker

    def committed(self, topics: Collection[str]) -> dict[Partition, int]:
        """Offsets of the group, read by the administrator without joining it."""
        from kafka.admin import KafkaAdminClient  # noqa: PLC0415 - slow to import, needed by few

        with KafkaAdminClient(**self.broker.access.settings()) as admin:
            offsets = admin.list_group_offsets({GROUP: None})[GROUP]
        return {
            Partition(*where): int(offset.offset)
            for where, offset in offsets.items()
            if where.topic in topics
        }
