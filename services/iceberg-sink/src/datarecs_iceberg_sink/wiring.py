"""iceberg-sink, joined top to bottom: renewals, and slots with the processes of tasks."""

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from datarecs_application.loops.polling import Rhythm
from datarecs_application.observing import ObservedUnit
from datarecs_application.sinking.assignments import Assignments
from datarecs_application.sinking.backoffs import Backoffs
from datarecs_application.sinking.figures import HaltedTasks, SinkGauges
from datarecs_application.sinking.renewals import TaskRenewals
from datarecs_application.sinking.sharing import SlotSharing
from datarecs_application.sinking.task_session import END_LIMIT_S, STOP_LIMIT
from datarecs_application.sinking.tasks import SinkSlot
from datarecs_core.resources.connection import Connection
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.definition import SinkTable
from datarecs_events.catalogue import Service
from datarecs_iceberg_sink.settings import Settings
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.listener import Listener
from datarecs_postgres.server_checks import start_checks
from datarecs_postgres.session import Woken, concerns
from datarecs_postgres.sink_leases import PostgresSinkLeases
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_runtime.child import PipedChild
from datarecs_runtime.child_surroundings import surroundings_frame, template_environment
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids
from datarecs_runtime.forked_child import ChildTemplate
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.process import Process
from datarecs_runtime.scratch import ScratchFolder
from datarecs_runtime.secrets import TenantSecrets
from datarecs_runtime.tracing import tracing_of
from datarecs_specs.documents import decode_stored

TASK = "datarecs_iceberg_sink.task_child"
GRACE = STOP_LIMIT + timedelta(seconds=END_LIMIT_S) + timedelta(seconds=10)
"""Tasks have their time to vote and to end, and leases to be released."""


def build(settings: Settings) -> Process:
    """Everything this process runs; opens connections lazily."""
    clock, metrics, ids = SystemClock(), PrometheusMetrics(), UuidV7Ids()
    url = settings.database.url.get_secret_value()
    database = Database(
        url,
        limits=Limits(pool_size=settings.database.pool_size),
        notify=settings.live.notify,
        application=Service.ICEBERG_SINK,
    )
    pulse = Database(url, limits=Limits(pool_size=1), application="renewals")
    tracing = tracing_of(settings.otel, Service.ICEBERG_SINK)
    unit = ObservedUnit(
        unit=PostgresUnitOfWork(database, ids), metrics=metrics, clock=clock, tracing=tracing
    )
    scratch = ScratchFolder(settings.sink.scratch_dir, setting="DATARECS_SINK__SCRATCH_DIR")
    template = task_template(scratch.of_template)
    renewals = TaskRenewals(
        leases=PostgresSinkLeases(pulse, ids), clock=clock, metrics=metrics, wake=Latch()
    )
    leases = PostgresSinkLeases(database, ids)
    backoffs = Backoffs(leases=leases, renewals=renewals, clock=clock)
    parts = _Parts(
        leases=leases,
        renewals=renewals,
        sharing=_sharing(settings, backoffs),
        backoffs=backoffs,
        assignments=Assignments(
            unit=unit,
            secrets=TenantSecrets.of(settings.secrets, settings.profile),
            sink_of=sink_of,
            connection_of=connection_of,
        ),
        template=template,
        clock=clock,
        gauges=SinkGauges(metrics),
    )
    slots = _slots(settings, parts)
    halted = HaltedTasks(leases=leases, metrics=metrics, clock=clock)
    return Process(
        name=Service.ICEBERG_SINK,
        loops=(
            *_listening(settings, url, slots, renewals),
            renewals,
            parts.sharing,
            backoffs,
            halted,
            *slots,
        ),
        ready_when={"database": database.ready},
        start_checks=(
            scratch.claim,
            *start_checks((database,), settings.profile, now=clock.now),
        ),
        wakes=[*(slot.rhythm.wake for slot in slots), renewals.wake],
        closing=(database.close, pulse.close, tracing.close, template.close, scratch.release),
        grace=GRACE,
        side=settings.side,
        metrics=metrics,
    )


def _sharing(settings: Settings, backoffs: Backoffs) -> SlotSharing:
    return SlotSharing(
        leases=backoffs.leases,
        renewals=backoffs.renewals,
        executor=f"{socket.gethostname()}/{os.getpid()}",
        slots=settings.sink.max_tasks,
        clock=backoffs.clock,
        paused=backoffs.paused,
    )


def task_template(home: Path) -> ChildTemplate:
    """Forks the processes of tasks; it knows no setting of the platform."""
    return ChildTemplate(
        [sys.executable, "-m", TASK],
        # Arrow's own allocator holds twice the bytes of the many small buffers of a task.
        template_environment(home) | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
        limit="DATARECS_SINK__MAX_TASKS",
    )


def sink_of(name: str, spec: Mapping[str, object]) -> SinkTable:
    """The typed spec of a stored SinkTable. Raises InvalidSpecError."""
    sink = decode_stored(Kind.SINK_TABLE, name, spec)
    if not isinstance(sink, SinkTable):
        raise TypeError("the shape of a SinkTable builds SinkTables")
    return sink


def connection_of(name: str, spec: Mapping[str, object]) -> Connection:
    """The typed spec of a stored Connection. Raises InvalidSpecError."""
    connection = decode_stored(Kind.CONNECTION, name, spec)
    if not isinstance(connection, Connection):
        raise TypeError("the shape of a Connection builds Connections")
    return connection


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What the slots of a process share."""

    leases: PostgresSinkLeases
    renewals: TaskRenewals
    sharing: SlotSharing
    backoffs: Backoffs
    assignments: Assignments
    template: ChildTemplate
    clock: SystemClock
    gauges: SinkGauges


def _slots(settings: Settings, parts: _Parts) -> list[SinkSlot]:
    """One per task at the same time."""
    frame = surroundings_frame(settings, settings.sink.scratch_dir)
    scratch = settings.sink.scratch_dir.absolute()
    return [
        SinkSlot(
            name=f"slot_{number}",
            executor=f"{socket.gethostname()}/{os.getpid()}/{number}",
            leases=parts.leases,
            renewals=parts.renewals,
            assignments=parts.assignments,
            make=partial(PipedChild, TASK, parts.template.fork),
            surroundings={**frame, "directory": str(scratch / f"child-{number}")},
            ids=UuidV7Ids(),
            rhythm=Rhythm(clock=parts.clock, wake=Latch()),
            gauges=parts.gauges,
            backoffs=parts.backoffs,
            handed=parts.sharing.take,
        )
        for number in range(settings.sink.max_tasks)
    ]


def _listening(
    settings: Settings, url: str, slots: Sequence[SinkSlot], renewals: TaskRenewals
) -> tuple[Listener, ...]:
    """Wakes slots and renewals when another thing is wished of a sink."""
    wakes = [*(slot.rhythm.wake for slot in slots), renewals.wake]

    def wake_loops(_channel: str, payload: str) -> None:
        for wake in wakes if concerns(payload, Woken.SINKS) else ():
            wake.set()

    listener = Listener(url, wake_loops, channels=("datarecs_wake",))
    return (listener,) if settings.live.notify else ()
