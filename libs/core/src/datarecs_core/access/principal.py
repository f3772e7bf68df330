"""The authenticated person or program that makes a request."""

from dataclasses import dataclass

from datarecs_core.values import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller. The tenant of a request comes only from here."""

    tenant_id: TenantId
    subject: str
    """Of a key `key:<id>`; shown in events (`triggered_by`, `cancelled_by`) and in the audit."""
    owner: str = ""
    """The person or program that is responsible for the key, and for every key created with it."""
    key_id: str | None = None
    permissions: frozenset[str] = frozenset()

    def may(self, permission: str) -> bool:
        return permission in self.permissions
