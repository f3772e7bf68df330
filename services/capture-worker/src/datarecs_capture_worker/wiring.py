"""The capture-worker, joined top to bottom: renewals, slots with their children, and upkeep."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from datarecs_application.capturing.control import LocalControl
from datarecs_application.capturing.renewals import WorkRenewals
from datarecs_application.capturing.upkeep import (
    INTERVAL,
    REMOVAL_INTERVAL,
    Upkeep,
    UpkeepLoop,
)
from datarecs_application.capturing.working import WorkSlot
from datarecs_application.loops.polling import Rhythm
from datarecs_application.observing import ObservedUnit
from datarecs_application.ports.outside import BlobStores
from datarecs_application.ports.state import UnitOfWork
from datarecs_capture_worker.remote_wiring import build_remote
from datarecs_capture_worker.settings import Settings
from datarecs_capture_worker.slots import (
    GRACE,
    SlotParts,
    child_template,
    enabled_kinds,
    work_slots,
)
from datarecs_events.catalogue import Service
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.listener import Listener
from datarecs_postgres.server_checks import start_checks
from datarecs_postgres.session import Woken, concerns
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids, random_fraction
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.process import Process
from datarecs_runtime.scratch import ScratchFolder
from datarecs_runtime.sections import Database as DatabaseSection
from datarecs_runtime.tracing import tracing_of
from datarecs_specs.documents import StoredSpecs
from datarecs_storage.opening import open_blob_stores


def build(settings: Settings) -> Process:
    """Everything this process runs; opens connections lazily."""
    if settings.database is None or settings.blob is None:  # in mode `remote`, by the settings
        return build_remote(settings)
    return _build_local(settings, settings.database, settings.blob)


def _build_local(settings: Settings, login: DatabaseSection, blob: Blob) -> Process:
    clock, metrics = SystemClock(), PrometheusMetrics()
    url = login.url.get_secret_value()
    database = Database(
        url,
        limits=Limits(pool_size=login.pool_size),
        notify=settings.live.notify,
        application=Service.CAPTURE_WORKER,
    )
    pulse = Database(url, limits=Limits(pool_size=1), application="renewals")
    tracing = tracing_of(settings.otel, Service.CAPTURE_WORKER)
    parts = _Parts(
        unit=ObservedUnit(
            unit=PostgresUnitOfWork(database, UuidV7Ids()),
            metrics=metrics,
            clock=clock,
            tracing=tracing,
        ),
        finder=PostgresWorkFinder(database),
        blobs=open_blob_stores(blob.url, **blob.store_options()),
        clock=clock,
        metrics=metrics,
    )
    pulse_unit = PostgresUnitOfWork(pulse, UuidV7Ids())
    renewals = WorkRenewals(
        control=_control(parts, pulse_unit, PostgresWorkFinder(pulse)),
        clock=clock,
        metrics=metrics,
        wake=Latch(),
    )
    scratch = ScratchFolder(settings.worker.scratch_dir)
    template = child_template(scratch)
    slots = work_slots(
        settings,
        enabled_kinds(settings.executor),
        SlotParts(
            control=_control(parts, parts.unit, parts.finder),
            renewals=renewals,
            scratch=scratch,
            metrics=metrics,
            template=template,
        ),
    )
    upkeep = _upkeep(parts)
    wakes = [*(slot.rhythm.wake for slot in slots), *(loop.rhythm.wake for loop in upkeep)]
    return Process(
        name=Service.CAPTURE_WORKER,
        loops=(*_listening(settings, url, slots, upkeep, renewals), renewals, *slots, *upkeep),
        ready_when={"database": database.ready, "blobs": parts.blobs.ready},
        start_checks=(
            scratch.claim,
            *start_checks((database,), settings.profile, now=clock.now),
            parts.blobs.check_create_only,
        ),
        wakes=[*wakes, renewals.wake],
        closing=(database.close, pulse.close, tracing.close, template.close, scratch.release),
        grace=GRACE,
        side=settings.side,
        metrics=metrics,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What the loops of a process share."""

    unit: UnitOfWork
    finder: PostgresWorkFinder
    blobs: BlobStores
    clock: SystemClock
    metrics: PrometheusMetrics


def _control(parts: _Parts, unit: UnitOfWork, finder: PostgresWorkFinder) -> LocalControl:
    return LocalControl(
        unit=unit,
        finder=finder,
        blobs=parts.blobs,
        decode=StoredSpecs(),
        ids=UuidV7Ids(),
        clock=parts.clock,
        jitter=lambda: 0.5 + 0.5 * random_fraction(),
    )


def _upkeep(parts: _Parts) -> tuple[UpkeepLoop, UpkeepLoop, UpkeepLoop]:
    def rhythm(idle: timedelta) -> Rhythm:
        return Rhythm(clock=parts.clock, wake=Latch(), idle=idle)

    use = Upkeep(
        unit=parts.unit,
        finder=parts.finder,
        blobs=parts.blobs,
        rhythm=rhythm(INTERVAL),
        metrics=parts.metrics,
    )
    return (
        UpkeepLoop(name="reclaim", step=use.reclaim, rhythm=rhythm(INTERVAL)),
        UpkeepLoop(name="cancels", step=use.follow_cancels, rhythm=rhythm(INTERVAL)),
        UpkeepLoop(name="removal", step=use.remove_old, rhythm=rhythm(REMOVAL_INTERVAL)),
    )


def _listening(
    settings: Settings,
    url: str,
    slots: Sequence[WorkSlot],
    upkeep: Sequence[UpkeepLoop],
    renewals: WorkRenewals,
) -> tuple[Listener, ...]:
    """Wakes slots for new work, and renewals and cancels for a capture that shall stop."""
    _, cancels, _ = upkeep
    working = [slot.rhythm.wake for slot in slots]
    cancelling = [renewals.wake, cancels.rhythm.wake]

    def wake_loops(_channel: str, payload: str) -> None:
        for wake in working if concerns(payload, Woken.WORK) else ():
            wake.set()
        for wake in cancelling if concerns(payload, Woken.CANCELS) else ():
            wake.set()

    listener = Listener(url, wake_loops, channels=("datarecs_wake",))
    return (listener,) if settings.live.notify else ()
