"""The authenticated person or program on whose behalf something happens."""

from dataclasses import dataclass

from datarecs_core.values import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks. The tenant of everything that follows comes from here and from nowhere else."""

    tenant_id: TenantId
    subject: str
    """User or key name, as shown in events (`triggered_by`, `cancelled_by`) and in the audit."""
    key_id: str | None = None
    permissions: frozenset[str] = frozenset()

    def may(self, permission: str) -> bool:
        return permission in self.permissions
