"""Which role may do what: the table of spec security 4 as data.

A separate module because routes, key scopes and the role matrix test all read this one table.
Routes name their permission in core-api; this table lists only the roles with each permission.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType


class Role(StrEnum):
    """Roles of a tenant; a principal may hold several. Platform admins see no tenant data."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    ADMIN = "admin"
    AUDITOR = "auditor"


class Permission(StrEnum):
    READ = "read"
    SAMPLE_READ = "sample.read"
    """Mismatch rows, exports, explain."""
    SAMPLE_UNMASK = "sample.unmask"
    """Columns masked by policy; granted to an admin by name, never by the role."""
    RUN_TRIGGER = "run.trigger"
    RUN_SCHEDULE = "run.schedule"
    """Declare schedules, and trigger runs with mode SCHEDULED for schedulers elsewhere."""
    RUN_CANCEL = "run.cancel"
    RUN_RETRY = "run.retry"
    CAPTURE_TRIGGER = "capture.trigger"
    CAPTURE_CANCEL = "capture.cancel"
    PROBE = "probe"
    DELIVERY_RESEND = "delivery.resend"
    BREAK_WORK = "break.work"
    RESOURCE_WRITE = "resource.write"
    SECRET_WRITE = "secret.write"  # noqa: S105  a permission, no password
    BREAK_WAIVE = "break.waive"
    RUN_SIGNOFF = "run.signoff"
    """Four eyes: never the one who triggered the run."""
    QUEUE_DRAIN = "queue.drain"
    FORCE_FINALIZE = "force.finalize"
    BODY_EXPUNGE = "body.expunge"
    KEY_MANAGE = "key.manage"
    USER_MANAGE = "user.manage"
    QUEUE_WORK = "queue.work"
    """Worker service principals alone; no user and no API key can hold it."""
    AUDIT_READ = "audit.read"
    SYSTEM_READ = "system.read"
    """Figures of the whole platform; of operators: in keys of `datarecs admin`, in no role."""


_VIEWER = frozenset({Permission.READ})
_OPERATOR = _VIEWER | {
    Permission.SAMPLE_READ,
    Permission.RUN_TRIGGER,
    Permission.RUN_SCHEDULE,
    Permission.RUN_CANCEL,
    Permission.RUN_RETRY,
    Permission.CAPTURE_TRIGGER,
    Permission.CAPTURE_CANCEL,
    Permission.PROBE,
    Permission.DELIVERY_RESEND,
    Permission.BREAK_WORK,
}
_EDITOR = _OPERATOR | {
    Permission.RESOURCE_WRITE,
    Permission.SECRET_WRITE,
    Permission.BREAK_WAIVE,
    Permission.RUN_SIGNOFF,
}
_ADMIN = _EDITOR | {
    Permission.QUEUE_DRAIN,
    Permission.FORCE_FINALIZE,
    Permission.BODY_EXPUNGE,
    Permission.KEY_MANAGE,
    Permission.USER_MANAGE,
    Permission.AUDIT_READ,
}

GRANTS: Mapping[Role, frozenset[Permission]] = MappingProxyType(
    {
        Role.VIEWER: _VIEWER,
        Role.OPERATOR: _OPERATOR,
        Role.EDITOR: _EDITOR,
        Role.ADMIN: _ADMIN,
        Role.AUDITOR: _VIEWER | {Permission.AUDIT_READ},
    }
)

KEY_SCOPES = frozenset(Permission) - {Permission.QUEUE_WORK}
"""What an API key can be scoped to at all."""


def permissions_of(roles: Iterable[Role]) -> frozenset[Permission]:
    """Everything the roles grant together."""
    return frozenset().union(*(GRANTS[role] for role in roles))


def refused_scopes(wanted: Iterable[str], *, creator: frozenset[str]) -> frozenset[str]:
    """The requested scopes a key may not get: unknown, not for keys, or beyond its creator's."""
    return frozenset(wanted) - (KEY_SCOPES & creator)
