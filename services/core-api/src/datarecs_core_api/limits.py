"""Rate limits of principals and tenants: token buckets, and the headers with their level.

A separate module because authentication uses it and the shell writes the headers. Syntax of the
headers: draft-ietf-httpapi-ratelimit-headers-10.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from datarecs_application.ports.outside import Clock
from datarecs_application.ports.quotas import WaitingRuns
from datarecs_application.ports.state import Transaction
from datarecs_core.access.principal import Principal
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.security import SecurityCode
from datarecs_core.resources.resource import Kind
from datarecs_core.values import JobId
from datarecs_core_api.buckets import Level, Rate, TokenBuckets
from datarecs_core_api.problems import ProblemError
from datarecs_runtime.api_sections import Limits

MINUTE_S, HOUR_S = 60, 3600
WAITING_S = 10
"""When a caller repeats a trigger that exceeded the limit of waiting runs."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One limit as it stood after a request."""

    policy: str
    rate: Rate
    level: Level

    @property
    def policy_item(self) -> str:
        return f'"{self.policy}";q={self.rate.quota};w={self.rate.window_s}'

    @property
    def level_item(self) -> str:
        """`t`: seconds until there is one more than now."""
        until = self.level.wait_s or -(-self.rate.window_s // self.rate.quota)
        return f'"{self.policy}";r={self.level.remaining};t={until}'


class RequestLimits:
    """The buckets of one replica."""

    def __init__(self, clock: Clock, settings: Limits) -> None:
        def buckets(quota: int, window_s: int) -> TokenBuckets:
            return TokenBuckets(clock, Rate(quota=quota, window_s=window_s))

        self._requests = buckets(settings.requests_per_minute, MINUTE_S)
        self._of_tenant = buckets(settings.tenant_requests_per_minute, MINUTE_S)
        self._writes = buckets(settings.writes_per_minute, MINUTE_S)
        self._keys = buckets(settings.keys_per_hour, HOUR_S)

    def admit(self, request: HTTPConnection, caller: Principal) -> None:
        """Count a request; its readings are in `request.state.limits` for the headers.

        The principal's bucket comes first, so that a principal over its limit does not use up the
        tenant's.

        Raises:
            ProblemError: 429, one of the buckets is empty.
        """
        charges: list[tuple[str, TokenBuckets, object]] = [
            ("principal", self._requests, (caller.tenant_id, caller.subject))
        ]
        if request.scope.get("method", "GET") not in SAFE_METHODS:
            charges.append(("writes", self._writes, (caller.tenant_id, caller.subject)))
        charges.append(("tenant", self._of_tenant, caller.tenant_id))
        readings: list[Reading] = []
        request.state.limits = readings
        for policy, buckets, name in charges:
            level = buckets.take(name)
            readings.append(Reading(policy=policy, rate=buckets.rate, level=level))
            if not level.is_taken:
                raise _refused(policy, level)

    def admits_message(self, caller: Principal) -> bool:
        """Count the caller's messages on a socket: one message costs as much as a request."""
        return (
            self._requests.take((caller.tenant_id, caller.subject)).is_taken
            and self._of_tenant.take(caller.tenant_id).is_taken
        )

    def admit_new_key(self, caller: Principal) -> None:
        """Count a key that is made; the keys of one owner share the bucket.

        Raises:
            ProblemError: 429, too many were made within an hour.
        """
        level = self._keys.take((caller.tenant_id, caller.owner))
        if not level.is_taken:
            raise _refused("new keys", level)


def most_of_each_kind(limits: Limits) -> Mapping[Kind, int]:
    """Quotas of declared objects."""
    return {
        Kind.RECONCILIATION_JOB: limits.jobs_per_tenant,
        Kind.CONNECTION: limits.connections_per_tenant,
        Kind.SCHEDULE: limits.schedules_per_tenant,
        Kind.WEBHOOK_ENDPOINT: limits.endpoints_per_tenant,
        Kind.NOTIFICATION_RULE: limits.rules_per_tenant,
        Kind.RETENTION_POLICY: limits.retention_policies_per_tenant,
        Kind.CAPTURE: limits.captures_per_tenant,
        Kind.SINK_TABLE: limits.sinks_per_tenant,
    }


def refuse_waiting_runs(tx: Transaction, job_id: JobId, limits: Limits) -> None:
    """Called in the transaction that triggers a run of the job.

    Raises:
        ProblemError: 429, the job or the tenant has as many runs waiting as it may have.
    """
    most = WaitingRuns(of_job=limits.waiting_runs_per_job, of_tenant=limits.waiting_runs_per_tenant)
    excess = tx.quotas.waiting_runs(job_id).excess(most)
    if excess is not None:
        raise ProblemError(
            code=SecurityCode.QUOTA_EXCEEDED,
            detail=f"there are {excess}; repeat the request when some have started",
            headers={"Retry-After": str(WAITING_S)},
        )


def refuse_open_captures(tx: Transaction, limits: Limits) -> None:
    """Called in the transaction that has added a capture, before it writes anything else.

    Raises:
        ProblemError: 429, the tenant has more captures that have not ended than it may have.
    """
    most = limits.open_captures_per_tenant
    if tx.quotas.open_captures() > most:
        raise ProblemError(
            code=SecurityCode.QUOTA_EXCEEDED,
            detail=f"the limit of {most} captures of this tenant that have not ended is reached; "
            "repeat the request when some have ended, or cancel one",
            headers={"Retry-After": str(WAITING_S)},
        )


def headers_of(readings: Sequence[Reading]) -> dict[str, str]:
    """`RateLimit-Policy` and `RateLimit` of a response; nothing where no request was counted."""
    if not readings:
        return {}
    return {
        "RateLimit-Policy": ", ".join(one.policy_item for one in readings),
        "RateLimit": ", ".join(one.level_item for one in readings),
    }


def _refused(policy: str, level: Level) -> ProblemError:
    return ProblemError(
        code=ApiCode.TOO_MANY_REQUESTS,
        detail=f"the limit {policy!r} is reached; repeat the request after {level.wait_s} s",
        headers={"Retry-After": str(level.wait_s)},
    )
