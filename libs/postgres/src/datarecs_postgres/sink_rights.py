"""The rights on the tables of sinks: a part of the data of `rls`."""

from datarecs_postgres.policies import TableAccess, granted
from datarecs_postgres.roles import API, READ, RESOURCES, SINK

_HISTORY = (
    *granted("SELECT", API, RESOURCES, SINK, READ),
    *granted("INSERT", SINK),
    *granted("DELETE", SINK),
)
"""Of what was committed: rows are added, and removed when they are old."""

SINK_TABLES: tuple[TableAccess, ...] = (
    TableAccess(
        table="sink_state",
        grants=(
            *granted("SELECT", API, RESOURCES, SINK, READ),
            *granted(
                "INSERT", RESOURCES, columns=("tenant_id", "sink_uid", "tasks", "wish", "revision")
            ),
            *granted("UPDATE", RESOURCES, columns=("tasks", "wish", "revision")),
            *granted(
                "UPDATE", API, columns=("commit_requests", "epoch", "checkpoint", "control_offset")
            ),
            *granted(
                "UPDATE",
                SINK,
                columns=(
                    *("epoch", "checkpoint", "control_offset", "is_drained", "dead_letters"),
                    "fenced_at",
                ),
            ),
            *granted("DELETE", RESOURCES),
        ),
    ),
    TableAccess(
        table="sink_task",
        grants=(
            *granted("SELECT", API, RESOURCES, SINK, READ),
            *granted("INSERT", RESOURCES, columns=("tenant_id", "sink_uid", "number")),
            *granted("UPDATE", RESOURCES, columns=("is_halted", "report", "reported_at")),
            *granted(
                "UPDATE",
                API,
                columns=(
                    *("epoch", "executor", "lease_until", "is_halted", "report", "reported_at"),
                ),
            ),
            *granted(
                "UPDATE",
                SINK,
                columns=(
                    *("executor", "lease_until", "is_halted", "report", "reported_at"),
                    *("session", "session_letters", "session_fenced", "is_resting"),
                ),
            ),
            *granted("DELETE", RESOURCES),
        ),
    ),
    TableAccess(table="sink_commit", grants=_HISTORY),
    TableAccess(table="sink_table_commit", grants=_HISTORY),
)
