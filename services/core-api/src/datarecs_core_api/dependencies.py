"""What a route may use: the ports, joined by `wiring` and carried by the application's state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from datarecs_application.ports.feed import ChangeFeed, EventFilter, FeedEntry, ResourceFeed
from datarecs_application.ports.outside import BlobStores, Clock, Ids, SecretStore
from datarecs_application.ports.state import Queries, UnitOfWork, WorkFinder
from datarecs_application.previewing import Previewing
from datarecs_core.access.references import ReferenceRules
from datarecs_core.egress.addresses import Profile
from datarecs_core.resources.change_feed import ResourceChange, WatchFilter
from datarecs_core.runs.model import Backend
from datarecs_core.values import TenantId
from datarecs_core_api.feed import Feed
from datarecs_core_api.following import Following
from datarecs_core_api.pagination import Cursors
from datarecs_core_api.places import DatedPlaces, Places
from datarecs_core_api.run_updates import RunUpdates
from datarecs_runtime.api_sections import Limits
from datarecs_runtime.sections import Egress


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything that a route uses; no route imports an adapter."""

    unit: UnitOfWork
    queries: Queries
    changes: ChangeFeed
    resource_changes: ResourceFeed
    finder: WorkFinder
    """For the ticket of a socket."""
    blobs: BlobStores
    secrets: SecretStore
    clock: Clock
    ids: Ids
    random_bytes: Callable[[int], bytes]
    cursors: Cursors
    following: Following
    run_updates: RunUpdates
    feed: Feed[FeedEntry, EventFilter]
    """Events of runs."""
    places: Places
    """Of that feed."""
    watch_feed: Feed[ResourceChange, WatchFilter | None]
    """Changes of declared objects."""
    watch_places: DatedPlaces
    """Of that feed."""
    base_url: str | None
    profile: Profile
    egress: Egress
    backend: Backend
    """Of the runs that are triggered here."""
    limits: Limits
    """Quotas; rates are counted at authentication."""
    link_keys: Sequence[bytes]
    """Keys that sign links in mails, the current one first; none: no link works."""
    mail_report_key: bytes | None
    """Key that signs reports of bounces and complaints; None: they are not accepted."""
    previewing: Previewing
    """What notification rules would send."""
    reference_rules: Callable[[TenantId], ReferenceRules]
    """Which secret references a tenant may write."""


async def ports(request: Request) -> Ports:
    use: Ports = request.app.state.ports
    return use


Using = Annotated[Ports, Depends(ports)]
