"""What happened to a declared object; never its spec or status, which readers fetch.

One class per verb and the kind as a field; the wire type names both, `resource.connection.created`.
`(uid, resource_version, type)` is the natural key for consumers.
"""

from dataclasses import dataclass
from datetime import datetime

from datarecs_core.resources.resource import Kind
from datarecs_core.values import ResourceUid, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceEvent:
    """What every event of a resource carries."""

    tenant_id: TenantId
    """The owner, equal to the envelope's `tenantid`."""
    api_version: str
    """`datarecs.io/v1`."""
    kind: Kind
    """The kind, as in the declaration."""
    namespace: str
    """The project label inside the tenant."""
    name: str
    """Unique within kind and namespace."""
    uid: ResourceUid
    """Identity over renames and re-creations; the key of the topic."""
    generation: int
    """Number of the spec."""
    resource_version: str
    """Number of this write, as text; the envelope's `runsequence` repeats it."""
    changed: tuple[str, ...]
    """What differs: spec, status, labels, annotations, finalizers, deletionTimestamp."""
    change_type: str | None = None
    """CREATED, UPDATED, STATUS_UPDATED or DELETED, as in the change feed."""
    observed_generation: int | None = None
    """The generation on which the status decided last."""
    old_generation: int | None = None
    """The generation before this write."""
    old_phase: str | None = None
    """The phase before this write."""
    new_phase: str | None = None
    """The phase after this write."""
    timestamp: datetime | None = None
    """Commit time of the write."""
    error: str | None = None
    """The fault, redacted, where the status has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceCreated(ResourceEvent):
    """A user declared it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUpdated(ResourceEvent):
    """Spec or metadata changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceStatusUpdated(ResourceEvent):
    """Its controller wrote a new status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceReconciled(ResourceEvent):
    """Its controller has acted, and its status has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceReconcileFailed(ResourceEvent):
    """Its controller has failed, with another error than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFinalized(ResourceEvent):
    """Its deletion waits no longer for a finalizer of the platform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceFinalizeFailed(ResourceEvent):
    """Its controller could not end its deletion, with another error than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDeleted(ResourceEvent):
    """It is deleted, finalizers included."""
