"""API keys as they are stored: owner, permissions, and the key that created each.

Separate from `state`, which is long.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from datarecs_core.values import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A stored API key; the secret itself is not stored."""

    key_id: str
    """The 12 characters after `drk_`."""
    tenant_id: TenantId
    name: str
    owner: str
    """The responsible person or program; a key created with a key has the same owner."""
    secret_sha256: bytes
    permissions: frozenset[str]
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    parent_id: str | None = None
    """The key it was made with; None for a first key. `resolve_api_key` does not read it."""

    @property
    def subject(self) -> str:
        """Under which events and audit show what this key did."""
        return f"key:{self.key_id}"


class ApiKeys(Protocol):
    """Keys of a tenant; `family` of a key is the key and every key made with one of the family."""

    def add(self, key: ApiKey) -> None: ...

    def for_update(self, key_id: str) -> ApiKey | None:
        """Locks the key, so that none is made with it while it is revoked."""

    def revoke(self, key_id: str) -> tuple[str, ...]:
        """Revoke the family of a key; ids of those that were not revoked before, in any order."""

    def family(self, key_id: str) -> list[ApiKey]:
        """Newest first; empty when the tenant has no such key."""

    def all(self) -> list[ApiKey]:
        """Newest first."""
