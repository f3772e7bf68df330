"""The functions of the database at head, and the roles that may call them, as data.

Separate from `rls`, which contains the rights on tables; migrations and tests use both.
"""

from datarecs_postgres.policies import FunctionAccess
from datarecs_postgres.roles import (
    API,
    CAPTURE,
    CONTROLLER,
    MAIL,
    RESOURCES,
    SERVICES,
    SINK,
    WEBHOOK,
    WORKER_RUN,
)

FEED_WRITERS: tuple[str, ...] = (API, CONTROLLER, WORKER_RUN, WEBHOOK, RESOURCES)
"""Roles that may draw feed numbers."""

FUNCTIONS: tuple[FunctionAccess, ...] = (
    FunctionAccess(name="claim_runs", arguments="integer", roles=(CONTROLLER,)),
    FunctionAccess(name="due_timers", arguments="integer", roles=(CONTROLLER,)),
    FunctionAccess(name="due_tenants", arguments="text", roles=(CONTROLLER, MAIL, WEBHOOK)),
    FunctionAccess(name="lease_run", arguments="text, interval", roles=(WORKER_RUN,)),
    FunctionAccess(name="claim_deliveries", arguments="integer", roles=(WEBHOOK,)),
    FunctionAccess(name="claim_mails", arguments="integer", roles=(MAIL,)),
    FunctionAccess(name="claim_schedules", arguments="integer", roles=(RESOURCES,)),
    FunctionAccess(name="claim_sweeps", arguments="integer", roles=(RESOURCES,)),
    FunctionAccess(name="claim_resources", arguments="text[], integer", roles=(RESOURCES,)),
    FunctionAccess(name="adopt_resources", arguments="text[]", roles=(RESOURCES,)),
    FunctionAccess(name="resource_backlog", arguments="", roles=(RESOURCES,)),
    FunctionAccess(name="decide_schedules_again", arguments="text", roles=(RESOURCES,)),
    FunctionAccess(
        name="report_stats", arguments="uuid, jsonb", roles=(API, CONTROLLER, RESOURCES)
    ),
    FunctionAccess(name="read_stats", arguments="", roles=(API,)),
    FunctionAccess(name="lease_check", arguments="interval", roles=(WORKER_RUN,)),
    FunctionAccess(
        name="claim_work",
        arguments="text, text[], interval[], text[], text[], interval, integer, uuid",
        roles=(CAPTURE,),
    ),
    FunctionAccess(name="claim_sink_tasks", arguments="text, interval, integer", roles=(SINK,)),
    FunctionAccess(name="halted_sink_tasks", arguments="", roles=(SINK,)),
    FunctionAccess(name="capture_tenants", arguments="text", roles=(CAPTURE,)),
    FunctionAccess(
        name="capture_slices",
        arguments="text, text[], timestamptz",
        roles=(),
        definer=False,
    ),
    FunctionAccess(
        name="capture_candidates",
        arguments="uuid, text, text, text[], text[], timestamptz, timestamptz, uuid, integer",
        roles=(),
        definer=False,
    ),
    FunctionAccess(name="capture_take_key", arguments="uuid, uuid, text", roles=(), definer=False),
    FunctionAccess(name="capture_note_turn", arguments="uuid, text", roles=(), definer=False),
    FunctionAccess(
        name="capture_free_key", arguments="uuid, uuid, text", roles=(API, CAPTURE), definer=False
    ),
    FunctionAccess(name="feed_after", arguments="text, bigint, integer", roles=(API,)),
    FunctionAccess(name="resolve_api_key", arguments="text", roles=(API,)),
    FunctionAccess(name="resolve_session", arguments="bytea", roles=(API,)),
    FunctionAccess(name="maintain_partitions", arguments="", roles=(CONTROLLER,)),
    FunctionAccess(name="keep_outbox", arguments="integer", roles=(CONTROLLER,)),
    FunctionAccess(name="divide_outbox", arguments="integer", roles=(CONTROLLER,)),
    FunctionAccess(name="outbox_shards", arguments="", roles=SERVICES),
    FunctionAccess(name="run_backlog", arguments="", roles=(CONTROLLER,)),
    FunctionAccess(
        name="unheard_events",
        arguments="text, text[], timestamptz, timestamptz, bigint, integer",
        roles=(CONTROLLER, MAIL, WEBHOOK),
    ),
    FunctionAccess(name="event_memory", arguments="", roles=(CONTROLLER, MAIL, WEBHOOK)),
    FunctionAccess(name="service_name", arguments="", roles=SERVICES, definer=False),
    FunctionAccess(name="raise_version", arguments="", roles=(), definer=False),
    FunctionAccess(
        name="draw_rv",
        arguments="integer",
        roles=FEED_WRITERS,
        definer=False,
    ),
)
"""The definer functions are a closed list: those of spec security 5 with existing tables, and later
ones: `unheard_events` and `event_memory` (ADR 0038), `run_backlog` (ADR 0040), and the
operator's two settings of the outbox, `keep_outbox`, and `divide_outbox` with `outbox_shards`."""
