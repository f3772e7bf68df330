"""Table definitions, one file per concept; imported only by this library.

Importing the package fills METADATA with the whole schema.
"""

from datarecs_postgres.tables import (
    access,
    captures,
    catalogue,
    checks,
    delivery,
    mails,
    platform,
    resource_work,
    resources,
    retention,
    runs,
    schedules,
    sinks,
    webhooks,
)
from datarecs_postgres.tables.metadata import METADATA, SCHEMA

__all__ = [
    "METADATA",
    "SCHEMA",
    "access",
    "captures",
    "catalogue",
    "checks",
    "delivery",
    "mails",
    "platform",
    "resource_work",
    "resources",
    "retention",
    "runs",
    "schedules",
    "sinks",
    "webhooks",
]
