"""The rights: every policy and grant of the database at head, as data.

Migrations contain the statements frozen, as printed by `python -m datarecs_postgres.rls TABLE…`; a
test compares the database with this module, so both agree (alembic's autogenerate ignores policies,
grants and functions). The functions are in `function_rights`.
"""

import sys

from datarecs_events.catalogue import EVENT_TYPES_BY_SERVICE, Service, subscriptions_of
from datarecs_postgres.catalogue_rights import CATALOGUE_TABLES
from datarecs_postgres.function_rights import FUNCTIONS
from datarecs_postgres.policies import (
    Policy,
    TableAccess,
    function_statements,
    granted,
    granted_fully,
    table_statements,
)
from datarecs_postgres.roles import (
    API,
    CAPTURE,
    CONTROLLER,
    MAIL,
    READ,
    RELAY,
    RESOURCES,
    SERVICE_OF,
    SERVICES,
    SINK,
    UNPRIVILEGED,
    WEBHOOK,
    WORKER_RUN,
    short_name,
)
from datarecs_postgres.sink_rights import SINK_TABLES

_RUN_READERS = tuple(role for role in SERVICES if role not in {CAPTURE, SINK})
_NUMBERING = ("last_sequence", "row_version", "feed_rv")
_TRIGGER = (
    *("tenant_id", "run_id", "job_id", "job_name", "job_generation", "spec_hash", "spec"),
    *("parameters", "mode", "triggered_by", "idempotency_key", "schedule_uid", "fire_time"),
    *("backend", "execution_name", "next_reconcile_at", "max_attempts", "priority"),
    *("deadline_seconds", "created_at", "traceparent", "trigger_reason"),
    "retry_of",
)
_CANCEL = (
    *("cancel_requested", "cancel_requested_at", "cancel_requested_id", "cancelled_by"),
    *("cancel_reason", "wish", "next_reconcile_at"),
)
_CLOSE = (
    *("status", "result", "error_code", "error_detail_code", "error_message", "raw_error"),
    *("terminal_fact_id", "cancel_stale", "wish", "submit_intent_at", "submit_attempts"),
    *("next_reconcile_at", "stop_sent_at", "attempt", "deadline_at", "last_progress_at"),
    *("queued_at", "started_at", "ended_at", "closed_at", "summary", "pins", "report_path"),
)
_LEASE = ("due_at", "attempt", "lease_epoch", "lease_owner", "lease_until", "releases")
_RESOURCE_IDENTITY = ("tenant_id", "uid", "kind", "namespace", "name", "created_at")
_RESOURCE_SPEC = (
    *("api_version", "generation", "rv", "spec", "spec_hash", "labels", "annotations"),
    *("finalizers", "deletion_at"),
)
_RESOURCE_STATUS = ("status", "observed_generation", "rv", "finalizers")
_EVENT = (*("event_id", "tenant_id", "type", "topic", "partition_key", "shard", "headers", "data"),)
_SUBSCRIBER_COLUMNS = (
    *("position", "event_id", "created_at", "tenant_id", "type", "topic", "partition_key"),
    *("headers", "data"),
)
_MAIL_SHOWN = (
    *("tenant_id", "delivery_id", "run_id", "job_id", "rules", "kind", "detail", "outcome"),
    *("state", "reason", "due_at", "finalised_at", "attempts", "message_id", "created_at"),
)
_MESSAGE_SHOWN = (
    *("tenant_id", "received_on", "message_id", "attributes", "created_at", "filter_values"),
)
"""Columns that core-api uses for counts; only the webhook-service reads the data of events."""
_ACTION_PROGRESS = (
    *("state", "closed_at", "position_on", "position_id", "made", "first_delivery"),
)
_MAIL_LOGGED = (
    *(*_MAIL_SHOWN, "dedupe_key", "recipient", "recipient_key", "rule_uids", "background"),
    *("phase", "expires_at", "unknowns", "lease_epoch", "lease_owner", "lease_until"),
    *("last_reply", "fold", "folded", "notice", "opened_at"),
)
"""All columns except the bytes."""
_WORK_DUE = ("due_at", "dirty_seq")
_WORK_SETTLED = (
    *("due_at", "dirty_seq", "attempts", "conflicts", "generation", "reconcile_at", "is_terminal"),
    *("window_start", "window_count", "epoch", "lease_until"),
)
_SCHEDULE_DECIDED = ("due_at", "times", "last_fire_time", "is_suspended", "waiting", "tzdata")
_SWEPT = ("due_at", "generation", "target", "place_at", "place_id", "counts")
_MAIL_RETENTION = ("tenant_id", "delivery_id", "run_id", "job_id", "state", "created_at")
"""Columns by which retention decides about mails."""
_CHECK_REQUEST = ("subject", "due_at")
_CHECK_END = ("lease_until", "due_at", "checked_at", "checked_generation", "result")
_SECRET_LABEL = ("tenant_id", "resource_uid", "field", "key_id", "created_at", "expires_at")


def _types_of(role: str) -> Policy:
    """The event types that a service may insert into the outbox, independent of its code."""
    types = sorted(EVENT_TYPES_BY_SERVICE[Service(SERVICE_OF[role])])
    return Policy(
        name=f"types_{short_name(role)}",
        role=role,
        command="INSERT",
        check=f"type = ANY ('{{{','.join(types)}}}'::text[])",
        restrictive=True,
    )


def _subscriber_policy(role: str) -> Policy:
    """The events that a service may read from the outbox: only its subscribed types."""
    types = sorted(
        one for grant in subscriptions_of(Service(SERVICE_OF[role])) for one in grant.types or ()
    )
    return Policy(
        name=f"reads_{short_name(role)}",
        role=role,
        command="SELECT",
        using=f"type = ANY ('{{{','.join(types)}}}'::text[])",
        restrictive=True,
    )


def _deletes(name: str, using: str) -> Policy:
    """Rows of a table that resource-controller may delete."""
    return Policy(name=name, role=RESOURCES, command="DELETE", using=using, restrictive=True)


TABLES: tuple[TableAccess, ...] = (
    TableAccess(table="schema_compat", tenant=False, grants=granted("SELECT", *UNPRIVILEGED)),
    TableAccess(table="service_role", tenant=False, grants=granted("SELECT", *UNPRIVILEGED)),
    TableAccess(table="partition_policy", tenant=False),
    TableAccess(table="service_stats", tenant=False),
    TableAccess(
        table="relay_shard",
        tenant=False,
        grants=(
            *granted("SELECT", RELAY),
            *granted("UPDATE", RELAY, columns=("owner", "epoch", "lease_until")),
        ),
    ),
    TableAccess(
        table="relay_owner",
        tenant=False,
        grants=granted_fully(RELAY),
    ),
    TableAccess(table="tenant", grants=granted("SELECT", API, READ)),
    TableAccess(
        table="api_key",
        grants=(
            *granted("SELECT", API),
            *granted("INSERT", API),
            *granted("UPDATE", API, columns=("revoked_at",)),
        ),
    ),
    TableAccess(
        table="ws_ticket",
        grants=(
            *granted("SELECT", API),
            *granted("INSERT", API),
            *granted("DELETE", API),
        ),
    ),
    TableAccess(
        table="idempotency_key",
        grants=(
            *granted("SELECT", API),
            *granted("INSERT", API),
            *granted("UPDATE", API),
        ),
    ),
    TableAccess(
        table="audit_event",
        grants=(
            *granted("SELECT", API, READ),
            *granted("INSERT", API),
        ),
    ),
    TableAccess(
        table="audit_head",
        grants=(
            *granted("SELECT", API),
            *granted("INSERT", API),
            *granted("UPDATE", API, columns=("seq", "hash")),
        ),
    ),
    TableAccess(
        table="run",
        grants=(
            *granted("SELECT", *_RUN_READERS, READ),
            *granted("INSERT", API, RESOURCES, columns=_TRIGGER),
            *granted("UPDATE", API, RESOURCES, columns=(*_CANCEL, *_NUMBERING)),
            *granted("UPDATE", CONTROLLER, columns=(*_CLOSE, *_NUMBERING)),
            *granted("UPDATE", WORKER_RUN, columns=("pins", "last_progress_at", *_NUMBERING)),
            *granted("UPDATE", RESOURCES, columns=("differences_deleted_at",)),
            *granted("DELETE", RESOURCES),
        ),
        extra_policies=(_deletes("ended_resources", "closed_at IS NOT NULL"),),
    ),
    TableAccess(
        table="run_event",
        grants=(
            *granted("SELECT", *_RUN_READERS, READ),
            *granted("INSERT", API, CONTROLLER, WORKER_RUN, RESOURCES),
            *granted("UPDATE", CONTROLLER, columns=("disposition",)),
        ),
    ),
    TableAccess(
        table="run_lease",
        grants=(
            *granted("SELECT", API, CONTROLLER, WORKER_RUN, READ),
            *granted("INSERT", CONTROLLER),
            *granted("UPDATE", CONTROLLER, columns=("priority", *_LEASE)),
            *granted("UPDATE", WORKER_RUN, columns=_LEASE),
            *granted("DELETE", CONTROLLER, WORKER_RUN),
        ),
    ),
    TableAccess(
        table="run_timer",
        grants=(
            *granted("SELECT", API, CONTROLLER, RESOURCES, READ),
            *granted("INSERT", API, CONTROLLER, RESOURCES),
            *granted("UPDATE", API, CONTROLLER, RESOURCES, columns=("due_at", "claimed_until")),
            *granted("DELETE", API, CONTROLLER, RESOURCES),
        ),
    ),
    TableAccess(
        table="resource",
        grants=(
            *granted("SELECT", *SERVICES, READ),
            *granted("INSERT", API, columns=(*_RESOURCE_IDENTITY, *_RESOURCE_SPEC)),
            *granted("UPDATE", API, columns=_RESOURCE_SPEC),
            *granted("UPDATE", WEBHOOK, RESOURCES, columns=_RESOURCE_STATUS),
            *granted("DELETE", API, WEBHOOK, RESOURCES),
        ),
        extra_policies=(_deletes("dying_resources", "deletion_at IS NOT NULL"),),
    ),
    TableAccess(
        table="resource_change",
        grants=(
            *granted("SELECT", API, WEBHOOK, READ),
            *granted("INSERT", API, WEBHOOK, RESOURCES),
        ),
    ),
    TableAccess(
        table="sealed_secret",
        grants=(
            *granted("SELECT", WORKER_RUN, WEBHOOK, CAPTURE),
            *granted("SELECT", API, READ, columns=_SECRET_LABEL),
            *granted("INSERT", API),
            *granted("UPDATE", API, columns=("expires_at",)),
            *granted("DELETE", API, WEBHOOK),
        ),
    ),
    TableAccess(
        table="outbox",
        grants=(
            *granted("INSERT", *SERVICES, columns=_EVENT),
            *granted("SELECT", RELAY, READ),
            *granted("SELECT", CONTROLLER, MAIL, WEBHOOK, columns=_SUBSCRIBER_COLUMNS),
            *granted("SELECT", RESOURCES, columns=("tenant_id", "partition_key", "sent_at")),
            *granted("UPDATE", RELAY, columns=("attempts", "last_error", "sent_at", "parked_at")),
        ),
        extra_policies=(
            Policy(name="relay", role=RELAY, using="true", check="true"),
            *(_types_of(role) for role in SERVICES),
            # webhook-service subscribes to all events, so its reads are not restricted by type.
            *(_subscriber_policy(role) for role in (CONTROLLER, MAIL)),
        ),
    ),
    TableAccess(
        table="inbox",
        grants=(
            *granted("SELECT", CONTROLLER, MAIL, WEBHOOK),
            *granted("INSERT", CONTROLLER, MAIL, WEBHOOK),
        ),
    ),
    TableAccess(
        table="webhook_message",
        grants=(
            *granted("SELECT", WEBHOOK),
            *granted("SELECT", API, columns=_MESSAGE_SHOWN),
            *granted("INSERT", WEBHOOK),
        ),
    ),
    TableAccess(
        table="webhook_action",
        grants=(
            *granted("SELECT", WEBHOOK, API, READ),
            *granted("INSERT", API),
            *granted("UPDATE", WEBHOOK, API, columns=_ACTION_PROGRESS),
            *granted("DELETE", WEBHOOK),
        ),
    ),
    TableAccess(
        table="webhook_delivery",
        grants=(
            *granted("SELECT", WEBHOOK, API, READ),
            *granted("SELECT", RESOURCES, columns=("tenant_id", "run_id", "state")),
            *granted("INSERT", WEBHOOK),
            *granted("UPDATE", WEBHOOK),
        ),
    ),
    TableAccess(
        table="webhook_attempt",
        grants=(
            *granted("SELECT", WEBHOOK, API, READ),
            *granted("INSERT", WEBHOOK),
            *granted("UPDATE", WEBHOOK),
        ),
    ),
    TableAccess(
        table="webhook_endpoint_state",
        grants=(
            *granted("SELECT", WEBHOOK, API, READ),
            *granted("INSERT", WEBHOOK, API),
            *granted("UPDATE", WEBHOOK, API),
        ),
    ),
    TableAccess(
        table="email_delivery",
        grants=(
            *granted("SELECT", MAIL),
            *granted("SELECT", API, columns=_MAIL_LOGGED),
            *granted("SELECT", READ, columns=_MAIL_SHOWN),
            *granted("INSERT", MAIL),
            *granted("INSERT", API, WEBHOOK, columns=_MAIL_LOGGED),
            *granted("UPDATE", MAIL),
            *granted("SELECT", RESOURCES, columns=_MAIL_RETENTION),
            *granted("DELETE", RESOURCES),
        ),
        extra_policies=(
            _deletes("terminal_resources", "state <> ALL ('{PENDING,SENDING}'::text[])"),
        ),
    ),
    TableAccess(
        table="email_attempt",
        grants=(
            *granted("SELECT", MAIL, API, READ),
            *granted("INSERT", MAIL),
            *granted("UPDATE", MAIL),
            *granted("SELECT", RESOURCES, columns=("tenant_id", "delivery_id")),
            *granted("DELETE", RESOURCES),
        ),
    ),
    TableAccess(
        table="email_unsubscribe",
        grants=(*granted("SELECT", MAIL, API), *granted("INSERT", API)),
    ),
    TableAccess(
        table="email_suppression",
        grants=(
            *granted("SELECT", MAIL, API),
            *granted("INSERT", MAIL, API),
            *granted("UPDATE", MAIL, API, columns=("reason", "reply", "created_at", "ends_at")),
            *granted("DELETE", API),
        ),
    ),
    TableAccess(
        table="email_bounce",
        grants=(
            *granted("SELECT", MAIL, API),
            *granted("INSERT", MAIL, API),
            *granted("DELETE", MAIL, API),
        ),
    ),
    TableAccess(
        table="report_link_revocation",
        grants=(
            *granted("SELECT", API),
            *granted("INSERT", API),
            *granted("UPDATE", API, columns=("revoked_at",)),
            *granted("SELECT", RESOURCES, columns=("tenant_id", "run_id")),
            *granted("DELETE", RESOURCES),
        ),
    ),
    TableAccess(
        table="retention_state",
        grants=(
            *granted("SELECT", API, RESOURCES, READ),
            *granted("INSERT", API),
            *granted("UPDATE", API, columns=("due_at",)),
            *granted("UPDATE", RESOURCES, columns=_SWEPT),
        ),
    ),
    TableAccess(
        table="resource_work",
        grants=(
            *granted("SELECT", API, RESOURCES, WORKER_RUN, READ),
            *granted("INSERT", API),
            *granted("UPDATE", API, WORKER_RUN, columns=_WORK_DUE),
            *granted("UPDATE", RESOURCES, columns=_WORK_SETTLED),
        ),
    ),
    TableAccess(
        table="schedule_state",
        grants=(
            *granted("SELECT", API, RESOURCES, READ),
            *granted("INSERT", API),
            *granted("UPDATE", API, columns=("due_at",)),
            *granted("UPDATE", RESOURCES, columns=_SCHEDULE_DECIDED),
        ),
    ),
    TableAccess(
        table="schedule_tick",
        grants=(
            *granted("SELECT", API, RESOURCES, READ),
            *granted("INSERT", RESOURCES),
            *granted("DELETE", RESOURCES),
        ),
    ),
    TableAccess(
        table="resource_check",
        grants=(
            *granted("SELECT", RESOURCES, WORKER_RUN, READ),
            *granted("INSERT", RESOURCES),
            *granted("UPDATE", RESOURCES, columns=_CHECK_REQUEST),
            *granted("UPDATE", WORKER_RUN, columns=_CHECK_END),
        ),
    ),
    *CATALOGUE_TABLES,
    *SINK_TABLES,
    TableAccess(
        table="notification_rule_state",
        grants=(
            *granted("SELECT", MAIL, API, READ),
            *granted("INSERT", MAIL),
            *granted("UPDATE", MAIL),
        ),
    ),
)


def main(names: list[str]) -> int:
    """Print the statements of the named tables and functions, to be pasted into a migration."""
    wanted = [access for access in TABLES if access.table in names]
    doors = [access for access in FUNCTIONS if access.name in names]
    lines = [line for access in wanted for line in table_statements(access)]
    lines += [line for access in doors for line in function_statements(access)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
