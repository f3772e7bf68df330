"""The reconciliation-worker, joined top to bottom: heartbeat and one supervisor per slot."""

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from datarecs_application.assignments import Preparing
from datarecs_application.attempt_ends import EndReporter
from datarecs_application.checking import Checking
from datarecs_application.loops.checking import SourceChecks
from datarecs_application.loops.heartbeat import Heartbeat
from datarecs_application.loops.polling import Rhythm
from datarecs_application.observing import ObservedUnit
from datarecs_application.ports.comparing import Connector
from datarecs_application.ports.outside import BlobStores
from datarecs_application.ports.state import UnitOfWork
from datarecs_application.supervision import Limits as SupervisionLimits
from datarecs_application.supervision import Supervising
from datarecs_application.tracing import Tracing
from datarecs_application.warm_child import WarmChild
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.errors.process import ChildStartError
from datarecs_core.hashing import JsonValue, canonical_json
from datarecs_core.jobs.definition import Source
from datarecs_core.resources.connection import Connection
from datarecs_events.catalogue import Service
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.listener import Listener
from datarecs_postgres.server_checks import start_checks
from datarecs_postgres.session import Woken, concerns
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_reconciliation_worker.scratch import LocalScratch
from datarecs_reconciliation_worker.settings import Settings
from datarecs_runtime.child import SpawnedChild
from datarecs_runtime.child_surroundings import (
    child_environment,
    egress_policy,
    surroundings_frame,
)
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids, random_fraction
from datarecs_runtime.derived_keys import derived_key
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.process import Process
from datarecs_runtime.scratch import ScratchFolder, empty_folder
from datarecs_runtime.secrets import TenantSecrets
from datarecs_runtime.sections import Spark
from datarecs_runtime.tracing import tracing_of
from datarecs_specs.documents import StoredSpecs
from datarecs_storage.opening import open_blob_stores

CHILD = "datarecs_reconciliation_worker.child"
CHECK_CHILD = "datarecs_reconciliation_worker.check_child"
CHECK_POLL = timedelta(seconds=5)
"""Notifications wake the checks; a poll finds those of workers that died."""


def build(settings: Settings) -> Process:
    """Everything this process runs; starts nothing."""
    clock, ids, metrics = SystemClock(), UuidV7Ids(), PrometheusMetrics()
    url, ttl = settings.database.url.get_secret_value(), settings.queue.lease_ttl
    database = Database(
        url,
        limits=Limits(pool_size=settings.database.pool_size),
        notify=settings.live.notify,
        application=Service.RECONCILIATION_WORKER,
    )
    pulse = Database(url, limits=Limits(pool_size=1), application="heartbeat")
    beat_now = Latch()
    heartbeat = _heartbeat(pulse, ttl, metrics, beat_now)
    tracing = tracing_of(settings.otel, Service.RECONCILIATION_WORKER)
    unit = ObservedUnit(
        unit=PostgresUnitOfWork(database, ids), metrics=metrics, clock=clock, tracing=tracing
    )
    slots = range(settings.worker.max_parallelism)
    wakes = [Latch() for _ in slots]
    check_now = Latch()
    blobs = open_blob_stores(settings.blob.url, **settings.blob.store_options())
    scratch = ScratchFolder(settings.worker.scratch_dir)
    children = [warm_child(settings, clock, scratch.child(slot)) for slot in slots]
    shared = SlotParts(
        unit=unit,
        finder=PostgresWorkFinder(database, lease_ttl=ttl),
        blobs=blobs,
        scratch=scratch,
        heartbeat=heartbeat,
        clock=clock,
        ids=ids,
        metrics=metrics,
        tracing=tracing,
    )
    supervisors = [
        supervisor(settings, shared, slot=slot, child=children[slot], wake=wakes[slot])
        for slot in slots
    ]
    checks = _checks(settings, shared, check_now)
    ready_when = {"database": database.ready, "blobs": blobs.ready, "spark": children[0].ready}
    return Process(
        name=Service.RECONCILIATION_WORKER,
        loops=(_listener(url, wakes, beat_now, check_now), heartbeat, *supervisors, checks),
        ready_when=ready_when,
        start_checks=(
            scratch.claim,
            *start_checks((database,), settings.profile, now=clock.now),
            blobs.check_create_only,
        ),
        wakes=[*wakes, beat_now, check_now],
        closing=(database.close, pulse.close, tracing.close, scratch.release),
        grace=timedelta(seconds=settings.worker.drain_s + 40),
        side=settings.side,
        metrics=metrics,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotParts:
    """What the slots of a process share."""

    unit: UnitOfWork
    finder: PostgresWorkFinder
    blobs: BlobStores
    scratch: ScratchFolder
    heartbeat: Heartbeat
    clock: SystemClock
    ids: UuidV7Ids
    metrics: PrometheusMetrics
    tracing: Tracing
    reporter: EndReporter | None = None
    """Where ends are reported, if not to the database."""


def supervisor(
    settings: Settings, shared: SlotParts, *, slot: int, child: WarmChild, wake: Latch
) -> Supervising:
    """One slot of a worker, or the only one of a workflow's execution."""
    return Supervising(
        name=f"slot_{slot}",
        executor=f"{socket.gethostname()}/{os.getpid()}/{slot}",
        unit=shared.unit,
        finder=shared.finder,
        blobs=shared.blobs,
        heartbeat=shared.heartbeat,
        preparing=_preparing(settings),
        scratch=LocalScratch(shared.scratch.runs),
        child=child,
        clock=shared.clock,
        ids=shared.ids,
        metrics=shared.metrics,
        jitter=lambda: 0.5 + 0.5 * random_fraction(),
        wake=wake,
        limits=SupervisionLimits(
            memory_bytes=settings.worker.child_memory_mb * 1024 * 1024,
            drain=timedelta(seconds=settings.worker.drain_s),
        ),
        tracing=shared.tracing,
        base_url=settings.base_url,
        reporter=shared.reporter,
    )


def _checks(settings: Settings, shared: SlotParts, wake: Latch) -> SourceChecks:
    """Checks of connections and jobs, beside the slots."""
    scratch = shared.scratch.of_check
    return SourceChecks(
        unit=shared.unit,
        finder=shared.finder,
        use=checking(settings),
        make=lambda: check_child(scratch),
        metrics=shared.metrics,
        rhythm=Rhythm(clock=shared.clock, wake=wake, idle=CHECK_POLL),
        memory_bytes=settings.worker.child_memory_mb * 1024 * 1024,
    )


def checking(settings: Settings) -> Checking:
    """What checks read from the platform, as runs do."""
    return Checking(
        decode=StoredSpecs(),
        secrets=TenantSecrets.of(settings.secrets, settings.profile),
        surroundings=surroundings_frame(settings, settings.worker.scratch_dir),
    )


def check_child(scratch: Path) -> SpawnedChild:
    """The child of one check, not started; its folder is empty.

    Raises:
        ChildStartError: the folder cannot be used.
    """
    try:
        empty_folder(scratch)
    except OSError as cause:
        raise ChildStartError(program="the check", cause=str(cause)) from cause
    return SpawnedChild([sys.executable, "-m", CHECK_CHILD], child_environment(scratch))


def _listener(url: str, slots: Sequence[Latch], heartbeat: Latch, checks: Latch) -> Listener:
    """Wakes slots for runs that are due, checks, and the heartbeat for a run that shall stop."""

    def wake_workers(_channel: str, payload: str) -> None:
        for wake in slots if concerns(payload, Woken.LEASES) else ():
            wake.set()
        if concerns(payload, Woken.CANCELS):
            heartbeat.set()
        if concerns(payload, Woken.CHECKS):
            checks.set()

    return Listener(url, wake_workers, channels=("datarecs_wake",))


def _heartbeat(
    pulse: Database, ttl: timedelta, metrics: PrometheusMetrics, wake: Latch
) -> Heartbeat:
    """Over a separate connection, which no work can block."""
    return Heartbeat(
        finder=PostgresWorkFinder(pulse, lease_ttl=ttl),
        clock=SystemClock(),
        metrics=metrics,
        every=ttl / 3,
        wake=wake,
    )


def _preparing(settings: Settings) -> Preparing:
    # Files are opened by the child alone.
    surroundings = Surroundings(roots=(), policy=egress_policy(settings), now=SystemClock().now)

    def connect(
        source: Source, connection: Connection | None, secrets: Mapping[str, str]
    ) -> Connector:
        return open_connector(source, connection, secrets, surroundings=surroundings)

    return Preparing(
        decode=StoredSpecs(),
        secrets=TenantSecrets.of(settings.secrets, settings.profile),
        connect=connect,
        break_key=lambda tenant: derived_key(
            settings.secrets, tenant=tenant, purpose="break-ids"
        ).hex(),
    )


def warm_child(settings: Settings, clock: SystemClock, scratch: Path) -> WarmChild:
    """The child of a slot; nothing is started yet. Each child finds its folder empty."""
    environment = child_environment(scratch)

    def make() -> SpawnedChild:
        try:
            empty_folder(scratch)
        except OSError as cause:
            raise ChildStartError(program="the Spark child", cause=str(cause)) from cause
        return SpawnedChild([sys.executable, "-m", CHILD], environment)

    return WarmChild(
        make=make,
        hello=canonical_json(hello_frame(settings, scratch)),
        clock=clock,
        recycle_after=settings.worker.recycle_after,
    )


def hello_frame(settings: Settings, scratch: Path) -> dict[str, JsonValue]:
    """The settings of the child before its first run."""
    return {
        **surroundings_frame(settings, settings.worker.scratch_dir),
        "master": settings.spark.master,
        "driver_memory": settings.spark.driver_memory,
        "cluster": _cluster(settings.spark),
        "java_home": None if settings.java.home is None else str(settings.java.home),
        "java_options": settings.java.options,
        "scratch": str(scratch),
        "max_spill_bytes": settings.worker.max_spill_mb * 1024 * 1024,
        "otel_endpoint": settings.otel.endpoint,
    }


def _cluster(spark: Spark) -> dict[str, JsonValue] | None:
    """More settings of a session on a cluster; only the pipe carries its secret."""
    if spark.secret is None or not spark.on_cluster:
        return None
    return {
        "secret": spark.secret.get_secret_value(),
        "driver_host": spark.driver_host,
        "executor_memory": spark.executor_memory,
        "max_cores": spark.max_cores,
        "executor_python": None if spark.executor_python is None else str(spark.executor_python),
    }
