"""The commands of a workflow's pods: `execute` one run, and `finish`, which reports how it ended.

`execute` is a worker with one slot and one run: it claims the lease that the run-controller
reserved and leaves a result file. `finish` runs after it, whatever became of it, and only it writes
the end. Both get the run as options and everything else as settings.
"""

import argparse
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from datetime import timedelta
from enum import IntEnum
from typing import TypeVar
from uuid import UUID

import structlog

from datarecs_application.attempt_ends import ResultUpload
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.loops.heartbeat import Heartbeat
from datarecs_application.observing import ObservedUnit
from datarecs_application.ports.state import LeasedRun
from datarecs_application.workflow_runs import (
    UNLIMITED,
    Assignment,
    WorkflowEnd,
    claim_run,
    report_workflow_end,
)
from datarecs_core.catalog.layout import result_file
from datarecs_core.errors.process import ScratchInUseError, SettingsError
from datarecs_core.errors.storage import BlobNotFoundError, BlobStoreUnavailableError
from datarecs_core.runs.events import RunCompleted
from datarecs_core.runs.result_file import MAX_BYTES
from datarecs_core.values import RunId, TenantId
from datarecs_events.catalogue import Service
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_reconciliation_worker.settings import Settings
from datarecs_reconciliation_worker.wiring import SlotParts, supervisor, warm_child
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids
from datarecs_runtime.environment import process_environment
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.scratch import ScratchFolder
from datarecs_runtime.tracing import tracing_of
from datarecs_storage.opening import open_blob_stores

log = structlog.get_logger()

PATIENCE = timedelta(seconds=120)
"""How long a pod waits for the database or the blob store; then the platform's repair decides."""
STATUS, FAILURES = "WORKFLOW_STATUS", "WORKFLOW_FAILURES"
"""Variables that the template fills with `{{workflow.status}}` and `{{workflow.failures}}`."""
MOST_ATTEMPTS = 2**31 - 1

_MAY_PASS = (
    StoreUnavailableError,
    StoreBusyError,
    BlobStoreUnavailableError,
    ScratchInUseError,
)
T = TypeVar("T")


class Exit(IntEnum):
    """Exit codes of `execute`; the exit handler reads the result file, a person these."""

    COMPLETED = 0
    """The run has a verdict, MATCHED or UNMATCHED."""
    ERRORED = 1
    """The run has no verdict; the result file says why."""
    REFUSED = 75
    """Nothing was done or reported: the run was stopped, has ended, or belongs to another pod."""


def execute(settings: Settings, arguments: Sequence[str]) -> int:
    """Execute the run of the options; a member of `Exit`."""
    assignment = read_options("execute", arguments)
    stop = Latch()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    # A workflow is stopped on purpose, and Argo waits 30 s: nothing is drained.
    worker = settings.worker.model_copy(update={"drain_s": 0})
    with _ids_in_logs("execute", arguments):
        return _Execution(settings.model_copy(update={"worker": worker}), assignment).run(stop)


def finish(settings: Settings, arguments: Sequence[str]) -> int:
    """Report how the workflow ended. Always 0: a failure here must not hide the workflow's own.

    A run whose end is not reported is closed by the platform's repair within about three minutes.
    """
    assignment = read_options("finish", arguments)
    with _ids_in_logs("finish", arguments):
        try:
            database = Database(
                settings.database.url.get_secret_value(),
                limits=Limits(pool_size=1),
                application=Service.RECONCILIATION_WORKER,
            )
            with closing(database):
                patiently(SystemClock(), database.refuse_unsafe_login)
                _finish(settings, assignment, PostgresUnitOfWork(database, UuidV7Ids()))
        except Exception:  # the exit handler's entry: whatever it was, repair closes the run
            log.exception("finish_failed")
    return 0


def read_options(command: str, arguments: Sequence[str]) -> Assignment:
    """Raises SettingsError with the option that is missing or wrong."""
    options = _parsed(command, arguments)
    return Assignment(
        tenant_id=TenantId(options.tenant_id),
        run_id=RunId(options.run_id),
        attempt=options.attempt,
        lease_epoch=options.lease_epoch,
    )


def _ids_in_logs(command: str, arguments: Sequence[str]) -> AbstractContextManager[object]:
    """Log lines of the block name the run, its job and its attempt."""
    options = _parsed(command, arguments)
    return structlog.contextvars.bound_contextvars(
        tenant_id=str(options.tenant_id),
        run_id=str(options.run_id),
        job_id=str(options.job_id),
        attempt=options.attempt,
    )


def _parsed(command: str, arguments: Sequence[str]) -> argparse.Namespace:
    parser = _Options(prog=f"datarecs-reconciliation-worker {command}", add_help=False)
    for name in ("run-id", "job-id", "tenant-id"):
        parser.add_argument(f"--{name}", type=UUID, required=True)
    for name in ("attempt", "lease-epoch"):
        parser.add_argument(f"--{name}", type=_number, required=True)
    return parser.parse_args(list(arguments))


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]  # raises, so it never returns
        raise SettingsError((f"{self.prog}: {message}",))


def _number(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MOST_ATTEMPTS:
        raise ValueError(text)
    return number


class _Execution:
    """The parts of one execution, and their order."""

    def __init__(self, settings: Settings, assignment: Assignment) -> None:
        self._settings, self._assignment = settings, assignment
        self._clock, self._metrics = SystemClock(), PrometheusMetrics()
        url = settings.database.url.get_secret_value()
        self._database = Database(
            url, limits=Limits(pool_size=2), application=Service.RECONCILIATION_WORKER
        )
        patiently(self._clock, self._database.refuse_unsafe_login)
        self._pulse = Database(url, limits=Limits(pool_size=1), application="heartbeat")
        self._beat_now = Latch()
        self._scratch = ScratchFolder(settings.worker.scratch_dir)
        patiently(self._clock, self._scratch.claim)

    def run(self, stop: Latch) -> Exit:
        settings, ids = self._settings, UuidV7Ids()
        tracing = tracing_of(settings.otel, Service.RECONCILIATION_WORKER)
        blobs = open_blob_stores(settings.blob.url, **settings.blob.store_options())
        upload = ResultUpload(blobs=blobs)
        heartbeat = self._heartbeat()
        shared = SlotParts(
            unit=ObservedUnit(
                unit=PostgresUnitOfWork(self._database, ids),
                metrics=self._metrics,
                clock=self._clock,
                tracing=tracing,
            ),
            finder=PostgresWorkFinder(self._database, lease_ttl=UNLIMITED),
            blobs=blobs,
            scratch=self._scratch,
            heartbeat=heartbeat,
            clock=self._clock,
            ids=ids,
            metrics=self._metrics,
            tracing=tracing,
            reporter=upload,
        )
        ended = Latch()
        beating = threading.Thread(
            target=heartbeat.run, args=(ended,), name="heartbeat", daemon=True
        )
        try:
            beating.start()
            self._supervise(shared, stop)
        finally:
            ended.set()
            self._beat_now.set()
            beating.join()
            databases = self._database.close, self._pulse.close
            for close in (*databases, tracing.close, self._scratch.release):
                close()
        if upload.reported is None:
            return Exit.REFUSED
        return Exit.COMPLETED if isinstance(upload.reported, RunCompleted) else Exit.ERRORED

    def _supervise(self, shared: SlotParts, stop: Latch) -> None:
        holder = f"{socket.gethostname()}/execute"

        def claim() -> LeasedRun | None:
            with shared.unit.begin(self._assignment.tenant_id) as tx:
                return claim_run(tx, self._assignment, holder=holder)

        leased = patiently(self._clock, claim)
        if leased is None:
            log.warning("claim_refused", lease_epoch=self._assignment.lease_epoch)
            return
        child = warm_child(self._settings, self._clock, self._scratch.child(0))
        try:
            slot = supervisor(self._settings, shared, slot=0, child=child, wake=Latch())
            slot.supervise(leased, stop)
        finally:
            child.end()

    def _heartbeat(self) -> Heartbeat:
        """It never gives the run up: only the database can say that the lease is gone."""
        return Heartbeat(
            finder=PostgresWorkFinder(self._pulse, lease_ttl=UNLIMITED),
            clock=self._clock,
            metrics=self._metrics,
            every=self._settings.queue.lease_ttl / 3,
            wake=self._beat_now,
        )


def _finish(settings: Settings, assignment: Assignment, unit: PostgresUnitOfWork) -> None:
    variables, clock = process_environment(), SystemClock()
    file = patiently(clock, lambda: _uploaded(settings, assignment))
    ended = WorkflowEnd(
        status=variables.get(STATUS, ""), failures=variables.get(FAILURES, ""), file=file
    )

    def report() -> str | None:
        with unit.begin(assignment.tenant_id, feed=8) as tx:
            return report_workflow_end(tx, assignment, ended, base_url=settings.base_url)

    end = patiently(clock, report)
    if end is None:
        log.info("end_not_reported", why="the lease is gone: the run has ended or was reported")
    else:
        log.info("run_classified", end=end, workflow_status=ended.status)


def _uploaded(settings: Settings, assignment: Assignment) -> bytes | None:
    """The result file; a larger one than allowed is cut, so that it is refused as too large."""
    blobs = open_blob_stores(settings.blob.url, **settings.blob.store_options()).of(
        assignment.tenant_id
    )
    key = result_file(assignment.tenant_id, assignment.run_id, assignment.attempt)
    try:
        return blobs.get(key)[: MAX_BYTES + 1]
    except BlobNotFoundError:
        return None


def patiently(clock: SystemClock, act: Callable[[], T]) -> T:
    """Repeat while database, blob store or scratch folder are away, at most for `PATIENCE`."""
    ends = clock.monotonic() + PATIENCE.total_seconds()
    while True:
        try:
            return act()
        except _MAY_PASS as cause:
            if clock.monotonic() >= ends:
                raise
            log.warning("store_waits", code=cause.code.name)
            clock.wait(timedelta(seconds=1))
