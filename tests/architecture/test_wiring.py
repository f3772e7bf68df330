"""The services as they are wired against the catalogue and the table of services (D10).

The subscriptions of a service are read from its wiring. Its emitted events are checked in three
places: the table here, the row policy of its database role, and the source it imports, which must
define the event.
"""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import grimp
import pytest

from datarecs_core.resources.resource import Kind
from datarecs_email_notifier import wiring as email_notifier
from datarecs_events.catalogue import (
    CATALOGUE,
    EVENT_TYPES_BY_SERVICE,
    SUBSCRIPTIONS,
    Service,
    definitions_of,
)
from datarecs_events.event_types import PREFIX
from datarecs_kafka.handling import Subscription
from datarecs_postgres.rls import TABLES
from datarecs_postgres.roles import SERVICE_OF
from datarecs_run_controller import wiring as run_controller
from datarecs_run_controller.handlers import Handlers as ControllerHandlers
from datarecs_webhook_service import wiring as webhook_service

if TYPE_CHECKING:
    from datarecs_email_notifier.handlers import Handlers as MailHandlers
    from datarecs_webhook_service.handlers import Handlers as WebhookHandlers

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [
    path.name for path in ROOT.glob("*/*/src/datarecs_*") if path.name != "datarecs_testing"
]


class Anything:
    """Replaces handlers with ports that no test here calls."""

    def plan_mails(self) -> None: ...

    def deliver(self) -> None: ...


WIRED: Mapping[Service, tuple[Subscription, ...]] = {
    Service.RUN_CONTROLLER: run_controller.subscriptions(ControllerHandlers()),
    Service.EMAIL_NOTIFIER: email_notifier.subscriptions(cast("MailHandlers", Anything())),
    Service.WEBHOOK_SERVICE: webhook_service.subscriptions(cast("WebhookHandlers", Anything())),
}
EMITTED: Mapping[Service, frozenset[str]] = {
    Service.CORE_API: frozenset(
        {
            "reconciliation.run.triggered",
            "reconciliation.run.cancel_requested",
            *(
                f"resource.{kind.lower()}.{verb}"
                for kind in Kind
                for verb in ("created", "updated", "status_updated", "deleted")
            ),
            "webhook.delivery.resend_requested",
            "webhook.delivery.replay_requested",
            "webhook.endpoint.test_requested",
            "capture.job.failed",
            "capture.job.cancelled",
        }
    ),
    Service.RUN_CONTROLLER: frozenset(
        {
            "reconciliation.run.queued",
            "reconciliation.run.queue_errored",
            "reconciliation.run.finalised",
            "reconciliation.run.cancelled",
        }
    ),
    Service.RECONCILIATION_WORKER: frozenset(
        {
            "reconciliation.run.extraction.",
            "reconciliation.run.comparison.",
            "reconciliation.run.stage.",
            "reconciliation.run.rows_processed",
            "reconciliation.run.completed",
            "reconciliation.run.errored",
        }
    ),
    Service.RESOURCE_CONTROLLER: frozenset(
        {
            "reconciliation.run.triggered",
            "reconciliation.run.cancel_requested",
            "resource.retentionpolicy.status_updated",
            "resource.connection.status_updated",
            "resource.connection.reconciled",
            "resource.connection.reconcile_failed",
            "resource.connection.finalized",
            "resource.connection.finalize_failed",
            "resource.connection.updated",
            "resource.connection.deleted",
            "resource.reconciliationjob.status_updated",
            "resource.reconciliationjob.reconciled",
            "resource.reconciliationjob.reconcile_failed",
            "resource.capture.status_updated",
            "resource.capture.reconciled",
            "resource.capture.reconcile_failed",
            "resource.sinktable.status_updated",
            "resource.sinktable.reconciled",
            "resource.sinktable.reconcile_failed",
            "resource.sinktable.finalized",
            "resource.sinktable.finalize_failed",
            "resource.sinktable.updated",
            "resource.sinktable.deleted",
        }
    ),
    Service.EMAIL_NOTIFIER: frozenset({"notification.email."}),
    Service.CAPTURE_WORKER: frozenset({"capture."}),
    Service.ICEBERG_SINK: frozenset({"sink."}),
    Service.WEBHOOK_SERVICE: frozenset(
        {
            "webhook.delivery.failed",
            "webhook.delivery.dead_lettered",
            "webhook.delivery.retried",
            "webhook.delivery.replayed",
            "webhook.endpoint.auto_disabled",
            "resource.webhookendpoint.updated",
            "resource.webhookendpoint.status_updated",
            "resource.webhookendpoint.deleted",
        }
    ),
}
"""The column "emits" of the table of services; a name that ends in a dot means its family."""


def received_types(subscription: Subscription, service: Service) -> frozenset[str]:
    """The types in a line of wiring; None means all granted types."""
    if subscription.events is None:
        return granted(service, subscription.topic)
    return frozenset(
        one.type for event_class in subscription.events for one in definitions_of(event_class)
    )


def granted(service: Service, topic: str) -> frozenset[str]:
    of_topic = frozenset(one.type for one in CATALOGUE if one.topic == topic)
    grants = [one for one in SUBSCRIPTIONS if one.service is service and one.topic == topic]
    return frozenset().union(*(of_topic if one.types is None else one.types for one in grants))


def package_of(service: Service) -> str:
    return f"datarecs_{service.replace('-', '_')}"


BUILT = [one for one in Service if package_of(one) in PACKAGES]


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, cache_dir=None)


@cache
def modules_of(service: Service) -> frozenset[str]:
    """Every module of ours that a service can load, however far down."""
    package = package_of(service)
    members = {package, *graph().find_descendants(package)}
    return frozenset(members | graph().find_upstream_modules(package, as_package=True))


@cache
def named_in(module: str) -> frozenset[str]:
    """Names a module uses; the modules that define and carry events do not count."""
    if module.endswith(".events") or module.startswith("datarecs_events"):
        return frozenset()
    (source,) = ROOT.glob(f"*/*/src/{module.partition('.')[0]}")
    path = source.parent.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return frozenset(
        [node.id for node in nodes if isinstance(node, ast.Name)]
        + [node.attr for node in nodes if isinstance(node, ast.Attribute)]
    )


@pytest.mark.case("ARC-16")
@pytest.mark.parametrize("service", Service)
def test_a_service_is_wired_to_what_the_catalogue_grants_it(service: Service) -> None:
    wired = {line.topic: received_types(line, service) for line in WIRED.get(service, ())}
    assert wired == {
        one.topic: granted(service, one.topic) for one in SUBSCRIPTIONS if one.service is service
    }


@pytest.mark.case("ARC-16")
@pytest.mark.parametrize("service", [one for one in BUILT if one not in WIRED])
def test_a_service_that_receives_nothing_has_no_consumer(service: Service) -> None:
    assert "datarecs_kafka.consumer" not in modules_of(service)


@pytest.mark.case("ARC-16")
@pytest.mark.parametrize("service", Service)
def test_a_service_may_emit_what_the_table_of_services_says(service: Service) -> None:
    allowed = {one.removeprefix(PREFIX) for one in EVENT_TYPES_BY_SERVICE[service]}
    assert allowed == {
        one.short_name
        for one in CATALOGUE
        for name in EMITTED[service]
        if one.short_name == name or (name.endswith(".") and one.short_name.startswith(name))
    }


@pytest.mark.case("ARC-16")
@pytest.mark.parametrize("service", SERVICE_OF.values())
def test_the_database_lets_a_service_emit_that_and_no_more(service: str) -> None:
    policies = next(table for table in TABLES if table.table == "outbox").extra_policies
    (policy,) = [
        one
        for one in policies
        if one.restrictive and one.check is not None and SERVICE_OF.get(one.role) == service
    ]
    types = str(policy.check).partition("{")[2].partition("}")[0].split(",")
    assert set(types) == EVENT_TYPES_BY_SERVICE[Service(service)]


@pytest.mark.case("ARC-16")
def test_every_emitter_knows_its_events() -> None:
    unknown = {
        event_class.__name__
        for service, event_class in {
            (s, one.event_class) for one in CATALOGUE for s in one.emitters if s in BUILT
        }
        if not any(event_class.__name__ in named_in(module) for module in modules_of(service))
    }
    assert unknown == set()
