"""Whether the platform's network fails: many endpoints at once do not resolve, connect or respond.

Held in memory per process, because a process judges its network; while it is suspect, such
failures count against no endpoint, so that an outage of the platform disables no endpoint.
"""

from dataclasses import dataclass, field

from datarecs_application.ports.outside import Clock
from datarecs_core.values import ResourceUid, TenantId
from datarecs_core.webhooks.outcome import Outcome

MEMORY_S = 600
LEAST_ENDPOINTS = 10
NETWORK = frozenset({Outcome.DNS_FAILED, Outcome.CONNECT_FAILED, Outcome.TIMEOUT})


@dataclass(slots=True)
class EgressHealth:
    """The last outcome of every endpoint that was tried within ten minutes."""

    clock: Clock
    _last: dict[tuple[TenantId, ResourceUid], tuple[float, bool]] = field(
        default_factory=dict, init=False
    )

    def note(self, tenant: TenantId, endpoint: ResourceUid, outcome: Outcome) -> None:
        self._last[tenant, endpoint] = (self.clock.monotonic(), outcome in NETWORK)

    def is_suspect(self) -> bool:
        """More than half of at least ten endpoints failed in the network."""
        oldest = self.clock.monotonic() - MEMORY_S
        for key in [key for key, (at, _) in self._last.items() if at < oldest]:
            del self._last[key]
        failed = sum(is_failed for _, is_failed in self._last.values())
        return len(self._last) >= LEAST_ENDPOINTS and failed * 2 > len(self._last)
