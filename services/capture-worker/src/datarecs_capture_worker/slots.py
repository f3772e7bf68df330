"""The slots of a worker and their children: the same in both modes."""

import os
import socket
import sys
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from datarecs_application.capturing.child_work import DRAIN, ChildWork
from datarecs_application.capturing.renewals import WorkRenewals
from datarecs_application.capturing.working import WorkSlot, kinds_of_slots
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.capturing import CaptureControl, ClaimRequest
from datarecs_capture_worker.settings import Settings
from datarecs_core.captures.items import WorkKind
from datarecs_runtime.capture_sections import Executor
from datarecs_runtime.child import PipedChild
from datarecs_runtime.child_surroundings import surroundings_frame, template_environment
from datarecs_runtime.clock import Latch, SystemClock
from datarecs_runtime.forked_child import ChildTemplate
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.scratch import ReportFolder, ScratchFolder
from datarecs_runtime.secrets import TenantSecrets

CHILD = "datarecs_capture_worker.capture_child"
GRACE = DRAIN + timedelta(seconds=20)
"""A child has its time to end, and its report time to be stored."""


def enabled_kinds(executor: Executor) -> tuple[WorkKind, ...]:
    """The kinds of work that the settings allow."""
    kinds = {
        WorkKind.PLAN_CONNECTOR: executor.planner,
        WorkKind.PLAN_TABLE: executor.default,
        WorkKind.PLAN_VIEW: executor.default,
        WorkKind.PLAN_SNAPSHOT: executor.snapshot_planner,
        WorkKind.EXEC_FILE_GROUP: executor.file_group,
        WorkKind.FINALIZE_SNAPSHOT_CAPTURE: executor.snapshot_finalize,
    }
    return tuple(kind for kind, setting in kinds.items() if setting.enabled)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotParts:
    """What the slots of a process share."""

    control: CaptureControl
    renewals: WorkRenewals
    scratch: ScratchFolder
    metrics: PrometheusMetrics
    template: ChildTemplate
    """Forks the children of all slots."""


def child_template(scratch: ScratchFolder) -> ChildTemplate:
    return ChildTemplate([sys.executable, "-m", CHILD], template_environment(scratch.of_template))


def work_slots(
    settings: Settings, enabled: Collection[WorkKind], parts: SlotParts
) -> list[WorkSlot]:
    """One slot per item at the same time, each with a child and a folder."""
    clock = SystemClock()
    secrets = TenantSecrets.of(settings.secrets, settings.profile)
    frame = surroundings_frame(settings, settings.worker.scratch_dir)
    kinds = kinds_of_slots(enabled, slots=settings.worker.max_parallelism)
    slots = []
    for number, slot_kinds in enumerate(kinds):
        folder = parts.scratch.child(number)
        child = ChildWork(
            make=partial(PipedChild, CHILD, parts.template.fork),
            folder=ReportFolder(folder),
            secrets=secrets,
            surroundings=frame,
            clock=clock,
            memory_bytes=settings.worker.child_memory_mb * 1024 * 1024,
        )
        executor = f"{socket.gethostname()}/{os.getpid()}/{number}"
        slots.append(
            WorkSlot(
                name=f"slot_{number}",
                control=parts.control,
                renewals=parts.renewals,
                request=ClaimRequest(
                    executor=executor,
                    kinds=tuple(sorted(slot_kinds)),
                    lanes=settings.worker.lanes,
                    execution_classes=settings.worker.execution_classes,
                ),
                child=child,
                metrics=parts.metrics,
                rhythm=Rhythm(clock=clock, wake=Latch()),
            )
        )
    return slots
