"""The database roles: who logs in, and as which service (spec security 5).

Names apart from what they may do, because bootstrap, the local stack and the tests need the names
alone, while `rls` holds the rights.
"""

from collections.abc import Mapping

OWNER = "datarecs_owner"
"""Owns the schema and the definer functions; nobody logs in with it."""
MIGRATE = "datarecs_migrate"
"""Member of the owner: migrations and `datarecs admin` alone."""
API = "datarecs_api"
CONTROLLER = "datarecs_controller"
WORKER_RUN = "datarecs_worker_run"
MAIL = "datarecs_mail"
WEBHOOK = "datarecs_webhook"
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
}
"""The service that logs in with a role; `service_role` holds the same."""

SERVICES: tuple[str, ...] = tuple(SERVICE_OF)
UNPRIVILEGED: tuple[str, ...] = (*SERVICES, RELAY, READ)
"""Logins bound by row-level security."""
LOGINS: tuple[str, ...] = (MIGRATE, *UNPRIVILEGED)


def short_name(role: str) -> str:
    """`api` of `datarecs_api`: the last part of policy names."""
    return role.removeprefix("datarecs_")
