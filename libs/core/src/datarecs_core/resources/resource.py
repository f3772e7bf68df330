"""The envelope every declared kind shares: identity, generation, resourceVersion, spec, status."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from datarecs_core.values import ResourceUid, TenantId

API_VERSION = "datarecs.io/v1"
DEFAULT_NAMESPACE = "default"


class Kind(StrEnum):
    """The kinds. A Run has a similar form but a separate table and state machine."""

    CONNECTION = "Connection"
    RECONCILIATION_JOB = "ReconciliationJob"
    SCHEDULE = "Schedule"
    WEBHOOK_ENDPOINT = "WebhookEndpoint"
    NOTIFICATION_RULE = "NotificationRule"
    RETENTION_POLICY = "RetentionPolicy"
    CAPTURE = "Capture"
    SINK_TABLE = "SinkTable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One declared object as stored in its row. Users write `spec`, one controller `status`."""

    tenant_id: TenantId
    uid: ResourceUid
    kind: Kind
    namespace: str
    name: str
    api_version: str = API_VERSION
    generation: int
    """1 at create; one more exactly when the canonical spec differs, and at the first delete."""
    rv: int
    """Feed number of the newest write, unique in the database; never published."""
    version: int = 1
    """resourceVersion: counts the writes of this object, and reveals nothing about others."""
    spec: Mapping[str, object]
    """Canonical, defaults materialised; snake_case keys."""
    spec_hash: str
    status: Mapping[str, object] = field(default_factory=dict)
    observed_generation: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    created_at: datetime
    deletion_at: datetime | None = None

    @property
    def etag(self) -> str:
        """The strong ETag of REST, with its quotes."""
        return f'"{self.uid}:{self.version}"'
