"""When schedules are decided next, and what became of their times (spec resources-scheduler 9)."""

from sqlalchemy import Boolean, ForeignKeyConstraint, Index, PrimaryKeyConstraint, Table, text

from datarecs_postgres.tables.metadata import (
    INSTANT,
    METADATA,
    NUMBER,
    TEXT,
    UUID,
    column,
    tenant_column,
)

_SCHEDULE = ["resource.tenant_id", "resource.uid"]

SCHEDULE_STATE = Table(
    "schedule_state",
    METADATA,
    tenant_column(),
    column("schedule_uid", UUID, "schedule"),
    column("due_at", INSTANT, "next decision; NULL while suspended and after the end", null=True),
    column("times", TEXT, "what its times depend on, as text", default="''::text"),
    column("last_fire_time", INSTANT, "newest decided time", null=True),
    column("is_suspended", Boolean(), "at the last decision", default="false"),
    column("waiting", INSTANT, "time that waits for the end of a replaced run", null=True),
    column("tzdata", TEXT, "version of the zone data of the last decision", default="''::text"),
    PrimaryKeyConstraint("tenant_id", "schedule_uid"),
    ForeignKeyConstraint(["tenant_id", "schedule_uid"], _SCHEDULE, ondelete="CASCADE"),
    Index("schedule_state_due", "tenant_id", "due_at", postgresql_where=text("due_at IS NOT NULL")),
    info={"doc": "What the scheduler knows of each schedule."},
)

SCHEDULE_TICK = Table(
    "schedule_tick",
    METADATA,
    tenant_column(),
    column("schedule_uid", UUID, "schedule"),
    column("fire_time", INSTANT, "the time, or the last of a range"),
    column("outcome", TEXT, "FIRED, SKIPPED_OVERLAP, MISSED_DEADLINE, …"),
    column("run_id", UUID, "run that it started", null=True),
    column("first_fire_time", INSTANT, "first time of a range", null=True),
    column("missed", NUMBER, "times that did not start"),
    column("reason", TEXT, "why it did not start", null=True),
    column("tzdata", TEXT, "version of the zone data of the decision"),
    column("at", INSTANT, "decided", default="now()"),
    PrimaryKeyConstraint("tenant_id", "schedule_uid", "fire_time"),
    ForeignKeyConstraint(["tenant_id", "schedule_uid"], _SCHEDULE, ondelete="CASCADE"),
    info={"doc": "What became of the times of schedules."},
)
