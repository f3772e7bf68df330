"""Table definitions, one file per concept; imported by this library alone.

Importing the package fills METADATA, so that whoever looks at the whole schema sees all of it.
"""

from datarecs_postgres.tables import access, delivery, mails, platform, resources, runs, webhooks
from datarecs_postgres.tables.metadata import METADATA, SCHEMA

__all__ = [
    "METADATA",
    "SCHEMA",
    "access",
    "delivery",
    "mails",
    "platform",
    "resources",
    "runs",
    "webhooks",
]
