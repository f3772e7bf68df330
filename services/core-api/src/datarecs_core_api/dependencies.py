"""What a route may use: the ports, joined by `wiring` and carried by the application's state."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Annotated

from fastapi import Depends, Request

from datarecs_application.ports.outside import BlobStores, Clock, Ids, SecretStore, Wake
from datarecs_application.ports.state import Queries, UnitOfWork, WorkFinder
from datarecs_core.access.references import ReferenceRules
from datarecs_core.egress.addresses import Profile
from datarecs_core.values import TenantId
from datarecs_core_api.pagination import Cursors
from datarecs_runtime.sections import Egress


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything a route reaches; no route imports an adapter."""

    unit: UnitOfWork
    queries: Queries
    finder: WorkFinder
    blobs: BlobStores
    secrets: SecretStore
    clock: Clock
    ids: Ids
    random_bytes: Callable[[int], bytes]
    cursors: Cursors
    runs_changed: "RunsChanged"
    profile: Profile
    egress: Egress
    reference_rules: Callable[[TenantId], ReferenceRules]
    """Which secret references a tenant may write."""
    traceparent: Callable[[str | None], str]
    """A span below the given one, or a new trace."""


class RunsChanged:
    """Latches of the streams of this process; one LISTEN connection sets them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[str, tuple[Wake, ...]] = {}

    def watch(self, run_id: str, wake: Wake) -> None:
        with self._lock:
            self._waiting[run_id] = (*self._waiting.get(run_id, ()), wake)

    def leave(self, run_id: str, wake: Wake) -> None:
        with self._lock:
            left = tuple(one for one in self._waiting.get(run_id, ()) if one is not wake)
            if left:
                self._waiting[run_id] = left
            else:
                self._waiting.pop(run_id, None)

    def tell(self, run_id: str) -> None:
        """Called from the listening thread, "" for several runs; a hint, streams poll as well."""
        with self._lock:
            found = self._waiting.get(run_id, ())
            told = found if run_id else tuple(w for some in self._waiting.values() for w in some)
        for wake in told:
            wake.set()


def ports(request: Request) -> Ports:
    found = request.app.state.ports
    if not isinstance(found, Ports):
        raise TypeError("the application was built without its ports")
    return found


Using = Annotated[Ports, Depends(ports)]
