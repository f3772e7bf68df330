"""Numbers of the events of captures (spec queue-capture 15)."""

from sqlalchemy import PrimaryKeyConstraint, Table

from datarecs_postgres.tables.metadata import METADATA, NUMBER, UUID, column, tenant_column

CAPTURE_SEQUENCE = Table(
    "capture_sequence",
    METADATA,
    tenant_column(),
    column("root_job_id", UUID, "root of the tree"),
    column("last_sequence", NUMBER, "number of its newest event"),
    PrimaryKeyConstraint("tenant_id", "root_job_id"),
    info={"doc": "The last number of an event of each capture."},
)
