"""The resource-controller, joined top to bottom: schedules, reconciling and retention."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from datarecs_application.capturing.declared import CaptureController
from datarecs_application.job_references import JobController
from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.reconciling import Reconciling
from datarecs_application.loops.retention import RetentionSweeps
from datarecs_application.loops.scheduling import ScheduleStarts
from datarecs_application.observing import ObservedUnit
from datarecs_application.ports.quotas import WaitingRuns
from datarecs_application.retention import Sweeping
from datarecs_application.scheduling import Scheduling
from datarecs_application.sinking.declared import SinkController
from datarecs_application.source_conditions import ConnectionController
from datarecs_application.stats import stats_loop
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.captures.declared import Capture
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.resources.resource import Kind
from datarecs_core.retention.policy import RetentionPolicy
from datarecs_core.runs.model import Backend
from datarecs_core.scheduling.schedule import Schedule
from datarecs_core.sink.definition import SinkTable
from datarecs_events.catalogue import Service
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.listener import Listener
from datarecs_postgres.server_checks import start_checks
from datarecs_postgres.session import Woken, concerns
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_resource_controller.settings import Settings
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids, random_fraction
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.process import Process
from datarecs_runtime.tracing import tracing_of
from datarecs_specs.cron_times import CronTimes
from datarecs_specs.documents import decode_stored, job_of
from datarecs_storage.opening import open_blob_stores

GRACE = timedelta(seconds=10)
"""A decision takes milliseconds; a busy database may delay its end."""


def build(settings: Settings) -> Process:
    """Everything this process runs; opens connections lazily."""
    clock, ids, metrics = SystemClock(), UuidV7Ids(), PrometheusMetrics()
    database = Database(
        settings.database.url.get_secret_value(),
        limits=Limits(pool_size=settings.database.pool_size),
        notify=settings.live.notify,
        application=Service.RESOURCE_CONTROLLER,
    )
    tracing = tracing_of(settings.otel, Service.RESOURCE_CONTROLLER)
    wakes = [Latch(), Latch(), Latch()]
    unit = ObservedUnit(
        unit=PostgresUnitOfWork(database, ids), metrics=metrics, clock=clock, tracing=tracing
    )
    finder, jobs = PostgresWorkFinder(database), StoredSpecs(read_job, metrics)
    blobs = open_blob_stores(settings.blob.url, **settings.blob.store_options())
    starts = ScheduleStarts(
        unit=unit,
        finder=finder,
        use=Scheduling(
            schedules=StoredSpecs(read_schedule, metrics),
            jobs=jobs,
            times=CronTimes(),
            ids=ids,
            most_waiting=WaitingRuns(
                of_job=settings.limits.waiting_runs_per_job,
                of_tenant=settings.limits.waiting_runs_per_tenant,
            ),
            backend=Backend(settings.launcher.backend),
        ),
        metrics=metrics,
        rhythm=Rhythm(clock=clock, wake=wakes[0], metrics=metrics),
    )
    policies = StoredSpecs(read_policy, metrics)
    sweeping = Sweeping(unit=unit, policies=policies, blobs=blobs, clock=clock, metrics=metrics)
    rhythm = Rhythm(clock=clock, wake=wakes[2], metrics=metrics)
    sweeps = RetentionSweeps(finder=finder, sweeping=sweeping, rhythm=rhythm)
    captures = CaptureController(captures=StoredSpecs(read_capture, metrics), ids=ids)
    sinks = SinkController(sinks=StoredSpecs(read_sink, metrics), jobs=jobs)
    controllers = (ConnectionController(), JobController(jobs=jobs), captures, sinks)
    reconciling = Reconciling(
        unit=unit,
        finder=finder,
        controllers={one.kind: one for one in controllers},
        metrics=metrics,
        rhythm=Rhythm(clock=clock, wake=wakes[1]),
        fraction=random_fraction,
    )
    stats = stats_loop(finder, metrics.samples, instance=ids.new(), clock=clock)
    return Process(
        name=Service.RESOURCE_CONTROLLER,
        loops=(*_listening(settings, wakes), starts, reconciling, sweeps, stats),
        ready_when={"database": database.ready, "blobs": blobs.ready},
        start_checks=start_checks((database,), settings.profile, now=clock.now),
        wakes=wakes,
        closing=(database.close, tracing.close),
        grace=GRACE,
        side=settings.side,
        metrics=metrics,
    )


def _listening(settings: Settings, wakes: Sequence[Latch]) -> tuple[Listener, ...]:
    """Wakes the loops as soon as a declaration is stored; without it they only poll."""

    def wake_loops(_channel: str, payload: str) -> None:
        for wake in wakes if concerns(payload, Woken.OBJECTS) else ():
            wake.set()

    url = settings.database.url.get_secret_value()
    listener = Listener(url, wake_loops, channels=("datarecs_wake",))
    return (listener,) if settings.live.notify else ()


def read_schedule(spec: Mapping[str, object]) -> Schedule:
    """The typed spec of a stored schedule."""
    schedule = decode_stored(Kind.SCHEDULE, "", spec)
    if not isinstance(schedule, Schedule):
        raise TypeError("a stored Schedule was read as another kind")
    return schedule


def read_policy(spec: Mapping[str, object]) -> RetentionPolicy:
    """The typed spec of a stored retention policy."""
    policy = decode_stored(Kind.RETENTION_POLICY, "", spec)
    if not isinstance(policy, RetentionPolicy):
        raise TypeError("a stored RetentionPolicy was read as another kind")
    return policy


def read_capture(spec: Mapping[str, object]) -> Capture:
    """The typed spec of a stored capture."""
    capture = decode_stored(Kind.CAPTURE, "", spec)
    if not isinstance(capture, Capture):
        raise TypeError("a stored Capture was read as another kind")
    return capture


def read_sink(spec: Mapping[str, object]) -> SinkTable:
    """The typed spec of a stored sink."""
    sink = decode_stored(Kind.SINK_TABLE, "", spec)
    if not isinstance(sink, SinkTable):
        raise TypeError("a stored SinkTable was read as another kind")
    return sink


def read_job(spec: Mapping[str, object]) -> ReconciliationJob:
    """The typed spec of a stored job, without its name."""
    return job_of("", spec)
