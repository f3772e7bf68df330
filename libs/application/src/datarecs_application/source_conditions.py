"""Checks that controllers request, and the controller of Connection, which reports their results.

A worker makes the check and makes its object due again in the transaction of the result.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from datarecs_application.controllers import Snapshot
from datarecs_application.ports.checks import ResourceCheck
from datarecs_application.ports.resources import ConnectionUser, ConnectionUsers
from datarecs_application.resources import users_of
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

_WORDS = {Kind.CAPTURE: "capture", Kind.SINK_TABLE: "sink"}
Every = Callable[[CheckResult | None], timedelta]
"""How old a result may become."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The newest result about the current declaration, and when to check again."""

    result: CheckResult | None
    next_check: timedelta
    request: str | None
    """Subject of the check that is due now, if one is."""


def check_again(seen: Snapshot, resource: Resource, *, subject: str, every: Every) -> Checked:
    """Which check is due: of a new subject, or because the result is old.

    Args:
        seen: of the resource's tenant.
        resource: a connection or job.
        subject: everything whose change needs a new check.
        every: age at which a result is checked again.
    """
    check = seen.checks.get(resource.uid)
    result = _current(check, resource)
    left = every(result)
    if check is None or check.subject != subject:
        return Checked(result, left, subject)
    age = _age(check, seen.now)
    if age is None or age < left:
        return Checked(result, left - (age or timedelta()), None)
    return Checked(result, left, subject)


def _age(check: ResourceCheck, now: datetime) -> timedelta | None:
    """Of the result; None while another check is requested, and before the first one."""
    if check.due_at is not None or check.checked_at is None:
        return None
    return now - check.checked_at


def _current(check: ResourceCheck | None, resource: Resource) -> CheckResult | None:
    if check is None or check.checked_generation != resource.generation:
        return None
    return check.result


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionController:
    """The controller of Connection."""

    kind: Kind = Kind.CONNECTION
    resync: timedelta = CHECK_EVERY
    finalizer: str = IN_USE

    def reconcile(self, seen: Snapshot, resource: Resource) -> Result:
        """Reachable, CredentialsValid, SchemaReadable and Ready, as the last check saw them.

        Jobs of a connection that works again are due, since their checks failed with it.
        """
        subject = f"{resource.generation} {reconcile_request(resource)}"
        checked = check_again(seen, resource, subject=subject, every=lambda _: CHECK_EVERY)
        conditions = connection_conditions(checked.result)
        fails = any(
            one.type == ConditionType.READY and one.status is Truth.FALSE for one in conditions
        )
        is_news = fails != is_failing(resource) and resource.namespace == DEFAULT_NAMESPACE
        result = requeue_after(checked.next_check, *conditions)
        return replace(result, check=checked.request, makes_users_due=is_news)

    def finalize(self, seen: Snapshot, resource: Resource) -> Result:
        """Users of a deleted connection are waited for until they are gone or name another one."""
        users = users_of(seen.tx, resource)
        if not users.total:
            return finalized(self.finalizer)
        result = self.reconcile(seen, resource)
        return replace(result, conditions=(*result.conditions, _blocked(users)))


def _blocked(users: ConnectionUsers) -> Condition:
    """Why the deletion of a connection waits."""
    has_others = any(one.kind is not Kind.RECONCILIATION_JOB for one in users.first)
    names = [_user_name(one, with_kind=has_others) for one in users.first]
    rest = f" and {users.total - len(names)} more" if users.total > len(names) else ""
    noun = "object" if has_others else "job"
    has_sinks = any(one.kind is Kind.SINK_TABLE for one in users.first)
    verb = "use" if has_sinks else "read from"
    them = "it" if users.total == 1 else "them"
    noun = noun if users.total == 1 else f"{noun}s"
    return Condition(
        type=ConditionType.DELETION_BLOCKED,
        status=Truth.TRUE,
        reason="InUse",
        message=f"{users.total} {noun} {verb} this connection: {', '.join(names)}{rest};"
        f" delete {them}, or name another connection in {them}",
    )


def _user_name(user: ConnectionUser, *, with_kind: bool) -> str:
    is_default = user.namespace == DEFAULT_NAMESPACE
    name = user.name if is_default else f"{user.namespace}/{user.name}"
    return f"{_WORDS.get(user.kind, 'job')} {name}" if with_kind else name


def is_failing(connection: Resource) -> bool:
    """Whether its last check failed, as it is stored."""
    return is_false(conditions_of(connection.status), ConditionType.READY)
