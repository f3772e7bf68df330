"""Notice that a secret of a connection has another value than at its last check.

Only workers can read secrets, so each worker remembers the connections that it has checked, with a
hash of their secrets and in memory alone. Another value requests a check at once, instead of at the
next interval. After a restart the next check of a connection is the first that is remembered.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf

from datarecs_application.checking import Checking
from datarecs_application.ports.outside import Clock
from datarecs_core.resources.connection import Connection
from datarecs_core.resources.resource import Resource
from datarecs_core.values import ResourceUid, TenantId

EVERY = timedelta(seconds=30)
_MOST = 10_000
"""Connections that one worker remembers; the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class _Known:
    tenant_id: TenantId
    connection: Connection
    fingerprint: str = field(repr=False)


@dataclass(slots=True, kw_only=True)
class RotatedSecrets:
    """Of one worker; used by one thread."""

    use: Checking
    clock: Clock
    _known: dict[ResourceUid, _Known] = field(default_factory=dict, init=False)
    _checked: float = field(default=-inf, init=False)

    def remember(self, resource: Resource) -> None:
        """Call before the check of a resource, so that a value that changes meanwhile is noticed.

        Jobs have no secrets, and a connection that cannot be read is checked after its edit.
        """
        self._known.pop(resource.uid, None)
        connection = self.use.readable_connection(resource)
        if connection is None or not connection.auth:
            return
        fingerprint = self.use.fingerprint(resource.tenant_id, connection)
        self._known[resource.uid] = _Known(resource.tenant_id, connection, fingerprint)
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]

    def rotated(self) -> Iterator[tuple[TenantId, ResourceUid]]:
        """Every 30 s: connections with another secret; each is reported once and forgotten."""
        now = self.clock.monotonic()
        if now - self._checked < EVERY.total_seconds():
            return
        self._checked = now
        for uid, known in list(self._known.items()):
            if self.use.fingerprint(known.tenant_id, known.connection) != known.fingerprint:
                yield known.tenant_id, uid
                del self._known[uid]  # not if the request failed: it is repeated
