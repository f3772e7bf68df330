"""Where the end of an attempt is reported, and under which condition it is still accepted.

A worker of the queue reports to the database under its lease. An execution of a workflow leaves a
result file instead, because the workflow's exit handler is the one that reports. Separate from
supervision, which is the same for both.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

import structlog

from datarecs_application.loops import Silent, StepSignals
from datarecs_application.ports.outside import BlobStores, Ids
from datarecs_application.ports.state import LeasedRun, Transaction, UnitOfWork
from datarecs_application.runs import release_run
from datarecs_core.catalog.layout import result_file
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.documents import to_document
from datarecs_core.runs.events import RunCompleted, RunEnd, RunErrored
from datarecs_core.runs.facts import Loss
from datarecs_core.runs.model import Run
from datarecs_core.runs.result_file import SCHEMA, ChildOutcome, ReportedNode
from datarecs_core.runs.retry import may_try_again

log = structlog.get_logger()

FEED_NUMBERS = 8
EXECUTION = "execution"
"""Name of the node with which an execution reports what its supervisor saw."""
REFUSED, UNCONFIRMED = "refused", "unconfirmed"


class FencedError(Exception):
    """The lease is lost: the child is stopped and nothing is written.

    `reason` is `refused` where the database refused, `unconfirmed` where it could not be reached in
    time.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """What a supervisor knows at the end of an attempt."""

    run: Run
    leased: LeasedRun
    end: RunEnd
    nodes: tuple[ReportedNode, ...]
    """Failed steps, as the child reported them."""
    pins: Mapping[str, object] | None
    never_began: bool
    """The child never became ready, so nothing of the run was begun."""


class EndReporter(Protocol):
    """Safe to repeat until it returns."""

    def report(self, ended: AttemptEnd) -> None:
        """Raises FencedError for a lease that is lost."""

    def release(self, leased: LeasedRun) -> None:
        """The process ends before the run does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseReporter:
    """EndReporter of the queue: one transaction with epoch, end and lease."""

    unit: UnitOfWork
    ids: Ids
    jitter: Callable[[], float]
    signals: StepSignals = field(default_factory=Silent)

    def report(self, ended: AttemptEnd) -> None:
        leased, end = ended.leased, ended.end
        with self.unit.begin(leased.tenant_id, feed=FEED_NUMBERS) as tx:
            run = tx.runs.for_update(leased.run_id)
            again = run is not None and _is_retried(run, ended, now=tx.now)
            is_ours = tx.leases.is_current if again else tx.leases.end_current
            if run is None or not is_ours(leased.run_id, leased.lease_epoch):
                raise FencedError(REFUSED)
            if again:
                loss = Loss.NOT_STARTED if ended.never_began else Loss.RETRIED
                release_run(tx, run, self.ids, loss=loss, jitter=self.jitter())
                log.info("attempt_given_back", loss=loss.value)
                return
            write_end(tx, run, end, pins=ended.pins)
            self.signals.reached("finish.in_tx")
            crash_point(CrashPoint.FINISH_IN_TX)
        self.signals.reached("finish.after_commit")
        crash_point(CrashPoint.FINISH_AFTER_COMMIT)
        log.info("run_classified", end=type(end).__name__)

    def release(self, leased: LeasedRun) -> None:
        with self.unit.begin(leased.tenant_id, feed=FEED_NUMBERS) as tx:
            run = tx.runs.for_update(leased.run_id)
            if run is not None and tx.leases.is_current(leased.run_id, leased.lease_epoch):
                release_run(tx, run, self.ids, loss=Loss.DRAINED, jitter=self.jitter())
        log.info("attempt_released")


@dataclass(slots=True, kw_only=True)
class ResultUpload:
    """EndReporter of a workflow's execution: the result file, where the exit handler reads it."""

    blobs: BlobStores
    reported: RunEnd | None = field(default=None, init=False)
    """What was reported; None before, and where the execution was stopped."""

    def report(self, ended: AttemptEnd) -> None:
        """The child's verdict and steps, and what only the supervisor saw."""
        run, leased = ended.run, ended.leased
        key = result_file(run.tenant_id, run.run_id, leased.attempt)
        self.blobs.of(run.tenant_id).put(key, json.dumps(_document(ended)).encode())
        self.reported = ended.end
        log.info("run_classified", end=type(ended.end).__name__)

    def release(self, leased: LeasedRun) -> None:
        """Nothing to return: the workflow's own words say why it was stopped."""
        log.info("attempt_stopped", lease_epoch=leased.lease_epoch)


def write_end(tx: Transaction, run: Run, end: RunEnd, *, pins: Mapping[str, object] | None) -> None:
    """The raw outcome; its lease has just been ended in this transaction."""
    if pins is not None:
        tx.runs.save(replace(run, pins=pins))
    tx.outbox.append(end, traceparent=run.traceparent)


def _is_retried(run: Run, ended: AttemptEnd, *, now: datetime) -> bool:
    """Nothing was begun, or the job retries this code; and the run's rules allow it."""
    if not isinstance(ended.end, RunErrored):
        return False
    execution = run.spec.get("execution")
    wanted = execution.get("retry_on", ()) if isinstance(execution, Mapping) else ()
    is_wanted = ended.never_began or ended.end.error.code.value in wanted
    return is_wanted and may_try_again(run, now=now)


def _document(ended: AttemptEnd) -> dict[str, object]:
    leased, end = ended.leased, ended.end
    document: dict[str, object] = {
        "schema": SCHEMA,
        "run_id": str(leased.run_id),
        "attempt": leased.attempt,
        "lease_epoch": leased.lease_epoch,
    }
    if ended.pins is not None:
        document["pins"] = ended.pins
    if isinstance(end, RunCompleted):
        document |= {"outcome": ChildOutcome.COMPLETED.value, "result": end.result.value}
        return document | ({} if end.summary is None else {"summary": to_document(end.summary)})
    seen = ReportedNode(
        name=EXECUTION,
        code=end.error.code.value,
        detail_code=end.error.detail_code,
        message=end.error.message,
    )
    nodes = [_node(node) for node in (*ended.nodes, seen)]
    return document | {"outcome": ChildOutcome.ERRORED.value, "nodes": nodes}


def _node(node: ReportedNode) -> dict[str, object]:
    content: dict[str, object] = {"name": node.name, "code": node.code, "message": node.message}
    return content if node.detail_code is None else {**content, "detail_code": node.detail_code}
