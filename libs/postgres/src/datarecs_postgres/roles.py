"""The database roles: their logins and services (spec security 5).

Names separate from rights, because bootstrap, the local stack and the tests need only the names,
while `rls` contains the rights.
"""

from collections.abc import Mapping

OWNER = "datarecs_owner"
"""Owns the schema and the definer functions; it is not a login."""
MIGRATE = "datarecs_migrate"
"""Member of the owner: only for migrations and `datarecs admin`."""
API = "datarecs_api"
CONTROLLER = "datarecs_controller"
WORKER_RUN = "datarecs_worker_run"
MAIL = "datarecs_mail"
WEBHOOK = "datarecs_webhook"
RESOURCES = "datarecs_resources"
"""Decides schedules."""
CAPTURE = "datarecs_capture"
"""Takes work items of captures."""
SINK = "datarecs_sink"
"""Takes tasks of sinks."""
RELAY = "datarecs_relay"
"""Outbox rows of all tenants and no other tenant table."""
READ = "datarecs_read"
"""Support: reads within one tenant, 30 s a statement."""

SERVICE_OF: Mapping[str, str] = {
    API: "core-api",
    CONTROLLER: "run-controller",
    WORKER_RUN: "reconciliation-worker",
    MAIL: "email-notifier",
    WEBHOOK: "webhook-service",
    RESOURCES: "resource-controller",
    CAPTURE: "capture-worker",
    SINK: "iceberg-sink",
}
"""The service that logs in with a role; `service_role` holds the same."""

SERVICES: tuple[str, ...] = tuple(SERVICE_OF)
UNPRIVILEGED: tuple[str, ...] = (*SERVICES, RELAY, READ)
"""Logins bound by row-level security."""
LOGINS: tuple[str, ...] = (MIGRATE, *UNPRIVILEGED)


def short_name(role: str) -> str:
    """`api` of `datarecs_api`: the last part of policy names."""
    return role.removeprefix("datarecs_")
