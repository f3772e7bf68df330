"""Checks of connections and jobs against their sources: requested by controllers, made by workers.

Separate from `resources`, because only workers reach sources, and they write no declaration and no
status: the result waits here for the controller of the kind.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from datarecs_core.resources.checks import CheckResult
from datarecs_core.values import ResourceUid, TenantId

CHECK_LEASE = timedelta(seconds=120)
"""Longer than every check, so it is not renewed; after a crash another worker takes over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceCheck:
    """The row of one connection or job."""

    uid: ResourceUid
    subject: str
    """What the newest request is about, as its controller wrote it."""
    due_at: datetime | None
    """When a worker may take it; None: nothing is requested."""
    epoch: int
    lease_until: datetime | None
    """None: no worker checks it now."""
    checked_at: datetime | None = None
    checked_generation: int | None = None
    """Of the declaration that was checked."""
    result: CheckResult | None = None
    """Of the last check that ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedCheck:
    """A check that this worker makes now."""

    tenant_id: TenantId
    uid: ResourceUid
    epoch: int


class CheckFinder(Protocol):
    """The part of WorkFinder that is about checks."""

    def lease_check(self) -> LeasedCheck | None:
        """Take one due check for `CHECK_LEASE`: of the tenant that has waited longest for one."""


class Checks(Protocol):
    """The rows of `resource_check`; each goes with its resource."""

    def request(self, uid: ResourceUid, *, subject: str) -> None:
        """Make a check due now. While one is at work, exactly one more follows it.

        Args:
            uid: of a connection or job.
            subject: tells requests apart, such as the generation; the worker does not read it.
        """

    def repeat(self, uid: ResourceUid) -> None:
        """Make the same check due now, as a worker that knows more; no effect without a row."""

    def get(self, uid: ResourceUid) -> ResourceCheck | None: ...

    def of_resources(self, uids: Collection[ResourceUid]) -> Mapping[ResourceUid, ResourceCheck]:
        """The rows of these resources that have one."""

    def end(self, leased: LeasedCheck, result: CheckResult, *, generation: int) -> bool:
        """Store the result and end the lease; False if another worker has taken over.

        A lease that has expired still counts until then.
        """

    def release(self, leased: LeasedCheck) -> None:
        """Return the check unfinished, due now; no effect if another worker has it."""
