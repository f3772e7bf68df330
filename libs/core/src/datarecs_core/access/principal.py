"""The authenticated person or program on whose behalf something happens."""

from dataclasses import dataclass

from datarecs_core.values import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks. The tenant of everything that follows comes from here and from nowhere else."""

    tenant_id: TenantId
    subject: str
    """Of a key `key:<id>`; shown in events (`triggered_by`, `cancelled_by`) and in the audit."""
    owner: str = ""
    """The person or program that answers for the key, and for every key made with it."""
    key_id: str | None = None
    permissions: frozenset[str] = frozenset()

    def may(self, permission: str) -> bool:
        return permission in self.permissions
