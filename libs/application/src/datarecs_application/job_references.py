"""Whether a job can run: for its controller, and before a run starts.

Runs of every namespace find their connections in the default one (`assignments`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from datarecs_application.controllers import Snapshot, unreadable
from datarecs_application.ports.state import Transaction
from datarecs_application.source_conditions import CHECK_EVERY, check_again, is_failing
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.hashing import JsonValue, canonical_json, sha256_hex
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.resources.check_conditions import valid_condition
from datarecs_core.resources.checks import Cause, CheckResult
from datarecs_core.resources.conditions import (
    Condition,
    ConditionType,
    Truth,
    conditions_of,
    is_current,
    is_false,
)
from datarecs_core.resources.reconciling import (
    RESYNC,
    Result,
    reconcile_request,
    requeue_after,
    success,
)
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource

_NAMED = 5
"""Connections named in a message; further ones are counted."""
ConnectionOf = Callable[[str], Resource | None]
"""The connection of a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobController:
    """The controller of ReconciliationJob."""

    jobs: StoredSpecs[ReconciliationJob]
    kind: Kind = Kind.RECONCILIATION_JOB
    resync: timedelta = RESYNC

    def reconcile(self, seen: Snapshot, resource: Resource) -> Result:
        """Valid, ReferencesResolved and Ready."""
        if self.jobs.of(resource) is None:
            return unreadable(resource)
        fault = reference_fault(seen.connection, resource)
        if fault is not None:
            return _unresolved(fault)
        subject = _subject(seen.connection, resource)
        checked = check_again(seen, resource, subject=subject, every=_longest_validity)
        used = [seen.connection(name) for name in connection_names(resource.spec)]
        valid = valid_condition(checked.result)
        result = requeue_after(
            checked.next_check,
            valid,
            _resolved(used),
            replace(valid, type=ConditionType.READY),
        )
        return replace(result, check=checked.request)


def _unresolved(fault: str) -> Result:
    """Sources of a connection that does not exist cannot be checked."""
    missing = "ConnectionMissing"
    return success(
        Condition(type=ConditionType.VALID, status=Truth.UNKNOWN, reason=missing, message=fault),
        _condition(ConditionType.REFERENCES_RESOLVED, missing, fault),
        _condition(ConditionType.READY, missing, fault),
    )


def _subject(connection_of: ConnectionOf, job: Resource) -> str:
    """A job is checked again when it or a connection changes, or one fails or recovers."""
    parts: list[JsonValue] = [job.generation, reconcile_request(job)]
    for name in connection_names(job.spec):
        one = connection_of(name)
        if one is not None:
            parts += [str(one.uid), one.generation, is_failing(one)]
    return sha256_hex(canonical_json(parts))


def _longest_validity(result: CheckResult | None) -> timedelta:
    """What is wrong may be corrected in the sources, where nothing reports it.

    A check that did not end would take its whole time again.
    """
    if result is None:
        return CHECK_EVERY
    failure = result.first_failure()
    return RESYNC if failure is None or failure.cause is Cause.CHECK else CHECK_EVERY


def _condition(name: ConditionType, reason: str, fault: str = "") -> Condition:
    return Condition(type=name, status=Truth.of(not fault), reason=reason, message=fault)


def reference_fault(connection_of: ConnectionOf, job: Resource) -> str | None:
    """Which connections of the job a run would not find, and what to do; None if it finds all."""
    faults = [
        fault
        for name in connection_names(job.spec)
        if (fault := _connection_fault(connection_of(name), name)) is not None
    ]
    if not faults:
        return None
    rest = f"; {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
    return "; ".join(faults[:_NAMED]) + rest


def connection_names(spec: Mapping[str, object]) -> tuple[str, ...]:
    """The connections that the sources of a stored job name, each once."""
    sources = spec.get("sources")
    names = (
        one.get("connection")
        for one in (sources if isinstance(sources, list | tuple) else ())
        if isinstance(one, Mapping)
    )
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def _connection_fault(connection: Resource | None, name: str) -> str | None:
    if connection is None:
        return (
            f"connection {name} does not exist in namespace {DEFAULT_NAMESPACE};"
            " apply it, or name another one in the job"
        )
    return None


def _resolved(connections: Iterable[Resource | None]) -> Condition:
    """A deleted connection can be used until its last job is gone; the job says that it waits."""
    dying = [one.name for one in connections if one and one.deletion_at is not None]
    if not dying:
        return _condition(ConditionType.REFERENCES_RESOLVED, "AllResolved")
    return Condition(
        type=ConditionType.REFERENCES_RESOLVED,
        status=Truth.TRUE,
        reason="ConnectionBeingDeleted",
        message=f"connection {dying[0]} is being deleted, which waits for this job; name another"
        " connection in the job, or delete the job",
    )


def start_refusal(tx: Transaction, job: Resource) -> str | None:
    """Why a run of the job cannot succeed, as its controller reported; None if it may start.

    Only a status of the current declaration counts. A connection that was applied after the status
    was written is no reason, so the references are checked again here.
    """
    if not is_current(job):
        return None
    conditions = conditions_of(job.status)
    if is_false(conditions, ConditionType.VALID):
        return conditions[ConditionType.VALID].message
    if is_false(conditions, ConditionType.REFERENCES_RESOLVED):
        return reference_fault(
            lambda name: tx.resources.get(Kind.CONNECTION, DEFAULT_NAMESPACE, name), job
        )
    return None
