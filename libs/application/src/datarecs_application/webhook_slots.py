"""The open requests of one process, and how many of them silent receivers may hold.

A receiver that does not answer holds a request until its deadline. So endpoints without a success
in their newest attempt share half of the requests, and the others always find room. Known only to
this process: after a start, each endpoint is in the shared half until its first success.
"""

from collections import Counter
from dataclasses import dataclass, field

from datarecs_core.values import ResourceUid, TenantId

Endpoint = tuple[TenantId, ResourceUid]


@dataclass(slots=True)
class RequestSlots:
    """Counts the open requests of every endpoint."""

    most: int
    """Open requests of all endpoints."""
    _open: Counter[Endpoint] = field(default_factory=Counter)
    _answering: set[Endpoint] = field(default_factory=set)

    def room(self, endpoint: Endpoint) -> int:
        """How many requests may be opened to this endpoint now."""
        free = self.most - self._open.total()
        if endpoint in self._answering:
            return max(0, free)
        shared = sum(count for one, count in self._open.items() if one not in self._answering)
        return max(0, min(free, self.most - self.most // 2 - shared))

    def opened(self, endpoint: Endpoint) -> None:
        self._open[endpoint] += 1

    def closed(self, endpoint: Endpoint, *, is_success: bool) -> None:
        self._open[endpoint] -= 1
        if not self._open[endpoint]:
            del self._open[endpoint]
        if is_success:
            self._answering.add(endpoint)
        else:
            self._answering.discard(endpoint)
