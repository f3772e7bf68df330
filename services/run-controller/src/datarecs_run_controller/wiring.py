"""The run-controller, joined top to bottom: it submits runs, closes them and carries the outbox."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from datarecs_application.launching import NO_REMOTE
from datarecs_application.loops.launching import Launching
from datarecs_application.loops.periodic import Periodic
from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.rescue import Rescue
from datarecs_application.loops.timing import Timing
from datarecs_application.observing import ObservedUnit
from datarecs_application.orphans import stop_orphans
from datarecs_application.ports.messaging import LogWriter
from datarecs_application.stats import stats_loop
from datarecs_argo.kubernetes import Access, KubernetesApi
from datarecs_argo.launcher import ArgoLauncher
from datarecs_argo.pace import CreationPace
from datarecs_core.errors.process import SettingsError
from datarecs_core.runs.events import (
    RunCancelRequested,
    RunCompleted,
    RunErrored,
    RunTriggered,
)
from datarecs_core.runs.model import Backend
from datarecs_events.catalogue import Service, Topic
from datarecs_kafka import redrive_command
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import KafkaLogClient
from datarecs_kafka.consumer import Consumer
from datarecs_kafka.depth import depth_loop
from datarecs_kafka.handling import Subscription
from datarecs_kafka.relay import Relay
from datarecs_kafka.remembering import refuse_short_memory
from datarecs_knative.receiving import inlet_of
from datarecs_knative.sending import BrokerIngress
from datarecs_postgres import backlog
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.event_archive import PostgresEventArchive
from datarecs_postgres.listener import Listener
from datarecs_postgres.maintenance import divide_outbox, maintain_partitions, set_outbox_retention
from datarecs_postgres.outbox_reader import PostgresOutboxReader
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_postgres.server_checks import start_checks
from datarecs_postgres.session import Woken, concerns
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_run_controller.handlers import Handlers
from datarecs_run_controller.settings import Settings
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids, random_fraction
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.process import Process
from datarecs_runtime.tracing import tracing_of

SWEEP = timedelta(seconds=2)
ORPHANS = timedelta(seconds=300)
"""Between two sweeps for workflows without a run."""
BUSY = 100
"""How many progress events and requests share a transaction."""
ENDS = 20
"""How many ends share a transaction when as many wait: a third of the cost of a close is its
transaction. Few, since all of them are announced with its commit; a single end is closed
alone."""


def build(settings: Settings) -> Process:
    """Everything this process runs; opens connections lazily, starts nothing."""
    clock, ids, metrics = SystemClock(), UuidV7Ids(), PrometheusMetrics()
    database = _database(settings)
    relay_database = Database(_relay_url(settings), limits=Limits(pool_size=2), application="relay")
    tracing = tracing_of(settings.otel, Service.RUN_CONTROLLER)
    unit = ObservedUnit(
        unit=PostgresUnitOfWork(database, ids), metrics=metrics, clock=clock, tracing=tracing
    )
    wakes = {name: Latch() for name in ("relay", "launching", "timing", "rescue")}
    archive = PostgresEventArchive(database)
    consumer = Consumer(
        KafkaLogClient(_access(settings)),
        unit,
        group=Service.RUN_CONTROLLER,
        subscriptions=subscriptions(Handlers()),
        metrics=metrics,
        clock=clock,
        archive=archive,
        tracing=tracing,
    )
    relay = Relay(
        outlet(settings),
        PostgresOutboxReader(relay_database),
        owner=f"{socket.gethostname()}/{os.getpid()}/{ids.new()}",
        metrics=metrics,
        clock=clock,
        wake=wakes["relay"],
        tracing=tracing,
    )
    reader = PostgresOutboxReader(relay_database)
    eventing = settings.eventing
    inlet = inlet_of(consumer, mode=eventing.mode, host=eventing.host, port=eventing.port)
    remote = remote_launcher(settings, clock)
    listener = _listener(settings, {Woken.OUTBOX: wakes["relay"], Woken.WORK: wakes["launching"]})
    finder = PostgresWorkFinder(database)
    parts = _RunParts(unit=unit, finder=finder, ids=ids, clock=clock, remote=remote)
    return Process(
        name=Service.RUN_CONTROLLER,
        loops=(
            *(listener, inlet, relay, *_run_loops(parts, wakes), *_sweeping(parts)),
            *_housekeeping(settings, database, reader, metrics),
        ),
        ready_when={
            "database": database.ready,
            "broker": inlet.ready,
            "outbox": lambda: backlog.sending(reader),
        },
        start_checks=(
            *start_checks((database, relay_database), settings.profile, now=clock.now),
            lambda: _refuse_short_memory(settings, archive),
        ),
        wakes=tuple(wakes.values()),
        closing=(
            *(database.close, relay_database.close, tracing.close),
            *(() if remote is None else (remote.api.close,)),
        ),
        side=settings.side,
        metrics=metrics,
    )


def _database(settings: Settings) -> Database:
    return Database(
        settings.database.url.get_secret_value(),
        limits=Limits(
            pool_size=settings.database.pool_size,
            statement_timeout=timedelta(seconds=settings.database.statement_timeout_s),
        ),
        notify=settings.live.notify,
        application=Service.RUN_CONTROLLER,
    )


def outlet(settings: Settings) -> LogWriter:
    """Where the relay sends; raises SettingsError for a Broker without an address."""
    if settings.eventing.mode == "kafka":
        return KafkaLogClient(_relay_access(settings))
    if settings.eventing.broker_url is None:
        message = "DATARECS_EVENTING__BROKER_URL is missing: the relay posts events to it"
        raise SettingsError((message,))
    return BrokerIngress(settings.eventing.broker_url)


def _refuse_short_memory(settings: Settings, archive: PostgresEventArchive) -> None:
    """Raises MemoryTooShortError for an outbox with a retention that is too long."""
    retention = timedelta(days=settings.outbox.retention_days)
    memory = replace(archive.memory(Service.RUN_CONTROLLER), outbox=retention)
    refuse_short_memory(memory, group=Service.RUN_CONTROLLER)


def _housekeeping(
    settings: Settings, database: Database, reader: PostgresOutboxReader, metrics: PrometheusMetrics
) -> tuple[Periodic, ...]:
    """Partitions each hour, gauges and figures more often."""
    finder, instance = PostgresWorkFinder(database), UuidV7Ids().new()
    stats = stats_loop(finder, metrics.samples, instance=instance, clock=SystemClock())
    partitions = Periodic(
        name="partitions",
        act=lambda: _partitions(database, metrics, outbox_days=settings.outbox.retention_days),
        every=timedelta(hours=1),
        clock=SystemClock(),
    )
    shards = Periodic(
        name="shards",
        act=lambda: divide_outbox(database, shards=settings.outbox.shards),
        every=timedelta(minutes=1),
        clock=SystemClock(),
    )
    gauges = Periodic(
        name="gauges",
        act=lambda: _gauges(database, reader, metrics),
        every=backlog.EVERY,
        clock=SystemClock(),
    )
    if settings.eventing.mode == "knative":
        return partitions, shards, gauges, stats
    letters = depth_loop(
        _access(settings), Service.RUN_CONTROLLER, metrics=metrics, clock=SystemClock()
    )
    return partitions, shards, gauges, stats, letters


def redrive(settings: Settings, arguments: Sequence[str]) -> int:
    """Pass the dead letters of this service to its handlers again."""
    process = build(settings)
    try:
        process.check_start()
        return redrive_command.redrive(process.loops, arguments)
    finally:
        for close in process.closing:
            close()


def subscriptions(handlers: Handlers) -> tuple[Subscription, ...]:
    """Raw ends, progress, triggers and cancels."""
    return (
        Subscription(Topic.RUN_INFRA, (RunCompleted, RunErrored), handlers.end_run, together=ENDS),
        Subscription(Topic.RUN_PROGRESS, None, handlers.note_progress, together=BUSY),
        Subscription(
            Topic.RUN_PLATFORM,
            (RunTriggered, RunCancelRequested),
            handlers.wake_launching,
            together=BUSY,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunParts:
    """What the loops of runs share."""

    unit: ObservedUnit
    finder: PostgresWorkFinder
    ids: UuidV7Ids
    clock: SystemClock
    remote: ArgoLauncher | None
    """The backend argo; None: it is not configured."""


def _run_loops(parts: _RunParts, wakes: Mapping[str, Latch]) -> tuple[Launching, Timing, Rescue]:
    """The loops for rows, timers and leases; each polls by itself."""
    unit, finder, ids, clock = parts.unit, parts.finder, parts.ids, parts.clock
    launcher, remote = QueueLauncher(), parts.remote or NO_REMOTE
    launching = Launching(
        unit=unit,
        finder=finder,
        launcher=launcher,
        remote=remote,
        ids=ids,
        rhythm=Rhythm(clock=clock, wake=wakes["launching"]),
        jitter=random_fraction,
    )
    timing = Timing(
        unit=unit,
        finder=finder,
        launcher=launcher,
        remote=remote,
        ids=ids,
        rhythm=Rhythm(clock=clock, wake=wakes["timing"], metrics=parts.unit.metrics),
        jitter=random_fraction,
    )
    rescue = Rescue(
        unit=unit,
        finder=finder,
        ids=ids,
        rhythm=Rhythm(clock=clock, wake=wakes["rescue"], idle=SWEEP),
        jitter=random_fraction,
    )
    return launching, timing, rescue


def _sweeping(parts: _RunParts) -> tuple[Periodic, ...]:
    """Orphans exist only where executions live apart from the database."""
    remote = parts.remote
    if remote is None:
        return ()

    def sweep() -> None:
        stop_orphans(parts.unit, remote)

    return (Periodic(name="orphans", act=sweep, every=ORPHANS, clock=parts.clock),)


def remote_launcher(settings: Settings, clock: SystemClock) -> ArgoLauncher | None:
    """Raises SettingsError for a service account that is not mounted."""
    if settings.launcher.backend != Backend.ARGO.value:
        return None
    argo = settings.launcher.argo
    account = argo.account_dir
    access = Access(
        url=argo.api_url,
        token_file=account / "token",
        ca_file=account / "ca.crt",
        namespace=argo.namespace or _namespace_of(account),
    )
    return ArgoLauncher(
        api=KubernetesApi(access, clock), pace=CreationPace(argo.creates_per_s, clock)
    )


def _namespace_of(account: Path) -> str:
    try:
        return (account / "namespace").read_text(encoding="utf-8").strip()
    except OSError as cause:
        message = (
            "DATARECS_LAUNCHER__BACKEND=argo needs a service account: "
            f"{account / 'namespace'} cannot be read ({cause.strerror}); run in a pod with "
            "`automountServiceAccountToken: true`, or set DATARECS_LAUNCHER__ARGO__NAMESPACE and "
            "DATARECS_LAUNCHER__ARGO__ACCOUNT_DIR"
        )
        raise SettingsError((message,)) from cause


def _listener(settings: Settings, wakes: Mapping[Woken, Latch]) -> Listener:
    """Timers and leases fall due by time, so their loops only poll."""

    def wake_loops(_channel: str, payload: str) -> None:
        for who, wake in wakes.items():
            if concerns(payload, who):
                wake.set()

    return Listener(
        settings.database.url.get_secret_value(), wake_loops, channels=("datarecs_wake",)
    )


def _partitions(database: Database, metrics: PrometheusMetrics, *, outbox_days: int) -> None:
    set_outbox_retention(database, days=outbox_days)
    for table, rows in maintain_partitions(database).items():
        metrics.gauge("partition_default_rows", rows, table=table)


def _gauges(database: Database, reader: PostgresOutboxReader, metrics: PrometheusMetrics) -> None:
    backlog.report_run_gauges(database, metrics)
    backlog.report_outbox_gauges(reader, metrics)


def _relay_url(settings: Settings) -> str:
    url = settings.database.relay.url
    if url is None:
        raise SettingsError(("DATARECS_DATABASE__RELAY__URL is missing: the login of the relay",))
    return url.get_secret_value()


def _access(settings: Settings) -> BrokerAccess:
    kafka = settings.kafka
    return BrokerAccess(
        bootstrap=",".join(kafka.bootstrap),
        username=kafka.username,
        password=kafka.password.get_secret_value(),
        security=kafka.protocol(settings.profile),
        ca_file=None if kafka.ca_file is None else str(kafka.ca_file),
    )


def _relay_access(settings: Settings) -> BrokerAccess:
    relay = settings.kafka.relay
    return replace(
        _access(settings), username=relay.username, password=relay.password.get_secret_value()
    )
