"""Sealed secrets of resources, and what may be shown of them.

Separate from `state`: services that may write a secret are not those that may read it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from datarecs_core.values import ResourceUid


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretLabel:
    """What may be shown of a sealed value."""

    key_id: str
    created_at: datetime
    expires_at: datetime | None


class SealedSecrets(Protocol):
    """Envelope-encrypted values by (resource, field); insert and read are granted apart."""

    def put(self, resource_uid: ResourceUid, field: str, key_id: str, sealed: bytes) -> None: ...

    def live(self, resource_uid: ResourceUid, field: str) -> list[tuple[str, bytes]]:
        """(key_id, sealed) that have not expired, newest first."""

    def labels(self, resource_uid: ResourceUid, field: str) -> list[SecretLabel]:
        """Those that `live` returns, without their values; for callers that may not read them."""

    def expire(self, resource_uid: ResourceUid, field: str, key_id: str, at: datetime) -> None:
        """Set the time until which a value is live."""

    def erase(self, resource_uid: ResourceUid) -> None:
        """Remove every value of the resource; safe to repeat."""
