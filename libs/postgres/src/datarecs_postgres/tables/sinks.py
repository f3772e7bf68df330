"""What is stored of sinks: what is wished, their tasks, and what they committed."""

from sqlalchemy import (
    ARRAY,
    Boolean,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    Table,
    Text,
    desc,
)

from datarecs_postgres.tables.metadata import (
    COUNT,
    INSTANT,
    JSON,
    METADATA,
    NUMBER,
    TEXT,
    UUID,
    column,
    tenant_column,
)


def _of_state() -> ForeignKeyConstraint:
    """Rows go with the state of their sink."""
    return ForeignKeyConstraint(
        ["tenant_id", "sink_uid"],
        ["sink_state.tenant_id", "sink_state.sink_uid"],
        ondelete="CASCADE",
    )


SINK_STATE = Table(
    "sink_state",
    METADATA,
    tenant_column(),
    column("sink_uid", UUID, "the SinkTable"),
    column("tasks", COUNT, "how many tasks run"),
    column("wish", TEXT, "what is wished of the tasks"),
    column("revision", TEXT, "of what a task reads at its start"),
    column("epoch", NUMBER, "of the newest coordinator", default="'0'::bigint"),
    column("checkpoint", JSON, "where the next coordinator begins", default="'{}'::jsonb"),
    column("control_offset", NUMBER, "of the checkpoint", default="'0'::bigint"),
    column("commit_requests", NUMBER, "raised by each commit-now", default="'0'::bigint"),
    column("is_drained", Boolean(), "the last commit is made", default="false"),
    column("dead_letters", NUMBER, "of all sessions of all tasks", default="'0'::bigint"),
    column("fenced_at", INSTANT, "when a refused vote was last reported", null=True),
    PrimaryKeyConstraint("tenant_id", "sink_uid"),
    ForeignKeyConstraint(
        ["tenant_id", "sink_uid"], ["resource.tenant_id", "resource.uid"], ondelete="CASCADE"
    ),
    info={"doc": "What is wished of sinks, and how far they are."},
)
SINK_TASK = Table(
    "sink_task",
    METADATA,
    tenant_column(),
    column("sink_uid", UUID, "the SinkTable"),
    column("number", COUNT, "of the task, from 0"),
    column("epoch", NUMBER, "number of the lease", default="'0'::bigint"),
    column("executor", TEXT, "holder of the lease", null=True),
    column("lease_until", INSTANT, "end of the lease, if one is held", null=True),
    column("is_halted", Boolean(), "it waits for a person", default="false"),
    column("session", UUID, "process that last reported", null=True),
    column("session_letters", NUMBER, "dead letters that it reported", default="'0'::bigint"),
    column("session_fenced", NUMBER, "refused votes that it reported", default="'0'::bigint"),
    column("report", JSON, "how the task is doing", null=True),
    column("reported_at", INSTANT, "time of the report", null=True),
    column("is_resting", Boolean(), "it has ended because its sink pauses", default="false"),
    PrimaryKeyConstraint("tenant_id", "sink_uid", "number"),
    _of_state(),
    info={"doc": "Tasks of sinks, with their leases."},
)
SINK_COMMIT = Table(
    "sink_commit",
    METADATA,
    tenant_column(),
    column("sink_uid", UUID, "the SinkTable"),
    column("commit_id", UUID, "the cycle"),
    column("epoch", NUMBER, "of the coordinator"),
    column("completed_at", INSTANT, "when every table had it"),
    column("is_partial", Boolean(), "some partition had no vote"),
    column("control_offset", NUMBER, "of the checkpoint after it"),
    column("valid_through", INSTANT, "all records up to this time are contained", null=True),
    column("records", NUMBER, "records that were added"),
    PrimaryKeyConstraint("tenant_id", "sink_uid", "commit_id"),
    _of_state(),
    Index(
        "sink_commit_newest",
        *("tenant_id", "sink_uid", desc("completed_at"), desc("commit_id")),
    ),
    info={"doc": "Completed cycles of sinks."},
)
SINK_TABLE_COMMIT = Table(
    "sink_table_commit",
    METADATA,
    tenant_column(),
    column("sink_uid", UUID, "the SinkTable"),
    column("table_uuid", UUID, "the table, in its catalog"),
    column("snapshot_id", NUMBER, "the snapshot"),
    column("commit_id", UUID, "the cycle"),
    column("catalog", TEXT, "connection of the catalog"),
    column("namespace", ARRAY(Text()), "of the table"),
    column("name", TEXT, "of the table"),
    column("control_offset", NUMBER, "messages below it are contained"),
    column("valid_through", INSTANT, "all records up to this time are contained", null=True),
    column("records", NUMBER, "records that were added"),
    column("files", NUMBER, "files that were added"),
    column("source_ends", JSON, "contained positions by partition"),
    column("committed_at", INSTANT, "when it was stored"),
    PrimaryKeyConstraint("tenant_id", "sink_uid", "table_uuid", "snapshot_id"),
    _of_state(),
    Index("sink_table_commit_cycle", "tenant_id", "sink_uid", "commit_id"),
    Index("sink_table_commit_old", "tenant_id", "sink_uid", "committed_at"),
    info={"doc": "Snapshots that sinks added to tables."},
)
