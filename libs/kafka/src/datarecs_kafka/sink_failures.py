"""Errors of the Kafka client as those of a sink: no access, or no answer."""

from collections.abc import Iterator
from contextlib import contextmanager

from kafka.errors import (
    AuthorizationError,
    GroupAuthorizationFailedError,
    KafkaError,
    TransactionalIdAuthorizationFailedError,
)

from datarecs_core.errors.messaging import ClusterUnavailableError
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_kafka.cluster_access import ClusterAccess


def translated(cause: Exception, access: ClusterAccess) -> ClusterUnavailableError | SinkError:
    """A refused address that explains the failure is raised instead."""
    access.require_none_refused()
    if isinstance(cause, AuthorizationError):
        return SinkError(SinkCode.TOPIC_REFUSED, _refusal(cause, access.username))
    return access.unavailable(f"{type(cause).__name__}: {cause}"[:300])


def _refusal(cause: AuthorizationError, user: str) -> str:
    if isinstance(cause, GroupAuthorizationFailedError):
        return f"the login {user} may not join the group of the sink: {cause}"
    if isinstance(cause, TransactionalIdAuthorizationFailedError):
        return f"the login {user} may not write transactions of the sink: {cause}"
    return f"the login {user} has no access: {cause}"


@contextmanager
def failures_of(access: ClusterAccess) -> Iterator[None]:
    """Translate what the client raises inside."""
    try:
        yield
    except KafkaError as cause:
        raise translated(cause, access) from cause
