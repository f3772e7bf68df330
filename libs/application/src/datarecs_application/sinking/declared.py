"""The controller of SinkTable: what the tasks of a sink shall do, and how they are doing.

The wish and the status are one transaction under the lease of the object. The service iceberg-sink
carries the wish out; a deletion waits until the tasks have committed what they read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from datarecs_application.controllers import Snapshot, unreadable
from datarecs_application.sinking.proofs import read_proofs
from datarecs_application.sinking.references import (
    ReferenceFault,
    connection_fault,
    reference_fault,
    revision,
)
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.resources.conditions import Condition, ConditionType, Truth
from datarecs_core.resources.proven_condition import (
    LAST_PROOFS,
    VerifyJob,
    last_proofs,
    missing_jobs,
    proven_condition,
)
from datarecs_core.resources.reconciling import (
    DRAIN_SINK,
    PAUSED,
    SKIP_DRAIN,
    Result,
    finalized,
    is_paused,
    requeue_after,
)
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.resources.sink_conditions import (
    failure_of,
    follow_uncommitted,
    has_begun,
    remedy_of,
    sink_conditions,
    sink_details,
    written_details,
    written_uncommitted,
)
from datarecs_core.sink.checkpoint import TaskWish
from datarecs_core.sink.declared import SinkStatus, SinkWish
from datarecs_core.sink.definition import SinkTable

FOLLOW_EVERY = timedelta(seconds=15)
"""How often the state of a sink is read, also whether another one has freed its tables."""
DRAIN_LIMIT = timedelta(hours=1)
"""After this time a deletion that waits for the last commit says what else can be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkController:
    """The controller of SinkTable."""

    sinks: StoredSpecs[SinkTable]
    jobs: StoredSpecs[ReconciliationJob]
    """Those that sinks name in `verify`."""
    kind: Kind = Kind.SINK_TABLE
    resync: timedelta = FOLLOW_EVERY
    finalizer: str = DRAIN_SINK

    def reconcile(self, seen: Snapshot, resource: Resource) -> Result:
        """Valid, ReferencesResolved, Ready, Committing, Lagging and Fenced, with the figures.

        Also Proven, of a sink with `verify`.
        """
        return self._observed(seen, resource, TaskWish.RUN)

    def pause(self, seen: Snapshot, resource: Resource) -> Result:
        """The tasks commit what they have read, then hold."""
        return self._observed(seen, resource, TaskWish.PAUSE)

    def finalize(self, seen: Snapshot, resource: Resource) -> Result:
        """The deletion waits for the last commit, unless nothing was ever committed."""
        stored = seen.tx.sinks.status(resource.uid)
        is_over = not has_begun(stored) or stored.state.is_drained
        if is_over or resource.annotations.get(SKIP_DRAIN) == "true":
            return finalized(self.finalizer)
        sink = self.sinks.of(resource)
        fault = _UNREADABLE if sink is None else connection_fault(seen, sink)
        result = self._reported(seen, resource, stored, fault)
        blocked = _blocked(seen, resource, stored, fault)
        result = replace(result, conditions=(*result.conditions, blocked))
        if sink is None or fault is not None:
            return result
        wish = SinkWish(
            tasks=sink.tasks, wish=TaskWish.DRAIN, revision=revision(seen, resource, sink)
        )
        return _wishing(result, stored, wish)

    def _observed(self, seen: Snapshot, resource: Resource, wish: TaskWish) -> Result:
        stored = seen.tx.sinks.status(resource.uid)
        sink = self.sinks.of(resource)
        if sink is None:
            return _stopped(_paused(resource, unreadable(resource)), stored)
        fault = reference_fault(seen, resource, sink)
        result = _paused(resource, self._reported(seen, resource, stored, fault))
        if fault is not None:
            return _stopped(result, stored)
        wished = SinkWish(tasks=sink.tasks, wish=wish, revision=revision(seen, resource, sink))
        return _wishing(result, stored, wished)

    def _reported(
        self,
        seen: Snapshot,
        resource: Resource,
        stored: SinkStatus,
        fault: ReferenceFault | None,
    ) -> Result:
        """Conditions and figures of this moment."""
        sink = self.sinks.of(resource)
        if sink is None:
            return unreadable(resource)
        before = written_uncommitted(resource.status)
        uncommitted = follow_uncommitted(before, stored, now=seen.now)
        proofs = read_proofs(seen, resource, sink, self.jobs)
        observed = (
            *sink_conditions(sink, stored, uncommitted, now=seen.now),
            *((proven_condition(sink, proofs),) if proofs else ()),
        )
        if fault is not None:
            others = (one for one in observed if one.type != ConditionType.READY)
            conditions = (_VALID, *fault.conditions(), *others)
        else:
            conditions = (_VALID, _resolved(proofs), *observed)
        ended = ((LAST_PROOFS, last_proofs(proofs)),) if proofs else ()
        figures = (*sink_details(stored, uncommitted), *ended)
        details = written_details(resource.status, conditions, figures, now=seen.now)
        result = requeue_after(FOLLOW_EVERY, *conditions, details=details)
        return replace(result, has_figures=True)


_UNREADABLE = ReferenceFault(
    reason="Unreadable", message="this release cannot read the stored declaration of the sink"
)
_VALID = Condition(type=ConditionType.VALID, status=Truth.TRUE, reason="Accepted")


def _resolved(proofs: Sequence[VerifyJob]) -> Condition:
    """A job that only proves the sink may be missing: its tasks run without it."""
    missing = missing_jobs(proofs)
    return Condition(
        type=ConditionType.REFERENCES_RESOLVED,
        status=Truth.TRUE,
        reason="VerifyJobMissing" if missing else "AllResolved",
        message=f"job {missing[0]} in verify does not exist, so nothing proves the sink yet"
        if missing
        else "",
    )


def _wishing(result: Result, stored: SinkStatus, wish: SinkWish) -> Result:
    return result if stored.wished == wish else replace(result, sink=wish)


def _stopped(result: Result, stored: SinkStatus) -> Result:
    """No task may run: what was read and not committed is read again later."""
    if stored.wished is None:
        return result
    return _wishing(result, stored, replace(stored.wished, tasks=0, wish=TaskWish.PAUSE))


def _paused(resource: Resource, result: Result) -> Result:
    if not is_paused(resource):
        return result
    condition = Condition(
        type=ConditionType.PAUSED,
        status=Truth.TRUE,
        reason="Annotated",
        message=f'the annotation {PAUSED} is "true": the sink commits what it has read and holds;'
        " remove it, or use `datarecs sink resume`",
    )
    return replace(result, conditions=(*result.conditions, condition))


def _blocked(
    seen: Snapshot, resource: Resource, stored: SinkStatus, fault: ReferenceFault | None
) -> Condition:
    """Why the deletion waits; what to do, once it is clear that it does not end by itself."""
    reason, message = "Draining", "the deletion waits for the last commit of what was read"
    failure = failure_of(stored)
    began = resource.deletion_at or seen.now
    if fault is not None:
        reason, message = fault.reason, f"no last commit is possible: {fault.message}"
    elif failure is not None:
        reason = "Halted" if failure.is_halted else "TaskFailed"
        what = "is possible" if failure.is_halted else "was possible so far"
        message = (
            f"no last commit {what}: {failure.error_code}: {failure.error.rstrip('.')}."
            f" {remedy_of(failure)}".rstrip()
        )
    elif seen.now - began >= DRAIN_LIMIT:
        reason, message = "DrainTimeout", f"{message}, and has for more than an hour"
    if reason != "Draining":
        message = (
            f"{message.rstrip('.')}. To delete it without the last commit, set its annotation"
            f' {SKIP_DRAIN} to "true"; what was read and not committed is then only in the topics'
        )
    return Condition(
        type=ConditionType.DELETION_BLOCKED, status=Truth.TRUE, reason=reason, message=message
    )
