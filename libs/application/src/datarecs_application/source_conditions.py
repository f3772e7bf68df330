"""Checks that controllers request, and the controller of Connection, which reports their results.

A worker makes the check and makes its object due again in the transaction of the result.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from datarecs_application.ports.checks import ResourceCheck
from datarecs_application.ports.resources import JobsUsing
from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_application.resources import using_jobs
from datarecs_core.resources.check_conditions import connection_conditions
from datarecs_core.resources.checks import CheckResult
from datarecs_core.resources.conditions import (
    Condition,
    ConditionType,
    Truth,
    conditions_of,
    is_false,
)
from datarecs_core.resources.reconciling import (
    IN_USE,
    Result,
    finalized,
    reconcile_request,
    requeue_after,
)
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource

CHECK_EVERY = timedelta(minutes=15)
"""Of connections, and of jobs that are not valid: servers, secrets and grants change outside."""

Every = Callable[[CheckResult | None], timedelta]
"""How old a result may become."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The newest result about the current declaration, and when to check again."""

    result: CheckResult | None
    next_check: timedelta


def check_again(tx: Transaction, resource: Resource, *, subject: str, every: Every) -> Checked:
    """Request a check if its subject has changed or its result is old; repeatable.

    Args:
        tx: of the resource's tenant.
        resource: a connection or job.
        subject: everything whose change needs a new check.
        every: age at which a result is checked again.
    """
    check = tx.checks.get(resource.uid)
    result = _current(check, resource)
    left = every(result)
    if check is None or check.subject != subject:
        tx.checks.request(resource.uid, subject=subject)
    elif check.due_at is None and check.checked_at is not None:
        left = check.checked_at + left - tx.now
        if left <= timedelta():
            tx.checks.request(resource.uid, subject=subject)
            left = every(result)
    return Checked(result, left)


def _current(check: ResourceCheck | None, resource: Resource) -> CheckResult | None:
    if check is None or check.checked_generation != resource.generation:
        return None
    return check.result


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionController:
    """The controller of Connection."""

    unit: UnitOfWork
    kind: Kind = Kind.CONNECTION
    resync: timedelta = CHECK_EVERY
    finalizer: str = IN_USE

    def reconcile(self, resource: Resource) -> Result:
        """Reachable, CredentialsValid, SchemaReadable and Ready, as the last check saw them.

        Jobs of a connection that works again are due, since their checks failed with it.
        """
        subject = f"{resource.generation} {reconcile_request(resource)}"
        with self.unit.begin(resource.tenant_id) as tx:
            checked = check_again(tx, resource, subject=subject, every=lambda _: CHECK_EVERY)
            conditions = connection_conditions(checked.result)
            fails = any(
                one.type == ConditionType.READY and one.status is Truth.FALSE for one in conditions
            )
            if fails != is_failing(resource) and resource.namespace == DEFAULT_NAMESPACE:
                tx.resource_work.reconcile_jobs_using(resource.name)
        return requeue_after(checked.next_check, *conditions)

    def finalize(self, resource: Resource) -> Result:
        """Jobs use a deleted connection until the last of them is gone or names another one."""
        with self.unit.begin(resource.tenant_id, read_only=True) as tx:
            using = using_jobs(tx, resource)
        if not using.total:
            return finalized(self.finalizer)
        result = self.reconcile(resource)
        return replace(result, conditions=(*result.conditions, _blocked(using)))


def _blocked(using: JobsUsing) -> Condition:
    """Why the deletion of a connection waits."""
    names = [
        name if namespace == DEFAULT_NAMESPACE else f"{namespace}/{name}"
        for namespace, name in using.first
    ]
    rest = f" and {using.total - len(names)} more" if using.total > len(names) else ""
    noun, them = ("job", "it") if using.total == 1 else ("jobs", "them")
    return Condition(
        type=ConditionType.DELETION_BLOCKED,
        status=Truth.TRUE,
        reason="InUse",
        message=f"{using.total} {noun} read from this connection: {', '.join(names)}{rest};"
        f" delete {them}, or name another connection in {them}",
    )


def is_failing(connection: Resource) -> bool:
    """Whether its last check failed, as it is stored."""
    return is_false(conditions_of(connection.status), ConditionType.READY)
