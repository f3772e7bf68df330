"""The run path over the real database and broker: controller as a process, scripted children.

A separate module because tests and benchmarks use the same path.
"""

import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from pathlib import Path

from datarecs_application.child_frames import FINISHED, READY
from datarecs_application.loops.heartbeat import Heartbeat
from datarecs_application.observing import ObservedUnit
from datarecs_application.ports.messaging import LogRecord, Unreadable
from datarecs_application.ports.state import UnitOfWork
from datarecs_application.runs import trigger_run
from datarecs_application.supervision import Limits, Supervising
from datarecs_application.tracing import UNTRACED, Tracing
from datarecs_application.warm_child import WarmChild
from datarecs_core.runs.events import RunCancelled, RunFinalised
from datarecs_core.runs.model import Run
from datarecs_core.runs.result_file import NAME
from datarecs_core.runs.start import TriggerRun
from datarecs_core.values import JobId, RunId
from datarecs_events.catalogue import Topic
from datarecs_events.codec import Received, decode
from datarecs_kafka.client import KafkaLogClient
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_postgres.database import Database
from datarecs_postgres.queries import PostgresQueries
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids
from datarecs_testing.builders import A_TENANT
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.platform import FolderScratch, NoSecrets, OneJob, ScriptedPreparing
from datarecs_testing.scripted_child import ChildSide, ScriptedChild
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.stack import KafkaBroker

API, CONTROLLER, RELAY, WORKER = (
    "datarecs_api",
    "datarecs_controller",
    "datarecs_relay",
    "datarecs_worker_run",
)


def leave_result(frame: Mapping[str, object], result: str = "MATCHED") -> None:
    """The result file of a run frame, as a child leaves it last."""
    document = {
        "schema": 1,
        "run_id": frame["run_id"],
        "attempt": frame["attempt"],
        "lease_epoch": frame["lease_epoch"],
        "outcome": "COMPLETED",
        "result": result,
    }
    (Path(str(frame["folder"])) / NAME).write_text(json.dumps(document), encoding="utf-8")


def matched(_hello: Mapping[str, object], side: ChildSide) -> int:
    """A child that ends every run with MATCHED."""
    side.send({"type": READY})
    while (frame := side.receive()) is not None:
        if frame.get("type") == "stop":
            return 75
        leave_result(frame)
        side.send({"type": FINISHED})
    return 0


def _event_of(record: LogRecord | Unreadable) -> object:
    if isinstance(record, Unreadable):
        return None
    message = decode(record.topic, record.key, record.value, record.headers)
    return message.event if isinstance(message, Received) else None


@dataclass(kw_only=True)
class RealPath:
    """Triggers runs and works on them; the controller is a separate process."""

    database: PreparedDatabase
    broker: KafkaBroker
    principals: Mapping[str, str]
    folder: Path
    open_things: ExitStack
    stop: Latch = field(default_factory=Latch)
    tracing: Tracing = UNTRACED
    """Of what works in this process."""
    metrics: RecordedMetrics = field(default_factory=RecordedMetrics)
    beat: timedelta = timedelta(seconds=20)

    def __post_init__(self) -> None:
        self.ids = UuidV7Ids()
        self.api = self._database(API)
        self.unit = PostgresUnitOfWork(self.api, self.ids)
        self.queries = PostgresQueries(self.api)

    def controller(self, name: str = "controller", **more: str) -> ServiceProcess:
        """A run-controller, with more settings if any; several may run at once."""
        settings = {
            "DATARECS_PROFILE": "local",
            "DATARECS_DATABASE__URL": self.database.url(CONTROLLER),
            "DATARECS_DATABASE__RELAY__URL": self.database.url(RELAY),
            "DATARECS_KAFKA__BOOTSTRAP": self.broker.bootstrap,
            "DATARECS_KAFKA__USERNAME": "run-controller",
            "DATARECS_KAFKA__PASSWORD": self.principals["run-controller"],
            "DATARECS_KAFKA__RELAY__USERNAME": "relay",
            "DATARECS_KAFKA__RELAY__PASSWORD": self.principals["relay"],
            **more,
        }
        running = running_service(
            "datarecs_run_controller", settings, log=self.folder / f"{name}.log"
        )
        return self.open_things.enter_context(running)

    def ends(self, runs: list[Run], *, patience: int = 60) -> Iterator[RunFinalised | RunCancelled]:
        """Final events of these runs as they arrive, with repetitions, until all have arrived.

        Args:
            runs: to wait for.
            patience: seconds without a record after which missing events are no longer awaited.
        """
        wanted, silent = {run.run_id for run in runs}, 0
        seen: set[RunId] = set()
        group = f"test-{secrets.token_hex(6)}"  # a separate group, so that no dead member delays it
        consumer = KafkaLogClient(self.broker.access).consumer(
            group=group, topics=[Topic.RUN_PLATFORM]
        )
        self.open_things.callback(consumer.close)
        while silent < (2 if seen == wanted else patience):
            batches = consumer.poll(timedelta(seconds=1), max_records=100)
            silent = 0 if any(batches.values()) else silent + 1
            for record in chain.from_iterable(batches.values()):
                event = _event_of(record)
                if isinstance(event, RunFinalised | RunCancelled) and event.run_id in wanted:
                    seen.add(event.run_id)
                    yield event

    def trigger(self, count: int) -> list[Run]:
        return [self.trigger_one() for _ in range(count)]

    def work(self, slots: int, script: Callable[..., int] = matched) -> None:
        """Worker slots on threads until the test ends."""
        pulse = Heartbeat(
            finder=PostgresWorkFinder(self._database(WORKER)),
            clock=SystemClock(),
            metrics=self.metrics,
            every=self.beat,
        )
        self._thread(pulse.run)
        for slot in range(slots):
            self._thread(self._slot(slot, pulse, script).run)

    def _slot(self, slot: int, pulse: Heartbeat, script: Callable[..., int]) -> Supervising:
        database, clock = self._database(WORKER), SystemClock()
        return Supervising(
            name=f"slot_{slot}",
            executor=f"test/{slot}",
            unit=self.observed(PostgresUnitOfWork(database, self.ids)),
            finder=PostgresWorkFinder(database),
            blobs=MemoryBlobStores(SystemClock()),
            heartbeat=pulse,
            preparing=ScriptedPreparing(
                decode=OneJob(),
                secrets=NoSecrets(),
                connect=lambda *_: (_ for _ in ()).throw(LookupError("nothing is opened")),
                break_key=lambda _: "00" * 32,
            ),
            scratch=FolderScratch(self.folder / "runs"),
            child=WarmChild(make=lambda: ScriptedChild(script), hello=b"{}", clock=clock),
            clock=clock,
            ids=self.ids,
            metrics=self.metrics,
            jitter=lambda: 0.5,
            wake=Latch(),
            limits=Limits(memory_bytes=10**12, drain=timedelta(0)),
            idle=timedelta(milliseconds=50),
            tracing=self.tracing,
        )

    def observed(self, unit: UnitOfWork) -> ObservedUnit:
        """The unit of work as services have it."""
        return ObservedUnit(
            unit=unit, metrics=self.metrics, clock=SystemClock(), tracing=self.tracing
        )

    def trigger_one(self, *, triggered_by: str = "test", traceparent: str | None = None) -> Run:
        command = TriggerRun(
            tenant_id=A_TENANT,
            run_id=RunId(self.ids.new()),
            job_id=JobId(self.ids.new()),
            job_name="scripted",
            job_generation=1,
            spec_hash="sha256:" + 64 * "0",
            spec={},
            triggered_by=triggered_by,
            traceparent=traceparent,
        )
        with self.observed(self.unit).begin(A_TENANT, feed=8) as tx:
            return trigger_run(tx, command)

    def _database(self, role: str) -> Database:
        database = Database(self.database.url(role))
        self.open_things.callback(database.close)
        return database

    def _thread(self, work: Callable[[Latch], None]) -> None:
        thread = threading.Thread(target=work, args=(self.stop,), daemon=True)
        thread.start()
        self.open_things.callback(thread.join, 30)
