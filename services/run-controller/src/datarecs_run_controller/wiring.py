"""The run-controller, joined top to bottom: it submits runs, closes them and carries the outbox."""

import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from datarecs_application.loops.launching import Launching
from datarecs_application.loops.periodic import Periodic
from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.rescue import Rescue
from datarecs_application.loops.timing import Timing
from datarecs_core.errors.process import SettingsError
from datarecs_core.runs.events import (
    RunCancelRequested,
    RunCompleted,
    RunErrored,
    RunTriggered,
)
from datarecs_events.catalogue import Service, Topic
from datarecs_kafka.access import BrokerAccess
from datarecs_kafka.client import KafkaLogClient
from datarecs_kafka.consumer import Consumer
from datarecs_kafka.handling import Subscription
from datarecs_kafka.relay import Relay
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.listener import Listener
from datarecs_postgres.maintenance import maintain_partitions
from datarecs_postgres.outbox_reader import PostgresOutboxReader
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_run_controller.handlers import Handlers
from datarecs_run_controller.settings import Settings
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids, random_fraction
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.process import Process

SWEEP = timedelta(seconds=2)


def build(settings: Settings) -> Process:
    """Everything this process runs; opens connections lazily, starts nothing."""
    clock, ids, metrics = SystemClock(), UuidV7Ids(), PrometheusMetrics()
    database = Database(
        settings.database.url.get_secret_value(),
        limits=Limits(pool_size=settings.database.pool_size),
        notify=settings.live.notify,
        application=Service.RUN_CONTROLLER,
    )
    database.refuse_unsafe_login()
    relay_database = Database(_relay_url(settings), limits=Limits(pool_size=2), application="relay")
    unit = PostgresUnitOfWork(database, ids)
    wakes = {name: Latch() for name in ("relay", "launching", "timing", "rescue")}
    consumer = Consumer(
        KafkaLogClient(_access(settings)),
        unit,
        group=Service.RUN_CONTROLLER,
        subscriptions=subscriptions(Handlers(metrics)),
        metrics=metrics,
        clock=clock,
    )
    relay = Relay(
        KafkaLogClient(_relay_access(settings)),
        PostgresOutboxReader(relay_database),
        owner=f"{socket.gethostname()}/{os.getpid()}/{ids.new()}",
        metrics=metrics,
        clock=clock,
        wake=wakes["relay"],
    )
    partitions = Periodic(
        name="partitions",
        act=lambda: _partitions(database, metrics),
        every=timedelta(hours=1),
        clock=clock,
    )
    listener = _listener(settings, tuple(wakes.values()))
    run_loops = _run_loops(PostgresWorkFinder(database), unit, ids, clock, wakes)
    return Process(
        name=Service.RUN_CONTROLLER,
        loops=(listener, consumer, relay, *run_loops, partitions),
        ready_when={"database": database.ready, "broker": consumer.ready},
        wakes=tuple(wakes.values()),
        closing=(database.close, relay_database.close),
        side=settings.side,
        metrics=metrics,
    )


def subscriptions(handlers: Handlers) -> tuple[Subscription, ...]:
    """Raw ends, progress, and wishes."""
    return (
        Subscription(Topic.RUN_INFRA, (RunCompleted, RunErrored), handlers.end_run),
        Subscription(Topic.RUN_PROGRESS, None, handlers.note_progress),
        Subscription(
            Topic.RUN_PLATFORM, (RunTriggered, RunCancelRequested), handlers.wake_launching
        ),
    )


def _run_loops(
    finder: PostgresWorkFinder,
    unit: PostgresUnitOfWork,
    ids: UuidV7Ids,
    clock: SystemClock,
    wakes: Mapping[str, Latch],
) -> tuple[Launching, Timing, Rescue]:
    """What makes rows, timers and leases come true; each looks again by itself."""
    launcher = QueueLauncher()
    launching = Launching(
        unit=unit,
        finder=finder,
        launcher=launcher,
        ids=ids,
        rhythm=Rhythm(clock=clock, wake=wakes["launching"]),
        jitter=random_fraction,
    )
    timing = Timing(
        unit=unit,
        finder=finder,
        launcher=launcher,
        ids=ids,
        rhythm=Rhythm(clock=clock, wake=wakes["timing"]),
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


def _listener(settings: Settings, wakes: tuple[Latch, ...]) -> Listener:
    def heard(_channel: str, _payload: str) -> None:
        for wake in wakes:
            wake.set()

    return Listener(settings.database.url.get_secret_value(), heard, channels=("datarecs_wake",))


def _partitions(database: Database, metrics: PrometheusMetrics) -> None:
    for table, rows in maintain_partitions(database).items():
        metrics.gauge("partition_default_rows", rows, table=table)


def _relay_url(settings: Settings) -> str:
    url = settings.database.relay.url
    if url is None:
        raise SettingsError(("DATARECS_DATABASE__RELAY__URL is missing: the relay's own login",))
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
