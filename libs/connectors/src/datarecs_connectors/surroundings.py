"""What the children of a worker may open: the settings of their supervisor, read from a frame.

Separate from the children, which are programs of different services.
"""

from collections.abc import Callable
from datetime import datetime
from ipaddress import ip_network
from pathlib import Path
from uuid import UUID

from datarecs_application.child_frames import Reader
from datarecs_application.stopping import Stopping
from datarecs_connectors.locations import TenantRoots
from datarecs_connectors.registry import Surroundings
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.resources.object_urls import (
    ObjectUrl,
    StoreKind,
    endpoint_of,
    is_object_url,
)
from datarecs_core.resources.store_servers import BucketAddress
from datarecs_core.values import TenantId


def egress_policy_of(hello: Reader) -> Policy:
    """The egress settings of the supervisor: a driver connects from here."""
    allowed, denied = hello.of("allowed_cidrs", list), hello.of("denied_cidrs", list)
    return Policy(
        purpose=Purpose.CONNECTION,
        profile=Profile(hello.of("profile", str)),
        allowed_cidrs=tuple(map(ip_network, allowed)),
        denied_cidrs=tuple(map(ip_network, denied)),
    )


def surroundings_of(
    hello: Reader,
    tenant: TenantId,
    now: Callable[[], datetime],
    stop: Stopping | None = None,
) -> Surroundings:
    """What work for the tenant may open."""
    owner = hello.maybe("files_owner", str)
    roots = TenantRoots(
        roots=tuple(Path(root) for root in hello.of("roots", list)),
        owner=None if owner is None else UUID(owner),
    )
    return Surroundings(
        roots=roots.of(tenant),
        policy=egress_policy_of(hello),
        now=now,
        excluded=tuple(Path(path) for path in hello.of("excluded", list)),
        platform_bucket=_platform_bucket(hello),
        stop=stop or Stopping(),
    )


def _platform_bucket(hello: Reader) -> BucketAddress | None:
    """The bucket of artefacts, which no source reads."""
    text = hello.of("blob_url", str)
    if not is_object_url(text):
        return None
    url, endpoint = ObjectUrl.parse(text), hello.maybe("blob_endpoint", str)
    if endpoint is None and url.kind is StoreKind.AZ:
        return BucketAddress.of(url, None)
    return BucketAddress.of(url, endpoint_of(url, endpoint, hello.maybe("blob_region", str)))
